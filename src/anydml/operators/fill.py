"""Tensors of numbers that follow from no input: constants, sequences, diagonals, and random numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, RandomGeneratorType
from anydml.core.errors import Fault
from anydml.core.memory import packed_strides
from anydml.core.operator_type import OperatorType
from anydml.ir.expressions import const, coordinate, given, load, where
from anydml.ir.patterns import filled
from anydml.ir.verbs import Map, Write
from anydml.ir.views import View
from anydml.operators.lowering import walked
from anydml.operators.schema.fields import (
    Float,
    Generator,
    Input,
    Int,
    OptionalInput,
    OptionalOutput,
    Output,
    Scalar,
    ValueType,
    WithFloat64,
    as_type,
    dml_name,
    saturated,
)
from anydml.operators.schema.records import Computed, OperatorDesc
from anydml.operators.schema.rules import exact_sizes, like_input, names_type_of, same_sizes, type_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr


# FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE


class _FillDesc(OperatorDesc):
    """The shared part of the two: no input, and numbers whose type a field says."""

    implies_output = False

    output_tensor: Output
    value_data_type: ValueType

    def rules(self) -> Iterator[Fault]:
        """The numbers are of the type that is said."""
        kind = DataType(self.value_data_type)
        for name in self.field_types():
            if name.removeprefix("value_") in ("value", "start", "delta"):
                yield from type_faults(getattr(self, name), kind, dml_name(name), is_step=name == "value_delta")

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that type too."""
        yield from names_type_of(self, "value_data_type", "OutputTensor")

    def _fill(self, start: float, delta: float) -> tuple[Map]:
        kind = self.output_tensor.data_type
        return (filled(View.of("OutputTensor", self.output_tensor), as_type(start, kind), as_type(delta, kind)),)


class FillValueConstant(_FillDesc):
    """Writes one number everywhere."""

    type = OperatorType.FILL_VALUE_CONSTANT

    value: Scalar

    def lower(self) -> tuple[Map]:
        """A fill that stays where it starts."""
        return self._fill(self.value, 0)


class FillValueSequence(_FillDesc):
    """Counts the elements in their order: Output[n] = ValueStart + n·ValueDelta."""

    type = OperatorType.FILL_VALUE_SEQUENCE

    value_start: Scalar
    value_delta: Scalar
    allow_float64: WithFloat64 = False

    def lower(self) -> tuple[Map]:
        """A fill that goes on from element to element."""
        return self._fill(self.value_start, self.value_delta)


# DIAGONAL_MATRIX and DIAGONAL_MATRIX1


class _Diagonal(Computed):
    """The shared part of the two."""

    if TYPE_CHECKING:
        output_tensor: Output

    @property
    def _place(self) -> Expr:
        """How far right of the main diagonal an element is."""
        last = self.output_tensor.dimension_count - 1
        return coordinate(last) - coordinate(last - 1)

    def _lower(self, is_filled: Expr, value: float, source: View | None) -> tuple[Map]:
        kind = self.output_tensor.data_type
        other = given(0, kind) if source is None else load(0, kind)
        target = View.of("OutputTensor", self.output_tensor)
        return (Map(() if source is None else (source,), target, where(is_filled, given(value, kind), other)),)


class DiagonalMatrix(_Diagonal):
    """Matrices with Value on a diagonal and 0 elsewhere: Output[…, y, x] = Value where x = y + Offset.

    Of integers Value loses its fraction, and is at the nearer end of their range.
    """

    implies_output = False

    output_tensor: Output
    offset: Int = 0
    value: Float = 1.0

    def rules(self) -> Iterator[Fault]:
        """Every Offset and Value will do."""
        yield from ()

    def output_rules(self) -> Iterator[Fault]:
        """So will every output."""
        yield from ()

    def lower(self) -> tuple[Map]:
        """A map of the coordinates."""
        is_filled = self._place.equals(given(self.offset, DataType.INT64))
        return self._lower(is_filled, saturated(self.value, self.output_tensor.data_type), None)


class DiagonalMatrix1(_Diagonal):
    """Matrices with Value on some diagonals, and elsewhere the input or 0.

    Output[…, y, x] = Value where DiagonalFillBegin <= x - y < DiagonalFillEnd. With a begin above the end it is Value
    outside of end .. begin - 1.
    """

    implies_output = False

    input_tensor: OptionalInput = None
    output_tensor: Output
    value_data_type: ValueType
    value: Scalar = 1
    diagonal_fill_begin: Int = 0
    diagonal_fill_end: Int = 1

    def rules(self) -> Iterator[Fault]:
        """Value is of the type that is said."""
        yield from type_faults(self.value, DataType(self.value_data_type), "Value")

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that type, and like the input where there is one."""
        yield from names_type_of(self, "value_data_type", "OutputTensor")
        if self.input_tensor is not None:
            yield from like_input(self)

    def lower(self) -> tuple[Map]:
        """A map of the coordinates, and of the input."""
        begin, end = (given(bound, DataType.INT64) for bound in (self.diagonal_fill_begin, self.diagonal_fill_end))
        from_begin, before_end = self._place >= begin, self._place < end
        is_filled = from_begin & before_end
        if self.diagonal_fill_end < self.diagonal_fill_begin:
            is_filled = from_begin | before_end
        source = None if self.input_tensor is None else View.of("InputTensor", self.input_tensor)
        return self._lower(is_filled, as_type(self.value, self.output_tensor.data_type), source)


# RANDOM_GENERATOR


INT64, UINT32, UINT64 = DataType.INT64, DataType.UINT32, DataType.UINT64
_WORDS = 4
"""Of a counter, and of what one counter gives."""
_STATE = _WORDS + 2
_ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
"""The growth of the key from round to round; as the factors, of Salmon and others, Parallel random numbers, 2011."""


class RandomGenerator(Computed):
    """Random bits that follow from a state alone: the four words that Philox 4x32-10 makes of each counter in turn.

    A state is a counter of four words, the lowest first, and a key of two. OutputStateTensor is the state to go on
    with: its counter is greater by one for every four numbers, the last ones rounded up.
    """

    # The page's example of a counter subtracts: its numbers before and after stand in each other's place.

    implies_output = False

    input_state_tensor: Input
    output_tensor: Output
    output_state_tensor: OptionalOutput = None
    type_: Generator = RandomGeneratorType.PHILOX_4X32_10

    def rules(self) -> Iterator[Fault]:
        """A state is six words."""
        sizes = (*(1,) * (self.input_state_tensor.dimension_count - 1), _STATE)
        yield from exact_sizes(self, "InputStateTensor", sizes, "a counter of 4 words and a key of 2")

    def output_rules(self) -> Iterator[Fault]:
        """So is the next one; the numbers may have any sizes."""
        if self.output_state_tensor is not None:
            yield from same_sizes(self, "OutputStateTensor", "InputStateTensor")

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The numbers as they are, and a state."""
        return self.output_tensor, TensorDesc(UINT32, self.input_state_tensor.sizes)

    def lower(self) -> tuple[Map, ...]:
        """A map of each counter, which writes the four words; one for what is left over, and one for the state."""
        sizes, strides = self.output_tensor.sizes, self.output_tensor.element_strides
        return self._maps(math.prod(sizes) // _WORDS * _WORDS if strides == packed_strides(sizes) else 0)

    def told(self) -> tuple[Map, ...]:
        """Each word by itself."""
        return self._maps(0)

    def _maps(self, whole: int) -> tuple[Map, ...]:
        """So many words are written four at a time, and the others one by one."""
        target = View.of("OutputTensor", self.output_tensor)
        count = math.prod(target.sizes)
        counter, key = _state()
        made: list[Map] = []
        if whole:
            first = View(target.tensor, UINT32, (whole // _WORDS,), (_WORDS,), target.offset)
            places = [replace(first, offset=target.offset + k) for k in range(_WORDS)]
            words = _philox(_advanced(counter, coordinate(0).to(UINT64)), key)
            others = tuple(map(Write, places[1:], words[1:]))
            made.append(Map(self._words(first), first, words[0], also=others))
            target = View(target.tensor, UINT32, (count - whole,), (1,), target.offset + whole)
        if whole < count:
            number = const(whole, INT64)
            for k, step in enumerate(packed_strides(target.sizes)):
                number = coordinate(k) * step + number if target.sizes[k] > 1 else number
            words = _philox(_advanced(counter, number.to(UINT64) >> 2), key)
            made.append(Map(self._words(target), target, _one_of(words, number & 3)))
        if self.output_state_tensor is None:
            return tuple(made)
        after = View.of("OutputStateTensor", self.output_state_tensor)
        counts = given(-(-count // _WORDS), UINT64)
        value = _one_of([*_advanced(counter, counts), *key], coordinate(len(after.sizes) - 1))
        return *made, Map(self._words(after), after, value)

    def _words(self, target: View) -> tuple[View, ...]:
        """Each word of the state, for every element of a target."""
        state, none = View.of("InputStateTensor", self.input_state_tensor), (0,) * len(target.sizes)
        return tuple(walked(state, target.sizes, none, k * state.strides[-1]) for k in range(_STATE))


def _state() -> tuple[list[Expr], list[Expr]]:
    words = [load(slot, UINT32) for slot in range(_STATE)]
    return words[:_WORDS], words[_WORDS:]


def _one_of(words: Sequence[Expr], place: Expr) -> Expr:
    """The word at a place."""
    found = words[-1]
    for k, word in reversed([*enumerate(words[:-1])]):
        found = where(place.equals(k), word, found)
    return found


def _advanced(counter: Sequence[Expr], carry: Expr) -> list[Expr]:
    """A counter some steps on, of which there are less than 2^63."""
    found = []
    for word in counter:
        total = word.to(UINT64) + carry
        found.append(total.to(UINT32))
        carry = total >> 32
    return found


def _philox(counter: Sequence[Expr], key: Sequence[Expr]) -> list[Expr]:
    """The four words that a counter gives with a key."""
    a, b, c, d = counter
    first, second = key
    for number in range(_ROUNDS):
        if number:
            first, second = first + _WEYL[0], second + _WEYL[1]
        low, high = (x.to(UINT64) * factor for x, factor in zip((a, c), _FACTORS, strict=True))
        a, b, c, d = _high(high) ^ b ^ first, high.to(UINT32), _high(low) ^ d ^ second, low.to(UINT32)
    return [a, b, c, d]


def _high(product: Expr) -> Expr:
    return (product >> 32).to(UINT32)
