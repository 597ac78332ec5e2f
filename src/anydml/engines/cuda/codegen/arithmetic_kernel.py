"""Operations that Triton rounds otherwise when it compiles, or when it interprets."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def odd_fma(a, b, c):
    """a·b + c of float32, rounded once: the product is a float64, and the sum is rounded to odd before it is again.

    The interpreter's own rounds the product as well.
    """
    tl.static_assert(a.dtype == tl.float32)
    product = a.to(tl.float64) * b.to(tl.float64)
    wide = c.to(tl.float64)
    total = product + wide
    part = total - product
    error = (product - (total - part)) + (wide - part)
    bits = total.to(tl.int64, bitcast=True)
    is_even = ((bits & 1) == 0) & (error != 0) & (tl.abs(total) < float("inf"))
    outwards = (error > 0) == (total > 0)
    bits += tl.where(is_even, tl.where(outwards, 1, -1), 0)
    return bits.to(tl.float64, bitcast=True).to(tl.float32)


@triton.jit
def fma(a, b, c):
    """a·b + c, rounded once."""
    return tl.fma(a, b, c)


@triton.jit
def near_rint(x):
    """The nearest whole number, of two the even one: past 2^23 float32 has no others, and past 2^52 float64."""
    LIMIT: tl.constexpr = 2.0**52 if x.dtype == tl.float64 else 2.0**23
    size = tl.abs(x)
    whole = (size + LIMIT) - LIMIT
    return tl.where(size < LIMIT, signed(whole, x), x)


@triton.jit
def signed(size, like):
    """A number that is not negative, with the sign of another."""
    BITS: tl.constexpr = tl.int64 if size.dtype == tl.float64 else tl.int32
    sign = like.to(BITS, bitcast=True) & (-1 << (BITS.primitive_bitwidth - 1))
    return (size.to(BITS, bitcast=True) | sign).to(size.dtype, bitcast=True)


@triton.jit
def rint(x):
    return libdevice.rint(x)


@triton.jit
def cut_trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def trunc(x):
    return libdevice.trunc(x)


@triton.jit
def chosen_truth(test):
    """A test that is right when it is repeated: the interpreter makes numbers of the type compared of a single one."""
    return tl.where(test, tl.full((), 1, tl.int1), tl.full((), 0, tl.int1))


@triton.jit
def truth(test):
    return test


if triton.knobs.runtime.interpret:  # which has neither libdevice nor a product that is not rounded
    fma, rint, trunc, truth = odd_fma, near_rint, cut_trunc, chosen_truth


@triton.jit
def floor(x):
    """Triton's own takes -2^-149 for 0 on a GPU."""
    whole = trunc(x)
    return tl.where(x < whole, whole - 1, whole)


@triton.jit
def ceil(x):
    """As `floor`."""
    whole = trunc(x)
    return tl.where(whole < x, whole + 1, whole)


@triton.jit
def spread(number, like):
    """A number for each element of a tile, whatever it is repeated along."""
    return tl.zeros(like.shape, tl.int64) + number


@triton.jit
def divided(a, b):
    """A quotient of floats, rounded once."""
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@triton.jit
def root(x):
    """A square root, rounded once."""
    if x.dtype == tl.float32:
        return tl.sqrt_rn(x)
    else:
        return tl.sqrt(x)
