"""Scans: parts of the axis a program, with totals handed on along it; a long row in one pass by decoupled look-back."""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import wait_for_previous
from anydml.engines.cuda.move.look_back_kernel import exchange, held
from anydml.engines.cuda.move.scan_arithmetic_kernel import (
    add_before,
    combine,
    join,
    join_wide,
    multiply_before,
    neutral_of,
    normalise,
    scan_apart,
    scan_of_columns,
    scan_of_fours,
    scan_of_rows,
    total_of,
)
from anydml.engines.cuda.rows.tiles_kernel import known, place

# Running sums and products: programs scan parts of the axis, and hand their totals on along it.
#
# The order of additions is fixed by the shape alone, so the same bits come out of every run.


@triton.jit
def tile_of(
    lines,
    across,
    tile,
    length,
    stride,
    SHIFT: tl.constexpr,
    ALIGN: tl.constexpr,
    LENGTH_ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT: tl.constexpr,
    PIECES: tl.constexpr,
    ALONG: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Where a tile's elements lie, `SHIFT` further on in the walk, and which of them are there and in the tile still.

    Rows make a tile of lines by elements, columns one of pieces by elements by lines. A REVERSE walk is along one row,
    and its tile is of groups of four neighbours, each group further down. `across` says which lines there are.
    """
    WHOLE: tl.constexpr = PIECES * ALONG
    present = known(tl.minimum(length - tile * WHOLE, WHOLE).to(tl.int32), LENGTH_ALIGN)
    if REVERSE:
        steps = (tl.arange(0, ALONG // 4) * 4)[:, None]
        four = tl.arange(0, 4)[None, :]
        at = (lines + (length - (tile + 1) * ALONG))[:, None] + (ALONG - 4 - steps) + four
        is_there = steps < present if LENGTH_ALIGN >= 4 else steps + (3 - four) < present
        mask = across[:, None] & is_there
    elif ROWS:
        start = tile * ALONG + SHIFT
        steps = tl.arange(0, ALONG)[None, :]
        mask = across[:, None] & (steps < present - SHIFT)
        if UNIT:
            at = (lines + start)[:, None] + steps
        else:
            at = (lines + start * stride * ALIGN)[:, None] + steps * stride * ALIGN
    else:
        start = tile * WHOLE + SHIFT
        steps = tl.arange(0, PIECES)[:, None, None] * ALONG + tl.arange(0, ALONG)[None, :, None]
        mask = across[None, None, :] & (steps < present - SHIFT)
        at = (lines + start * stride * ALIGN)[None, None, :] + steps * stride * ALIGN
    return at, mask


@triton.jit
def read_tile(
    source,
    lines,
    across,
    tile,
    length,
    stride,
    PRODUCT: tl.constexpr,
    ALIGN: tl.constexpr,
    LENGTH_ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT: tl.constexpr,
    PIECES: tl.constexpr,
    ALONG: tl.constexpr,
    REVERSE: tl.constexpr,
    FULL: tl.constexpr,
):
    """A tile's elements, and the neutral one for those that are not there."""
    at, mask = tile_of(
        lines, across, tile, length, stride, 0, ALIGN, LENGTH_ALIGN, ROWS, UNIT, PIECES, ALONG, REVERSE
    )  # fmt: skip
    if FULL:
        value = tl.load(source + at)
    else:
        blank = neutral_of(source.dtype.element_ty, PRODUCT, 1)
        blank = tl.broadcast_to(blank[None, :] if ROWS else blank[None, None, :], at.shape)
        value = tl.load(source + at, mask=mask, other=blank)
    return value


@triton.jit
def scan_tiles(
    source,
    target,
    words,
    tallies_before,
    tallies_after,
    length,
    source_along,
    target_along,
    across,
    source_across,
    target_across,
    across_blocks,
    chains,
    steps,
    parts,
    groups,
    sizes,
    source_strides,
    target_strides,
    tally_across,
    tally_strides,
    ACCUMULATOR: tl.constexpr,
    PRODUCT: tl.constexpr,
    APART: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    REVERSE: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT: tl.constexpr,
    NEAR: tl.constexpr,
    SOURCE_ALIGN: tl.constexpr,
    TARGET_ALIGN: tl.constexpr,
    COUNT_ALIGN: tl.constexpr,
    ALONG: tl.constexpr,
    ACROSS: tl.constexpr,
    PIECES: tl.constexpr,
    FULL: tl.constexpr,
    ONCE: tl.constexpr,
    STAGES: tl.constexpr,
    GROUP: tl.constexpr,
    BEFORE: tl.constexpr,
    AFTER: tl.constexpr,
):
    """`steps` tiles, one after the other, each of `ALONG` elements of the axis by `ACROSS` lines; ONCE, one tile.

    ROWS has the axis innermost; UNIT says that the innermost stride is 1; NEAR, that 32 bits say how far apart the
    elements of a tile lie, which takes fewer registers. REVERSE, of one such row, walks from the end. Columns are cut
    in PIECES, one a warp. FULL, no tile reaches past the last element. Where a chain of lines is cut in parts, each
    another program's, they hand on in groups; a GROUP of 0 stands for one part a chain. A program that has several
    tiles goes through them twice, and finds them in the L2 cache the second time. APART, of columns in one piece or of
    rows, a float's exponent is kept beside it. With STAGES, so many tiles are on their way into shared memory; without,
    the next one is, into registers. BEFORE, lines go on from tallies; AFTER, theirs are put down.
    """
    wait_for_previous()
    LENGTH_ALIGN: tl.constexpr = COUNT_ALIGN if UNIT and ROWS else 1
    ACROSS_ALIGN: tl.constexpr = 1 if UNIT and ROWS else COUNT_ALIGN
    chains = chains.to(tl.int32)
    chain = tl.program_id(0) % chains
    program = tl.program_id(0) // chains
    across_blocks = across_blocks.to(tl.int32)
    lines = (chain % across_blocks).to(tl.int64) * ACROSS + tl.arange(0, ACROSS)
    outer = chain // across_blocks
    length = known(length, LENGTH_ALIGN)
    if NEAR:
        source_along = source_along.to(tl.int32)
        target_along = target_along.to(tl.int32)
    is_line = lines < known(across, ACROSS_ALIGN)
    source_lines = place(outer, sizes, source_strides, SOURCE_ALIGN)
    target_lines = place(outer, sizes, target_strides, TARGET_ALIGN)
    if UNIT and not ROWS:
        source_lines += lines
        target_lines += lines
    else:
        source_lines += lines * source_across * SOURCE_ALIGN
        target_lines += lines * target_across * TARGET_ALIGN

    neutral = neutral_of(ACCUMULATOR, PRODUCT, ACROSS)
    carry = neutral
    carry_exponent = tl.zeros((ACROSS,), tl.int64)
    tallies = place(outer, sizes, tally_strides, 1) + lines * tally_across
    if BEFORE:
        carry = tl.load(tallies_before + tallies, mask=is_line, other=0).to(ACCUMULATOR)
        if APART:
            carry, carry_exponent = normalise(carry, carry_exponent)
    part = program.to(tl.int64)
    tile = part * steps
    steps_here = 1
    if not ONCE:
        steps_here = steps.to(tl.int32)
    if STAGES == 1:
        value = read_tile(
            source, source_lines, is_line, tile, length, source_along,
            PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PIECES, ALONG, REVERSE, FULL,
        )  # fmt: skip

    if GROUP > 0:
        runs = tl.load(words)
        total = neutral
        for step in range(steps_here):
            numbers = value.to(ACCUMULATOR)
            if not ONCE:  # the next tile is on its way while this one is added up, and after the last the first again
                value = read_tile(
                    source, source_lines, is_line, tile + (step + 1) % steps_here, length, source_along,
                    PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PIECES, ALONG, REVERSE, FULL,
                )  # fmt: skip
            here = total_of(numbers, 1, PRODUCT)
            if REVERSE or not ROWS:  # a line's elements are spread over the first dimension too
                here = total_of(here, 0, PRODUCT)
            total = combine(total, here, PRODUCT)
        earlier = exchange(
            words, runs, total, neutral, chain, chains, part, parts, groups, ACCUMULATOR, PRODUCT, GROUP
        )  # fmt: skip
        carry = combine(carry, earlier, PRODUCT) if BEFORE else earlier
        if ONCE:
            value = held(value, runs)

    for step in tl.range(steps_here, num_stages=STAGES):
        if STAGES > 1:
            value = read_tile(
                source, source_lines, is_line, tile + step, length, source_along,
                PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PIECES, ALONG, REVERSE, FULL,
            )  # fmt: skip
        numbers = value.to(ACCUMULATOR)
        if STAGES == 1 and not ONCE:  # past the last there is the last again, which nobody looks at
            value = read_tile(
                source, source_lines, is_line, tile + tl.minimum(step + 1, steps_here - 1), length, source_along,
                PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PIECES, ALONG, REVERSE, FULL,
            )  # fmt: skip
        opening = carry
        if APART:
            opening = join(carry, carry_exponent)
            result, carry, carry_exponent = scan_apart(numbers, carry, carry_exponent, ROWS)
        elif REVERSE:
            result, carry = scan_of_fours(numbers, carry, False if BEFORE else tile + step == 0, PRODUCT, EXCLUSIVE)
        elif ROWS:
            result, carry = scan_of_rows(numbers, carry, PRODUCT)
        else:
            result, carry = scan_of_columns(numbers, carry, PRODUCT)
        SHIFT: tl.constexpr = 1 if EXCLUSIVE and not REVERSE else 0
        if SHIFT:
            # What is summed up to an element is written to the next one; the tile's first gets what came before it.
            first = (tile + step) * (PIECES * ALONG)
            if not (PRODUCT or BEFORE):  # the sum of nothing is 0, and not -0.0
                opening = tl.where(first == 0, tl.zeros(opening.shape, ACCUMULATOR), opening)
            at = target_lines + first if UNIT and ROWS else target_lines + first * target_along * TARGET_ALIGN
            tl.store(target + at, opening.to(target.dtype.element_ty), mask=is_line & (first < length))
        at, mask = tile_of(
            target_lines, is_line, tile + step, length, target_along, SHIFT,
            TARGET_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PIECES, ALONG, REVERSE,
        )  # fmt: skip
        result = result.to(target.dtype.element_ty)
        if FULL and not SHIFT:
            tl.store(target + at, result)
        else:
            tl.store(target + at, result, mask=mask)
    if AFTER:
        if APART:
            carry = join_wide(carry, carry_exponent)
        if part == parts - 1:
            tl.store(tallies_after + tallies, carry.to(tallies_after.dtype.element_ty), mask=is_line)


# Running sums and products along a long row, which many programs share: one pass, each part held in registers.
#
# A thread has 16 neighbours, so that only one number of each 16 crosses over to other threads. Read so, a row is not
# read 512 bytes at a time, but every sector that is fetched is used; it is written as it lies.


CHUNK = tl.constexpr(16)


@triton.jit
def taken_apart(numbers, REVERSE: tl.constexpr):
    """The four of the last dimension, in the order of the walk."""
    shape: tl.constexpr = numbers.shape
    if len(shape) == 3:
        pairs = tl.permute(tl.reshape(numbers, (shape[0], shape[1], 2, 2)), (0, 1, 3, 2))
    else:
        pairs = tl.permute(tl.reshape(numbers, (shape[0], 2, 2)), (0, 2, 1))
    left, right = tl.split(pairs)
    first, second = tl.split(left)
    third, fourth = tl.split(right)
    if REVERSE:
        first, second, third, fourth = fourth, third, second, first
    return first, second, third, fourth


@triton.jit
def put_together(first, second, third, fourth, REVERSE: tl.constexpr):
    """The four as the last dimension again."""
    if REVERSE:
        first, second, third, fourth = fourth, third, second, first
    pairs = tl.join(tl.join(first, second), tl.join(third, fourth))
    shape: tl.constexpr = first.shape
    if len(shape) == 2:
        numbers = tl.reshape(tl.permute(pairs, (0, 1, 3, 2)), (shape[0], shape[1], 4))
    else:
        numbers = tl.reshape(tl.permute(pairs, (0, 2, 1)), (shape[0], 4))
    return numbers


@triton.jit
def scan_of_chunks(
    numbers,
    chunks,
    carry,
    is_start,
    PRODUCT: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """The running sum or product of chunks of known totals, each four fours. `is_start`: nothing comes before."""
    first, second, third, fourth = taken_apart(numbers, REVERSE)
    second = combine(first, second, PRODUCT)
    third = combine(second, third, PRODUCT)
    fourth = combine(third, fourth, PRODUCT)
    one, two, three, _ = taken_apart(fourth, REVERSE)
    two = combine(one, two, PRODUCT)
    three = combine(two, three, PRODUCT)

    order = tl.arange(0, chunks.shape[0])
    totals = tl.where(order == 0, combine(carry, chunks, PRODUCT), chunks)
    before = tl.where(order == 0, carry, neutral_of(chunks.dtype, PRODUCT, 1))
    if PRODUCT:
        totals, before = tl.associative_scan((totals, before), 0, multiply_before)
    else:
        totals, before = tl.associative_scan((totals, before), 0, add_before)
    one = combine(before, one, PRODUCT)
    two = combine(before, two, PRODUCT)
    three = combine(before, three, PRODUCT)
    start = put_together(before, one, two, three, REVERSE)
    first = combine(start, first, PRODUCT)
    second = combine(start, second, PRODUCT)
    third = combine(start, third, PRODUCT)
    fourth = combine(start, fourth, PRODUCT)
    if EXCLUSIVE:
        if not PRODUCT:  # the sum of nothing is 0, and not -0.0
            before = tl.where((order == 0) & is_start, tl.zeros(before.shape, before.dtype), before)
            start = put_together(before, one, two, three, REVERSE)
        first, second, third, fourth = start, first, second, third
    return put_together(first, second, third, fourth, REVERSE)


@triton.jit
def read_chunks(
    source,
    row,
    start,
    length,
    PRODUCT: tl.constexpr,
    CHUNKS: tl.constexpr,
    ALIGN: tl.constexpr,
    REVERSE: tl.constexpr,
    FULL: tl.constexpr,
):
    """Chunks from a place in the walk on, and the neutral element for those of their elements that are not there."""
    chunk = tl.arange(0, CHUNKS)[:, None, None] * CHUNK
    four = tl.arange(0, CHUNK // 4)[None, :, None] * 4
    one = tl.arange(0, 4)[None, None, :]
    if REVERSE:
        first = row + (length - start - CHUNK)
        at = four + one - chunk
        steps = chunk + (CHUNK - 4 - four)
        steps = steps if ALIGN >= 4 else steps + (3 - one)
    else:
        first = row + start
        at = chunk + four + one
        steps = chunk + four if ALIGN >= 4 else chunk + four + one
    if FULL:
        value = tl.load(source + first + at)
    else:
        mask = tl.broadcast_to(steps < tl.minimum(length - start, CHUNKS * CHUNK).to(tl.int32), at.shape)
        blank = neutral_of(source.dtype.element_ty, PRODUCT, 1)
        value = tl.load(source + first + at, mask=mask, other=tl.broadcast_to(blank[None, None, :], at.shape))
    return value


@triton.jit
def write_chunks(
    target,
    row,
    start,
    length,
    result,
    CHUNKS: tl.constexpr,
    ALIGN: tl.constexpr,
    REVERSE: tl.constexpr,
    FULL: tl.constexpr,
):
    """Chunks, with neighbouring threads at neighbouring places."""
    chunk = tl.arange(0, CHUNKS)[:, None] * CHUNK
    one = tl.arange(0, CHUNK)[None, :]
    if REVERSE:
        first = row + (length - start - CHUNK)
        at = one - chunk
        steps = chunk + (CHUNK - 4 - one // 4 * 4) if ALIGN >= 4 else chunk + (CHUNK - 1 - one)
    else:
        first = row + start
        at = chunk + one
        steps = chunk + one // 4 * 4 if ALIGN >= 4 else chunk + one
    result = tl.reshape(result.to(target.dtype.element_ty), (CHUNKS, CHUNK))
    if FULL:
        tl.store(target + first + at, result)
    else:
        tl.store(target + first + at, result, mask=steps < tl.minimum(length - start, CHUNKS * CHUNK).to(tl.int32))


@triton.jit
def scan_row(
    source,
    target,
    words,
    tallies_before,
    tallies_after,
    length,
    chains,
    parts,
    groups,
    sizes,
    source_strides,
    target_strides,
    tally_strides,
    ACCUMULATOR: tl.constexpr,
    PRODUCT: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    REVERSE: tl.constexpr,
    SOURCE_ALIGN: tl.constexpr,
    TARGET_ALIGN: tl.constexpr,
    COUNT_ALIGN: tl.constexpr,
    CHUNKS: tl.constexpr,
    FULL: tl.constexpr,
    GROUP: tl.constexpr,
    BEFORE: tl.constexpr,
    AFTER: tl.constexpr,
):
    """A part of a row, twice CHUNKS chunks, between the part before it and the one after it.

    FULL, no part reaches past the row's last element. BEFORE, rows go on from tallies; AFTER, theirs are put down.
    """
    wait_for_previous()
    HALF_PART: tl.constexpr = CHUNKS * CHUNK
    chains = chains.to(tl.int32)
    chain = tl.program_id(0) % chains
    part = (tl.program_id(0) // chains).to(tl.int64)
    length = known(length, COUNT_ALIGN)
    source_row = place(chain, sizes, source_strides, SOURCE_ALIGN)
    target_row = place(chain, sizes, target_strides, TARGET_ALIGN)
    start = part * (2 * HALF_PART)
    middle = start + HALF_PART
    runs = tl.load(words)
    left = read_chunks(source, source_row, start, length, PRODUCT, CHUNKS, COUNT_ALIGN, REVERSE, FULL)
    right = read_chunks(source, source_row, middle, length, PRODUCT, CHUNKS, COUNT_ALIGN, REVERSE, FULL)

    left_chunks = total_of(total_of(left.to(ACCUMULATOR), 2, PRODUCT), 1, PRODUCT)
    right_chunks = total_of(total_of(right.to(ACCUMULATOR), 2, PRODUCT), 1, PRODUCT)
    total = total_of(left_chunks, 0, PRODUCT)
    neutral = neutral_of(ACCUMULATOR, PRODUCT, 1)
    whole = combine(neutral, combine(total, total_of(right_chunks, 0, PRODUCT), PRODUCT), PRODUCT)
    carry = exchange(
        words, runs, whole, neutral, chain, chains, part, parts, groups, ACCUMULATOR, PRODUCT, GROUP
    )  # fmt: skip

    tally = place(chain, sizes, tally_strides, 1) + tl.arange(0, 1)
    if BEFORE:
        carry = combine(tl.load(tallies_before + tally).to(ACCUMULATOR), carry, PRODUCT)
    left = held(left, runs).to(ACCUMULATOR)
    right = held(right, runs)
    result = scan_of_chunks(left, left_chunks, carry, False if BEFORE else part == 0, PRODUCT, EXCLUSIVE, REVERSE)
    write_chunks(target, target_row, start, length, result, CHUNKS, COUNT_ALIGN, REVERSE, FULL)
    carry = combine(carry, total, PRODUCT)
    if AFTER:
        after = combine(carry, total_of(right_chunks, 0, PRODUCT), PRODUCT)
        if part == parts - 1:
            tl.store(tallies_after + tally, after.to(tallies_after.dtype.element_ty))
    result = scan_of_chunks(right.to(ACCUMULATOR), right_chunks, carry, False, PRODUCT, EXCLUSIVE, REVERSE)
    write_chunks(target, target_row, middle, length, result, CHUNKS, COUNT_ALIGN, REVERSE, FULL)
