"""Running sums and products along a long row, which many programs share: one pass, each part held in registers.

A thread has 16 neighbours, so that only one number of each 16 crosses over to other threads. Read so, a row is not
read 512 bytes at a time, but every sector that is fetched is used; it is written as it lies.
"""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import known, place
from anydml.engines.cuda.kernels.tally import add_before, combine, multiply_before, neutral_of, total_of
from anydml.engines.cuda.kernels.turns import take_turn
from anydml.engines.cuda.kernels.words import exchange, held

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
    take_turn()
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
