"""Scatters: every program has elements of its own in each block, and goes through the tuples in their order."""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.gather import NONE_OUTSIDE, is_outside
from anydml.engines.cuda.kernels.places import place
from anydml.engines.cuda.kernels.turns import take_turn


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
    take_turn()
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
