"""Caches of keys and values: of 8 and 4 bits, and those that keep a window of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import anydml as dml
from anydml.core.enums import DataType, IndexMode, RoundingMode
from anydml.onnx.element_types import FLOAT, element_of
from anydml.onnx.lower.data_movement import convert, spread, transposed
from anydml.onnx.lower.elementwise import compute
from anydml.onnx.lower.values import Value

if TYPE_CHECKING:
    from anydml.onnx.lower.bound_node import BoundNode

_WORD, _BYTE, _SIGNED = (element_of(kind) for kind in (DataType.INT32, DataType.UINT8, DataType.INT8))
_KINDS = ("NONE", "PER_TENSOR", "PER_CHANNEL")


def by_heads(node: BoundNode, rows: Value, heads: int) -> Value:
    """Keys or values, (batch, sequence, heads · size), as a cache has them: (batch, heads, sequence, size)."""
    batch, length, width = rows.shape
    apart = node.tracer.reshape(rows, (batch, length, heads, width // heads))
    return transposed(node, apart, (0, 2, 1, 3))


# Numbers of few bits


class FewBits(NamedTuple):
    """How a cache's numbers are made of 8 or 4 bits: q · scale, with q from -128 to 127, or from -8 to 7.

    Numbers of 4 bits lie two to a byte, the first in the low half, with 8 added.
    """

    bits: int
    scale: Value
    """One for all, or one for each number of each head: FLOAT32, of a shape that is broadcast to the cache's."""

    def taken(self, node: BoundNode, rows: Value) -> Value:
        """Keys or values by heads, rounded: as ONNX Runtime times 1 / scale, where a scale of 0 stands for 1."""
        is_zero = compute(node, dml.logical_equals, self.scale, Value.of(FLOAT, 0))
        scale = compute(node, dml.if_, is_zero, Value.of(FLOAT, 1), self.scale)
        scaled = compute(node, dml.multiply, convert(node, rows, FLOAT), compute(node, dml.recip, scale))
        whole = compute(node, dml.round, scaled, rounding_mode=RoundingMode.HALVES_TO_NEAREST_EVEN)
        end = 2 ** (self.bits - 1)
        whole = compute(node, dml.clip, whole, min=-float(end), max=end - 1.0)
        if self.bits == 8:
            return convert(node, whole, _SIGNED)
        pairs = convert(node, compute(node, dml.add, whole, Value.of(FLOAT, end)), _BYTE)
        low, high = (_every_other(node, pairs, first) for first in (0, 1))
        return compute(node, dml.bit_or, low, compute(node, dml.bit_shift_left, high, Value.of(_BYTE, 4)))

    def given(self, node: BoundNode, cache: Value) -> Value:
        """The numbers that a cache stands for, as FLOAT32."""
        whole = cache
        if self.bits == 4:
            low = compute(node, dml.bit_and, cache, Value.of(_BYTE, 15))
            high = compute(node, dml.bit_shift_right, cache, Value.of(_BYTE, 4))
            pairs = [node.tracer.reshape(one, (*cache.shape, 1)) for one in (low, high)]
            both = node.tracer.apply_to_list(dml.join, pairs, (*cache.shape, 2), len(cache.shape))
            whole = node.tracer.reshape(both, (*cache.shape[:-1], 2 * cache.shape[-1]))
        numbers = convert(node, whole, FLOAT)
        if self.bits == 4:
            numbers = compute(node, dml.subtract, numbers, Value.of(FLOAT, 8))
        return compute(node, dml.multiply, numbers, self.scale)


def _every_other(node: BoundNode, value: Value, first: int) -> Value:
    """The even or the odd places of the last dimension."""
    pairs = node.tracer.reshape(value, (*value.shape[:-1], value.shape[-1] // 2, 2))
    offsets = [0] * len(value.shape)
    sizes = (*pairs.shape[:-1], 1)
    found = node.tracer.apply(dml.slice, [pairs], sizes, (*offsets, first), sizes, (1,) * len(sizes))
    return node.tracer.reshape(found, pairs.shape[:-1])


def few_bits(node: BoundNode, scales: dict[str, tuple[str, Value | None]], heads: int, size: int) -> list[FewBits]:
    """How keys and values are made of few bits, by the attribute that says so and the scale; none where they are not.

    `scales` has for each scale's name the attribute's.
    """
    bits = node.integer("kv_cache_bit_width")
    kinds = [node.one_of(attribute, _KINDS) for attribute, _ in scales.values()]
    if not bits and set(kinds) == {"NONE"}:
        for name, (attribute, scale) in scales.items():
            if scale is not None:
                node.refuse(name, f"{name} is for a cache of few bits: {attribute} must be PER_TENSOR or PER_CHANNEL")
        return []
    if bits not in (4, 8) or "NONE" in kinds:
        rule = "kv_cache_bit_width must be 4 or 8 with k_quant_type and v_quant_type other than NONE, or 0 with NONE"
        node.refuse("kv_cache_bit_width", rule, value=bits, found=f"{bits}, {' and '.join(kinds)}")
    if bits == 4 and size % 2:
        node.refuse("kv_cache_bit_width", "a head of an odd size must have a cache of 8 bits", value=size)
    found = []
    for (name, (attribute, scale)), kind in zip(scales.items(), kinds, strict=True):
        count = 1 if kind == "PER_TENSOR" else heads * size
        if scale is None or scale.count != count:
            rule = f"{name} must have {count} numbers, as {attribute} is {kind}"
            node.refuse(name, rule, value=None if scale is None else scale.shape, found="none" if scale is None else "")
        shape = (1, 1, 1, 1) if count == 1 else (1, heads, 1, size)
        found.append(FewBits(bits, node.tracer.reshape(scale, shape)))
    return found


def placed(node: BoundNode, cache: Value | None, rows: Value, first: Value, room: int) -> Value:
    """A cache of so many rows with others put into it, in each batch from a row on."""
    batch, heads, count, size = rows.shape
    there = 0 if cache is None else cache.shape[2]
    parts = [] if cache is None else [cache]
    if there < room:
        parts.append(node.tracer.fill(dml.fill_value_constant, rows.element, (batch, heads, room - there, size), 0))
    whole = (batch, heads, room, size)
    held = parts[0] if len(parts) == 1 else node.tracer.apply_to_list(dml.join, parts, whole, 2)
    if not count:
        return held
    steps = node.tracer.fill(dml.fill_value_sequence, _WORD, (1, 1, count, 1), 0, 1)
    places = compute(node, dml.add, node.tracer.reshape(first, (batch, 1, 1, 1)), steps)
    return node.tracer.apply(dml.scatter, [held, spread(node, places, rows.shape), rows], whole, 2)


# Caches of a window


class Slide(NamedTuple):
    """A step of a cache that keeps the last rows alone: those of `sliding_window_cache`."""

    held: Value
    """By batch, the rows that are there before the step."""
    shift: Value
    """By batch, the rows at the beginning that are gone after the step, of those that are there and the new ones."""
    start: Value
    """By batch, the position of the first row that is there."""


def slid(node: BoundNode, past: Value, count: int, room: int, window: int) -> Slide:
    """The step that puts so many rows into such a cache after a past, by the lengths of the sequences.

    Rows are let go of `room - window + 1` at once, when there is no room for the next.
    """
    gap = Value.of(_WORD, room - window + 1)
    before = _held(node, past, room, gap)
    after = _held(node, compute(node, dml.add, past, Value.of(_WORD, count)), room, gap)
    shift = compute(node, dml.subtract, compute(node, dml.add, before, Value.of(_WORD, count)), after)
    return Slide(before, shift, compute(node, dml.subtract, past, before))


def _held(node: BoundNode, length: Value, room: int, gap: Value) -> Value:
    """The rows that are there after so many: length - gap · ⌈(length - room) / gap⌉."""
    over = compute(node, dml.max, compute(node, dml.subtract, length, Value.of(_WORD, room)), Value.of(_WORD, 0))
    steps = compute(node, dml.add, over, compute(node, dml.subtract, gap, Value.of(_WORD, 1)))
    gone = compute(node, dml.multiply, compute(node, dml.divide, steps, gap), gap)
    return compute(node, dml.subtract, length, gone)


def from_row(node: BoundNode, tensor: Value, first: Value, count: int, axis: int) -> Value:
    """So many rows along an axis, in each batch from one on; beyond the end the last is repeated."""
    rank = len(tensor.shape)
    sizes = tuple(count if k == axis else 1 for k in range(rank))
    steps = node.tracer.fill(dml.fill_value_sequence, _WORD, sizes, 0, 1)
    places = compute(node, dml.add, node.tracer.reshape(first, (first.count, *(1,) * (rank - 1))), steps)
    places = compute(node, dml.min, places, Value.of(_WORD, tensor.shape[axis] - 1))
    shape = (first.count, *(count if k == axis else size for k, size in enumerate(tensor.shape) if k))
    wide = spread(node, tensor, (first.count, *tensor.shape[1:]))
    found = [wide, spread(node, places, shape)]
    return node.tracer.apply(dml.gather_elements, found, shape, axis, IndexMode.CLAMP)
