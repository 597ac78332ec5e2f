"""Running sums and products: lines of any layout, rows four at a time, columns by the tile, and one long row.

Words after the header: source, target, length of the axis, source step, target step (along the axis), count across,
source step across, target step across, tiles across, outer rank, width of a tile or address of the chain, then size,
source stride and target stride of each outer dimension. Steps are in bytes and signed: a scan from the end starts
there.
"""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.build import IS_ARM
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.outer import find_row
from anydml.engines.cpu.kernels.tally import Tally
from anydml.engines.cpu.language import (
    fence,
    load_acquire,
    load_word,
    make_stack,
    pause,
    prefetch,
    quotient,
    scratch,
    smaller,
    store_release,
    take_ticket,
)

FIRST = HEADER * 8
OUTER = FIRST + 8 * 11
ROW_BLOCK = 16
"""Columns of a row done at once: a cache line of FLOAT32."""
COLUMN_TILE = 4096
"""Columns whose totals fit the first cache as float64."""
COLUMNS = 16
"""Columns done at once: whole lines are written."""
PIECES, PIECE = 4, 4112
"""A tile of a long row: pieces that are added up side by side, not a power of two apart, for the cache's sake.

Fixed, so that the answer does not depend on the number of threads."""
PATIENCE = 200
"""Pauses, of 10 to 45 ns, for which a tile's total is waited for: about as long as it takes to add the tile up."""


def _starts_with_zero(tally: Tally, exclusive: bool) -> bool:
    """Whether the first element written is 0.0 though the total starts at -0.0: an exclusive sum of floats."""
    return exclusive and tally.is_float and tally.function == "sum"


def make_line(tally: Tally, exclusive: bool) -> Any:
    """line(source, source step, target, target step, count, total): one line, by the element; the total after it."""
    load, store, combine = tally.load, tally.store, tally.make_combine()

    def line(source: int, source_step: int, target: int, target_step: int, count: int, total: Any) -> Any:
        for i in range(count):
            after = combine(total, load(source, i * source_step))
            store(target, i * target_step, total if exclusive else after)
            total = after
        return total

    return line


def make_lines(kind: str, function: str, exclusive: bool) -> Any:
    """Lines of any layout, one by one. A unit is a line."""
    tally = Tally(kind, function)
    line, start = make_line(tally, exclusive), tally.start
    clear, store, zero = _starts_with_zero(tally, exclusive), tally.store, tally.zero

    def kernel(words: int, begin: int, end: int) -> int:
        count, rank = load_word(words, FIRST + 16), load_word(words, FIRST + 72)
        source_step, target_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        at = scratch()
        for unit in range(begin, end):
            source_on, target_on = find_row(words, OUTER, rank, unit, at)
            source, target = load_word(words, FIRST) + source_on, load_word(words, FIRST + 8) + target_on
            line(source, source_step, target, target_step, count, start)
            if clear:
                store(target, 0, zero)
        return 0

    return kernel


def make_rows(kind: str, function: str, exclusive: bool, reverse: bool, stream: bool) -> Any:
    """Contiguous rows, four at a time. A unit is four rows of one outer step; across lie the rows.

    The blocks of columns are aligned to the lines of the first row's target; for `stream` to those of every row's.
    """
    tally = Tally(kind, function)
    line, start = make_line(tally, exclusive), tally.start
    clear, store, zero = _starts_with_zero(tally, exclusive), tally.store, tally.zero
    rows = tally.make_rows(ROW_BLOCK, reverse=reverse, exclusive=exclusive, stream=stream)
    load_total, store_total = tally.load_total, tally.store_total
    stack = make_stack(64)
    width, total_width = tally.width, tally.total_width
    block = ROW_BLOCK * width
    forward = -1 if reverse else 1
    step, stride, lead = forward * width, forward * block, block - width if reverse else 0

    def kernel(words: int, begin: int, end: int) -> int:
        count, across = load_word(words, FIRST + 16), load_word(words, FIRST + 40)
        source_across, target_across = load_word(words, FIRST + 48), load_word(words, FIRST + 56)
        fours, rank = load_word(words, FIRST + 64), load_word(words, FIRST + 72)
        totals, at = stack(), scratch()
        for unit in range(begin, end):
            rest = quotient(unit, fours)
            first = (unit - rest * fours) * 4
            source_on, target_on = find_row(words, OUTER, rank, rest, at)
            source = load_word(words, FIRST) + source_on + first * source_across
            target = load_word(words, FIRST + 8) + target_on + first * target_across
            height = smaller(4, across - first)
            head = (target + width) % block // width if reverse else -target % block // width
            head = smaller(head, count) if height == 4 else count
            whole = (count - head) // ROW_BLOCK
            done = head + whole * ROW_BLOCK
            for r in range(height):
                s, t = source + r * source_across, target + r * target_across
                store_total(totals, r * total_width, line(s, step, t, step, head, start))
            s, t = source + head * step - lead, target + head * step - lead
            for i in range(whole):
                rows(t + i * stride, target_across, s + i * stride, source_across, totals)
            for r in range(height):
                s, t = source + r * source_across + done * step, target + r * target_across + done * step
                line(s, step, t, step, count - done, load_total(totals, r * total_width))
                if clear:
                    store(target + r * target_across, 0, zero)
        return 0

    return kernel


def make_columns(kind: str, function: str, exclusive: bool, by_two: bool, stream: bool) -> Any:
    """An axis across contiguous columns. A unit is a tile of columns of one outer step, down the whole axis.

    `by_two` takes two rows at once, which is quicker where a row of the tile is not all of a row in memory, and
    slower where it is (measured on Arm, 16 M elements: 6.1 ms against 7.4, and 10.4 against 5.8). Blocks of columns
    are aligned to the lines of the target's first row; for `stream` to those of every row. The rows after are fetched
    ahead on x86, where it takes up to 20 % less time, and not on Arm, where it takes as much more.
    """
    depth, fetches = 2 if by_two else 1, not IS_ARM
    tally = Tally(kind, function)
    load, combine, start = tally.load, tally.make_combine(), tally.start
    clear, store, zero = _starts_with_zero(tally, exclusive), tally.store, tally.zero
    columns = tally.make_columns(COLUMNS, depth, exclusive=exclusive, stream=stream)
    load_total, store_total = tally.load_total, tally.store_total
    width, total_width = tally.width, tally.total_width
    stack, block = make_stack(COLUMN_TILE * total_width), COLUMNS * width

    def some_columns(source: int, target: int, totals: int, low: int, high: int) -> None:
        for j in range(low, high):
            total = load_total(totals, j * total_width)
            after = combine(total, load(source, j * width))
            store(target, j * width, total if exclusive else after)
            store_total(totals, j * total_width, after)

    def kernel(words: int, begin: int, end: int) -> int:
        count, across = load_word(words, FIRST + 16), load_word(words, FIRST + 40)
        source_step, target_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        tiles, rank, tile = load_word(words, FIRST + 64), load_word(words, FIRST + 72), load_word(words, FIRST + 80)
        totals, at = stack(), scratch()
        deep = count // depth * depth
        for unit in range(begin, end):
            rest = quotient(unit, tiles)
            low = (unit - rest * tiles) * tile
            wide = smaller(tile, across - low)
            source_on, target_on = find_row(words, OUTER, rank, rest, at)
            source = load_word(words, FIRST) + source_on + low * width
            target = load_word(words, FIRST + 8) + target_on + low * width
            head = smaller(-target % block // width, wide)
            blocks = (wide - head) // COLUMNS
            done = head + blocks * COLUMNS
            for j in range(wide):
                store_total(totals, j * total_width, start)
            for i in range(0, deep, depth):
                s, t = source + i * source_step, target + i * target_step
                for k in range(depth):
                    some_columns(s + k * source_step, t + k * target_step, totals, 0, head)
                for j in range(head, done, COLUMNS):
                    if fetches:
                        for k in range(depth):
                            prefetch(s + (depth + k) * source_step + j * width)
                    columns(t + j * width, target_step, s + j * width, source_step, totals + j * total_width)
                for k in range(depth):
                    some_columns(s + k * source_step, t + k * target_step, totals, done, wide)
            for i in range(deep, count):
                some_columns(source + i * source_step, target + i * target_step, totals, 0, wide)
            if clear:
                for j in range(wide):
                    store(target, j * width, zero)
        return 0

    return kernel


def make_long(kind: str, function: str, exclusive: bool, reverse: bool) -> Any:
    """One long contiguous row. A unit is a worker, which takes tiles in turn until none is left.

    The chain is a ticket, then for each tile the total of everything up to it and, one word on, whether it is there.
    A worker adds its tile up, takes the total before it, passes its own on, and only then writes: each element is
    fetched from memory once. Whoever has a tile may have lost its core; those after it wait some microseconds, then add
    that tile up themselves, to the same bits. Nobody waits for a thread that does not run.
    """
    tally = Tally(kind, function)
    line, start = make_line(tally, exclusive), tally.start
    clear, store, zero = _starts_with_zero(tally, exclusive), tally.store, tally.zero
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

    def find_total(chain: int, t: int, source: int, sums: int, lanes: int) -> Any:
        # The total of everything before tile t.
        link = chain + 16 * t
        tries = 0
        while tries < PATIENCE and load_acquire(link - 8) == 0:
            pause()
            tries += 1
        known = t
        while known > 0 and load_acquire(chain + 16 * known - 8) == 0:
            known -= 1
        carry = start
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
                line(s, step, d, step, length, find_total(chain, t, source, others, lanes))
                if clear and t == 0:
                    store(d, 0, zero)
                continue
            add_up(s, sums, lanes)
            carry = find_total(chain, t, source, others, lanes)
            for p in range(PIECES):
                store_total(totals, p * total_width, carry)
                carry = combine(carry, load_total(sums, p * total_width))
            store_total(chain + 16 * t, 0, carry)
            store_release(chain + 16 * t + 8, 1)
            fence()  # before the tile is written: who still adds it up, in place, then sees that its total is there
            for i in range(PIECE // ROW_BLOCK):
                at = forward * i * block - lead
                rows(d + at, PIECE * step, s + at, PIECE * step, totals)
            if clear and t == 0:
                store(d, 0, zero)

    return kernel
