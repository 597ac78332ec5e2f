"""A valid description of each operator with nothing odd about it, to be broken."""

from __future__ import annotations

from typing import Any

import anydml as dml
from drawing import Case, Operator, Tensor, slots

FLOAT32, UINT32 = dml.DataType.FLOAT32, dml.DataType.UINT32
X = Tensor(FLOAT32, (1, 2, 3, 4))
LIKE = {"input_tensor": X, "output_tensor": X}
LONG = Tensor(FLOAT32, (1, 2, 3, 9))
PARTS = [Tensor(FLOAT32, (1, 2, 3, size)) for size in (4, 5)]
WINDOW = {"input_window_offsets": [0] * 4, "input_window_sizes": [1, 2, 3, 4], "input_window_strides": [-1] * 4}
TALLY = {"axis": 3, "axis_direction": "increasing"}
TUPLES = {"input_dimension_count": 3, "indices_dimension_count": 3, "index_mode": "raise"}


def _case(cls: Operator, tensors: dict[str, Tensor], **attributes: Any) -> Case:
    return Case(cls, dml.FeatureLevel.highest(), tensors, attributes, {})


def _chosen(indices: tuple[int, ...], result: tuple[int, ...]) -> dict[str, Tensor]:
    return {"input_tensor": X, "indices_tensor": Tensor(UINT32, indices), "output_tensor": Tensor(FLOAT32, result)}


_CASES = (
    _case(dml.Slice, LIKE, offsets=[0] * 4, sizes=[1, 2, 3, 4], strides=[1] * 4),
    _case(dml.Slice1, LIKE, **WINDOW),
    _case(dml.GatherND, _chosen((1, 2, 3, 1), (2, 3, 3, 4)), **TUPLES),
    _case(dml.GatherND1, _chosen((1, 2, 3, 1), (1, 2, 3, 4)), **TUPLES, batch_dimension_count=1),
    _case(dml.CumulativeSummation, LIKE, **TALLY, has_exclusive_sum=False),
    _case(dml.CumulativeProduct, LIKE, **TALLY, has_exclusive_product=False),
    _case(dml.Gather, _chosen((1, 1, 5, 6), (2, 5, 6, 4)), axis=2, index_dimensions=2, index_mode="raise"),
    _case(dml.GatherElements, _chosen((1, 2, 7, 4), (1, 2, 7, 4)), axis=2, index_mode="raise"),
    _case(dml.ElementWiseIdentity, LIKE, scale_bias=(2.0, 1.0)),
    _case(dml.Cast, {"input_tensor": X, "output_tensor": Tensor(dml.DataType.INT8, X.sizes)}),
    _case(dml.Join, {**slots("input_tensors", PARTS), "output_tensor": LONG}, axis=3),
    _case(dml.Split, {"input_tensor": LONG, **slots("output_tensors", PARTS)}, axis=3),
    _case(dml.FillValueConstant, {"output_tensor": X}, value_data_type="float32", value=1.5),
    _case(dml.FillValueSequence, {"output_tensor": X}, value_data_type="float32", value_start=1, value_delta=-2),
    _case(
        dml.ReverseSubsequences,
        {"input_tensor": X, "sequence_lengths_tensor": Tensor(UINT32, (1, 2, 1, 4)), "output_tensor": X},
        axis=2,
    ),
)
TYPICAL = {case.cls: case for case in _CASES}
