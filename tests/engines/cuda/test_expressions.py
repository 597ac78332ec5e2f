"""The cuda engine's generated kernels against the reference, bit for bit: on a GPU, or interpreted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agreement import assert_same, framed, run, values, view
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines.cuda import CudaEngine, is_interpreted
from anydml.engines.reference import ReferenceEngine
from anydml.ir import expressions as ex
from anydml.ir.numerics import expand
from anydml.ir.trees import walk
from anydml.ir.verbs import Map
from places import why_not_interpreted
from trees import Fetched, Trees, fetched_of, numbers, room, shape_of, source

if TYPE_CHECKING:
    from anydml.engines.cuda.rows.map import MapProgram
    from anydml.ir.expressions import Expr

pytestmark = [pytest.mark.sampled(interpreted=2), pytest.mark.check_bounds]

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

Array = np.ndarray[Any, Any]
CUDA, REFERENCE = CudaEngine(), ReferenceEngine()
WHOLE_TILES = CudaEngine()
if is_interpreted():  # numbers alone, without the many programs that small tiles make
    WHOLE_TILES._figures = replace(WHOLE_TILES._figures, tile=4096)
TYPES = list(NUMPY_TYPES)
F16, F32, F64 = DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64
SEEDS = range(40 if is_interpreted() else 100)
MOST = 300 if is_interpreted() else 5000


def compute(engine: Any, value: Expr, target: Array, *sources: Array) -> Array:
    """What an engine makes of a map."""
    named = {f"source{slot}": array for slot, array in enumerate(sources)}
    views = tuple(view(name, array) for name, array in named.items())
    return run(engine, Map(views, view("target", target), value), **named, target=target)


def agree(value: Expr, target: Array, *sources: Array, engine: CudaEngine = CUDA) -> Array:
    """Compute a map on both engines, functions written out, and compare."""
    wanted = compute(REFERENCE, expand(value), target, *sources)
    got = compute(engine, value, target, *sources)
    assert_same(got, wanted, value)
    return got


def drawn(seed: int) -> tuple[Expr, list[Fetched], tuple[int, ...]]:
    """A random tree, of the type that the seed says, what it reads, and the sizes of the walk."""
    chance = np.random.default_rng(seed)
    sources = [TYPES[k] for k in chance.integers(0, len(TYPES), chance.integers(0, 4))]
    shape = shape_of(chance, MOST)
    elsewhere = fetched_of(chance, shape, TYPES)
    value = Trees(seed, sources, shape, fetched=elsewhere).grow(TYPES[seed % len(TYPES)], 4)
    return value, [*((one, shape) for one in sources), *elsewhere], shape


@pytest.mark.parametrize("seed", SEEDS)
def test_random_trees(seed: int) -> None:
    value, sources, shape = drawn(seed)
    assert value.type is not None
    chance = np.random.default_rng(seed)
    agree(value, room(chance, shape, value.type), *(source(chance, sizes, one) for one, sizes in sources))


def test_random_trees_are_of_every_operation() -> None:
    found = {node.op for seed in SEEDS for node in walk(drawn(seed)[0])}
    assert found == {*ex.OPERATIONS, *ex.LEAVES, "fetch"}


@pytest.mark.parametrize("function", ex.FUNCTIONS)
def test_functions(function: str) -> None:
    chance = np.random.default_rng(3)
    count = MOST if is_interpreted() else 2**20
    sources = [numbers(chance, (count,), F32) for _ in range(ex.FUNCTIONS[function])]
    value = ex.call(function, *(ex.load(slot, F32) for slot in range(len(sources))))
    agree(value, framed(sources[0]), *sources, engine=WHOLE_TILES)
    if len(sources) == 1:
        halves = np.arange(0, 1 << 16, 67 if is_interpreted() else 1, dtype=np.uint16).view(np.float16)
        agree(ex.call(function, ex.load(0, F16).to(F32)).to(F16), framed(halves), halves, engine=WHOLE_TILES)


@pytest.mark.parametrize("of", [F32, F64])
@pytest.mark.parametrize("rounded", [ex.floor, ex.ceil, ex.trunc, ex.rint])
def test_whole_numbers(of: DataType, rounded: Any) -> None:
    digits = np.finfo(of.dtype).nmant
    steps = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.5, *(2.0**digits + k / 2 for k in range(-4, 4)), 1e30, np.inf])
    steps = np.concatenate([steps, 2.0 ** (digits - 1) + np.arange(-3, 3) / 4, [np.finfo(of.dtype).smallest_subnormal]])
    x = np.concatenate([steps, -steps, [np.nan]]).astype(of.dtype)
    agree(rounded(ex.load(0, of)), framed(x), x, engine=WHOLE_TILES)


def test_fma_rounds_once() -> None:
    """A product and a sum in float64 would round twice: 2^-60 of the product decides."""
    a, b, c = (np.array([x], np.float32) for x in (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60))
    got = agree(ex.fma(ex.load(0, F32), ex.load(1, F32), ex.load(2, F32)), framed(a), a, b, c)
    assert got == np.float32(1 + 2.0**-11 + 2.0**-23)


@pytest.mark.parametrize("shape", [(3, 70), (5, 64), (3, 7, 5, 6)])
def test_rows_and_columns_that_repeat(shape: tuple[int, ...]) -> None:
    """Every pair of a dimension that one source repeats, and one that the other does, over several tiles."""
    x, y = (ex.load(slot, F32) for slot in (0, 1))
    for k in range(len(shape)):
        one, other = (np.broadcast_to(values([1 if j == d else n for j, n in enumerate(shape)], "float32"), shape)
                      for d in (k, (k + 1) % len(shape)))  # fmt: skip
        agree(x - y, framed(one), one, other)
        agree(x - y, framed(one.T).T, one, np.asfortranarray(other))


def test_in_place() -> None:
    x = framed(np.zeros((3, 50), np.float32))
    x[...] = before = values((3, 50), "float32")
    whole = view("target", x)
    value = ex.load(0, F32) * ex.load(1, F32) + 1.0
    got = run(CUDA, Map((whole, whole), whole, value), target=x)
    assert_same(got, before * before + np.float32(1))


def test_one_kernel_serves_every_number_of_the_users() -> None:
    x = values((33,), "float32")
    seen = set()
    for number in (1.5, -0.0, np.inf, 1e-45):
        value = ex.load(0, F32) * ex.given(number, F32)
        agree(value, framed(x), x)
        program: MapProgram = CUDA.compile(Map((view("x", x),), view("y", x), value))  # type: ignore[assignment]  # the cuda engine's program
        seen.add(program.kernel.function)
    assert len(seen) == 1


def test_a_test_of_numbers_alone_beside_one_of_elements() -> None:
    x = values((33,), "float32")
    for number in (1.0, 2.0):
        test = (ex.given(number, F32) < 1.5) | (ex.load(0, F32) < 0.0)
        agree(ex.where(test, ex.load(0, F32), 5.0), framed(x), x)


def test_a_number_alone() -> None:
    for of in TYPES:
        ends = np.finfo(of.dtype) if of.is_float else np.iinfo(of.dtype)
        more = (-0.0, np.inf, -np.inf, np.nan, float(ends.smallest_subnormal)) if isinstance(ends, np.finfo) else ()
        for number in (0, 3, ends.min, ends.max, *more):
            for made in (ex.const, ex.given):
                agree(made(number, of), framed(np.zeros((3, 4), of.dtype)), engine=WHOLE_TILES)
