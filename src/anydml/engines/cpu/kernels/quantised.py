"""Columns of weights of 4 or 8 bits times a few rows of digits: integer products, scaled portion by portion.

`kernel(right, n0, columns, digits, sums, powers, total, pitch, portions)` writes the rows of some columns to `total`.
Each column's weights lie side by side, two 4-bit ones to a byte and the first in its low half; so do its scales, of
which each is for `PORTION` weights or a multiple of them, and its zero points. A lane adds up exact products of a
portion, scales them, and adds them to its sum; the lanes are added in pairs in the end.

`right` are the words of a section with the weights, the scales and the zero points; the digits of a row follow those of
the row before.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels.digits import PLACES, PORTION
from anydml.engines.cpu.kernels.octets import write_dot
from anydml.engines.cpu.kernels.steps import Steps

TOGETHER = 4
"""Portions that are taken at once: their scales are a vector."""
AHEAD = 1024
"""Bytes of weights ahead that are fetched."""


class Quantised(NamedTuple):
    """What the text is written for."""

    rows: int
    lanes: int
    bits: int
    is_signed: bool
    has_zeros: bool
    """Whether zero points are read; otherwise the sums are of the elements times the zero point."""
    zero: int
    """Without those, what is taken off all weights as they are multiplied."""
    shared: int
    """Portions that share a scale, `TOGETHER` where there are more."""
    dots: bool
    """Whether the CPU adds up products of bytes by fours."""
    is_arm: bool

    @property
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(str(int(part)) for part in self)

    @property
    def width(self) -> int:
        """Bytes of a portion's weights."""
        return PORTION * self.bits // 8

    @property
    def raised(self) -> int:
        """What weights are multiplied with more than they are: to 0 .. 15, or to the sign of bytes that a CPU takes."""
        if self.bits == 4:
            return 8 if self.is_signed else 0
        return 0 if self.is_signed == self.is_arm else -128 if self.is_arm else 128


class _Columns:
    def __init__(self, shape: Quantised) -> None:
        self.shape, self.text = shape, Steps()
        self.ints, self.floats = f"<{shape.lanes} x i32>", f"<{shape.lanes} x float>"
        self.octets = f"<{4 * shape.lanes} x i8>"

    def write(self) -> str:
        text, shape = self.text, self.shape
        for i, name in enumerate(("weights", "scales", "zeros")[: 2 + shape.has_zeros]):
            count = 2 + shape.has_zeros
            text.read(f"{name}_base", f"right + {24 + 8 * i}")
            text.read(f"{name}_on", f"right + {24 + 8 * (2 * count + i)}")
        text.read("shared", f"right + {24 + 8 * (2 + shape.has_zeros)}")
        text.let("whole", f"portions - portions % {TOGETHER}")
        with text.loop("n", 0, "columns"):
            for name in ("weights", "scales", "zeros")[: 2 + shape.has_zeros]:
                text.let(name, f"{name}_base + (n0 + n) * {name}_on")
            sums = self._sums("p", "0", "whole", TOGETHER, ["zeroinitializer"] * shape.rows)
            for i, value in enumerate(self._sums("q", "whole", "portions", 1, sums)):
                total = text.place(f"total + {i} * pitch + n * 4")
                text.add(f"store float {self._fold(value)}, ptr {total}")
        text.add("ret void")
        names = ("right", "n0", "columns", "digits", "sums", "powers", "total", "pitch", "portions")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _sums(self, name: str, start: str, stop: str, step: int, given: list[str]) -> list[str]:
        """The rows' sums after some portions."""
        text, rows = self.text, range(self.shape.rows)
        before, head, body, after = (text.label(name) for _ in range(4))
        first, last = text.value(start), text.value(stop)
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%{name} = phi i64 [ {first}, %{before} ], [ %{name}.on, %{body} ]")
        for i in rows:
            text.add(f"%{name}.s{i} = phi {self.floats} [ {given[i]}, %{before} ], [ %{name}.t{i}, %{body} ]")
        test = text.new(f"icmp slt i64 %{name}, {last}")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        made = self._portions(name, step, [f"%{name}.s{i}" for i in rows])
        for i in rows:
            text.add(f"%{name}.t{i} = bitcast {self.floats} {made[i]} to {self.floats}")
        text.add(f"%{name}.on = add i64 %{name}, {step}", f"br label %{head}", f"{after}:")
        return [f"%{name}.s{i}" for i in rows]

    def _portions(self, name: str, count: int, sums: list[str]) -> list[str]:
        """Some portions of a column, for all rows."""
        text, shape = self.text, self.shape
        scales = self._scales(name, count)
        zeros = self._zeros(name, count) if shape.has_zeros else []
        factors = []
        for i in range(shape.rows):
            power = text.place(f"powers + ({i} * portions + {name}) * 4")
            factors.append(self._product(scales, text.new(f"load <{count} x float>, ptr {power}, align 4"), count))
        text.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        place = text.place(f"weights + {name} * {shape.width} + {AHEAD}")
        text.add(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")
        for u in range(count):
            weights = self._weights(f"weights + ({name} + {u}) * {shape.width}")
            for i in range(shape.rows):
                number = self._dot(weights, f"({i} * portions + {name} + {u})", zeros[u] if zeros else "")
                factor = self._lane(factors[i], u, count, "float")
                sums[i] = text.call("fma", self.floats, [number, factor, sums[i]])
        return sums

    def _product(self, a: str, b: str, count: int) -> str:
        return self.text.new(f"fmul <{count} x float> {a}, {b}")

    def _lane(self, vector: str, lane: int, count: int, scalar: str) -> str:
        """A lane of a vector of some, in all lanes of the CPU's."""
        mask = ", ".join([f"i32 {lane}"] * self.shape.lanes)
        kind = f"<{count} x {scalar}>"
        return self.text.new(f"shufflevector {kind} {vector}, {kind} poison, <{self.shape.lanes} x i32> <{mask}>")

    def _by_scale(self, name: str, count: int, scalar: str, base: str, width: int) -> str:
        """What there is one of for each scale: a vector with one for each of some portions."""
        text, shared = self.text, self.shape.shared
        first = text.place(f"{base} + {name} // {shared if shared < TOGETHER else 'shared'} * {width}")
        few = max(count // shared, 1)
        if few == 1:
            return text.spread(text.new(f"load {scalar}, ptr {first}, align {width}"), scalar, count)
        kind = f"<{few} x {scalar}>"
        loaded = text.new(f"load {kind}, ptr {first}, align {width}")
        mask = ", ".join(f"i32 {u // shared}" for u in range(count))
        return text.new(f"shufflevector {kind} {loaded}, {kind} poison, <{count} x i32> <{mask}>")

    def _scales(self, name: str, count: int) -> str:
        return self._by_scale(name, count, "float", "scales", 4)

    def _zeros(self, name: str, count: int) -> list[str]:
        """Zero points of the weights as they are multiplied, in all lanes."""
        text, shape = self.text, self.shape
        octets = self._by_scale(name, count, "i8", "zeros", 1)
        wide = text.new(f"{'sext' if shape.is_signed else 'zext'} <{count} x i8> {octets} to <{count} x i32>")
        if shape.raised:
            wide = text.new(f"add <{count} x i32> {wide}, splat (i32 {shape.raised})")
        return [self._lane(wide, u, count, "i32") for u in range(count)]

    def _weights(self, line: str) -> list[str]:
        """A portion's weights in vectors of bytes."""
        text, shape = self.text, self.shape
        size = 4 * shape.lanes
        if shape.bits == 8:
            found = [
                text.new(f"load {self.octets}, ptr {text.place(f'{line} + {start}')}, align 1")
                for start in range(0, PORTION, size)
            ]
            return [text.new(f"xor {self.octets} {x}, splat (i8 -128)") for x in found] if shape.raised else found
        both = text.new(f"load <16 x i8>, ptr {text.place(line)}, align 1")
        if shape.is_signed:
            both = text.new(f"xor <16 x i8> {both}, splat (i8 -120)")
        low = text.new(f"and <16 x i8> {both}, splat (i8 15)")
        high = text.new(f"lshr <16 x i8> {both}, splat (i8 4)")
        if size == 16:
            return [low, high]
        mask = ", ".join(f"i32 {k}" for k in range(32))
        return [text.new(f"shufflevector <16 x i8> {low}, <16 x i8> {high}, <32 x i32> <{mask}>")]

    def _dot(self, weights: list[str], place: str, zero: str) -> str:
        """The sums of a portion's products by lane, less the zero point's, FLOAT32."""
        text, shape = self.text, self.shape
        parts: list[str] = []
        total = "zeroinitializer"
        for digit in reversed(range(PLACES)):
            for v, weight in enumerate(weights):
                at = f"digits + {place} * {PLACES * PORTION} + {digit * PORTION + 4 * shape.lanes * v}"
                total = self._multiply(weight, text.new(f"load {self.octets}, ptr {text.place(at)}, align 1"), total)
            if digit and (shape.bits == 4 or digit > 1):
                total = text.new(f"shl {self.ints} {total}, splat (i32 8)")
            elif shape.bits == 8:  # 32 bits have no room for all three
                parts.append(text.new(f"sitofp {self.ints} {total} to {self.floats}"))
                total = "zeroinitializer"
        sums = text.place(f"sums + {place} * {4 * shape.lanes}")
        if shape.bits == 4:
            less = text.new(f"load {self.ints}, ptr {sums}, align 4")
            if shape.has_zeros:
                less = text.new(f"mul {self.ints} {less}, {zero}")
            total = text.new(f"sub {self.ints} {total}, {less}")
            return text.new(f"sitofp {self.ints} {total} to {self.floats}")
        number = text.call("fma", self.floats, [parts[0], "splat (float 256.0)", parts[1]])
        if shape.has_zeros or shape.zero:
            less = text.new(f"load {self.ints}, ptr {sums}, align 4")
            by = zero if shape.has_zeros else f"splat (i32 {shape.zero})"
            scale, less = (text.new(f"sitofp {self.ints} {x} to {self.floats}") for x in (by, less))
            number = text.call("fma", self.floats, [text.new(f"fneg {self.floats} {scale}"), less, number])
        return number

    def _multiply(self, weight: str, digit: str, total: str) -> str:
        """Add the products of four bytes each."""
        text, shape = self.text, self.shape
        if shape.dots:
            a, b = (text.new(f"bitcast {self.octets} {x} to {self.ints}") for x in (weight, digit))
            return write_dot(text, shape.lanes, shape.is_arm, a, b, total)
        long = f"<{4 * shape.lanes} x i32>"
        a = text.new(f"{'sext' if shape.is_arm else 'zext'} {self.octets} {weight} to {long}")
        b = text.new(f"sext {self.octets} {digit} to {long}")
        product = text.new(f"mul {long} {a}, {b}")
        for k in range(4):
            mask = ", ".join(f"i32 {4 * lane + k}" for lane in range(shape.lanes))
            part = text.new(f"shufflevector {long} {product}, {long} poison, <{shape.lanes} x i32> <{mask}>")
            total = text.new(f"add {self.ints} {total}, {part}")
        return total

    def _fold(self, value: str) -> str:
        """The sum of all lanes, in pairs."""
        text, lanes = self.text, self.shape.lanes
        while lanes > 1:
            lanes //= 2
            mask = ", ".join(f"i32 {lanes + k if k < lanes else 'poison'}" for k in range(self.shape.lanes))
            other = text.new(
                f"shufflevector {self.floats} {value}, {self.floats} poison, <{self.shape.lanes} x i32> <{mask}>"
            )
            value = text.new(f"fadd {self.floats} {value}, {other}")
        return text.new(f"extractelement {self.floats} {value}, i32 0")


def make_quantised(shape: Quantised) -> str:
    """The text of the kernel."""
    return _Columns(shape).write()


def make_plain(shape: Quantised) -> str:
    """The text of `kernel(right, n0, columns, a, total, portions)`: one row in FLOAT32, weight by weight."""
    text = Steps()
    count = 2 + shape.has_zeros
    names = ("weights", "scales", "zeros")[:count]
    text.read("shared", f"right + {24 + 8 * count}")
    for i, name in enumerate(names):
        text.read(f"{name}_base", f"right + {24 + 8 * i}")
        text.read(f"{name}_on", f"right + {24 + 8 * (2 * count + i)}")
    with text.loop("n", 0, "columns"):
        for name in names:
            text.let(name, f"{name}_base + (n0 + n) * {name}_on")
        to = text.place("total + n * 4")
        text.add(f"store float 0.0, ptr {to}")
        with text.loop("k", 0, f"portions * {PORTION}"):
            text.let("at", f"k // ({PORTION} * shared)")
            byte = text.new(f"load i8, ptr {text.place(f'weights + k * {shape.bits} // 8')}")
            if shape.bits == 4:
                shift = text.new(f"trunc i64 {text.value('k % 2 * 4')} to i8")
                byte = text.new(f"and i8 {text.new(f'lshr i8 {byte}, {shift}')}, 15")
                byte = text.new(f"sub i8 {text.new(f'xor i8 {byte}, 8')}, 8") if shape.is_signed else byte
            widen = "sext" if shape.is_signed else "zext"
            number = text.new(f"{widen} i8 {byte} to i32")
            zero = str(shape.zero - shape.raised)
            if shape.has_zeros:
                place = text.place("zeros + at")
                zero = text.new(f"{widen} i8 {text.new(f'load i8, ptr {place}')} to i32")
            number = text.new(f"sitofp i32 {text.new(f'sub i32 {number}, {zero}')} to float")
            scale = text.new(f"load float, ptr {text.place('scales + at * 4')}")
            a = text.new(f"load float, ptr {text.place('a + k * 4')}")
            product = text.new(f"fmul float {a}, {text.new(f'fmul float {number}, {scale}')}")
            old = text.new(f"load float, ptr {to}")
            text.add(f"store float {text.new(f'fadd float {old}, {product}')}, ptr {to}")
    text.add("ret void")
    return text.define(
        "void @kernel(i64 %right, i64 %n0, i64 %columns, i64 %a, i64 %total, i64 %portions)"
    )
