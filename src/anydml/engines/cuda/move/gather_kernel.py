"""Indexed copies: tuples of indices are looked up where they lie; their bounds are checked in a pass before. Scatters
write updates in order, or each tuple claims its place and the last keeps it: last-writer scatter.
"""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import wait_for_previous
from anydml.engines.cuda.rows.tiles_kernel import along, far, known, place

NONE_OUTSIDE = tl.constexpr(0x7FFF_FFFF_FFFF_FFFF)
"""The verdict where every index is inside its dimension."""


@triton.jit
def is_outside(index, size, SIGNED: tl.constexpr):
    """Whether an index is outside its dimension, compared in its own signedness."""
    if SIGNED:
        wide = index.to(tl.int64)
        return (wide >= size) | (wide < -size)
    return index.to(tl.uint64) >= size.to(tl.uint64)


@triton.jit
def nearest(index, size, SIGNED: tl.constexpr):
    """The element an index stands for: negative from the end, the nearest for one outside."""
    if SIGNED:
        wide = index.to(tl.int64)
        wide = tl.where(wide < 0, wide + size, wide)
        return tl.minimum(tl.maximum(wide, 0), size - 1)
    return tl.minimum(index.to(tl.uint64), (size - 1).to(tl.uint64)).to(tl.int64)


@triton.jit
def gather_tiles(
    source,
    indices,
    target,
    verdict,
    tuples,
    tuple_index,
    tuple_target,
    tuple_sizes,
    tuple_index_strides,
    tuple_source_strides,
    tuple_target_strides,
    coordinate_index,
    coordinate_sizes,
    coordinate_strides,
    elements,
    block_inner_source,
    block_inner_target,
    element_blocks,
    block_sizes,
    block_source_strides,
    block_target_strides,
    SIGNED: tl.constexpr,
    GUARDED: tl.constexpr,
    INDEX_STEP: tl.constexpr,
    TUPLE_STEP: tl.constexpr,
    SOURCE_STEP: tl.constexpr,
    TARGET_STEP: tl.constexpr,
    SOURCE_ALIGN: tl.constexpr,
    TARGET_ALIGN: tl.constexpr,
    ELEMENT_ALIGN: tl.constexpr,
    POLICY: tl.constexpr,
    TUPLES: tl.constexpr,
    ELEMENTS: tl.constexpr,
):
    """Some tuples by some elements of what each of them points at. Guarded, it writes only after a clean verdict."""
    wait_for_previous()
    number = tl.program_id(0)
    if GUARDED:
        if tl.load(verdict) != NONE_OUTSIDE:
            return
    first_element = (number % element_blocks.to(tl.int32)).to(tl.int64) * ELEMENTS
    first_tuple = (number // element_blocks.to(tl.int32)).to(tl.int64) * TUPLES
    numbers = first_tuple + tl.arange(0, TUPLES)
    is_tuple = numbers < tuples
    if len(tuple_sizes) == 1:
        index_at = along(first_tuple, TUPLES, tuple_index, INDEX_STEP, 1)
        target_at = along(first_tuple, TUPLES, tuple_target, TUPLE_STEP, TARGET_ALIGN)
    else:
        index_at = place(numbers, tuple_sizes, tuple_index_strides, 1)
        target_at = place(numbers, tuple_sizes, tuple_target_strides, TARGET_ALIGN)
    source_at = place(numbers, tuple_sizes, tuple_source_strides, 1)
    for k in tl.static_range(len(coordinate_sizes)):
        index = tl.load(
            indices + index_at + k * coordinate_index, mask=is_tuple, other=0, eviction_policy=POLICY
        )  # fmt: skip
        source_at += nearest(index, coordinate_sizes[k].to(tl.int64), SIGNED) * coordinate_strides[k]
    source_at *= SOURCE_ALIGN
    if ELEMENTS == 1:
        value = tl.load(source + source_at, mask=is_tuple)
        tl.store(target + target_at, value, mask=is_tuple, eviction_policy=POLICY)
        return
    counted = first_element + tl.arange(0, ELEMENTS)
    mask = is_tuple[:, None] & (counted < known(elements, ELEMENT_ALIGN))[None, :]
    if len(block_sizes) == 1:
        source_block = along(first_element, ELEMENTS, block_inner_source, SOURCE_STEP, 1)
        target_block = along(first_element, ELEMENTS, block_inner_target, TARGET_STEP, 1)
    else:
        source_block = place(counted, block_sizes, block_source_strides, 1)
        target_block = place(counted, block_sizes, block_target_strides, 1)
    value = tl.load(source + source_at[:, None] + source_block[None, :], mask=mask)
    tl.store(target + target_at[:, None] + target_block[None, :], value, mask=mask, eviction_policy=POLICY)


@triton.jit
def check_indices(
    indices,
    verdict,
    report,
    tuples,
    tuple_index,
    tuple_sizes,
    tuple_index_strides,
    coordinate_index,
    coordinate_sizes,
    programs,
    steps,
    SIGNED: tl.constexpr,
    INDEX_STEP: tl.constexpr,
    TUPLES: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Find the first tuple with an index outside its dimension.

    `verdict` holds the answer, a counter, and what each program found. Whoever comes last sums up: into the verdict,
    which guards what follows on the device, and with the tuple's indices into the report, which the host reads.
    """
    wait_for_previous()
    number = tl.program_id(0)
    found = tl.full((TUPLES,), NONE_OUTSIDE, tl.int64)
    for step in range(steps):
        first = (number + step * programs.to(tl.int64)) * TUPLES
        numbers = first + tl.arange(0, TUPLES)
        is_tuple = numbers < tuples
        if len(tuple_sizes) == 1:
            index_at = along(first, TUPLES, tuple_index, INDEX_STEP, 1)
        else:
            index_at = place(numbers, tuple_sizes, tuple_index_strides, 1)
        for k in tl.static_range(len(coordinate_sizes)):
            index = tl.load(indices + index_at + k * coordinate_index, mask=is_tuple, other=0)
            outside = is_outside(index, coordinate_sizes[k].to(tl.int64), SIGNED) & is_tuple
            found = tl.minimum(found, tl.where(outside, numbers, NONE_OUTSIDE))
    tl.store(verdict + 2 + number, tl.min(found))
    tl.debug_barrier()
    if tl.atomic_add(verdict + 1, 1, sem="acq_rel") == programs - 1:
        each = tl.arange(0, PROGRAMS)
        first = tl.min(tl.load(verdict + 2 + each, mask=each < programs, other=NONE_OUTSIDE, volatile=True))
        tl.store(verdict, first)
        tl.store(verdict + 1, 0)
        tl.store(report, first)
        if first != NONE_OUTSIDE:
            at = place(first, tuple_sizes, tuple_index_strides, 1)
            for k in tl.static_range(len(coordinate_sizes)):
                tl.store(report + 1 + k, tl.load(indices + at + k * coordinate_index).to(tl.int64))


# Scatters: every program has elements of its own in each block, and goes through the tuples in their order.


@triton.jit
def scatter_lanes(
    updates,
    indices,
    target,
    verdict,
    lanes,
    lane_sizes,
    lane_update_strides,
    lane_index_strides,
    lane_target_strides,
    tuples,
    tuple_sizes,
    tuple_update_strides,
    tuple_index_strides,
    coordinate_index,
    coordinate_sizes,
    coordinate_strides,
    SIGNED: tl.constexpr,
    GUARDED: tl.constexpr,
    LANES: tl.constexpr,
):
    """A lane is an element of a block in a batch: no two lanes lead to one place, and a lane's stores keep their order.

    A tuple with an index outside leads nowhere. Guarded, nothing is written but after a clean verdict.
    """
    wait_for_previous()
    if GUARDED:
        if tl.load(verdict) != NONE_OUTSIDE:
            return
    lane = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    mask = lane < lanes
    from_at = place(lane, lane_sizes, lane_update_strides, 1)
    index_at = place(lane, lane_sizes, lane_index_strides, 1)
    lane_at = place(lane, lane_sizes, lane_target_strides, 1)
    for number in range(tuples):
        wide = tl.full((), 0, tl.int64) + number
        update_on = place(wide, tuple_sizes, tuple_update_strides, 1)
        index_on = place(wide, tuple_sizes, tuple_index_strides, 1)
        target_at, inside = lane_at, mask
        for k in tl.static_range(len(coordinate_sizes)):
            index = tl.load(indices + index_at + index_on + k * coordinate_index, mask=mask, other=0)
            size = coordinate_sizes[k].to(tl.int64)
            inside = inside & (is_outside(index, size, SIGNED) == 0)
            at = index.to(tl.int64)
            if SIGNED:
                at = tl.where(at < 0, at + size, at)
            target_at = target_at + at * coordinate_strides[k]
        value = tl.load(updates + from_at + update_on, mask=inside)
        tl.store(target + target_at, value, mask=inside)


# Scatters of many tuples: each claims its place, the last one keeps it, and then all of them write at once.


@triton.jit
def spot(indices, batch, number, mask, tuples, sizes, steps, SIGNED: tl.constexpr):
    """Where tuples lead to, as the number of a place in their batch, and whether they lead anywhere.

    `tuples` are the strides of the indices by batch and tuple, each with its sizes, and from coordinate to coordinate.
    """
    index_at = place(batch, tuples[0], tuples[1], 1) + place(number, tuples[2], tuples[3], 1)
    at = batch * steps[0]
    inside = mask
    for k in tl.static_range(len(sizes)):
        index = tl.load(indices + index_at + k * tuples[4][0], mask=mask, other=0)
        size = sizes[k].to(tl.int64)
        inside = inside & (is_outside(index, size, SIGNED) == 0)
        wide = index.to(tl.int64)
        if SIGNED:
            wide = tl.where(wide < 0, wide + size, wide)
        at += wide * steps[k + 1]
    return at, inside


@triton.jit
def claim(
    indices, winners, verdict, count, each, batch_sizes, batch_index, tuple_sizes, tuple_index, between, sizes, steps,
    SIGNED: tl.constexpr, GUARDED: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The place of each tuple gets its number, the largest stays; 0 is that of none."""
    wait_for_previous()
    if GUARDED:
        if tl.load(verdict) != NONE_OUTSIDE:
            return
    lane = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    number, mask = lane % each, lane < count
    tuples = (batch_sizes, batch_index, tuple_sizes, tuple_index, between)
    at, inside = spot(indices, lane // each, number, mask, tuples, sizes, steps, SIGNED)
    tl.atomic_max(winners + at, (number + 1).to(tl.int32), mask=inside, sem="relaxed")


@triton.jit
def write(
    updates, indices, target, winners, verdict, count, each, batch_sizes, batch_index, tuple_sizes, tuple_index,
    between, sizes, steps, batch_update, tuple_update, batch_target, target_steps, block_count, block_sizes,
    block_update, block_target, SIGNED: tl.constexpr, GUARDED: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, ALIGNS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The blocks of the tuples that kept their places; those are given up again."""
    wait_for_previous()
    if GUARDED:
        if tl.load(verdict) != NONE_OUTSIDE:
            return
    lane = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    number, batch, mask = lane % each, lane // each, lane < count
    tuples = (batch_sizes, batch_index, tuple_sizes, tuple_index, between)
    at, inside = spot(indices, batch, number, mask, tuples, sizes, steps, SIGNED)
    kept = inside & (tl.load(winners + at, mask=inside, other=0) == (number + 1).to(tl.int32))
    update_at = place(batch, batch_sizes, batch_update, ALIGNS[0]) + place(number, tuple_sizes, tuple_update, ALIGNS[0])
    target_at = place(batch, batch_sizes, batch_target, 1)
    left = at - batch * steps[0]
    for k in tl.static_range(len(sizes)):
        target_at += left // steps[k + 1] * target_steps[k]
        left = left % steps[k + 1]
    target_at = target_at * ALIGNS[1]
    for first in range(0, block_count, COLUMNS):
        column = first + tl.arange(0, COLUMNS).to(tl.int64)
        there = kept[:, None] & (column < known(block_count, ALIGNS[2]))[None, :]
        if len(block_sizes) == 1:
            come = far(column, block_update[0], STEPS[0], ALIGNS[0])
            go = far(column, block_target[0], STEPS[1], ALIGNS[1])
        else:
            come = place(column, block_sizes, block_update, ALIGNS[0])
            go = place(column, block_sizes, block_target, ALIGNS[1])
        value = tl.load(updates + update_at[:, None] + come[None, :], mask=there)
        tl.store(target + target_at[:, None] + go[None, :], value, mask=there)
    tl.debug_barrier()
    tl.store(winners + at, tl.full((ROWS,), 0, tl.int32), mask=kept)
