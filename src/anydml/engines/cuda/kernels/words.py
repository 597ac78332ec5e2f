"""How programs speak with one another: through words in memory, each half a number and the tag of this very run.

A word is either whole or not there yet. Parts of a chain are grouped: within a group the totals of those before are
added up, and the last of a group hands the total of all on to the next group.
"""

import triton
import triton.language as tl

from anydml.engines.cuda.kernels.tally import combine, total_of

HEADER = tl.constexpr(16)
"""Words before those of the groups: the number of runs so far, and how many chains of this one are done."""
TAG = tl.constexpr(32)
"""The bit from which on a word holds its tag."""
HALF = tl.constexpr(0xFFFF_FFFF)


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
    missing = 1
    while missing > 0:
        low = tl.load(words, mask=mask, other=0, volatile=True)
        high = tl.load(words + ROOM, mask=mask, other=0, volatile=True)
        missing = tl.sum(tl.ravel((is_missing(low, high, tag) & mask).to(tl.int32)), 0)
    # Read again, after they were seen: the compiler may load what it needs in two layouts twice, at different times.
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
def learn(
    words,
    tag,
    neutral,
    chain,
    chains,
    part,
    groups,
    ACCUMULATOR: tl.constexpr,
    PRODUCT: tl.constexpr,
    GROUP: tl.constexpr,
):
    """The total of all parts before this one."""
    ROOM: tl.constexpr = neutral.shape[0]
    lines = tl.arange(0, ROOM)
    within = part % GROUP
    group = chain.to(tl.int64) * groups + part // GROUP
    inner = neutral
    if within > 0:
        each = tl.arange(0, GROUP)[:, None]
        mask = (each < within) & (lines < ROOM)[None, :]
        totals = words + HEADER + group * (2 * ROOM * GROUP) + each * (2 * ROOM) + lines[None, :]
        found = receive(totals, tag, mask, ACCUMULATOR, ROOM)
        inner = total_of(tl.where(mask, found, tl.broadcast_to(neutral[None, :], (GROUP, ROOM))), 0, PRODUCT)
    handed = neutral
    if part >= GROUP:
        place_of_handed = words + HEADER + (chains.to(tl.int64) * groups * GROUP + group) * (2 * ROOM)
        if ROOM == 1:
            handed = combine(neutral, receive_one(place_of_handed, tag, ACCUMULATOR), PRODUCT)
        else:
            handed = receive(place_of_handed + lines, tag, lines < ROOM, ACCUMULATOR, ROOM)
    return combine(handed, inner, PRODUCT)


@triton.jit
def tell(
    words,
    tag,
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
    """Let those that follow know the total of a part; the last of a group hands everything on to the next group."""
    ROOM: tl.constexpr = neutral.shape[0]
    lines = tl.arange(0, ROOM)
    within = part % GROUP
    group = chain.to(tl.int64) * groups + part // GROUP
    publish(words + HEADER + (group * GROUP + within) * (2 * ROOM) + lines, total, tag, ROOM)
    if (within == GROUP - 1) & (part < parts - 1):
        before = learn(words, tag, neutral, chain, chains, part, groups, ACCUMULATOR, PRODUCT, GROUP)
        next_handed = words + HEADER + (chains.to(tl.int64) * groups * GROUP + group + 1) * (2 * ROOM)
        publish(next_handed + lines, combine(before, total, PRODUCT), tag, ROOM)
