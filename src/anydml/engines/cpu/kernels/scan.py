"""Running sums and products: lines of any layout, rows four at a time, and columns by the tile.

Words after the header: source, target, length of the axis, source step, target step (along the axis), count across,
source step across, target step across, tiles across, outer rank, width of a tile, then size, source stride and target
stride of each outer dimension. Steps are in bytes and signed: a scan from the end starts there. Where tallies are
handed on, the words end with the addresses of those before, or 0, and after, with the step from one to the next across,
and with their stride in each outer dimension.
"""

from __future__ import annotations

from typing import Any

from anydml.engines.cpu.features import IS_ARM, has_lanes
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.outer import find_row
from anydml.engines.cpu.kernels.tally import Tally
from anydml.engines.cpu.language import (
    copy_bytes,
    load_word,
    make_stack,
    prefetch,
    prefetch_target,
    quotient,
    scratch,
    smaller,
)

FIRST = HEADER * 8
OUTER = FIRST + 8 * 11
ROW_BLOCK = 16
"""Columns of a row done at once: a cache line of FLOAT32."""
COLUMN_TILE = 4096
"""Columns whose totals fit the first cache as float64."""
COLUMNS = 16
"""Columns done at once: whole lines are written."""
NARROW = 8
"""Rows done at once of less than that many: their totals stay in registers meanwhile."""


def starts_with_zero(tally: Tally, exclusive: bool) -> bool:
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


def make_opening(tally: Tally) -> Any:
    """opening(before, on): the total that a line starts with, some bytes on from an address, which may be 0."""
    load_total, start = tally.load_total, tally.start

    def opening(before: int, on: int) -> Any:
        total = start
        if before != 0:
            total = load_total(before, on)
        return total

    return opening


def find_tallies(words: int, rank: int, at: int, first: int) -> tuple[int, int, int]:
    """Where the tallies before and after a line lie, and the bytes from one to the next."""
    table = OUTER + 24 * rank
    before, step = load_word(words, table), load_word(words, table + 16)
    on = first * step
    for k in range(rank):
        on += load_word(at, 8 * k) * load_word(words, table + 24 + 8 * k)
    return before + on if before != 0 else 0, load_word(words, table + 8) + on, step


def no_tallies(words: int, rank: int, at: int, first: int) -> tuple[int, int, int]:
    """The same for a scan of whole lines."""
    return 0, 0, 0


def make_lines(kind: str, function: str, exclusive: bool, carried: bool) -> Any:
    """Lines of any layout, one by one. A unit is a line."""
    tally = Tally(kind, function)
    line, opening, store_total = make_line(tally, exclusive), make_opening(tally), tally.store_total
    clear, store, zero = starts_with_zero(tally, exclusive), tally.store, tally.zero
    find = find_tallies if carried else no_tallies

    def kernel(words: int, begin: int, end: int) -> int:
        count, rank = load_word(words, FIRST + 16), load_word(words, FIRST + 72)
        source_step, target_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        at = scratch()
        for unit in range(begin, end):
            source_on, target_on = find_row(words, OUTER, rank, unit, at)
            source, target = load_word(words, FIRST) + source_on, load_word(words, FIRST + 8) + target_on
            before, after, _ = find(words, rank, at, 0)
            total = line(source, source_step, target, target_step, count, opening(before, 0))
            if carried:
                store_total(after, 0, total)
            if clear and before == 0:
                store(target, 0, zero)
        return 0

    return kernel


def make_rows(kind: str, function: str, exclusive: bool, carried: bool, reverse: bool, stream: bool) -> Any:
    """Contiguous rows, four at a time. A unit is four rows of one outer step; across lie the rows.

    The blocks of columns are aligned to the lines of the first row's target, but for short rows on an x86; for `stream`
    to those of every row's. What is left goes by fours: FLOAT16 of 16,384 x 77 takes 1.7 ms so, and 2.4 one by one.
    """
    tally = Tally(kind, function)
    line, opening = make_line(tally, exclusive), make_opening(tally)
    clear, store, zero = starts_with_zero(tally, exclusive), tally.store, tally.zero
    find = find_tallies if carried else no_tallies
    rows = tally.make_rows(ROW_BLOCK, reverse=reverse, exclusive=exclusive, stream=stream)
    fours = tally.make_rows(4, reverse=reverse, exclusive=exclusive, stream=False)
    load_total, store_total = tally.load_total, tally.store_total
    stack = make_stack(64)
    aligned_from = 0 if IS_ARM or stream else 8 * ROW_BLOCK
    width, total_width = tally.width, tally.total_width
    block = ROW_BLOCK * width
    forward = -1 if reverse else 1
    step, stride, lead = forward * width, forward * block, block - width if reverse else 0
    short_lead = 3 * width if reverse else 0

    def kernel(words: int, begin: int, end: int) -> int:
        count, across = load_word(words, FIRST + 16), load_word(words, FIRST + 40)
        source_across, target_across = load_word(words, FIRST + 48), load_word(words, FIRST + 56)
        groups, rank = load_word(words, FIRST + 64), load_word(words, FIRST + 72)
        totals, at = stack(), scratch()
        for unit in range(begin, end):
            rest = quotient(unit, groups)
            first = (unit - rest * groups) * 4
            source_on, target_on = find_row(words, OUTER, rank, rest, at)
            source = load_word(words, FIRST) + source_on + first * source_across
            target = load_word(words, FIRST + 8) + target_on + first * target_across
            before, after, far = find(words, rank, at, first)
            height = smaller(4, across - first)
            head = 0
            if count >= aligned_from:
                head = (target + width) % block // width if reverse else -target % block // width
            head = smaller(head, count) if height == 4 else count
            whole = (count - head) // ROW_BLOCK
            done = head + whole * ROW_BLOCK
            for r in range(height):
                s, t = source + r * source_across, target + r * target_across
                store_total(totals, r * total_width, line(s, step, t, step, head, opening(before, r * far)))
            s, t = source + head * step - lead, target + head * step - lead
            for i in range(whole):
                rows(t + i * stride, target_across, s + i * stride, source_across, totals)
            few = (count - done) // 4
            s, t = source + done * step - short_lead, target + done * step - short_lead
            for i in range(few):
                fours(t + i * 4 * step, target_across, s + i * 4 * step, source_across, totals)
            done += few * 4
            for r in range(height):
                s, t = source + r * source_across + done * step, target + r * target_across + done * step
                total = line(s, step, t, step, count - done, load_total(totals, r * total_width))
                if carried:
                    store_total(after, r * far, total)
                if clear and before == 0:
                    store(target + r * target_across, 0, zero)
        return 0

    return kernel


def make_columns(kind: str, function: str, exclusive: bool, carried: bool, depth: int, stream: bool) -> Any:
    """An axis across contiguous columns. A unit is a tile of columns of one outer step, down the whole axis.

    A depth of 2 takes two rows at once, which is quicker where a row of the tile is not all of a row in memory, and
    slower where it is (measured on Arm, 16 M elements: 6.1 ms against 7.4, and 10.4 against 5.8); NARROW is for rows
    that are no whole block. Blocks of columns are aligned to the lines of the target's first row; for `stream` to those
    of every row. The rows after are fetched ahead on x86, where it takes up to 20 % less time, and not on Arm, where it
    takes as much more; the target's too, with which 8 x 64 x 1,024 take 210 us, and 390 without (a Xeon).
    """
    fetches, is_narrow, by_lanes = not IS_ARM, depth == NARROW, has_lanes()
    tally = Tally(kind, function)
    load, combine, start = tally.load, tally.make_combine(), tally.start
    clear, store, zero = starts_with_zero(tally, exclusive), tally.store, tally.zero
    find = find_tallies if carried else no_tallies
    columns = tally.make_columns(COLUMNS, depth, exclusive=exclusive, stream=stream)
    some, few = (tally.make_columns(COLUMNS, d, exclusive=exclusive, stream=False, partly=True) for d in (depth, 1))
    load_total, store_total = tally.load_total, tally.store_total
    width, total_width = tally.width, tally.total_width
    stack, block = make_stack(COLUMN_TILE * total_width + 64 + COLUMNS * total_width), COLUMNS * width

    def one_by_one(source: int, target: int, totals: int, low: int, high: int) -> None:
        for j in range(low, high):
            total = load_total(totals, j * total_width)
            after = combine(total, load(source, j * width))
            store(target, j * width, total if exclusive else after)
            store_total(totals, j * total_width, after)

    def some_columns(
        source: int, source_step: int, target: int, target_step: int, totals: int, low: int, high: int
    ) -> None:
        # Fewer than a block, `depth` rows of them.
        if by_lanes:
            if low < high:
                s, t = source + low * width, target + low * width
                some(t, target_step, s, source_step, totals + low * total_width, high - low)
        else:
            for k in range(depth):
                one_by_one(source + k * source_step, target + k * target_step, totals, low, high)

    def one_row(source: int, target: int, totals: int, wide: int) -> None:
        if by_lanes:
            for j in range(0, wide, COLUMNS):
                s, t, number = source + j * width, target + j * width, smaller(COLUMNS, wide - j)
                few(t, 0, s, 0, totals + j * total_width, number)
        else:
            one_by_one(source, target, totals, 0, wide)

    def move_totals(target: int, target_step: int, source: int, source_step: int, number: int) -> None:
        if target_step == source_step:  # as they lie side by side on the stack
            copy_bytes(target, source, number * total_width)
        else:
            for j in range(number):
                store_total(target, j * target_step, load_total(source, j * source_step))

    def kernel(words: int, begin: int, end: int) -> int:
        count, across = load_word(words, FIRST + 16), load_word(words, FIRST + 40)
        source_step, target_step = load_word(words, FIRST + 24), load_word(words, FIRST + 32)
        tiles, rank, tile = load_word(words, FIRST + 64), load_word(words, FIRST + 72), load_word(words, FIRST + 80)
        memory, at = stack(), scratch()
        deep = count // depth * depth
        for unit in range(begin, end):
            rest = quotient(unit, tiles)
            low = (unit - rest * tiles) * tile
            wide = smaller(tile, across - low)
            source_on, target_on = find_row(words, OUTER, rank, rest, at)
            source = load_word(words, FIRST) + source_on + low * width
            target = load_word(words, FIRST + 8) + target_on + low * width
            head = 0 if is_narrow else smaller(-target % block // width, wide)
            blocks = (wide - head) // COLUMNS
            done = head + blocks * COLUMNS
            totals = memory + -(head * total_width) % 64  # those of whole blocks are aligned
            before, after, far = find(words, rank, at, low)
            if before != 0:
                move_totals(totals, total_width, before, far, wide)
            else:
                for j in range(wide):
                    store_total(totals, j * total_width, start)
            for i in range(0, deep, depth):
                s, t = source + i * source_step, target + i * target_step
                if not is_narrow:
                    some_columns(s, source_step, t, target_step, totals, 0, head)
                    for j in range(head, done, COLUMNS):
                        if fetches:
                            for k in range(depth):
                                prefetch(s + (depth + k) * source_step + j * width)
                                if not stream:
                                    prefetch_target(t + (depth + k) * target_step + j * width)
                        columns(t + j * width, target_step, s + j * width, source_step, totals + j * total_width)
                some_columns(s, source_step, t, target_step, totals, done, wide)
            for i in range(deep, count):
                one_row(source + i * source_step, target + i * target_step, totals, wide)
            if carried:
                move_totals(after, far, totals, total_width, wide)
            if clear and before == 0:
                for j in range(wide):
                    store(target, j * width, zero)
        return 0

    return kernel
