"""The operators that quantise with scales and zero points: element by element, or a block with a scale of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, QuantizationType
from anydml.core.errors import Fault
from anydml.core.memory import packed_strides
from anydml.ir.blocked_weights import BYTE, number_in
from anydml.ir.expressions import const, coordinate, fold, load, maximum, minimum, rint, where
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.elementwise import ElementWise, type_of
from anydml.operators.lowering import wide
from anydml.operators.schema.fields import Input, Inputs, OptionalInput, Output, Quantization
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import fault, same_data_type, same_dimension_count, same_sizes, sized_as
from anydml.operators.schema.sizes import pad

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.operators.schema.sizes import Sizes, Spread


# Element by element, and scales that are found out


F32 = DataType.FLOAT32
_LONGEST = 2**31 // 255**2
"""The products of differences of bytes that an INT32 can sum up, whatever they are: 33,025."""


def sum_type(count: int) -> DataType:
    """The type that holds the sum of so many products of differences of bytes."""
    return DataType.INT32 if count <= _LONGEST else DataType.INT64


def quantised(x: Expr, zero_point: Expr | None) -> Expr:
    """A scaled number of FLOAT32 rounded, halves to even, plus the zero point: its conversion takes the nearest end."""
    return rint(x) if zero_point is None else rint(x) + zero_point.to(type_of(x))


def difference(x: Expr, zero_point: Expr | None, data_type: DataType) -> Expr:
    """An integer less its zero point, in a type that has all of them."""
    return x.to(data_type) if zero_point is None else x.to(data_type) - zero_point.to(data_type)


def dequantised(x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
    """(x - z)·s, of which the difference is exact."""
    kind = DataType.INT32 if type_of(x).size_in_bytes < 4 else DataType.INT64
    return difference(x, zero_point, kind).to(F32) * scale


class ElementWiseQuantizeLinear(ElementWise):
    """Quantises: round(x/scale) + zero_point, halves to even; what lies outside the range takes its nearest end.

    Without a zero point, which may be left out from 6_2 on, it is 0, and the result UINT8 unless `out` says INT8.
    """

    result_type = None
    typed_like = {"ScaleTensor": "InputTensor", "OutputTensor": "ZeroPointTensor"}

    input_tensor: Input
    scale_tensor: Input
    zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """The inputs are alike, but the scales of integers are of FLOAT32."""
        kind, own = self.input_tensor.data_type, self.scale_tensor.data_type
        for one in super().rules():
            if one.field != "ScaleTensor.DataType" or kind.is_float:
                yield one
            elif own is not F32:
                yield replace(one, rule=f"ScaleTensor.DataType must be FLOAT32 with an InputTensor of {kind.name}")

    def value(self, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
        return quantised(x.to(F32) / scale, zero_point)


class ElementWiseDequantizeLinear(ElementWise):
    """Numbers of what was quantised: (x - zero_point)·scale. The zero point may be left out from 6_2 on."""

    input_tensor: Input
    scale_tensor: Input
    zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def value(self, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
        return dequantised(x, scale, zero_point)


class ElementWiseQuantizedLinearAdd(ElementWise):
    """The sum of quantised numbers, quantised: round(((a - za)·sa + (b - zb)·sb)/s) + z, halves to even.

    What lies outside the type's range takes its nearest end. Scales and zero points have the sizes of A and B, or 1.
    """

    result_type = None
    repeated = tuple(f"{x}{what}Tensor" for x in ("A", "B", "Output") for what in ("Scale", "ZeroPoint"))
    typed_like = {
        "AZeroPointTensor": "ATensor",
        "BZeroPointTensor": "BTensor",
        "OutputTensor": "OutputZeroPointTensor",
    }

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def implied_output_type(self) -> DataType:
        """The output's zero point's, or A's."""
        return (self.output_zero_point_tensor or self.a_tensor).data_type

    def value(
        self,
        a: Expr,
        a_scale: Expr,
        za: Expr | None,
        b: Expr,
        b_scale: Expr,
        zb: Expr | None,
        scale: Expr,
        z: Expr | None,
    ) -> Expr:
        total = dequantised(a, a_scale, za) + dequantised(b, b_scale, zb)
        return quantised(total / scale, z)


class DynamicQuantizeLinear(Computed):
    """Quantises to the range that the numbers have: round(x/scale) + zero_point, and the scale and the zero point.

    The scale is the range, 0 included, over 255, and 1 where all numbers are 0; the zero point is what 0 becomes,
    rounded. The result is UINT8 unless `out` says INT8.
    """

    result_type = None

    input_tensor: Input
    output_tensor: Output
    output_scale_tensor: Output
    output_zero_point_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """An input alone is what its level takes."""
        return iter(())

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """Bytes of the input's sizes, and a scale and a zero point of one element."""
        own, one = self.output_tensor.data_type, (1,) * self.input_tensor.dimension_count
        kind = DataType.UINT8 if own.is_float else own
        return TensorDesc(kind, self.input_tensor.sizes), TensorDesc(F32, one), TensorDesc(kind, one)

    def output_rules(self) -> Iterator[Fault]:
        """The output has the input's sizes, and the others have one element."""
        yield from same_sizes(self, "OutputTensor", "InputTensor")
        yield from same_data_type(self, "OutputZeroPointTensor", "OutputTensor")
        for field in ("OutputScaleTensor", "OutputZeroPointTensor"):
            yield from sized_as(self, field, (1,) * self.input_tensor.dimension_count, "one element")

    def lower(self) -> tuple[Primitive, ...]:
        """The range, then the zero point, then a map."""
        x, y = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        scale_of = View.of("OutputScaleTensor", self.output_scale_tensor)
        zero_of = View.of("OutputZeroPointTensor", self.output_zero_point_tensor)
        limits, depth = np.iinfo(y.data_type.dtype), len(x.sizes)
        number = load(0, x.data_type).to(F32)
        low = minimum(fold("min", number), 0)
        extent = maximum(fold("max", number), 0) - low
        scale = where(extent.equals(0), const(1, F32), extent / 255)
        zero_point = rint(int(limits.min) - low / load(1, F32))
        scales, zeros = (View(view.tensor, view.data_type, x.sizes, (0,) * depth) for view in (scale_of, zero_of))
        value = quantised(number / load(1, F32), load(2, y.data_type))
        return (
            Reduce((x,), scale_of, scale, depth),
            Reduce((x, scales), zero_of, zero_point.to(y.data_type), depth),
            Map((x, scales, zeros), y, value.to(y.data_type)),
        )


# 4-bit elements in maps: two share a byte, the first in its low half, and views are of the bytes


def whole_type(data_type: DataType) -> DataType:
    """A type that has the numbers of a 4-bit type, one to a byte; of others the type itself."""
    return {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8}.get(data_type, data_type)


def byte_of(low: Expr, high: Expr | None) -> Expr:
    """Two numbers in a byte."""
    halves = [one.bits(BYTE) & 15 for one in (low, high) if one is not None]
    return halves[0] if high is None else halves[0] | (halves[1] << 4)


def pair_dimension(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one dimension along which neighbours may share a byte; -1 where none do, and None where several do."""
    odd = [k for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)) if size > 1 and stride % 2]
    return (odd or [-1])[0] if len(odd) < 2 else None


@dataclass(frozen=True, slots=True)
class Walk:
    """The dimensions of a map as parts of a tensor's: each dimension is a few that follow one another."""

    factors: tuple[tuple[int, ...], ...]
    """By dimension of the tensor, the sizes of its parts."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of all parts."""
        return tuple(size for parts in self.factors for size in parts)

    def halved(self, dimension: int) -> Walk:
        """The same with the last part of a dimension as pairs, which must be even."""
        *outer, last = self.factors[dimension]
        parts = (*outer, last // 2, 2)
        return Walk(tuple(parts if k == dimension else own for k, own in enumerate(self.factors)))

    def along(self, view: View) -> View:
        """A view of the tensor's sizes in these."""
        strides = tuple(step for steps in self.steps(view.strides) for step in steps)
        return View(view.tensor, view.data_type, self.sizes, strides, view.offset)

    def steps(self, strides: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """By dimension, the strides of the parts, of a tensor with these strides."""
        return tuple(
            tuple(stride * math.prod(parts[i + 1 :]) for i in range(len(parts)))
            for parts, stride in zip(self.factors, strides, strict=True)
        )


def one_of_pair(view: View, place: int, half: int) -> View:
    """One of each pair, which a dimension of size 2 counts."""
    sizes, strides = (of[:place] + of[place + 1 :] for of in (view.sizes, view.strides))
    return replace(view, sizes=sizes, strides=strides, offset=view.offset + half * view.strides[place])


def has_no_gaps(tensor: TensorDesc) -> bool:
    """Whether the elements lie one after the other in the order of their coordinates."""
    plain = packed_strides(tensor.sizes)
    return all(
        size == 1 or own == step for size, own, step in zip(tensor.sizes, tensor.element_strides, plain, strict=True)
    )


def unpacked(field: str, tensor: TensorDesc, name: str) -> tuple[View, tuple[Map, ...]]:
    """A 4-bit tensor with its numbers one to a byte, in memory of its own, and the steps that make it so.

    Both numbers of its last byte are there: what two steps write would not be computed once where it is constant.
    """
    kind, pairs = whole_type(tensor.data_type), -(-tensor.extent // 2)
    source, target = View(field, BYTE, (pairs, 2), (1, 0)), View(name, kind, (pairs, 2), (2, 1))
    steps = (Map((source,), target, number_in(load(0, BYTE), tensor.data_type, coordinate(1))),)
    seen = View.of(name, tensor)
    return View(name, kind, seen.sizes, seen.strides), steps


def packed(name: str, field: str, tensor: TensorDesc, pair: int | None) -> tuple[Map, ...]:
    """The steps that put numbers that lie one to a byte, without gaps, into a 4-bit tensor.

    That has no gaps either, or pairs along a dimension.
    """
    kind, count = whole_type(tensor.data_type), tensor.element_count
    if pair is not None:
        walk = Walk(tuple((size,) for size in tensor.sizes)).halved(pair)
        numbers = walk.along(View(name, kind, tensor.sizes, packed_strides(tensor.sizes)))
        low, high, own = (
            one_of_pair(view, pair + 1, half)
            for view, half in ((numbers, 0), (numbers, 1), (walk.along(View.of(field, tensor)), 0))
        )
        target = View(field, BYTE, own.sizes, tuple(step // 2 for step in own.strides))
        return (Map((low, high), target, byte_of(load(0, kind), load(1, kind))),)
    pairs, steps = count // 2, []
    if pairs:
        low, high = (View(name, kind, (pairs,), (2,), half) for half in (0, 1))
        target = View(field, BYTE, (pairs,), (1,))
        steps.append(Map((low, high), target, byte_of(load(0, kind), load(1, kind))))
    if count % 2:
        last, target = View(name, kind, (1,), (0,), count - 1), View(field, BYTE, (1,), (0,), pairs)
        steps.append(Map((last,), target, byte_of(load(0, kind), None)))
    return tuple(steps)


# QUANTIZE and DEQUANTIZE: a scale, and maybe a zero point, for each block of a tensor; of 4-bit numbers too


_SCALE, _ZERO_POINT = "QuantizationTensors[0]", "QuantizationTensors[1]"
_COUNTS = {QuantizationType.SCALE: 1, QuantizationType.SCALE_ZERO_POINT: 2}


class _Blocks(Computed):
    """A tensor in blocks, each with a scale and a zero point: a size of the scale divides the tensor's into blocks."""

    broadcasts = True

    input_tensor: Input
    quantization_type: Quantization
    quantization_tensors: Inputs
    output_tensor: Output

    @property
    def quantization_tensor_count(self) -> int:
        """DirectML's QuantizationTensorCount."""
        return len(self.quantization_tensors)

    def _quantised_type(self) -> DataType:
        """The type of the quantised numbers."""
        raise NotImplementedError

    @classmethod
    def spread(cls, sizes: Mapping[str, Sizes], **attributes: Any) -> Spread:  # noqa: ARG003 - of others
        """How a function sees its inputs: scales and zero points with as many dimensions as the tensor.

        A zero point that is a number is one for every block.
        """
        rank = max(map(len, sizes.values()))
        seen = {field: pad(own, rank) for field, own in sizes.items()}
        return {
            field: (own, seen[_SCALE] if field == _ZERO_POINT and not sizes[field] else own)
            for field, own in seen.items()
        }

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """One scale, and one zero point."""
        kind = F32 if field == _SCALE and not first.data_type.is_float else first.data_type
        return kind if field == _SCALE or not kind.is_float else DataType.UINT8, (1,) * first.dimension_count

    # Rules

    def rules(self) -> Iterator[Fault]:
        """There are as many tensors as the type says, of blocks that are whole."""
        kind, count = QuantizationType(self.quantization_type), self.quantization_tensor_count
        if kind not in _COUNTS:
            yield fault("QuantizationType", "must be SCALE or SCALE_ZERO_POINT", kind, kind.name)
        elif count != _COUNTS[kind]:
            one = "1 tensor, the scale" if kind is QuantizationType.SCALE else "2 tensors, the scale and the zero point"
            yield fault("QuantizationTensors", f"must have {one}, for a QuantizationType of {kind.name}", count)
        scale = self.quantization_tensors[0]
        if not scale.data_type.is_float:
            rule = f"{_SCALE}, the scale, must be of FLOAT32 or FLOAT16"
            yield Fault(field=f"{_SCALE}.DataType", rule=rule, value=scale.data_type, found=scale.data_type.name)
        counts = list(same_dimension_count(self, _SCALE, "InputTensor"))
        yield from counts or self._whole_blocks(scale.sizes)
        if count > 1:
            yield from same_sizes(self, _ZERO_POINT, _SCALE)
        yield from self.typed_faults(self.inputs())

    def _whole_blocks(self, sizes: Sizes) -> Iterator[Fault]:
        for k, (own, size) in enumerate(zip(sizes, self.input_tensor.sizes, strict=True)):
            if size % own:
                yield fault(f"{_SCALE}.Sizes[{k}]", f"must divide InputTensor.Sizes[{k}], {size}, into blocks", own)

    def output_rules(self) -> Iterator[Fault]:
        """The output has the input's sizes."""
        yield from self.typed_faults(self.outputs())
        yield from same_sizes(self, "OutputTensor", "InputTensor")

    def _value(self, x: Expr, views: list[View], slot: int) -> Expr:
        """The output's number, of one of the input and a scale and a zero point, which are sources from a slot on."""
        raise NotImplementedError

    # Lowering

    def told(self) -> tuple[Primitive, ...]:
        """A map of numbers, each in an element of its own."""
        walk = self._walk()
        source, target = (
            walk.along(View.of(field, self.tensors()[field])) for field in ("InputTensor", "OutputTensor")
        )
        views = [replace(view, data_type=whole_type(view.data_type)) for view in (source, *self._scales(walk))]
        value = self._value(load(0, views[0].data_type), views[1:], 1)
        whole = replace(target, data_type=whole_type(target.data_type))
        return (Map(tuple(views), whole, value.to(whole.data_type)),)

    def _walk(self) -> Walk:
        """Blocks apart from what is within them."""
        pairs = zip(self.input_tensor.sizes, self.quantization_tensors[0].sizes, strict=True)
        return Walk(tuple((size,) if own in (1, size) else (own, size // own) for size, own in pairs))

    def _scales(self, walk: Walk) -> list[View]:
        """The scales and the zero points along the walk."""
        views = (View.of(f"QuantizationTensors[{i}]", tensor) for i, tensor in enumerate(self.quantization_tensors))
        return [self._repeated(walk, view) for view in views]

    def _repeated(self, walk: Walk, view: View) -> View:
        strides: list[int] = []
        for own, size, stride, parts in zip(
            view.sizes, self.input_tensor.sizes, view.strides, walk.factors, strict=True
        ):
            if own in (1, size):  # a stride of 0, or a scale for each element
                strides += Walk((parts,)).steps((stride,))[0]
            else:
                strides += (stride, *[0] * (len(parts) - 1))
        return View(view.tensor, view.data_type, walk.sizes, tuple(strides))

    def _scaling(self, walk: Walk) -> tuple[list[View], tuple[Map, ...]]:
        """The scales and the zero points along the walk, and the steps that zero points of 4 bits take first."""
        views = self._scales(walk)
        steps: tuple[Map, ...] = ()
        if len(views) > 1 and views[1].data_type.is_half_byte:
            whole, steps = unpacked(_ZERO_POINT, self.quantization_tensors[1], "ZeroPoints")
            views[1] = self._repeated(walk, whole)
        return views, steps

    def _zero_point(self, views: list[View], slot: int) -> Expr:
        """Without a tensor 0, and of unsigned types the middle of the range."""
        if len(views) > 1:
            return load(slot, views[1].data_type)
        kind = self._quantised_type()
        low, high = kind.limits
        return const(0 if kind.is_signed else (low + high + 1) // 2, whole_type(kind))


class Dequantize(_Blocks):
    """Numbers of what was quantised, block by block: (x - zero_point)·scale, in the scale's type.

    Without a zero point it is 0, and of unsigned types the middle of the range: 128, and 8 of UINT4.
    """

    typed_like = {_ZERO_POINT: "InputTensor", "OutputTensor": _SCALE}

    def _quantised_type(self) -> DataType:
        return self.input_tensor.data_type

    def implied_output_type(self) -> DataType:
        return self.quantization_tensors[0].data_type

    def _value(self, x: Expr, views: list[View], slot: int) -> Expr:
        return dequantised(x, wide(load(slot, views[0].data_type)), self._zero_point(views, slot + 1))

    def lower(self) -> tuple[Primitive, ...]:
        """A map; 4-bit numbers are read from their bytes where pairs lie within a block, and unpacked before else."""
        walk, source = self._walk(), View.of("InputTensor", self.input_tensor)
        kind = self.input_tensor.data_type
        before: tuple[Map, ...] = ()
        element = load(0, source.data_type)
        if kind.is_half_byte:
            pair = pair_dimension(source.sizes, source.strides)
            if pair is None or (pair >= 0 and walk.factors[pair][-1] % 2):
                source, before = unpacked("InputTensor", self.input_tensor, "Numbers")
                element = load(0, source.data_type)
            else:
                walk = walk.halved(pair) if pair >= 0 else walk
                source, element = self._bytes(walk, source, pair)
        if source.sizes != walk.sizes:
            source = walk.along(source)
        views, steps = self._scaling(walk)
        value = self._value(element, views, 1)
        target = walk.along(View.of("OutputTensor", self.output_tensor))
        return (*before, *steps, Map((source, *views), target, value.to(target.data_type)))

    def _bytes(self, walk: Walk, source: View, pair: int) -> tuple[View, Expr]:
        """The bytes of the elements, and the number in one: strides are of elements, and even but for one."""
        steps = [list(steps) for steps in walk.steps(source.strides)]
        half = None
        if pair >= 0:
            half = coordinate(sum(len(parts) for parts in walk.factors[: pair + 1]) - 1)
        strides = tuple(step // 2 for own in steps for step in own)
        return View("InputTensor", BYTE, walk.sizes, strides), number_in(load(0, BYTE), source.data_type, half)


class Quantize(_Blocks):
    """Quantises block by block: round(x/scale) + zero_point, halves to even; what is outside takes the nearest end.

    Without a zero point it is 0, and of unsigned types the middle of the range: 128, and 8 of UINT4.
    """

    typed_like = {_SCALE: "InputTensor", "OutputTensor": _ZERO_POINT}

    def _quantised_type(self) -> DataType:
        return self.output_tensor.data_type

    def implied_output_type(self) -> DataType:
        """The zero point's, or UINT8."""
        return self.quantization_tensors[1].data_type if self.quantization_tensor_count > 1 else DataType.UINT8

    def output_rules(self) -> Iterator[Fault]:
        """The output has the input's sizes and the zero point's type, and 4-bit elements share bytes with none else."""
        yield from super().output_rules()
        if self.output_tensor.data_type.is_half_byte and not has_no_gaps(self.output_tensor) and self._pairs() is None:
            rule = (
                "OutputTensor.Strides must put two elements in every byte: without gaps, or of 1 along an even size"
                " and even otherwise"
            )
            found = f"strides {self.output_tensor.element_strides} for sizes {self.output_tensor.sizes}"
            way_out = "an odd count of 4-bit elements across a stride leaves half of a byte; leave Strides out"
            strides = self.output_tensor.element_strides
            yield Fault(field="OutputTensor.Strides", rule=rule, value=strides, found=found, way_out=way_out)

    def _pairs(self) -> int | None:
        """The dimension of an even size along which each two elements share a byte."""
        view = View.of("OutputTensor", self.output_tensor)
        pair = pair_dimension(view.sizes, view.strides)
        if pair is None or pair < 0 or view.strides[pair] != 1 or view.sizes[pair] % 2:
            return None
        return pair

    def lower(self) -> tuple[Primitive, ...]:
        """A map; 4-bit numbers two at once where both are of a block, and else one by one, to be packed then."""
        walk, kind = self._walk(), self.output_tensor.data_type
        source, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        pair = self._pairs() if kind.is_half_byte else None
        if pair is not None and walk.factors[pair][-1] % 2 == 0:
            return self._pair_by_pair(walk, source, target, pair)
        after: tuple[Map, ...] = ()
        if kind.is_half_byte:
            target = View("Numbers", whole_type(kind), target.sizes, packed_strides(target.sizes))
            after = packed("Numbers", "OutputTensor", self.output_tensor, pair)
        views, steps = self._scaling(walk)
        value = self._value(load(0, source.data_type), views, 1).to(target.data_type)
        return (*steps, Map((walk.along(source), *views), walk.along(target), value), *after)

    def _value(self, x: Expr, views: list[View], slot: int) -> Expr:
        scale = load(slot, views[0].data_type)
        found = quantised(wide(x).to(F32) / wide(scale), self._zero_point(views, slot + 1))
        kind = self.output_tensor.data_type
        if not kind.is_half_byte:
            return found
        low, high = kind.limits
        return maximum(minimum(found, high), low)

    def _pair_by_pair(self, walk: Walk, source: View, target: View, pair: int) -> tuple[Primitive, ...]:
        """Both numbers of a byte at once, of every other element and of those between."""
        kind = whole_type(self.output_tensor.data_type)
        both, place = walk.halved(pair), sum(len(parts) for parts in walk.factors[: pair + 1])
        scaling, steps = self._scaling(both)
        sources: list[View] = []
        values = []
        for half in (0, 1):
            views = [one_of_pair(view, place, half) for view in (both.along(source), *scaling)]
            values.append(self._value(load(len(sources), source.data_type), views[1:], len(sources) + 1).to(kind))
            sources += views
        own = one_of_pair(both.along(target), place, 0)
        written = View("OutputTensor", BYTE, own.sizes, tuple(step // 2 for step in own.strides))
        return (*steps, Map(tuple(sources), written, byte_of(*values)))
