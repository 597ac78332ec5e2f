"""Normalisations: numbers less their mean, by their deviation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.enums import ReduceFunction
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.lowerings.reducing import reduce
from anydml.onnx.types import BOOL, FLOAT
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.nodes import Node


def layer_norm(node: Node) -> list[Value]:
    """LayerNormalization: over the last dimensions, from an axis on."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    axes = list(range(axis, len(x.shape)))
    y = _normalised(node, x, axes, node.input(1), node.optional(2))
    if node.output_count == 1:
        return [y]
    wide = convert(node, x, FLOAT)
    mean = reduce(node, wide, ReduceFunction.AVERAGE, axes)
    apart = compute(node, dml.subtract, wide, mean)
    variance = reduce(node, compute(node, dml.multiply, apart, apart), ReduceFunction.AVERAGE, axes)
    root = compute(node, dml.sqrt, variance, scale_bias=(1.0, node.real("epsilon")))
    return [y, mean, compute(node, dml.recip, root)][: node.output_count]


def rms_norm(node: Node) -> list[Value]:
    """RMSNormalization and SimplifiedLayerNormalization: by the root of the mean square alone."""
    x = node.input(0)
    if node.output_count > 1:
        node.unsupported("inv_std_var", "inv_std_var is not supported: it is for training")
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    return [_normalised(node, x, list(range(axis, len(x.shape))), node.input(1), None, use_mean=False)]


def skip_norm(*, use_mean: bool) -> Callable[[Node], list[Value]]:
    """SkipLayerNormalization and SkipSimplifiedLayerNormalization: of a sum, which is an output too."""

    def lower(node: Node) -> list[Value]:
        x, skip = node.input(0), node.input(1)
        beta, bias = (node.optional(3), node.optional(4)) if use_mean else (None, node.optional(3))
        total = compute(node, dml.add, x, skip)
        if bias is not None:
            total = compute(node, dml.add, total, bias)
        if total.shape != x.shape:
            rule = f"skip and bias must have shapes that can be broadcast to input's, {x.shape}"
            node.refuse("skip", rule, value=skip.shape, found=str(skip.shape))
        if any(node.proto.output[i] for i in (1, 2) if i < node.output_count):
            node.unsupported("mean", "mean and inv_std_var are not supported: they are for training")
        y = _normalised(node, total, [len(x.shape) - 1], node.input(2), beta, use_mean=use_mean)
        return [y, y, y, total][: node.output_count]

    return lower


def instance_norm(node: Node) -> list[Value]:
    """InstanceNormalization: every channel of every image for itself."""
    x = node.input(0)
    if len(x.shape) < 3:
        node.refuse("input", "input must have at least 3 dimensions", value=x.shape, found=str(x.shape))
    scale, bias = (_by_channel(node, i, x) for i in (1, 2))
    return [_normalised(node, x, list(range(2, len(x.shape))), scale, bias)]


def group_norm(node: Node) -> list[Value]:
    """GroupNormalization: channels by groups; scale and bias are the groups' below opset 21, then the channels'."""
    x, groups = node.input(0), node.integer("num_groups")
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        rule = f"num_groups must be a divisor of the channels, of which {x.shape} has its second dimension"
        node.refuse("num_groups", rule, value=groups, found=str(groups))
    inside = (x.shape[1] // groups, *x.shape[2:])
    split = node.tracer.reshape(x, (x.shape[0], groups, *inside))
    rows = node.tracer.reshape(x, (x.shape[0], groups, math.prod(inside)))
    by_group = node.version < 21
    normal = _normalised(node, rows, [2], None, None) if not by_group else None
    count = groups if by_group else x.shape[1]
    given = []
    for i, name in ((1, "scale"), (2, "bias")):
        value = node.input(i)
        if value.shape != (count,):
            node.refuse(name, f"{name} must have the shape ({count},)", value=value.shape, found=str(value.shape))
        sizes = (1, groups, 1) if by_group else (1, groups, inside[0], *(1,) * (len(inside) - 1))
        given.append(node.tracer.reshape(value, sizes))
    if normal is None:
        return [_normalised(node, rows, [2], *given).reshaped(x.shape)]
    shaped = node.tracer.reshape(normal, split.shape)
    found = compute(node, dml.add, compute(node, dml.multiply, shaped, given[0]), given[1])
    return [found.reshaped(x.shape)]


def mean_variance_norm(node: Node) -> list[Value]:
    """MeanVarianceNormalization: less the mean, by the deviation and a billionth."""
    x, given = node.input(0), node.integers("axes")
    axes = sorted(node.axes([0, 2, 3] if given is None else given, len(x.shape)))
    apart = compute(node, dml.subtract, x, reduce(node, x, ReduceFunction.AVERAGE, axes))
    variance = reduce(node, compute(node, dml.multiply, apart, apart), ReduceFunction.AVERAGE, axes)
    deviation = compute(node, dml.identity, compute(node, dml.sqrt, variance), scale_bias=(1.0, 1e-9))
    return [compute(node, dml.divide, apart, deviation)]


def _by_channel(node: Node, index: int, x: Value) -> Value:
    value, name = node.input(index), node.rules.inputs[index].name
    if value.shape != x.shape[1:2]:
        rule = f"{name} must have the shape of the channels, {x.shape[1:2]}"
        node.refuse(name, rule, value=value.shape, found=str(value.shape))
    return node.tracer.reshape(value, (x.shape[1], *(1,) * (len(x.shape) - 2)))


def _normalised(
    node: Node, x: Value, axes: Sequence[int], scale: Value | None, bias: Value | None, *, use_mean: bool = True
) -> Value:
    """MEAN_VARIANCE_NORMALIZATION2 over axes."""
    options: dict[str, Any] = {
        "axes": tuple(axes),
        "use_mean": use_mean,
        "use_variance": True,
        "epsilon": node.real("epsilon"),
    }
    given = [value for value in (scale, bias) if value is not None]
    shaped = []
    for value, name in zip(given, ("scale", "bias"), strict=False):
        if len(value.shape) > len(x.shape) or any(
            a not in (1, b) for a, b in zip(value.shape[::-1], x.shape[::-1], strict=False)
        ):
            rule = f"{name} must have a shape that can be broadcast to X's, {x.shape}"
            node.refuse(name, rule, value=value.shape, found=str(value.shape))
        shape = (1,) * (len(x.shape) - len(value.shape)) + value.shape
        shaped.append(convert(node, node.tracer.reshape(value, shape), x.element))

    def call(first: Any, *others: Any, **named: Any) -> Any:
        places: dict[str, Any] = dict(zip(("scale", "bias"), others, strict=False))
        return dml.mean_variance_normalization2(first, **places, **named)

    return node.tracer.apply(call, [x, *shaped], x.shape, **options)


def batch_norm(node: Node) -> list[Value]:
    """BatchNormalization: by means and variances that are given; in training by the batch's own."""
    x = node.input(0)
    trains = _trains(node)
    if node.version < 9 and not node.integer("spatial", 1):
        node.unsupported("spatial", "BatchNormalization must be spatial: a mean for each channel")
    if len(x.shape) < 2:
        x = node.tracer.reshape(x, (*x.shape, 1)) if len(x.shape) == 1 else x
    scale, bias, mean, variance = (_column(node, i, x) for i in range(1, 5))
    if not trains:
        given = [x, *(convert(node, value, x.element) for value in (mean, variance, scale, bias))]
        y = node.tracer.apply(dml.batch_normalization, given, x.shape, epsilon=node.real("epsilon"))
        return [y.reshaped(node.input(0).shape)]
    axes = [k for k in range(len(x.shape)) if k != 1]
    own = reduce(node, x, ReduceFunction.AVERAGE, axes)
    apart = compute(node, dml.subtract, x, own)
    spread = reduce(node, compute(node, dml.multiply, apart, apart), ReduceFunction.AVERAGE, axes)
    given = [x, own, spread, *(convert(node, value, x.element) for value in (scale, bias))]
    y = node.tracer.apply(dml.batch_normalization, given, x.shape, epsilon=node.real("epsilon"))
    momentum = node.real("momentum")
    running = [
        compute(
            node,
            dml.add,
            compute(node, dml.identity, before, scale_bias=(momentum, 0.0)),
            compute(node, dml.identity, convert(node, now, before.element), scale_bias=(1 - momentum, 0.0)),
        ).reshaped((before.count,))
        for before, now in ((mean, own), (variance, spread))
    ]
    # Before opset 14 two more for a gradient: ONNX Runtime's fifth is 1 over the deviation, whatever it is called.
    if node.version < 14 and node.output_count > 3:
        deviation = compute(node, dml.sqrt, spread, scale_bias=(1.0, node.real("epsilon")))
        saved = (own, compute(node, dml.recip, deviation))
        running += [convert(node, value, mean.element).reshaped((mean.count,)) for value in saved]
    return [y.reshaped(node.input(0).shape), *running][: node.output_count]


def _trains(node: Node) -> bool:
    """Whether it is in training: said by an attribute, but from opset 7 to 13 by asking for more than one output."""
    if node.version >= 14:
        return bool(node.integer("training_mode", 0))
    return node.output_count > 1 if node.version >= 7 else not node.integer("is_test", 0)


def _column(node: Node, index: int, x: Value) -> Value:
    value, name = node.input(index), node.rules.inputs[index].name
    if value.shape != x.shape[1:2]:
        rule = f"{name} must have the shape of the channels, {x.shape[1:2]}"
        node.refuse(name, rule, value=value.shape, found=str(value.shape))
    return node.tracer.reshape(value, (1, value.count, *(1,) * (len(x.shape) - 2)))


def lp_norm(node: Node) -> list[Value]:
    """LpNormalization: by the sum of magnitudes, or the root of the sum of squares; a row of zeros stays one."""
    x, p = node.input(0), node.integer("p", 2)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    if p not in (1, 2):
        node.refuse("p", "p must be 1 or 2", value=p, found=str(p))
    norm = reduce(node, x, ReduceFunction.L1 if p == 1 else ReduceFunction.L2, [axis])
    is_zero = compute(node, dml.logical_equals, norm, Value.of(norm.element, 0), element=BOOL)
    safe = compute(node, dml.if_, is_zero, Value.of(norm.element, 1), norm, element=norm.element)
    return [compute(node, dml.divide, x, safe)]


def local_response_norm(node: Node) -> list[Value]:
    """LRN: by the squares of the channels around each."""
    x = node.input(0)
    options: dict[str, Any] = {"alpha": node.real("alpha"), "beta": node.real("beta"), "bias": node.real("bias")}
    if len(x.shape) < 3:
        node.refuse("X", "X must have at least 3 dimensions", value=x.shape, found=str(x.shape))
    flat = node.tracer.reshape(x, (*x.shape[:2], x.shape[2], math.prod(x.shape[3:])))
    function = dml.local_response_normalization
    size = node.integer("size")
    found = node.tracer.apply(function, [flat], flat.shape, cross_channel=True, local_size=size, **options)
    return [found.reshaped(x.shape)]
