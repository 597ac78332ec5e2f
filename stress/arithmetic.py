"""Arithmetic: graphs of element-wise operators on integers and floats, whose bits are the same on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from doors import as_list
from stress.doors import at_once
from stress.work import Array, Work, judged

if TYPE_CHECKING:
    import random

STEPS = ("add", "subtract", "multiply", "max", "min", "negate", "difference_square", "relu", "recip", "clip")
WHOLE = ("add", "subtract", "multiply", "max", "min", "bit_xor", "bit_not", "modulus_floor", "divide", "clip")
TYPES = ("float32", "float16", "int32", "uint8", "uint16")


def arithmetic(rng: random.Random) -> Work:
    """Up to 10 operators on two arrays, one of them broadcast at times: called, or dispatched by several threads."""
    dtype = rng.choice(TYPES)
    names = [rng.choice(STEPS if dtype.startswith("f") else WHOLE) for _ in range(rng.randint(1, 10))]
    shape = rng.choice(((4, 4), (1, 7), (33, 65), (3, 50_000), (700, 301)))
    numbers = np.random.default_rng(rng.getrandbits(32))
    x, y = (_array(numbers, dtype, shape) for _ in range(2))
    y = y[:1] if rng.random() < 0.3 else np.asfortranarray(y) if rng.random() < 0.3 else y
    picks, optimise, is_bound = [rng.random() < 0.5 for _ in names], rng.random() < 0.8, rng.random() < 0.5

    def run(engine: str) -> list[Array]:
        graph = dml.Graph(engine)
        a, b = (graph.input(array) for array in (x, y))
        made = dml.add(a, b)
        for name, has_first in zip(names, picks, strict=True):
            made = _apply(name, made, a if has_first else b)
        program = graph.compile(made, optimise=optimise)
        if not is_bound or engine == "reference":
            return as_list(program(x, y))
        out = np.empty(shape, dtype)
        at_once(program.bind(x, y, out=out).dispatch)
        return [out]

    about = f"{dtype} {shape} {names} {'bound' if is_bound else 'called'}"
    return Work("arithmetic", about, lambda: run("reference"), lambda: run(judged()))


def _apply(name: str, a: Any, b: Any) -> Any:
    function = getattr(dml, name)
    if name == "clip":
        return function(a, 1, 50)
    return function(a) if name in ("negate", "relu", "recip", "bit_not") else function(a, b)


def _array(numbers: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    if dtype.startswith("f"):
        return (numbers.standard_normal(shape) * 8).astype(dtype)
    limits = np.iinfo(dtype)
    return numbers.integers(limits.min, limits.max, shape, dtype, endpoint=True)
