"""Column-per-lane int4 GEMM for CPUs without dot instructions: a lane for each column, so that no sum is added up
across lanes.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.gemm.program import GemmProgram
from anydml.engines.cpu.gemm.tile_shapes import has_dots
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.record import HEADER, LINE
from anydml.engines.cpu.quant.dot4 import write_byte_pairs, write_word_pairs
from anydml.engines.cpu.quant.weight_only_kernel import PORTION, find_row, make_units, shuffled
from anydml.enums import DataType
from anydml.ir.blocked_weights import MOST
from anydml.ir.expressions import coordinate, fetch, given, minimum
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.program import Section

# Rows times columns of 4-bit weights that lie abreast: a lane for each column, so that sums are never added across.
#
# `kernel(weights, scales, zeros, a, sums, powers, to, pitch, count, shared, ahead)` writes the products of some rows
# with some panels of columns to `to`, rows `pitch` bytes apart. A panel has a column a lane:
#
# weights  words of 8 steps, the first in the lowest bits, of all columns side by side; panel after panel
# scales   FLOAT32, `count` for each column, each for `shared` portions; of all columns side by side
# zeros    FLOAT32 likewise, where zero points are read
# a        by words of steps, 8 elements of each row: FLOAT32, or bytes, the four even steps before the odd ones
# sums     of bytes, by portion, the sum of each row, FLOAT32
# powers   of bytes, by portion, the scale of each row; else the power of two that a row's results are short of
# ahead    where the scales begin that are transposed next: they are prefetched meanwhile
#
# A portion's products are added up before they are scaled, and then to one of four sums in turn, which are added in
# pairs in the end. Bytes times 0 .. 15 are added up in 16 bits, which have room for a portion's: 8 · 2 · 15 · 128.


STEPS = 8
"""Of a word."""
WORDS = PORTION // STEPS
"""Of a portion."""
TURNS = 4
"""Sums of a result, taken in turn: one alone would be half as precise after 4,096 steps."""
AHEAD = 1024
"""Bytes of a panel's weights that are fetched ahead."""


class ColumnPerLane(NamedTuple):
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


def make_column_per_lane(shape: ColumnPerLane) -> str:
    """The text of the kernel."""
    return _Sums(shape).write()


class _Sums:
    def __init__(self, shape: ColumnPerLane) -> None:
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

# Rows times columns of 4-bit weights that lie abreast, a unit of panels at a time. Compiled once for all.
#
# A unit lays its rows out by words of steps. For some panels at a time it turns their columns' scales and zero points,
# and their weights where those are not laid out ahead, has all rows multiplied, and finishes the results as a
# contraction does.


FIELDS = (
    "slots", "slot_count", "m", "n", "portions", "row_units", "column_units", "height", "some", "wide", "lanes",
    "row_of", "columns_of", "columns_low", "turn_values", "turn_zeros", "left_at", "right_at", "result_at",
    "rank", "is_rounded", "is_laid_out",
)  # fmt: skip
"""After the header, and before the batch's sizes; `height` are the rows of a unit, `some` those of `columns_of`, of
which `columns_low` takes the rest, `wide` the panels of both, and `_at` the words at which sections stand."""
MOST_ROWS = 512 * 1024
"""Bytes of a unit's rows."""
MOST_PANELS = 384 * 1024
"""Bytes of what is turned of some panels."""
MOST_RESULTS = 256 * 1024
"""Bytes of a unit's results."""

# Where things lie in a scratch: its lock, a row, all rows, their sums and powers, the panels, the results.
_ROW = 64
_ROWS = _ROW + 4 * MOST
_SUMS = _ROWS + MOST_ROWS
_PANELS = _SUMS + 2 * MOST_ROWS // PORTION
_RESULT = _PANELS + MOST_PANELS
END = _RESULT + MOST_RESULTS
"""The bytes of a scratch that are used."""


def bytes_of_panel(portions: int, lanes: int) -> int:
    """Bytes of the weights, the scales and the zero points of a panel, at most."""
    return portions * (WORDS + 2) * 4 * lanes


def make_unit() -> str:
    """The text of the kernel."""
    memory = {"row": _ROW, "rows_at": _ROWS, "sums": _SUMS, "panels_at": _PANELS, "results": _RESULT}
    return make_units(FIELDS, memory, _enter, _write_unit)


def _enter(text: Steps) -> None:
    text.let("panels", "(n + lanes - 1) // lanes")
    text.let("scale_count", "portions // shared")
    text.let("scales_panel", "scale_count * lanes * 4")
    text.let("weights_panel", f"portions * lanes * {4 * WORDS}")
    text.let("powers", "sums + height * portions * 4")
    text.let("width", "1 if is_rounded != 0 else 4")


def _write_unit(text: Steps) -> None:
    text.let("panel0", "panels * by_column // column_units")
    text.let("count", "panels * (by_column + 1) // column_units - panel0")
    text.let("n0", "panel0 * lanes")
    text.let("pitch", "count * lanes * 4")
    with text.loop("r", 0, "rows"):
        _write_row(text)
    for i, name in enumerate(("weights", "scales", "zeros")):
        text.read(f"{name}_base", f"right_bases + {8 * i}")
        text.read(f"{name}_on", f"right + 24 + (right_views * 2 + {i}) * 8")
    with text.loop("q", 0, "count", "wide"):
        text.let("at", "min(q, count - wide)")  # the last panels again, where fewer are left
        _write_panels(text)
    text.invoke(
        "@stage", "result", "result_bases", "m0", "n0", "rows", "min(n - n0, count * lanes)", 0, "results", "pitch"
    )


def _write_row(text: Steps) -> None:
    """Lay a row out among those of its group."""
    find_row(text)
    text.let("before", "r - r % some")
    text.let("beside", "min(some, rows - before)")
    # A group of rows of FLOAT32 has a power a row.
    text.let("of_group", "before * (portions if is_rounded != 0 else 1) + r % some")
    text.invoke(
        "row_of", "of_row", "portions", "beside", f"rows_at + (before * k + r % some * {STEPS}) * width",
        "sums + of_group * 4", "powers + of_group * 4", "scales_of_row", "shared",
    )  # fmt: skip


def _write_panels(text: Steps) -> None:
    """Some panels, times all rows."""
    text.let("zeros_at", "panels_at + wide * scales_panel")
    text.let("turned_at", "zeros_at + wide * scales_panel")
    text.let("first", "n0 + at * lanes")
    with text.loop("v", 0, "wide"):
        text.let("column", "first + v * lanes")
        text.let("own", "min(lanes, n - column)")
        text.invoke(
            "turn_values",
            "scales_base + column * scales_on",
            "scales_on",
            "own",
            "scale_count",
            "panels_at + v * scales_panel",
        )
        with text.when("turn_zeros != 0"):
            text.invoke(
                "turn_zeros", "zeros_base + column * zeros_on", "zeros_on", "own", "scale_count",
                "zeros_at + v * scales_panel",
            )  # fmt: skip
        with text.when("is_laid_out == 0"):
            text.invoke(
                "turn_values", "weights_base + column * weights_on", "weights_on", "own", f"portions * {WORDS}",
                "turned_at + v * weights_panel",
            )  # fmt: skip
    text.let("weights_at", "weights_base + (panel0 + at) * weights_panel if is_laid_out != 0 else turned_at")
    with text.loop("i", 0, "rows", "some"):
        text.let("used", "columns_of if rows - i >= some else columns_low")
        text.let("sums_at", "i * (portions if is_rounded != 0 else 1) * 4")
        text.invoke(
            "used", "weights_at", "panels_at", "zeros_at", "rows_at + i * k * width", "sums + sums_at",
            "powers + sums_at", "results + i * pitch + at * lanes * 4", "pitch", "scale_count", "shared",
            "scales_base + (first + wide * lanes) * scales_on",
        )  # fmt: skip


# What products with columns abreast read: rows, by words of steps, and the values of columns, turned.
#
# `kernel(a, portions, rows, to, sums, powers, scales, shared)` lays out one of some rows, as the sums read them.


FOUR = 4
"""Lanes that an x86 moves within."""
_LARGE, _DOWN, _UP = 0x77000000, "0x3EF0000000000000", "0x40F0000000000000"
"""The bits of 2^111, and 2^-16 and 2^16 as LLVM writes them."""
_SIGNATURE = "void @kernel(i64 %a, i64 %portions, i64 %rows, i64 %to, i64 %sums, i64 %powers, i64 %scales, i64 %shared)"


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
    return text.define(_SIGNATURE)


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
    return text.define(_SIGNATURE)


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


# Products with 4-bit weights on CPUs without dot instructions, planned: a lane for each column.
#
# With 16 lanes FLOAT32 takes 8 instructions for 128 weights and a row, bytes 5, and integers of three bytes, which CPUs
# with dot instructions multiply, 36 of 8 lanes.


BITS = 4
"""Of a weight."""
ITEMS_PER_THREAD = 2
"""Units of columns for each thread."""


def lanes_abreast(bits: int) -> int:
    """Columns of a panel of weights of some bits; 0 where they are multiplied otherwise."""
    return _lanes() if bits == BITS else 0


def _lanes() -> int:
    if IS_ARM or not has_feature("avx2") or has_dots(8):
        return 0
    return 16 if has_feature("avx512f") and has_feature("avx512bw") else 8


def lay_out_abreast(view: View, name: str, columns: int, on: int, length: int, lanes: int) -> Map:
    """How words of 8 weights are laid out for panels. Columns lie `on` bytes apart, and have so many weights.

    The last column stands for those that the last panel has too many.
    """
    sizes = (-(-columns // lanes), length // STEPS, lanes, 4)
    target = View(name, view.data_type, sizes, tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes))))
    if columns % lanes == 0:
        return copy_of(replace(view, sizes=sizes, strides=(lanes * on, 4, on, 1)), target)
    column = minimum(coordinate(0) * lanes + coordinate(2), given(columns - 1, DataType.INT64))
    source = replace(view, sizes=(columns, length // STEPS, 4), strides=(on, 4, 1))
    return Map((source,), target, fetch(0, view.data_type, [column, coordinate(1), coordinate(3)]))


def plan_column_per_lane(
    sides: Operands, shape: ColumnPerLane, sections: tuple[Section, ...], layouts: Mapping[str, Map]
) -> GemmProgram:
    """The program; the sections are those of the rows, the weights and the result."""
    lanes, portions, panels = shape.lanes, sides.k // PORTION, -(-sides.n // shape.lanes)
    height = min(sides.m, MOST_ROWS // (4 * sides.k))
    some, wide = _tile(height, shape)
    height = height if height == sides.m else height - height % some
    wide = min(wide, panels, MOST_PANELS // bytes_of_panel(portions, lanes))
    batch, row_units = sides.count(sides.batch), -(-sides.m // height)
    size = sides.n * sides.k // 2 * sides.m * batch
    wanted = 1 if size < SMALL else -(-ITEMS_PER_THREAD * get_num_threads() // (batch * row_units))
    least = -(-2 * panels * lanes * 4 * height // MOST_RESULTS)  # twice, as one unit may have a panel more
    units = min(max(wanted, least), panels // wide)
    row_of = (
        get_kernel("abreast octets", make_octets) if shape.is_rounded else get_kernel("abreast floats", make_floats)
    )
    kernels = [
        get_kernel(one.name, functools.partial(make_column_per_lane, one)).address
        for one in (shape._replace(rows=rows, panels=wide) for rows in (some, sides.m % some or some))
    ]
    kinds = ("f32", *(("s8" if shape.is_signed else "u8",) if shape.has_zeros else ()))
    turns = [
        get_kernel(one.name, functools.partial(make_turned, one)).address for one in (Turned(lanes, k) for k in kinds)
    ]
    places = [HEADER + len(FIELDS) + len(sides.batch)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    fixed = (
        sides.m, sides.n, portions, row_units, units, height, some, wide, lanes, row_of.address, *kernels,
        turns[0], turns[1] if shape.has_zeros else 0, *places[:3], len(sides.batch), int(shape.is_rounded),
        int(bool(layouts)), *(sides.found.sizes[k] for k in sides.batch),
    )  # fmt: skip
    number = batch * row_units * units
    return GemmProgram(get_kernel("abreast", make_unit), fixed, sections, number, size, layouts)


def _tile(rows: int, shape: ColumnPerLane) -> tuple[int, int]:
    """The rows of a tile and its panels, whose sums have room in the registers; tiles are about alike.

    4096 x 4096 takes 0.30 ms a row by tiles of 4 x 4, 5 x 4, 6 x 2, 8 x 2 or 12 x 2, and 0.41 by 4 x 2, whose sums wait
    for one another (one thread, 16 lanes).
    """
    most, few = (8, 4 if shape.has_zeros else 5) if shape.lanes == 16 else (4, 1)
    some = -(-rows // -(-rows // most))
    return some, 4 if some <= few else 2
