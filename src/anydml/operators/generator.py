"""RANDOM_GENERATOR: numbers that follow from a counter and a key."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, RandomGeneratorType
from anydml.core.memory import packed_strides
from anydml.ir.expressions import const, coordinate, given, load, where
from anydml.ir.verbs import Map, Write
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.fields import Generator, Input, OptionalOutput, Output  # noqa: TC001 - read at run time
from anydml.operators.margins import walked
from anydml.operators.rules import exact_sizes, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.core.errors import Fault
    from anydml.ir.expressions import Expr

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
