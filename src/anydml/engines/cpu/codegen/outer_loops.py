"""Outer loops of kernels in Python: the dimensions outside the innermost loop.

Addresses and strides of records are in bytes, counts in elements.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from anydml.engines.cpu.codegen.language import load_word, quotient, remainder, scratch, smaller, store_word
from anydml.engines.cpu.launch.record import WALK

Way: TypeAlias = tuple[int, int]
"""In a kernel: an address, and the bytes from one to the next."""


def find_row(outer: Any, rank: int, number: int, at: int) -> tuple[int, int]:
    """Where a row of some number lies: bytes on in the source and in the target. Its coordinates go to `at`."""
    source = target = 0
    for k in range(rank - 1, -1, -1):
        size = outer[k].size
        i = remainder(number, size)
        number = quotient(number, size)
        store_word(at, 8 * k, i)
        source += i * outer[k].source
        target += i * outer[k].target
    return source, target


def make_walk(row: Any) -> Any:
    """The kernel that does every unit by row(words, at, first, source, target, count, after).

    `at` holds the row's coordinates, `first` is the segment's first element in its row, and `after` where the source
    of the next unit lies; source and target are addresses with their steps.
    """

    def kernel(words: int, begin: int, end: int) -> int:
        w = WALK(words)
        source, target, count = w.source, w.target, w.count
        source_step, target_step = w.source_step, w.target_step
        segments, length, rank = w.segments, w.length, w.rank
        at = scratch()
        rest = quotient(begin, segments)
        segment = begin - rest * segments
        source_on, target_on = find_row(w.outer, rank, rest, at)
        source, target = source + source_on, target + target_on
        inner = w.outer[rank - 1].source if rank > 0 else 0
        for _ in range(begin, end):
            first = segment * length
            own, other = (source + first * source_step, source_step), (target + first * target_step, target_step)
            number = smaller(length, count - first)
            after = source + inner if segments == 1 else source + (first + length) * source_step
            row(words, at, first, own, other, number, after)
            segment += 1
            if segment < segments:
                continue
            segment = 0
            k = rank - 1
            while k >= 0:  # the next row: one on in the innermost dimension that has one
                i = load_word(at, 8 * k) + 1
                size = w.outer[k].size
                source += w.outer[k].source
                target += w.outer[k].target
                if i < size:
                    store_word(at, 8 * k, i)
                    break
                store_word(at, 8 * k, 0)
                source -= size * w.outer[k].source
                target -= size * w.outer[k].target
                k -= 1
        return 0

    return kernel
