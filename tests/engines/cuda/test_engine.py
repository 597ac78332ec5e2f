"""The cuda engine against the reference: on a GPU, or interpreted, where tiles are so small that few elements do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import answer, assert_agrees, assert_same, columns, framed, gathering, padded, slicing, values
from anydml.engines.cuda import is_interpreted
from places import get, put, refill, why_not_interpreted

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

from anydml.engines.cuda.move import scan
from anydml.engines.cuda.scratch import DeviceWords

pytestmark = [pytest.mark.sampled(interpreted=5), pytest.mark.check_bounds]

CUDA, REFERENCE = dml.Device("cuda"), dml.Device("reference")
SUMMED = ["float32", "float16", "int32", "uint32", "int64", "uint64", "uint16"]
MODES = [(direction, exclusive) for direction in ("increasing", "decreasing") for exclusive in (False, True)]

# Along an axis: tiles that are whole and that are not, lines that one program walks, and chains of programs in several
# groups. The second shape of each is for a GPU, whose tiles are larger.
LINES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    "one element": ((1, 1), (1, 1), 1),
    "short rows": ((19, 5), (4099, 5), 1),
    "rows of one tile": ((3, 16), (70, 1024), 1),
    "rows of two tiles": ((3, 21), (2000, 5003), 1),
    "rows handed on": ((2, 37), (3, 70_001), 1),
    "rows of whole tiles handed on": ((2, 64), (2, 65_536), 1),
    "one long row": ((150,), (9_000_001,), 0),
    "columns of one tile": ((7, 9), (60, 129), 0),
    "columns of two tiles": ((13, 8), (300, 4096), 0),
    "columns handed on": ((35, 9), (10_000, 67), 0),
    "few columns": ((45, 3), (1_000_000, 3), 0),
    "between": ((2, 17, 3), (3, 5000, 33), 1),
    "eight dimensions": ((2, 1, 1, 2, 1, 2, 5, 1), (2, 1, 3, 2, 1, 2, 500, 1), 6),
}
each_line = pytest.mark.parametrize("line", LINES)
each_mode = pytest.mark.parametrize(("direction", "exclusive"), MODES)


def shape_of(line: str) -> tuple[tuple[int, ...], int]:
    small, large, axis = LINES[line]
    return (small if is_interpreted() else large), axis


def tally(x: np.ndarray, axis: int, direction: str, exclusive: bool, function: str = "sum") -> dml.OperatorDesc:
    tensor = dml.TensorDesc.of(x)
    if function == "sum":
        return dml.CumulativeSummation.infer(
            input_tensor=tensor, axis=axis, axis_direction=direction, has_exclusive_sum=exclusive
        )
    return dml.CumulativeProduct.infer(
        input_tensor=tensor, axis=axis, axis_direction=direction, has_exclusive_product=exclusive
    )


def agree(desc: dml.OperatorDesc, *inputs: np.ndarray, layout: Any = framed) -> np.ndarray:
    """Run on both engines, and compare."""
    wanted, got = (answer(device, desc, *inputs, layout=layout) for device in (REFERENCE, CUDA))
    assert_agrees(type(desc), inputs[0], got, wanted)
    return got


# Running sums and products


@each_line
@each_mode
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_running_sums(line: str, direction: str, exclusive: bool, dtype: str) -> None:
    shape, axis = shape_of(line)
    x = values(shape, dtype)
    agree(tally(x, axis, direction, exclusive), x)


@pytest.mark.parametrize("line", ["rows handed on", "columns of two tiles"])
@pytest.mark.parametrize("dtype", SUMMED)
def test_running_sums_of_every_type(line: str, dtype: str) -> None:
    shape, axis = shape_of(line)
    x = values(shape, dtype)
    for direction, exclusive in MODES[1:3]:
        agree(tally(x, axis, direction, exclusive), x)


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        ("short rows", "float32"),
        ("rows of two tiles", "float32"),
        ("rows of two tiles", "float16"),
        ("columns of two tiles", "float32"),
        ("between", "float32"),
        ("rows handed on", "int64"),
        ("one long row", "uint32"),
        ("columns handed on", "int32"),
    ],
)
def test_running_products(line: str, dtype: str) -> None:
    shape, axis = shape_of(line)
    x = values(shape, dtype)
    if dtype.startswith("float"):
        x = (1 + x / (4 * max(shape[axis], 16))).astype(dtype)
    for mode in MODES:
        agree(tally(x, axis, *mode, "product"), x)


def test_a_product_that_leaves_the_range_of_its_type_comes_back() -> None:
    """Rows and columns of far more tiles than one, with factors that float64 cannot hold the product of."""
    count = 48 if is_interpreted() else 4800
    row = np.array([2.0**126] * (count // 2) + [2.0**-126] * (count // 2), "float32")
    for x, axis in ((np.stack([row, -row]), 1), (np.stack([row, -row], axis=1), 0)):
        got = answer(CUDA, tally(x, axis, "increasing", False, "product"), x)
        np.testing.assert_array_equal(np.take(got, -1, axis), [1, 1])
        assert np.isinf(np.take(got, count // 2, axis)).all()
        assert np.signbit(np.take(got, count // 2, axis)).tolist() == [False, True]


@pytest.mark.parametrize("order", ["as it is", "columns first", "backwards", "repeated", "every second"])
@pytest.mark.parametrize("layout", [framed, columns, padded])
def test_running_sums_of_every_layout(order: str, layout: Any) -> None:
    rows, count = (5, 37) if is_interpreted() else (67, 5003)
    base = values((rows, count), "float32")
    x = {
        "as it is": base,
        "columns first": np.asfortranarray(base),
        "backwards": base[::-1, ::-1],
        "repeated": np.broadcast_to(base[:1], base.shape),
        "every second": values((rows, 2 * count), "float32")[:, ::2],
    }[order]
    for axis in (0, 1):
        for direction, exclusive in MODES[1:3]:
            agree(tally(x, axis, direction, exclusive), x, layout=layout)


@pytest.mark.parametrize("line", ["rows handed on", "columns handed on", "short rows"])
@each_mode
def test_special_values(line: str, direction: str, exclusive: bool) -> None:
    """Signed zeros, infinities and NaNs, each with tiles and programs before and after it."""
    shape, axis = shape_of(line)
    length = shape[axis]
    x = np.full(shape, -0.0, "float32")
    lines = np.moveaxis(x, axis, -1)
    for first, second in ((-0.0, -0.0), (0.0, -0.0), (np.inf, -np.inf), (np.nan, 1.0)):
        lines[..., length // 3], lines[..., 3 * length // 4] = first, second
        agree(tally(x, axis, direction, exclusive), x)


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("rows handed on", "sum"),
        ("one long row", "sum"),
        ("columns handed on", "sum"),
        ("between", "sum"),
        ("short rows", "sum"),
        ("rows of two tiles", "product"),
        ("columns of two tiles", "product"),
    ],
)
def test_in_place(line: str, function: str) -> None:
    shape, axis = shape_of(line)
    x = values(shape, "float32")
    for mode in MODES[1:3]:
        desc = tally(x, axis, *mode, function)
        there = put(x.copy(), CUDA)
        assert CUDA.compile(desc)(there, out=there) is there
        assert get(there).tobytes() == answer(CUDA, desc, x).tobytes()


@pytest.mark.parametrize("line", ["rows handed on", "one long row", "columns handed on", "few columns"])
@pytest.mark.parametrize("mode", MODES[:3:2], ids=str)
def test_the_same_bits_from_run_to_run(line: str, mode: tuple[str, bool]) -> None:
    """What programs told one another in a run before is not taken for this one's."""
    shape, axis = shape_of(line)
    x = values(shape, "float32")
    there, out = put(x, CUDA), put(np.zeros_like(x), CUDA)
    bound, found = CUDA.compile(tally(x, axis, *mode)).bind(there, out=out), []
    for seed in (0, 1, 0, 0) if is_interpreted() else (0, 1) * 25:
        refill(there, values(shape, "float32", seed))
        found.append(get(bound.dispatch()).tobytes())
    assert len(set(found)) == 2
    assert set(found[::2]) == {found[0]}


@pytest.mark.parametrize("line", ["rows handed on", "columns handed on"])
def test_every_run_has_a_number_of_its_own(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted programs run one after the other, so that nothing else shows a number that stays."""
    made: list[Any] = []

    class Kept(DeviceWords):
        def __init__(self, count: int, index: int) -> None:
            super().__init__(count, index)
            made.append(self._words)

    monkeypatch.setattr(scan, "DeviceWords", Kept)
    shape, axis = shape_of(line)
    x = values(shape, "float32")
    bound = CUDA.compile(tally(x, axis, *MODES[0])).bind(put(x, CUDA), out=put(np.zeros_like(x), CUDA))
    for run in (1, 2, 3):
        bound.dispatch()
        assert made[0][:2].tolist() == [run, 0]


# Slices

WINDOWS = [
    (slice(None), slice(None)),
    (slice(2, 11), slice(3, 39)),
    (slice(None), slice(None, None, -1)),
    (slice(None, None, -1), slice(None, None, 2)),
    (slice(None, None, -3), slice(None, None, -2)),
    (slice(None), slice(None, None, 5)),
    (slice(None), slice(4, 5)),
]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
@pytest.mark.parametrize("cut", WINDOWS, ids=str)
def test_slices(dtype: str, cut: tuple[slice, ...]) -> None:
    for count in (40, 41) if is_interpreted() else (1000, 1001):  # whole words of 8 bytes, and not
        base = values((13, count), dtype)
        for x in (base, np.asfortranarray(base), base[::-1], np.broadcast_to(base[:1], base.shape)):
            layouts = (framed, columns, padded) if x is base else (framed,)
            for layout in layouts:
                assert_same(answer(CUDA, slicing(x, cut), x, layout=layout), np.ascontiguousarray(x[cut]))


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_slices_of_many_dimensions(dtype: str) -> None:
    for shape in ((5, 4, 3, 9), (3, 2, 2, 2, 3, 2, 2, 3), (1, 7, 1, 1, 5), (3, 300), (600, 2)):
        x = values(shape, dtype)
        for cut in (
            (slice(None, None, -1),) * x.ndim,
            tuple(slice(n // 3, None, 1 + k % 2) for k, n in enumerate(shape)),
        ):
            assert_same(answer(CUDA, slicing(x, cut), x), np.ascontiguousarray(x[cut]))


# Gathers

GATHERS = [  # sizes, coordinates in a tuple, batch dimensions, tuples
    ((50, 7), 2, 0, (300,)),
    ((50, 8), 1, 0, (11, 30)),
    ((50, 301), 1, 0, (7,)),
    ((6, 5, 4, 9), 3, 0, (40,)),
    ((6, 5, 4, 9), 1, 1, (6, 7)),
    ((6, 5, 4, 9), 2, 2, (6, 5, 2)),
    ((2, 1, 3, 2, 2, 4), 2, 1, (2, 1, 5)),
    ((9,), 1, 0, ()),
]


@pytest.mark.parametrize(
    ("dtype", "index_type"), [("uint8", "int32"), ("float16", "int64"), ("float32", "uint32"), ("int64", "uint64")]
)
@pytest.mark.parametrize("kind", GATHERS, ids=str)
def test_gathers(dtype: str, index_type: str, kind: Any) -> None:
    shape, depth, batch, tuples = kind
    base, sizes = values(shape, dtype), np.array(shape[batch : batch + depth])
    low = -sizes if index_type.startswith("int") else 0 * sizes
    indices = np.random.default_rng(3).integers(low, sizes, (*tuples, depth)).astype(index_type)
    for x, chosen, layout in (
        (base, indices, framed),
        (np.asfortranarray(base), np.asfortranarray(indices), columns),
        (base[::-1], indices, padded),
    ):
        for mode in ("raise", "clamp") if x is base else ("raise",):
            agree(gathering(x, chosen, batch, mode), x, chosen, layout=layout)


@pytest.mark.parametrize("index_type", ["int32", "uint32", "int64", "uint64"])
def test_the_first_of_many_indices_outside_is_named_and_nothing_written(index_type: str) -> None:
    # A program of the check comes by every so many tuples; the first is not to be forgotten over its second.
    count, around = (5000, 16 * 256) if is_interpreted() else (3_000_000, 132 * 8 * 1024)
    first = count // 7
    x, out = values((100, 2), "float32"), np.full((count, 2), 7, "float32")
    indices = np.zeros((count, 1), index_type)
    bad = int(np.iinfo(index_type).max)
    indices[[count - 1, first, first + 1, first + around]] = bad
    run, there = CUDA.compile(gathering(x, indices)), [put(x, CUDA), put(indices, CUDA)]
    target = put(out, CUDA)
    bound = run.bind(*there, out=target)
    for _ in range(2):
        with pytest.raises(dml.IndexRangeError, match=rf"indices\[{first}\] = \({bad},\) is outside dimension 0"):
            bound.dispatch()
        assert (get(target) == 7).all()
    refill(there[1], np.full_like(indices, 3))
    assert (get(bound.dispatch()) == x[3]).all()


def test_an_index_outside_is_found_in_every_batch_and_coordinate() -> None:
    x, good = values((3, 4, 5), "int16"), np.zeros((3, 70, 2), "int64")
    for place, index in (((2, 69, 1), 5), ((0, 0, 0), -5), ((1, 33, 1), -6), ((2, 0, 0), 4)):
        indices = good.copy()
        indices[place] = index
        found = tuple(indices[place[:2]].tolist())
        with pytest.raises(dml.IndexRangeError) as caught:
            answer(CUDA, gathering(x, indices), x, indices)
        assert caught.value.value == found
        assert f"indices[{place[0]}, {place[1]}]" in str(caught.value)
        assert f"dimension {place[2]} of size" in str(caught.value)


# Addresses


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("off", ["one byte", "one element", "eight bytes"])
def test_memory_that_is_not_aligned(dtype: str, off: str) -> None:
    by = {"one byte": 1, "one element": np.dtype(dtype).itemsize, "eight bytes": 8}[off]

    def askew(x: np.ndarray) -> np.ndarray:
        raw = np.zeros(x.nbytes + by + 64, np.uint8)
        first = -raw.__array_interface__["data"][0] % 64 + by
        held = raw[first : first + x.nbytes].view(dtype).reshape(x.shape)
        held[...] = x
        return held

    x = askew(values((9, 64), dtype))
    if by % x.itemsize and not is_interpreted():  # a GPU takes whole elements alone
        with pytest.raises(dml.BindingError, match="must start at a multiple of"):
            answer(CUDA, slicing(x, (slice(None), slice(None))), x, layout=askew)
        return
    for cut in ((slice(None), slice(None)), (slice(None), slice(None, None, -1)), (slice(1, 8), slice(8, 48))):
        assert_same(answer(CUDA, slicing(x, cut), x, layout=askew), np.ascontiguousarray(x[cut]))
    picks = np.arange(9)[::-1].reshape(-1, 1).copy()
    assert_same(answer(CUDA, gathering(x, picks), x, picks, layout=askew), np.ascontiguousarray(x[::-1]))
    if dtype != "uint8":
        for axis in (0, 1):
            for direction in ("increasing", "decreasing"):
                agree(tally(x, axis, direction, False), x, layout=askew)
