"""Attention as verbs: keys and values brought together, masks, and what attends to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType
from anydml.enums import MultiheadAttentionMaskType as Mask
from anydml.ir.attention import Attend
from anydml.ir.expressions import const, coordinate, given, load, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Scatter
from anydml.operators.computed import wide
from anydml.operators.moved import split, temporary

if TYPE_CHECKING:
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

F32, INT64 = DataType.FLOAT32, DataType.INT64
_SEQUENCE, _KEYS = 3, 4
"""Dimensions of the scores, (batch, heads of keys, queries' heads for each, sequence, keys)."""


class Heads(NamedTuple):
    """The sizes of an attention."""

    batch: int
    queries: int
    heads: int
    """Of the query."""
    shared: int
    """The heads of the key and the value."""
    size: int
    """Of a head of queries and keys."""
    value_size: int
    keys: int
    """The new ones."""
    cached: int
    """Those in the past's tensors."""
    total: int

    @property
    def scores(self) -> tuple[int, ...]:
        """The sizes of all products of queries and keys."""
        return self.batch, self.shared, self.heads // self.shared, self.queries, self.total


class Parts(NamedTuple):
    """The tensors of an attention: those of queries, keys, values and the output are (batch, sequence, heads, size)."""

    of: Heads
    query: View
    key: View | None
    value: View | None
    bias: View | None
    mask: View | None
    relative: View | None
    past_key: View | None
    past_value: View | None
    lengths: View | None
    output: View
    present_key: View | None
    present_value: View | None


def attend(parts: Parts, scale: float, filter_value: float, mask: Mask) -> tuple[Primitive, ...]:
    """The verbs of an attention."""
    steps: list[Primitive] = []
    biases = _biases(parts)
    query = _heads(parts.query)
    if biases[0] is not None:
        query, step = _biased(query, biases[0], "queries")
        steps.append(step)
    sides = []
    for name, new, bias, past, present in (
        ("keys", parts.key, biases[1], parts.past_key, parts.present_key),
        ("values", parts.value, biases[2], parts.past_value, parts.present_value),
    ):
        side, more = _brought(parts, name, new and _heads(new), bias, past, present)
        sides.append(side)
        steps += more
    key, value = sides
    masking = _masking(parts, scale, filter_value, mask)
    of = parts.of
    sources = (_grouped(query, of), _shared(key, of), _shared(value, of), *masking.views)
    return (*steps, Attend(sources, _grouped(_heads(parts.output), of), masking.score, masking.limit))


def _heads(view: View) -> View:
    """(batch, heads, sequence, size)."""
    return view.pick((0, 2, 1, 3))


def _biases(parts: Parts) -> tuple[View | None, View | None, View | None]:
    """The query's, the key's and the value's parts of the bias, each (heads, size)."""
    of, bias = parts.of, parts.bias
    if bias is None:
        return None, None, None
    found, start = [], 0
    for count, size in ((of.heads, of.size), (of.shared, of.size), (of.shared, of.value_size)):
        found.append(split(bias.window((start,), (1,), (count * size,)), 0, count, size))
        start += count * size
    return found[0], found[1], found[2]


def _along(bias: View, like: View) -> View:
    """A bias for each of the batch and of the sequence."""
    heads, size = bias.strides
    return replace(bias, sizes=like.sizes, strides=(0, heads, 0, size))


def _biased(view: View, bias: View, name: str) -> tuple[View, Map]:
    """A view with its bias added, in memory of its own."""
    target = temporary(name, view.data_type, view.sizes)
    return target, _sum(view, bias, target)


def _sum(view: View, bias: View, target: View) -> Map:
    value = wide(load(0, view.data_type)) + wide(load(1, bias.data_type))
    return Map((view, _along(bias, view)), target, value.to(target.data_type))


def _brought(
    parts: Parts, name: str, new: View | None, bias: View | None, past: View | None, present: View | None
) -> tuple[View, list[Primitive]]:
    """All keys or values as (batch, heads, keys, size), and what brings them together."""
    of = parts.of
    if parts.lengths is not None and new is not None:
        return _cached(parts, name, new, bias, past, present)
    if new is None:  # the past's alone
        assert past is not None  # noqa: S101 - for type checkers: a rule says so
        return past, [] if present is None else [copy_of(past, present)]
    if past is None and present is None and bias is None:
        return new, []
    sizes = (of.batch, of.shared, of.total, new.sizes[3])
    whole = present if present is not None else temporary(name, new.data_type, sizes)
    late = whole.window((0, 0, of.cached, 0), (1,) * 4, new.sizes)
    steps: list[Primitive] = [copy_of(new, late) if bias is None else _sum(new, bias, late)]
    if past is not None:
        steps.append(copy_of(past, whole.window((0,) * 4, (1,) * 4, past.sizes)))
    return whole, steps


def _cached(
    parts: Parts, name: str, new: View, bias: View | None, past: View | None, present: View | None
) -> tuple[View, list[Primitive]]:
    """A cache with the new keys or values in it, from where the lengths say: in its place only those are written."""
    of = parts.of
    steps: list[Primitive] = []
    sizes, kind = (of.batch, of.shared, of.total, new.sizes[3]), new.data_type
    target = present if present is not None else temporary(name, kind, sizes)
    old = past if past is not None else target
    if old is target and of.total == of.keys:  # all of it is new
        return target, [copy_of(new, target) if bias is None else _sum(new, bias, target)]
    if bias is not None:
        new, step = _biased(new, bias, f"new {name}")
        steps.append(step)
    assert parts.lengths is not None  # noqa: S101 - for type checkers: there are some
    lengths = replace(parts.lengths, sizes=(of.batch, of.keys, 1), strides=(*parts.lengths.strides, 0, 0))
    places = temporary(f"places of {name}", INT64, lengths.sizes)
    steps.append(Map((lengths,), places, _length(parts, 0) + coordinate(1)))
    base, updates, rows = map(_heads, (old, new, target))
    steps.append(Scatter((base, places, updates), rows, 1))
    return target, steps


def _length(parts: Parts, slot: int) -> Expr:
    """The keys before the new ones, of a source."""
    assert parts.lengths is not None  # noqa: S101 - for type checkers: there are some
    of, found = parts.of, load(slot, parts.lengths.data_type)
    return minimum(maximum(wide(found).to(INT64), 0), given(of.total - of.keys, INT64))


class _Masking(NamedTuple):
    """The change of the scores before the softmax."""

    views: tuple[View, ...]
    """Beside the scores, in their sizes."""
    score: Expr
    limit: Expr | None


def _masking(parts: Parts, scale: float, filter_value: float, kind: Mask) -> _Masking:
    of, views = parts.of, []
    value = given(scale, F32) * load(0, F32)

    def element(view: View, strides: tuple[int, ...], offset: int = 0) -> Expr:
        views.append(replace(view, sizes=of.scores, strides=strides, offset=view.offset + offset))
        return load(len(views), view.data_type)

    def for_batch(view: View, offset: int = 0) -> Expr:
        """A number for each of the batch."""
        return element(view, (view.strides[-1], 0, 0, 0, 0), offset * view.strides[-1]).to(INT64)

    if parts.relative is not None:
        value = value + wide(element(parts.relative, _grouped(parts.relative, of).strides))
    if parts.mask is not None:
        mask, at, query = parts.mask, coordinate(_KEYS), coordinate(_SEQUENCE)
        if kind is Mask.BOOLEAN:
            is_masked = element(mask, _grouped(mask, of).strides).equals(0)
        elif kind is Mask.KEY_SEQUENCE_LENGTH:
            is_masked = at >= for_batch(mask)
        elif kind is Mask.KEY_SEQUENCE_END_START:
            end, start = (for_batch(replace(mask, offset=mask.offset + k * mask.strides[0])) for k in (0, 1))
            is_masked = (at >= end) | (at < start)
        else:
            length, begin, end, start = (for_batch(mask, k) for k in (0, of.batch, of.batch + 1, 2 * of.batch + 1))
            key = coordinate(0) * of.total + at
            row = coordinate(0) * of.queries + query
            is_masked = (key < start) | (key >= start + length) | (row < begin) | (row >= end)
        value = value + where(is_masked, given(filter_value, F32), const(0.0, F32))
    limit = None
    if parts.lengths is not None:  # what the cache has after the last is not looked at, whatever it is
        views.append(replace(parts.lengths, sizes=of.scores, strides=(parts.lengths.strides[0], 0, 0, 0, 0)))
        limit = _length(parts, len(views)) + coordinate(_SEQUENCE) + 1
    return _Masking(tuple(views), value, limit)


def _grouped(view: View, of: Heads) -> View:
    """(batch, heads, …) with the heads in groups."""
    return split(view, 1, of.shared, of.heads // of.shared)


def _shared(view: View, of: Heads) -> View:
    """(batch, heads of keys, sequence, size), the same for all queries' heads that share it."""
    sizes, strides = view.sizes, view.strides
    return replace(view, sizes=(*sizes[:2], of.heads // of.shared, *sizes[2:]), strides=(*strides[:2], 0, *strides[2:]))
