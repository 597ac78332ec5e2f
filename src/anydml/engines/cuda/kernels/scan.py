"""Running sums and products: programs scan parts of the axis, and hand their totals on along it.

A program learns what lies before it from words in memory, each half a number and the tag of this very run, so that a
word is either whole or not there yet. Programs are grouped: within a group each adds up the totals of those before it,
and the last of a group hands the total of all on to the next group. The order of additions is fixed by the shape
alone, so the same bits come out of every run.
"""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.places import known, place

HEADER = tl.constexpr(16)
"""Words before those of the tiles: the number of runs so far, and how many programs of this one are done."""
TAG = tl.constexpr(32)
HALF = tl.constexpr(0xFFFF_FFFF)


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
    """What leaves every number as it is; for a sum of floats -0.0, which leaves -0.0 as it is too.

    It is made of its bits: a literal -0.0 becomes 0.0 on its way through the compiler.
    """
    if PRODUCT:
        return tl.full((COUNT,), 1, TYPE)
    if TYPE == tl.float64:
        return tl.full((COUNT,), -0x8000_0000_0000_0000, tl.int64).to(TYPE, bitcast=True)
    if TYPE == tl.float32:
        return tl.full((COUNT,), -0x8000_0000, tl.int32).to(TYPE, bitcast=True)
    if TYPE == tl.float16:
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
    """The same along each column: the first dimension counts the parts of a column, which are a warp's each.

    A thread has whole columns of its part, so that nothing but a part's total crosses over to other threads.
    """
    parts: tl.constexpr = numbers.shape[0]
    neutral = neutral_of(numbers.dtype, PRODUCT, numbers.shape[2])[None, :]
    before = carry[None, :]
    if parts > 1:
        part = tl.arange(0, parts)[:, None]
        totals = total_of(numbers, 1, PRODUCT)
        totals = tl.where(part == 0, combine(before, totals, PRODUCT), totals)
        before = tl.where(part == 0, before, neutral)
        if PRODUCT:
            totals, before = tl.associative_scan((totals, before), 0, multiply_before)
        else:
            totals, before = tl.associative_scan((totals, before), 0, add_before)
        carry = total_of(tl.where(part == parts - 1, totals, neutral), 0, PRODUCT)
    order = tl.arange(0, numbers.shape[1])[None, :, None]
    numbers = tl.where(order == 0, combine(before[:, None, :], numbers, PRODUCT), numbers)
    result = tl.cumprod(numbers, 1) if PRODUCT else tl.cumsum(numbers, 1)
    if parts == 1:
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


@triton.jit
def publish(words, number, tag, ROOM: tl.constexpr):
    """Put numbers of 64 bits down as two rows of words, each with half of a number and the tag."""
    bits = number.to(tl.int64, bitcast=True)
    tl.atomic_xchg(words, (tag << TAG) | (bits & HALF), sem="relaxed")
    tl.atomic_xchg(words + ROOM, (tag << TAG) | ((bits >> TAG) & HALF), sem="relaxed")


@triton.jit
def is_missing(low, high, tag):
    """Whether a number is not published yet."""
    return ((low >> TAG) != tag) | ((high >> TAG) != tag)


@triton.jit
def whole_of(low, high, ACCUMULATOR: tl.constexpr):
    """A number of its two words."""
    return ((high << TAG) | (low & HALF)).to(ACCUMULATOR, bitcast=True)


@triton.jit
def receive(words, tag, mask, ACCUMULATOR: tl.constexpr, ROOM: tl.constexpr):
    """Wait for numbers to be published."""
    low = tl.load(words, mask=mask, other=0, volatile=True)
    high = tl.load(words + ROOM, mask=mask, other=0, volatile=True)
    missing = tl.sum(tl.ravel((is_missing(low, high, tag) & mask).to(tl.int32)), 0)
    if missing > 0:
        while missing > 0:
            low = tl.load(words, mask=mask, other=0, volatile=True)
            high = tl.load(words + ROOM, mask=mask, other=0, volatile=True)
            missing = tl.sum(tl.ravel((is_missing(low, high, tag) & mask).to(tl.int32)), 0)
        # Once more: the compiler cannot carry them out of the loop.
        low = tl.load(words, mask=mask, other=0, volatile=True)
        high = tl.load(words + ROOM, mask=mask, other=0, volatile=True)
    return whole_of(low, high, ACCUMULATOR)


@triton.jit
def receive_one(words, tag, ACCUMULATOR: tl.constexpr):
    """Wait for a single number, which is quicker."""
    low = tl.load(words, volatile=True)
    high = tl.load(words + 1, volatile=True)
    while is_missing(low, high, tag):
        low = tl.load(words, volatile=True)
        high = tl.load(words + 1, volatile=True)
    return whole_of(low, high, ACCUMULATOR)


@triton.jit
def hand_on(
    words,
    tag,
    total,
    neutral,
    chain,
    chains,
    program,
    programs,
    groups,
    ACCUMULATOR: tl.constexpr,
    PRODUCT: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Tell the programs that follow the total of this one; learn the total of all before it.

    A group has a slot for what it is handed, and one for the total of each of its programs but the last.
    """
    ROOM: tl.constexpr = neutral.shape[0]
    lines = tl.arange(0, ROOM)
    program = program.to(tl.int64)
    group = program // GROUP
    within = program % GROUP
    slots = words + HEADER + (chain.to(tl.int64) * groups + group) * (2 * ROOM * GROUP)
    if within < GROUP - 1:
        publish(slots + (within + 1) * (2 * ROOM) + lines, total, tag, ROOM)
    inner = neutral
    if within > 0:
        each = tl.arange(0, GROUP)
        mask = ((each > 0) & (each <= within))[:, None] & (lines < ROOM)[None, :]
        found = receive(slots + (each * (2 * ROOM))[:, None] + lines[None, :], tag, mask, ACCUMULATOR, ROOM)
        inner = total_of(tl.where(mask, found, tl.broadcast_to(neutral[None, :], (GROUP, ROOM))), 0, PRODUCT)
    whole = combine(inner, total, PRODUCT)
    handed = neutral
    if group > 0:
        if ROOM == 1:
            handed = combine(neutral, receive_one(slots, tag, ACCUMULATOR), PRODUCT)
        else:
            handed = receive(slots + lines, tag, lines < ROOM, ACCUMULATOR, ROOM)
    if (within == GROUP - 1) & (program < programs - 1):
        publish(slots + 2 * ROOM * GROUP + lines, combine(handed, whole, PRODUCT), tag, ROOM)
    if program == programs - 1:
        if tl.atomic_add(words + 1, 1, sem="acq_rel") == chains - 1:
            tl.store(words + 1, 0)
            tl.store(words, tag)
    return combine(handed, inner, PRODUCT)


@triton.jit
def tile_of(
    lines,
    across,
    tile,
    length,
    stride,
    SHIFT: tl.constexpr,
    ALIGN: tl.constexpr,
    LENGTH_ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT: tl.constexpr,
    PARTS: tl.constexpr,
    ALONG: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Where a tile's elements lie, `SHIFT` further on in the walk, and which of them are there and in the tile still.

    Rows make a tile of lines by elements, columns one of parts by elements by lines. A REVERSE walk is along one row,
    and its tile is of groups of four neighbours, each group further down. `across` says which lines there are.
    """
    WHOLE: tl.constexpr = PARTS * ALONG
    present = known(tl.minimum(length - tile * WHOLE, WHOLE).to(tl.int32), LENGTH_ALIGN)
    if REVERSE:
        steps = (tl.arange(0, ALONG // 4) * 4)[:, None]
        four = tl.arange(0, 4)[None, :]
        at = (lines + (length - (tile + 1) * ALONG))[:, None] + (ALONG - 4 - steps) + four
        is_there = steps < present if LENGTH_ALIGN >= 4 else steps + (3 - four) < present
        mask = across[:, None] & is_there
    elif ROWS:
        start = tile * ALONG + SHIFT
        steps = tl.arange(0, ALONG)[None, :]
        mask = across[:, None] & (steps < present - SHIFT)
        if UNIT:
            at = (lines + start)[:, None] + steps
        else:
            at = (lines + start * stride * ALIGN)[:, None] + steps * stride * ALIGN
    else:
        start = tile * WHOLE + SHIFT
        steps = tl.arange(0, PARTS)[:, None, None] * ALONG + tl.arange(0, ALONG)[None, :, None]
        mask = across[None, None, :] & (steps < present - SHIFT)
        at = (lines + start * stride * ALIGN)[None, None, :] + steps * stride * ALIGN
    return at, mask


@triton.jit
def read_tile(
    source,
    lines,
    across,
    tile,
    length,
    stride,
    PRODUCT: tl.constexpr,
    ALIGN: tl.constexpr,
    LENGTH_ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT: tl.constexpr,
    PARTS: tl.constexpr,
    ALONG: tl.constexpr,
    REVERSE: tl.constexpr,
    FULL: tl.constexpr,
):
    """A tile's elements, and the neutral one for those that are not there."""
    at, mask = tile_of(
        lines, across, tile, length, stride, 0, ALIGN, LENGTH_ALIGN, ROWS, UNIT, PARTS, ALONG, REVERSE
    )  # fmt: skip
    if FULL:
        value = tl.load(source + at)
    else:
        blank = neutral_of(source.dtype.element_ty, PRODUCT, 1)
        blank = tl.broadcast_to(blank[None, :] if ROWS else blank[None, None, :], at.shape)
        value = tl.load(source + at, mask=mask, other=blank)
    return value


@triton.jit
def scan_tiles(
    source,
    target,
    words,
    length,
    source_along,
    target_along,
    across,
    source_across,
    target_across,
    across_blocks,
    chains,
    steps,
    programs,
    groups,
    sizes,
    source_strides,
    target_strides,
    ACCUMULATOR: tl.constexpr,
    PRODUCT: tl.constexpr,
    APART: tl.constexpr,
    EXCLUSIVE: tl.constexpr,
    REVERSE: tl.constexpr,
    ROWS: tl.constexpr,
    UNIT: tl.constexpr,
    SOURCE_ALIGN: tl.constexpr,
    TARGET_ALIGN: tl.constexpr,
    COUNT_ALIGN: tl.constexpr,
    ALONG: tl.constexpr,
    ACROSS: tl.constexpr,
    PARTS: tl.constexpr,
    FULL: tl.constexpr,
    ONCE: tl.constexpr,
    GROUP: tl.constexpr,
):
    """`steps` tiles, one after the other, each of `ALONG` elements of the axis by `ACROSS` lines; ONCE, one tile.

    ROWS has the axis innermost; UNIT says that the innermost stride is 1. REVERSE, of one such row, walks from the end.
    Columns are cut in PARTS, one a warp. FULL, no tile reaches past the last element. Where a chain of lines takes
    several programs they hand on in groups; a GROUP of 0 stands for one program a chain. APART, of columns in one
    part or of rows, a float's exponent is kept beside it.
    """
    LENGTH_ALIGN: tl.constexpr = COUNT_ALIGN if UNIT and ROWS else 1
    ACROSS_ALIGN: tl.constexpr = 1 if UNIT and ROWS else COUNT_ALIGN
    chains = chains.to(tl.int32)
    chain = tl.program_id(0) % chains
    program = tl.program_id(0) // chains
    across_blocks = across_blocks.to(tl.int32)
    lines = (chain % across_blocks).to(tl.int64) * ACROSS + tl.arange(0, ACROSS)
    outer = chain // across_blocks
    length = known(length, LENGTH_ALIGN)
    is_line = lines < known(across, ACROSS_ALIGN)
    source_lines = place(outer, sizes, source_strides, SOURCE_ALIGN)
    target_lines = place(outer, sizes, target_strides, TARGET_ALIGN)
    if UNIT and not ROWS:
        source_lines += lines
        target_lines += lines
    else:
        source_lines += lines * source_across * SOURCE_ALIGN
        target_lines += lines * target_across * TARGET_ALIGN

    neutral = neutral_of(ACCUMULATOR, PRODUCT, ACROSS)
    carry = neutral
    carry_exponent = tl.zeros((ACROSS,), tl.int64)
    tile = program.to(tl.int64)
    steps_here = 1
    if not ONCE:
        tile *= steps
        steps_here = steps.to(tl.int32)
    value = read_tile(
        source, source_lines, is_line, tile, length, source_along,
        PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PARTS, ALONG, REVERSE, FULL,
    )  # fmt: skip

    if GROUP > 0:
        tag = (tl.load(words) + 1) & 0x7FFF_FFFF
        total = neutral
        for step in range(0, steps_here):
            numbers = value.to(ACCUMULATOR)
            if not ONCE:  # the next tile is on its way while this one is added up, and after the last the first again
                value = read_tile(
                    source, source_lines, is_line, tile + (step + 1) % steps_here, length, source_along,
                    PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PARTS, ALONG, REVERSE, FULL,
                )  # fmt: skip
            here = total_of(numbers, 1, PRODUCT)
            if REVERSE or not ROWS:
                here = total_of(here, 0, PRODUCT)
            total = combine(total, here, PRODUCT)
        carry = hand_on(
            words, tag, total, neutral, chain, chains, program, programs, groups, ACCUMULATOR, PRODUCT, GROUP
        )

    for step in range(0, steps_here):
        numbers = value.to(ACCUMULATOR)
        if not ONCE:  # past the last there is the last again, which nobody looks at
            value = read_tile(
                source, source_lines, is_line, tile + tl.minimum(step + 1, steps_here - 1), length, source_along,
                PRODUCT, SOURCE_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PARTS, ALONG, REVERSE, FULL,
            )  # fmt: skip
        opening = carry
        if APART:
            opening = join(carry, carry_exponent)
            result, carry, carry_exponent = scan_apart(numbers, carry, carry_exponent, ROWS)
        elif REVERSE:
            result, carry = scan_of_fours(numbers, carry, tile + step == 0, PRODUCT, EXCLUSIVE)
        elif ROWS:
            result, carry = scan_of_rows(numbers, carry, PRODUCT)
        else:
            result, carry = scan_of_columns(numbers, carry, PRODUCT)
        SHIFT: tl.constexpr = 1 if EXCLUSIVE and not REVERSE else 0
        if SHIFT:
            # What is summed up to an element is written to the next one; the tile's first gets what came before it.
            first = (tile + step) * (PARTS * ALONG)
            if not PRODUCT:  # the sum of nothing is 0, and not -0.0
                opening = tl.where(first == 0, tl.zeros(opening.shape, ACCUMULATOR), opening)
            at = target_lines + first if UNIT and ROWS else target_lines + first * target_along * TARGET_ALIGN
            tl.store(target + at, opening.to(target.dtype.element_ty), mask=is_line & (first < length))
        at, mask = tile_of(
            target_lines, is_line, tile + step, length, target_along, SHIFT,
            TARGET_ALIGN, LENGTH_ALIGN, ROWS, UNIT, PARTS, ALONG, REVERSE,
        )  # fmt: skip
        result = result.to(target.dtype.element_ty)
        if FULL and not SHIFT:
            tl.store(target + at, result)
        else:
            tl.store(target + at, result, mask=mask)
