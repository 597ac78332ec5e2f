"""Top-k: the first few places of each line's order, kept sorted while a line is walked."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text
from anydml.engines.cpu.codegen.function import vector_of
from anydml.engines.cpu.codegen.language import load_word, make_load, make_stack, make_store, scratch, store_word
from anydml.engines.cpu.codegen.outer_loops import find_row
from anydml.engines.cpu.codegen.translate import word
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import OUTER, Layout, Pointer, dimension_words
from anydml.engines.cpu.schedules import MOST_WANTED
from anydml.ir.loops import Loops, merge, order, squeeze

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.ir.verbs import Sort


TOP = Layout("source", "target", "count", "source_step", "target_step", "wanted", "rank", OUTER)
"""As a walk's, for lines of which some elements are wanted."""


def plan_top_k(primitive: Sort) -> KernelProgram:
    """One work item for each line."""
    source, target, axis = primitive.source, primitive.target, primitive.axis
    wanted, count = target.sizes[axis], source.sizes[axis]
    widths = (source.data_type.size_in_bytes, target.data_type.size_in_bytes)
    others = [k for k in range(len(source.sizes)) if k != axis]
    loops = Loops(source.sizes, (source.strides, target.strides), (0, 0)).pick(others)
    loops = merge(order(squeeze(loops), 1))
    record = TOP.write({
        "source": Pointer(source.tensor, source.offset * widths[0]),
        "target": Pointer(target.tensor, target.offset * widths[1]),
        "count": count, "source_step": source.strides[axis] * widths[0],
        "target_step": target.strides[axis] * widths[1], "wanted": wanted, "rank": len(loops.sizes),
        "outer": dimension_words(loops.sizes, loops.strides, widths),
    })  # fmt: skip
    kind, result = kind_of(source.data_type), f"u{8 * widths[1]}"
    which = "largest" if primitive.largest else "smallest"
    make = functools.partial(make_top, kind, result, primitive.largest)
    kernel = get_kernel(f"top {kind} {result} {which}", make)
    return KernelProgram(kernel, record, loops.count, loops.count * count * widths[0])


BLOCK = 16
"""Elements that are looked at together: as soon as all places are taken, most blocks have none that comes before the
last. The 16 largest of 2^20 take 0.24 ms so, and 1.8 one by one (one thread of an Arm Neoverse-N1)."""
_INFINITIES = {16: 0x7C00, 32: 0x7F800000}


def make_key(kind: str) -> Any:
    """key(address, offset): a signed word that rises with the element; NaN is the largest, and zeros are equal."""
    bits, is_unsigned = int(kind[1:]), kind[0] == "u"

    def widen(f: Function, value: Value) -> Value:
        if bits == 64 and is_unsigned:
            return value ^ -(2**63)
        return f.cast("zext" if is_unsigned else "sext", value, "i64")

    load = make_load(f"i{bits}", widen)
    if kind[0] != "f":

        def whole(address: int, offset: int) -> Any:
            return load(address, offset)

        return whole
    infinity, rest = _INFINITIES[bits], 2 ** (bits - 1) - 1

    def real(address: int, offset: int) -> Any:
        found = load(address, offset)
        size = found & rest
        if size > infinity:
            return rest
        return -size if found < 0 else size

    return real


def make_passes(kind: str, largest: bool, each: bool) -> Any:
    """passes(source, offset, other): whether of a block an element may come before the other one, as NaN may.

    With `each` a bit for each, which takes longer: it is asked for where there are some.
    """
    sign = ("u" if kind[0] in "fu" else "s") + ("gt" if largest else "lt")

    @word
    def passes(f: Function, source: Value, offset: Value, other: Value) -> Value:
        if kind == "f16":  # which not every processor compares
            return f.value(2**BLOCK - 1, "i64")
        base, scalar = f.pointer(source), scalar_text(kind)
        block = f.load(vector_of(BLOCK, scalar), base + offset, align=1)
        found = f.compare(sign, block, f.splat(f.load(scalar, base + other, align=1), BLOCK))
        return f.cast("zext", f.bitcast(found, f"i{BLOCK}") if each else f.reduce("or", found), "i64")

    return passes


lowest = word(lambda f, mask: f.intrinsic("cttz.i64", mask, f.value(1, "i1")))
"""The number of the lowest bit that is set."""


def make_top(kind: str, result: str, largest: bool) -> Any:
    """The kernel; results are unsigned words of so many bits."""
    key, stack = make_key(kind), make_stack(16 * MOST_WANTED)
    passes, passing = (make_passes(kind, largest, each) for each in (False, True))
    element = int(kind[1:]) // 8
    width = int(result[1:])
    store = make_store(lambda f, value: f.cast("trunc", value, f"i{width}"))

    def kernel(words: int, begin: int, end: int) -> int:
        w = TOP(words)
        count, wanted, rank, source_step, target_step = w.count, w.wanted, w.rank, w.source_step, w.target_step
        keys, at = stack(), scratch()
        places = keys + 8 * MOST_WANTED
        for unit in range(begin, end):
            source_on, target_on = find_row(w.outer, rank, unit, at)
            source, target = w.source + source_on, w.target + target_on
            held, least = 0, 0
            done = 0
            while done < count:
                size, rest = 1, 1
                if held == wanted and source_step == element and count - done >= BLOCK:
                    size, last = BLOCK, load_word(places, 8 * (wanted - 1)) * source_step
                    while count - done >= 2 * BLOCK and passes(source, done * source_step, last) == 0:
                        done += BLOCK
                    rest = passing(source, done * source_step, last)
                while rest != 0:
                    i = done + lowest(rest)
                    rest = rest & (rest - 1)
                    found = key(source, i * source_step)
                    if not largest:
                        found = -1 - found
                    if held < wanted or found > least:
                        p = held if held < wanted else wanted - 1
                        while p > 0 and load_word(keys, 8 * (p - 1)) < found:
                            store_word(keys, 8 * p, load_word(keys, 8 * (p - 1)))
                            store_word(places, 8 * p, load_word(places, 8 * (p - 1)))
                            p -= 1
                        store_word(keys, 8 * p, found)
                        store_word(places, 8 * p, i)
                        held = held + 1 if held < wanted else held
                        least = load_word(keys, 8 * (held - 1))
                done += size
            for p in range(wanted):
                store(target, p * target_step, load_word(places, 8 * p))
        return 0

    return kernel
