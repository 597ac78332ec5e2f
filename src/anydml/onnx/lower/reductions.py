"""Reductions, ArgMax and ArgMin, Softmax and its kin: rows along axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import anydml as dml
from anydml.core.enums import AxisDirection, ReduceFunction
from anydml.onnx.element_types import INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.values import Value

_FUNCTIONS = {
    "ReduceL1": ReduceFunction.L1,
    "ReduceL2": ReduceFunction.L2,
    "ReduceLogSum": ReduceFunction.LOG_SUM,
    "ReduceLogSumExp": ReduceFunction.LOG_SUM_EXP,
    "ReduceMax": ReduceFunction.MAX,
    "ReduceMean": ReduceFunction.AVERAGE,
    "ReduceMin": ReduceFunction.MIN,
    "ReduceProd": ReduceFunction.MULTIPLY,
    "ReduceSum": ReduceFunction.SUM,
    "ReduceSumSquare": ReduceFunction.SUM_SQUARE,
}
REDUCTIONS: tuple[str, ...] = tuple(_FUNCTIONS)
_OF_NOTHING = {"ReduceProd": 1.0, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf, "ReduceMean": np.nan}
"""The result of a row without elements, where that is not 0."""


def reduction(node: BoundNode) -> list[Value]:
    """A reduction over axes, which are an attribute, and from opset 13 or 18 on an input."""
    x, rank = node.input(0), len(node.input(0).shape)
    if "axes" in node.rules.attributes:
        given = node.integers("axes")
    else:
        given = node.numbers(1, "axes") if node.optional(1) is not None else None
        if not given and node.integer("noop_with_empty_axes", 0):
            return [_of_single(node, x)]
    axes = sorted(node.axes(given, rank)) if given else list(range(rank))
    keeps = bool(node.integer("keepdims", 1))
    shape = _without(x.shape, axes, keeps=keeps)
    if not x.count:
        return [_of_nothing(node, x, shape)]
    if not rank:
        return [_of_single(node, x)]
    return [reduce(node, x, _FUNCTIONS[node.kind], axes).reshaped(shape)]


def reduce(node: BoundNode, x: Value, function: ReduceFunction, axes: Sequence[int]) -> Value:
    """Rows along axes made one number each, with sizes of 1 there."""
    shape = _without(x.shape, axes, keeps=True)
    return node.tracer.apply(dml.reduce, [x], shape, function, tuple(axes)) if axes else x


def _of_single(node: BoundNode, x: Value) -> Value:
    """Every element reduced for itself."""
    column = node.tracer.reshape(x, (x.count, 1))
    return reduce(node, column, _FUNCTIONS[node.kind], [1]).reshaped(x.shape) if x.count else x


def _of_nothing(node: BoundNode, x: Value, shape: tuple[int, ...]) -> Value:
    number, kind = _OF_NOTHING.get(node.kind, 0.0), x.element.held
    if kind.kind != "f" and not np.isfinite(number):  # ONNX leaves it open: as ONNX Runtime
        number = 0 if np.isnan(number) else np.iinfo(kind).min
    if node.kind in ("ReduceMax", "ReduceMin"):
        ends = (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
        number = (0, 1)[node.kind == "ReduceMin"] if x.element.is_bool else ends[node.kind == "ReduceMin"]
    return node.tracer.fill(dml.fill_value_constant, x.element, shape, number)


def _without(shape: Sequence[int], axes: Sequence[int], *, keeps: bool) -> tuple[int, ...]:
    return tuple(1 if k in axes else size for k, size in enumerate(shape) if keeps or k not in axes)


def extreme(function: str) -> Callable[[BoundNode], list[Value]]:
    """ArgMax or ArgMin: where along an axis the first one is, or the last."""

    def lower(node: BoundNode) -> list[Value]:
        x = node.input(0)
        axis = node.axis(node.integer("axis", 0), len(x.shape))
        is_last = bool(node.integer("select_last_index", 0)) if node.version >= 12 else False
        direction = AxisDirection.DECREASING if is_last else AxisDirection.INCREASING
        kept = _without(x.shape, [axis], keeps=True)
        found = node.tracer.apply(
            getattr(dml, function), [x], kept, axes=(axis,), axis_direction=direction, element=INT64
        )
        return [found.reshaped(_without(x.shape, [axis], keeps=bool(node.integer("keepdims", 1))))]

    return lower


def along_rest(function: str) -> Callable[[BoundNode], list[Value]]:
    """Softmax and its kin below opset 13: along an axis and all that follow it, as if they were one."""

    def lower(node: BoundNode) -> list[Value]:
        x = node.input(0)
        axis = node.integer("axis", 1)
        axis = axis if axis == len(x.shape) else node.axis(axis, len(x.shape))
        rows = math.prod(x.shape[:axis])
        flat = node.tracer.reshape(x, (rows, x.count // rows if rows else 0))
        return [node.tracer.apply(getattr(dml, function), [flat], flat.shape, axes=(1,)).reshaped(x.shape)]

    return lower


def along_axis(function: str) -> Callable[[BoundNode], list[Value]]:
    """Softmax and its kin from opset 13 on: along one axis."""

    def lower(node: BoundNode) -> list[Value]:
        x = node.input(0)
        axis = node.axis(node.integer("axis", -1), len(x.shape))
        return [node.tracer.apply(getattr(dml, function), [x], x.shape, axes=(axis,))]

    return lower
