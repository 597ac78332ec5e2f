"""Top-k and sorts: keys that hold rank and place, sorted as whole numbers; or ranks counted."""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import wait_for_previous
from anydml.engines.cuda.rows.tiles_kernel import place

# Orders: an element's place is how many come before it.


@triton.jit
def order_lines(
    source,
    target,
    count,
    wanted,
    source_step,
    target_step,
    blocks,
    sizes,
    source_strides,
    target_strides,
    IS_FLOAT: tl.constexpr,
    LARGEST: tl.constexpr,
    EACH: tl.constexpr,
):
    """Some elements of a line beside all of it; NaN is the largest, and of equal elements the first comes first."""
    wait_for_previous()
    number = tl.program_id(0).to(tl.int64)
    line = number // blocks
    mine = (number % blocks) * EACH + tl.arange(0, EACH)
    source += place(line, sizes, source_strides, 1)
    target += place(line, sizes, target_strides, 1)
    own = tl.load(source + mine * source_step, mask=mine < count, other=0)
    if IS_FLOAT:
        own = own.to(tl.float32)
    before = tl.zeros((EACH,), tl.int64)
    for first in range(0, count, EACH):
        others = first + tl.arange(0, EACH).to(tl.int64)
        beside = tl.load(source + others * source_step, mask=others < count, other=0)
        if IS_FLOAT:
            beside = beside.to(tl.float32)
        a, b = beside[None, :], own[:, None]
        is_more, is_same = a > b, a == b
        if IS_FLOAT:
            is_more = is_more | ((a != a) & (b == b))
            is_same = is_same | ((a != a) & (b != b))
        if not LARGEST:
            is_more = (is_more | is_same) == 0
        comes = is_more | (is_same & (others[None, :] < mine[:, None]))
        before += tl.sum((comes & (others < count)[None, :]).to(tl.int64), axis=1)
    is_wanted = (mine < count) & (before < wanted)
    tl.store(target + before * target_step, mine, mask=is_wanted)


# The first few of an order: keys that hold an element's rank and its place are sorted as whole numbers.


LEAST = tl.constexpr(-(2**63))
"""Below all keys."""
PLACES = tl.constexpr(2**32 - 1)


@triton.jit
def key_of(value, number, LARGEST: tl.constexpr):
    """A key that is larger for what comes first: NaN is the largest, zeros are equal, and the first of equals is first.

    The bits of a float without its sign grow as it does, and those of a negative one fall.
    """
    if value.dtype.is_floating():
        wide = value.to(tl.float32)
        bits = wide.to(tl.int32, bitcast=True)
        bits = tl.where(wide == 0, 0, tl.where(wide != wide, 0x7FC00000, bits))
        rank = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        wide_rank = rank.to(tl.int64)
    else:
        wide_rank = value.to(tl.int64)
        if not value.dtype.is_int_signed():
            wide_rank -= 2**31
    if not LARGEST:
        wide_rank = -1 - wide_rank
    return (wide_rank << 32) | (PLACES - number)


@triton.jit
def top_lines(
    source,
    target,
    lines,
    count,
    wanted,
    chunks,
    source_step,
    target_step,
    sizes,
    source_strides,
    target_strides,
    LARGEST: tl.constexpr,
    FROM_KEYS: tl.constexpr,
    TO_KEYS: tl.constexpr,
    ROWS: tl.constexpr,
    LENGTH: tl.constexpr,
    KEPT: tl.constexpr,
):
    """Chunks of some lines, each with the first of it: as keys, or at last as their places."""
    wait_for_previous()
    program = tl.program_id(0)
    chunk = (program % chunks.to(tl.int32)).to(tl.int64)
    line = (program // chunks.to(tl.int32)).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    number = chunk * LENGTH + tl.arange(0, LENGTH)
    there = (line < lines)[:, None] & (number < count)[None, :]
    if FROM_KEYS:
        key = tl.load(source + (line * count)[:, None] + number[None, :], mask=there, other=LEAST)
    else:
        at = source + place(line, sizes, source_strides, 1)[:, None] + (number * source_step)[None, :]
        value = tl.load(at, mask=there, other=0)
        key = tl.where(there, key_of(value, number[None, :], LARGEST), LEAST)
    first = tl.topk(key, KEPT, 1)
    kept = tl.arange(0, KEPT)
    if TO_KEYS:
        at = target + ((line * chunks + chunk) * KEPT)[:, None] + kept[None, :]
        tl.store(at, first, mask=(line < lines)[:, None])
    else:
        at = target + place(line, sizes, target_strides, 1)[:, None] + (kept * target_step)[None, :]
        found = PLACES - (first & PLACES)
        tl.store(at, found.to(target.dtype.element_ty), mask=(line < lines)[:, None] & (kept < wanted)[None, :])
