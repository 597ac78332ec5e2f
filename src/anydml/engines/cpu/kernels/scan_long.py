"""Running sums and products of one long row, which all threads share.

Words after the header: those of a scan of any kind, with the address of the chain in the place of a tile's width; where
tallies are handed on, then the address of the one before, or 0, of the one after, and 0.
"""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.kernels.scan import (
    FIRST,
    ROW_BLOCK,
    find_tallies,
    make_line,
    make_opening,
    no_tallies,
    starts_with_zero,
)
from anydml.engines.cpu.kernels.tally import Tally
from anydml.engines.cpu.language import (
    fence,
    load_acquire,
    load_word,
    make_stack,
    pause,
    quotient,
    smaller,
    store_release,
    take_ticket,
)

PIECES, PIECE = 4, 4112
"""A tile of a long row: pieces that are added up side by side, not a power of two apart, for the cache's sake.

Fixed, so that the answer does not depend on the number of threads."""
PATIENCE = 200
"""Pauses, of 10 to 45 ns, for which a tile's total is waited for: about as long as it takes to add the tile up."""


def make_long(kind: str, function: str, exclusive: bool, carried: bool, reverse: bool) -> Any:
    """One long contiguous row. A unit is a worker, which takes tiles in turn until none is left.

    The chain is a ticket, then for each tile the total of everything up to it and, one word on, whether it is there.
    A worker adds its tile up, takes the total before it, passes its own on, and only then writes: each element is
    fetched from memory once. Whoever has a tile may have lost its core; those after it wait some microseconds, then add
    that tile up themselves, to the same bits. Nobody waits for a thread that does not run.
    """
    tally = Tally(kind, function)
    line, start, opening = make_line(tally, exclusive), tally.start, make_opening(tally)
    clear, store, zero = starts_with_zero(tally, exclusive), tally.store, tally.zero
    find = find_tallies if carried else no_tallies
    rows = tally.make_rows(ROW_BLOCK, reverse=reverse, exclusive=exclusive, stream=False)
    reduce, combine = tally.make_reduce(ROW_BLOCK), tally.make_combine()
    load_total, store_total = tally.load_total, tally.store_total
    stack = make_stack(320)
    width, total_width = tally.width, tally.total_width
    block = ROW_BLOCK * width
    forward = -1 if reverse else 1
    lead = block - width if reverse else 0
    step = forward * width
    tile = PIECES * PIECE

    def add_up(source: int, sums: int, lanes: int) -> None:
        # The total of each piece, in lanes of which the order is fixed.
        for p in range(PIECES):
            for j in range(ROW_BLOCK):
                store_total(lanes, j * total_width, start)
            for i in range(PIECE // ROW_BLOCK):
                reduce(source + (p * PIECE + i * ROW_BLOCK) * step - lead, lanes)
            whole = start
            for j in range(ROW_BLOCK):
                whole = combine(whole, load_total(lanes, j * total_width))
            store_total(sums, p * total_width, whole)

    def find_total(chain: int, t: int, source: int, before: int, sums: int, lanes: int) -> Any:
        # The total of everything before tile t.
        link = chain + 16 * t
        tries = 0
        while tries < PATIENCE and load_acquire(link - 8) == 0:
            pause()
            tries += 1
        known = t
        while known > 0 and load_acquire(chain + 16 * known - 8) == 0:
            known -= 1
        carry = opening(before, 0)
        if known > 0:
            carry = load_total(chain + 16 * known - 16, 0)
        for k in range(known, t):
            add_up(source + k * tile * step, sums, lanes)
            fence()  # in place its elements are written as soon as its total is there
            if load_acquire(chain + 16 * k + 8):
                carry = load_total(chain + 16 * k, 0)
            else:
                for p in range(PIECES):
                    carry = combine(carry, load_total(sums, p * total_width))
        return carry

    def kernel(words: int, begin: int, end: int) -> int:
        source, target = load_word(words, FIRST), load_word(words, FIRST + 8)
        count, ticket = load_word(words, FIRST + 16), load_word(words, FIRST + 80)
        before, after, _ = find(words, 0, 0, 0)
        chain = ticket + 16
        tiles = quotient(count + tile - 1, tile)
        totals = stack()
        sums, others, lanes = totals + 64, totals + 128, totals + 192
        while True:
            t = take_ticket(ticket)
            if t >= tiles:
                return 0
            first = t * tile
            s, d = source + first * step, target + first * step
            length = smaller(tile, count - first)
            if length < tile:  # the last one: nobody needs its total
                total = line(s, step, d, step, length, find_total(chain, t, source, before, others, lanes))
                if carried:
                    store_total(after, 0, total)
                if clear and t == 0 and before == 0:
                    store(d, 0, zero)
                continue
            add_up(s, sums, lanes)
            carry = find_total(chain, t, source, before, others, lanes)
            for p in range(PIECES):
                store_total(totals, p * total_width, carry)
                carry = combine(carry, load_total(sums, p * total_width))
            store_total(chain + 16 * t, 0, carry)
            store_release(chain + 16 * t + 8, 1)
            if carried and t == tiles - 1:
                store_total(after, 0, carry)
            fence()  # before the tile is written: who still adds it up, in place, then sees that its total is there
            for i in range(PIECE // ROW_BLOCK):
                at = forward * i * block - lead
                rows(d + at, PIECE * step, s + at, PIECE * step, totals)
            if clear and t == 0 and before == 0:
                store(d, 0, zero)

    return kernel
