"""Conversions and scales: numbers of one type made numbers of another."""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.dependent_launch import wait_for_previous
from anydml.engines.cuda.rows.tiles_kernel import walk


@triton.jit
def float_of(bits):
    """The float64 whose bits an argument of 64 bits holds."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True)


@triton.jit
def whole(value, TYPE: tl.constexpr):
    """Floats without their fractions as integers, those outside the range as the end that is nearer; NaN is 0.

    Both ends are looked for apart, because what a conversion makes of what lies outside is not said everywhere.
    """
    DIGITS: tl.constexpr = TYPE.primitive_bitwidth - TYPE.is_int_signed()
    PAST: tl.constexpr = 2.0**DIGITS  # unlike 2^DIGITS - 1, a number of float32 for every type
    LEAST: tl.constexpr = -PAST if TYPE.is_int_signed() else 0.0
    if value.dtype == tl.float16:
        value = value.to(tl.float32)
    inside = tl.where((value > LEAST) & (value < PAST), value, 0.0).to(TYPE)
    most = tl.full(value.shape, 2**DIGITS - 1, TYPE)
    least = tl.full(value.shape, -(2**DIGITS) if TYPE.is_int_signed() else 0, TYPE)
    return tl.where(value >= PAST, most, tl.where(value <= LEAST, least, inside))


@triton.jit
def number_of(value, TYPE: tl.constexpr):
    """Numbers as numbers of a type, rounded once."""
    if value.dtype.is_floating() and not TYPE.is_floating():
        value = whole(value, TYPE)
    elif not value.dtype.is_floating() and TYPE == tl.float16:
        # Exact below 2^24, and past 65504 an infinity like 2^16. Without the ends the compiler makes one conversion of
        # the two, from an integer that may be past the range; of a float there IEEE 754 says what becomes.
        value = tl.minimum(tl.maximum(value.to(tl.float32), -65536.0), 65536.0)
    return value.to(TYPE)


@triton.jit
def map_tiles(
    source,
    target,
    inner,
    middle,
    blocks,
    sizes,
    source_strides,
    target_strides,
    scale,
    bias,
    TILE: tl.constexpr,
    SCALED: tl.constexpr,
):
    """Compiled so that products and sums stay apart."""
    wait_for_previous()
    source, target, mask = walk(source, target, inner, middle, blocks, sizes, source_strides, target_strides, TILE)
    value = tl.load(source, mask=mask)
    if SCALED:
        value = value.to(tl.float64) * float_of(scale) + float_of(bias)
    tl.store(target, number_of(value, target.dtype.element_ty), mask=mask)
