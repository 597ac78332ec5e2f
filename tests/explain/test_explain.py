"""Pictures: the documents' examples as they are drawn, and that a picture never lies about where an element is from."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.explain import Limits, explain
from anydml.explain.values import write_value
from cases import CASES

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
        explain("slice")  # type: ignore[arg-type]  # wrong on purpose


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
