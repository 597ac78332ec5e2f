"""Conv and its kin, and the pools: windows, whose padding ONNX may leave to be found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import anydml as dml
from anydml.enums import DataType, ReduceFunction
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.lowerings.reducing import reduce
from anydml.onnx.types import element_of
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.types import ElementType


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
        """What a function is told, with padding as far as windows reach."""
        ends = tuple(end + past for end, past in zip(self.ends, self.past, strict=True))
        return {
            "strides": self.strides, "dilations": self.dilations, "start_padding": self.starts, "end_padding": ends,
        }  # fmt: skip


def _spatial(node: Node, name: str, count: int, usual: int, least: int) -> tuple[int, ...]:
    """An attribute of a number for each spatial dimension."""
    given = node.integers(name) if name in node.rules.attributes else None
    found = (usual,) * count if given is None else tuple(given)
    if len(found) != count or any(not least <= number < 2**31 for number in found):
        rule = f"{name} must be {count} numbers of at least {least}, one for each spatial dimension"
        node.refuse(name, rule, value=given, found=str(given))
    return found


def _pads(node: Node, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    given = node.integers("pads") or [0] * (2 * count)
    if len(given) != 2 * count or any(not 0 <= pad < 2**31 for pad in given):
        rule = f"pads must be {2 * count} numbers of at least 0: the starts, then the ends"
        node.refuse("pads", rule, value=given, found=str(given))
    return tuple(given[:count]), tuple(given[count:])


def _window(node: Node, x: Value, weights: Value | None = None) -> tuple[int, ...]:
    """The sizes of a window: those of the weights, or the attribute's."""
    if len(x.shape) < 3:
        name = node.rules.inputs[0].name
        node.refuse(name, f"{name} must have at least 3 dimensions", value=x.shape, found=str(x.shape))
    if weights is None:
        given = node.integers("kernel_shape")
        if given is None:
            node.refuse("kernel_shape", "kernel_shape must be given")
        return _spatial(node, "kernel_shape", len(x.shape) - 2, 1, 1)
    if len(weights.shape) != len(x.shape):
        rule = f"the weights must have as many dimensions as the input, {len(x.shape)}"
        node.refuse("W", rule, value=weights.shape, found=str(weights.shape))
    return weights.shape[2:]


def windows(node: Node, x: Value, size: tuple[int, ...]) -> Windows:
    """The windows that a node lays over its input."""
    count, sizes = len(size), x.shape[2:]
    strides, dilations = (_spatial(node, name, count, 1, 1) for name in ("strides", "dilations"))
    reaches = [(n - 1) * by + 1 for n, by in zip(size, dilations, strict=True)]
    (starts, ends), mode = _pads(node, count), node.text("auto_pad")
    rounds_up = "ceil_mode" in node.rules.attributes and bool(node.integer("ceil_mode", 0))
    if mode != "NOTSET":
        starts = ends = (0,) * count
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [-(-n // step) for n, step in zip(sizes, strides, strict=True)]
        walk = zip(wanted, strides, reaches, sizes, strict=True)
        pads = [max((n - 1) * step + reach - own, 0) for n, step, reach, own in walk]
        less, more = tuple(pad // 2 for pad in pads), tuple(pad - pad // 2 for pad in pads)
        starts, ends = (less, more) if mode == "SAME_UPPER" else (more, less)
    elif mode not in ("NOTSET", "VALID"):
        rule = "auto_pad must be NOTSET, SAME_UPPER, SAME_LOWER or VALID"
        node.refuse("auto_pad", rule, value=mode, found=mode)
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


# Convolutions


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
    """What a function makes of the tensors that are there, by its names for them."""
    there = {name: value for name, value in given.items() if value is not None}
    return node.tracer.apply(_named(function, list(there)), list(there.values()), shape, element=element, **options)


def convolution(node: Node) -> list[Value]:
    """Conv."""
    x, w = node.input(0), node.input(1)
    found = windows(node, x, _window(node, x, w))
    given = {"x": x, "filter": w, "bias": node.optional(2)}
    shape = (x.shape[0], w.shape[0], *found.counts)
    return [_call(node, dml.convolution, given, shape, **found.options, group_count=node.integer("group"))]


def transposed(node: Node) -> list[Value]:
    """ConvTranspose."""
    x, w = node.input(0), node.input(1)
    size = _window(node, x, w)
    count, groups = len(size), node.integer("group")
    strides, dilations = (_spatial(node, name, count, 1, 1) for name in ("strides", "dilations"))
    more = _spatial(node, "output_padding", count, 0, 0)
    (starts, ends), mode, given = _pads(node, count), node.text("auto_pad"), node.integers("output_shape")
    walk = zip(x.shape[2:], strides, size, dilations, more, strict=True)
    whole = [(n - 1) * step + (k - 1) * by + 1 + end for n, step, k, by, end in walk]
    if given is not None or mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = list(given or [n * step for n, step in zip(x.shape[2:], strides, strict=True)])[-count:]
        pads = [max(n - own, 0) for n, own in zip(whole, wanted, strict=True)]
        less, rest = tuple(pad // 2 for pad in pads), tuple(pad - pad // 2 for pad in pads)
        starts, ends = (less, rest) if mode == "SAME_UPPER" else (rest, less)
    else:
        if mode == "VALID":
            starts = ends = (0,) * count
        wanted = [n - start - end for n, start, end in zip(whole, starts, ends, strict=True)]
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
    found = windows(node, x, _window(node, x, w))
    zeros = {"input_zero_point": node.optional(2), "filter_zero_point": node.optional(3)}
    given = {"x": x, "filter": w, **zeros}
    shape, element = (x.shape[0], w.shape[0], *found.counts), element_of(DataType.INT32)
    options = {**found.options, "group_count": node.integer("group")}
    return [_call(node, dml.convolution_integer, given, shape, element, **options)]


def convolution_quantised(node: Node) -> list[Value]:
    """QLinearConv."""
    x, w, zero = node.input(0), node.input(3), node.input(7)
    found = windows(node, x, _window(node, x, w))
    given = {
        "x": x, "input_scale": node.input(1), "input_zero_point": node.input(2), "filter": w,
        "filter_scale": node.input(4), "filter_zero_point": node.input(5), "output_scale": node.input(6),
        "output_zero_point": zero, "bias": node.optional(8),
    }  # fmt: skip
    shape, options = (x.shape[0], w.shape[0], *found.counts), {**found.options, "group_count": node.integer("group")}
    return [_call(node, dml.quantized_linear_convolution, given, shape, zero.element, **options)]


# Pools


def _pool(
    node: Node, x: Value, found: Windows, function: Callable[..., Any], element: ElementType | None = None, **more: Any
) -> Value:
    """A pooling, which has at least two spatial dimensions."""
    added = max(2 - len(found.size), 0)
    usual = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
    options = {name: (usual[name],) * added + value for name, value in found.options.items()}
    own, shape = ((*x.shape[:2], *(1,) * added, *sizes) for sizes in (x.shape[2:], found.counts))
    options |= {"window_size": (1,) * added + found.size, **more}
    made = node.tracer.apply(function, [node.tracer.reshape(x, own)], shape, element=element, **options)
    return node.tracer.reshape(made, (*x.shape[:2], *found.counts))


def average_pool(node: Node) -> list[Value]:
    """AveragePool; what lies past the padding, as ceil_mode has it, is never counted."""
    x = node.input(0)
    found = windows(node, x, _window(node, x))
    includes = "count_include_pad" in node.rules.attributes and bool(node.integer("count_include_pad", 0))
    if includes and any(found.past):
        starts, ends = ((0, 0, *pads) for pads in (found.starts, found.ends))
        shape = tuple(a + b + c for a, b, c in zip(x.shape, starts, ends, strict=True))
        x = node.tracer.apply(dml.padding, [x], shape, start_padding=starts, end_padding=ends)
        none = (0,) * len(found.size)
        found, includes = found._replace(starts=none, ends=none), False
    return [_pool(node, x, found, dml.average_pooling1, include_padding=includes)]


def lp_pool(node: Node) -> list[Value]:
    """LpPool."""
    x = node.input(0)
    power = node.integer("p", 2) if node.version > 1 else int(node.real("p"))
    return [_pool(node, x, windows(node, x, _window(node, x)), dml.lp_pooling1, p=power)]


def max_pool(node: Node) -> list[Value]:
    """MaxPool, with the places of what is largest where they are asked for."""
    x = node.input(0)
    found = windows(node, x, _window(node, x))
    results = [_pool(node, x, found, dml.max_pooling2)]
    if node.output_count > 1:

        def indices(tensor: Any, **options: Any) -> Any:
            return dml.max_pooling2(tensor, output_indices=True, **options)[1]

        places = _pool(node, x, found, indices, element_of(DataType.UINT32))
        results.append(_stored(node, convert(node, places, element_of(DataType.INT64)), x.shape))
    return results


def _stored(node: Node, indices: Value, shape: tuple[int, ...]) -> Value:
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


def global_pool(function: ReduceFunction) -> Callable[[Node], list[Value]]:
    """GlobalAveragePool and GlobalMaxPool: a reduction of what is spatial."""

    def lower(node: Node) -> list[Value]:
        x = node.input(0)
        return [reduce(node, x, function, list(range(2, len(x.shape))))]

    return lower


def global_lp_pool(node: Node) -> list[Value]:
    """GlobalLpPool."""
    x = node.input(0)
    power = node.integer("p", 2) if node.version > 1 else int(node.real("p"))
    if power in (1, 2):
        return global_pool(ReduceFunction.L1 if power == 1 else ReduceFunction.L2)(node)
    size = x.shape[2:]
    one, zero = (1,) * len(size), (0,) * len(size)
    return [_pool(node, x, Windows(size, one, one, zero, zero, one, zero), dml.lp_pooling1, p=power)]


def max_unpool(node: Node) -> list[Value]:
    """MaxUnpool."""
    x, indices = node.input(0), node.input(1)
    size = _window(node, x)
    (starts, ends), strides = _pads(node, len(size)), _spatial(node, "strides", len(size), 1, 1)
    walk = zip(x.shape[2:], strides, size, starts, ends, strict=True)
    shape = (*x.shape[:2], *((n - 1) * step + k - start - end for n, step, k, start, end in walk))
    rank = max(4, len(x.shape))
    own, wide = ((*s[:2], *(1,) * (rank - len(s)), *s[2:]) for s in (x.shape, shape))
    places = convert(node, indices, element_of(DataType.UINT64))
    tensors = [node.tracer.reshape(value, own) for value in (x, places)]
    made = node.tracer.apply(dml.max_unpooling, tensors, wide, output_sizes=wide)
    found = node.tracer.reshape(made, shape)
    if node.optional(2) is None:
        return [found]
    wanted = tuple(node.sizes(2, "output_shape"))
    if len(wanted) != len(shape) or any(size < own for size, own in zip(wanted, shape, strict=True)):
        rule = f"output_shape must be at least {shape}, into which the input is spread"
        node.refuse("output_shape", rule, value=wanted, found=str(wanted))
    ends = tuple(size - own for size, own in zip(wanted, shape, strict=True))
    options: dict[str, Any] = {"start_padding": (0,) * len(ends), "end_padding": ends}
    return [node.tracer.apply(dml.padding, [found], wanted, **options)]
