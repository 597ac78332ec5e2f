"""Column-per-lane int4 GEMM for an x86 with AVX2: a lane for each column, so that no sum is added up across lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.record import LINE, Layout
from anydml.engines.cpu.quant.digits import Digits, WeightItems
from anydml.engines.cpu.quant.dot4 import write_byte_pairs, write_dot, write_word_pairs
from anydml.ir.blocked_weights import MOST, SHORT_BLOCK

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value

# Rows times columns of 4-bit weights, a lane for each column, so that sums are never added across.
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
# pairs in the end. Without dot instructions bytes times 0 .. 15 are added up in 16 bits, which have room for a
# portion's: 8 · 2 · 15 · 128.


STEPS = 8
"""Of a word."""
WORDS = 4
"""Of a portion: 32 steps; half as many where blocks have 16."""
TURNS = 4
"""Sums of a result, taken in turn: one alone would be half as precise after 4,096 steps."""


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
    dots: bool = False
    """Whether the CPU adds up products of bytes by fours."""
    words: int = WORDS
    """Of a portion."""

    @property
    def raised(self) -> int:
        """The excess of signed weights whose sign is turned, so that none is below 0."""
        return 8 if self.is_signed else 0


class LaneSums:
    """The text of the kernel."""

    def __init__(self, shape: ColumnPerLane) -> None:
        self.shape = shape
        self.f = Function("kernel", "weights scales zeros a sums powers to pitch count shared ahead")
        self.vector = 4 * shape.lanes
        """Bytes."""
        self.floats, self.ints = vector_of(shape.lanes, "float"), vector_of(shape.lanes, "i32")
        self.places = [(i, v) for i in range(shape.rows) for v in range(shape.panels)]

    def write(self) -> str:
        """All of it."""
        f, shape, size = self.f, self.shape, len(self.places) * self.vector
        self.weights, scales, zeros, self.a, self.sums, self.powers, to, pitch, count, shared, ahead = f.args
        totals = f.address(f.stack("i8", TURNS * size))
        for n in range(TURNS * len(self.places)):
            f.store(f.zero(self.floats), totals + n * self.vector)
        self.panel, self.by_scale = count * shared * (shape.words * self.vector), count * self.vector
        with f.loop(0, count) as s:
            lines = -(-shape.panels * self.vector // LINE)  # in which a scale of each column lies, as they follow
            for n in range(lines):
                f.prefetch(ahead + (s * lines + n) * LINE, cache=2)
            self.scales, self.zeros = scales + s * self.vector, zeros + s * self.vector
            with f.loop(s * shared, s * shared + shared) as portion:
                self._portion(portion, totals + portion % TURNS * size)
        for n, (i, v) in enumerate(self.places):
            a, b, c, d = (f.load(self.floats, totals + (t * size + n * self.vector)) for t in range(TURNS))
            value = (a + b) + (c + d)
            if not shape.is_rounded:
                value *= self._spread("float", self.powers + 4 * i)
            f.store(value, to + pitch * i + v * self.vector)
        return f.end()

    def _portion(self, portion: Value, total: Value) -> None:
        """Add a portion's sums, times their scales, to those of its turn."""
        f, shape = self.f, self.shape
        zeros = [self._zero(v) for v in range(shape.panels)]
        small = self.ints if shape.dots else vector_of(2 * shape.lanes, "i16")
        kind = small if shape.is_rounded else self.floats
        made = [f.zero(kind)] * len(self.places)
        for k in range(shape.words):  # a loop would take a fifth more time
            word = portion * shape.words + k
            made = self._bytes(word, made) if shape.is_rounded else self._products(word, made, zeros)
        scales = [f.load(self.floats, self.scales + self.by_scale * v) for v in range(shape.panels)]
        for n, (i, v) in enumerate(self.places):
            number, scale = made[n], scales[v]
            if shape.is_rounded:
                at = portion * (4 * shape.rows) + 4 * i
                # What its elements times the zero point are is taken off: both are whole numbers that are exact.
                whole = f.cast("sitofp", number if shape.dots else write_word_pairs(f, number, 1), "float")
                number = f.overloaded("fma", -zeros[v], self._spread("float", self.sums + at), whole)
                scale *= self._spread("float", self.powers + at)
            place = total + n * self.vector
            f.store(f.overloaded("fma", number, scale, f.load(self.floats, place)), place)

    def _words(self, word: Value) -> list[Value]:
        """A word of every column."""
        found = []
        for v in range(self.shape.panels):
            at = self.weights + self.panel * v + word * self.vector
            found.append(self.f.load(self.ints, at))
            self.f.prefetch(at + figures().quant.prefetch_bytes)
        return found

    # Rows of FLOAT32

    def _products(self, word: Value, sums: list[Value], zeros: list[Value]) -> list[Value]:
        shape, made, words = self.shape, list(sums), self._words(word)
        if shape.lanes < len(_TABLE) and shape.is_signed:
            words = [one ^ _MIDDLES for one in words]
        a = self.a + word * (4 * STEPS * shape.rows)
        for k in range(STEPS):
            weights = [self._weight(one, k, zero) for one, zero in zip(words, zeros, strict=True)]
            for i in range(shape.rows):
                factor = self._spread("float", a + 4 * (STEPS * i + k))
                for v in range(shape.panels):
                    n = i * shape.panels + v
                    made[n] = self.f.overloaded("fma", weights[v], factor, made[n])
        return made

    def _weight(self, word: Value, k: int, zero: Value) -> Value:
        """The weights of a step less what is taken off them.

        With 16 lanes a register is a table of all 16, of which an instruction chooses by the lowest bits.
        """
        f, shape = self.f, self.shape
        less = 0 if shape.has_zeros else shape.zero
        if shape.lanes == len(_TABLE):
            table = f.vector("float", [((n ^ 8) - 8 if shape.is_signed else n) - less for n in _TABLE])
            found = f.intrinsic("x86.avx512.permvar.sf.512", table, word >> 4 * k if k else word)
        else:
            # The bits become the last of a float's, which is 2^23 more, or less if they come before the last.
            word = word >> 4 * _SHIFTED if k >= _DIRECT else word
            at = 4 * (k if k < _DIRECT else k - _SHIFTED)
            found = f.bitcast(word & 15 << at | 127 + 23 - at << 23, self.floats)
            found -= 2 ** (23 - at) + shape.raised + less
        return found - zero if shape.has_zeros else found

    def _zero(self, v: int) -> Value:
        """The numbers taken off the weights of a panel; of bytes' as they come."""
        more = self.shape.raised if self.shape.is_rounded else 0
        if not self.shape.has_zeros:
            return self.f.value(self.shape.zero + more, self.floats)
        found = self.f.load(self.floats, self.zeros + self.by_scale * v)
        return found + more if more else found

    # Rows of bytes

    def _bytes(self, word: Value, sums: list[Value]) -> list[Value]:
        shape, made, words = self.shape, list(sums), self._words(word)
        if shape.is_signed:
            words = [one ^ _MIDDLES for one in words]
        a = self.a + word * (STEPS * shape.rows)
        for half, several in enumerate((words, [one >> 4 for one in words])):
            weights = [one & _LOW for one in several]
            for i in range(shape.rows):
                factor = self._spread("i32", a + STEPS * i + 4 * half)
                for v in range(shape.panels):
                    n = i * shape.panels + v
                    if shape.dots:
                        made[n] = write_dot(self.f, False, weights[v], factor, made[n])
                    else:
                        made[n] += write_byte_pairs(self.f, weights[v], factor)
        return made

    def _spread(self, scalar: str, at: Value) -> Value:
        """A number in memory, in every lane."""
        return self.f.splat(self.f.load(scalar, at), self.shape.lanes)


_TABLE = range(16)
_DIRECT, _SHIFTED = 5, 3
"""The steps of a word whose bits are among those of a float's fraction, and those that go before others are."""
_MIDDLES, _LOW = 0x88888888 - 2**32, 0x0F0F0F0F
"""8 in each half of the bytes of a word, and all bits of their low halves."""

# The same for all rows and columns, a unit of panels at a time. Compiled once for all.
#
# A unit lays its rows out by words of steps. For some panels at a time it transposes their columns' scales and zero
# points, and their weights where those are not laid out ahead, has all rows multiplied, and finishes the results as a
# contraction does.


RECORD = Layout(
    "slots", "slot_count", "m", "n", "portions", "row_units", "column_units", "height", "some", "wide", "lanes",
    "row_of", "columns_of", "columns_low", "transpose_values", "transpose_zeros", "left_at", "right_at", "result_at",
    "rank", "is_rounded", "is_laid_out", "words", "is_computed",
)  # fmt: skip
"""After the header, and before the batch's sizes; `height` are the rows of a unit, `some` those of `columns_of`, of
which `columns_low` takes the rest, `wide` the panels of both, `words` those of a portion, and `_at` the words at which
sections stand."""
MOST_ROWS = 512 * 1024
"""Bytes of a unit's rows."""
MOST_PANELS = 384 * 1024
"""Bytes of what is transposed of some panels."""
MOST_RESULTS = 256 * 1024
"""Bytes of a unit's results."""

# Where things lie in a scratch: its lock, a row, all rows, their sums and powers, the panels, the results.
_ROW = 64
_ROWS = _ROW + 4 * MOST
_SUMS = _ROWS + MOST_ROWS
_PANELS = _SUMS + 2 * MOST_ROWS // SHORT_BLOCK
_RESULT = _PANELS + MOST_PANELS
END = _RESULT + MOST_RESULTS
"""The bytes of a scratch that are used."""


def bytes_of_panel(portions: int, lanes: int, words: int) -> int:
    """Bytes of the weights, the scales and the zero points of a panel, at most."""
    return portions * (words + 2) * 4 * lanes


class PanelItems(WeightItems):
    """The text of the kernel."""

    def __init__(self) -> None:
        memory = {"row": _ROW, "rows": _ROWS, "sums": _SUMS, "panels": _PANELS, "results": _RESULT}
        super().__init__(RECORD, memory)
        f, of = self.f, self.of
        self.k = of.portions * of.words * STEPS
        self.panels, self.scale_count = (of.n + of.lanes - 1) // of.lanes, of.portions // self.shared
        self.scales_panel, self.weights_panel = self.scale_count * of.lanes * 4, of.portions * of.lanes * of.words * 4
        self.powers = self.memory.sums + of.height * of.portions * 4
        self.is_rounded = of.is_rounded.ne(0)
        self.width = f.select(self.is_rounded, 1, 4)
        self.in_group = f.select(self.is_rounded, of.portions, 1)
        """The sums and powers of each row of a group: one for a portion, or of FLOAT32 one for a row."""

    def unit(self) -> None:
        """Rows laid out by words of steps, times some panels after the others."""
        f, of = self.f, self.of
        panel0, self.count = self.cut(self.panels)
        self.n0, self.pitch = panel0 * of.lanes, self.count * of.lanes * 4
        with f.loop(0, self.rows) as r:
            self._row(r)
        with f.loop(0, self.count, of.wide) as q:
            self._panels(panel0, f.min(q, self.count - of.wide))  # the last panels again, where fewer are left
        columns = f.min(of.n - self.n0, self.count * of.lanes)
        self.stage("result", self.m0, self.n0, self.rows, columns, self.memory.results, self.pitch)

    def _row(self, r: Value) -> None:
        """Lay a row out among those of its group."""
        f, of, memory = self.f, self.of, self.memory
        elements, scales = self.find_row(r)
        before, within = r - r % of.some, r % of.some
        on = (before * self.in_group + within) * 4
        f.invoke(
            of.row_of, elements, of.portions, f.min(of.some, self.rows - before),
            memory.rows + (before * self.k + within * STEPS) * self.width, memory.sums + on, self.powers + on, scales,
            self.shared,
        )  # fmt: skip

    def _panels(self, panel0: Value, at: Value) -> None:
        """Some panels, times all rows."""
        f, of, memory = self.f, self.of, self.memory
        views = [(self.right.base(v), self.right.on(v)) for v in range(3)]
        zeros_at = memory.panels + of.wide * self.scales_panel
        transposed_at = zeros_at + of.wide * self.scales_panel
        first = self.n0 + at * of.lanes
        with f.loop(0, of.wide) as v:
            column = first + v * of.lanes
            own = f.min(of.lanes, of.n - column)

            def transpose(kernel: Value, view: int, count: Value, to: Value) -> None:
                base, on = views[view]
                f.invoke(kernel, base + column * on, on, own, count, to)

            transpose(of.transpose_values, 1, self.scale_count, memory.panels + v * self.scales_panel)
            with f.when(of.transpose_zeros):
                transpose(of.transpose_zeros, 2, self.scale_count, zeros_at + v * self.scales_panel)
            with f.when(of.is_laid_out.eq(0)):
                transpose(of.transpose_values, 0, of.portions * of.words, transposed_at + v * self.weights_panel)
        ahead = views[0][0] + (panel0 + at) * self.weights_panel
        weights = f.select(of.is_laid_out.ne(0), ahead, transposed_at)
        next_scales = views[1][0] + (first + of.wide * of.lanes) * views[1][1]
        with f.loop(0, self.rows, of.some) as i:
            used = f.select(self.rows - i >= of.some, of.columns_of, of.columns_low)
            on = i * self.in_group * 4
            f.invoke(
                used, weights, memory.panels, zeros_at, memory.rows + i * self.k * self.width, memory.sums + on,
                self.powers + on, memory.results + i * self.pitch + at * of.lanes * 4, self.pitch, self.scale_count,
                self.shared, next_scales,
            )  # fmt: skip


# What those read: rows, by words of steps, and the values of columns, transposed.
#
# `kernel(a, portions, rows, to, sums, powers, scales, shared)` lays out one of some rows, as the sums read them.


_LARGE = 0x77000000
"""The bits of 2^111."""
_ARGUMENTS = "a portions rows to sums powers scales shared"


class RowPortions(NamedTuple):
    """The parameter of both texts."""

    words: int
    """Of a portion."""


def make_floats(shape: RowPortions) -> str:
    """The text of the kernel for a row of FLOAT32.

    A portion of numbers near the largest would add up to infinity before it is scaled: a row of such is multiplied with
    a power of two, and `powers` is the one that its results are multiplied with in turn, 1 for others.
    """
    f, words, size = Function("kernel", _ARGUMENTS), shape.words, STEPS * shape.words
    a, portions, rows, to, _, powers, *_ = f.args
    floats, bits = vector_of(size, "float"), vector_of(size, "i32")
    most = [f.zero(bits)]
    with f.loop(0, portions, carry=most) as p:
        most[0] = f.overloaded("umax", f.load(bits, a + p * (4 * size)) & 0x7FFFFFFF, most[0])
    is_large = f.compare("uge", f.reduce("umax", most[0]), _LARGE)
    down, up = (f.select(is_large, f.value(power, "float"), 1) for power in (2.0**-16, 2.0**16))
    f.store(up, powers)
    factor = f.splat(down, size)
    with f.loop(0, portions) as p:
        value = f.load(floats, a + p * (4 * size)) * factor
        for w in range(words):
            word = f.shuffle(value, None, range(STEPS * w, STEPS * w + STEPS))
            f.store(word, to + (p * words + w) * rows * (4 * STEPS))
    return f.end()


def make_bytes(shape: RowPortions) -> str:
    """The same for a row that was rounded to signed bytes, with a scale for `shared` portions each."""
    f, words, size = Function("kernel", _ARGUMENTS), shape.words, STEPS * shape.words
    a, portions, rows, to, sums, powers, scales, shared = f.args
    order = Digits(0, is_paired=True, zero=0).order[:size]  # word by word
    with f.loop(0, portions) as p:
        octets = f.load(vector_of(size, "i8"), a + p * size)
        # Pairs of products with 1, and pairs of those: a third of the instructions of 32-bit sums.
        ones = f.value(0x01010101, vector_of(2 * words, "i32"))
        total = write_word_pairs(f, write_byte_pairs(f, ones, f.bitcast(octets, ones.type)), 1)
        f.store(f.cast("sitofp", f.reduce("add", total), "float"), sums + p * rows * 4)
        f.store(f.load("i32", scales + p // shared * 4), powers + p * rows * 4)
        both = f.bitcast(f.shuffle(octets, None, order), vector_of(words, "i64"))
        for w in range(words):
            f.store(f.extract(both, w), to + (p * words + w) * rows * STEPS, align=4)
    return f.end()


class Transposed(NamedTuple):
    """The parameters of a transposition."""

    lanes: int
    """Columns of a panel."""
    kind: str
    """Of the values: `f32` for any of 32 bits; `u8` and `s8` become FLOAT32."""


def make_transposed(shape: Transposed) -> str:
    """The text of `kernel(source, on, columns, count, to)`: the values of a panel's columns, side by side.

    A column's values lie side by side, `on` bytes from the next one's. The last column stands for those that there are
    not: nobody reads what is computed from them.
    """
    f = Function("kernel", "source on columns count to")
    source, on, columns, count, to = f.args
    lanes, width = shape.lanes, int(shape.kind[1:]) // 8

    def read(at: Value, some: int) -> Value:
        if width == 4:
            return f.load(vector_of(some, "float"), at, align=1)
        return f.cast(f"{shape.kind[0]}itofp", f.load(vector_of(some, "i8"), at), "float")

    starts = [source + f.min(f.value(c, "i64"), columns - 1) * on for c in range(lanes)]
    whole = count - count % lanes
    with f.loop(0, whole, lanes) as k:
        for i, value in enumerate(f.transpose([read(start + k * width, lanes) for start in starts])):
            f.store(value, to + (k + i) * (4 * lanes))
    with f.loop(whole, count) as k, f.loop(0, lanes) as c:
        f.store(read(source + f.min(c, columns - 1) * on + k * width, 1), to + (k * lanes + c) * 4)
    return f.end()


def tile_of(rows: int, shape: ColumnPerLane) -> tuple[int, int]:
    """The rows of a tile and its panels, whose sums have room in the registers; tiles are about alike.

    4096 x 4096 takes 0.30 ms a row by tiles of 4 x 4, 5 x 4, 6 x 2, 8 x 2 or 12 x 2, and 0.41 by 4 x 2, whose sums wait
    for one another (one thread, 16 lanes).
    """
    most, few = (8, 4 if shape.has_zeros else 5) if shape.lanes == 16 else (4, 1)
    some = -(-rows // -(-rows // most))
    return some, 4 if some <= few else 2
