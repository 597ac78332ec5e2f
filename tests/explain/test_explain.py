"""Pictures: the documents' examples as they are drawn, and that none lies about where an element is from."""

from __future__ import annotations

import inspect
import os
import textwrap
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings

import anydml as dml
import oracle
from anydml.explain import Element, Limits, Picture, explain
from anydml.explain.text import as_ascii
from anydml.explain.values import write_value
from cases import CASES
from families.table import cases

if TYPE_CHECKING:
    from drawing import Array, Operator
    from drawing import Case as RandomCase

F32 = dml.DataType.FLOAT32
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
    # The examples of blocks have more channels than are drawn if not told, and an LSTM's bias has more columns.
    limits = Limits(planes=8, columns=16) if "SPACE" in str(case) or "LSTM" in str(case) else Limits()
    picture = explain(case.desc(kind), *case.inputs(kind), limits=limits)
    assert picture.error is None
    assert as_ascii(picture.text()).isascii()  # a spelling for every terminal
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
        explain(3)  # type: ignore[arg-type]  # wrong on purpose


def test_an_operators_name_shows_its_example() -> None:
    picture = dml.explain("slice1")
    assert isinstance(picture, Picture)
    assert picture.sentences[1] == "output[0,0,0,0] = input[0, 0, 3 - 2*0, 1 + 2*0] = input[0,0,3,1] = 14"
    assert "anydml-picture" in picture._repr_html_()  # in a notebook
    assert picture == explain(dml.Slice1) == explain("DML_OPERATOR_SLICE1")
    assert explain("relu", [[1, -1, 2], [0, 0, 0]]).sentences[1].endswith("max(-1, 0) = 0")
    with pytest.raises(dml.DescriptionError, match=r"desc must name an operator.*'slise1'.*slice1"):
        explain("slise1")
    with pytest.raises(dml.DescriptionError, match=r"`anydml explain net\.onnx` shows a model"):
        explain("net.onnx")


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


EVERYTHING = Limits(planes=1000, rows=1000, columns=1000)
RANDOM = settings(deadline=None, derandomize=False, print_blob=True, max_examples=40 if os.environ.get("CI") else 30)


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


# The operators of the first three verbs; those of the others are in test_verbs.py.
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


def test_the_module_tells_how_it_is_called() -> None:
    told: Any = dml.explain
    assert inspect.signature(told) == inspect.signature(dml.explain.explain)
    assert (told.__doc__ or "").count("dml.explain(") == 2
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'offsets'; write explain\(dml\.Slice1\(\.\.\.\)"):
        told("slice1", offsets=[9])
    with pytest.raises(TypeError, match=r"missing a required argument: 'desc'; write explain\(dml\.Slice1"):
        told()


def test_a_function_is_its_operators_example() -> None:
    assert str(dml.explain(dml.gemm)) == str(dml.explain("gemm"))
    x = np.ones((2, 3), "float32")
    with pytest.raises(dml.BindingError, match=r"\(2, 2\), .*; got \(2, 3\); .* write explain\(dml\.Gemm\(\.\.\.\)"):
        dml.explain(dml.gemm, x, x.T)
