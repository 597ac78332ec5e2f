"""Fills: elements made of their own numbers, as if those lay in memory."""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.map import float_of, number_of
from anydml.engines.cuda.kernels.tiles import walk
from anydml.engines.cuda.kernels.turns import take_turn


@triton.jit
def fill_tiles(
    target,
    inner,
    middle,
    blocks,
    sizes,
    number_strides,
    target_strides,
    first,
    start,
    delta,
    TILE: tl.constexpr,
):
    """Start and delta by the walk's source, which is the number itself. Products and sums stay apart when compiled.

    Integers are counted in 32 bits where those hold the type, since what wraps in more bits wraps in fewer.
    """
    take_turn()
    TYPE: tl.constexpr = target.dtype.element_ty
    number = first.to(tl.int64)
    number, target, mask = walk(number, target, inner, middle, blocks, sizes, number_strides, target_strides, TILE)
    if TYPE.is_floating():
        value = number_of(number.to(tl.float64) * float_of(delta) + float_of(start), TYPE)
    else:
        COUNTER: tl.constexpr = tl.uint64 if TYPE.primitive_bitwidth == 64 else tl.uint32
        value = (number.to(COUNTER) * delta.to(COUNTER) + start.to(COUNTER)).to(TYPE)
    tl.store(target, value, mask=mask)
