"""MULTIHEAD_ATTENTION, and its form with grouped heads and a cache."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, MultiheadAttentionMaskType
from anydml.core.enums import MultiheadAttentionMaskType as Mask
from anydml.core.errors import DescriptionError, Fault
from anydml.ir.attention import Attend
from anydml.ir.expressions import const, coordinate, given, load, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Scatter
from anydml.ir.views import View
from anydml.operators.lowering import split, temporary, wide
from anydml.operators.schema.fields import AttentionMask, Float, OptionalInput, OptionalOutput, Output, Uint, dml_name
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import at_least_1, fault, same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

    Sizes = tuple[int, ...]


# The verbs: keys and values brought together, masks, and what attends to them


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


# The rules for tensors: which belong together, and their sizes


class _Part(NamedTuple):
    """One of query, key and value: the tensors that may hold it, and where each stacked one has it."""

    name: str
    alone: str
    stacked: tuple[tuple[str, int], ...]


_QK, _KV, _QKV = "StackedQueryKeyTensor", "StackedKeyValueTensor", "StackedQueryKeyValueTensor"
_PARTS = (
    _Part("query", "QueryTensor", ((_QK, 0), (_QKV, 0))),
    _Part("key", "KeyTensor", ((_QK, 1), (_KV, 0), (_QKV, 1))),
    _Part("value", "ValueTensor", ((_KV, 1), (_QKV, 2))),
)
_PLACES = {_QK: 2, _KV: 2, _QKV: 3}
_PAST = {"PastKeyTensor": "OutputPresentKeyTensor", "PastValueTensor": "OutputPresentValueTensor"}
NOT_GIVEN = math.nan
"""A Scale that follows from the head size."""
_LENGTHS = "PastSequenceLengthsTensor"


class Attention(Computed):
    """The shared part of the two operators."""

    if TYPE_CHECKING:
        query_tensor: OptionalInput
        bias_tensor: OptionalInput
        mask_tensor: OptionalInput
        output_tensor: Output
        scale: Float
        mask_filter_value: Float
        mask_type: AttentionMask

    result_rank, result_type = 3, None
    result_ranks = dict.fromkeys(_PAST.values(), 4)
    counted_by: ClassVar[tuple[str, str]]
    """The attributes that count the query's heads, and the key's and value's."""

    # Which tensors there are

    def _given(self, part: _Part) -> list[str]:
        return [field for field in (part.alone, *(field for field, _ in part.stacked)) if field in self.inputs()]

    def _source(self, part: _Part) -> str | None:
        """The tensor that holds a query, key or value; None for a key and a value that are the past's alone."""
        return next(iter(self._given(part)), None)

    def __post_init__(self) -> None:
        """Scale is 1/√(the head size) where it is not said."""
        super().__post_init__()
        if math.isnan(self.scale):
            fits = not any(self.rules())
            object.__setattr__(self, "scale", 1 / math.sqrt(self.heads().size) if fits else 1.0)

    @classmethod
    def draft(cls, **others: Any) -> Self:
        """Complete a description with the outputs that the other fields imply: nothing implies them without a query."""
        if all(others.get(name) is None for name in cls.input_names()):
            raise DescriptionError(cls.type.name, list(_missing(_PARTS[0])))
        return super().draft(**others)

    def rules(self) -> Iterator[Fault]:
        """There is one query, one key and one value, and all sizes fit."""
        faults = [*self._types(), *self._choices(), *at_least_1(self, *dict.fromkeys(self.counted_by))]
        faults = faults or list(self._queries())
        yield from faults or self._others()

    def _types(self) -> Iterator[Fault]:
        floats = [field for field in self.inputs() if field not in ("MaskTensor", _LENGTHS)]
        for field in floats[1:]:
            yield from same_data_type(self, field, floats[0])

    def _choices(self) -> Iterator[Fault]:
        """Exactly one tensor has the query, and so on; the past alone may have the key and the value."""
        has_past = all(field in self.inputs() for field in _PAST)
        for part in _PARTS:
            given = self._given(part)
            if len(given) > 1:
                rule = f"{given[1]} must not be given beside {given[0]}: both have the {part.name}"
                yield Fault(field=given[1], rule=rule)
            elif not given and (part is _PARTS[0] or not has_past or any(map(self._given, _PARTS[1:]))):
                yield from _missing(part)
        past = [field for field in _PAST if field in self.inputs()]
        if len(past) == 1:
            (other,) = _PAST.keys() - set(past)
            yield Fault(field=other, rule=f"{other} must be given beside {past[0]}", found="none")
        if self.mask_type is Mask.NONE and self.mask_tensor is not None:
            kinds = ", ".join(kind.name for kind in Mask if kind is not Mask.NONE)
            rule = "MaskType must not be NONE with a MaskTensor"
            yield Fault(field="MaskType", rule=rule, value=self.mask_type, way_out=f"it is one of {kinds}")
        if self.mask_type is not Mask.NONE and self.mask_tensor is None:
            rule = f"MaskTensor must be given with a MaskType of {Mask(self.mask_type).name}"
            yield Fault(field="MaskTensor", rule=rule, found="none")

    # Sizes

    def _queries(self) -> Iterator[Fault]:
        """The tensors with queries, keys and values have their dimensions, and whole heads."""
        counts = [(dml_name(name), getattr(self, name)) for name in self.counted_by]
        for part, (field, count) in zip(_PARTS, (counts[0], counts[1], counts[1]), strict=True):
            source = self._source(part)
            if source is None:
                continue
            own = self.tensors()[source].sizes
            if source == part.alone:
                faults = list(_leading(source, own, 3))
                yield from faults
                if not faults and own[-1] % count:
                    rule = f"{source}.Sizes[{len(own) - 1}] must be a multiple of {field}, {count}"
                    yield Fault(field=f"{source}.Sizes", rule=rule, value=own, found=str(own[-1]))
            elif len(own) != 5 or own[2] != count or own[3] != _PLACES[source]:
                rule = f"{source}.Sizes must be (batch, sequence, {count}, {_PLACES[source]}, head size), {field} being"
                yield Fault(field=f"{source}.Sizes", rule=f"{rule} {count}", value=own, found=str(own))
        if counts[0][1] % counts[1][1]:
            yield fault(counts[0][0], f"must be a multiple of {counts[1][0]}, {counts[1][1]}", counts[0][1])
        for field in _PAST:
            if field in self.inputs():
                yield from _leading(field, self.tensors()[field].sizes, 4)

    def heads(self) -> Heads:
        """All sizes, where the rules so far hold."""
        count, shared = (getattr(self, name) for name in self.counted_by)
        query, key, value = (self._source(part) for part in _PARTS)
        assert query is not None  # noqa: S101 - for type checkers: a rule says so
        batch, queries, size = self._part_sizes(query, count)
        past = self.tensors().get("PastKeyTensor")
        cached = past.sizes[-2] if past is not None else 0
        _, keys, _ = self._part_sizes(key, shared) if key else (batch, 0, size)
        value_size = self._part_sizes(value, shared)[2] if value else self.tensors()["PastValueTensor"].sizes[-1]
        total = cached + keys
        if _LENGTHS in self.inputs():
            present = self.outputs().get("OutputPresentKeyTensor")
            room = present.sizes[-2] if present is not None and present.dimension_count > 1 else 0
            total = cached or max(room, keys)
        return Heads(batch, queries, count, shared, size, value_size, keys, cached, total)

    def _part_sizes(self, field: str, count: int) -> tuple[int, int, int]:
        """Batch, sequence and head size of a tensor."""
        sizes = self.tensors()[field].sizes
        if field in _PLACES:
            return sizes[0], sizes[1], sizes[4]
        return sizes[-3], sizes[-2], sizes[-1] // count

    def _wanted(self) -> Iterator[tuple[str, Sizes, str]]:
        """The sizes of each tensor, without leading ones, and where they come from."""
        of = self.heads()
        for part, size in zip(_PARTS, (of.size, of.size, of.value_size), strict=True):
            source, count = self._source(part), of.heads if part is _PARTS[0] else of.shared
            length = of.queries if part is _PARTS[0] else of.keys
            if source == part.alone:
                yield source, (of.batch, length, count * size), f"(batch, sequence, heads·head size) of the {part.name}"
            elif source is not None:
                places = _PLACES[source]
                yield source, (of.batch, length, count, places, size), "(batch, sequence, heads, parts, head size)"
        what = "(batch, heads, past sequence, head size)"
        yield "PastKeyTensor", (of.batch, of.shared, of.cached, of.size), what
        yield "PastValueTensor", (of.batch, of.shared, of.cached, of.value_size), what
        hidden = of.heads * of.size + of.shared * (of.size + of.value_size)
        yield "BiasTensor", (hidden,), "a number for each of the query's, the key's and the value's"
        scores = (of.batch, of.heads, of.queries, of.total)
        yield "RelativePositionBiasTensor", scores, "(batch, heads, sequence, keys)"
        yield _LENGTHS, (of.batch,), "a number for each of the batch"
        masks = {
            Mask.BOOLEAN: (scores, "(batch, heads, sequence, keys)"),
            Mask.KEY_SEQUENCE_LENGTH: ((of.batch,), "a length for each of the batch"),
            Mask.KEY_SEQUENCE_END_START: ((2, of.batch), "the ends, then the starts, of each of the batch"),
            Mask.KEY_QUERY_SEQUENCE_LENGTH_START_END: ((3 * of.batch + 2,), "3·batch + 2"),
        }
        if self.mask_type in masks:
            yield "MaskTensor", *masks[self.mask_type]
        what = "(batch, heads, keys, head size)"
        yield "OutputTensor", (of.batch, of.queries, of.heads * of.value_size), "(batch, sequence, heads·head size)"
        yield "OutputPresentKeyTensor", (of.batch, of.shared, of.total, of.size), what
        yield "OutputPresentValueTensor", (of.batch, of.shared, of.total, of.value_size), what

    def _sized(self, fields: Sequence[str] | dict[str, TensorDesc]) -> Iterator[Fault]:
        for field, sizes, source in self._wanted():
            if field in fields:
                own = self.tensors()[field].sizes
                if own != (1,) * (len(own) - len(sizes)) + sizes:
                    lead = " after leading 1s" if len(own) > len(sizes) else ""
                    yield fault(f"{field}.Sizes", f"must be {sizes}{lead}, {source}", own)

    def _others(self) -> Iterator[Fault]:
        yield from self._sized(self.inputs())
        if _LENGTHS not in self.inputs():
            return
        of, presents = self.heads(), [field for field in _PAST.values() if field in self.outputs()]
        if of.keys != of.queries:
            yield fault(_LENGTHS, f"must be given only where there are as many keys as queries, {of.queries}", of.keys)
        elif of.total < of.keys:
            rule = f"there must be room for the {of.keys} new keys among those that are kept"
            yield Fault(field=_LENGTHS, rule=rule, value=of.total, found=str(of.total))
        if not of.cached and len(presents) == 1:
            (other,) = set(_PAST.values()) - set(presents)
            yield Fault(field=other, rule=f"{other} must be given beside {presents[0]}", found="none")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """Batch, sequence, and all heads of the value."""
        of = self.heads()
        return of.batch, of.queries, of.heads * of.value_size

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The output, and the keys and values with the past's before them."""
        kind, wanted = self.implied_output_type(), {field: sizes for field, sizes, _ in self._wanted()}
        return tuple(TensorDesc(kind, wanted[field]) for field in ("OutputTensor", *_PAST.values()))

    def output_rules(self) -> Iterator[Fault]:
        """The outputs are of the inputs' type and of these sizes."""
        first = next(iter(self.inputs()))
        for field in self.outputs():
            yield from same_data_type(self, field, first)
        yield from self._sized(self.outputs())

    # Verbs

    def shares(self) -> dict[str, str]:
        """A cache of a fixed size stays where it is: the past's memory may be the present's."""
        return {present: past for past, present in _PAST.items()} if _LENGTHS in self.inputs() else {}

    def lower(self) -> tuple[Primitive, ...]:
        """Two products with a softmax between them."""
        of = self.heads()
        views = {field: View.of(field, tensor) for field, tensor in self.tensors().items()}
        for field, sizes, _ in self._wanted():
            if field in views:
                views[field] = views[field].last(len(sizes))
        counts = (of.heads, of.shared, of.shared)
        query, key, value = (self._side(part, views, count) for part, count in zip(_PARTS, counts, strict=True))
        assert query is not None  # noqa: S101 - for type checkers: a rule says so
        parts = Parts(
            of,
            query,
            key,
            value,
            bias=views.get("BiasTensor"),
            mask=views.get("MaskTensor"),
            relative=views.get("RelativePositionBiasTensor"),
            past_key=views.get("PastKeyTensor"),
            past_value=views.get("PastValueTensor"),
            lengths=views.get(_LENGTHS),
            output=split(views["OutputTensor"], 2, of.heads, of.value_size),
            present_key=views.get("OutputPresentKeyTensor"),
            present_value=views.get("OutputPresentValueTensor"),
        )
        return attend(parts, self.scale, self.mask_filter_value, Mask(self.mask_type))

    def _side(self, part: _Part, views: dict[str, View], count: int) -> View | None:
        """A query, key or value as (batch, sequence, heads, head size)."""
        source = self._source(part)
        if source is None:
            return None
        if source == part.alone:
            return split(views[source], 2, count, views[source].sizes[2] // count)
        place = dict(part.stacked)[source]
        sizes = (*views[source].sizes[:3], 1, views[source].sizes[4])
        return views[source].window((0, 0, 0, place, 0), (1,) * 5, sizes).pick((0, 1, 2, 4))


def _missing(part: _Part) -> Iterator[Fault]:
    others = " or ".join(field for field, _ in part.stacked)
    yield Fault(field=part.alone, rule=f"{part.alone} must be given, or {others}", found="none")


def _leading(field: str, sizes: Sizes, count: int) -> Iterator[Fault]:
    """Check that a tensor has these dimensions, and 1s before them."""
    if len(sizes) < count or any(size > 1 for size in sizes[: len(sizes) - count]):
        yield fault(
            f"{field}.Sizes", f"must have at least {count} dimensions, and be 1 in all but the last {count}", sizes
        )


# The operators


FILTER = -10000.0
"""The usual number that masks add."""


class MultiheadAttention(Attention):
    """Attention of several heads: softmax(Scale·Q·Kᵀ + RelativePositionBias + mask)·V, for each head by itself.

    Query, key and value are (batch, sequence, heads·head size) each, or stacked as (batch, sequence, heads, 2 or 3,
    head size). Bias is added to them first; the past's keys and values stand before the new ones, with which they come
    out as the present's, and may be the only ones. Scale is 1/√(head size) where it is NaN, or not given.

    A mask adds MaskFilterValue, where the documents say "set" as well: to keys where it is 0 (BOOLEAN), from a length
    on (KEY_SEQUENCE_LENGTH), or outside of an end and a start (KEY_SEQUENCE_END_START), counted with the past's. Of
    KEY_QUERY_SEQUENCE_LENGTH_START_END they are the keys outside of keyStart … keyStart + keyLength, and all keys of
    queries outside of queryStart … the next one's, counted through the whole batch, which the documents leave open.

    Sums are of FLOAT32, and so are the softmax and what goes into it; what Bias was added to is of the tensors' type.
    """

    counted_by = ("head_count", "head_count")

    query_tensor: OptionalInput = None
    key_tensor: OptionalInput = None
    value_tensor: OptionalInput = None
    stacked_query_key_tensor: OptionalInput = None
    stacked_key_value_tensor: OptionalInput = None
    stacked_query_key_value_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    mask_tensor: OptionalInput = None
    relative_position_bias_tensor: OptionalInput = None
    past_key_tensor: OptionalInput = None
    past_value_tensor: OptionalInput = None
    output_tensor: Output
    output_present_key_tensor: OptionalOutput = None
    output_present_value_tensor: OptionalOutput = None
    scale: Float = NOT_GIVEN
    mask_filter_value: Float = FILTER
    head_count: Uint = 1
    mask_type: AttentionMask = MultiheadAttentionMaskType.NONE


class MultiheadAttention1(Attention):
    """MULTIHEAD_ATTENTION with fewer heads of keys and values, and with a cache: neither is in the documents yet.

    QueryHeadCount is a multiple of KeyValueHeadCount: as many heads on end share a key and a value. With
    PastSequenceLengths, as ONNX Runtime uses it, the present's keys and values are a cache of a fixed size: the new
    ones are written from there on, and a query looks at what lies before it and at itself. The cache is the past's
    tensors, or without them the outputs' own memory, which keeps what it has elsewhere. A length outside of the cache
    is the nearest inside; it is a number of INT32, as ONNX Runtime has it, or a float, as the documents do.
    """

    counted_by = ("query_head_count", "key_value_head_count")

    query_tensor: OptionalInput = None
    key_tensor: OptionalInput = None
    value_tensor: OptionalInput = None
    stacked_query_key_tensor: OptionalInput = None
    stacked_key_value_tensor: OptionalInput = None
    stacked_query_key_value_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    mask_tensor: OptionalInput = None
    relative_position_bias_tensor: OptionalInput = None
    past_key_tensor: OptionalInput = None
    past_value_tensor: OptionalInput = None
    past_sequence_lengths_tensor: OptionalInput = None
    output_tensor: Output
    output_present_key_tensor: OptionalOutput = None
    output_present_value_tensor: OptionalOutput = None
    scale: Float = NOT_GIVEN
    mask_filter_value: Float = FILTER
    query_head_count: Uint = 1
    key_value_head_count: Uint = 1
    mask_type: AttentionMask = MultiheadAttentionMaskType.NONE
