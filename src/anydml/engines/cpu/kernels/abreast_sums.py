"""Rows times columns of 4-bit weights that lie abreast: a lane for each column, so that sums are never added across.

`kernel(weights, scales, zeros, a, sums, powers, to, pitch, count, shared, ahead)` writes the products of some rows with
some panels of columns to `to`, rows `pitch` bytes apart. A panel has a column a lane:

weights  words of 8 steps, the first in the lowest bits, of all columns side by side; panel after panel
scales   FLOAT32, `count` of them for each column, of which each is for `shared` portions; of all columns side by side
zeros    FLOAT32 likewise, where zero points are read
a        by words of steps, 8 elements of each row: FLOAT32, or bytes, the four even steps before the odd ones
sums     of bytes, by portion, the sum of each row, FLOAT32
powers   of bytes, by portion, the scale of each row; else of each row the power of two that its results are short of
ahead    where the scales begin that are turned next: they are fetched meanwhile

A portion's products are added up before they are scaled, and then to one of four sums in turn, which are added in pairs
in the end. Bytes times 0 .. 15 are added up in 16 bits, which have room for a portion's: 8 · 2 · 15 · 128.
"""

from __future__ import annotations

from typing import NamedTuple

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.digits import PORTION
from anydml.engines.cpu.kernels.fourfold import write_byte_pairs, write_word_pairs
from anydml.engines.cpu.kernels.steps import Steps

STEPS = 8
"""Of a word."""
WORDS = PORTION // STEPS
"""Of a portion."""
TURNS = 4
"""Sums of a result, taken in turn: one alone would be half as precise after 4,096 steps."""
AHEAD = 1024
"""Bytes of a panel's weights that are fetched ahead."""


class Abreast(NamedTuple):
    """The parameters of the text."""

    rows: int
    panels: int
    lanes: int
    """Columns of a panel."""
    is_signed: bool
    has_zeros: bool
    zero: int
    """The number taken off each weight, where no zero points are read."""
    is_rounded: bool
    """Whether rows are bytes."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return "abreast " + " ".join(str(int(part)) for part in self)

    @property
    def raised(self) -> int:
        """The excess of signed weights whose sign is turned, so that none is below 0."""
        return 8 if self.is_signed else 0


def make_abreast(shape: Abreast) -> str:
    """The text of the kernel."""
    return _Sums(shape).write()


class _Sums:
    def __init__(self, shape: Abreast) -> None:
        self.shape, self.text = shape, Steps()
        self.vector = 4 * shape.lanes
        """Bytes."""
        self.floats, self.ints = f"<{shape.lanes} x float>", f"<{shape.lanes} x i32>"
        self.places = [(i, v) for i in range(shape.rows) for v in range(shape.panels)]

    def write(self) -> str:
        text, size = self.text, len(self.places) * self.vector
        text.add(f"%totals.at = alloca [{TURNS * size} x i8], align 64", "%totals = ptrtoint ptr %totals.at to i64")
        for n in range(TURNS * len(self.places)):
            self._store("zeroinitializer", f"totals + {n * self.vector}")
        text.let("panel", f"count * shared * {WORDS * self.vector}")
        text.let("by_scale", f"count * {self.vector}")
        with text.loop("s", 0, "count"):
            text.let("first", "s * shared")
            lines = -(-self.shape.panels * self.vector // LINE)  # in which a scale of each column lies, as they follow
            for n in range(lines):
                text.fetch(text.place(f"ahead + (s * {lines} + {n}) * {LINE}"), near=2)
            for name in ("scales", *(("zeros",) if self.shape.has_zeros else ())):
                text.let(f"{name}_at", f"{name} + s * {self.vector}")
            with text.loop("p", "first", "first + shared"):
                text.let("total", f"totals + p % {TURNS} * {size}")
                self._portion()
        for n, (i, v) in enumerate(self.places):
            parts = [self._load(f"totals + {t * size + n * self.vector}") for t in range(TURNS)]
            a, b = (text.new(f"fadd {self.floats} {parts[t]}, {parts[t + 1]}") for t in (0, 2))
            value = text.new(f"fadd {self.floats} {a}, {b}")
            if not self.shape.is_rounded:
                value = text.new(f"fmul {self.floats} {value}, {self._spread(f'powers + {4 * i}', 'float')}")
            self._store(value, f"to + {i} * pitch + {v * self.vector}")
        text.add("ret void")
        names = ("weights", "scales", "zeros", "a", "sums", "powers", "to", "pitch", "count", "shared", "ahead")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _portion(self) -> None:
        """Add a portion's sums, times their scales, to those of its turn."""
        text, shape = self.text, self.shape
        zeros = [self._zero(v) for v in range(shape.panels)]
        made = ["zeroinitializer"] * len(self.places)
        for k in range(WORDS):  # a loop would take a fifth more time
            text.let(f"word_{k}", f"p * {WORDS} + {k}")
            made = self._bytes(k, made) if shape.is_rounded else self._products(k, made, zeros)
        scales = [self._load(f"scales_at + {v} * by_scale") for v in range(shape.panels)]
        for n, (i, v) in enumerate(self.places):
            number, scale = made[n], scales[v]
            if shape.is_rounded:
                number = self._whole(number, i, zeros[v])
                by = self._spread(f"powers + p * {4 * shape.rows} + {4 * i}", "float")
                scale = text.new(f"fmul {self.floats} {scale}, {by}")
            at = f"total + {n * self.vector}"
            self._store(text.call("fma", self.floats, [number, scale, self._load(at)]), at)

    def _words(self, k: int) -> list[str]:
        """A word of every column."""
        text, found = self.text, []
        for v in range(self.shape.panels):
            text.let(f"at_{k}_{v}", f"weights + {v} * panel + word_{k} * {self.vector}")
            found.append(text.new(f"load {self.ints}, ptr {text.place(f'at_{k}_{v}')}, align 4"))
            text.fetch(text.place(f"at_{k}_{v} + {AHEAD}"))
        return found

    # Rows of FLOAT32

    def _products(self, word: int, sums: list[str], zeros: list[str]) -> list[str]:
        text, shape = self.text, self.shape
        words, made = self._words(word), list(sums)
        if shape.lanes < len(_TABLE) and shape.is_signed:
            words = [text.new(f"xor {self.ints} {one}, splat (i32 {_MIDDLES})") for one in words]
        text.let(f"a_{word}", f"a + word_{word} * {4 * STEPS * shape.rows}")
        for k in range(STEPS):
            weights = [self._weight(one, k, zero) for one, zero in zip(words, zeros, strict=True)]
            for i in range(shape.rows):
                factor = self._spread(f"a_{word} + {4 * (STEPS * i + k)}", "float")
                for v in range(shape.panels):
                    n = i * shape.panels + v
                    made[n] = text.call("fma", self.floats, [weights[v], factor, made[n]])
        return made

    def _weight(self, word: str, k: int, zero: str) -> str:
        """The weights of a step less what is taken off them.

        With 16 lanes a register is a table of all 16, of which an instruction chooses by the lowest bits.
        """
        text, shape, floats = self.text, self.shape, self.floats
        if shape.lanes == len(_TABLE):
            index = text.new(f"lshr {self.ints} {word}, splat (i32 {4 * k})") if k else word
            values = [(n ^ 8) - 8 if shape.is_signed else n for n in _TABLE]
            table = ", ".join(f"float {value - (0 if shape.has_zeros else shape.zero)}.0" for value in values)
            name = "@llvm.x86.avx512.permvar.sf.512"
            text.declared[f"declare {floats} {name}({floats}, {self.ints})"] = None
            found = text.new(f"call {floats} {name}({floats} <{table}>, {self.ints} {index})")
            return text.new(f"fsub {floats} {found}, {zero}") if shape.has_zeros else found
        # Of the others the bits become the last of a float's, which is 2^23 more, or less if they come before the last.
        if k >= _DIRECT:
            word = text.new(f"lshr {self.ints} {word}, splat (i32 {4 * _SHIFTED})")
        at = 4 * (k if k < _DIRECT else k - _SHIFTED)
        bits = text.new(f"and {self.ints} {word}, splat (i32 {15 << at})")
        bits = text.new(f"or {self.ints} {bits}, splat (i32 {127 + 23 - at << 23})")
        found = text.new(f"bitcast {self.ints} {bits} to {floats}")
        less = 2 ** (23 - at) + shape.raised + (0 if shape.has_zeros else shape.zero)
        found = text.new(f"fsub {floats} {found}, splat (float {less}.0)")
        return text.new(f"fsub {floats} {found}, {zero}") if shape.has_zeros else found

    def _zero(self, v: int) -> str:
        """The numbers taken off the weights of a panel; of bytes' as they come."""
        text, more = self.text, self.shape.raised if self.shape.is_rounded else 0
        if not self.shape.has_zeros:
            return f"splat (float {self.shape.zero + more}.0)"
        found = self._load(f"zeros_at + {v} * by_scale")
        return text.new(f"fadd {self.floats} {found}, splat (float {more}.0)") if more else found

    # Rows of bytes

    def _bytes(self, word: int, sums: list[str]) -> list[str]:
        text, shape, ints = self.text, self.shape, self.ints
        words, made = self._words(word), list(sums)
        if shape.is_signed:
            words = [text.new(f"xor {ints} {one}, splat (i32 {_MIDDLES})") for one in words]
        shifted = [text.new(f"lshr {ints} {one}, splat (i32 4)") for one in words]
        text.let(f"a_{word}", f"a + word_{word} * {STEPS * shape.rows}")
        kind = f"<{2 * shape.lanes} x i16>"
        for half, several in enumerate((words, shifted)):
            weights = [text.new(f"and {ints} {one}, splat (i32 {_LOW})") for one in several]
            for i in range(shape.rows):
                factor = self._spread(f"a_{word} + {STEPS * i + 4 * half}", "i32")
                for v in range(shape.panels):
                    n, two = i * shape.panels + v, write_byte_pairs(text, shape.lanes, weights[v], factor)
                    made[n] = text.new(f"add {kind} {made[n]}, {two}")
        return made

    def _whole(self, sums: str, row: int, zero: str) -> str:
        """A portion's sum less what its elements times the zero point are: both are whole numbers that are exact."""
        text = self.text
        four = write_word_pairs(text, self.shape.lanes, sums, "splat (i16 1)")
        number = text.new(f"sitofp {self.ints} {four} to {self.floats}")
        less = text.new(f"fneg {self.floats} {zero}") if zero.startswith("%") else zero.replace("float ", "float -")
        by = self._spread(f"sums + p * {4 * self.shape.rows} + {4 * row}", "float")
        return text.call("fma", self.floats, [less, by, number])

    # Memory

    def _load(self, line: str) -> str:
        return self.text.new(f"load {self.floats}, ptr {self.text.place(line)}, align 4")

    def _store(self, value: str, line: str) -> None:
        self.text.add(f"store {self.floats} {value}, ptr {self.text.place(line)}, align 4")

    def _spread(self, line: str, scalar: str) -> str:
        """A number in memory, in every lane."""
        text = self.text
        return text.spread(text.new(f"load {scalar}, ptr {text.place(line)}, align 4"), scalar, self.shape.lanes)


_TABLE = range(16)
_DIRECT, _SHIFTED = 5, 3
"""The steps of a word whose bits are among those of a float's fraction, and those that go before others are."""
_MIDDLES, _LOW = 0x88888888 - 2**32, 0x0F0F0F0F
"""8 in each half of the bytes of a word, and all bits of their low halves."""
