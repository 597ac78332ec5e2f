"""The case table: the documents' examples as data. It feeds every engine and every door."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import anydml as dml

# `cuda` needs a process of its own: on a GPU, or with TRITON_INTERPRET=1 before Triton is first imported.
ENGINES = os.environ.get("ANYDML_TEST_ENGINES", "reference cpu").split()
GRID = np.arange(1, 17).reshape(1, 1, 4, 4)
ROWS = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]).reshape(1, 1, 3, 4)
INCREASING, DECREASING = "DML_AXIS_DIRECTION_INCREASING", "DML_AXIS_DIRECTION_DECREASING"


@dataclass(frozen=True)
class Case:
    """An operator, its data as small whole numbers that every type can hold, and what the document says comes out."""

    name: str
    operator: type[dml.OperatorDesc]
    x: np.ndarray
    expected: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)
    indices: np.ndarray | None = None

    def __str__(self) -> str:
        return self.name

    def desc(self, data_type: dml.DataType, index_type: dml.DataType = dml.DataType.UINT32) -> dml.OperatorDesc:
        """The description, as the document has it."""
        tensors = {
            "input_tensor": dml.TensorDesc(data_type, self.x.shape),
            "output_tensor": dml.TensorDesc(data_type, self.expected.shape),
        }
        if self.indices is not None:
            tensors["indices_tensor"] = dml.TensorDesc(index_type, self.indices.shape)
        return self.operator(**tensors, **self.attributes)

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = dml.DataType.UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        arrays = [self.x.astype(data_type.dtype)]
        if self.indices is not None:
            arrays.append(self.indices.astype(index_type.dtype))
        return arrays

    def bare(self) -> Case:
        """The same without the leading 1s that a document writes, as the functions take it."""
        lead = next(i for i, n in enumerate(self.x.shape) if n != 1)
        x, indices = self.x.reshape(self.x.shape[lead:]), self.indices
        attributes: dict[str, Any] = {
            name: v[lead:] if isinstance(v, tuple) else v for name, v in self.attributes.items()
        }
        if "axis" in attributes:
            attributes["axis"] -= self.x.ndim  # the same axis, counted from the end
        if indices is not None:
            indices = indices.reshape(indices.shape[indices.ndim - self.attributes["indices_dimension_count"] :])
        return replace(self, x=x, attributes=attributes, indices=indices)

    def call(self, *arrays: Any, **options: Any) -> Any:
        """The same through the function door, which knows ranks by the arrays' own."""
        counts = {"input_dimension_count", "indices_dimension_count"}
        attributes = {name: value for name, value in self.attributes.items() if name not in counts}
        return FUNCTIONS[self.operator](*arrays, **attributes, **options)


FUNCTIONS: dict[type[dml.OperatorDesc], Any] = {
    dml.Slice: dml.slice,
    dml.Slice1: dml.slice1,
    dml.GatherND: dml.gather_nd,
    dml.GatherND1: dml.gather_nd,
    dml.CumulativeSummation: dml.cumulative_summation,
    dml.CumulativeProduct: dml.cumulative_product,
}


def _slice(name: str, offsets: Any, sizes: Any, strides: Any, expected: Any) -> Case:
    attributes = {"offsets": offsets, "sizes": sizes, "strides": strides}
    return Case(f"SLICE {name}", dml.Slice, GRID, np.array(expected).reshape(sizes), attributes)


def _slice1(name: str, strides: Any, expected: Any) -> Case:
    attributes = {
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": strides,
    }
    return Case(f"SLICE1 {name}", dml.Slice1, GRID, np.array(expected).reshape(1, 1, 2, 2), attributes)


def _gather(name: str, x: Any, indices: Any, expected: Any, counts: tuple[int, int], batch: int | None = None) -> Case:
    attributes = {"input_dimension_count": counts[0], "indices_dimension_count": counts[1]}
    operator: type[dml.OperatorDesc] = dml.GatherND
    if batch is not None:
        operator, attributes = dml.GatherND1, {**attributes, "batch_dimension_count": batch}
    title = "GATHER_ND" if batch is None else "GATHER_ND1"
    return Case(f"{title} {name}", operator, np.array(x), np.array(expected), attributes, np.array(indices))


def _sum(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_sum": exclusive}
    shaped = np.array(expected).reshape(1, 1, 3, 4)
    return Case(f"CUMULATIVE_SUMMATION {name}", dml.CumulativeSummation, ROWS, shaped, attributes)


def _product(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_product": exclusive}
    shaped = np.array(expected).reshape(1, 1, 3, 4)
    return Case(f"CUMULATIVE_PRODUCT {name}", dml.CumulativeProduct, ROWS, shaped, attributes)


BATCHES = [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]]
BATCH_INDICES = [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]]

CASES = [
    _slice("example 1", (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1), [7, 8, 11, 12, 15, 16]),
    _slice("example 2", (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3), [5, 8, 13, 16]),
    _slice1("example 1", (1, 1, 2, 2), [2, 4, 10, 12]),
    _slice1("example 2", (1, 1, -2, 2), [14, 16, 6, 8]),
    _gather("example 1", [[0, 1], [2, 3]], [[1], [0]], [[2, 3], [0, 1]], (2, 2)),
    # Level 2_1 takes four dimensions only: the same data, with leading 1s.
    _gather("example 1 padded", [[[[0, 1], [2, 3]]]], [[[[1], [0]]]], [[[[2, 3], [0, 1]]]], (2, 2)),
    _gather(
        "example 2",
        [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
        [[[[0, 1], [1, 0]]]],
        [[[[2, 3], [4, 5]]]],
        (3, 2),
    ),
    _gather("example 1", [[0, 1], [2, 3]], [[1], [0]], [[2, 3], [0, 1]], (2, 2), batch=0),
    _gather("example 2", BATCHES, BATCH_INDICES, [[[[0, 3], [7, 4], [9, 10]]]], (3, 3), batch=1),
    _sum("example 1", 3, INCREASING, False, [2, 3, 6, 11, 3, 11, 18, 21, 9, 15, 17, 21]),
    _sum("example 2", 3, INCREASING, True, [0, 2, 3, 6, 0, 3, 11, 18, 0, 9, 15, 17]),
    _sum("example 3", 3, DECREASING, False, [11, 9, 8, 5, 21, 18, 10, 3, 21, 12, 6, 4]),
    _sum("example 4", 2, INCREASING, False, [2, 1, 3, 5, 5, 9, 10, 8, 14, 15, 12, 12]),
    _product("example 1", 3, INCREASING, False, [2, 2, 6, 30, 3, 24, 168, 504, 9, 54, 108, 432]),
    _product("example 2", 3, INCREASING, True, [1, 2, 2, 6, 1, 3, 24, 168, 1, 9, 54, 108]),
    _product("example 3", 3, DECREASING, False, [30, 15, 15, 5, 504, 168, 21, 3, 432, 48, 8, 4]),
    _product("example 4", 2, INCREASING, False, [2, 1, 3, 5, 6, 8, 21, 15, 54, 48, 42, 60]),
]
