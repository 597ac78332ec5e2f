"""Rows copied into a tensor that is filled around them, as a padded image's are, in one pass.

Words, after the header: source, target, the bytes of a row, a word of the numbers that are filled in, the rows of a
block, then where the tables of blocks and of rows begin, in bytes. A block has its place in the source and in
the target, a row the same within its block, and the bytes that are filled before and after it. A unit is a row, which
has 8 bytes or more: what is filled may reach into it, since it is written after that.
"""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.language import copy_row, load_word, quotient, store_word

FIRST = HEADER * 8


def make_bordered() -> Any:
    """The kernel, for elements of any size that a word has a whole number of."""

    def kernel(words: int, begin: int, end: int) -> int:
        source, target = load_word(words, FIRST), load_word(words, FIRST + 8)
        size, number, inner = load_word(words, FIRST + 16), load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        blocks, rows = words + load_word(words, FIRST + 40), words + load_word(words, FIRST + 48)
        block = quotient(begin, inner)
        row = begin - block * inner
        for _ in range(begin, end):
            place, own = blocks + 16 * block, rows + 32 * row
            start = source + load_word(place, 0) + load_word(own, 0)
            there = target + load_word(place, 8) + load_word(own, 8)
            before, after = load_word(own, 16), load_word(own, 24)
            for i in range(0, before, 8):
                store_word(there - before, i, number)
            for i in range(0, after, 8):
                store_word(there + size + after - 8, -i, number)
            copy_row(there, start, size)
            row += 1
            if row == inner:
                row = 0
                block += 1
        return 0

    return kernel
