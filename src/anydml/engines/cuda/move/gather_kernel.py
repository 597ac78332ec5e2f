"""Indexed copies: tuples of indices are looked up where they lie; their bounds are checked in a pass before."""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import take_turn
from anydml.engines.cuda.rows.tiles_kernel import along, known, place

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
    take_turn()
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
    take_turn()
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
