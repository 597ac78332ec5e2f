"""Columns of weights of 4 or 8 bits times a few rows of digits: integer products, scaled portion by portion.

`kernel(right, n0, columns, digits, sums, powers, total, pitch, portions)` writes the rows of some columns to `total`.
Each column's weights lie side by side, two 4-bit ones to a byte and the first in its low half; so do its scales, of
which each is for `PORTION` weights or a multiple of them, and its zero points. The exact sum of a portion's products is
scaled, and added to one of four sums in turn, which are added in pairs in the end.

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
MOST_ROWS = 4
"""Rows whose sums are in registers at once."""
CHAINS = 8
"""Sums of products that grow side by side."""
AHEAD = 1024
"""Bytes of weights ahead that are fetched."""
SUMS = f"<{TOGETHER} x float>"


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
        self.ints, self.octets = f"<{shape.lanes} x i32>", f"<{4 * shape.lanes} x i8>"
        self.views = ("weights", "scales", "zeros")[: 2 + shape.has_zeros]

    def write(self) -> str:
        text, shape = self.text, self.shape
        read_section(text, self.views)
        text.let("whole", f"portions - portions % {TOGETHER}")
        with text.loop("n", 0, "columns"):
            for name in self.views:
                text.let(name, f"{name}_base + (n0 + n) * {name}_on")
            # More rows than that have no room in the registers: their weights are in the first cache by then.
            for first in range(0, shape.rows, MOST_ROWS):
                rows = range(first, min(first + MOST_ROWS, shape.rows))
                sums = self._sums(f"p{first}", "0", "whole", TOGETHER, dict.fromkeys(rows, "zeroinitializer"))
                for i, value in self._sums(f"q{first}", "whole", "portions", 1, sums).items():
                    text.add(f"store float {self._fold(value)}, ptr {text.place(f'total + {i} * pitch + n * 4')}")
        text.add("ret void")
        names = ("right", "n0", "columns", "digits", "sums", "powers", "total", "pitch", "portions")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _sums(self, name: str, start: str, stop: str, step: int, given: dict[int, str]) -> dict[int, str]:
        """The sums of some rows after some portions."""
        text = self.text
        before, head, body, after = (text.label(name) for _ in range(4))
        first, last = text.value(start), text.value(stop)
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%{name} = phi i64 [ {first}, %{before} ], [ %{name}.on, %{body} ]")
        for i, value in given.items():
            text.add(f"%{name}.s{i} = phi {SUMS} [ {value}, %{before} ], [ %{name}.t{i}, %{body} ]")
        test = text.new(f"icmp slt i64 %{name}, {last}")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        for i, value in self._portions(name, step, {i: f"%{name}.s{i}" for i in given}).items():
            text.add(f"%{name}.t{i} = bitcast {SUMS} {value} to {SUMS}")
        text.add(f"%{name}.on = add i64 %{name}, {step}", f"br label %{head}", f"{after}:")
        return {i: f"%{name}.s{i}" for i in given}

    def _portions(self, name: str, count: int, sums: dict[int, str]) -> dict[int, str]:
        """Some portions of a column, for some rows: a lane for each portion."""
        text, shape = self.text, self.shape
        text.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        place = text.place(f"weights + {name} * {shape.width} + {AHEAD}")
        text.add(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")
        found: dict[int, list[list[str]]] = {i: [] for i in sums}
        # So many chains of sums at once that none waits for itself.
        chunk = min(count, max(CHAINS // len(sums), 1))
        for start in range(0, count, chunk):
            some = range(start, start + chunk)
            weights = {u: self._weights(f"weights + ({name} + {u}) * {shape.width}") for u in some}
            for (i, _), totals in self._dots(name, {(i, u): weights[u] for u in some for i in sums}).items():
                found[i].append(totals)
        scales = self._by_scale(name, count, "float", "scales", 4)
        zeros = self._zeros(name, count)
        made = {}
        for i, several in found.items():
            parts = [self._together([totals[part] for totals in several]) for part in range(len(several[0]))]
            number = self._number(parts, self._few(f"sums + ({i} * portions + {name}) * 4", "i32", count), zeros)
            power = self._few(f"powers + ({i} * portions + {name}) * 4", "float", count)
            made[i] = text.call("fma", SUMS, [number, text.new(f"fmul {SUMS} {scales}, {power}"), sums[i]])
        return made

    def _dots(self, name: str, weights: dict[tuple[int, int], list[str]]) -> dict[tuple[int, int], list[str]]:
        """By row and portion, the sums of products by lane: of the highest bytes, then of those below; side by side."""
        text, shape = self.text, self.shape
        found: dict[tuple[int, int], list[str]] = {place: [] for place in weights}
        totals = dict.fromkeys(weights, "zeroinitializer")
        for digit in reversed(range(PLACES)):
            for v in range(len(next(iter(weights.values())))):
                for (i, u), own in weights.items():
                    at = f"digits + ({i} * portions + {name} + {u}) * {PLACES * PORTION}"
                    at += f" + {digit * PORTION + 4 * shape.lanes * v}"
                    factor = text.new(f"load {self.octets}, ptr {text.place(at)}, align 1")
                    totals[i, u] = self._multiply(own[v], factor, totals[i, u])
            for place, total in totals.items():
                if digit and (shape.bits == 4 or digit > 1):
                    totals[place] = text.new(f"shl {self.ints} {total}, splat (i32 8)")
                else:  # of 8 bits, 32 have no room for all three
                    found[place].append(total)
                    totals[place] = "zeroinitializer"
        return found

    def _together(self, totals: list[str]) -> str:
        """The sums over all lanes, of each portion in a lane of its own."""
        text, lanes = self.text, self.shape.lanes
        while lanes > TOGETHER:
            kind, lanes = f"<{lanes} x i32>", lanes // 2
            masks = [", ".join(f"i32 {first + k}" for k in range(lanes)) for first in (0, lanes)]
            totals = [
                text.new("add <{0} x i32> {1}, {2}".format(lanes, *(
                    text.new(f"shufflevector {kind} {x}, {kind} poison, <{lanes} x i32> <{mask}>") for mask in masks
                )))
                for x in totals
            ]  # fmt: skip
        totals = totals + ["zeroinitializer"] * (TOGETHER - len(totals))
        while len(totals) > 1:
            totals = [self._pairs(a, b) for a, b in zip(totals[::2], totals[1::2], strict=True)]
        return totals[0]

    def _pairs(self, a: str, b: str) -> str:
        """The sums of pairs of lanes, of two vectors one after the other."""
        text, kind = self.text, "<4 x i32>"
        if self.shape.is_arm:
            name = "@llvm.aarch64.neon.addp.v4i32"
            text.declared[f"declare {kind} {name}({kind}, {kind})"] = None
            return text.new(f"call {kind} {name}({kind} {a}, {kind} {b})")
        one, other = (
            text.new(f"shufflevector {kind} {a}, {kind} {b}, {kind} <{', '.join(f'i32 {k + j}' for k in (0, 2, 4, 6))}>")
            for j in (0, 1)
        )
        return text.new(f"add {kind} {one}, {other}")

    def _number(self, parts: list[str], sums: str, zeros: str) -> str:
        """The sums of products less the zero point's, FLOAT32: each is rounded once or twice."""
        text, shape = self.text, self.shape
        if shape.bits == 4:
            less = text.new(f"mul <4 x i32> {sums}, {zeros}") if zeros else sums
            return text.new(f"sitofp <4 x i32> {text.new(f'sub <4 x i32> {parts[0]}, {less}')} to {SUMS}")
        high, low, less = (text.new(f"sitofp <4 x i32> {x} to {SUMS}") for x in (*parts, sums))
        number = text.call("fma", SUMS, [high, "splat (float 256.0)", low])
        if not zeros and not shape.zero:
            return number
        zero = text.new(f"sitofp <4 x i32> {zeros or f'splat (i32 {shape.zero})'} to {SUMS}")
        return text.call("fma", SUMS, [text.new(f"fneg {SUMS} {zero}"), less, number])

    def _few(self, line: str, scalar: str, count: int) -> str:
        """So many numbers, and in other lanes 0."""
        text = self.text
        loaded = text.new(f"load <{count} x {scalar}>, ptr {text.place(line)}, align 4")
        return self._padded(loaded, scalar, count)

    def _padded(self, vector: str, scalar: str, count: int) -> str:
        if count == TOGETHER:
            return vector
        kind = f"<{count} x {scalar}>"
        mask = ", ".join(f"i32 {k if k < count else count}" for k in range(TOGETHER))
        return self.text.new(f"shufflevector {kind} {vector}, {kind} zeroinitializer, <{TOGETHER} x i32> <{mask}>")

    def _by_scale(self, name: str, count: int, scalar: str, base: str, width: int) -> str:
        """What there is one of for each scale: a vector with one for each of some portions."""
        text, shared = self.text, self.shape.shared
        first = text.place(f"{base} + {name} // {shared if shared < TOGETHER else 'shared'} * {width}")
        few = max(count // shared, 1)
        if few == 1:
            one = text.spread(text.new(f"load {scalar}, ptr {first}, align {width}"), scalar, count)
            return self._padded(one, scalar, count)
        kind = f"<{few} x {scalar}>"
        loaded = text.new(f"load {kind}, ptr {first}, align {width}")
        mask = ", ".join(f"i32 {u // shared}" for u in range(count))
        return text.new(f"shufflevector {kind} {loaded}, {kind} poison, <{count} x i32> <{mask}>")

    def _zeros(self, name: str, count: int) -> str:
        """Zero points of the weights as they are multiplied; empty where there are none."""
        text, shape = self.text, self.shape
        if not shape.has_zeros:
            return ""
        octets = self._by_scale(name, count, "i8", "zeros", 1)
        wide = text.new(f"{'sext' if shape.is_signed else 'zext'} <4 x i8> {octets} to <4 x i32>")
        return text.new(f"add <4 x i32> {wide}, splat (i32 {shape.raised})") if shape.raised else wide

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
        text = self.text
        for lanes in (2, 1):
            mask = ", ".join(f"i32 {lanes + k if k < lanes else 'poison'}" for k in range(TOGETHER))
            other = text.new(f"shufflevector {SUMS} {value}, {SUMS} poison, <4 x i32> <{mask}>")
            value = text.new(f"fadd {SUMS} {value}, {other}")
        return text.new(f"extractelement {SUMS} {value}, i32 0")


def read_section(text: Steps, views: tuple[str, ...]) -> None:
    """Where the views of weights begin, how far columns are apart, and how many portions share a scale."""
    for i, name in enumerate(views):
        text.read(f"{name}_base", f"right + {24 + 8 * i}")
        text.read(f"{name}_on", f"right + {24 + 8 * (2 * len(views) + i)}")
    text.read("shared", f"right + {24 + 8 * len(views)}")


def make_quantised(shape: Quantised) -> str:
    """The text of the kernel."""
    return _Columns(shape).write()


def make_plain(shape: Quantised) -> str:
    """The text of `kernel(right, n0, columns, a, total, portions)`: one row in FLOAT32, weight by weight."""
    text = Steps()
    names = ("weights", "scales", "zeros")[: 2 + shape.has_zeros]
    read_section(text, names)
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
