"""Products of rows with 4- and 8-bit weights by dot instructions, or what the CPU has in their place: rows of FLOAT32
become whole numbers of three int8 digits, rows of int8 are one digit, and columns of weights are multiplied with
those exactly, portion by portion.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.work_item import WorkItems, make_stage
from anydml.engines.cpu.launch.record import Layout
from anydml.engines.cpu.quant.dot4 import write_dot, write_small
from anydml.engines.cpu.threads.scratch import workspace
from anydml.ir.blocked_weights import MOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.codegen.function import Value

# Rows of FLOAT32 as whole numbers of three signed bytes each: what integer dot products multiply exactly.
#
# `kernel(a, portions, digits, sums, powers, odd, scales, shared)` takes a row in portions of `PORTION` elements. A
# portion has a power of two, such that its elements over it are below 2^`size` and are rounded to whole numbers: for 23
# an error of at most 2^-23 of its largest element. Those are cut into three bytes.
#
# digits  by `TOGETHER` portions: of each place, the highest bytes last, words of four bytes; for each word of a
#         portion, as `Digits.order` has them, those of all portions side by side; portions left over one by one
# sums    by portion, the sum of its elements times `zero`
# powers  by portion, the power of two, FLOAT32
# odd     set to 1 where an element is no finite number
#
# Rows that were rounded to one signed byte each have that for their only digit; the scales, of which each is for
# `shared` portions, are their powers.


PORTION = 32
"""Elements that share a power of two."""
TOGETHER = 4
"""Portions that are multiplied at once: a lane of four bytes for each."""
PLACES = 3
"""Bytes of an element."""
_LOW, _INFINITY = 23, 0x7F800000
"""The exponent's bits below which a power would be too small to write, and the bits of infinity."""


class Digits(NamedTuple):
    """The parameters of the text."""

    size: int
    """The bits of elements, at most 23."""
    is_paired: bool
    """Whether a word has every other element, as one half of bytes has them."""
    zero: int
    is_rounded: bool = False
    """Whether rows are of signed bytes that they were rounded to; of FLOAT32 else."""

    @property
    def order(self) -> list[int]:
        """The elements word by word."""
        if not self.is_paired:
            return list(range(PORTION))
        return [k for start in range(0, PORTION, 8) for half in (0, 1) for k in range(start + half, start + 8, 2)]


def make_digits(shape: Digits) -> str:
    """The text of the kernel."""
    f = Function("kernel", "a portions digits sums powers odd scales shared")
    a, portions, digits, sums, powers, odd, scales, shared = f.args
    places, is_rounded = 1 if shape.is_rounded else PLACES, shape.is_rounded
    whole = portions - portions % TOGETHER
    with f.loop(0, portions) as p:
        if is_rounded:
            octets = f.load(vector_of(PORTION, "i8"), a + p * PORTION)
            number = f.cast("sext", octets, "i32")
        else:
            row = f.shuffle(f.load(vector_of(PORTION, "float"), a + p * (4 * PORTION)), None, shape.order)
            power, number = _as_whole_numbers(f, row, shape.size, odd)
        f.store(f.reduce("add", number) * shape.zero, sums + p * 4)
        f.store(f.load("i32", scales + p // shared * 4) if is_rounded else power, powers + p * 4)
        side = f.select(p < whole, f.value(TOGETHER, "i64"), 1)
        first = digits + (p - p % side) * (places * PORTION) + p % side * 4
        for place in range(places):
            if place:
                number = f.binary("ashr", number + 128, 8)
            low = f.shuffle(octets, None, shape.order) if is_rounded else f.cast("trunc", number, "i8")
            words = f.bitcast(low, vector_of(PORTION // 4, "i32"))
            for w in range(PORTION // 4):  # apart by as many as are side by side
                f.store(f.extract(words, w), first + side * (PORTION * place) + side * (4 * w))
    return f.end()


def _as_whole_numbers(f: Function, row: Value, size: int, odd: Value) -> tuple[Value, Value]:
    """A portion's power of two, as the bits of a FLOAT32, and its elements over that."""
    most = f.reduce("umax", f.bitcast(row, vector_of(PORTION, "i32")) & 0x7FFFFFFF)
    with f.when(f.compare("uge", most, _INFINITY)):
        f.store(1, odd)
    # From a little above the largest on, so that three signed bytes have room: 127·(2^16 + 2^8 + 1).
    exponent = f.bitcast(f.bitcast(most, "float") * (1 + 2**-7), "i32") >> 23
    exponent = f.select(f.compare("ult", exponent, _LOW), _LOW, exponent)
    factor = f.splat(f.bitcast(2 * 127 + size - 1 - exponent << 23, "float"), PORTION)
    number = f.cast("fptosi", f.overloaded("roundeven", row * factor), "i32")
    # What is no finite number becomes whatever: nobody reads what is computed with it.
    return exponent - (size - 1) << 23, f.made(number.type, f"freeze {number.typed}")


# The units of products with weights of few bits: what all of them begin with, whichever way they multiply.


SECTIONS = ("left", "right", "result")


class WeightItems(WorkItems):
    """A kernel whose work items are some rows by some columns; `memory` is where things lie in a scratch, by name."""

    def __init__(self, layout: Layout, memory: Mapping[str, int]) -> None:
        super().__init__(layout, SECTIONS)
        self.left, self.right = self.sections["left"], self.sections["right"]
        scratch = self.take_scratch(workspace().size)
        self.memory = SimpleNamespace(**{name: scratch + at for name, at in memory.items()})
        self.k, self.shared = self.of.portions * PORTION, self.right.step()

    def unit(self) -> None:
        """Write what is done for a unit's `rows` from m0 on, of the columns that `by_column` numbers."""
        raise NotImplementedError

    def write(self) -> str:
        """The text."""
        f, of = self.f, self.of
        with self.each() as number:
            self.by_column, others = number % of.column_units, number // of.column_units
            self.m0 = others % of.row_units * of.height
            self.find_place(others // of.row_units)
            self.find_bases(*SECTIONS)
            self.rows = f.min(of.height, of.m - self.m0)
            self.unit()
        return self.text(make_stage())

    def cut(self, count: Value) -> tuple[Value, Value]:
        """A unit's share of some columns or panels: the first, and how many."""
        first = count * self.by_column // self.of.column_units
        return first, count * (self.by_column + 1) // self.of.column_units - first

    def stage_row(self, row: Value) -> None:
        """Compute a row in the scratch."""
        self.stage("left", self.m0 + row, 0, 1, self.k, self.memory.row, 0)

    def find_row(self, row: Value) -> tuple[Value, Value]:
        """Where a row's elements and its scales lie: as they are, or in the scratch where they have to be computed."""
        f, number, is_computed = self.f, self.m0 + row, self.of.is_computed.ne(0)
        with f.when(is_computed):
            self.stage_row(row)
        elements, scales = (self.left.base(v) + number * self.left.on(v) for v in range(2))
        return f.select(is_computed, self.memory.row, elements), scales


# A few rows times columns of weights of few bits, a unit of columns at a time. Compiled once for all.
#
# A unit makes digits of its rows, has its columns multiplied, and finishes the results as a contraction does. Rows with
# what is no finite number are multiplied in FLOAT32 instead.


RECORD = Layout(
    "slots", "slot_count", "m", "n", "portions", "row_units", "column_units", "height", "some", "digits", "columns_of",
    "columns_low", "scalar_fallback", "left_at", "right_at", "result_at", "rank", "is_rounded",
    "is_computed",
)  # fmt: skip
"""After the header, and before the batch's sizes; `height` are the rows of a unit, `some` those of `columns_of`, of
which `columns_low` takes what is left, `_at` the words at which sections stand; and whether rows are bytes, or are
computed before they are multiplied."""

# Where things lie in a scratch: its lock, whether rows are odd, a row, the digits, sums and powers, the results.
_ODD = 64
_ROW = _ODD + 64
_DIGITS = _ROW + 4 * MOST


def bytes_of(portions: int, rows: int) -> int:
    """Bytes of the digits, the sums and the powers."""
    return rows * portions * (PLACES * PORTION + 8)


class DigitItems(WeightItems):
    """The text of the kernel."""

    def __init__(self) -> None:
        results = workspace().sums_at - 4096 - figures().gemm.result_bytes
        super().__init__(RECORD, {"odd": _ODD, "row": _ROW, "digits": _DIGITS, "results": results})

    def unit(self) -> None:
        """Rows as digits, times columns, a few of either at once."""
        f, of, memory, rows = self.f, self.of, self.memory, self.rows
        n0, columns = self.cut(of.n)
        pitch, in_turn = columns * 4, figures().quant.columns_in_turn
        all_sums = memory.digits + rows * of.portions * (PLACES * PORTION)
        all_powers = all_sums + rows * of.portions * 4

        def of_row(row: Value) -> tuple[Value, Value, Value]:
            """Where a row's digits, sums and powers lie."""
            on = row * of.portions
            return memory.digits + on * (PLACES * PORTION), all_sums + on * 4, all_powers + on * 4

        with f.loop(0, rows) as r:
            odd = memory.odd + r * 8
            f.store(0, odd)
            elements, scales = self.find_row(r)
            f.invoke(of.digits, elements, of.portions, *of_row(r), odd, scales, self.shared)
        right = self.right.at, self.right.bases
        with f.loop(0, columns, in_turn) as j, f.loop(0, rows, of.some) as i:
            used = f.select(rows - i >= of.some, of.columns_of, of.columns_low)
            to = memory.results + i * pitch + j * 4
            f.invoke(used, *right, n0 + j, f.min(in_turn, columns - j), *of_row(i), to, pitch, of.portions)
        with f.loop(0, rows) as o, f.when(f.load("i64", memory.odd + o * 8)):
            self.stage_row(o)
            f.invoke(of.scalar_fallback, *right, n0, columns, memory.row, memory.results + o * pitch, of.portions)
        self.stage("result", self.m0, n0, rows, columns, memory.results, pitch)


# Columns of weights of 4 or 8 bits times a few rows of digits: integer products, scaled portion by portion.
#
# `kernel(right, bases, n0, columns, digits, sums, powers, total, pitch, portions)` writes the rows of some columns to
# `total`. Each column's weights lie side by side, two 4-bit ones to a byte and the first in its low half; so do its
# scales, of which each is for `PORTION` weights or a multiple of them, and its zero points. The exact sum of a
# portion's products is scaled, and added to one of four sums in turn, which are added in pairs in the end.
#
# `right` are the words of a section with the weights, the scales and the zero points, which begin at `bases`; the
# digits of a row follow those of the row before.


DIGIT_WORDS = PORTION // 4
"""Words of four bytes of a portion's digits."""
SUMS, FOUR = vector_of(TOGETHER, "float"), vector_of(TOGETHER, "i32")

Place: TypeAlias = tuple[int, int]
"""A row, and a column of those that are multiplied at once."""


class Quantised(NamedTuple):
    """The parameters of the text."""

    rows: int
    lanes: int
    """Sums of a dot product, 4 or 8."""
    bits: int
    is_signed: bool
    has_zeros: bool
    """Whether zero points are read; otherwise the sums are of the elements times the zero point, less than 0."""
    zero: int
    """Without those, what is taken off all weights as they are multiplied."""
    shared: int
    """Portions that share a scale, `TOGETHER` where there are more."""
    dots: bool
    """Whether the CPU adds up products of bytes by fours."""
    is_arm: bool
    places: int = PLACES
    """Bytes of a row's element: one where rows were rounded."""
    is_laid_out: bool = False
    """Whether words of the weights lie as they are multiplied: by `TOGETHER` portions, the first word of each, then the
    second ones."""

    @property
    def width(self) -> int:
        """Bytes of a portion's weights."""
        return PORTION * self.bits // 8

    @property
    def views(self) -> tuple[str, ...]:
        """The values read of a column."""
        return ("weights", "scales", "zeros") if self.has_zeros else ("weights", "scales")

    @property
    def raised(self) -> int:
        """The excess of weights as they are multiplied: 0 .. 15 or 0 .. 255, but for an Arm that takes signed bytes."""
        if self.bits == 4:
            return 8 if self.is_signed else 0
        takes_signed = self.is_arm and self.dots
        return 0 if self.is_signed == takes_signed else -128 if takes_signed else 128

    @property
    def extended(self) -> str:
        """How numbers become wider."""
        return "sext" if self.is_signed else "zext"


class _Columns:
    """A kernel that reads columns of weights: where their views begin, and how far columns are apart."""

    def __init__(self, shape: Quantised, arguments: str) -> None:
        self.shape, self.f = shape, Function("kernel", f"right bases n0 columns {arguments}")
        right, bases, self.n0, self.columns, *_ = self.f.args
        count = len(shape.views)
        self.base = [self.f.load("i64", bases + 8 * i) for i in range(count)]
        self.on = [self.f.load("i64", right + 24 + 8 * (2 * count + i)) for i in range(count)]
        self.shared = self.f.load("i64", right + 24 + 8 * count)

    def views(self, column: Value) -> list[Value]:
        """Where the views of a column begin."""
        return [base + (self.n0 + column) * on for base, on in zip(self.base, self.on, strict=True)]


class Products(_Columns):
    """The text of the kernel."""

    def __init__(self, shape: Quantised) -> None:
        super().__init__(shape, "digits sums powers total pitch portions")
        *_, self.digits, self.sums, self.powers, self.total, self.pitch, self.portions = self.f.args
        self.octets, self.ints = vector_of(4 * shape.lanes, "i8"), vector_of(shape.lanes, "i32")

    def write(self) -> str:
        """All of it."""
        f, shape = self.f, self.shape
        self.whole = self.portions - self.portions % TOGETHER
        # Two columns at once have more sums under way than one, where there is room for them, and memory streams two
        # faster than four: one row takes 1.2 ms in place of 1.6, and rounded to bytes 0.66 in place of 0.70 or 0.76.
        of = figures().quant
        beside = 2 if (of.takes_two_columns and shape.bits == 4) or shape.places == 1 or shape.rows == 1 else 1
        most = self.columns - self.columns % beside
        with f.loop(0, most, beside) as n:
            self._columns(n, beside)
        if beside > 1:
            with f.loop(most, self.columns) as n:
                self._columns(n, 1)
        return f.end()

    def _columns(self, column: Value, count: int) -> None:
        f = self.f
        self.at = [self.views(column + c) for c in range(count)]
        sums = {(i, c): f.zero(SUMS) for i in range(self.shape.rows) for c in range(count)}
        for start, stop, step in ((0, self.whole, TOGETHER), (self.whole, self.portions, 1)):
            with f.loop(start, stop, step, carry=sums) as p:
                sums.update(self._portions(p, step, sums))
        for (i, c), value in sums.items():
            for lanes in (2, 1):  # the sum of all lanes, in pairs
                value += f.shuffle(value, None, [lanes + k if k < lanes else -1 for k in range(TOGETHER)])
            f.store(f.extract(value, 0), self.total + self.pitch * i + (column + c) * 4)

    def _portions(self, p: Value, count: int, sums: dict[Place, Value]) -> dict[Place, Value]:
        """Some portions, for some rows and columns: a lane of the sums for each portion."""
        f, shape, rows, columns = self.f, self.shape, range(self.shape.rows), range(len(self.at))
        weights = [self._weights(self.at[c][0], p, count) for c in columns]
        if count > 1:
            for c in columns:  # of the column that takes this one's place
                f.prefetch(self.at[c][0] + p * shape.width + self.on[0] * len(columns))
        parts: dict[Place, list[Value]] = {place: [] for place in sums}
        taken = [self._of_row(self.sums, "i32", i, p, count) for i in rows]
        for digit in reversed(range(shape.places)):
            # What is taken off is where the lowest digits begin: 4 rows rounded to bytes take 1.65 ms so, not 1.8.
            starts = [f.zero(self.ints) if digit or self._is_apart else self._wide(taken[i]) for i in rows]
            totals = {(i, c): starts[i] for i, c in sums}
            if digit < shape.places - 1 and self._is_chained(len(sums)):
                totals = {one: self._above(parts[one].pop(), total) for one, total in totals.items()}
            for v in range(count * DIGIT_WORDS // shape.lanes):
                for i in rows:
                    at = self.digits + self.portions * i * (PLACES * PORTION) + p * (shape.places * PORTION)
                    factor = f.load(self.octets, at + (count * PORTION * digit + 4 * shape.lanes * v), align=4)
                    for c in columns:
                        totals[i, c] = self._add_fours(weights[c][v], factor, totals[i, c])
            for one, total in totals.items():
                parts[one].append(total)
        scales = [self._by_scale(self.at[c][1], p, count, "float") for c in columns]
        zeros = [self._zeros(self.at[c][-1], p, count) for c in columns]
        powers = [self._of_row(self.powers, "float", i, p, count) for i in rows]
        return {
            (i, c): f.overloaded(
                "fma", self._number(parts[i, c], count, taken[i], zeros[c]), scales[c] * powers[i], old
            )
            for (i, c), old in sums.items()
        }

    def _of_row(self, base: Value, scalar: str, i: int, p: Value, count: int) -> Value:
        """The values that some portions of a row have one of, each in its lane."""
        return self._padded(self.f.load(vector_of(count, scalar), base + (self.portions * i + p) * 4))

    def _wide(self, four: Value) -> Value:
        """The same with 0 in the lanes that a dot product has more."""
        lanes = self.shape.lanes
        return four if lanes == TOGETHER else self.f.shuffle(four, self.f.zero(FOUR), range(lanes))

    # Weights' bytes, and their products with digits, four to a sum: by a CPU's dot instructions, or by others.

    def _weights(self, base: Value, p: Value, count: int) -> list[Value]:
        """The weights of some portions in vectors of bytes, word by word as the digits lie."""
        f, shape = self.f, self.shape
        words: list[Value] = []  # by four: of one portion those that follow one another, of more one of each
        for start in range(0, shape.width, 16):
            if shape.is_laid_out:
                places = [base + p * shape.width + (TOGETHER * start + 16 * u) for u in range(count)]
            else:
                places = [base + (p + u) * shape.width + start for u in range(count)]
            found = [f.load(FOUR, place, align=1) for place in places]
            words += found if count == 1 or shape.is_laid_out else f.transpose(found)
        halves: list[Value] = []
        for word in words:
            octets = f.bitcast(word, "<16 x i8>")
            if shape.raised:
                octets ^= -120 if shape.bits == 4 else -128
            if shape.bits == 8:
                halves.append(octets)
                continue
            low, high = octets & 15, octets >> 4
            # Of one portion a word of the one comes after one of the other.
            pairs = [[*range(4 * k, 4 * k + 4), *range(16 + 4 * k, 20 + 4 * k)] for k in range(4)]
            one = [f.shuffle(low, high, [*pairs[k], *pairs[k + 1]]) for k in (0, 2)] if count == 1 else []
            halves += one or [low, high]
        if shape.lanes == TOGETHER:
            return halves
        return [f.shuffle(a, b, range(32)) for a, b in zip(halves[::2], halves[1::2], strict=True)]

    def _add_fours(self, weight: Value, digit: Value, total: Value) -> Value:
        """Add the products of four bytes each to 32-bit sums: weights as they are raised, digits signed."""
        f, shape = self.f, self.shape
        if shape.dots:
            a, b = (f.bitcast(x, self.ints) for x in (weight, digit))
            return write_dot(f, shape.is_arm, a, b, total)
        if shape.bits == 4:
            return total + self._fours(weight, digit)
        return total + (self._fours(weight & 15, digit) + (self._fours(weight >> 4, digit) << 4))

    def _fours(self, weight: Value, digit: Value) -> Value:
        """The sums of four products of bytes that are at most 15 with signed ones: two of them fit 16 bits."""
        f = self.f
        if not self.shape.is_arm:
            a, b = (f.bitcast(x, self.ints) for x in (weight, digit))
            return write_small(f, a, b, f.zero(self.ints))
        product = f.cast("sext", weight, "i16") * f.cast("sext", digit, "i16")
        return self._pairs(f.cast("sext", self._pairs(product), "i32"))

    def _pairs(self, value: Value) -> Value:
        """The sums of neighbours."""
        a, b = (self.f.shuffle(value, None, range(k, value.lanes, 2)) for k in (0, 1))
        return a + b

    # Scales

    def _by_scale(self, base: Value, p: Value, count: int, scalar: str) -> Value:
        """The values that there is one of for each scale, in the lane of each portion."""
        shared = self.shape.shared
        few = max(count // shared, 1)
        first = base + p // (shared if shared < TOGETHER else self.shared) * (4 if scalar == "float" else 1)
        loaded = self.f.load(vector_of(few, scalar), first)
        if few != count:
            loaded = self.f.shuffle(loaded, None, [u // shared for u in range(count)])
        return self._padded(loaded)

    def _zeros(self, base: Value, p: Value, count: int) -> Value:
        """Zero points of the weights as they are multiplied."""
        if not self.shape.has_zeros:
            return self.f.value(self.shape.zero, FOUR)
        return self.f.cast(self.shape.extended, self._by_scale(base, p, count, "i8"), "i32") + self.shape.raised

    def _padded(self, vector: Value) -> Value:
        """The same with 0 in the lanes of portions that there are not."""
        count = vector.lanes
        if count == TOGETHER:
            return vector
        return self.f.shuffle(vector, self.f.zero(vector.type), [min(k, count) for k in range(TOGETHER)])

    # Sums

    @property
    def _is_apart(self) -> bool:
        """Whether the sums of elements are not yet times the zero point."""
        return self.shape.has_zeros or self.shape.bits == 8

    def _is_chained(self, count: int) -> bool:
        """Whether the sum of a place begins with that of the place above: with a few, each would wait for the other."""
        return self.shape.bits == 4 and count > figures().quant.chains

    def _above(self, above: Value, start: Value) -> Value:
        """Where a place's sum begins, given that of the place above."""
        return above << 8 if start == "zeroinitializer" else (above << 8) + start

    def _number(self, parts: list[Value], count: int, sums: Value, zeros: Value) -> Value:
        """The sums of products less the zero point's, FLOAT32."""
        f, shape = self.f, self.shape
        whole, *others = parts
        low = others.pop() if shape.bits == 8 and others else None  # 32 bits have no room for all three
        for other in others:
            whole = (whole << 8) + other
        if low is None:
            total = self._together(whole, count)
            return f.cast("sitofp", total - sums * zeros if self._is_apart else total, "float")
        most, least = (self._together(x, count) for x in (whole, low))
        if shape.has_zeros or shape.zero:
            # Whole numbers are exact, however much larger than the result what is taken off is.
            high = f.binary("ashr", sums + 128, 8)
            most, least = most - high * zeros, least - (sums - (high << 8)) * zeros
        most, least = (f.cast("sitofp", x, "float") for x in (most, least))
        return f.overloaded("fma", most, f.value(256, SUMS), least)

    def _together(self, total: Value, count: int) -> Value:
        """The sums of portions, each in its lane: of one portion all lanes are in the first."""
        f = self.f
        if count == 1:
            return f.insert(f.zero(FOUR), f.reduce("add", total), 0)
        if self.shape.lanes > TOGETHER:
            a, b = (f.shuffle(total, None, range(k, k + 4)) for k in (0, 4))
            return a + b
        return total


# A row times columns of weights of few bits in FLOAT32, a portion at a time: for rows with infinities, which have no
# digits. Element by element it took 70 times as long as digits do; it takes 5 times as long.


def make_scalar_fallback(shape: Quantised) -> str:
    """The text of `kernel(right, bases, n0, columns, a, total, portions)`."""
    columns, floats = _Columns(shape, "a total portions"), vector_of(PORTION, "float")
    f = columns.f
    *_, a, total, portions = f.args
    with f.loop(0, columns.columns) as n:
        weights, scales, *zeros = columns.views(n)
        sums = [f.zero(floats)]
        with f.loop(0, portions, carry=sums) as p:
            block = p // columns.shared
            zero = f.value(shape.zero - shape.raised, "i32")
            if zeros:
                zero = f.cast(shape.extended, f.load("i8", zeros[0] + block), "i32")
            number = f.cast(shape.extended, _portion(f, shape, weights, p), "i32") - f.splat(zero, PORTION)
            weight = f.cast("sitofp", number, "float") * f.splat(f.load("float", scales + block * 4), PORTION)
            row = f.load(floats, a + p * (4 * PORTION), align=4)
            sums[0] = f.overloaded("fma", row, weight, sums[0])
        f.store(f.reduce("fadd", sums[0], -0.0), total + n * 4)
    return f.end()


def _portion(f: Function, shape: Quantised, weights: Value, p: Value) -> Value:
    """The weights of a portion, a byte each, in their order."""
    if shape.is_laid_out:
        first, count = weights + (p - p % TOGETHER) * shape.width + p % TOGETHER * 4, shape.width // 4
        words = f.value("poison", vector_of(count, "i32"))
        for w in range(count):
            words = f.insert(words, f.load("i32", first + w * (4 * TOGETHER)), w)
        octets = f.bitcast(words, vector_of(shape.width, "i8"))
    else:
        octets = f.load(vector_of(shape.width, "i8"), weights + p * shape.width, align=1)
    if shape.bits == 8:
        return octets
    order = [lane for i in range(shape.width) for lane in (i, shape.width + i)]
    found = f.shuffle(octets & 15, octets >> 4, order)
    return (found ^ 8) - 8 if shape.is_signed else found
