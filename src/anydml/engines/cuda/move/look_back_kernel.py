"""Decoupled look-back: programs publish totals in words of memory, two to a number, each with the tag of this very
run.
"""

from __future__ import annotations

import triton
import triton.language as tl

from anydml.engines.cuda.move.scan_arithmetic_kernel import combine, total_of

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
HEADER = tl.constexpr(16)
"""Words before those of the groups: the number of runs so far, below 2^31, and how many chains of this one are done."""
TAG = tl.constexpr(32)
"""The bit from which on a word holds its tag."""
HALF = tl.constexpr(0xFFFF_FFFF)

# In assembly, because the compiler may load what it needs in two layouts twice, at different times: then what is used
# was not what was looked at. And 16 bytes at once, which a load of Triton's is not.
READ = tl.constexpr("""{
    .reg .pred wanted;
    setp.ne.s32 wanted, $3, 0;
    mov.u64 $0, 0;
    mov.u64 $1, 0;
    @wanted ld.relaxed.gpu.global.v2.u64 {$0, $1}, [$2];
}""")
WRITE = tl.constexpr("""{
    mov.u32 $0, 0;
    st.relaxed.gpu.global.v2.u64 [$1], {$2, $3};
}""")


@triton.jit
def publish(words, number, tag):
    """Put numbers of 64 bits down, each as two words with half of it and the tag."""
    bits = number.to(tl.int64, bitcast=True)
    low = (tag << TAG) | (bits & HALF)
    high = (tag << TAG) | ((bits >> TAG) & HALF)
    if INTERPRETED or number.shape[0] == 1:  # an exchange of one is there sooner than a store: 0.83 instead of 0.68
        tl.atomic_xchg(words, low, sem="relaxed")
        tl.atomic_xchg(words + 1, high, sem="relaxed")
    else:  # of many it is the other way round: 0.76 instead of 0.72
        tl.inline_asm_elementwise(
            WRITE, "=r,l,l,l", [words.to(tl.int64), low, high], dtype=tl.int32, is_pure=False, pack=1
        )


@triton.jit
def look(words, mask):
    """The two words of each number, as they are now."""
    if INTERPRETED:
        low = tl.load(words, mask=mask, other=0)
        high = tl.load(words + 1, mask=mask, other=0)
    else:
        low, high = tl.inline_asm_elementwise(
            READ,
            "=&l,=&l,l,r",
            [words.to(tl.int64), mask.to(tl.int32)],
            dtype=(tl.int64, tl.int64),
            is_pure=False,
            pack=1,
        )
    return low, high


@triton.jit
def is_missing(low, high, tag):
    """Whether a number is not published yet."""
    return ((low >> TAG) != tag) | ((high >> TAG) != tag)


@triton.jit
def receive(words, tag, mask, ACCUMULATOR: tl.constexpr):
    """Wait for numbers to be published."""
    low, high = look(words, mask)
    while tl.sum(tl.ravel((is_missing(low, high, tag) & mask).to(tl.int32)), 0) > 0:
        low, high = look(words, mask)
    return ((high << TAG) | (low & HALF)).to(ACCUMULATOR, bitcast=True)


@triton.jit
def exchange(
    words,
    runs,
    total,
    neutral,
    chain,
    chains,
    part,
    parts,
    groups,
    ACCUMULATOR: tl.constexpr,
    PRODUCT: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Let those that follow know the total of a part, and learn that of all parts before it.

    The last part of a chain knows that all others of it have told, and read how many runs there were. Whose chain is
    the last to get here leaves everything as the next run wants it.
    """
    ROOM: tl.constexpr = neutral.shape[0]
    lines = tl.arange(0, ROOM)
    tag = (runs + 1) & 0x7FFF_FFFF
    within = part % GROUP
    group = chain.to(tl.int64) * groups + part // GROUP
    totals = words + HEADER + group * (2 * ROOM * GROUP)
    handed = words + HEADER + (chains.to(tl.int64) * groups * GROUP + group) * (2 * ROOM)
    publish(totals + within * (2 * ROOM) + 2 * lines, total, tag)

    each = tl.arange(0, 2 * GROUP)[:, None]
    mask = ((each < within) | ((each == GROUP) & (part >= GROUP))) & (lines < ROOM)[None, :]
    places = tl.where(each < GROUP, totals + each * (2 * ROOM), handed) + 2 * lines[None, :]
    found = receive(places, tag, mask, ACCUMULATOR)
    before = total_of(tl.where(mask, found, tl.broadcast_to(neutral[None, :], found.shape)), 0, PRODUCT)
    if (within == GROUP - 1) & (part < parts - 1):
        publish(handed + 2 * ROOM + 2 * lines, combine(before, total, PRODUCT), tag)
    if part == parts - 1:
        if tl.atomic_add(words + 1, 1, sem="acq_rel") == chains - 1:
            tl.store(words + 1, 0)
            tl.store(words, tag)
    return before


@triton.jit
def held(value, runs):
    """The same value, from here on.

    What was made of it before is made again: the compiler, which does not know how many runs there can be, would
    otherwise keep the float64 of every element in registers while it waits.
    """
    nothing = runs >> TAG
    if value.dtype.is_floating():
        width: tl.constexpr = value.dtype.primitive_bitwidth
        bits: tl.constexpr = tl.int16 if width == 16 else tl.int32 if width == 32 else tl.int64
        value = (value.to(bits, bitcast=True) + nothing.to(bits)).to(value.dtype, bitcast=True)
    else:
        value += nothing.to(value.dtype)
    return value
