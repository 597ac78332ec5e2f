"""Orders: an element's place is how many come before it."""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import place
from anydml.engines.cuda.kernels.turns import take_turn


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
    take_turn()
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
