"""Nodes that walk windows: Conv and its kin, the pools, and MaxUnpool, which spreads those again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import anydml as dml
from anydml.core.enums import DataType, ReduceFunction
from anydml.core.errors import printable
from anydml.onnx.element_types import INT32, INT64, element_of
from anydml.onnx.lower.data_movement import convert, spread
from anydml.onnx.lower.data_movement import transposed as transposed_to
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.indexing import take_blocks
from anydml.onnx.lower.qdq_to_int8 import given_zero, whole
from anydml.onnx.lower.reductions import reduce
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.values import Parts


# Windows, whose padding ONNX may leave to be found out


class Windows(NamedTuple):
    """The windows of a node, by spatial dimension."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    counts: tuple[int, ...]
    """How many there are."""
    past: tuple[int, ...]
    """How far the last of them reaches past the padding."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a function, with padding as far as windows reach."""
        ends = tuple(end + past for end, past in zip(self.ends, self.past, strict=True))
        return {
            "strides": self.strides, "dilations": self.dilations, "start_padding": self.starts, "end_padding": ends,
        }  # fmt: skip


def spatial(node: BoundNode, name: str, count: int, usual: int, least: int) -> tuple[int, ...]:
    """An attribute of a number for each spatial dimension."""
    given = node.integers(name) if name in node.rules.attributes else None
    found = (usual,) * count if given is None else tuple(given)
    if len(found) != count or any(not least <= number < 2**31 for number in found):
        rule = f"{name} must be {count} numbers of at least {least}, one for each spatial dimension"
        node.refuse(name, rule, value=given)
    return found


def pads_of(node: BoundNode, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each spatial dimension, as the attribute has it."""
    found = node.integers("pads")
    given = [0] * (2 * count) if found is None else found
    if len(given) != 2 * count or any(not 0 <= pad < 2**31 for pad in given):
        node.refuse("pads", f"pads must be {2 * count} numbers of at least 0: the starts, then the ends", value=given)
    return tuple(given[:count]), tuple(given[count:])


def check_padding(node: BoundNode, mode: str, pads: tuple[int, ...]) -> None:
    """Refuse padding that is both given and to be found out."""
    if mode != "NOTSET" and any(pads):
        node.refuse("pads", f"pads must be left out with an auto_pad of {printable(mode)}", value=pads)


def window_of(node: BoundNode, x: Value, weights: Value | None = None) -> tuple[int, ...]:
    """The sizes of a window: those of the weights, or the attribute's."""
    node.check_rank(node.rules.inputs[0].name, x, least=3)
    if weights is None:
        given = node.integers("kernel_shape")
        if given is None:
            node.refuse("kernel_shape", "kernel_shape must be given")
        return spatial(node, "kernel_shape", len(x.shape) - 2, 1, 1)
    if len(weights.shape) != len(x.shape):
        node.refuse("W", f"the weights must have as many dimensions as the input, {len(x.shape)}", value=weights.shape)
    given = node.integers("kernel_shape")
    if given is not None and tuple(given) != weights.shape[2:]:
        node.refuse("kernel_shape", f"kernel_shape must be that of the weights, {list(weights.shape[2:])}", value=given)
    return weights.shape[2:]


def padding_mode(node: BoundNode) -> str:
    """auto_pad; an empty text is the default's, as exporters write it."""
    mode = node.text("auto_pad") or "NOTSET"
    if mode not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        rule = "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID"
        node.refuse("auto_pad", rule, value=mode, found=printable(mode))
    return mode


def windows(node: BoundNode, x: Value, size: tuple[int, ...]) -> Windows:
    """The windows that a node lays over its input."""
    count, sizes = len(size), x.shape[2:]
    strides, dilations = (spatial(node, name, count, 1, 1) for name in ("strides", "dilations"))
    reaches = [(n - 1) * by + 1 for n, by in zip(size, dilations, strict=True)]
    (starts, ends), mode = pads_of(node, count), padding_mode(node)
    rounds_up = "ceil_mode" in node.rules.attributes and bool(node.integer("ceil_mode", 0))
    check_padding(node, mode, (*starts, *ends))
    if mode != "NOTSET":
        starts = ends = (0,) * count
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [-(-n // step) for n, step in zip(sizes, strides, strict=True)]
        walk = zip(wanted, strides, reaches, sizes, strict=True)
        pads = [max((n - 1) * step + reach - own, 0) for n, step, reach, own in walk]
        less, more = tuple(pad // 2 for pad in pads), tuple(pad - pad // 2 for pad in pads)
        starts, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    counts, past = [], []
    for own, step, reach, start, end in zip(sizes, strides, reaches, starts, ends, strict=True):
        room = own + start + end - reach
        number = (-(-room // step) if rounds_up else room // step) + 1
        if rounds_up and (number - 1) * step >= own + start:  # it would start in the padding
            number -= 1
        if room < 0 and number < 1:
            rule = f"a window reaches over {reach} elements, and must fit into the input with its padding"
            node.refuse("kernel_shape", rule, value=size, found=f"{own + start + end} elements")
        counts.append(number)
        past.append(max((number - 1) * step + reach - (own + start + end), 0))
    return Windows(size, strides, dilations, starts, ends, tuple(counts), tuple(past))


# Conv and its kin


def _named(call: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A function that takes its tensors by name."""

    def run(*tensors: Any, **options: Any) -> Any:
        return call(**dict(zip(names, tensors, strict=True)), **options)

    return run


def _call(
    node: BoundNode,
    function: Callable[..., Any],
    given: dict[str, Value | None],
    shape: tuple[int, ...],
    element: ElementType | None = None,
    **options: Any,
) -> Value:
    """The result of a function for the tensors that are there, by its names for them."""
    there = {name: value for name, value in given.items() if value is not None}
    return node.tracer.apply(_named(function, list(there)), list(there.values()), shape, element=element, **options)


def convolution(node: BoundNode) -> list[Value]:
    """Conv."""
    x, w, bias = node.input(0), node.input(1), node.optional(2)
    found = windows(node, x, window_of(node, x, w))
    shape, options = (x.shape[0], w.shape[0], *found.counts), {**found.options, "group_count": node.integer("group")}
    several = whole(x, w, 0, math.prod(w.shape[1:]))
    if several is not None and (bias is None or bias.shape == w.shape[:1]):
        return [several.scaled(node, _exact(node, several.left, several.right, found), bias, len(found.counts))]
    return [_call(node, dml.convolution, {"x": x, "filter": w, "bias": bias}, shape, **options)]


def _exact(node: BoundNode, x: Parts, w: Parts, found: Windows) -> Value:
    given = {"input_zero_point": x.zero, "filter_zero_point": given_zero(w)}
    return _of_integers(node, dml.convolution_integer, x.numbers, w.numbers, given, found, INT32)


def _of_integers(
    node: BoundNode,
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


def transposed(node: BoundNode) -> list[Value]:
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
        node.refuse("output_shape", rule, value=given)
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


def convolution_integer(node: BoundNode) -> list[Value]:
    """ConvInteger."""
    x, w = node.input(0), node.input(1)
    found = windows(node, x, window_of(node, x, w))
    given = {"input_zero_point": node.optional(2), "filter_zero_point": node.optional(3)}
    return [_of_integers(node, dml.convolution_integer, x, w, given, found, INT32)]


def convolution_quantised(node: BoundNode) -> list[Value]:
    """QLinearConv."""
    x, w, zero = node.input(0), node.input(3), node.input(7)
    found = windows(node, x, window_of(node, x, w))
    given = {
        "input_scale": node.input(1), "input_zero_point": node.input(2), "filter_scale": node.input(4),
        "filter_zero_point": node.input(5), "output_scale": node.input(6), "output_zero_point": zero,
        "bias": node.optional(8),
    }  # fmt: skip
    return [_of_integers(node, dml.quantized_linear_convolution, x, w, given, found, zero.element)]


# The pools


def _pool(
    node: BoundNode,
    x: Value,
    found: Windows,
    function: Callable[..., Any],
    element: ElementType | None = None,
    **more: Any,
) -> Value:
    """A pooling, which has at least two spatial dimensions."""
    added = max(2 - len(found.size), 0)
    usual = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
    options = {name: (usual[name],) * added + value for name, value in found.options.items()}
    own, shape = ((*x.shape[:2], *(1,) * added, *sizes) for sizes in (x.shape[2:], found.counts))
    options |= {"window_size": (1,) * added + found.size, **more}
    made = node.tracer.apply(function, [node.tracer.reshape(x, own)], shape, element=element, **options)
    return node.tracer.reshape(made, (*x.shape[:2], *found.counts))


def average_pool(node: BoundNode) -> list[Value]:
    """AveragePool; what lies past the padding, as ceil_mode has it, is never counted."""
    x = node.input(0)
    found = windows(node, x, window_of(node, x))
    includes = "count_include_pad" in node.rules.attributes and bool(node.integer("count_include_pad", 0))
    if includes and any(found.past):
        starts, ends = ((0, 0, *pads) for pads in (found.starts, found.ends))
        shape = tuple(a + b + c for a, b, c in zip(x.shape, starts, ends, strict=True))
        x = node.tracer.apply(dml.padding, [x], shape, start_padding=starts, end_padding=ends)
        none = (0,) * len(found.size)
        found, includes = found._replace(starts=none, ends=none), False
    return [_pool(node, x, found, dml.average_pooling1, include_padding=includes)]


def lp_pool(node: BoundNode) -> list[Value]:
    """LpPool."""
    x = node.input(0)
    power = node.integer("p", 2) if node.version > 1 else int(node.real("p"))
    return [_pool(node, x, windows(node, x, window_of(node, x)), dml.lp_pooling1, p=power)]


def max_pool(node: BoundNode) -> list[Value]:
    """MaxPool, with the places of what is largest where they are asked for."""
    x = node.input(0)
    found = windows(node, x, window_of(node, x))
    results = [_pool(node, x, found, dml.max_pooling)]
    if node.output_count > 1:

        def indices(tensor: Any, **options: Any) -> Any:
            return dml.max_pooling2(tensor, output_indices=True, **options).indices

        places = _pool(node, x, found, indices, element_of(DataType.UINT32))
        results.append(_stored(node, convert(node, places, element_of(DataType.INT64)), x.shape))
    return results


def _stored(node: BoundNode, indices: Value, shape: tuple[int, ...]) -> Value:
    """Indices that count row by row, or with a storage_order of 1 column by column, of images."""
    if "storage_order" not in node.rules.attributes or not node.integer("storage_order", 0) or len(shape) == 3:
        return indices
    if len(shape) > 4:
        node.unsupported("storage_order", "storage_order must be 0 with three spatial dimensions")
    height, width, image = (Value.of(indices.element, n) for n in (*shape[2:], shape[2] * shape[3]))
    inside = compute(node, dml.modulus_truncate, indices, image)
    row, column = (compute(node, function, inside, width) for function in (dml.divide, dml.modulus_truncate))
    turned = compute(node, dml.add, compute(node, dml.multiply, column, height), row)
    return compute(node, dml.add, compute(node, dml.subtract, indices, inside), turned)


def global_pool(function: ReduceFunction) -> Callable[[BoundNode], list[Value]]:
    """GlobalAveragePool and GlobalMaxPool: a reduction of what is spatial."""

    def lower(node: BoundNode) -> list[Value]:
        x = _image(node)
        return [reduce(node, x, function, list(range(2, len(x.shape))))]

    return lower


def _image(node: BoundNode) -> Value:
    x = node.input(0)
    node.check_rank("X", x, least=3)
    return x


def global_lp_pool(node: BoundNode) -> list[Value]:
    """GlobalLpPool."""
    x = _image(node)
    power = node.integer("p", 2) if node.version > 1 else int(node.real("p"))
    if power in (1, 2):
        return global_pool(ReduceFunction.L1 if power == 1 else ReduceFunction.L2)(node)
    size = x.shape[2:]
    one, zero = (1,) * len(size), (0,) * len(size)
    return [_pool(node, x, Windows(size, one, one, zero, zero, one, zero), dml.lp_pooling1, p=power)]


def max_unpool(node: BoundNode) -> list[Value]:
    """MaxUnpool."""
    x, indices = node.input(0), node.input(1)
    size = window_of(node, x)
    (starts, ends), strides = pads_of(node, len(size)), spatial(node, "strides", len(size), 1, 1)
    node.check_shape("I", indices, x.shape, why=", that of X")
    walk = zip(x.shape[2:], strides, size, starts, ends, strict=True)
    shape = (*x.shape[:2], *((n - 1) * step + k - start - end for n, step, k, start, end in walk))
    # An index counts the elements of the whole result, however many dimensions it has; MAX_UNPOOLING takes images.
    own, wide = ((*s[:2], 1, math.prod(s[2:])) for s in (x.shape, shape))
    places = convert(node, indices, element_of(DataType.UINT64))
    tensors = [node.tracer.reshape(value, own) for value in (x, places)]
    made = node.tracer.apply(dml.max_unpooling, tensors, wide, output_sizes=wide)
    node.tracer.word_outside(made, "I", f"I must lie in 0 .. {math.prod(shape) - 1}, the elements of {shape} in a row")
    found = node.tracer.reshape(made, shape)
    if node.optional(2) is None:
        return [found]
    wanted = tuple(node.sizes(2, "output_shape"))
    if (
        len(wanted) != len(shape)
        or wanted[:2] != shape[:2]
        or any(size < own for size, own in zip(wanted, shape, strict=True))
    ):
        rule = f"output_shape must be at least {shape}, into which the input is spread, and of its batch and channels"
        node.refuse("output_shape", rule, value=wanted)
    ends = tuple(size - own for size, own in zip(wanted, shape, strict=True))
    options: dict[str, Any] = {"start_padding": (0,) * len(ends), "end_padding": ends}
    return [node.tracer.apply(dml.padding, [found], wanted, **options)]
