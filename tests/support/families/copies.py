"""The operators that copy, convert, fill and add up: random descriptions, and how answers are compared."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import anydml as dml
from agreement import assert_agrees, assert_same
from drawing import (
    CHOICES,
    OPERATORS,
    SEEDS,
    UINT32_MAX,
    Array,
    Case,
    Operator,
    draw_sizes,
    draw_tensor,
    draw_window,
    make_case,
    make_indices,
    pick,
    upto,
)
from expecting import TALLIES, expected
from families.family import Family
from moving_strategies import MORE_MAKERS
from refusals import Broken, create

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drawing import Maker


@st.composite
def copying_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    levels = CHOICES[cls, "data"]
    level = pick(draw, tuple(levels))
    data_types, counts = levels[level]
    data_type, count = pick(draw, data_types), pick(draw, counts)
    return _MAKERS[cls](draw, cls, level, data_type, count)


def _slice(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_sizes = draw_sizes(draw, count, 64)
    offsets, sizes, strides = [], [], []
    for limit in input_sizes:
        size = limit - pick(draw, range(limit))
        offset, stride = pick(draw, _steps(limit, size))
        offsets.append(offset)
        sizes.append(size)
        strides.append(stride)
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, input_sizes),
        "output_tensor": draw_tensor(draw, data_type, tuple(sizes), is_output=True),
    }
    return make_case(draw, cls, level, tensors, {"offsets": offsets, "sizes": sizes, "strides": strides})


def _slice1(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_sizes = draw_sizes(draw, count, 64)
    output_sizes, window = draw_window(draw, input_sizes)
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, input_sizes),
        "output_tensor": draw_tensor(draw, data_type, output_sizes, is_output=True),
    }
    return make_case(draw, cls, level, tensors, window)


@functools.cache
def _steps(limit: int, size: int) -> tuple[tuple[int, int], ...]:
    """Every (offset, stride) that copies `size` elements out of `limit`; one element takes a stride of any length."""
    strides = range(1, (limit - 1) // (size - 1) + 1) if size > 1 else (1, limit + 1, UINT32_MAX)
    return tuple((offset, stride) for stride in strides for offset in range(limit - (size - 1) * stride))


def _gather(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    input_count = count - pick(draw, range(count))
    batch_count = min(pick(draw, (1, 0, 2, 3)), input_count - 1) if cls is dml.GatherND1 else 0
    tuple_size = 1 + draw(upto(input_count - batch_count - 1))
    rest_count = input_count - batch_count - tuple_size
    # The result has indices_count - 1 + rest_count dimensions, which must find room in count.
    indices_count = min(count, count + 1 - rest_count)
    indices_count -= draw(upto(indices_count - batch_count - 1))
    batch, rest, tuples, indexed = (
        draw_sizes(draw, n, most) if n else ()
        for n, most in ((batch_count, 6), (rest_count, 4), (indices_count - 1 - batch_count, 8), (tuple_size, 12))
    )
    index_types, _ = CHOICES[cls, "IndicesTensor"][level]
    sizes = {
        "input_tensor": batch + indexed + rest,
        "indices_tensor": (*batch, *tuples, tuple_size),
        "output_tensor": batch + tuples + rest,
    }
    full = {name: (1,) * (count - len(own)) + own for name, own in sizes.items()}
    tensors = {
        "input_tensor": draw_tensor(draw, data_type, full["input_tensor"]),
        "indices_tensor": draw_tensor(draw, pick(draw, index_types), full["indices_tensor"]),
        "output_tensor": draw_tensor(draw, data_type, full["output_tensor"], is_output=True),
    }
    mode = pick(draw, tuple(dml.IndexMode))
    is_outside = draw(upto(7)) > 5 if mode is dml.IndexMode.RAISE else draw(upto(7)) < 6
    attributes: dict[str, Any] = {"input_dimension_count": input_count, "indices_dimension_count": indices_count}
    if cls is dml.GatherND1:
        attributes["batch_dimension_count"] = batch_count
    attributes["index_mode"] = mode
    indices = make_indices(tensors["indices_tensor"], indexed, draw(SEEDS), is_outside=is_outside)
    return make_case(draw, cls, level, tensors, attributes, contents={"indices_tensor": indices})


def _cumulative(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel, data_type: dml.DataType, count: int) -> Case:
    sizes = draw_sizes(draw, count, 64)
    output = draw_tensor(draw, data_type, sizes, is_output=True)
    is_in_place = pick(draw, (False, True))
    tensors = {
        "input_tensor": output if is_in_place else draw_tensor(draw, data_type, sizes),
        "output_tensor": output,
    }
    axis = draw(upto(2 * count))  # an axis of size 1 has no tally to speak of: the longest is taken often
    exclusive = "has_exclusive_sum" if cls is dml.CumulativeSummation else "has_exclusive_product"
    attributes = {
        "axis": axis if axis < count else sizes.index(max(sizes)),
        "axis_direction": pick(draw, tuple(dml.AxisDirection)),
        exclusive: pick(draw, (False, True)),
    }
    return make_case(draw, cls, level, tensors, attributes, is_in_place=is_in_place)


_MAKERS: dict[Operator, Maker] = {
    dml.Slice: _slice,
    dml.Slice1: _slice1,
    dml.GatherND: _gather,
    dml.GatherND1: _gather,
    dml.CumulativeSummation: _cumulative,
    dml.CumulativeProduct: _cumulative,
    **MORE_MAKERS,
}


# Broken rules, each with its wording

T = dml.TensorDesc
F4 = T("float32", (1, 1, 4, 4))


def slice_(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": F4,
        "output_tensor": T("float32", (1, 1, 2, 2)),
        "offsets": (0, 0, 1, 0),
        "sizes": (1, 1, 2, 2),
        "strides": (1, 1, 2, 3),
    }
    return create(dml.Slice, level, **{**fields, **changes})


def slice1(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": F4,
        "output_tensor": T("float32", (1, 1, 2, 2)),
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": (1, 1, -2, 2),
    }
    return create(dml.Slice1, level, **{**fields, **changes})


def gather_nd(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": T("float32", (1, 2, 3, 4)),
        "indices_tensor": T("uint32", (1, 1, 5, 2)),
        "output_tensor": T("float32", (1, 1, 5, 4)),
        "input_dimension_count": 3,
        "indices_dimension_count": 2,
    }
    return create(dml.GatherND, level, **{**fields, **changes})


def gather_nd1(**changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {
        "input_tensor": T("float32", (1, 2, 3, 4)),
        "indices_tensor": T("int64", (1, 2, 5, 1)),
        "output_tensor": T("float32", (1, 2, 5, 4)),
        "input_dimension_count": 3,
        "indices_dimension_count": 3,
        "batch_dimension_count": 1,
    }
    return create(dml.GatherND1, level, **{**fields, **changes})


def total(cls: Any = dml.CumulativeSummation, **changes: Any) -> Callable[[], object]:
    level = changes.pop("level", "6_4")
    fields = {"input_tensor": F4, "output_tensor": F4, "axis": 3}
    return create(cls, level, **{**fields, **changes})


SLICES = [
    Broken("offsets too short", slice_(offsets=(0, 0, 0)),
           "SLICE: Offsets must have 4 values, one for each dimension of InputTensor; got 3"),
    Broken("sizes too long", slice_(sizes=(1, 1, 2, 2, 1)),
           "SLICE: Sizes must have 4 values, one for each dimension of InputTensor; got 5"),
    Broken("strides too short", slice_(strides=()),
           "SLICE: Strides must have 4 values, one for each dimension of InputTensor; got 0"),
    Broken("size 0", slice_(sizes=(1, 1, 0, 2)), "SLICE: Sizes[2] must be at least 1; got 0"),
    Broken("stride 0", slice_(strides=(1, 0, 1, 1)), "SLICE: Strides[1] must be at least 1; got 0"),
    Broken("negative slice stride", slice_(strides=(1, 1, 1, -1)), "SLICE: Strides[3] must be at least 1; got -1"),
    Broken("negative offset", slice_(offsets=(0, 0, -1, 0)), "SLICE: Offsets[2] must be at least 0; got -1"),
    Broken("past the end", slice_(offsets=(0, 0, 1, 1)),
           "SLICE: Offsets[3] + (Sizes[3] - 1) * Strides[3] must be below InputTensor.Sizes[3]; got 1 + 1 * 3 >= 4",
           field="Offsets[3]"),
    Broken("other output sizes", slice_(output_tensor=T("float32", (1, 1, 2, 1))),
           "SLICE: OutputTensor.Sizes must be (1, 1, 2, 2), the Sizes of the slice; got (1, 1, 2, 1)"),
    Broken("other output rank", slice_(output_tensor=T("float32", (1, 1, 1, 2, 2))),
           "SLICE: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 5"),
    Broken("other output type", slice_(output_tensor=T("int32", (1, 1, 2, 2))),
           "SLICE: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("overlapping output", slice_(output_tensor=T("float32", (1, 1, 2, 2), strides=(0, 0, 1, 1))),
           "SLICE: OutputTensor.Strides must give every coordinate an element of its own;"
           " got strides (0, 0, 1, 1) for sizes (1, 1, 2, 2)"),
    Broken("INT8 at 1_0",
           slice_(input_tensor=T("int8", (1, 1, 4, 4)), output_tensor=T("int8", (1, 1, 2, 2)), level="1_0"),
           "SLICE: InputTensor of INT8 needs DML_FEATURE_LEVEL_2_1; this device is 1_0", dml.FeatureLevelError),
    Broken("too few dimensions at 2_1",
           create(dml.Slice, "2_1", input_tensor=T("int8", (4,)), output_tensor=T("int8", (1,)),
                  offsets=0, sizes=1, strides=1),
           "SLICE: InputTensor of 1 dimension needs DML_FEATURE_LEVEL_3_0; this device is 2_1, which takes 4 or 5",
           dml.FeatureLevelError),
    Broken("stride 0 in the window", slice1(input_window_strides=(1, 1, 0, 1)),
           "SLICE1: InputWindowStrides[2] must not be 0", field="InputWindowStrides[2]"),
    Broken("stride past 32 bits", slice1(input_window_strides=(1, 1, 2**31, 1)),
           "SLICE1: InputWindowStrides[2] must be at most 2147483647; got 2147483648"),
    Broken("empty window", slice1(input_window_sizes=(1, 1, 0, 3)),
           "SLICE1: InputWindowSizes[2] must be at least 1; got 0"),
    Broken("window past the end", slice1(input_window_offsets=(0, 0, 0, 2)),
           "SLICE1: InputWindowOffsets[3] + InputWindowSizes[3] must not pass InputTensor.Sizes[3]; got 2 + 3 > 4",
           field="InputWindowOffsets[3]"),
    Broken("window offsets too short", slice1(input_window_offsets=(0, 0, 0)),
           "SLICE1: InputWindowOffsets must have 4 values, one for each dimension of InputTensor; got 3"),
    Broken("window sizes too short", slice1(input_window_sizes=(1, 1, 4)),
           "SLICE1: InputWindowSizes must have 4 values, one for each dimension of InputTensor; got 3"),
    Broken("window strides too long", slice1(input_window_strides=(1, 1, 1, 1, 1)),
           "SLICE1: InputWindowStrides must have 4 values, one for each dimension of InputTensor; got 5"),
    Broken("more than the window gives", slice1(output_tensor=T("float32", (1, 1, 3, 2))),
           "SLICE1: OutputTensor.Sizes[2] must lie in 1 .. 2,"
           " 1 + (InputWindowSizes[2] - 1) / |InputWindowStrides[2]|; got 3"),
    Broken("other output type 1", slice1(output_tensor=T("int32", (1, 1, 2, 2))),
           "SLICE1: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("other output rank 1", slice1(output_tensor=T("float32", (1, 2, 2))),
           "SLICE1: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("SLICE1 at 2_0", slice1(level="2_0"),
           "SLICE1: the operator needs DML_FEATURE_LEVEL_2_1; this device is 2_0", dml.FeatureLevelError),
]  # fmt: skip

ND_GATHERS = [
    Broken("indices of another rank", gather_nd(indices_tensor=T("uint32", (1, 5, 2))),
           "GATHER_ND: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("no input dimension", gather_nd(input_dimension_count=0),
           "GATHER_ND: InputDimensionCount must lie in 1 .. 4, the dimensions of InputTensor; got 0"),
    Broken("too many indices dimensions", gather_nd(indices_dimension_count=5),
           "GATHER_ND: IndicesDimensionCount must lie in 1 .. 4, the dimensions of IndicesTensor; got 5"),
    Broken("input padding that is not 1", gather_nd(input_dimension_count=2),
           "GATHER_ND: InputTensor.Sizes[1] must be 1, because only the last InputDimensionCount = 2 dimensions count;"
           " got 2"),
    Broken("indices padding that is not 1", gather_nd(indices_dimension_count=1),
           "GATHER_ND: IndicesTensor.Sizes[2] must be 1, because only the last IndicesDimensionCount = 1 dimensions"
           " count; got 5"),
    Broken("tuple too long", gather_nd(indices_tensor=T("uint32", (1, 1, 5, 4))),
           "GATHER_ND: IndicesTensor.Sizes[3], the coordinates of a tuple, must lie in 1 .. 3, InputDimensionCount;"
           " got 4"),
    Broken("result that does not fit", gather_nd(indices_tensor=T("uint32", (1, 5, 6, 1)), indices_dimension_count=4),
           "GATHER_ND: the result (1, 5, 6, 3, 4) must fit the 4 dimensions of the tensors; got 5;"
           " describe all three tensors with 5 dimensions, leading sizes of 1 added"),
    Broken("other output sizes", gather_nd(output_tensor=T("float32", (1, 1, 5, 3))),
           "GATHER_ND: OutputTensor.Sizes must be (1, 1, 5, 4), the sizes of IndicesTensor without the last, then those"
           " of InputTensor that no tuple indexes; got (1, 1, 5, 3)"),
    Broken("other output rank", gather_nd(output_tensor=T("float32", (5, 4))),
           "GATHER_ND: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 2"),
    Broken("other output type", gather_nd(output_tensor=T("float16", (1, 1, 5, 4))),
           "GATHER_ND: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    Broken("index mode", gather_nd(index_mode="wrap"),
           "GATHER_ND: IndexMode must be one of 'raise', 'clamp'; got 'wrap'"),
    Broken("batch too large for the input", gather_nd1(batch_dimension_count=3, indices_dimension_count=4),
           "GATHER_ND1: BatchDimensionCount must be below InputDimensionCount, 3; got 3"),
    Broken("batch too large for the indices", gather_nd1(batch_dimension_count=2, indices_dimension_count=2,
                                                      indices_tensor=T("int64", (1, 1, 2, 3)), input_dimension_count=4),
           "GATHER_ND1: BatchDimensionCount must be below IndicesDimensionCount, 2; got 2"),
    Broken("batches that differ", gather_nd1(indices_tensor=T("int64", (1, 3, 5, 1))),
           "GATHER_ND1: IndicesTensor.Sizes[1], batch dimension 0, must be the input's, 2; got 3"),
    Broken("tuple too long in a batch", gather_nd1(indices_tensor=T("int64", (1, 2, 5, 3))),
           "GATHER_ND1: IndicesTensor.Sizes[3], the coordinates of a tuple, must lie in 1 .. 2, InputDimensionCount"
           " less BatchDimensionCount; got 3"),
]  # fmt: skip

CUMULATIVE = [
    Broken("axis", total(axis=4), "CUMULATIVE_SUMMATION: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    Broken("negative axis", total(axis=-1), "CUMULATIVE_SUMMATION: Axis must be at least 0; got -1"),
    Broken("direction", total(axis_direction="up"),
           "CUMULATIVE_SUMMATION: AxisDirection must be one of INCREASING, DECREASING; got 'up'"
           "; did you mean INCREASING?"),
    Broken("exclusive", total(has_exclusive_sum="no"),
           "CUMULATIVE_SUMMATION: HasExclusiveSum must be True or False; got 'no'"),
    Broken("exclusive product", total(dml.CumulativeProduct, has_exclusive_product=2),
           "CUMULATIVE_PRODUCT: HasExclusiveProduct must be True or False; got 2"),
    Broken("other sizes", total(output_tensor=T("float32", (1, 1, 4, 5))),
           "CUMULATIVE_SUMMATION: OutputTensor.Sizes must be (1, 1, 4, 4), InputTensor.Sizes; got (1, 1, 4, 5)"),
    Broken("other rank", total(output_tensor=T("float32", (1, 4, 4))),
           "CUMULATIVE_SUMMATION: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("other type", total(output_tensor=T("float16", (1, 1, 4, 4))),
           "CUMULATIVE_SUMMATION: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    Broken("FLOAT64 at every level",
           total(input_tensor=T("float64", (4, 4)), output_tensor=T("float64", (4, 4)), axis=0),
           "CUMULATIVE_SUMMATION: InputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, INT32, UINT64 or INT64;"
           " got FLOAT64; no feature level takes it, so convert the data first, or take it as an extension with"
           " allow_float64=True"),
]  # fmt: skip


X = T("float32", (1, 2, 3, 4))
LIKE: dict[str, Any] = {"input_tensor": X, "output_tensor": X}


def with_changes(cls: type[dml.OperatorDesc], fields: dict[str, Any]) -> Callable[..., Callable[[], object]]:
    """What creates an operator of these fields, but for those that are given."""

    def make(**changes: Any) -> Callable[[], object]:
        level = changes.pop("level", "6_4")
        return create(cls, level, **{**fields, **changes})

    return make


gather = with_changes(
    dml.Gather,
    {
        "input_tensor": X,
        "indices_tensor": T("uint32", (1, 1, 5, 6)),
        "output_tensor": T("float32", (2, 5, 6, 4)),
        "axis": 2,
        "index_dimensions": 2,
    },
)
elements = with_changes(
    dml.GatherElements,
    {
        "input_tensor": X,
        "indices_tensor": T("uint32", (1, 2, 7, 4)),
        "output_tensor": T("float32", (1, 2, 7, 4)),
        "axis": 2,
    },
)
identity = with_changes(dml.ElementWiseIdentity, LIKE)
cast = with_changes(dml.Cast, {"input_tensor": X, "output_tensor": T("int8", (1, 2, 3, 4))})
PARTS = [T("float32", (1, 2, 3, size)) for size in (4, 5)]
LONG = T("float32", (1, 2, 3, 9))
join = with_changes(dml.Join, {"input_tensors": PARTS, "output_tensor": LONG, "axis": 3})
split = with_changes(dml.Split, {"input_tensor": LONG, "output_tensors": PARTS, "axis": 3})
constant = with_changes(
    dml.FillValueConstant, {"output_tensor": T("int8", (1, 1, 2, 2)), "value_data_type": "int8", "value": 7}
)
sequence = with_changes(
    dml.FillValueSequence,
    {"output_tensor": T("uint8", (1, 1, 2, 2)), "value_data_type": "uint8", "value_start": 10, "value_delta": -2},
)
reverse = with_changes(
    dml.ReverseSubsequences, {**LIKE, "sequence_lengths_tensor": T("uint32", (1, 2, 1, 4)), "axis": 2}
)
LEVEL = dml.FeatureLevelError
VALID: dict[str, Callable[..., Callable[[], object]]] = {
    "gather": gather,
    "elements": elements,
    "identity": identity,
    "cast": cast,
    "join": join,
    "split": split,
    "constant": constant,
    "sequence": sequence,
    "reverse": reverse,
    "slice": slice_,
    "slice1": slice1,
    "gather_nd": gather_nd,
    "gather_nd1": gather_nd1,
    "cumulative_summation": total,
    "cumulative_product": lambda: total(dml.CumulativeProduct),
}

GATHERS = [
    Broken("indices of another rank", gather(indices_tensor=T("uint32", (5, 6))),
           "GATHER: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 2",
           field="IndicesTensor.DimensionCount"),
    Broken("axis", gather(axis=4), "GATHER: Axis must be below InputTensor.DimensionCount, 4; got 4", field="Axis"),
    Broken("too many index dimensions", gather(index_dimensions=5),
           "GATHER: IndexDimensions must lie in 0 .. 4, the dimensions of IndicesTensor; got 5",
           field="IndexDimensions"),
    Broken("sizes before those that count", gather(index_dimensions=1),
           "GATHER: IndicesTensor.Sizes[2] must be 1, because only the last IndexDimensions = 1 dimensions count;"
           " got 5",
           field="IndicesTensor.Sizes[2]"),
    Broken("a result that does not fit", gather(input_tensor=T("float32", (2, 2, 3, 4))),
           "GATHER: the result (2, 2, 5, 6, 4) must fit the 4 dimensions of the tensors, without leading 1s; got 5;"
           " describe all three tensors with 5 dimensions, leading sizes of 1 added",
           field="OutputTensor.DimensionCount"),
    Broken("other output sizes", gather(output_tensor=T("float32", (2, 5, 6, 3))),
           "GATHER: OutputTensor.Sizes must be (2, 5, 6, 4), the sizes of InputTensor with those of the indices in the"
           " place of the axis; got (2, 5, 6, 3)", field="OutputTensor.Sizes"),
    Broken("the documents' IndexDimensions of 2",
           create(dml.Gather, input_tensor=T("float32", (3, 2)), indices_tensor=T("uint32", (1, 2)),
                  output_tensor=T("float32", (3, 2)), axis=1, index_dimensions=2),
           "GATHER: the result (3, 1, 2) must fit the 2 dimensions of the tensors, without leading 1s; got 3;"
           " describe all three tensors with 3 dimensions, leading sizes of 1 added"),
    Broken("other output rank", gather(output_tensor=T("float32", (5, 6, 4))),
           "GATHER: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("other output type", gather(output_tensor=T("int32", (2, 5, 6, 4))),
           "GATHER: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
    Broken("index mode", gather(index_mode="wrap"), "GATHER: IndexMode must be one of 'raise', 'clamp'; got 'wrap'"),
    Broken("elements' indices of another rank", elements(indices_tensor=T("uint32", (7, 4))),
           "GATHER_ELEMENTS: IndicesTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 2"),
    Broken("elements' axis", elements(axis=4),
           "GATHER_ELEMENTS: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    Broken("indices of other sizes", elements(indices_tensor=T("uint32", (1, 2, 7, 3))),
           "GATHER_ELEMENTS: IndicesTensor.Sizes[3] must be InputTensor.Sizes[3], 4, as in every dimension but the"
           " axis; got 3", field="IndicesTensor.Sizes[3]"),
    Broken("elements' output sizes", elements(output_tensor=X),
           "GATHER_ELEMENTS: OutputTensor.Sizes must be (1, 2, 7, 4), IndicesTensor.Sizes; got (1, 2, 3, 4)"),
    Broken("elements' output rank", elements(output_tensor=T("float32", (2, 7, 4))),
           "GATHER_ELEMENTS: OutputTensor.DimensionCount must be IndicesTensor.DimensionCount, 4; got 3"),
    Broken("elements' output type", elements(output_tensor=T("uint32", (1, 2, 7, 4))),
           "GATHER_ELEMENTS: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got UINT32"),
]  # fmt: skip

MAPS = [
    Broken("other sizes", identity(output_tensor=T("float32", (1, 2, 4, 3))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.Sizes must be (1, 2, 3, 4), InputTensor.Sizes; got (1, 2, 4, 3)"),
    Broken("other rank", identity(output_tensor=T("float32", (2, 3, 4))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("other type", identity(output_tensor=T("float16", (1, 2, 3, 4))),
           "ELEMENT_WISE_IDENTITY: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16"),
    Broken("no scale and bias", identity(scale_bias=2.0),
           "ELEMENT_WISE_IDENTITY: ScaleBias must be a ScaleBias, a pair of numbers, or None; got 2.0",
           field="ScaleBias"),
    Broken("a scale that is no number", identity(scale_bias=("2", True)),
           "ELEMENT_WISE_IDENTITY: 2 rules are broken\n"
           "  ScaleBias.Scale must be a number; got '2'\n"
           "  ScaleBias.Bias must be a number; got True", field="ScaleBias.Scale"),
    Broken("a ScaleBias of no numbers", lambda: dml.ScaleBias(None, [1.0]),  # type: ignore[arg-type]  # wrong on purpose
           "ScaleBias: 2 rules are broken\n  Scale must be a number; got None\n  Bias must be a number; got [1.0]"),
    Broken("cast to other sizes", cast(output_tensor=T("int8", (1, 2, 3, 5))),
           "CAST: OutputTensor.Sizes must be (1, 2, 3, 4), InputTensor.Sizes; got (1, 2, 3, 5)"),
    Broken("cast to another rank", cast(output_tensor=T("int8", (24,))),
           "CAST: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 1"),
    Broken("cast of both types at 1_0",
           cast(input_tensor=T("int64", (1, 2, 3, 4)), output_tensor=T("float64", (1, 2, 3, 4)), level="1_0"),
           "CAST: 2 rules are broken\n"
           "  InputTensor of INT64 needs DML_FEATURE_LEVEL_3_0; this device is 1_0\n"
           "  OutputTensor of FLOAT64 needs DML_FEATURE_LEVEL_4_1; this device is 1_0", LEVEL),
]  # fmt: skip

JOINS = [
    Broken("no list of inputs", join(input_tensors=X), "JOIN: InputTensors must be a list of TensorDesc;"
           " got TensorDesc('float32', (1, 2, 3, 4))", field="InputTensors"),
    Broken("no inputs", join(input_tensors=[]), "JOIN: InputTensors must have at least one tensor; got none",
           field="InputTensors"),
    Broken("inputs that are no tensors", join(input_tensors=[X, None, 3]),
           "JOIN: 2 rules are broken\n"
           "  InputTensors[1] must be a TensorDesc; got None; describe an array with TensorDesc.of(array)\n"
           "  InputTensors[2] must be a TensorDesc; got 3; describe an array with TensorDesc.of(array)",
           field="InputTensors[1]"),
    Broken("axis", join(axis=4), "JOIN: Axis must be below InputTensors[0].DimensionCount, 4; got 4", field="Axis"),
    Broken("an input of another type", join(input_tensors=[PARTS[0], T("int32", (1, 2, 3, 5))]),
           "JOIN: InputTensors[1].DataType must be InputTensors[0].DataType, FLOAT32; got INT32",
           field="InputTensors[1].DataType"),
    Broken("an input of another rank", join(input_tensors=[PARTS[0], T("float32", (2, 3, 5))]),
           "JOIN: InputTensors[1].DimensionCount must be InputTensors[0].DimensionCount, 4; got 3"),
    Broken("inputs of other sizes",
           join(input_tensors=[PARTS[0], T("float32", (1, 2, 4, 5)), T("float32", (7, 2, 3, 1))]),
           "JOIN: 2 rules are broken\n"
           "  InputTensors[1].Sizes[2] must be InputTensors[0].Sizes[2], 3, as in every dimension but the axis; got 4\n"
           "  InputTensors[2].Sizes[0] must be InputTensors[0].Sizes[0], 1, as in every dimension but the axis; got 7",
           field="InputTensors[1].Sizes[2]"),
    Broken("too short an output", join(output_tensor=T("float32", (1, 2, 3, 8))),
           "JOIN: OutputTensor.Sizes[3] must be 9, the sum of the inputs' sizes along the axis; got 8",
           field="OutputTensor.Sizes[3]"),
    Broken("an output of other sizes", join(output_tensor=T("float32", (1, 3, 3, 9))),
           "JOIN: OutputTensor.Sizes[1] must be InputTensors[0].Sizes[1], 2, as in every dimension but the axis;"
           " got 3"),
    Broken("an output of another type", join(output_tensor=T("uint32", (1, 2, 3, 9))),
           "JOIN: OutputTensor.DataType must be InputTensors[0].DataType, FLOAT32; got UINT32"),
    Broken("an output of another rank", join(output_tensor=T("float32", (2, 3, 9))),
           "JOIN: OutputTensor.DimensionCount must be InputTensors[0].DimensionCount, 4; got 3"),
    Broken("no list of outputs", split(output_tensors=None),
           "SPLIT: OutputTensors must be a list of TensorDesc; got None", field="OutputTensors"),
    Broken("no outputs", split(output_tensors=()), "SPLIT: OutputTensors must have at least one tensor; got none"),
    Broken("split's axis", split(axis=9), "SPLIT: Axis must be below InputTensor.DimensionCount, 4; got 9"),
    Broken("parts that do not add up", split(output_tensors=PARTS[:1]),
           "SPLIT: the sizes of OutputTensors along the axis must add up to InputTensor.Sizes[3], 9; got 4",
           field="OutputTensors"),
    Broken("a part of another type", split(output_tensors=[PARTS[0], T("int32", (1, 2, 3, 5))]),
           "SPLIT: OutputTensors[1].DataType must be InputTensor.DataType, FLOAT32; got INT32",
           field="OutputTensors[1].DataType"),
    Broken("a part of another rank", split(output_tensors=[PARTS[0], T("float32", (2, 3, 5))]),
           "SPLIT: OutputTensors[1].DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("a part of other sizes", split(output_tensors=[PARTS[0], T("float32", (1, 2, 2, 5))]),
           "SPLIT: OutputTensors[1].Sizes[2] must be InputTensor.Sizes[2], 3, as in every dimension but the axis;"
           " got 2", field="OutputTensors[1].Sizes[2]"),
]  # fmt: skip

FILLS = [
    Broken("a value of another type", constant(value_data_type="uint8"),
           "FILL_VALUE_CONSTANT: ValueDataType must be OutputTensor.DataType, INT8; got UINT8", field="ValueDataType"),
    Broken("no type", constant(value_data_type="int5"),
           "FILL_VALUE_CONSTANT: ValueDataType must be one of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16,"
           " INT8, FLOAT64, UINT64, INT64, UINT4, INT4; got 'int5'; did you mean INT8?"),
    Broken("no number", constant(value="7"), "FILL_VALUE_CONSTANT: Value must be a number; got '7'", field="Value"),
    Broken("a truth value", constant(value=True), "FILL_VALUE_CONSTANT: Value must be a number; got True"),
    Broken("a fraction", constant(value=0.5),
           "FILL_VALUE_CONSTANT: Value must be a whole number for INT8; got 0.5", field="Value"),
    Broken("NaN in integers", constant(value=float("nan")),
           "FILL_VALUE_CONSTANT: Value must be a whole number for INT8; got nan"),
    Broken("infinity in integers", constant(value=float("inf")),
           "FILL_VALUE_CONSTANT: Value must be a whole number for INT8; got inf"),
    Broken("too large", constant(value=128), "FILL_VALUE_CONSTANT: Value must lie in -128 .. 127 for INT8;"
           " got 128", field="Value"),
    Broken("too small a float", constant(value=-129.0),
           "FILL_VALUE_CONSTANT: Value must lie in -128 .. 127 for INT8; got -129.0"),
    Broken("start too small", sequence(value_start=-1),
           "FILL_VALUE_SEQUENCE: ValueStart must lie in 0 .. 255 for UINT8; got -1", field="ValueStart"),
    Broken("delta too small", sequence(value_delta=-256),
           "FILL_VALUE_SEQUENCE: ValueDelta must lie in -255 .. 255 for UINT8; got -256", field="ValueDelta"),
    Broken("both numbers", sequence(value_start=1.5, value_delta=256),
           "FILL_VALUE_SEQUENCE: 2 rules are broken\n"
           "  ValueStart must be a whole number for UINT8; got 1.5\n"
           "  ValueDelta must lie in -255 .. 255 for UINT8; got 256"),
    Broken("FLOAT64 at every level", sequence(output_tensor=T("float64", (2,)), value_data_type="float64"),
           "FILL_VALUE_SEQUENCE: OutputTensor must be of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8,"
           " UINT64 or INT64; got FLOAT64; no feature level takes it, so convert the data first, or take it as an"
           " extension with allow_float64=True"),
]  # fmt: skip

REVERSALS = [
    Broken("lengths of another rank", reverse(sequence_lengths_tensor=T("uint32", (2, 1, 4))),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3"),
    Broken("reversal's axis", reverse(axis=4),
           "REVERSE_SUBSEQUENCES: Axis must be below InputTensor.DimensionCount, 4; got 4"),
    Broken("a length for every element", reverse(sequence_lengths_tensor=T("uint32", (1, 2, 3, 4))),
           "REVERSE_SUBSEQUENCES: SequenceLengthsTensor.Sizes must be (1, 2, 1, 4), the sizes of InputTensor, but 1"
           " along the axis; got (1, 2, 3, 4)", field="SequenceLengthsTensor.Sizes"),
    Broken("reversed sizes", reverse(output_tensor=T("float32", (1, 2, 4, 3))),
           "REVERSE_SUBSEQUENCES: OutputTensor.Sizes must be (1, 2, 3, 4), InputTensor.Sizes; got (1, 2, 4, 3)"),
    Broken("reversed type", reverse(output_tensor=T("int32", (1, 2, 3, 4))),
           "REVERSE_SUBSEQUENCES: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got INT32"),
]  # fmt: skip

RULES = [*SLICES, *ND_GATHERS, *CUMULATIVE, *GATHERS, *MAPS, *JOINS, *FILLS, *REVERSALS]


# The row of the table


def check(desc: dml.OperatorDesc, got: list[Array], wanted: list[tuple[Array, Array]], engine: str) -> None:
    """Bit for bit, where an engine adds and multiplies one by one as the oracle does."""
    for one, (want, source) in zip(got, wanted, strict=True):
        if engine == "cuda" and type(desc) in TALLIES:
            assert_agrees(type(desc), source, one.view(want.dtype), want)
        else:
            assert_same(one.view(want.dtype), want)


class Copies(Family):
    """The oracle reads memory, bit by bit."""

    def wanted(self, case: Case, engine: str) -> list[tuple[Array, Array | None]]:
        """Of each output, beside the memory of the input; an index that is outside is an error."""
        return [(want, case.contents.get("input_tensor")) for want in expected(case, engine)]


FAMILY = Copies(OPERATORS, copying_cases, lambda desc, arrays: None, check, rules=RULES)
