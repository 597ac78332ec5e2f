"""The cuda engine's reduces against the reference: on a GPU, or interpreted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agreement import framed, padded, run, values, view
from anydml.core.enums import DataType
from anydml.engines.cuda import CudaEngine, is_interpreted
from anydml.engines.reference import ReferenceEngine
from anydml.ir import expressions as ex
from anydml.ir.verbs import Reduce
from places import why_not_interpreted
from trees import numbers, room, source

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.expressions import Expr

pytestmark = [pytest.mark.sampled(interpreted=3), pytest.mark.check_bounds]

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

Array = np.ndarray[Any, Any]
CUDA, REFERENCE = CudaEngine(), ReferenceEngine()
F16, F32, F64, I64 = (DataType(name) for name in ("float16", "float32", "float64", "int64"))
X, Y, Z = (ex.load(slot, F32) for slot in range(3))
LENGTHS = (1, 7, 32, 70) if is_interpreted() else (1, 7, 256, 1000, 16384, 40000)
"""Of rows that a tile holds, evenly and not, and of longer ones."""
COLUMNS = [(3, 70), (40, 5), (90, 17)] if is_interpreted() else [(1000, 300), (3, 5000), (70000, 64)]


def reduced(engine: Any, value: Expr, depth: int, target: Array, *sources: Array) -> Array:
    named = {f"source{slot}": array for slot, array in enumerate(sources)}
    views = tuple(view(name, array) for name, array in named.items())
    return run(engine, Reduce(views, view("target", target), value, depth), **named, target=target)


def agree(value: Expr, depth: int, target: Array, *sources: Array, rtol: float = 0.0) -> Array:
    """On both engines; sums of floats differ by their order."""
    wanted = reduced(REFERENCE, value, depth, target, *sources)
    got = reduced(CUDA, value, depth, target, *sources)
    if rtol:
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(got, wanted)
    return got


def softmax(x: Expr) -> Expr:
    power = ex.call("exp", x - ex.fold("max", x))
    return power / ex.fold("sum", power)


def layer_norm(x: Expr, scale: Expr, bias: Expr, length: int) -> Expr:
    apart = x - ex.fold("sum", x) / float(length)
    variance = ex.fold("sum", apart * apart) / float(length)
    return apart / ex.sqrt(variance + 1e-5) * scale + bias


def test_short_rows_of_float16() -> None:
    """The last tile may lack rows. With the hardware's powers a result is off by half of its last digit and no more."""
    for count in (40, 43) if is_interpreted() else (2**17, 2**17 + 3):
        x = (20 * np.random.default_rng(count).standard_normal((count, 7))).astype("float16")
        x[1, 2], x[2], x[3, 4], x[4, 5] = -np.inf, -np.inf, np.nan, np.inf
        value = softmax(ex.load(0, F16).to(F32))
        got = agree(value.to(F16), 1, framed(np.zeros(x.shape, "float16")), x, rtol=2e-3)
        exact = reduced(CUDA, value, 1, np.zeros(x.shape, "float32"), x)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
        there = ~np.isnan(exact)
        off = np.abs(got[there] - exact[there]) / np.spacing(exact[there].astype("float16"))
        assert off.max() <= 0.501


@pytest.mark.parametrize("function", ["sum", "product", "max", "min"])
@pytest.mark.parametrize("of", list(DataType))
def test_every_fold_of_every_type(function: str, of: DataType) -> None:
    chance = np.random.default_rng(1)
    for length in LENGTHS:
        x = numbers(chance, (5, length), of)
        if of.is_float and function in ("sum", "product"):
            x = np.asarray(1 + chance.random((5, length)) / length, of.dtype)
        is_exact = not of.is_float or function in ("max", "min")
        rtol = 0 if is_exact else 2e-3 if of is F16 else 1e-4
        agree(ex.fold(function, ex.load(0, of)), 1, framed(np.zeros((5, 1), of.dtype)), x, rtol=rtol)


def test_not_a_number_is_the_largest_and_the_smallest() -> None:
    x = values((4, LENGTHS[-1]), "float32")
    x[1, -1], x[2, 0] = np.nan, np.nan
    for function in ("max", "min"):
        got = agree(ex.fold(function, X), 1, framed(np.zeros((4, 1), "float32")), x)
        assert np.isnan(got[:, 0]).tolist() == [False, True, True, False]


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_that_are_written(length: int) -> None:
    x = values((3 if is_interpreted() else 900, length), "float32")
    scale, bias = (np.broadcast_to(values((1, length), "float32", seed), x.shape) for seed in (1, 2))
    for layout in (framed, padded):
        agree(softmax(X), 1, layout(x), x, rtol=2e-6)
        agree(layer_norm(X, Y, Z, length), 1, layout(x), x, scale, bias, rtol=2e-5)
    half = x.astype("float16")
    agree(softmax(ex.load(0, F16).to(F32)).to(F16), 1, framed(half), half, rtol=2e-3)


@pytest.mark.parametrize("shape", COLUMNS)
def test_columns(shape: tuple[int, int]) -> None:
    """Rows whose neighbours in memory are of other rows."""
    x = values(shape, "float32").T
    total = ex.fold("sum", X.to(F64))
    agree((total / 3.0).to(F32), 1, framed(np.zeros((shape[1], 1), "float32")), x, rtol=1e-6)
    agree(softmax(X), 1, framed(x), x, rtol=2e-6)
    agree(ex.fold("max", X) - ex.fold("min", X), 1, framed(np.zeros((shape[1], 1), "float32")), x)


@pytest.mark.parametrize("count", [700, 1024] if is_interpreted() else [10**6 + 3, 2**22])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_that_several_programs_share(count: int, rows: int) -> None:
    x, y = values((rows, count), "float32"), values((rows, 1), "float32")
    target = framed(np.zeros((rows, 1), "float32"))
    other = np.broadcast_to(y, x.shape)
    value = (ex.fold("sum", (X * X).to(F64)).to(F32) + ex.fold("max", X)) * Y
    agree(value, 1, target, x, other, rtol=1e-5)
    first = reduced(CUDA, value, 1, target, x, other)
    np.testing.assert_array_equal(first, reduced(CUDA, value, 1, target, x, other))
    agree(ex.fold("sum", ex.coordinate(1)), 1, framed(np.zeros((rows, 1), "int64")), x)


def test_where_the_largest_is() -> None:
    x = numbers(np.random.default_rng(2), (6, LENGTHS[-1]), DataType("int8"))
    value = ex.load(0, DataType("int8"))
    largest = value.equals(ex.fold("max", value))
    place = ex.fold("min", ex.where(largest, ex.coordinate(1), ex.const(x.shape[1], I64)))
    got = agree(place.to(DataType("uint32")), 1, framed(np.zeros((6, 1), "uint32")), x)
    np.testing.assert_array_equal(got[:, 0], x.argmax(1))


@pytest.mark.parametrize("seed", range(12 if is_interpreted() else 40))
def test_random_layouts(seed: int) -> None:
    """Any number of dimensions, in any order, backwards, repeated and with gaps."""
    chance = np.random.default_rng(seed)
    shape = tuple(int(n) for n in chance.integers(1, 5, chance.integers(1, 6)))
    depth = int(chance.integers(1, len(shape) + 1))
    small = [np.asarray(source(chance, shape, DataType("int16"))) for _ in range(2)]
    is_by_row = bool(chance.integers(2))
    sizes = (*shape[:-depth], *(1,) * depth) if is_by_row else shape
    a, b = (ex.load(slot, DataType("int16")).to(I64) for slot in range(2))
    number = ex.coordinate(int(chance.integers(len(shape))))
    table = numbers(chance, (7, 3), DataType("int16"))
    place = [ex.coordinate(int(chance.integers(len(shape)))) * 2 - 1, a & 3]
    taken = ex.fetch_or(2, DataType("int16"), place, table.shape, ex.const(5, DataType("int16"))).to(I64)
    total = ex.fold("sum", a * b + number) + ex.fold("max", b + taken)
    value = total if is_by_row else ex.fold("min", total - a) + a * number - taken
    agree(value, depth, room(chance, sizes, I64), *small, table)


def test_quotients_by_row_are_rounded_once() -> None:
    chance = np.random.default_rng(4)
    x = np.nan_to_num(numbers(chance, (40, LENGTHS[-1]), F32)).clip(-(2.0**60), 2.0**60)
    x[np.abs(x) < 2.0**-60] = 0
    x[3, 0], x[4, 1] = np.inf, -np.inf
    by = np.broadcast_to(values((40, 1), "float32"), x.shape).copy()
    by[0], by[1], by[2] = 0, np.inf, 2.0**-130
    agree(X / ex.fold("max", Y), 1, framed(x), x, by)


def test_elements_at_computed_places() -> None:
    x, table = values((5, LENGTHS[-1]), "float32"), values((7, 3), "float32", 1)
    sources = {"source0": x, "source1": table}
    views = tuple(view(name, array) for name, array in sources.items())
    by_row = ex.fetch(1, F32, [ex.coordinate(0), ex.const(2, I64)])
    along = ex.fetch(1, F32, [ex.coordinate(1) % 7, ex.coordinate(0) % 3])
    value = (X + along) * by_row + ex.fold("max", X * along)
    found = []
    for engine in (CUDA, REFERENCE):
        target = framed(np.zeros_like(x))
        found.append(run(engine, Reduce(views, view("target", target), value, 1), **sources, target=target))
    ours, theirs = found
    np.testing.assert_array_equal(ours, theirs)


def test_in_place() -> None:
    x = framed(np.zeros((3, LENGTHS[-1]), np.float32))
    x[...] = before = values(x.shape, "float32")
    whole = view("target", x)
    got = run(CUDA, Reduce((whole,), whole, softmax(X), 1), target=x)
    power = np.exp(before - before.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(got, power / power.sum(1, keepdims=True), rtol=1e-5)


def test_one_kernel_serves_every_number_of_the_users() -> None:
    makers: list[Callable[[float], Expr]] = [lambda number: ex.fold("sum", X * ex.given(number, F32))]
    x = values((3, 20), "float32")
    for make in makers:
        programs = [CUDA.compile(Reduce((view("x", x),), view("y", x[:, :1]), make(n), 1)) for n in (1.5, np.inf)]
        assert len({program.steps[0][0].function for program in programs}) == 1  # type: ignore[attr-defined]  # the cuda engine's program
