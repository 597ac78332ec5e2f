"""Maps, fills and reversals of the cpu engine: the reference's bits, for every pair of types and any layout."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same, values
from anydml.core.enums import NUMPY_TYPES
from anydml.engines.cpu import CpuEngine, schedules
from anydml.engines.cpu.families import figures
from anydml.engines.reference import ReferenceEngine, ReferenceProgram
from anydml.ir.fetches import reversal
from anydml.ir.patterns import filled, scaled
from anydml.ir.views import View
from guarded import guarded
from kernel_families import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.ir.verbs import Primitive

pytestmark = [pytest.mark.sampled(8), pytest.mark.check_bounds]

Array = np.ndarray[Any, Any]
TYPES = [str(t.dtype) for t in NUMPY_TYPES]
LARGE = 2_300_000
"""Bytes that several threads share, in several segments."""


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = dml.get_num_threads()
    dml.set_num_threads(request.param)
    yield request.param
    dml.set_num_threads(before)


@pytest.fixture(params=["through the cache", "past the cache"])
def stores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of stores, at any size."""
    if request.param == "past the cache":
        monkeypatch.setattr(figures().rows, "stream_from", 0)
        monkeypatch.setattr(figures().rows, "streams", True)
    return str(request.param)


# What is compared


def view(name: str, array: Array) -> View:
    strides = tuple(s // array.itemsize for s in array.strides)
    return View(name, dml.DataType(array.dtype), array.shape, strides)


def run(engine: CpuEngine | ReferenceEngine, primitive: Primitive, arrays: dict[str, Array]) -> None:
    places = {name: int(array.__array_interface__["data"][0]) for name, array in arrays.items()}
    engine.compile(primitive).bind(places)()


def root(array: Array) -> Array:
    """All of the memory that an array is a part of, gaps and all."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def same(primitive: Primitive, **arrays: Array) -> Array:
    """Run on both engines: the same bits in the target, and in everything around it. Returns the target."""
    target = arrays[primitive.target.tensor]
    memory = root(target)
    before = memory.copy()
    run(CpuEngine(), primitive, arrays)
    got, around = target.copy(), memory.copy()
    memory[...] = before
    run(ReferenceEngine(), primitive, arrays)
    assert_same(got, target, primitive)
    assert_same(around.reshape(-1), memory.reshape(-1), "something was written outside the target")
    return got


def empty(shape: Any, dtype: str, *, layout: str = "packed") -> Array:
    """A target inside a frame of other memory."""
    size = int(np.prod(shape))
    flat = np.full(2 * size + 32, 7, dtype)
    packed = flat[16 : 16 + size].reshape(shape)
    if layout == "columns":
        return packed.reshape(shape[::-1]).T
    if layout == "backward":
        return packed[(slice(None, None, -1),) * len(shape)]
    if layout == "padded":
        return flat[16 : 16 + 2 * size : 2].reshape(shape)
    return packed


def telling(dtype: str) -> Array:
    """Numbers at which conversions differ: ends of ranges, ties, the first that a float leaves out, and any."""
    powers = [2**k for k in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)]
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        near = [sign * (p + d) for p in powers for d in (-2, -1, 0, 1, 2, 3) for sign in (1, -1)]
        whole_ties = [2**25 + 2, 2**25 + 6, 2**54 + 2, 2**54 + 6, 2**40 + 2**16, 2**40 + 2**16 + 1, 2**63 + 2**39 + 1]
        inside = [n for n in (*near, *whole_ties, limits.min, limits.max) if limits.min <= n <= limits.max]
        return np.concatenate([np.array(inside, dtype), values(700, dtype)])
    ends = [p + d for p in powers for d in (-2.0, -1.0, -0.5, -(2.0**-20), 0.0, 2.0**-20, 0.5, 1.0, 1.5)]
    halves = [0.0, 0.5, 0.999, 1.5, 2.5, 65504.0, 65519.999, 65520.0, 2.0**-14, 2.0**-24, 2.0**-25, 3 * 2.0**-25]
    ties = [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11, 1 + 2.0**-24, 3.4028235677973366e38, 1e300, 5e-324]
    some = np.array([*ends, *halves, *ties, np.inf, np.nan])
    spread = np.ldexp(values(700, "float64"), np.random.default_rng(1).integers(-30, 70, 700))
    with np.errstate(over="ignore"):
        return np.asarray(np.concatenate([some, -some, spread, spread % 70_000, spread % 200]), dtype)


# Maps


def are_moved(source: str, target: str) -> bool:
    """Whether bits do: equal types, and integers of one width."""
    return source == target or (
        "float" not in source + target and np.dtype(source).itemsize == np.dtype(target).itemsize
    )


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_every_pair(source: str, target: str, stores: str) -> None:
    x = telling(source)
    some = (x, x[1:66], x[::-1], x[::3], np.broadcast_to(x[5], 40))
    for numbers in some[:2] if are_moved(source, target) else some:  # copies have tests of their own
        y = empty(numbers.shape, target)
        same(scaled(view("x", numbers), view("y", y)), x=numbers, y=y)
    if not are_moved(source, target):
        y = empty(x.shape, target, layout="padded")
        same(scaled(view("x", x), view("y", y)), x=x, y=y)


@pytest.mark.parametrize("shift", range(0, len(TYPES), 3))
def test_scales(shift: int, stores: str) -> None:
    """A third of the pairs, every type a source and a target among them: their lines are made of the same parts."""
    for source, target in zip(TYPES, TYPES[shift:] + TYPES[:shift], strict=True):
        x = telling(source)
        for scale, bias in ((1.0, 0.1), (0.1, 0.0), (-1.7, 3.3), (1e-9, -4e9), (0.0, -0.0), (np.inf, 1.0)):
            y = empty(x.shape, target)
            same(scaled(view("x", x), view("y", y), scale, bias), x=x, y=y)


def test_a_product_and_a_sum_are_each_rounded() -> None:
    """A fused multiply-add of these would leave 2^-60 where two roundings leave 0."""
    x = np.full(200, 1 + 2.0**-30)
    y = np.zeros(200)
    product = x[0] * x[0]
    assert not same(scaled(view("x", x), view("y", y), float(x[0]), -float(product)), x=x, y=y).any()
    counted = np.zeros(200)
    delta = 1 / 3
    got = same(filled(view("y", counted), -delta * 3, delta), y=counted)
    assert got[3] == 3 * delta - delta * 3


LAYOUTS = ["packed", "columns", "backward", "padded"]


@pytest.mark.parametrize("pair", [("float32", "float16"), ("int64", "float32"), ("uint8", "int64")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(pair: tuple[str, str], layout: str, threads: int, stores: str) -> None:
    source, target = pair
    for shape in ((1,), (1, 1, 1), (5, 130), (130, 5), (3, 4, 70), (2, 3, 1, 2, 3, 2, 1, 67), (2,) * 8):
        base = values(shape, source)
        flipped = base[(slice(None, None, -1),) * base.ndim]
        for x in (base, np.asfortranarray(base), flipped, np.broadcast_to(base[:1], shape), base[..., :1] + base * 0):
            y = empty(shape, target, layout=layout)
            same(scaled(view("x", x), view("y", y)), x=x, y=y)


@pytest.mark.parametrize("pair", [("float64", "uint8"), ("int8", "float64"), ("float32", "int32"), ("uint64", "int64")])
def test_large_maps(pair: tuple[str, str], threads: int, stores: str) -> None:
    source, target = pair
    x = values(LARGE, source)
    y = empty(x.shape, target)
    same(scaled(view("x", x), view("y", y)), x=x, y=y)


@pytest.mark.parametrize("pair", [("float32", "int32"), ("int64", "float64"), ("uint16", "int16")])
def test_in_place(pair: tuple[str, str], threads: int, stores: str) -> None:
    source, target = pair
    for x in (telling(source), values((300, 1001), source), values((70, 90), source).T, values(400, source)[::-2]):
        wanted = empty(x.shape, target)
        run(ReferenceEngine(), scaled(view("x", x), view("y", wanted)), {"x": x, "y": wanted})
        held = x.view(target)
        run(CpuEngine(), scaled(view("x", x), view("y", held)), {"x": x, "y": held})
        assert_same(held, wanted, pair)


def test_integers_of_one_width_are_copied() -> None:
    for source, target in itertools.product(TYPES, TYPES):
        x, y = np.zeros(4, source), np.zeros(4, target)
        program = CpuEngine().compile(scaled(view("x", x), view("y", y)))
        assert (family_of(program) == "copy") == are_moved(source, target)


# Fills


@pytest.mark.parametrize("dtype", TYPES)
def test_fills(dtype: str, threads: int, stores: str) -> None:
    pairs: list[tuple[Any, Any]] = [
        (0.1, 1 / 3),
        (-0.0, 0.0),
        (np.nan, -0.0),
        (65504.0, 7.0),
        (-np.inf, 1.0),
        (1.0, -1e37),
    ]
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        pairs = [(3, 5), (limits.max, 1), (limits.min, -7), (limits.max, 0), (1, 2**40 + 3), (0, limits.max)]
    for start, delta in pairs:
        for shape, layout in (
            ((999,), "packed"),
            ((7, 5, 70), "columns"),
            ((33, 65), "backward"),
            ((40, 3, 5), "padded"),
        ):
            y = empty(shape, dtype, layout=layout)
            same(filled(view("y", y), start, delta), y=y)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8"])
def test_large_fills(dtype: str, threads: int, stores: str) -> None:
    for delta in (0, 3):
        for layout in ("packed", "backward"):
            y = empty((2, LARGE // 2), dtype, layout=layout)
            same(filled(view("y", y), 5, delta), y=y)


# Reversals


def lengths_of(shape: tuple[int, ...], axis: int, dtype: str, how: str) -> Array:
    """Lengths of every kind: each its own, equal ones beside one another, or one for all that lies inside."""
    rng = np.random.default_rng(7)
    across = tuple(1 if k == axis else n for k, n in enumerate(shape))
    lengths = rng.integers(0, shape[axis] + 3, across).astype(dtype)
    lengths.reshape(-1)[::5] = np.iinfo(dtype).max
    if how == "runs":
        lengths = np.repeat(lengths, 6, axis=-1)[..., : across[-1]]
    if how == "shared":
        lengths = np.broadcast_to(lengths[..., :1], across)
    return lengths


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
@pytest.mark.parametrize("how", ["each", "runs", "shared"])
def test_reversals(dtype: str, how: str, threads: int, stores: str) -> None:
    shapes = [(301,), (5, 130), (130, 5), (4, 30, 70)]
    if dtype == "int32":  # an axis of size 1 is a copy, which has tests of its own
        shapes += [(1, 1), (9, 1, 130), (2, 3, 1, 2, 3, 2, 1, 67)]
    for shape in shapes:
        base = values(shape, dtype)
        for axis, x in itertools.product(range(len(shape)), (base, np.asfortranarray(base), base[..., ::-1])):
            for kind, layout in (("uint32", "packed"), ("uint64", "columns"), ("uint32", "backward")):
                y, lengths = empty(shape, dtype, layout=layout), lengths_of(shape, axis, kind, how)
                same(reversal(view("x", x), view("n", lengths), view("y", y), axis), x=x, n=lengths, y=y)


@pytest.mark.parametrize("shape", [(2, LARGE // 2), (LARGE // 2, 2), (1000, LARGE // 1000)])
def test_large_reversals(shape: tuple[int, ...], threads: int, stores: str) -> None:
    x = values(shape, "uint16")
    for axis, how in itertools.product((0, 1), ("each", "runs", "shared")):
        y, lengths = empty(shape, "uint16"), lengths_of(shape, axis, "uint64", how)
        same(reversal(view("x", x), view("n", lengths), view("y", y), axis), x=x, n=lengths, y=y)


# Memory


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_targets_that_are_not_aligned_to_their_elements(dtype: str, stores: str) -> None:
    x = values((70, 192), "float32")
    bits = values((70, 192), dtype)
    makers: tuple[Callable[[Any], Any], ...] = (
        lambda y: scaled(view("x", x), view("y", y)),
        lambda y: filled(view("y", y), 3, 2),
        lambda y: reversal(view("b", bits), view("n", np.full((70, 1), 150, "u4")), view("y", y), 1),
    )
    for primitive_of in makers:
        y = np.zeros(bits.nbytes + 1, "uint8")[1:].view(dtype).reshape(bits.shape)
        lengths = np.full((70, 1), 150, "u4")
        same(primitive_of(y), x=x, b=bits, n=lengths, y=y)


@pytest.mark.parametrize("at_end", [True, False])
def test_no_line_leaves_its_views(at_end: bool, stores: str) -> None:
    """Odd sizes, against pages that end the process when they are touched."""
    for count, (source, target) in itertools.product(
        (1, 7, 33, 129, 1000), (("float32", "uint8"), ("int16", "float64"))
    ):
        x, y = guarded(values((3, count), source), at_end), guarded(np.zeros((3, count), target), at_end)
        run(CpuEngine(), scaled(view("x", x), view("y", y)), {"x": x, "y": y})
        run(CpuEngine(), filled(view("y", y), 1, 2), {"y": y})
        for axis, shape in ((0, (1, count)), (1, (3, 1))):
            z, lengths = guarded(np.zeros_like(x), at_end), guarded(np.full(shape, count, "u4"), at_end)
            run(
                CpuEngine(),
                reversal(view("x", x), view("n", lengths), view("z", z), axis),
                {"x": x, "n": lengths, "z": z},
            )
            if axis == 1:
                np.testing.assert_array_equal(z, x[:, ::-1])


def test_only_numbers_of_float16_need_a_cpu_that_converts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "has_float16", lambda: False)
    half, single, lengths = np.zeros((4, 4), "f2"), np.zeros((4, 4), "f4"), np.zeros((4, 1), "u4")
    cases: list[tuple[Primitive, bool]] = [
        (scaled(view("x", half), view("y", single)), True),
        (scaled(view("x", single), view("y", half)), True),
        (scaled(view("x", half), view("y", half)), False),
        (scaled(view("x", single), view("y", single), 2.0), False),
        (filled(view("y", half), 0.5, 0.5), True),
        (filled(view("y", half), 0.5, 0.0), False),
        (reversal(view("x", half), view("n", lengths), view("y", half), 1), False),
    ]
    for primitive, falls_back in cases:
        assert isinstance(CpuEngine().compile(primitive), ReferenceProgram) == falls_back, primitive


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_rows_whose_target_lies_anywhere_on_a_line(dtype: str) -> None:
    """Vectors begin where one is aligned: sums in place, of rows that begin and end anywhere within a vector."""
    size, device = np.dtype(dtype).itemsize, dml.Device("cpu")
    whole = 4096 // size
    for n in (whole, whole + 1, whole + 63, 2 * whole - 1):
        desc, other = dml.TensorDesc(dtype, (n,)), values(n, dtype)
        compiled = device.compile(dml.ElementWiseAdd(a_tensor=desc, b_tensor=desc, output_tensor=desc))
        for first in range(64 // size + 1):
            memory = values(n + 64 // size + 9, dtype)
            want = memory.copy()
            with np.errstate(all="ignore"):
                want[first : first + n] += other
            x = memory[first : first + n]
            compiled.bind(x, other, out=x).dispatch()
            assert_same(memory, want, (n, first))
