"""Conv and its kin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.onnx.lowerings.indexing import take_blocks
from anydml.onnx.lowerings.moving import spread
from anydml.onnx.lowerings.moving import transposed as transposed_to
from anydml.onnx.lowerings.whole import given_zero, whole
from anydml.onnx.lowerings.windows import Windows, check_padding, padding_mode, pads_of, spatial, window_of, windows
from anydml.onnx.types import INT32, INT64
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.types import ElementType
    from anydml.onnx.values import Parts


def _named(call: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A function that takes its tensors by name."""

    def run(*tensors: Any, **options: Any) -> Any:
        return call(**dict(zip(names, tensors, strict=True)), **options)

    return run


def _call(
    node: Node,
    function: Callable[..., Any],
    given: dict[str, Value | None],
    shape: tuple[int, ...],
    element: ElementType | None = None,
    **options: Any,
) -> Value:
    """The result of a function for the tensors that are there, by its names for them."""
    there = {name: value for name, value in given.items() if value is not None}
    return node.tracer.apply(_named(function, list(there)), list(there.values()), shape, element=element, **options)


def convolution(node: Node) -> list[Value]:
    """Conv."""
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    found = windows(node, x, window_of(node, x, w))
    shape, options = (x.shape[0], w.shape[0], *found.counts), {**found.options, "group_count": node.integer("group")}
    several = whole(x, w, 0, math.prod(w.shape[1:]))
    if several is not None and (bias is None or bias.shape == w.shape[:1]):
        return [several.scaled(node, _exact(node, several.left, several.right, found), bias, len(found.counts))]
    return [_call(node, dml.convolution, {"x": x, "filter": w, "bias": bias}, shape, **options)]


def _exact(node: Node, x: Parts, w: Parts, found: Windows) -> Value:
    given = {"input_zero_point": x.zero, "filter_zero_point": given_zero(w)}
    return _of_integers(node, dml.convolution_integer, x.numbers, w.numbers, given, found, INT32)


def _of_integers(
    node: Node,
    function: Callable[..., Any],
    x: Value,
    w: Value,
    others: dict[str, Value | None],
    found: Windows,
    element: ElementType,
) -> Value:
    """A convolution of integers, which DirectML has for images: of volumes, the slices under a window are channels."""
    if len(found.size) <= 2:
        shape, options = (
            (x.shape[0], w.shape[0], *found.counts),
            {**found.options, "group_count": node.integer("group")},
        )
        return _call(node, function, {"x": x, "filter": w, **others}, shape, element, **options)
    (batch, channels, depth, *rest), (count, reach) = x.shape, (found.counts[0], found.size[0])
    first = np.arange(count).reshape(-1, 1) * int(found.strides[0]) - int(found.starts[0])
    slices = first + np.arange(reach) * int(found.dilations[0])
    is_inside = (slices >= 0) & (slices < int(depth))
    if not is_inside.all():  # padding is the zero point: one slice of it is put behind the others
        zero = others["input_zero_point"] or Value.of(x.element, 0)
        edge = spread(node, node.tracer.reshape(zero, (1,) * len(x.shape)), (batch, channels, 1, *rest))
        x = node.tracer.apply_to_list(dml.join, [x, edge], (batch, channels, depth + 1, *rest), 2)
    gathered = take_blocks(node, x, Value.of(INT64, np.where(is_inside, slices, int(depth))), 2)
    moved = transposed_to(node, gathered, [0, 2, 1, *range(3, len(gathered.shape))])
    images = node.tracer.reshape(moved, (batch * count, channels * reach, *rest))
    filters = node.tracer.reshape(w, (w.shape[0], w.shape[1] * reach, *w.shape[3:]))
    made = _of_integers(node, function, images, filters, others, Windows(*(each[1:] for each in found)), element)
    volumes = node.tracer.reshape(made, (batch, count, *made.shape[1:]))
    return transposed_to(node, volumes, [0, 2, 1, *range(3, len(volumes.shape))])


def transposed(node: Node) -> list[Value]:
    """ConvTranspose."""
    x, w = node.input(0), node.input(1)
    size = window_of(node, x, w)
    count, groups = len(size), node.integer("group")
    if groups < 1 or w.shape[0] != x.shape[1] or w.shape[0] % groups:
        rule = f"W must have as many sizes in front as X has channels, {x.shape[1]}, a multiple of group"
        node.refuse("W", rule, value=w.shape, found=f"{w.shape}, and a group of {groups}")
    strides, dilations = (spatial(node, name, count, 1, 1) for name in ("strides", "dilations"))
    more = spatial(node, "output_padding", count, 0, 0)
    (starts, ends), mode, given = pads_of(node, count), padding_mode(node), node.integers("output_shape")
    check_padding(node, mode, (*starts, *ends))
    walk = zip(x.shape[2:], strides, size, dilations, more, strict=True)
    whole = [(n - 1) * step + (k - 1) * by + 1 + end for n, step, k, by, end in walk]
    if given and (len(given) != count or min(given) < 1):
        rule = f"output_shape must be {count} numbers of at least 1, one for each spatial dimension"
        node.refuse("output_shape", rule, value=given, found=str(given))
    if given or mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = list(given or [n * step for n, step in zip(x.shape[2:], strides, strict=True)])
        pads = [max(n - own, 0) for n, own in zip(whole, wanted, strict=True)]
        less, rest = tuple(pad // 2 for pad in pads), tuple(pad - pad // 2 for pad in pads)
        starts, ends = (less, rest) if mode == "SAME_UPPER" else (rest, less)
    else:
        if mode == "VALID":
            starts = ends = (0,) * count
        wanted = [n - start - end for n, start, end in zip(whole, starts, ends, strict=True)]
    if min(wanted) < 1:
        rule = "pads must leave an element of the result in each dimension"
        node.refuse("pads", rule, value=(starts, ends), found=f"{wanted} of pads {[*starts, *ends]}")
    shape = (x.shape[0], w.shape[1] * groups, *wanted)
    options: dict[str, Any]
    options = {
        "strides": strides, "dilations": dilations, "start_padding": starts, "end_padding": ends, "group_count": groups,
        "direction": "BACKWARD", "output_sizes": shape,
    }  # fmt: skip
    return [_call(node, dml.convolution, {"x": x, "filter": w, "bias": node.optional(2)}, shape, **options)]


def convolution_integer(node: Node) -> list[Value]:
    """ConvInteger."""
    x, w = node.input(0), node.input(1)
    found = windows(node, x, window_of(node, x, w))
    given = {"input_zero_point": node.optional(2), "filter_zero_point": node.optional(3)}
    return [_of_integers(node, dml.convolution_integer, x, w, given, found, INT32)]


def convolution_quantised(node: Node) -> list[Value]:
    """QLinearConv."""
    x, w, zero = node.input(0), node.input(3), node.input(7)
    found = windows(node, x, window_of(node, x, w))
    given = {
        "input_scale": node.input(1), "input_zero_point": node.input(2), "filter_scale": node.input(4),
        "filter_zero_point": node.input(5), "output_scale": node.input(6), "output_zero_point": zero,
        "bias": node.optional(8),
    }  # fmt: skip
    return [_of_integers(node, dml.quantized_linear_convolution, x, w, given, found, zero.element)]
