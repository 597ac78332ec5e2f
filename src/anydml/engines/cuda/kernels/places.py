"""The need of every kernel: where a coordinate lies.

The compiler moves 16 bytes at once only where it sees that addresses and counts are multiples of that much. Hints to
it are lost when it folds the numbers that they are on, so strides come divided by ALIGN and are multiplied again.
"""

import triton
import triton.language as tl


@triton.jit
def place(number, sizes, strides, ALIGN: tl.constexpr):
    """The offset of the coordinate of a running number, the first dimension running fastest."""
    at = tl.zeros((), tl.int64)
    for k in tl.static_range(len(sizes)):
        if k == len(sizes) - 1:
            at += number.to(tl.int64) * strides[k]
        else:
            at += (number % sizes[k].to(number.dtype)).to(tl.int64) * strides[k]
            number //= sizes[k].to(number.dtype)
    return at * ALIGN


@triton.jit
def along(first, COUNT: tl.constexpr, stride, STEP: tl.constexpr, ALIGN: tl.constexpr):
    """The offsets of neighbours from `first` on."""
    return far(first + tl.arange(0, COUNT), stride, STEP, ALIGN)


@triton.jit
def far(index, stride, STEP: tl.constexpr, ALIGN: tl.constexpr):
    """The offset of an index. A STEP of 1, 0 or -1 is the stride itself, which the compiler sees."""
    if STEP == 2:
        return index * stride * ALIGN
    else:
        return index * STEP


@triton.jit
def known(count, ALIGN: tl.constexpr):
    """A count that is a multiple of ALIGN, as the compiler then sees."""
    return count // ALIGN * ALIGN
