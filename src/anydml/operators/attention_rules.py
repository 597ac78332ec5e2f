"""Rules of both attention operators for their tensors: which belong together, and their sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from anydml.enums import MultiheadAttentionMaskType as Mask
from anydml.errors import DescriptionError, Fault
from anydml.ir.views import View
from anydml.operators.attention_verbs import Heads, Parts, attend
from anydml.operators.computed import Computed
from anydml.operators.fields import dml_name
from anydml.operators.moved import at_least_1, split
from anydml.operators.rules import same_data_type
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.verbs import Primitive
    from anydml.operators.fields import AttentionMask, Float, OptionalInput, Output

    Sizes = tuple[int, ...]


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
            rule = f"{counts[0][0]} must be a multiple of {counts[1][0]}, {counts[1][1]}"
            yield Fault(field=counts[0][0], rule=rule, value=counts[0][1], found=str(counts[0][1]))
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
                    rule = f"{field}.Sizes must be {sizes}{lead}, {source}"
                    yield Fault(field=f"{field}.Sizes", rule=rule, value=own, found=str(own))

    def _others(self) -> Iterator[Fault]:
        yield from self._sized(self.inputs())
        if _LENGTHS not in self.inputs():
            return
        of, presents = self.heads(), [field for field in _PAST.values() if field in self.outputs()]
        if of.keys != of.queries:
            rule = f"{_LENGTHS} must be given only where there are as many keys as queries, {of.queries}"
            yield Fault(field=_LENGTHS, rule=rule, value=of.keys, found=str(of.keys))
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
        rule = f"{field}.Sizes must be {count}, with 1s before them"
        yield Fault(field=f"{field}.Sizes", rule=rule, value=sizes, found=str(sizes))
