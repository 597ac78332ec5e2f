"""What products with columns abreast read: rows, by words of steps, and the values of columns, turned.

`kernel(a, portions, rows, to, sums, powers, scales, shared)` lays out one of some rows, as `abreast_sums` says.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.abreast_sums import STEPS, WORDS
from anydml.engines.cpu.kernels.digits import PORTION
from anydml.engines.cpu.kernels.fours import shuffled
from anydml.engines.cpu.kernels.steps import Steps

GROUP = 4
"""Columns and values that are turned at once."""
_LARGE, _DOWN, _UP = 0x77000000, "0x3EF0000000000000", "0x40F0000000000000"
"""The bits of 2^111, and 2^-16 and 2^16 as LLVM writes them."""
_ROW = "void @kernel(i64 %a, i64 %portions, i64 %rows, i64 %to, i64 %sums, i64 %powers, i64 %scales, i64 %shared)"


def make_floats() -> str:
    """The text of the kernel for a row of FLOAT32.

    A portion of numbers near the largest would add up to infinity before it is scaled: a row of such is multiplied with
    a power of two, and `powers` is the one that its results are multiplied with in turn, 1 for others.
    """
    text, kind, bits = Steps(), f"<{PORTION} x float>", f"<{PORTION} x i32>"
    text.add(f"%most.at = alloca {bits}, align 64", f"store {bits} zeroinitializer, ptr %most.at")
    with text.loop("q", 0, "portions"):
        found = text.new(f"load {bits}, ptr {text.place(f'a + q * {4 * PORTION}')}, align 4")
        size = text.new(f"and {bits} {found}, splat (i32 {0x7FFFFFFF})")
        text.add(
            f"store {bits} {text.call('umax', bits, [size, text.new(f'load {bits}, ptr %most.at')])}, ptr %most.at"
        )
    name = f"@llvm.vector.reduce.umax.v{PORTION}i32"
    text.declared[f"declare i32 {name}({bits})"] = None
    largest = text.new(f"call i32 {name}({bits} {text.new(f'load {bits}, ptr %most.at')})")
    is_large = text.new(f"icmp uge i32 {largest}, {_LARGE}")
    down, up = (text.new(f"select i1 {is_large}, float {power}, float 1.0") for power in (_DOWN, _UP))
    text.add(f"store float {up}, ptr {text.place('powers')}, align 4")
    factor = text.spread(down, "float", PORTION)
    with text.loop("p", 0, "portions"):
        value = text.new(f"load {kind}, ptr {text.place(f'a + p * {4 * PORTION}')}, align 4")
        value = text.new(f"fmul {kind} {value}, {factor}")
        for w in range(WORDS):
            word = shuffled(text, value, "poison", list(range(STEPS * w, STEPS * w + STEPS)), "float", PORTION)
            to = text.place(f"to + (p * {WORDS} + {w}) * rows * {4 * STEPS}")
            text.add(f"store <{STEPS} x float> {word}, ptr {to}, align 4")
    text.add("ret void")
    return text.define(_ROW)


def make_octets() -> str:
    """The same for a row that was rounded to signed bytes, with a scale for `shared` portions each."""
    text, octets = Steps(), f"<{PORTION} x i8>"
    order = [k for first in range(0, PORTION, STEPS) for half in (0, 1) for k in range(first + half, first + STEPS, 2)]
    name, wide = f"@llvm.vector.reduce.add.v{PORTION}i32", f"<{PORTION} x i32>"
    text.declared[f"declare i32 {name}({wide})"] = None
    with text.loop("p", 0, "portions"):
        a = text.new(f"load {octets}, ptr {text.place(f'a + p * {PORTION}')}, align 1")
        total = text.new(f"call i32 {name}({wide} {text.new(f'sext {octets} {a} to {wide}')})")
        total = text.new(f"sitofp i32 {total} to float")
        text.add(f"store float {total}, ptr {text.place('sums + p * rows * 4')}")
        power = text.new(f"load i32, ptr {text.place('scales + p // shared * 4')}")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * rows * 4')}")
        words = text.new(f"bitcast {octets} {shuffled(text, a, 'poison', order, 'i8', PORTION)} to <{WORDS} x i64>")
        for w in range(WORDS):
            word = text.new(f"extractelement <{WORDS} x i64> {words}, i32 {w}")
            text.add(f"store i64 {word}, ptr {text.place(f'to + (p * {WORDS} + {w}) * rows * {STEPS}')}, align 4")
    text.add("ret void")
    return text.define(_ROW)


class Turned(NamedTuple):
    """The parameters of a turning."""

    lanes: int
    """Columns of a panel."""
    kind: str
    """Of the values: `i32` for any of 32 bits; `u8` and `s8` become FLOAT32."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"turned {self.lanes} {self.kind}"


def make_turned(shape: Turned) -> str:
    """The text of `kernel(source, on, columns, count, to)`: the values of a panel's columns, side by side.

    A column's values lie side by side, `on` bytes from the next one's. The last column stands for those that there are
    not: nobody reads what is computed from them.
    """
    text, lanes = Steps(), shape.lanes
    scalar, width = ("i32", 4) if shape.kind == "i32" else ("i8", 1)
    for c in range(lanes):
        text.let(f"from_{c}", f"source + min({c}, columns - 1) * on")
    text.let("whole", f"count - count % {GROUP}")
    with text.loop("k", 0, "whole", GROUP):
        for first in range(0, lanes, GROUP):
            rows = []
            for c in range(first, first + GROUP):
                place = f"from_{c} + k * {width}"
                rows.append(text.new(f"load <{GROUP} x {scalar}>, ptr {text.place(place)}, align 1"))
                text.fetch(text.place(f"{place} + {lanes} * on"), near=2)
            pairs = [
                shuffled(text, x, y, order, scalar, GROUP)
                for x, y in ((rows[0], rows[1]), (rows[2], rows[3]))
                for order in ([0, 4, 1, 5], [2, 6, 3, 7])
            ]
            turned = [
                shuffled(text, pairs[k], pairs[k + 2], order, scalar, GROUP)
                for k in (0, 1)
                for order in ([0, 1, 4, 5], [2, 3, 6, 7])
            ]
            for i, value in enumerate(turned):
                _put(text, shape, value, f"to + (k + {i}) * {4 * lanes} + {4 * first}")
    with text.loop("t", "whole", "count"):
        for first in range(0, lanes, GROUP):
            value = "poison"
            for i in range(GROUP):
                place = text.place(f"from_{first + i} + t * {width}")
                one = text.new(f"load {scalar}, ptr {place}, align 1")
                value = text.new(f"insertelement <{GROUP} x {scalar}> {value}, {scalar} {one}, i32 {i}")
            _put(text, shape, value, f"to + t * {4 * lanes} + {4 * first}")
    text.add("ret void")
    return text.define("void @kernel(i64 %source, i64 %on, i64 %columns, i64 %count, i64 %to)")


def _put(text: Steps, shape: Turned, value: str, line: str) -> None:
    kind = "i32"
    if shape.kind != "i32":
        kind, letter = "float", shape.kind[0]
        value = text.new(f"{letter}itofp <{GROUP} x i8> {value} to <{GROUP} x float>")
    text.add(f"store <{GROUP} x {kind}> {value}, ptr {text.place(line)}, align 4")
