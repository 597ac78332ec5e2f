"""What products with columns abreast read: rows, by words of steps, and the values of columns, turned.

`kernel(a, portions, rows, to, sums, powers, scales, shared)` lays out one of some rows, as `abreast_sums` says.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.abreast_sums import STEPS, WORDS
from anydml.engines.cpu.kernels.digits import PORTION
from anydml.engines.cpu.kernels.fours import shuffled
from anydml.engines.cpu.kernels.steps import Steps

FOUR = 4
"""Lanes that an x86 moves within."""
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
    """Of the values: `f32` for any of 32 bits; `u8` and `s8` become FLOAT32."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"turned {self.lanes} {self.kind}"

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return int(self.kind[1:]) // 8


def make_turned(shape: Turned) -> str:
    """The text of `kernel(source, on, columns, count, to)`: the values of a panel's columns, side by side.

    A column's values lie side by side, `on` bytes from the next one's. The last column stands for those that there are
    not: nobody reads what is computed from them.
    """
    text, lanes = Steps(), shape.lanes
    for c in range(lanes):
        text.let(f"from_{c}", f"source + min({c}, columns - 1) * on")
    text.let("whole", f"count - count % {lanes}")
    with text.loop("k", 0, "whole", lanes):
        rows = [_read(text, shape, f"from_{c} + k * {shape.width}", lanes) for c in range(lanes)]
        for i, value in enumerate(_transposed(text, rows)):
            text.add(f"store <{lanes} x float> {value}, ptr {text.place(f'to + (k + {i}) * {4 * lanes}')}, align 4")
    with text.loop("t", "whole", "count"), text.loop("c", 0, lanes):
        one = _read(text, shape, f"source + min(c, columns - 1) * on + t * {shape.width}", 1)
        text.add(f"store <1 x float> {one}, ptr {text.place(f'to + (t * {lanes} + c) * 4')}, align 4")
    text.add("ret void")
    return text.define("void @kernel(i64 %source, i64 %on, i64 %columns, i64 %count, i64 %to)")


def _read(text: Steps, shape: Turned, line: str, count: int) -> str:
    """Some values of a column."""
    kind = "float" if shape.width == 4 else "i8"
    found = text.new(f"load <{count} x {kind}>, ptr {text.place(line)}, align 1")
    if kind == "float":
        return found
    return text.new(f"{shape.kind[0]}itofp <{count} x i8> {found} to <{count} x float>")


def _transposed(text: Steps, rows: list[str]) -> list[str]:
    """8 vectors of 8 lanes, or 16 of 16, the other way: what lies in fours of four at a time, then whole fours."""
    lanes = len(rows)

    def pick(a: str, b: str, order: list[int], size: int) -> str:
        """Pieces of so many lanes each, of the second vector from the number of the first one's on."""
        return shuffled(text, a, b, [piece * size + k for piece in order for k in range(size)], "float", lanes)

    def within(a: str, b: str, first: list[int], size: int) -> str:
        """The same pieces of each four lanes of both vectors, in turn."""
        starts = range(0, lanes // size, FOUR // size)
        return pick(a, b, [start + k + side for start in starts for k in first for side in (0, lanes // size)], size)

    fours = []  # by four rows, each of four vectors: of every four lanes one, of all four rows
    for g in range(0, lanes, FOUR):
        a, b, c, d = rows[g : g + FOUR]
        halves = [(within(a, b, half, 1), within(c, d, half, 1)) for half in ([0, 1], [2, 3])]
        fours.append([within(low, high, [k], 2) for low, high in halves for k in (0, 1)])
    made = [""] * lanes
    for j in range(FOUR):
        a, b, *others = (four[j] for four in fours)
        for k in (0, 1):
            if not others:
                made[FOUR * k + j] = pick(a, b, [k, 2 + k], FOUR)
                continue
            low, high = (pick(x, y, [k, k + 2, k + 4, k + 6], FOUR) for x, y in ((a, b), (others[0], others[1])))
            for h in (0, 1):
                made[FOUR * (k + 2 * h) + j] = pick(low, high, [h, h + 2, h + 4, h + 6], FOUR)
    return made
