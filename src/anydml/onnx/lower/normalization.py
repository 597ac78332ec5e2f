"""Normalisations: numbers less their mean, by their deviation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.core.enums import DataType, ReduceFunction
from anydml.onnx.element_types import BOOL, FLOAT
from anydml.onnx.lower.data_movement import convert
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.lower.bound_node import BoundNode


def layer_norm(node: BoundNode) -> list[Value]:
    """LayerNormalization: over the last dimensions, from an axis on. Before opset 17 the result is of scale's type."""
    x, scale = node.input(0), node.input(1)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    axes = list(range(axis, len(x.shape)))
    exact = x if x.element == scale.element else _wide(node, x)
    y = convert(node, _normalised(node, exact, axes, scale, node.optional(2)), scale.element)
    if node.output_count == 1:
        return [y]
    wide = convert(node, x, FLOAT)
    near = reduce(node, wide, ReduceFunction.AVERAGE, axes)
    # The mean of what is left over makes that of large numbers as precise as one of FLOAT64.
    rest = reduce(node, compute(node, dml.subtract, wide, near), ReduceFunction.AVERAGE, axes)
    is_infinite = compute(node, dml.is_infinity, near, element=BOOL)
    mean = compute(node, dml.if_, is_infinite, near, compute(node, dml.add, near, rest))
    apart = compute(node, dml.subtract, wide, mean)
    variance = reduce(node, compute(node, dml.multiply, apart, apart), ReduceFunction.AVERAGE, axes)
    root = compute(node, dml.sqrt, variance, scale_bias=(1.0, node.real("epsilon")))
    return [y, mean, compute(node, dml.recip, root)][: node.output_count]


def rms_norm(node: BoundNode) -> list[Value]:
    """RMSNormalization and SimplifiedLayerNormalization: by the root of the mean square alone, of scale's type."""
    x, scale = node.input(0), node.input(1)
    if node.output_count > 1:
        node.unsupported("inv_std_var", "inv_std_var is not supported: it is for training")
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    exact = x if x.element == scale.element else _wide(node, x)
    y = _normalised(node, exact, list(range(axis, len(x.shape))), scale, None, use_mean=False)
    return [convert(node, y, scale.element)]


def skip_norm(*, use_mean: bool) -> Callable[[BoundNode], list[Value]]:
    """SkipLayerNormalization and SkipSimplifiedLayerNormalization: of a sum, which is an output too."""

    def lower(node: BoundNode) -> list[Value]:
        x, skip = node.input(0), node.input(1)
        beta, bias = (node.optional(3), node.optional(4)) if use_mean else (None, node.optional(3))
        rows = {"gamma": node.input(2), "beta": beta, "bias": bias}
        if len(x.shape) not in (2, 3) or skip.shape not in {x.shape, x.shape[-2:], (1, *x.shape[-2:])}:
            rule = f"input must have 2 or 3 dimensions, and skip be of its sizes, {x.shape}, or of its last two"
            node.refuse("skip", rule, value=skip.shape, found=f"{x.shape} and {skip.shape}")
        for name, row in rows.items():
            node.check_shape(name, row, x.shape[-1:], why=", a number for each column of input")
        # In FLOAT32, as ONNX Runtime: a sum of FLOAT16 would be rounded before it is normalised.
        total = compute(node, dml.add, _wide(node, x), _wide(node, skip))
        if bias is not None:
            total = compute(node, dml.add, total, _wide(node, bias))
        if any(node.outputs[i] for i in (1, 2) if i < node.output_count):
            node.unsupported("mean", "mean and inv_std_var are not supported: they are for training")
        wide = _normalised(node, total, [len(x.shape) - 1], node.input(2), beta, use_mean=use_mean)
        y = convert(node, wide, x.element)
        return [y, y, y, convert(node, total, x.element)][: node.output_count]

    return lower


def instance_norm(node: BoundNode) -> list[Value]:
    """InstanceNormalization: every channel of every image for itself."""
    x = node.input(0)
    node.check_rank("input", x, least=3)
    scale, bias = (_by_channel(node, i, x) for i in (1, 2))
    return [_normalised(node, x, list(range(2, len(x.shape))), scale, bias)]


def group_norm(node: BoundNode) -> list[Value]:
    """GroupNormalization: channels by groups; scale and bias are the groups' below opset 21, then the channels'."""
    x, groups = node.input(0), node.integer("num_groups")
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        rule = f"num_groups must be a divisor of the channels, of which {x.shape} has its second dimension"
        node.refuse("num_groups", rule, value=groups)
    inside = (x.shape[1] // groups, *x.shape[2:])
    by_group = node.version < 21
    wide = x if by_group else _wide(node, x)
    rows = node.tracer.reshape(wide, (x.shape[0], groups, math.prod(inside)))
    normal = _normalised(node, rows, [2], None, None) if not by_group else None
    count = groups if by_group else x.shape[1]
    given = []
    for i, name in ((1, "scale"), (2, "bias")):
        value = node.input(i)
        node.check_shape(name, value, (count,))
        sizes = (1, groups, 1) if by_group else (1, groups, inside[0], *(1,) * (len(inside) - 1))
        given.append(node.tracer.reshape(value if by_group else _wide(node, value), sizes))
    if normal is None:
        return [_normalised(node, rows, [2], *given).reshaped(x.shape)]
    shaped = node.tracer.reshape(normal, (x.shape[0], groups, *inside))
    found = compute(node, dml.add, compute(node, dml.multiply, shaped, given[0]), given[1])
    return [convert(node, found, x.element).reshaped(x.shape)]


def mean_variance_norm(node: BoundNode) -> list[Value]:
    """MeanVarianceNormalization: less the mean, by the deviation and a billionth; of channels each or all at first."""
    x, rank = node.input(0), len(node.input(0).shape)
    is_old = "across_channels" in node.rules.attributes
    given = node.integers("axes") if node.has("axes") else None
    usual = [0, 1, 2, 3] if is_old and node.integer("across_channels") else [0, 2, 3]
    # Of the default those that are there, as ONNX Runtime takes them.
    axes = sorted(node.axes([k for k in usual if k < rank] if given is None else given, rank)) or list(range(rank))
    if not x.count:
        return [x]
    # Less the mean as the operator takes it, twice: the mean of large numbers alone is not precise enough.
    less: dict[str, Any] = {"axes": tuple(axes), "use_variance": False}
    apart = node.tracer.apply(dml.mean_variance_normalization2, [_wide(node, x)], x.shape, **less)
    if is_old and not node.integer("normalize_variance"):
        return [convert(node, apart, x.element)]
    variance = reduce(node, compute(node, dml.multiply, apart, apart), ReduceFunction.AVERAGE, axes)
    deviation = compute(node, dml.identity, compute(node, dml.sqrt, variance), scale_bias=(1.0, 1e-9))
    return [convert(node, compute(node, dml.divide, apart, deviation), x.element)]


def _wide(node: BoundNode, value: Value) -> Value:
    """FLOAT16 as FLOAT32, whose squares and sums fit; other types as they are."""
    return convert(node, value, FLOAT) if value.element.data_type is DataType.FLOAT16 else value


def _by_channel(node: BoundNode, index: int, x: Value) -> Value:
    """An input of a number for each channel of a tensor, with as many dimensions."""
    value = node.input(index)
    node.check_shape(node.rules.inputs[index].name, value, x.shape[1:2], why=", that of the channels")
    return node.tracer.reshape(value, (1, value.count, *(1,) * (len(x.shape) - 2)))


def rms_normalised(node: BoundNode, x: Value, scale: Value | None, epsilon: float) -> Value:
    """The last dimension by the root of its mean square, of x's type, computed in FLOAT32."""
    wide = _wide(node, x)
    return convert(
        node, _normalised(node, wide, [len(x.shape) - 1], scale, None, use_mean=False, epsilon=epsilon), x.element
    )


def _normalised(
    node: BoundNode,
    x: Value,
    axes: Sequence[int],
    scale: Value | None,
    bias: Value | None,
    *,
    use_mean: bool = True,
    epsilon: float | None = None,
) -> Value:
    """MEAN_VARIANCE_NORMALIZATION2 over axes; without an epsilon it is the attribute of that name."""
    options: dict[str, Any] = {
        "axes": tuple(axes),
        "use_mean": use_mean,
        "use_variance": True,
        "epsilon": node.real("epsilon") if epsilon is None else epsilon,
    }
    given = [value for value in (scale, bias) if value is not None]
    shaped = []
    for value, name in zip(given, ("scale", "bias"), strict=False):
        if len(value.shape) > len(x.shape) or any(
            a not in (1, b) for a, b in zip(value.shape[::-1], x.shape[::-1], strict=False)
        ):
            node.refuse(name, f"{name} must have a shape that can be broadcast to X's, {x.shape}", value=value.shape)
        shape = (1,) * (len(x.shape) - len(value.shape)) + value.shape
        shaped.append(convert(node, node.tracer.reshape(value, shape), x.element))

    def call(first: Any, *others: Any, **named: Any) -> Any:
        places: dict[str, Any] = dict(zip(("scale", "bias"), others, strict=False))
        return dml.mean_variance_normalization2(first, **places, **named)

    return node.tracer.apply(call, [x, *shaped], x.shape, **options)


def batch_norm(node: BoundNode) -> list[Value]:
    """BatchNormalization: by means and variances that are given; in training by the batch's own."""
    x = node.input(0)
    trains = _trains(node)
    if node.version < 9 and not node.integer("spatial", 1):
        node.unsupported("spatial", "BatchNormalization must be spatial: a mean for each channel")
    if len(x.shape) < 2:
        x = node.tracer.reshape(x, (*x.shape, 1)) if len(x.shape) == 1 else x
    scale, bias, mean, variance = (_by_channel(node, i, x) for i in range(1, 5))
    if not trains:
        by = (mean, variance, scale, bias)
        as_given = all(value.element == x.element for value in by)
        given = [x, *by] if as_given else [_wide(node, x), *(_wide(node, value) for value in by)]
        y = node.tracer.apply(dml.batch_normalization, given, x.shape, epsilon=node.real("epsilon"))
        return [convert(node, y, x.element).reshaped(node.input(0).shape)]
    given = [_wide(node, value) for value in (x, scale, bias)]
    shapes, options = (x.shape, scale.shape, scale.shape), {"epsilon": node.real("epsilon")}
    y, own, spread = node.tracer.apply_for_list(dml.batch_normalization_training, given, shapes, **options)
    momentum = node.real("momentum")
    parts = [
        [compute(node, dml.identity, _wide(node, one), scale_bias=(part, 0.0)) for one, part in both]
        for both in (
            ((mean, momentum), (own, 1 - momentum)),
            ((variance, momentum), (spread, 1 - momentum)),
        )
    ]
    running = [convert(node, compute(node, dml.add, *both), mean.element).reshaped((mean.count,)) for both in parts]
    # Before opset 14 two more for a gradient: ONNX Runtime's fifth is 1 over the deviation, whatever it is called.
    if node.version < 14 and node.output_count > 3:
        deviation = compute(node, dml.sqrt, spread, scale_bias=(1.0, node.real("epsilon")))
        saved = (own, compute(node, dml.recip, deviation))
        running += [convert(node, value, mean.element).reshaped((mean.count,)) for value in saved]
    return [convert(node, y, x.element).reshaped(node.input(0).shape), *running][: node.output_count]


def _trains(node: BoundNode) -> bool:
    """Whether it is in training: said by an attribute, but from opset 7 to 13 by asking for more than one output."""
    if node.version >= 14:
        return bool(node.integer("training_mode", 0))
    return node.output_count > 1 if node.version >= 7 else not node.integer("is_test", 0)


def lp_norm(node: BoundNode) -> list[Value]:
    """LpNormalization: by the sum of magnitudes, or the root of the sum of squares; a row of zeros stays one."""
    x, p = node.input(0), node.integer("p", 2)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    if p not in (1, 2):
        node.refuse("p", "p must be 1 or 2", value=p)
    if not x.count:
        return [x]
    wide = _wide(node, x)
    norm = reduce(node, wide, ReduceFunction.L1 if p == 1 else ReduceFunction.L2, [axis])
    is_zero = compute(node, dml.logical_equals, norm, Value.of(norm.element, 0))
    safe = compute(node, dml.if_, is_zero, Value.of(norm.element, 1), norm)
    return [convert(node, compute(node, dml.divide, wide, safe), x.element)]


def local_response_norm(node: BoundNode) -> list[Value]:
    """LRN: by the squares of the channels around each."""
    x = node.input(0)
    options: dict[str, Any] = {"alpha": node.real("alpha"), "beta": node.real("beta"), "bias": node.real("bias")}
    node.check_rank("X", x, least=3)
    flat = node.tracer.reshape(x, (*x.shape[:2], x.shape[2], math.prod(x.shape[3:])))
    function = dml.local_response_normalization
    size = node.integer("size")
    found = node.tracer.apply(function, [flat], flat.shape, cross_channel=True, local_size=size, **options)
    return [found.reshaped(x.shape)]
