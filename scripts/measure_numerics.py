"""Measure the functions of `anydml.ir.numerics`: `python scripts/measure_numerics.py [-n 1000000] [names ...]`.

With `--engine cpu` it measures compiled code, a minute a function for 10^8 values. Prints for each the largest
error in FLOAT32, in units of the last place of the exact result, and where it is; and how many of the 65,536 numbers of
FLOAT16 have a result that is not correctly rounded. The judge is NumPy in float64.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.engines.reference.evaluate import _FUNCTIONS, evaluate  # private: before they are rounded to FLOAT32
from anydml.ir.expressions import FUNCTIONS, Expr, call, load
from anydml.ir.numerics import expand
from anydml.ir.trees import walk
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]


def exact(name: str, *args: Array) -> Array:
    """The results in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(_FUNCTIONS[name](*(arg.astype(np.float64) for arg in args)))


def tree_of(name: str, type: DataType) -> Expr:
    """A function from its arguments, of a type, to a result of that type."""
    return call(name, *(load(k, type).to(DataType.FLOAT32) for k in range(FUNCTIONS[name]))).to(type)


def run(name: str, *args: Array, half: bool = False) -> Array:
    """The results of the tree."""
    tree = tree_of(name, DataType.FLOAT16 if half else DataType.FLOAT32)
    return evaluate(expand(tree), args, args[0].shape)


def run_compiled(name: str, *args: Array, half: bool = False) -> Array:
    """The results of the cpu engine."""
    from anydml.engines.cpu import CpuEngine  # which needs LLVM

    type = DataType.FLOAT16 if half else DataType.FLOAT32
    found = np.empty_like(args[0])
    places = {str(k): array.ctypes.data for k, array in enumerate((*args, found))}
    *sources, target = (View(place, type, found.shape, (1,)) for place in places)
    CpuEngine().compile(Map(tuple(sources), target, tree_of(name, type))).bind(places)()
    return found


def errors(found: Array, wanted: Array) -> Array:
    """Distances in units of the exact result's last place; infinite where one is NaN, or a zero of the other sign."""
    limit = 2.0**128  # infinity is the float after the largest
    with np.errstate(all="ignore"):
        wide = np.clip(wanted, -limit, limit)
        _, power = np.frexp(wide)
        unit = np.ldexp(1.0, np.clip(power, -125, 128) - 24)
        error = np.abs(np.clip(found.astype(np.float64), -limit, limit) - wide) / unit
        turned = (found == 0) & (wanted == 0) & (np.signbit(found) != np.signbit(wanted))
        wrong = turned | (np.isnan(found) != np.isnan(wanted))
        return np.where(wrong, np.inf, np.where(np.isnan(wanted), 0, error))


POSITIVE = [
    0, 1, 0.5, 2, 3, 1e-45, 1.17549421e-38, 1.17549435e-38, 3.40282347e38, np.inf, np.nan, 88.72283, 89.41598, 89.5,
    103.97208, 104, 17.3, 1 - 2**-24, 1 + 2**-23, 16777216, 16777215, 8388607.5, 0.333, 65536, 1.5707964, 1e22, 14.5,
]  # fmt: skip
SPECIAL = np.array([*POSITIVE, *(-x for x in POSITIVE)], np.float32)


def samples(name: str, count: int, seed: int = 0) -> list[Array]:
    """Arguments over all bit patterns, and as many again where the function is neither constant nor linear."""
    rng = np.random.default_rng(seed)
    if FUNCTIONS[name] == 1:
        every = rng.integers(0, 1 << 32, count // 3, np.uint32).view(np.float32)
        near = rng.uniform(-1, 1, count // 3) * np.exp2(rng.uniform(-4, 8, count // 3))
        around = rng.uniform(-1.5, 1.5, count - 2 * (count // 3))
        return [np.concatenate([SPECIAL, every, near.astype(np.float32), around.astype(np.float32)])]
    every = rng.integers(0, 1 << 32, (2, count // 2), np.uint32).view(np.float32)
    a, b = rng.uniform(-1, 1, (2, count // 2)) * np.exp2(rng.uniform(-8, 8, (2, count // 2)))
    if name == "pow":
        # bases near 1 with large exponents, results over the whole range
        a = np.exp2(rng.uniform(-8, 8, a.size) * np.exp2(-rng.integers(0, 20, a.size)))
        b = rng.uniform(-150, 150, a.size) / np.log2(a)
        k = a.size // 8
        a[:k], b[:k] = -rng.integers(1, 100, k).astype(float), rng.integers(-30, 30, k)
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    return [np.concatenate([p, e, n.astype(np.float32)]) for p, e, n in zip(pairs, every, (a, b), strict=True)]


def halves(name: str, pairs: int = 300_000, run: Callable[..., Array] = run) -> Array:
    """The FLOAT16 arguments whose result is not the nearest: of all, or of so many random pairs."""
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    args = [x]
    if FUNCTIONS[name] == 2:
        rng = np.random.default_rng(1)
        args = [x[rng.integers(0, 65536, pairs)] for _ in range(2)]
    with np.errstate(all="ignore"):
        wanted = exact(name, *args).astype(np.float16)
    found = run(name, *args, half=True)
    return np.stack(args)[:, ~((found == wanted) | (np.isnan(found) & np.isnan(wanted)))]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=("reference", "cpu"), default="reference")
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    options = parser.parse_args()
    compute = run_compiled if options.engine == "cpu" else run
    for name in options.names:
        worst, where = 0.0, ""
        for start in range(0, options.n, 1_000_000):
            args = samples(name, min(1_000_000, options.n - start), seed=start)
            wanted, found = exact(name, *args), compute(name, *args)
            error = errors(found, wanted)
            k = int(error.argmax())
            if error[k] > worst:
                given = ", ".join(repr(float(arg[k])) for arg in args)
                worst, where = float(error[k]), f" at {given}: {float(found[k])!r} for {float(wanted[k])!r}"
        tree = expand(tree_of(name, DataType.FLOAT32))
        size = sum(node.op not in ("const", "load", "bits") for node in walk(tree))
        bad = halves(name, run=compute)
        halved = f"{bad.shape[1]} of FLOAT16 not nearest {bad[:, :3]}"
        print(f"{name:8} {size:4} operations  {worst:5.3f} ulp{where}; {halved}", flush=True)


if __name__ == "__main__":
    main()
