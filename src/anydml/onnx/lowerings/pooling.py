"""The pools: a number for each window, and MaxUnpool, which spreads those again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.enums import DataType, ReduceFunction
from anydml.onnx.lowerings.elementwise import compute
from anydml.onnx.lowerings.moving import convert
from anydml.onnx.lowerings.reducing import reduce
from anydml.onnx.lowerings.windows import Windows, pads_of, spatial, window_of, windows
from anydml.onnx.types import element_of
from anydml.onnx.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.nodes import Node
    from anydml.onnx.types import ElementType


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
    found = windows(node, x, window_of(node, x))
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
    return [_pool(node, x, windows(node, x, window_of(node, x)), dml.lp_pooling1, p=power)]


def max_pool(node: Node) -> list[Value]:
    """MaxPool, with the places of what is largest where they are asked for."""
    x = node.input(0)
    found = windows(node, x, window_of(node, x))
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
    size = window_of(node, x)
    (starts, ends), strides = pads_of(node, len(size)), spatial(node, "strides", len(size), 1, 1)
    walk = zip(x.shape[2:], strides, size, starts, ends, strict=True)
    shape = (*x.shape[:2], *((n - 1) * step + k - start - end for n, step, k, start, end in walk))
    # An index counts the elements of the whole result, however many dimensions it has; MAX_UNPOOLING takes images.
    own, wide = ((*s[:2], 1, math.prod(s[2:])) for s in (x.shape, shape))
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
