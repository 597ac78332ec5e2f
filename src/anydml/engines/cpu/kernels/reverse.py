"""Reversed lines: the walk whose rows lie along the axis or across it, and columns that each have a length.

Words are those of the walk over lines, with two parameters that its line does not read; then the lengths' address,
the bytes of a length, their stride in each of the eight outer dimensions, where the axis is among those (-1 where it
is the innermost dimension), its size, the source's and the target's strides along it, and the lengths' step along
the innermost dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.kernels.outer import FIRST, make_walk
from anydml.engines.cpu.kernels.walk import PARAMETERS, call_line
from anydml.engines.cpu.language import larger, load_bits, load_word, make_stack, smaller, store_word

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = PARAMETERS + 8 * 2
AXIS = LENGTHS + 8 * 10
COLUMNS = 1024
"""The most columns in a tile, which go down the whole axis together."""
_load_4 = load_bits[4]


def load_length(words: int, address: int) -> int:
    """A length, at most the size of the axis; a UINT64 of 2^63 and more reads as a negative number."""
    length = load_word(address, 0) if load_word(words, LENGTHS + 8) == 8 else int(_load_4(address, 0))
    size = load_word(words, AXIS + 8)
    return size if length < 0 else smaller(length, size)


def find_lengths(words: int, at: int) -> int:
    """Where the length of a row lies."""
    address = load_word(words, LENGTHS)
    for k in range(load_word(words, FIRST + 56)):
        address += load_word(at, 8 * k) * load_word(words, LENGTHS + 16 + 8 * k)
    return address


def make_reverse(compile_inline: Callable[[Any], Any]) -> Any:
    """The kernel for rows that have one length each."""
    length_at, find = compile_inline(load_length), compile_inline(find_lengths)

    def row(
        words: int,
        at: int,
        first: int,
        source: int,
        target: int,
        count: int,
        source_step: int,
        target_step: int,
        after: int,
    ) -> None:
        length, axis = length_at(words, find(words, at)), load_word(words, AXIS)
        if axis >= 0:  # the row is moved whole, from as far before the length's end as it lies behind the beginning
            i = load_word(at, 8 * axis)
            on = (length - 1 - 2 * i) * load_word(words, AXIS + 16) if i < length else 0
            call_line(words, source + on, target, count, source_step, target_step)
            return
        turned = larger(smaller(length - first, count), 0)
        if turned > 0:
            last = source + (length - 1 - 2 * first) * source_step
            call_line(words, last, target, turned, -source_step, target_step)
        if turned < count:
            call_line(
                words,
                source + turned * source_step,
                target + turned * target_step,
                count - turned,
                source_step,
                target_step,
            )

    return make_walk(compile_inline(row), compile_inline)


def make_reverse_columns(compile_inline: Callable[[Any], Any]) -> Any:
    """The kernel for an axis outside columns that have a length each: a unit is a tile of columns, down the axis.

    Columns beside one another are moved together where their lengths are equal.
    """
    length_at, find, stack = compile_inline(load_length), compile_inline(find_lengths), make_stack(16 * (COLUMNS + 1))

    def row(
        words: int,
        at: int,
        first: int,
        source: int,
        target: int,
        count: int,
        source_step: int,
        target_step: int,
        after: int,
    ) -> None:
        size, source_axis = load_word(words, AXIS + 8), load_word(words, AXIS + 16)
        target_axis, lengths_step = load_word(words, AXIS + 24), load_word(words, AXIS + 32)
        lengths, runs = find(words, at) + first * lengths_step, stack()
        number, before = 0, -1
        for j in range(count):
            length = length_at(words, lengths + j * lengths_step)
            if length != before:
                store_word(runs, 16 * number, j)
                store_word(runs, 16 * number + 8, length)
                number, before = number + 1, length
        store_word(runs, 16 * number, count)
        for i in range(size):
            for r in range(number):
                j, length = load_word(runs, 16 * r), load_word(runs, 16 * r + 8)
                from_row = length - 1 - i if i < length else i
                call_line(
                    words,
                    source + from_row * source_axis + j * source_step,
                    target + i * target_axis + j * target_step,
                    load_word(runs, 16 * r + 16) - j,
                    source_step,
                    target_step,
                )

    return make_walk(compile_inline(row), compile_inline)
