"""Running sums and products: programs scan parts of the axis, and hand their totals on along it.

The order of additions is fixed by the shape alone, so the same bits come out of every run.
"""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import known, place
from anydml.engines.cuda.kernels.tally import (
    combine,
    join,
    join_wide,
    neutral_of,
    normalise,
    scan_apart,
    scan_of_columns,
    scan_of_fours,
    scan_of_rows,
    total_of,
)
from anydml.engines.cuda.kernels.turns import take_turn
from anydml.engines.cuda.kernels.words import exchange, held


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
    take_turn()
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
