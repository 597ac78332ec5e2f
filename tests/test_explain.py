"""Pictures: the documents' examples as they are drawn, and that a picture never lies about where an element is from."""

from __future__ import annotations

import html.parser
import os
import subprocess
import sys
import textwrap
import tracemalloc
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings

import anydml as dml
import oracle
from anydml.enums import NUMPY_TYPES
from anydml.explain import Element, Limits, Picture, explain
from anydml.explain.layout import outline
from anydml.explain.text import as_ascii
from anydml.explain.values import write_value
from cases import CASES
from strategies import Array, Operator, cases
from strategies import Case as RandomCase

if TYPE_CHECKING:
    from collections.abc import Callable

F32 = dml.DataType.FLOAT32
EVERYTHING = Limits(planes=1000, rows=1000, columns=1000)
RANDOM = settings(deadline=None, derandomize=False, print_blob=True, max_examples=160 if os.environ.get("CI") else 60)
TEXTS = {
    "SLICE example 2": """
        SLICE  Offsets {0,0,1,0}  Sizes {1,1,2,2}  Strides {1,1,2,3}
            copies 4 of 16 elements

            InputTensor {1,1,4,4} FLOAT32        OutputTensor {1,1,2,2} FLOAT32
            [0,0,:,:]                            [0,0,:,:]
                 0     1     2     3                  0     1
            0    1     2     3     4         →   0    5¹    8²
              ┌───────────────────────┐          1   13³   16⁴
            1 │[ 5]¹   6     7   [ 8]²│
            2 │  9    10    11    12  │
            3 │[13]³  14    15   [16]⁴│
              └───────────────────────┘

            [ ] copied, with the order in which it lands;  ┌ ┐ from the first to the last element copied

            output[0,0,0,0] = input[0, 0, 1 + 2*0, 0 + 3*0] = input[0,0,1,0] = 5
            output[0,0,0,1] = input[0, 0, 1 + 2*0, 0 + 3*1] = input[0,0,1,3] = 8
            output[0,0,1,0] = input[0, 0, 1 + 2*1, 0 + 3*0] = input[0,0,3,0] = 13
            output[0,0,1,1] = input[0, 0, 1 + 2*1, 0 + 3*1] = input[0,0,3,3] = 16""",
    "SLICE1 example 2": """
        SLICE1  InputWindowOffsets {0,0,0,1}  InputWindowSizes {1,1,4,3}  InputWindowStrides {1,1,-2,2}
            copies 4 of 16 elements

            InputTensor {1,1,4,4} FLOAT32        OutputTensor {1,1,2,2} FLOAT32
            [0,0,:,:]                            [0,0,:,:]
                 0     1     2     3                  0     1
                    ┌─────────────────┐      →   0   14¹   16²
            0    1  │  2     3     4  │          1    6³    8⁴
            1    5  │[ 6]³   7   [ 8]⁴│
            2    9  │ 10    11    12  │
            3   13  │[14]¹  15   [16]²│
                    └─────────────────┘

            [ ] copied, with the order in which it lands;  ┌ ┐ the input window

            dimension 2 is walked from the window's end, 0 + 4 - 1 = 3
            output[0,0,0,0] = input[0, 0, 3 - 2*0, 1 + 2*0] = input[0,0,3,1] = 14
            output[0,0,0,1] = input[0, 0, 3 - 2*0, 1 + 2*1] = input[0,0,3,3] = 16
            output[0,0,1,0] = input[0, 0, 3 - 2*1, 1 + 2*0] = input[0,0,1,1] = 6
            output[0,0,1,1] = input[0, 0, 3 - 2*1, 1 + 2*1] = input[0,0,1,3] = 8""",
    "GATHER_ND example 1": """
        GATHER_ND  InputDimensionCount 2  IndicesDimensionCount 2
            2 tuples of 1 pick 2 rows of 2

            InputTensor {2,2} FLOAT32    IndicesTensor {2,1} UINT32        OutputTensor {2,2} FLOAT32
                0    1                       0                                 0    1
            0  [0]² [1]²                 0  [1]¹                           0   2¹   3¹
            1  [2]¹ [3]¹                 1  [0]²                       →   1   0²   1²

            [ ] picked, with the number of the tuple that picks it

            indices[0] = (1) picks row input[1,:], which lands in output[0,:]
            indices[1] = (0) picks row input[0,:], which lands in output[1,:]""",
    "CUMULATIVE_SUMMATION example 3": """
        CUMULATIVE_SUMMATION  Axis 3  AxisDirection DECREASING  HasExclusiveSum FALSE
            adds up along dimension 3, from the last to the first, the element itself included

            InputTensor {1,1,3,4} FLOAT32        OutputTensor {1,1,3,4} FLOAT32
            [0,0,:,:]                            [0,0,:,:]
                0   1   2   3                         0    1    2    3
            0  [2] [1] [3] [5]                   0   11    9    8    5
            1   3   8   7   3                →   1   21   18   10    3
            2   9   6   2   4                    2   21   12    6    4
                ←─────────────                       ←─────────────────

            [ ] belongs to the line that is written out

            output[0,0,0,3] = 5
            output[0,0,0,2] = 5 + 3 = 8
            output[0,0,0,1] = 5 + 3 + 1 = 9
            output[0,0,0,0] = 5 + 3 + 1 + 2 = 11
            … and likewise in the 2 other lines""",
    "CUMULATIVE_PRODUCT example 4": """
        CUMULATIVE_PRODUCT  Axis 2  AxisDirection INCREASING  HasExclusiveProduct FALSE
            multiplies along dimension 2, from the first to the last, the element itself included

            InputTensor {1,1,3,4} FLOAT32        OutputTensor {1,1,3,4} FLOAT32
            [0,0,:,:]                            [0,0,:,:]
                0   1   2   3                         0    1    2    3
            0 │[2]  1   3   5                    0 │  2    1    3    5
            1 │[3]  8   7   3                →   1 │  6    8   21   15
            2 ↓[9]  6   2   4                    2 ↓ 54   48   42   60

            [ ] belongs to the line that is written out

            output[0,0,0,0] = 2
            output[0,0,1,0] = 2 * 3 = 6
            output[0,0,2,0] = 2 * 3 * 9 = 54
            … and likewise in the 3 other lines""",
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_documents_examples(case: Any) -> None:
    kind = dml.DataType.UINT32 if "BIT_" in str(case) else F32  # whose floats have more digits than are shown
    # The examples of blocks have more channels than are drawn if not told.
    limits = Limits(planes=8) if "SPACE" in str(case) else Limits()
    picture = explain(case.desc(kind), *case.inputs(kind), limits=limits)
    assert picture.error is None
    if str(case) in TEXTS:
        assert picture.text() == textwrap.dedent(TEXTS[str(case)]).strip("\n")
    outputs = [grid for grid in picture.grids if grid.role == "output"]
    for output, expected in zip(outputs, case.outputs(kind), strict=True):
        shown = {cell.element.coordinate: float(cell.value) for cell in output.cells()}
        rank = len(next(iter(shown)))
        meant = expected.reshape(expected.shape[expected.ndim - rank :])
        assert shown == {at: meant[at] for at in np.ndindex(meant.shape)}
    assert not any(grid.left_out for grid in picture.grids)


def test_batches_are_told_by_their_planes() -> None:
    case = next(case for case in CASES if str(case) == "GATHER_ND1 example 2")
    picture = explain(case.desc(F32), *case.inputs(F32))
    assert [plane.name for plane in picture.grids[0].planes] == ["[0,:,:]", "[1,:,:]", "[2,:,:]"]
    assert picture.summary == "6 tuples of 2 pick 6 elements, within 1 dimension of batches"
    assert picture.sentences[2] == "indices[1,0] = (1, 1) picks element input[1,1,1] = 7, which lands in output[1,0]"


# Where elements come from, against the oracle


def arrays_of(case: RandomCase) -> list[Array]:
    """The inputs of a random case, laid out as described."""
    found = []
    for name, content in case.contents.items():
        tensor = case.tensors[name]
        steps = [stride * content.itemsize for stride in tensor.element_strides]
        found.append(np.ndarray(tensor.sizes, content.dtype, content, 0, steps))
    return found


def padded(element: Element, rank: int) -> tuple[int, ...]:
    return (0,) * (rank - len(element.coordinate)) + element.coordinate


def values_of(array: Array) -> dict[tuple[int, ...], Any]:
    return {at: array[at] for at in np.ndindex(array.shape)}


def sources_by_oracle(case: RandomCase, arrays: list[Array]) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """For every output coordinate the input coordinates that it is made of, in order."""
    sizes = case.tensors["input_tensor"].sizes
    places = {at: at for at in oracle.coordinates(sizes)}
    a = case.attributes
    if case.cls is dml.Slice:
        found = oracle.slice_(places, a["offsets"], a["sizes"], a["strides"])
    elif case.cls is dml.Slice1:
        window = (a["input_window_offsets"], a["input_window_sizes"], a["input_window_strides"])
        found = oracle.slice1(places, *window, case.tensors["output_tensor"].sizes)
    elif case.cls in (dml.GatherND, dml.GatherND1):
        indices = {at: int(v) for at, v in values_of(arrays[1]).items()}
        counts = (a["input_dimension_count"], a["indices_dimension_count"], a.get("batch_dimension_count", 0))
        found = oracle.gather_nd(places, sizes, indices, case.tensors["indices_tensor"].sizes, *counts, clamp=True)
    else:
        return scanned_by_oracle(case, places)
    return {target: [source] for target, source in found.items()}


def scanned_by_oracle(
    case: RandomCase, places: dict[tuple[int, ...], Any]
) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """A sum of distinct powers of two says what was added up."""
    assert len(places) <= 64
    sizes, axis = case.tensors["input_tensor"].sizes, case.attributes["axis"]
    decreasing = case.attributes["axis_direction"] is dml.AxisDirection.DECREASING
    exclusive = case.attributes[next(name for name in case.attributes if name.startswith("has_"))]
    powers: dict[tuple[int, ...], float] = {at: 2**n for n, at in enumerate(places)}
    sums = oracle.cumulative(powers, sizes, axis, "sum", "UINT64", decreasing=decreasing, exclusive=exclusive)
    return {
        target: sorted(
            (at for at in places if int(total) & int(powers[at])), key=lambda at: at[axis], reverse=decreasing
        )
        for target, total in sums.items()
    }


# The operators of the first three verbs; those of the others are in test_explain_verbs.py.
OPERATORS: tuple[Operator, ...] = (
    dml.Slice,
    dml.Slice1,
    dml.GatherND,
    dml.GatherND1,
    dml.CumulativeSummation,
    dml.CumulativeProduct,
)


@pytest.mark.parametrize("cls", OPERATORS, ids=lambda cls: cls.type.name)
def test_every_element_comes_from_where_the_picture_says(cls: Operator) -> None:
    @RANDOM
    @given(cases(cls))
    def check(case: RandomCase) -> None:
        arrays = arrays_of(case)
        for limits in (EVERYTHING, Limits(planes=2, rows=3, columns=4)):
            picture = explain(case.description(), *arrays, feature_level=case.level, limits=limits)
            check_picture(case, arrays, picture, is_whole=limits is EVERYTHING)
        for drawing in (picture.text(), picture.html()):
            assert drawing
        ElementTree.fromstring(picture.svg())  # noqa: S314 - our own

    check()


def check_picture(case: RandomCase, arrays: list[Array], picture: Picture, *, is_whole: bool) -> None:
    assert picture.error is None
    rank = len(case.tensors["input_tensor"].sizes)
    expected = sources_by_oracle(case, arrays)
    *inputs, output = picture.grids
    cells = list(output.cells())
    used = set()
    for cell in cells:
        if not cell.is_fault:
            assert [padded(source, rank) for source in cell.sources] == expected[padded(cell.element, rank)]
        used |= {*cell.sources, *cell.chosen_by}
    if is_whole:
        assert {padded(cell.element, rank) for cell in cells} == set(expected)
        for grid, array in zip(inputs, arrays, strict=True):
            drawn = {padded(cell.element, rank): cell.value for cell in grid.cells()}
            assert drawn == {at: write_value(value) for at, value in values_of(array).items()}
    if case.cls.type.name.startswith("CUMULATIVE"):
        check_tallies(case, arrays[0], cells)
        return
    for cell in cells:
        if not cell.is_fault:
            assert cell.value == write_value(arrays[0][padded(cell.sources[0], rank)])
    for grid in inputs:
        assert all((cell.hue > 0) == (cell.element in used) for cell in grid.cells())
    if "indices_tensor" in case.tensors:
        check_tuples(case, arrays, picture, is_whole=is_whole)


def check_tallies(case: RandomCase, array: Array, cells: list[Any]) -> None:
    function: Any = "sum" if case.cls is dml.CumulativeSummation else "product"
    decreasing = case.attributes["axis_direction"] is dml.AxisDirection.DECREASING
    exclusive = case.attributes[f"has_exclusive_{function}"]
    values = {at: v.item() for at, v in values_of(array).items()}
    options = {"decreasing": decreasing, "exclusive": exclusive}
    name = case.tensors["input_tensor"].data_type.name
    tallies = oracle.cumulative(values, array.shape, case.attributes["axis"], function, name, **options)
    for cell in cells:
        assert cell.value == write_value(array.dtype.type(tallies[cell.element.coordinate]))


def check_tuples(case: RandomCase, arrays: list[Array], picture: Picture, *, is_whole: bool) -> None:
    """A tuple outside its dimensions is shown as such, unless it is clamped; and the first one is named."""
    a, rank = case.attributes, len(case.tensors["input_tensor"].sizes)
    meant = case.tensors["input_tensor"].sizes[rank - a["input_dimension_count"] :]
    batch = a.get("batch_dimension_count", 0)
    first = None
    for cell in picture.grids[-1].cells():
        numbers = [int(arrays[1][padded(index, rank)]) for index in cell.chosen_by]
        elements = [oracle._element(n, meant[batch + k], clamp=False) for k, n in enumerate(numbers)]
        is_outside = None in elements and a["index_mode"] is dml.IndexMode.RAISE
        assert cell.is_fault == is_outside
        assert (cell.value == "?") == is_outside
        first = first or (tuple(numbers) if is_outside else None)
    noted = [note for note in picture.notes if "IndexRangeError" in note]
    if first is not None and is_whole:
        assert len(noted) == 1
        assert ", ".join(map(str, first)) in noted[0]


# What is made up


@pytest.mark.parametrize("data_type", NUMPY_TYPES, ids=lambda t: t.name)
def test_made_up_values_are_of_the_type(data_type: dml.DataType) -> None:
    x = dml.TensorDesc(data_type, (5000,))
    picture = explain(
        dml.Slice1.infer(input_tensor=x, input_window_offsets=[0], input_window_sizes=[5000], input_window_strides=[-1])
    )
    for cell in picture.grids[-1].cells():
        (at,) = cell.sources[0].coordinate
        most = 2048 if data_type is dml.DataType.FLOAT16 else {1: 255, 2: 65535}.get(data_type.size_in_bytes, 10**9)
        most = most // 2 if data_type.is_signed and most < 10**9 else most
        assert cell.value == str(at % most + 1)
    assert any("from 1 again after" in note for note in picture.notes) == (most < 5000)


def test_a_repeated_element_has_one_value() -> None:
    x = dml.TensorDesc("float32", (3, 2), strides=(0, 1))
    picture = explain(dml.CumulativeSummation.infer(input_tensor=x, axis=0))
    assert [cell.value for cell in picture.grids[0].cells()] == ["1", "2"] * 3
    assert [cell.value for cell in picture.grids[1].cells()] == ["1", "2", "2", "4", "3", "6"]


def test_made_up_indices_are_valid_even_where_tuples_share_them() -> None:
    for strides in (None, (0, 1), (1, 0), (0, 0), (1, 1)):
        desc = dml.GatherND.infer(
            input_tensor=dml.TensorDesc("float32", (3, 2)),
            indices_tensor=dml.TensorDesc("uint32", (4, 2), strides=strides),
            input_dimension_count=2,
            indices_dimension_count=2,
        )
        picture = explain(desc)
        assert not any(cell.is_fault for grid in picture.grids for cell in grid.cells())
        assert any("No indices were given" in note for note in picture.notes)
        values: dict[int, set[str]] = {}
        for cell in picture.grids[1].cells():
            place = sum(c * stride for c, stride in zip(cell.element.coordinate, strides or (2, 1), strict=True))
            values.setdefault(place, set()).add(cell.value)
        assert all(len(found) == 1 for found in values.values())


def test_data_is_what_the_description_says() -> None:
    desc = dml.Slice.infer(input_tensor=dml.TensorDesc("float32", (2, 2)), offsets=(0, 0), sizes=(1, 1), strides=(1, 1))
    assert next(explain(desc, [[7, 8], [9, 10]]).grids[-1].cells()).value == "7"
    assert next(explain(desc, np.array([[7, 8], [9, 10]], "float32").T).grids[0].cells()).value == "7"
    assert next(explain(desc, None).grids[-1].cells()).value == "1"
    for wrong in (np.zeros((2, 2), "float64"), np.zeros(4, "float32"), "no array", [["a", "b"], [1, 2]], [[1], [2, 3]]):
        with pytest.raises(dml.DmlError, match="SLICE: InputTensor"):
            explain(desc, wrong)
    with pytest.raises(dml.BindingError, match="2 arrays"):
        explain(desc, None, None)
    with pytest.raises(dml.DescriptionError, match="desc must be an operator description"):
        explain("slice")  # type: ignore[arg-type]


def test_values_are_written_short() -> None:
    f4, f8 = np.float32, np.float64
    numbers = [f4(1), f4(-0.0), f4(0.1), f4("nan"), f8("-inf"), f8(1 / 3), f8(1e300), f4(16777216), np.int64(-(2**63))]
    written = ["1", "-0", "0.1", "nan", "-inf", "0.33333", "1e+300", "16777216", "-9223372036854775808"]
    assert [write_value(number) for number in numbers] == written


def test_wrapping_is_said() -> None:
    x = np.array([65535, 3], "uint16")
    desc = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc.of(x), axis=0)
    picture = explain(desc, x)
    assert picture.sentences == ("output[0] = 65535", "output[1] = 65535 + 3 = 2, wrapped to 16 bits")
    assert picture.notes == ("UINT16 is listed for CUMULATIVE_SUMMATION by the documents' edition of 2021 only.",)


# What is left out


def enormous() -> list[dml.OperatorDesc]:
    most = 2**32 - 1
    wide = dml.TensorDesc("float32", (2**16 - 1, 2**16))
    deep = dml.TensorDesc("uint8", (2**8, 1, 2**8, 1, 2**8, 1, 2**8 - 1, 1))
    line = dml.TensorDesc("float16", (most,))
    back = {"axis_direction": "decreasing"}
    return [
        dml.Slice.infer(input_tensor=line, offsets=[7], sizes=[most // 3], strides=[2]),
        dml.Slice1.infer(
            input_tensor=wide,
            input_window_offsets=(9, 5),
            input_window_sizes=(65000, 65000),
            input_window_strides=(-3, 1),
        ),
        dml.Slice1.infer(
            input_tensor=deep,
            input_window_offsets=(0,) * 8,
            input_window_sizes=deep.sizes,
            input_window_strides=(-1,) * 8,
        ),
        dml.CumulativeSummation.infer(input_tensor=line, axis=0),
        dml.CumulativeSummation.infer(input_tensor=line, axis=0, has_exclusive_sum=True, **back),
        dml.CumulativeProduct.infer(input_tensor=wide, axis=0, **back),
        dml.GatherND.infer(
            input_tensor=dml.TensorDesc("uint8", (most, 1)),
            indices_tensor=dml.TensorDesc("uint32", (most, 1)),
            input_dimension_count=2,
            indices_dimension_count=2,
        ),
        dml.GatherND1.infer(
            input_tensor=dml.TensorDesc("float32", (2**10, 2**10, 3)),
            indices_tensor=dml.TensorDesc("int64", (2**10, 2**20, 1)),
            input_dimension_count=3,
            indices_dimension_count=3,
            batch_dimension_count=1,
        ),
    ]


@pytest.mark.parametrize("desc", enormous(), ids=lambda desc: desc.type.name)
def test_an_enormous_tensor_has_a_small_picture(desc: dml.OperatorDesc) -> None:
    explain(desc).html()  # what is loaded once is not counted
    tracemalloc.start()
    picture = explain(desc)
    drawings = [picture.text(), picture.svg(), picture.html()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert picture.error is None
    assert peak < 4_000_000
    assert all(len(drawing) < 150_000 for drawing in drawings)
    assert any("left out" in note for note in picture.notes)
    for drawing in drawings:
        assert "left out" in drawing
    limits = Limits()
    for grid in picture.grids:
        assert len(grid.planes) <= limits.planes
        assert sum(row is not None for row in grid.rows) <= limits.rows
        assert sum(column is not None for column in grid.columns) <= limits.columns
    keys = {cell.element for grid in picture.grids for cell in grid.cells()}
    output = list(picture.grids[-1].cells())
    shown = [cell for cell in output if set(cell.sources) <= keys]
    assert shown == output


def test_a_cut_slice_keeps_its_corners_and_says_what_is_missing() -> None:
    desc = dml.Slice1.infer(
        input_tensor=dml.TensorDesc("float32", (3, 100, 200)),
        input_window_offsets=(1, 20, 30),
        input_window_sizes=(2, 60, 90),
        input_window_strides=(1, -1, 2),
    )
    picture = explain(desc)
    source, target = picture.grids
    assert source.left_out == "94 of 100 rows, 191 of 200 columns"
    rows, columns = [r for r in source.rows if r is not None], [c for c in source.columns if c is not None]
    assert {20, 79, 78, 77} <= set(rows)
    assert {30, 31, 32, 119} <= set(columns)
    assert target.rows == (0, 1, 2, None, 59)
    window = (range(20, 80), range(30, 120))
    assert [plane.window for plane in source.planes] == [None, window, window]
    for cell in target.cells():
        plane, row, column = cell.element.coordinate
        assert cell.sources == (Element("InputTensor", (1 + plane, 79 - row, 30 + 2 * column)),)
        assert cell.badge == str((plane * 60 + row) * 45 + column + 1)


def test_a_walk_from_the_end_is_said_of_one_element_too() -> None:
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc("float32", (9,)),
        output_tensor=dml.TensorDesc("float32", (1,)),
        input_window_offsets=(2,),
        input_window_sizes=(5,),
        input_window_strides=(-9,),
    )
    assert explain(desc).sentences == (
        "dimension 0 is walked from the window's end, 2 + 5 - 1 = 6",
        "output[0] = input[6] = 7",
    )


def test_the_smallest_limits_show_something_and_none_is_refused() -> None:
    for case in CASES:
        picture = explain(case.desc(F32), limits=Limits(1, 1, 1))
        assert all(len(list(grid.cells())) == 1 for grid in picture.grids)
        assert picture.text()
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(dml.DescriptionError, match="Limits: rows must"):
            Limits(rows=wrong)  # type: ignore[arg-type]


def test_an_outline_is_open_where_the_window_goes_on_in_what_is_left_out() -> None:
    drawn = (None, 3, 4, None, 9, 10, None)
    assert outline(drawn, range(4, 10)) == (2, 4, True, True)
    assert outline(drawn, range(4, 20)) == (2, 6, True, False)
    assert outline(drawn, range(1, 4)) == (0, 1, False, True)
    assert outline(drawn, range(5, 8)) is None


def test_an_index_outside_is_named_though_it_is_not_shown() -> None:
    indices = np.zeros((1000, 1), "int32")
    indices[777] = -9
    desc = dml.GatherND.infer(
        input_tensor=dml.TensorDesc("float32", (8, 2)),
        indices_tensor=dml.TensorDesc.of(indices),
        input_dimension_count=2,
        indices_dimension_count=2,
    )
    picture = explain(desc, None, indices)
    assert not any(cell.is_fault for cell in picture.grids[-1].cells())
    assert any("indices[777] = (-9,) is outside dimension 0 of size 8" in note for note in picture.notes)
    indices[0], indices[1] = -8, 8
    picture = explain(desc, None, indices)
    assert picture.sentences[0] == (
        "indices[0] = (-8) counts from the end: (0), and picks row input[0,:], which lands in output[0,:]"
    )
    assert picture.sentences[1] == "indices[1] = (8) is outside dimension 0 of size 8: nothing is written"


# Descriptions at fault, and hostile text


def at_fault(title: str = "") -> Picture:
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc("float32", (4, 4)),
        output_tensor=dml.TensorDesc("float32", (2, 2)),
        input_window_offsets=(0, 2),
        input_window_sizes=(4, 3),
        input_window_strides=(0, 1),
    )
    return explain(desc, title=title)


def test_a_description_at_fault_is_shown_by_its_faults() -> None:
    picture = at_fault()
    assert isinstance(picture.error, dml.DescriptionError)
    assert len(picture.error.faults) == 2
    assert picture.grids == ()
    for drawing in (picture.text(), picture.svg(), picture.html(), picture._repr_html_()):
        assert "InputWindowStrides[0] must not be 0" in drawing
        assert "Traceback" not in drawing


def test_a_level_that_lacks_the_operator_is_a_fault() -> None:
    x = dml.TensorDesc("int64", (1, 1, 2, 3))
    desc = dml.CumulativeSummation.infer(input_tensor=x, axis=3)
    assert explain(desc).error is None
    error = explain(desc, feature_level="4_0").error
    assert isinstance(error, dml.FeatureLevelError)
    assert str(error.needed) == "5_0"


HOSTILE = "</title></style></script><script>alert(1)</script><b onclick='x' a=\"y\">&amp;\x00\x1b[31m\ud800\N{BELL}"


class Tags(html.parser.HTMLParser):
    """The tags of a page, and the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "make", [at_fault, lambda title: explain(CASES[0].desc(F32), title=title)], ids=["bad", "good"]
)
def test_hostile_text_stays_text(make: Callable[[str], Picture]) -> None:
    hostile, harmless = make(HOSTILE), make("crop")
    tags, expected = Tags(), Tags()
    tags.feed(hostile.html())
    expected.feed(harmless.html())
    assert tags.tags == expected.tags
    assert "<script>alert(1)</script>" in tags.text
    root = ElementTree.fromstring(hostile.svg())  # noqa: S314 - our own
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "style", "rect", "text", "g", "title", "path"}
    assert "alert(1)" in "".join(root.itertext())
    hostile.html().encode("utf-8")
    assert "\x1b" not in hostile.text()


def test_a_page_needs_nothing_from_anywhere() -> None:
    page = explain(CASES[0].desc(F32)).html()
    assert "default-src 'none'" in page
    for word in ("http://", "https://", "src=", "href=", "@import", "url("):
        assert word not in page


# Notebooks


def test_descriptions_and_compiled_operators_show_themselves() -> None:
    desc = CASES[2].desc(F32)
    compiled = dml.Device("reference").compile(desc)
    assert desc._repr_html_() == compiled._repr_html_() == explain(desc)._repr_html_()
    assert "<!doctype" not in desc._repr_html_()
    assert " id=" not in desc._repr_html_()


def test_a_picture_needs_no_library_of_the_command_line() -> None:
    code = (
        "import sys, anydml as dml; assert 'anydml.explain' not in sys.modules;"
        "x = dml.TensorDesc('float32', (4,));"
        "p = dml.CumulativeSummation.infer(input_tensor=x, axis=0)._repr_html_();"
        "print([m for m in ('rich', 'click', 'numba') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert found.stdout == "[]\n"


def test_text_has_a_spelling_for_every_terminal() -> None:
    for case in CASES:
        assert as_ascii(explain(case.desc(F32), *case.inputs(F32)).text()).isascii()


def test_grids_stand_below_one_another_where_a_terminal_is_narrow() -> None:
    picture = explain(CASES[0].desc(F32))
    lines = picture.text(width=50).splitlines()
    grids = [line for line in lines if "Tensor {" in line]
    assert [line.split()[0] for line in grids] == ["InputTensor", "OutputTensor"]
    assert max(map(len, lines[:20])) <= 50


def test_a_title_from_a_stranger_is_one_line_in_the_order_it_is_written() -> None:
    x = dml.TensorDesc("float32", (2,))
    desc = dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=0)
    picture = explain(desc, title="a\n\tb\u202ec\x1b[31m\u2066")
    for drawing in (picture.text(), picture.svg(), picture.html()):
        assert "a b\ufffdc\ufffd[31m\ufffd: CUMULATIVE_SUMMATION" in drawing
