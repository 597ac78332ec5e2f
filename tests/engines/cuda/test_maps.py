"""The cuda engine's maps, fills and reversals against the reference, bit for bit: on a GPU, or interpreted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import answer, assert_same, bits, columns, framed, padded, run, slicing, values, view
from anydml.core.enums import NUMPY_TYPES
from anydml.core.memory import numpy_address
from anydml.engines.cuda import CudaEngine, is_interpreted
from anydml.engines.reference import ReferenceEngine
from anydml.ir.fetches import reversal
from anydml.ir.patterns import copy_of, filled, scaled
from anydml.ir.views import View
from places import why_not_interpreted

if TYPE_CHECKING:
    from anydml.engines.common.engine import Engine
    from anydml.ir.verbs import Map

pytestmark = pytest.mark.check_bounds

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

Array = np.ndarray[Any, Any]
CUDA, REFERENCE = CudaEngine(), ReferenceEngine()
WHOLE_TILES = CudaEngine()
if is_interpreted():  # numbers alone, without the many programs that small tiles make
    WHOLE_TILES._figures = replace(WHOLE_TILES._figures, tile=4096)
TYPES = [str(data_type.dtype) for data_type in NUMPY_TYPES]

# Ends of ranges, numbers half-way between two of a narrower type, and those that two roundings get wrong.
WHOLE = [
    0,
    1,
    3,
    2049,
    2051,
    65504,
    65519,
    65520,
    2**24 + 1,
    2**24 + 3,
    2**53 + 1,
    2**60 + 2**36 + 1,
    2**63 + 2**39 + 1,
]
ENDS = [2**bits + by for bits in (7, 8, 15, 16, 31, 32, 63, 64) for by in (-1, 0, 1)]
SMALL = [0.5, 1.5, 2.5, 127.9, 255.5, 65519.99, 2147483647.5, 1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 2**-24 + 2**-50]
TINY = [2.0**-24, 2.0**-25, 2.0**-25 + 2.0**-60, 3 * 2.0**-25, 2.0**-126, 2.0**-149, 2.0**-150 + 2.0**-190, 5e-324]
HUGE = [3.4028234663852886e38, 3.4028235677973366e38, 1e300, math.inf, math.nan]


def specials(dtype: str) -> Array:
    """The numbers above and their opposites, as far as a type has them; of a float type their neighbours too."""
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        numbers = [n for m in (*WHOLE, *ENDS) for n in (m, -m) if limits.min <= n <= limits.max]
        return np.array([*numbers, limits.min, limits.max], dtype)
    with np.errstate(over="ignore"):
        found = np.array([float(n) for m in (*WHOLE, *ENDS, *SMALL, *TINY, *HUGE) for n in (m, -m)]).astype(dtype)
        ends = np.array([float(n) for n in ENDS]).astype(dtype)
        infinity = np.array(np.inf, dtype)
        every = np.concatenate([found, np.nextafter(ends, infinity), np.nextafter(ends, -infinity)])
        return np.unique(bits(every)).view(dtype)


def flipped(out: Array) -> Array:
    return np.flip(framed(out))


LAYOUTS = [framed, columns, padded, flipped]


def agree(make: Any, like: Array, layout: Any, *, engine: Engine = CUDA, **arrays: Array) -> Array:
    """Carry a primitive out on both engines, into an array of a layout, and compare."""
    found = []
    for each in (REFERENCE, engine):
        target = layout(np.zeros(like.shape, like.dtype))
        primitive = make(**{name: view(name, array) for name, array in arrays.items()}, target=view("target", target))
        found.append(run(each, primitive, **arrays, target=target))
    assert_same(found[1], found[0], make)
    return found[1]


def convert(x: Array, dtype: str, layout: Any = framed, engine: Engine = CUDA, **numbers: float) -> Array:
    def make(source: View, target: View) -> Map:
        return scaled(source, target, **numbers)

    return agree(make, np.empty(x.shape, dtype), layout, engine=engine, source=x)


def laid_out(base: Array) -> dict[str, Array]:
    return {
        "as it is": base,
        "columns first": np.asfortranarray(base),
        "backwards": base[::-1, ::-1],
        "repeated": np.broadcast_to(base[:1], base.shape),
        "one number": np.broadcast_to(base[:1, :1], base.shape),
        "every second": np.repeat(base, 2, axis=1)[:, ::2],
    }


SIZES = (3, 70) if is_interpreted() else (129, 4099)
MANY = (3, 1, 3, 2, 3, 5, 1, 2) if is_interpreted() else (2, 3, 5, 2, 7, 3, 4, 2)
each_order = pytest.mark.parametrize("order", laid_out(np.zeros((2, 2))))


# Maps


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_every_pair_of_types(source: str, target: str) -> None:
    convert(specials(source), target, engine=WHOLE_TILES)


@pytest.mark.parametrize(("source", "target"), [("float32", "float16"), ("int8", "float64"), ("float64", "uint8")])
@each_order
def test_maps_of_every_layout(source: str, target: str, order: str) -> None:
    x = laid_out(values(SIZES, source))[order]
    for layout in LAYOUTS if order == "backwards" else (framed,):
        convert(x, target, layout)


def test_maps_of_many_dimensions() -> None:
    x = values(MANY, "int64")
    for source in (x, np.moveaxis(x, 3, -1), x[:, :, ::-1, :, ::-1], np.moveaxis(x[..., ::-1], -1, 0)):
        convert(source, "float32", padded)
    convert(np.array(-2.5), "int8")


@pytest.mark.parametrize(
    ("source", "target"),
    [*((source, "float64") for source in TYPES), *(("float32", target) for target in TYPES), ("float64", "float16")],
)
def test_scaled_maps(source: str, target: str) -> None:
    for scale, bias in ((1.1, -0.3), (1.0, -0.0), (-(2.0**-40), 1e-310)):
        convert(specials(source), target, engine=WHOLE_TILES, scale=scale, bias=bias)


def test_a_product_and_a_sum_are_rounded_each_for_itself() -> None:
    x = np.array([1 + 2.0**-30] * 5)
    assert convert(x, "float64", scale=1 + 2.0**-30, bias=-1.0).tolist() == [2.0**-29] * 5


@pytest.mark.parametrize("to", ["int32", "float32", "uint32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_place(to: str, layout: Any) -> None:
    x = 1000 * values((3, 50), "float32")
    held = layout(np.zeros_like(x))
    held[...] = x
    source = view("target", held)
    got = run(CUDA, scaled(source, replace(source, data_type=dml.DataType(to)), 2.0), target=held)
    wanted = np.maximum(2 * x, 0) if to == "uint32" else 2 * x
    assert_same(got.view(to), wanted.astype(to))


# Fills


def fill(start: float, delta: float, dtype: str, shape: tuple[int, ...], layout: Any = framed) -> Array:
    def make(target: View) -> Map:
        return filled(target, start, delta)

    return agree(make, np.empty(shape, dtype), layout)


@pytest.mark.parametrize("dtype", TYPES)
def test_fills_of_every_type(dtype: str) -> None:
    shape = (5, 16) if is_interpreted() else (700, 2048)
    if dtype.startswith("float"):
        pairs: list[tuple[Any, Any]] = [(1.25, 0.1), (-0.0, 0.0), (1e5, -3.0), (math.inf, 1.0), (0.0, math.nan)]
    else:
        limits = np.iinfo(dtype)
        pairs = [(3, 0), (int(limits.max) - 2, 1), (int(limits.min), -3), (1, int(limits.max))]
    for start, delta in pairs:
        fill(start, delta, dtype, shape)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("dtype", "start"), [("float16", 1.0), ("uint8", 250)])
def test_fills_of_every_layout(layout: Any, dtype: str, start: Any) -> None:
    for delta in (0, 3):
        fill(start, type(start)(delta), dtype, SIZES, layout)
        fill(start, type(start)(delta), dtype, MANY, layout)
    fill(start, type(start)(1), dtype, ())


def test_a_fill_counts_in_the_order_of_coordinates() -> None:
    assert fill(10, 2, "int32", (2, 3), flipped).tolist() == [[10, 12, 14], [16, 18, 20]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_fill_leaves_its_start_as_it_is(dtype: str) -> None:
    assert np.signbit(fill(-0.0, 0.0, dtype, (33,))).all()
    assert np.isnan(fill(math.nan, -0.0, dtype, (33,))).all()


# Reversals


def reverse(x: Array, lengths: Array, axis: int, layout: Any = framed) -> Array:
    def make(source: View, lengths: View, target: View) -> Map:
        return reversal(source, lengths, target, axis)

    return agree(make, x, layout, source=x, lengths=lengths)


def some_lengths(shape: tuple[int, ...], axis: int, dtype: str = "uint32") -> Array:
    """From none to more than there are, the largest of the type among them."""
    size = shape[axis]
    found = np.random.default_rng(5).integers(0, size + 3, [1 if k == axis else n for k, n in enumerate(shape)])
    lengths = found.astype(dtype)
    lengths.flat[0], lengths.flat[-1] = size, np.iinfo(dtype).max
    return lengths


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reversals(dtype: str, axis: int) -> None:
    for shape in ((3, 4, 8), (2, 3, 7)) if is_interpreted() else ((40, 50, 160), (33, 41, 71), (70, 3, 5)):
        reverse(values(shape, dtype), some_lengths(shape, axis), axis)


@each_order
@pytest.mark.parametrize("axis", [0, 1])
def test_reversals_of_every_layout(order: str, axis: int) -> None:
    x = laid_out(values(SIZES, "float32"))[order]
    lengths = some_lengths(x.shape, axis, "uint64")
    for layout in LAYOUTS if order == "backwards" else (framed,):
        reverse(x, np.flip(lengths), axis, layout)
    reverse(x, np.broadcast_to(lengths[:1, :1], lengths.shape), axis)


@pytest.mark.parametrize("axis", [0, 3, 7])
def test_reversals_of_many_dimensions(axis: int) -> None:
    x = values(MANY, "int16")
    reverse(x, some_lengths(MANY, axis), axis, padded)
    reverse(x, some_lengths(MANY, axis, "uint64"), axis)


def test_a_reversal_along_one_element() -> None:
    for shape, axis in (((3, 1, 8), 1), ((1,), 0)):
        for lengths in (some_lengths(shape, axis), np.zeros(shape, "uint32")):
            reverse(values(shape, "float32"), lengths, axis)


# Addresses, and copies that go the same way


@pytest.mark.parametrize("by", [1, 2, 4])
def test_memory_that_is_aligned_to_elements_alone(by: int) -> None:
    def askew(x: Array) -> Array:
        raw = np.zeros(x.size + 64, x.dtype)
        first = -numpy_address(raw) % 64 // x.itemsize + by
        held: Array = raw[first : first + x.size].reshape(x.shape)
        held[...] = x
        return held

    for dtype in ("uint8", "float16"):
        x = askew(values((3, 32), dtype))
        convert(x, "float32", askew)
        convert(x, "int16", askew)
        fill(7, 0, dtype, (3, 32), askew)
        reverse(x, some_lengths(x.shape, 0)[:, :1].repeat(32, axis=1), 0, askew)


def test_rows_of_few_elements_are_turned_round_by_copies() -> None:
    x = values((300, 3, 4), "uint16")
    cut = (slice(None), slice(0, 2), slice(None, None, -1))
    assert_same(answer(dml.Device("cuda"), slicing(x, cut), x), np.ascontiguousarray(x[cut]))


@pytest.mark.skipif(not is_interpreted(), reason="a GPU touches what it touches: interpreted kernels are watched")
@pytest.mark.parametrize(("tensor", "what"), [("x", "reads"), ("y", "writes")])
@pytest.mark.parametrize("end", ["low", "high"])
def test_what_a_kernel_touches_outside_of_its_tensors_is_found(tensor: str, what: str, end: str) -> None:
    """A tensor that is an element shorter than what is copied, at either end."""
    from touched import spans_of  # which needs Triton

    arrays = {name: np.zeros(64, "f") for name in "xy"}
    source = View("x", dml.DataType.FLOAT32, (4, 6), (7, 1), 8)
    program: Any = CudaEngine().compile(copy_of(source, source.named("y")))
    places = {name: numpy_address(array) for name, array in arrays.items()}
    program.bind(places)()
    spans = spans_of(program)
    span = spans[tensor]
    spans[tensor] = span._replace(**{end: getattr(span, end) + (4 if end == "low" else -4)})
    with pytest.raises(Exception, match=f"BoundsError.*{what} 4 bytes at"):  # as Triton's interpreter words it
        program.bind(places)()
