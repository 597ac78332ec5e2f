"""Outer loops of kernels in Python: the dimensions outside the innermost loop, and the walk over lines.

Words of a walk, after the header: source, target, count, source step, target step, segments, segment length, outer
rank, then size, source stride and target stride of each outer dimension, outermost first. Addresses and strides are
in bytes, counts in elements. A unit is one segment of one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.codegen.language import load_word, quotient, remainder, scratch, smaller, store_word
from anydml.engines.cpu.codegen.translate import word
from anydml.engines.cpu.launch.record import HEADER

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Function, Value

# The dimensions outside a kernel's innermost loops: three words each, size, source stride and target stride.


FIRST = HEADER * 8
OUTER = FIRST + 8 * 8


def find_row(words: int, table: int, rank: int, number: int, at: int) -> tuple[int, int]:
    """Where a row of some number lies: bytes on in the source and in the target. Its coordinates go to `at`."""
    source = target = 0
    for k in range(rank - 1, -1, -1):
        size = load_word(words, table + 24 * k)
        i = remainder(number, size)
        number = quotient(number, size)
        store_word(at, 8 * k, i)
        source += i * load_word(words, table + 24 * k + 8)
        target += i * load_word(words, table + 24 * k + 16)
    return source, target


def make_walk(row: Any) -> Any:
    """The kernel that does every unit by row(words, at, first, source, target, count, source step, target step, after).

    `at` holds the row's coordinates, `first` is the segment's first element in its row, and `after` where the source
    of the next unit lies.
    """

    def kernel(words: int, begin: int, end: int) -> int:
        source, target = load_word(words, FIRST), load_word(words, FIRST + 8)
        count = load_word(words, FIRST + 16)
        source_step, target_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        segments, length = load_word(words, FIRST + 40), load_word(words, FIRST + 48)
        rank = load_word(words, FIRST + 56)
        at = scratch()
        rest = quotient(begin, segments)
        segment = begin - rest * segments
        source_on, target_on = find_row(words, OUTER, rank, rest, at)
        source, target = source + source_on, target + target_on
        inner = load_word(words, OUTER + 24 * (rank - 1) + 8) if rank > 0 else 0
        for _ in range(begin, end):
            first = segment * length
            row(
                words,
                at,
                first,
                source + first * source_step,
                target + first * target_step,
                smaller(length, count - first),
                source_step,
                target_step,
                source + inner if segments == 1 else source + (first + length) * source_step,
            )
            segment += 1
            if segment < segments:
                continue
            segment = 0
            k = rank - 1
            while k >= 0:  # the next row: one on in the innermost dimension that has one
                i = load_word(at, 8 * k) + 1
                size = load_word(words, OUTER + 24 * k)
                source += load_word(words, OUTER + 24 * k + 8)
                target += load_word(words, OUTER + 24 * k + 16)
                if i < size:
                    store_word(at, 8 * k, i)
                    break
                store_word(at, 8 * k, 0)
                source -= size * load_word(words, OUTER + 24 * k + 8)
                target -= size * load_word(words, OUTER + 24 * k + 16)
                k -= 1
        return 0

    return kernel


# The walk over lines: the kernel whose rows are lines, of whichever name.
#
# Words are those of a walk with room for eight outer dimensions, then the line's address and its parameters.


PARAMETERS = OUTER + 24 * 8 + 8
"""The line's address is the word before."""


@word
def call_line(f: Function, words: Value, *given: Value) -> None:
    """call_line(words, source, target, count, source step, target step): the line that the words name."""
    parameters = words + PARAMETERS
    f.invoke(f.load("i64", parameters - 8), parameters, *given)


def make_line_walk() -> Any:
    """The kernel that calls its line for every unit."""

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
        call_line(words, source, target, count, source_step, target_step)

    return make_walk(row)
