"""Kernels of padding: rows copied into a tensor that is filled around them, and rows put together of pieces."""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.codegen.language import copy_row, load_bits, load_word, quotient, store_bits, store_word
from anydml.engines.cpu.launch.record import HEADER

# Rows copied into a tensor that is filled around them, as a padded image's are, in one pass.
#
# Words, after the header: source, target, the bytes of a row, a word of the numbers that are filled in, the rows of a
# block, then where the tables of blocks and of rows begin, in bytes. A block has its place in the source and in
# the target, a row the same within its block, and the bytes that are filled before and after it. A unit is a row, which
# has 8 bytes or more: what is filled may reach into it, since it is written after that.


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


# Rows put together of pieces of other rows, as a padded or an enlarged image's are.
#
# Words, after the header: source, target, the elements of a row, the bytes from one row of the target to the next, the
# number of places within an outer one, the pieces, then where the tables of places, of inner places and of pieces
# begin, in bytes. A place is the bytes from the source's first element. A piece is a first byte of the target's row,
# one of the source's, a count of elements, and the bytes from one to the next in the source. A unit is a row: one of
# the same place as the row before it is a copy of that.


def make_placed(width: int) -> Any:
    """The kernel for elements of some bytes."""
    load, store = load_bits[width], store_bits[width]

    def kernel(words: int, begin: int, end: int) -> int:
        source, target = load_word(words, FIRST), load_word(words, FIRST + 8)
        size, pitch = load_word(words, FIRST + 16) * width, load_word(words, FIRST + 24)
        inner, pieces = load_word(words, FIRST + 32), load_word(words, FIRST + 40)
        places, within = words + load_word(words, FIRST + 48), words + load_word(words, FIRST + 56)
        table = words + load_word(words, FIRST + 64)
        last, outer = -1, quotient(begin, inner)
        own = begin - outer * inner
        for unit in range(begin, end):
            row = source + load_word(places, 8 * outer) + load_word(within, 8 * own)
            own += 1
            if own == inner:  # or each row would take a division
                own = 0
                outer += 1
            there = target + unit * pitch
            if row == last and pieces > 1:
                copy_row(there, there - pitch, size)
                continue
            last = row
            for k in range(pieces):
                place, start = there + load_word(table, 32 * k), row + load_word(table, 32 * k + 8)
                count, step = load_word(table, 32 * k + 16), load_word(table, 32 * k + 24)
                if step == width:
                    copy_row(place, start, count * width)
                elif count <= 4:  # a margin, which the loop below takes three times as long for
                    store(place, 0, load(start, 0))
                    if count > 1:
                        store(place, width, load(start, step))
                    if count > 2:
                        store(place, 2 * width, load(start, 2 * step))
                    if count > 3:
                        store(place, 3 * width, load(start, 3 * step))
                else:
                    for i in range(count):
                        store(place, i * width, load(start, i * step))
        return 0

    return kernel
