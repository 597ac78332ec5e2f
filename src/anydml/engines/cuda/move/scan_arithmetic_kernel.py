"""The arithmetic of scans: sums and products of a tile, in all, and running along it from a carry on."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def combine(a, b, PRODUCT: tl.constexpr):
    """The sum or the product."""
    if PRODUCT:
        return a * b
    return a + b


@triton.jit
def total_of(numbers, AXIS: tl.constexpr, PRODUCT: tl.constexpr):
    """The sum or the product along an axis."""
    return tl.reduce(numbers, AXIS, multiply if PRODUCT else add)


@triton.jit
def neutral_of(TYPE: tl.constexpr, PRODUCT: tl.constexpr, COUNT: tl.constexpr):
    """The neutral element; for a sum of floats -0.0, which leaves -0.0 as it is too.

    It is made of its bits: a literal -0.0 becomes 0.0 on its way through the compiler.
    """
    if PRODUCT:
        return tl.full((COUNT,), 1, TYPE)
    if tl.float64 == TYPE:
        return tl.full((COUNT,), -0x8000_0000_0000_0000, tl.int64).to(TYPE, bitcast=True)
    if tl.float32 == TYPE:
        return tl.full((COUNT,), -0x8000_0000, tl.int32).to(TYPE, bitcast=True)
    if tl.float16 == TYPE:
        return tl.full((COUNT,), -0x8000, tl.int16).to(TYPE, bitcast=True)
    return tl.zeros((COUNT,), TYPE)


@triton.jit
def add_before(total, before, other_total, other_before):
    """Totals, and beside each the total of what comes before it."""
    return total + other_total, total + other_before


@triton.jit
def multiply_before(total, before, other_total, other_before):
    return total * other_total, total * other_before


@triton.jit
def scan_of_rows(numbers, carry, PRODUCT: tl.constexpr):
    """The running sum or product along each row, from a carry on, and the carry after it."""
    last: tl.constexpr = numbers.shape[1] - 1
    order = tl.arange(0, numbers.shape[1])[None, :]
    numbers = tl.where(order == 0, combine(carry[:, None], numbers, PRODUCT), numbers)
    result = tl.cumprod(numbers, 1) if PRODUCT else tl.cumsum(numbers, 1)
    # All but one are neutral: a sum that the compiler sees through.
    neutral = neutral_of(numbers.dtype, PRODUCT, numbers.shape[0])[:, None]
    return result, total_of(tl.where(order == last, result, neutral), 1, PRODUCT)


@triton.jit
def scan_of_columns(numbers, carry, PRODUCT: tl.constexpr):
    """The same along each column: the first dimension counts the pieces of a column, which are a warp's each.

    A thread has whole columns of its piece, so that nothing but a piece's total crosses over to other threads.
    """
    pieces: tl.constexpr = numbers.shape[0]
    neutral = neutral_of(numbers.dtype, PRODUCT, numbers.shape[2])[None, :]
    before = carry[None, :]
    if pieces > 1:
        piece = tl.arange(0, pieces)[:, None]
        totals = total_of(numbers, 1, PRODUCT)
        totals = tl.where(piece == 0, combine(before, totals, PRODUCT), totals)
        before = tl.where(piece == 0, before, neutral)
        if PRODUCT:
            totals, before = tl.associative_scan((totals, before), 0, multiply_before)
        else:
            totals, before = tl.associative_scan((totals, before), 0, add_before)
        carry = total_of(tl.where(piece == pieces - 1, totals, neutral), 0, PRODUCT)
    order = tl.arange(0, numbers.shape[1])[None, :, None]
    numbers = tl.where(order == 0, combine(before[:, None, :], numbers, PRODUCT), numbers)
    result = tl.cumprod(numbers, 1) if PRODUCT else tl.cumsum(numbers, 1)
    if pieces == 1:
        last = tl.where(order == numbers.shape[1] - 1, result, neutral[:, None, :])
        carry = total_of(total_of(last, 1, PRODUCT), 0, PRODUCT)
    return result, carry


@triton.jit
def scan_of_fours(numbers, carry, is_start, PRODUCT: tl.constexpr, EXCLUSIVE: tl.constexpr):
    """The same for a row in groups of four neighbours, on from group to group and backwards within each.

    A group is one thread's, so that taking it apart and putting it together again moves nothing: a tile that the
    compiler turned round would cost 20 shuffles an element. `is_start` says that nothing comes before.
    """
    groups: tl.constexpr = numbers.shape[0]
    left, right = tl.split(tl.permute(tl.reshape(numbers, (groups, 2, 2)), (0, 2, 1)))
    first, second = tl.split(left)
    third, fourth = tl.split(right)
    third_on = combine(fourth, third, PRODUCT)
    second_on = combine(third_on, second, PRODUCT)
    first_on = combine(second_on, first, PRODUCT)
    order = tl.arange(0, groups)
    neutral = neutral_of(numbers.dtype, PRODUCT, 1)
    totals = tl.where(order == 0, combine(carry, first_on, PRODUCT), first_on)
    before = tl.where(order == 0, carry, neutral)
    if PRODUCT:
        totals, before = tl.associative_scan((totals, before), 0, multiply_before)
    else:
        totals, before = tl.associative_scan((totals, before), 0, add_before)
    after = combine(neutral, total_of(tl.where(order == groups - 1, totals, neutral), 0, PRODUCT), PRODUCT)
    second_on = combine(before, second_on, PRODUCT)
    third_on = combine(before, third_on, PRODUCT)
    fourth_on = combine(before, fourth, PRODUCT)
    if EXCLUSIVE:
        if not PRODUCT:  # the sum of nothing is 0, and not -0.0
            before = tl.where((order == 0) & is_start, tl.zeros((groups,), numbers.dtype), before)
        left = tl.join(second_on, third_on)
        right = tl.join(fourth_on, before)
    else:
        left = tl.join(totals, second_on)
        right = tl.join(third_on, fourth_on)
    return tl.reshape(tl.permute(tl.join(left, right), (0, 2, 1)), (groups, 4)), after


@triton.jit
def normalise(number, exponent):
    """A float64 between 1 and 2 with its exponent apart, so that no product leaves its range on the way."""
    bits = number.to(tl.int64, bitcast=True)
    biased = (bits >> 52) & 0x7FF
    is_special = (biased == 0) | (biased == 0x7FF)
    plain = ((bits & -0x7FF0_0000_0000_0001) | 0x3FF0_0000_0000_0000).to(tl.float64, bitcast=True)
    return tl.where(is_special, number, plain), tl.where(is_special, 0, exponent + biased - 1023)


@triton.jit
def multiply_apart(a, a_exponent, b, b_exponent):
    return normalise(a * b, a_exponent + b_exponent)


@triton.jit
def join(number, exponent):
    """The float64 nearest to a number with its exponent apart, as far as a float32 can tell."""
    power = ((tl.minimum(tl.maximum(exponent, -1000), 1000) + 1023) << 52).to(tl.float64, bitcast=True)
    return number * power


@triton.jit
def join_wide(number, exponent):
    """The float64 nearest to a number with its exponent apart, in two steps: a power of 2 alone reaches half as far."""
    exponent = tl.minimum(tl.maximum(exponent, -2000), 2000)
    return join(join(number, exponent >> 1), exponent - (exponent >> 1))


@triton.jit
def scan_apart(numbers, carry, carry_exponent, ROWS: tl.constexpr):
    """The running product of floats with their exponents apart, and the carry after it."""
    numbers, exponents = normalise(numbers, tl.zeros(numbers.shape, tl.int64))
    result, result_exponents = tl.associative_scan((numbers, exponents), 1, multiply_apart)
    before = carry[:, None] if ROWS else carry[None, None, :]
    before_exponent = carry_exponent[:, None] if ROWS else carry_exponent[None, None, :]
    result, result_exponents = multiply_apart(before, before_exponent, result, result_exponents)
    total, exponent = tl.reduce((numbers, exponents), 1, multiply_apart)
    if not ROWS:
        total, exponent = tl.reduce((total, exponent), 0, multiply_apart)
    total, exponent = multiply_apart(carry, carry_exponent, total, exponent)
    return join(result, result_exponents), total, exponent
