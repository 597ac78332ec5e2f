"""Slice and Split: parts of a tensor."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import anydml as dml
from anydml.core.enums import DataType, IndexMode
from anydml.onnx.lower.offsets import apart, is_fixed, is_offset, sums
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.onnx.lower.bound_node import BoundNode

_OPEN_ENDS = (2**31 - 1, 2**63 - 1)


def slice_by_attributes(node: BoundNode) -> list[Value]:
    """Slice of opset 1: bounds are attributes, and every step is 1."""
    starts, ends = node.integers("starts"), node.integers("ends")
    if starts is None or ends is None:
        node.refuse("starts", "starts and ends must be given")
    return [_slice(node, starts, ends, node.integers("axes"), None)]


def slice_by_inputs(node: BoundNode) -> list[Value]:
    """Slice from opset 10 on: bounds are inputs."""
    axes = None if node.optional(3) is None else node.numbers(3, "axes")
    steps = None if node.optional(4) is None else node.numbers(4, "steps")
    if (found := _slice_anywhere(node, axes, steps)) is not None:
        return [found]
    starts, ends = node.numbers(1, "starts"), node.numbers(2, "ends")
    return [_slice(node, starts, ends, axes, steps)]


def crop(node: BoundNode) -> list[Value]:
    """Crop, of opsets before 10: images without a border, or so many rows and columns of them from its corner on."""
    x, border, size = node.input(0), node.integers("border") or [], node.integers("scale")
    if len(x.shape) != 4 or len(border) != 4 or (size and len(size) != 2) or min([*border, *(size or ())]) < 0:
        rule = "border must be four numbers, left, top, right and bottom, scale two, and input have 4 dimensions"
        node.refuse("border", rule, value=border, found=f"{border}, {size} and {x.shape}")
    left, top, right, bottom = border
    count = size or [x.shape[2] - top - bottom, x.shape[3] - left - right]
    if any(not 0 <= n <= whole - first for n, whole, first in zip(count, x.shape[2:], (top, left), strict=True)):
        node.refuse("border", f"border and scale must lie within {x.shape}", value=border, found=f"{border}, {size}")
    return [take(node, x, (0, 0, top, left), (*x.shape[:2], *count), (1,) * 4)]


def _slice_anywhere(node: BoundNode, axes: Sequence[int] | None, steps: Sequence[int] | None) -> Value | None:
    """A slice whose place a run gives and whose size is known: a gather, for bounds that need no clamping.

    The indices have no sign, so that a bound below 0 is outside as well; a run that is outside is computed anew by a
    program for its very values.
    """
    data, starts, ends, tracer = node.input(0), node.input(1), node.input(2), node.tracer
    several = [value for value in (starts, ends) if value.known is None]
    if not several or not tracer.assumes or not all(len(value.shape) == 1 for value in (starts, ends)):
        return None
    count, rank = starts.count, len(data.shape)
    axes = list(range(count)) if axes is None else axes
    steps = [1] * count if steps is None else steps
    if not count == ends.count == len(axes) == len(steps) or not all(map(is_offset, several)) or min(steps) < 1:
        return None
    pairs = list(zip(sums(starts, tracer), sums(ends, tracer), strict=True))
    moving: list[tuple[int, int, int]] = []
    fixed: list[tuple[int, int, int, int]] = []
    for i, (axis, (start, end)) in enumerate(zip(node.axes(axes, rank), pairs, strict=True)):
        if is_fixed(start) and is_fixed(end):
            fixed.append((start[None], end[None], axis, steps[i]))
        elif is_fixed(start) or (span := apart(start, end)) is None or not 0 < span <= data.shape[axis]:
            return None
        else:
            moving.append((i, axis, -(-span // steps[i])))
    found = _slice(node, *(list(each) for each in zip(*fixed, strict=True))) if fixed else data
    if 0 in found.shape:  # of which no gather would check where it lies
        return None
    for i, axis, size in moving:
        first = starts if count == 1 else take(node, starts, [i], [1], [1])
        indices = first
        if size > 1:
            rest = Value.of(first.element, [steps[i] * k for k in range(size)])
            indices = tracer.apply(_sum, [first, rest], (size,))
        shape = (*found.shape[:axis], size, *found.shape[axis + 1 :])
        found = tracer.apply(functools.partial(_gather, axis=axis), [found, indices], shape)
        if found.expression is not None:
            tracer.assumed.add(found.expression.name)
    return found


def _sum(first: Any, rest: Any, **options: Any) -> Any:
    return dml.add(first.reinterpret(rest.sizes, (0,)), rest, **options)


def _gather(data: Any, indices: Any, *, axis: int) -> Any:
    unsigned = DataType.UINT64 if indices.data_type is DataType.INT64 else DataType.UINT32
    return dml.gather(data, indices.reinterpret(data_type=unsigned), axis, IndexMode.RAISE)


def _slice(
    node: BoundNode, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Value:
    data = node.input(0)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        found = f"{len(starts)}, {len(ends)}, {len(axes)} and {len(steps)}"
        node.refuse("starts", "starts, ends, axes and steps must be as many", found=found)
    first, count, step = [0] * len(data.shape), list(data.shape), [1] * len(data.shape)
    for i, axis in enumerate(node.axes(axes, len(data.shape))):
        if steps[i] == 0:
            node.refuse(f"steps[{i}]", f"steps[{i}] must not be 0", value=0)
        first[axis], count[axis] = clamp(starts[i], ends[i], steps[i], data.shape[axis])
        step[axis] = steps[i] if count[axis] > 1 else 1
    if tuple(count) == data.shape and all(s == 1 for s in step):
        return data
    return take(node, data, first, count, step)


def clamp(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """The first index and the count of elements, as ONNX clamps bounds: backwards from a last one down to the first.

    The greatest of all ends is an open one backwards too, where ONNX Runtime has it so and ONNX would take nothing.
    """
    if step < 0 and end in _OPEN_ENDS:
        end = -size - 1
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step > 0:
        start, end = min(max(start, 0), size), min(max(end, 0), size)
        return start, max(-(-(end - start) // step), 0)
    start, end = max(min(start, size - 1), 0), max(min(end, size - 1), -1)
    return start, max(-(-(end - start) // step), 0) if size else 0


def take(node: BoundNode, data: Value, first: Sequence[int], count: Sequence[int], step: Sequence[int]) -> Value:
    """So many elements of each dimension, from the first on, a step apart."""
    shape = tuple(count)
    if not shape:
        return data
    if all(s > 0 for s in step):  # SLICE is there from the first feature level on, SLICE1 from 2_1
        return node.tracer.apply(dml.slice, [data], shape, tuple(first), shape, tuple(step))
    spans = [(n - 1) * abs(s) + 1 for n, s in zip(count, step, strict=True)]
    offsets = [f if s > 0 else f - span + 1 for f, s, span in zip(first, step, spans, strict=True)]
    return node.tracer.apply(dml.slice1, [data], shape, tuple(offsets), tuple(spans), tuple(step), shape)


def split(node: BoundNode) -> list[Value]:
    """Split of every opset: sizes are an attribute, or an input, or follow from the number of outputs."""
    data = node.input(0)
    axis = node.axis(node.integer("axis", 0), len(data.shape))
    size = data.shape[axis]
    sizes = node.integers("split") if node.optional(1) is None else node.numbers(1, "split")
    if node.version >= 18 and (sizes is None) != node.has("num_outputs"):
        node.refuse("split", "split or num_outputs must be given, and not both")
    if sizes is None:
        sizes = _even_sizes(node, size)
    if len(sizes) != node.output_count:
        node.refuse("split", f"split must have {node.output_count} sizes, one for each output", value=len(sizes))
    if any(n < 0 for n in sizes) or sum(sizes) != size:
        node.refuse("split", f"split must have sizes that add up to {size}", value=sizes)
    shapes = [(*data.shape[:axis], n, *data.shape[axis + 1 :]) for n in sizes]
    return _cut(node, data, shapes, axis)


def _even_sizes(node: BoundNode, size: int) -> list[int]:
    """Equal parts; where they are counted, the last may be smaller."""
    if not node.has("num_outputs"):
        if size % node.output_count:
            node.refuse("split", f"a size of {size} must be a multiple of the {node.output_count} outputs")
        return [size // node.output_count] * node.output_count
    count = node.integer("num_outputs")
    if count != node.output_count:
        node.refuse("num_outputs", f"num_outputs must be {node.output_count}, the outputs", found=str(count))
    part = -(-size // count)
    last = size - (count - 1) * part
    if last < 1:  # ONNX Runtime refuses these; onnx infers a last size of 0, or none
        rule = f"num_outputs must leave something for each part: {size} elements in parts of {part} do not make {count}"
        node.refuse("num_outputs", rule, value=count)
    return [*[part] * (count - 1), last]


def _cut(node: BoundNode, data: Value, shapes: list[tuple[int, ...]], axis: int) -> list[Value]:
    full = [shape for shape in shapes if 0 not in shape]
    if len(full) == 1 and full[0] == data.shape:
        parts = iter([data])
    elif full:
        parts = iter(node.tracer.apply_for_list(dml.split, [data], full, [shape[axis] for shape in full], axis))
    return [Value(data.element, shape) if 0 in shape else next(parts) for shape in shapes]
