"""Products of bytes, four steps at a time: a CPU's dot instructions add four products to each 32-bit sum.

A packed step is four steps of the folded dimension side by side, 0 where there are no more: the step of a tile, whose
elements have 32 bits. Bytes are of the signs that the instruction wants, a byte of the other sign less or plus 128. So
with a' = a - s and za' = za - s the sum of (a - za)·(b - zb) is that of a'·b', less zb'·(Σa' - count·za') and za'·Σb':
`mend` takes that off, from what `total` has summed up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.pack import GROUP
from anydml.engines.cpu.kernels.steps import Steps

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.nodes import Text

FOUR = 4
"""Steps of a dot instruction."""


class Octets(NamedTuple):
    """What the texts are written for."""

    lie: str
    """As a `Packing` has it."""
    flips: bool
    """Whether bytes are given the other sign."""
    panel: int
    pitch: int
    lanes: int
    is_arm: bool
    is_left: bool
    """Whether it is the left factor, which an x86 takes as unsigned and the right one as signed."""

    @property
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(map(str, self))


def write_dot(text: Text, lanes: int, is_arm: bool, left: str, right: str, total: str) -> str:
    """Add the products of four bytes to each sum; the two factors are vectors of 32 bits."""
    vector, octets = f"<{lanes} x i32>", f"<{FOUR * lanes} x i8>"
    if is_arm:
        name = "@llvm.aarch64.neon.sdot.v4i32.v16i8"
        text.declared[f"declare {vector} {name}({vector}, {octets}, {octets})"] = None
        a, b = (text.new(f"bitcast {vector} {x} to {octets}") for x in (right, left))
        return text.new(f"call {vector} {name}({vector} {total}, {octets} {a}, {octets} {b})")
    name = f"@llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    text.declared[f"declare {vector} {name}({vector}, {vector}, {vector})"] = None
    return text.new(f"call {vector} {name}({vector} {total}, {vector} {left}, {vector} {right})")


def make_octets(shape: Octets) -> str:
    """The text of the packing: `kernel(source, row.step, step, rows, count, target)`, as `pack` has it."""
    text, group = Steps(), 4 * shape.pitch
    if shape.lie == "p" and shape.panel % GROUP == 0:
        with text.when(f"rows % {shape.panel} == 0"):
            _pack_panels(text, shape)
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    with text.loop("r", 0, "rows", GROUP):
        for i in range(GROUP):
            text.let(f"row{i}", f"source + min(r + {i}, rows - 1) * row_step")
        text.let("to", "target + r * 4")
        text.let("whole", f"count - count % {FOUR}")
        text.let("most", f"count - count % {FOUR * GROUP}" if shape.lie == "t" else 0)
        if shape.lie == "t":
            with text.loop("q", 0, "most", FOUR * GROUP):
                rows = [text.new(f"load <4 x i32>, ptr {text.place(f'row{i} + q')}, align 1") for i in range(GROUP)]
                for i, column in enumerate(_transpose(text, rows)):
                    place = text.place(f"to + (q // {FOUR} + {i}) * {group}")
                    text.add(f"store <4 x i32> {_flip(text, shape, column)}, ptr {place}, align 4")
        with text.loop("t", "most", "whole", FOUR):
            _store(text, shape, _one_by_one(text, [f"t + {j}" for j in range(FOUR)]), "t")
        with text.when("whole < count"):
            found = _one_by_one(text, [f"min(whole + {j}, count - 1)" for j in range(FOUR)])
            flipped = _flip(text, shape, text.new(f"bitcast <16 x i8> {found} to <4 x i32>"))
            # Whatever lies past the end is 0.
            bits = text.value("(1 << ((count - whole) * 8)) - 1")
            mask = text.spread(text.new(f"trunc i64 {bits} to i32"), "i32", GROUP)
            place = text.place(f"to + whole // {FOUR} * {group}")
            text.add(f"store <4 x i32> {text.new(f'and <4 x i32> {flipped}, {mask}')}, ptr {place}, align 4")
    text.add("ret void")
    names = ("source", "row_step", "step", "rows", "count", "target")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _pack_panels(text: Steps, shape: Octets) -> None:
    """Whole panels of rows that lie side by side, one after the other: lines of the cache are read once."""
    text.let("panel", f"(count + {FOUR - 1}) // {FOUR} * {4 * shape.pitch}")
    with text.loop("k", 0, "count", FOUR):
        for j in range(FOUR):
            text.let(f"from{j}", f"source + min(k + {j}, count - 1) * step")
        bits = text.value(f"(1 << (min(count - k, {FOUR}) * 8)) - 1")
        mask = text.spread(text.new(f"trunc i64 {bits} to i32"), "i32", GROUP)
        text.let("to_k", f"target + k * {shape.pitch}")
        with text.loop("p", 0, f"rows // {shape.panel}"):
            text.let("to_p", "to_k + p * panel")
            text.let("at", f"p * {shape.panel}")
            for g in range(0, shape.panel, GROUP):
                value = "poison"
                for j in range(FOUR):
                    one = text.new(f"load i32, ptr {text.place(f'from{j} + at + {g}')}, align 1")
                    value = text.new(f"insertelement <4 x i32> {value}, i32 {one}, i32 {j}")
                made = _flip(text, shape, text.new(f"bitcast <16 x i8> {_by_row(text, value)} to <4 x i32>"))
                place = text.place(f"to_p + {4 * g}")
                text.add(f"store <4 x i32> {text.new(f'and <4 x i32> {made}, {mask}')}, ptr {place}, align 4")


def _by_row(text: Steps, steps: str) -> str:
    """Four steps of four rows as four rows of four steps."""
    octets = text.new(f"bitcast <4 x i32> {steps} to <16 x i8>")
    mask = ", ".join(f"i32 {FOUR * j + i}" for i in range(GROUP) for j in range(FOUR))
    return text.new(f"shufflevector <16 x i8> {octets}, <16 x i8> poison, <16 x i32> <{mask}>")


def _flip(text: Steps, shape: Octets, value: str) -> str:
    return text.new(f"xor <4 x i32> {value}, splat (i32 {-0x7F7F7F80})") if shape.flips else value


def _store(text: Steps, shape: Octets, octets: str, step: str) -> None:
    value = _flip(text, shape, text.new(f"bitcast <16 x i8> {octets} to <4 x i32>"))
    place = text.place(f"to + {step} // {FOUR} * {4 * shape.pitch}")
    text.add(f"store <4 x i32> {value}, ptr {place}, align 4")


def _one_by_one(text: Steps, steps: list[str]) -> str:
    """Four rows of four steps, a byte at a time."""
    value = "poison"
    for i in range(GROUP):
        for j, step in enumerate(steps):
            one = text.new(f"load i8, ptr {text.place(f'row{i} + ({step}) * step')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return value


def _transpose(text: Steps, rows: list[str]) -> list[str]:
    def pick(a: str, b: str, *lanes: int) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return text.new(f"shufflevector <4 x i32> {a}, <4 x i32> {b}, <4 x i32> <{mask}>")

    a, b, c, d = rows
    pairs = [pick(x, y, *lanes) for x, y in ((a, b), (c, d)) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [pick(pairs[i], pairs[i + 2], *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]


def make_total(shape: Octets) -> str:
    """`kernel(panel, steps, rows, target)`: the sum of all bytes of each row or column of a packed panel."""
    text, vector = Steps(), f"<{shape.lanes} x i32>"
    ones = f"splat (i32 {0x01010101})"
    with text.loop("r", 0, "rows", GROUP):
        before, head, body, after = (text.label("sum") for _ in range(4))
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%s = phi i64 [ 0, %{before} ], [ %s.on, %{body} ]")
        text.add(f"%sum = phi {vector} [ zeroinitializer, %{before} ], [ %sum.on, %{body} ]")
        test = text.new("icmp slt i64 %s, %steps")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        four = text.new(f"load <4 x i32>, ptr {text.place(f'panel + s * {4 * shape.pitch} + r * 4')}, align 4")
        mask = ", ".join(f"i32 {min(k, 3)}" for k in range(shape.lanes))
        found = text.new(f"shufflevector <4 x i32> {four}, <4 x i32> poison, <{shape.lanes} x i32> <{mask}>")
        factors = (found, ones) if shape.is_left else (ones, found)
        made = write_dot(text, shape.lanes, shape.is_arm, *factors, "%sum")
        text.lines[-1] = text.lines[-1].replace(made, "%sum.on", 1)
        text.add("%s.on = add i64 %s, 1", f"br label %{head}", f"{after}:")
        mask = ", ".join(f"i32 {k}" for k in range(4))
        four = text.new(f"shufflevector {vector} %sum, {vector} poison, <4 x i32> <{mask}>")
        text.add(f"store <4 x i32> {four}, ptr {text.place('target + r * 4')}, align 4")
    text.add("ret void")
    return text.define("void @kernel(i64 %panel, i64 %steps, i64 %rows, i64 %target)")


def make_mend() -> str:
    """`kernel(c, pitch, rows, columns, ra, za, rb, zb, count)`: what zero points add to sums is taken off them."""
    text = Steps()
    with text.loop("i", 0, "rows"):
        one, zero = (text.new(f"load i32, ptr {text.place(f'{name} + i * 4')}, align 4") for name in ("ra", "za"))
        count = text.new("trunc i64 %count to i32")
        less = text.new(f"sub i32 {one}, {text.new(f'mul i32 {count}, {zero}')}")
        rows = [text.spread(x, "i32", GROUP) for x in (less, zero)]
        with text.loop("j", 0, "columns", GROUP):
            place = text.place("c + i * pitch + j * 4")
            value = text.new(f"load <4 x i32>, ptr {place}, align 4")
            for row, name in zip(rows, ("zb", "rb"), strict=True):
                other = text.new(f"load <4 x i32>, ptr {text.place(f'{name} + j * 4')}, align 4")
                value = text.new(f"sub <4 x i32> {value}, {text.new(f'mul <4 x i32> {row}, {other}')}")
            text.add(f"store <4 x i32> {value}, ptr {place}, align 4")
    text.add("ret void")
    names = ("c", "pitch", "rows", "columns", "ra", "za", "rb", "zb", "count")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")
