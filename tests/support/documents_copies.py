"""The documents' examples of operators that slice, gather, join, fill and add up, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from case_kinds import Case, one_to_one

if TYPE_CHECKING:
    from collections.abc import Sequence


GRID = np.arange(1, 17).reshape(1, 1, 4, 4)
ROWS = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]).reshape(1, 1, 3, 4)
INCREASING, DECREASING = "DML_AXIS_DIRECTION_INCREASING", "DML_AXIS_DIRECTION_DECREASING"


def _slice(name: str, offsets: Any, sizes: Any, strides: Any, expected: Any) -> Case:
    shaped = np.array(expected).reshape(sizes)
    return one_to_one(dml.Slice, name, GRID, shaped, offsets=offsets, sizes=sizes, strides=strides)


def _slice1(name: str, strides: Any, expected: Any) -> Case:
    attributes = {
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": strides,
    }
    return one_to_one(dml.Slice1, name, GRID, np.array(expected).reshape(1, 1, 2, 2), **attributes)


def _gather_nd(name: str, x: Any, indices: Any, expected: Any, counts: Any, batch: int | None = None) -> Case:
    attributes = {"input_dimension_count": counts[0], "indices_dimension_count": counts[1], "indices": indices}
    if batch is None:
        return one_to_one(dml.GatherND, name, x, expected, **attributes)
    return one_to_one(dml.GatherND1, name, x, expected, **attributes, batch_dimension_count=batch)


def _sum(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_sum": exclusive}
    return one_to_one(dml.CumulativeSummation, name, ROWS, np.array(expected).reshape(ROWS.shape), **attributes)


def _product(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_product": exclusive}
    return one_to_one(dml.CumulativeProduct, name, ROWS, np.array(expected).reshape(ROWS.shape), **attributes)


def _gather(name: str, x: Any, indices: Any, expected: Any, axis: int, index_dimensions: int) -> Case:
    return one_to_one(dml.Gather, name, x, expected, indices=indices, axis=axis, index_dimensions=index_dimensions)


def _join(name: str, axis: int, sources: Sequence[np.ndarray], expected: Any, sizes: tuple[int, ...]) -> Case:
    return Case(f"JOIN {name}", dml.Join, tuple(sources), (np.array(expected).reshape(sizes),), {"axis": axis})


def _split(name: str, axis: int, *results: Any) -> Case:
    shaped = tuple(np.array(y)[None, None] for y in results)
    return Case(f"SPLIT {name}", dml.Split, (np.arange(1, 13).reshape(1, 1, 6, 2),), shaped, {"axis": axis})


def _fill(operator: type[dml.OperatorDesc], name: str, expected: Any, **numbers: float) -> Case:
    return Case(f"{operator.type.name} {name}", operator, (), (np.array(expected),), numbers)


def _reverse(name: str, axis: int, lengths: Any, expected: Any) -> Case:
    x, shaped = np.arange(1, 13).reshape(1, 1, 3, 4), np.array(expected).reshape(1, 1, 3, 4)
    return one_to_one(dml.ReverseSubsequences, name, x, shaped, indices=lengths, axis=axis)


BATCHES = [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]]
BATCH_INDICES = [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]]
PAIRS = [[1, 2], [3, 4], [5, 6]]
NESTED = [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]
SQUARE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
SQUARES = [np.arange(first, first + 4).reshape(1, 1, 2, 2) for first in (1, 5, 9)]

COPIES = [
    _slice("example 1", (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1), [7, 8, 11, 12, 15, 16]),
    _slice("example 2", (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3), [5, 8, 13, 16]),
    _slice1("example 1", (1, 1, 2, 2), [2, 4, 10, 12]),
    _slice1("example 2", (1, 1, -2, 2), [14, 16, 6, 8]),
    _gather_nd("example 1", [[0, 1], [2, 3]], [[1], [0]], [[2, 3], [0, 1]], (2, 2)),
    # Level 2_1 takes four dimensions only: the same data, with leading 1s.
    _gather_nd("example 1 padded", [[[[0, 1], [2, 3]]]], [[[[1], [0]]]], [[[[2, 3], [0, 1]]]], (2, 2)),
    _gather_nd(
        "example 2",
        [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
        [[[[0, 1], [1, 0]]]],
        [[[[2, 3], [4, 5]]]],
        (3, 2),
    ),
    _gather_nd("example 1", [[0, 1], [2, 3]], [[1], [0]], [[2, 3], [0, 1]], (2, 2), batch=0),
    _gather_nd("example 2", BATCHES, BATCH_INDICES, [[[[0, 3], [7, 4], [9, 10]]]], (3, 3), batch=1),
    _sum("example 1", 3, INCREASING, False, [2, 3, 6, 11, 3, 11, 18, 21, 9, 15, 17, 21]),
    _sum("example 2", 3, INCREASING, True, [0, 2, 3, 6, 0, 3, 11, 18, 0, 9, 15, 17]),
    _sum("example 3", 3, DECREASING, False, [11, 9, 8, 5, 21, 18, 10, 3, 21, 12, 6, 4]),
    _sum("example 4", 2, INCREASING, False, [2, 1, 3, 5, 5, 9, 10, 8, 14, 15, 12, 12]),
    _product("example 1", 3, INCREASING, False, [2, 2, 6, 30, 3, 24, 168, 504, 9, 54, 108, 432]),
    _product("example 2", 3, INCREASING, True, [1, 2, 2, 6, 1, 3, 24, 168, 1, 9, 54, 108]),
    _product("example 3", 3, DECREASING, False, [30, 15, 15, 5, 504, 168, 21, 3, 432, 48, 8, 4]),
    _product("example 4", 2, INCREASING, False, [2, 1, 3, 5, 6, 8, 21, 15, 54, 48, 42, 60]),
    _gather("example 1", [11, 12, 13, 14], [3, 1, 3, 0, 2], [14, 12, 14, 11, 13], 0, 1),
    _gather("example 2", PAIRS, [[0, 1, 1, 2]], [[1, 2], [3, 4], [3, 4], [5, 6]], 0, 1),
    # The document has IndexDimensions 2 here, which would give three dimensions; its own output has two.
    _gather("example 3", PAIRS, [[1, 0]], [[2, 1], [4, 3], [6, 5]], 1, 1),
    _gather("example 4", [SQUARE], [[[0, 2]]], [[[1, 3]], [[4, 6]], [[7, 9]]], 2, 2),
    _gather("example 5", [PAIRS], [[[0, 1], [1, 2]]], NESTED, 1, 2),
    # Levels below 3_0 take four dimensions only.
    _gather("example 5 padded", [[PAIRS]], [[[[0, 1], [1, 2]]]], [NESTED], 2, 2),
    one_to_one(dml.GatherElements, "example 1", SQUARE, [[4, 8, 3], [7, 2, 3]], indices=[[1, 2, 0], [2, 0, 0]], axis=0),
    one_to_one(
        dml.GatherElements,
        "example 1 padded",
        [[SQUARE]],
        [[[[4, 8, 3], [7, 2, 3]]]],
        indices=[[[[1, 2, 0], [2, 0, 0]]]],
        axis=2,
    ),
    # The pages of these two have formulas, and no example; so have those of the other element-wise operators.
    one_to_one(dml.ElementWiseIdentity, "f(x) = x", GRID, GRID),
    one_to_one(dml.ElementWiseIdentity, "g(x) = x * scale + bias", GRID, GRID * 3 + 2, scale_bias=(3.0, 2.0)),
    one_to_one(dml.Cast, "of small numbers", GRID, GRID),
    _join(
        "example 1",
        3,
        [np.arange(1, 7).reshape(1, 1, 2, 3), np.arange(7, 15).reshape(1, 1, 2, 4)],
        [1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11, 12, 13, 14],
        (1, 1, 2, 7),
    ),
    _join("example 2, axis 1", 1, SQUARES, range(1, 13), (1, 3, 2, 2)),
    _join("example 2, axis 2", 2, SQUARES, range(1, 13), (1, 1, 6, 2)),
    _join("example 2, axis 3", 3, SQUARES, [1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12], (1, 1, 2, 6)),
    _split("example 1", 2, [[1, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10], [11, 12]]),
    _split("example 2", 3, [[1], [3], [5], [7], [9], [11]], [[2], [4], [6], [8], [10], [12]]),
    _fill(dml.FillValueConstant, "example 1", [[[[13] * 4] * 2]], value=13.0),
    _fill(dml.FillValueSequence, "example 1", [[[[3, 5, 7]]]], value_start=3, value_delta=2),
    _fill(dml.FillValueSequence, "example 2", [[[[10, 8], [6, 4]]]], value_start=10, value_delta=-2),
    _reverse("example 1", 3, [[[[2], [4], [3]]]], [2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12]),
    _reverse("example 2", 2, [[[[2, 3, 1, 0]]]], [5, 10, 3, 4, 1, 6, 7, 8, 9, 2, 11, 12]),
]
