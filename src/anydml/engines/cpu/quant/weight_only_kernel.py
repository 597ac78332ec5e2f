"""Weight-only quantisation: kernels that multiply 4- and 8-bit weights in quantisation blocks with int8 digits of
FLOAT32 rows, and the scalar fallback for rows with infinities or NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.work_item import DECLARED, find_place, make_bases, make_stage, take_scratch
from anydml.engines.cpu.gemm.workspace import workspace
from anydml.engines.cpu.launch.record import HEADER
from anydml.engines.cpu.quant.dot4 import write_dot, write_small
from anydml.engines.cpu.rows.walk import VIEWS
from anydml.ir.blocked_weights import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Rows of FLOAT32 as whole numbers of three signed bytes each: what integer dot products multiply exactly.
#
# `kernel(a, portions, digits, sums, powers, odd, scales, shared)` takes a row in portions of `PORTION` elements. A
# portion has a power of two, such that its elements over it are below 2^`size` and are rounded to whole numbers: for 23
# an error of at most 2^-23 of its largest element. Those are cut into three bytes.
#
# digits  by `TOGETHER` portions: of each place, the highest bytes last, words of four bytes; for each word of a
#         portion, as `Digits.words` has them, those of all portions side by side; portions left over one by one
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


_NAMES = ("a", "portions", "digits", "sums", "powers", "odd", "scales", "shared")
_HEAD = f"void @kernel({', '.join(f'i64 %{name}' for name in _NAMES)})"


class Digits(NamedTuple):
    """The parameters of the text."""

    size: int
    """The bits of elements, at most 23."""
    is_paired: bool
    """Whether a word has every other element, as one half of bytes has them."""
    zero: int

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"digits {self.size} {int(self.is_paired)} {self.zero}"

    @property
    def words(self) -> list[list[int]]:
        """The elements of each word."""
        if not self.is_paired:
            return [list(range(start, start + 4)) for start in range(0, PORTION, 4)]
        return [list(range(start + half, start + 8, 2)) for start in range(0, PORTION, 8) for half in (0, 1)]


def make_digits(shape: Digits) -> str:
    """The text of the kernel."""
    text = Steps()
    floats, ints, octets = (f"<{PORTION} x {kind}>" for kind in ("float", "i32", "i8"))
    text.let("whole", f"portions - portions % {TOGETHER}")
    with text.loop("p", 0, "portions"):
        a = text.new(f"load {floats}, ptr {text.place(f'a + p * {4 * PORTION}')}, align 4")
        mask = ", ".join(f"i32 {k}" for word in shape.words for k in word)
        a = text.new(f"shufflevector {floats} {a}, {floats} poison, <{PORTION} x i32> <{mask}>")
        bits = text.new(f"and {ints} {text.new(f'bitcast {floats} {a} to {ints}')}, splat (i32 {0x7FFFFFFF})")
        most = _reduced(text, "umax", bits)
        before, yes, on = text.label("before"), text.label("odd"), text.label("on")
        text.add(f"br label %{before}", f"{before}:")
        test = text.new(f"icmp uge i32 {most}, {_INFINITY}")
        text.add(f"br i1 {test}, label %{yes}, label %{on}", f"{yes}:")
        text.put("odd", 1)
        text.add(f"br label %{on}", f"{on}:")
        # From a little above the largest on, so that three signed bytes have room: 127·(2^16 + 2^8 + 1).
        near = text.new(f"fmul float {text.new(f'bitcast i32 {most} to float')}, 0x3FF0200000000000")
        exponent = text.new(f"lshr i32 {text.new(f'bitcast float {near} to i32')}, 23")
        small = text.new(f"icmp ult i32 {exponent}, {_LOW}")
        exponent = text.new(f"select i1 {small}, i32 {_LOW}, i32 {exponent}")
        power = text.new(f"shl i32 {text.new(f'sub i32 {exponent}, {shape.size - 1}')}, 23")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * 4')}")
        up = text.new(f"shl i32 {text.new(f'sub i32 {2 * 127 + shape.size - 1}, {exponent}')}, 23")
        factor = text.spread(text.new(f"bitcast i32 {up} to float"), "float", PORTION)
        whole = text.call("roundeven", floats, [text.new(f"fmul {floats} {a}, {factor}")])
        # What is no finite number becomes whatever: nobody reads what is computed with it.
        number = text.new(f"freeze {ints} {text.new(f'fptosi {floats} {whole} to {ints}')}")
        total = text.new(f"mul i32 {_reduced(text, 'add', number)}, {shape.zero}")
        text.add(f"store i32 {total}, ptr {text.place('sums + p * 4')}")
        text.let("side", f"{TOGETHER} if p < whole else 1")
        text.let("first", f"digits + (p - p % side) * {PLACES * PORTION} + p % side * 4")
        for place in range(PLACES):
            low = text.new(f"trunc {ints} {number} to {octets}")
            _store_words(text, low, f"first + side * {PORTION * place}")
            number = text.new(f"ashr {ints} {text.new(f'add {ints} {number}, splat (i32 128)')}, splat (i32 8)")
    text.add("ret void")
    return text.define(_HEAD)


def make_rounded(shape: Digits) -> str:
    """The text of the kernel for rows of signed bytes."""
    text = Steps()
    octets, mask = f"<{PORTION} x i8>", ", ".join(f"i32 {k}" for word in shape.words for k in word)
    text.let("whole", f"portions - portions % {TOGETHER}")
    with text.loop("p", 0, "portions"):
        a = text.new(f"load {octets}, ptr {text.place(f'a + p * {PORTION}')}, align 1")
        total = _reduced(text, "add", text.new(f"sext {octets} {a} to <{PORTION} x i32>"))
        total = text.new(f"mul i32 {total}, {shape.zero}")
        text.add(f"store i32 {total}, ptr {text.place('sums + p * 4')}")
        power = text.new(f"load i32, ptr {text.place('scales + p // shared * 4')}")
        text.add(f"store i32 {power}, ptr {text.place('powers + p * 4')}")
        a = text.new(f"shufflevector {octets} {a}, {octets} poison, <{PORTION} x i32> <{mask}>")
        text.let("side", f"{TOGETHER} if p < whole else 1")
        text.let("first", f"digits + (p - p % side) * {PORTION} + p % side * 4")
        _store_words(text, a, "first")
    text.add("ret void")
    return text.define(_HEAD)


def _store_words(text: Steps, octets: str, first: str) -> None:
    """The words of a portion, apart by as many as are side by side."""
    words = text.new(f"bitcast <{PORTION} x i8> {octets} to <{PORTION // 4} x i32>")
    for w in range(PORTION // 4):
        word = text.new(f"extractelement <{PORTION // 4} x i32> {words}, i32 {w}")
        text.add(f"store i32 {word}, ptr {text.place(f'{first} + side * {4 * w}')}, align 4")


def _reduced(text: Steps, function: str, vector: str) -> str:
    """The largest or the sum of a portion's whole numbers."""
    name, kind = f"@llvm.vector.reduce.{function}.v{PORTION}i32", f"<{PORTION} x i32>"
    text.declared[f"declare i32 {name}({kind})"] = None
    return text.new(f"call i32 {name}({kind} {vector})")


# The units of products with weights of few bits: what all of them begin with, whichever way they multiply.


SECTIONS = ("left", "right", "result")


def make_units(
    fields: Sequence[str], memory: Mapping[str, int], enter: Callable[[Steps], None], write: Callable[[Steps], None]
) -> str:
    """The text of a kernel: words by their names, places in a scratch, what is found once, and what a unit does."""
    text = Steps()
    for i, name in enumerate(fields):
        text.read(name, f"words + {8 * (HEADER + i)}")
    for name in SECTIONS:
        text.let(f"{name}", f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
        text.read(f"{name}_views", f"{name} + 8")
    text.room("places", VIEWS)
    take_scratch(text, workspace().size)
    for name, at in memory.items():
        text.let(name, f"scratch + {at}")
    text.let("k", f"portions * {PORTION}")
    text.read("shared", "right + 24 + right_views * 8")
    enter(text)
    with text.loop("unit", "begin", "end"):
        text.let("by_column", "unit % column_units")
        text.let("others", "unit // column_units")
        text.let("m0", "others % row_units * height")
        find_place(text, "others // row_units", HEADER + len(fields))
        for name in SECTIONS:
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        text.let("rows", "min(height, m - m0)")
        write(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    kernel = text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")
    return "\n".join([make_stage(), make_bases(), kernel, DECLARED])


def find_row(text: Steps) -> None:
    """Where a row's elements lie: bytes as they are, with their scales, and others in the scratch, computed."""
    with text.when("is_rounded == 0"):
        text.invoke("@stage", "left", "left_bases", "m0 + r", 0, 1, "k", "left_views - 1", "row", 0)
    for name, at in (("bytes", 0), ("row_scales", 8)):
        text.read(f"{name}_base", f"left_bases + {at}")
        text.read(f"{name}_on", f"left + {24 + 8 * 4} + {at}")
    text.let("of_row", "bytes_base + (m0 + r) * bytes_on if is_rounded != 0 else row")
    text.let("scales_of_row", "row_scales_base + (m0 + r) * row_scales_on")


# A few rows times columns of weights of few bits, a unit of columns at a time. Compiled once for all.
#
# A unit makes digits of its rows, has its columns multiplied, and finishes the results as a contraction does. Rows with
# what is no finite number are multiplied in FLOAT32 instead.


WORDS = (
    "slots", "slot_count", "m", "n", "portions", "row_units", "column_units", "height", "some", "digits", "columns_of",
    "columns_low", "plainly", "left_at", "right_at", "result_at", "rank", "is_rounded",
)  # fmt: skip
"""After the header, and before the batch's sizes; `height` are the rows of a unit, `some` those of `columns_of`, of
which `columns_low` takes what is left, and `_at` the words at which sections stand."""
NEAR = 64
"""Columns that all rows take in turn: their weights stay in the second cache, and the digits of some rows in the
first."""

# Where things lie in a scratch: its lock, whether rows are odd, a row, the digits, sums and powers, the results.
_ODD = 64
_ROW = _ODD + 64
_DIGITS = _ROW + 4 * MOST


def bytes_of(portions: int, rows: int) -> int:
    """Bytes of the digits, the sums and the powers."""
    return rows * portions * (PLACES * PORTION + 8)


def make_weights() -> str:
    """The text of the kernel."""
    memory = {
        "row": _ROW,
        "digit_memory": _DIGITS,
        "result_memory": workspace().sums_at - 4096 - figures().gemm.result_bytes,
    }
    return make_units(WORDS, memory, lambda _: None, _write_unit)


def _write_unit(text: Steps) -> None:
    text.let("n0", "n * by_column // column_units")
    text.let("columns", "n * (by_column + 1) // column_units - n0")
    text.let("pitch", "columns * 4")
    text.let("sums", f"digit_memory + rows * portions * {PLACES * PORTION}")
    text.let("powers", "sums + rows * portions * 4")
    with text.loop("r", 0, "rows"):
        text.put(f"scratch + {_ODD} + r * 8", 0)
        find_row(text)
        text.invoke(
            "digits", "of_row", "portions", f"digit_memory + r * portions * {PLACES * PORTION}",
            "sums + r * portions * 4", "powers + r * portions * 4", f"scratch + {_ODD} + r * 8",
            "scales_of_row", "shared",
        )  # fmt: skip
    with text.loop("j", 0, "columns", NEAR), text.loop("i", 0, "rows", "some"):
        text.let("used", "columns_of if rows - i >= some else columns_low")
        text.invoke(
            "used", "right", "right_bases", "n0 + j", f"min({NEAR}, columns - j)",
            f"digit_memory + i * portions * {PLACES * PORTION}", "sums + i * portions * 4", "powers + i * portions * 4",
            "result_memory + i * pitch + j * 4", "pitch", "portions",
        )  # fmt: skip
    with text.loop("o", 0, "rows"):
        text.read("is_odd", f"scratch + {_ODD} + o * 8")
        with text.when("is_odd"):
            text.invoke("@stage", "left", "left_bases", "m0 + o", 0, 1, "k", "left_views - 1", "row", 0)
            text.invoke(
                "plainly", "right", "right_bases", "n0", "columns", "row", "result_memory + o * pitch", "portions"
            )
    text.invoke("@stage", "result", "result_bases", "m0", "n0", "rows", "columns", 0, "result_memory", "pitch")


# Weights' bytes, and their products with digits, four to a sum: by a CPU's dot instructions, or by others.


FOUR = f"<{TOGETHER} x i32>"


def read_weights(text: Steps, shape: Quantised, base: str, name: str, count: int) -> list[str]:
    """The weights of some portions in vectors of bytes, word by word as the digits lie."""
    words = []  # by four: of one portion those that follow one another, of more one of each
    for start in range(0, shape.width, 16):
        places = [f"{base} + ({name} + {u}) * {shape.width} + {start}" for u in range(count)]
        if shape.is_laid_out:
            places = [f"{base} + {name} * {shape.width} + {TOGETHER * start + 16 * u}" for u in range(count)]
        found = [text.new(f"load {FOUR}, ptr {text.place(place)}, align 1") for place in places]
        words += found if count == 1 or shape.is_laid_out else _transposed(text, found)
    halves: list[str] = []
    for word in words:
        octets = text.new(f"bitcast {FOUR} {word} to <16 x i8>")
        if shape.raised:
            octets = text.new(f"xor <16 x i8> {octets}, splat (i8 {-120 if shape.bits == 4 else -128})")
        if shape.bits == 8:
            halves.append(octets)
            continue
        low = text.new(f"and <16 x i8> {octets}, splat (i8 15)")
        high = text.new(f"lshr <16 x i8> {octets}, splat (i8 4)")
        # Of one portion a word of the one comes after one of the other.
        pairs = [[*range(4 * k, 4 * k + 4), *range(16 + 4 * k, 20 + 4 * k)] for k in range(4)]
        halves += [low, high] if count > 1 else [
            shuffled(text, low, high, [*pairs[k], *pairs[k + 1]], "i8", 16) for k in (0, 2)
        ]  # fmt: skip
    if shape.lanes == TOGETHER:
        return halves
    return [shuffled(text, a, b, list(range(32)), "i8", 16) for a, b in zip(halves[::2], halves[1::2], strict=True)]


def _transposed(text: Steps, rows: list[str]) -> list[str]:
    """Four words of four portions as four portions of each word."""
    a, b, c, d = rows
    pairs = [
        shuffled(text, x, y, lanes, "i32", 4) for x, y in ((a, b), (c, d)) for lanes in ([0, 4, 1, 5], [2, 6, 3, 7])
    ]
    return [
        shuffled(text, pairs[k], pairs[k + 2], lanes, "i32", 4)
        for k in (0, 1)
        for lanes in ([0, 1, 4, 5], [2, 3, 6, 7])
    ]


def add_fours(text: Steps, shape: Quantised, weight: str, digit: str, total: str) -> str:
    """Add the products of four bytes each to 32-bit sums: weights as they are raised, digits signed."""
    ints, octets = f"<{shape.lanes} x i32>", f"<{4 * shape.lanes} x i8>"
    if shape.dots:
        a, b = (text.new(f"bitcast {octets} {x} to {ints}") for x in (weight, digit))
        return write_dot(text, shape.lanes, shape.is_arm, a, b, total)
    if shape.bits == 4:
        return text.new(f"add {ints} {total}, {_fours(text, shape, weight, digit)}")
    low = _fours(text, shape, text.new(f"and {octets} {weight}, splat (i8 15)"), digit)
    high = _fours(text, shape, text.new(f"lshr {octets} {weight}, splat (i8 4)"), digit)
    both = text.new(f"add {ints} {low}, {text.new(f'shl {ints} {high}, splat (i32 4)')}")
    return text.new(f"add {ints} {total}, {both}")


def _fours(text: Steps, shape: Quantised, weight: str, digit: str) -> str:
    """The sums of four products of bytes that are at most 15 with signed ones: two of them fit 16 bits."""
    lanes, octets = shape.lanes, f"<{4 * shape.lanes} x i8>"
    if not shape.is_arm:
        a, b = (text.new(f"bitcast {octets} {x} to <{lanes} x i32>") for x in (weight, digit))
        return write_small(text, lanes, a, b, "zeroinitializer")
    count = 4 * lanes
    a, b = (text.new(f"sext {octets} {x} to <{count} x i16>") for x in (weight, digit))
    value = text.new(f"mul <{count} x i16> {a}, {b}")
    value = _pairs(text, value, "i16", count)
    return _pairs(text, text.new(f"sext <{count // 2} x i16> {value} to <{count // 2} x i32>"), "i32", count // 2)


def _pairs(text: Steps, value: str, scalar: str, count: int) -> str:
    """The sums of neighbours."""
    a, b = (shuffled(text, value, "poison", list(range(k, count, 2)), scalar, count) for k in (0, 1))
    return text.new(f"add <{count // 2} x {scalar}> {a}, {b}")


def shuffled(text: Steps, a: str, b: str, lanes: list[int], scalar: str, count: int) -> str:
    """Lanes of two vectors of so many."""
    kind, mask = f"<{count} x {scalar}>", ", ".join(f"i32 {lane}" for lane in lanes)
    return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>")


# Columns of weights of 4 or 8 bits times a few rows of digits: integer products, scaled portion by portion.
#
# `kernel(right, bases, n0, columns, digits, sums, powers, total, pitch, portions)` writes the rows of some columns to
# `total`. Each column's weights lie side by side, two 4-bit ones to a byte and the first in its low half; so do its
# scales, of which each is for `PORTION` weights or a multiple of them, and its zero points. The exact sum of a
# portion's products is scaled, and added to one of four sums in turn, which are added in pairs in the end.
#
# `right` are the words of a section with the weights, the scales and the zero points, which begin at `bases`; the
# digits of a row follow those of the row before.


MOST_ROWS = 4
"""Rows whose sums have room in the registers."""
CHAINED = 2
"""Sums that are under way at once and no more, where those of a row's places are."""
DIGIT_WORDS = PORTION // 4
"""Words of four bytes of a portion's digits."""
SUMS = f"<{TOGETHER} x float>"

Place: TypeAlias = tuple[int, str]
"""A row, and a column by its name."""


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
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(str(int(part)) for part in self)

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


def make_quantised(shape: Quantised) -> str:
    """The text of the kernel."""
    return _Columns(shape).write()


def read_section(text: Steps, views: tuple[str, ...]) -> None:
    """Where the views of weights begin, how far columns are apart, and how many portions share a scale."""
    for i, name in enumerate(views):
        text.read(f"{name}_base", f"bases + {8 * i}")
        text.read(f"{name}_on", f"right + {24 + 8 * (2 * len(views) + i)}")
    text.read("shared", f"right + {24 + 8 * len(views)}")


class _Columns:
    def __init__(self, shape: Quantised) -> None:
        self.shape, self.text = shape, Steps()
        self.ints, self.octets = f"<{shape.lanes} x i32>", f"<{4 * shape.lanes} x i8>"

    def write(self) -> str:
        text = self.text
        read_section(text, self.shape.views)
        text.let("whole", f"portions - portions % {TOGETHER}")
        # Two columns at once have more sums under way than one, where there is room for them, and memory streams two
        # faster than four: one row takes 1.2 ms in place of 1.6, and rounded to bytes 0.66 in place of 0.70 or 0.76. An
        # Arm has the registers: its 8 rows take 8.4 ms in place of 9.4, as digits are read half as often.
        is_wide = self.shape.is_arm and self.shape.bits == 4
        beside = 2 if is_wide or self.shape.places == 1 or self.shape.rows == 1 else 1
        text.let("most", f"columns - columns % {beside}")
        with text.loop("n", 0, "most", beside):
            self._columns("n", beside)
        if beside > 1:
            with text.loop("o", "most", "columns"):
                self._columns("o", 1)
        text.add("ret void")
        names = ("right", "bases", "n0", "columns", "digits", "sums", "powers", "total", "pitch", "portions")
        return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")

    def _columns(self, at: str, count: int) -> None:
        text = self.text
        for c in range(count):
            for name in self.shape.views:
                text.let(f"{name}_{at}{c}", f"{name}_base + (n0 + {at} + {c}) * {name}_on")
        places = {(i, f"{at}{c}"): (i, c) for i in range(self.shape.rows) for c in range(count)}
        sums = self._sums(f"{at}p", "0", "whole", TOGETHER, dict.fromkeys(places, "zeroinitializer"))
        for place, value in self._sums(f"{at}q", "whole", "portions", 1, sums).items():
            i, c = places[place]
            to = text.place(f"total + {i} * pitch + ({at} + {c}) * 4")
            text.add(f"store float {self._fold(value)}, ptr {to}")

    def _sums(self, name: str, start: str, stop: str, step: int, given: dict[Place, str]) -> dict[Place, str]:
        """The sums of some rows and columns after some portions."""
        text = self.text
        before, head, body, after = (text.label(name) for _ in range(4))
        first, last = text.value(start), text.value(stop)
        text.add(f"br label %{before}", f"{before}:", f"br label %{head}", f"{head}:")
        text.add(f"%{name} = phi i64 [ {first}, %{before} ], [ %{name}.on, %{body} ]")
        for s, value in enumerate(given.values()):
            text.add(f"%{name}.s{s} = phi {SUMS} [ {value}, %{before} ], [ %{name}.t{s}, %{body} ]")
        test = text.new(f"icmp slt i64 %{name}, {last}")
        text.add(f"br i1 {test}, label %{body}, label %{after}", f"{body}:")
        made = self._portions(name, step, {place: f"%{name}.s{s}" for s, place in enumerate(given)})
        for s, value in enumerate(made.values()):
            text.add(f"%{name}.t{s} = bitcast {SUMS} {value} to {SUMS}")
        text.add(f"%{name}.on = add i64 %{name}, {step}", f"br label %{head}", f"{after}:")
        return {place: f"%{name}.s{s}" for s, place in enumerate(given)}

    def _portions(self, name: str, count: int, sums: dict[Place, str]) -> dict[Place, str]:
        """Some portions, for some rows and columns: a lane of the sums for each portion."""
        text, shape = self.text, self.shape
        rows, columns = list(dict.fromkeys(i for i, _ in sums)), list(dict.fromkeys(c for _, c in sums))
        weights = {c: read_weights(text, shape, f"weights_{c}", name, count) for c in columns}
        if count > 1:
            for c in columns:  # of the column that takes this one's place
                place = text.place(f"weights_{c} + {name} * {shape.width} + {len(columns)} * weights_on")
                text.fetch(place)
        parts: dict[Place, list[str]] = {place: [] for place in sums}
        taken = {i: self._of_row("sums", "i32", i, name, count) for i in rows}
        for digit in reversed(range(shape.places)):
            # What is taken off is where the lowest digits begin: 4 rows rounded to bytes take 1.65 ms so, not 1.8.
            starts = {i: "zeroinitializer" if digit or self._is_apart else self._wide(taken[i]) for i in rows}
            totals = {(i, c): starts[i] for i, c in sums}
            if digit < shape.places - 1 and self._is_chained(len(sums)):
                totals = {one: self._above(parts[one].pop(), total) for one, total in totals.items()}
            for v in range(count * DIGIT_WORDS // shape.lanes):
                for i in rows:
                    at = f"digits + {i} * portions * {PLACES * PORTION} + {name} * {shape.places * PORTION}"
                    at += f" + {count * PORTION * digit + 4 * shape.lanes * v}"
                    factor = text.new(f"load {self.octets}, ptr {text.place(at)}, align 4")
                    for c in columns:
                        totals[i, c] = add_fours(text, shape, weights[c][v], factor, totals[i, c])
            for one, total in totals.items():
                parts[one].append(total)
        scales = {c: self._by_scale(f"scales_{c}", name, count, "float", 4) for c in columns}
        zeros = {c: self._zeros(f"zeros_{c}", name, count) for c in columns}
        powers = {i: self._of_row("powers", "float", i, name, count) for i in rows}
        made = {}
        for i, c in sums:
            number = self._number(parts[i, c], count, taken[i], zeros[c])
            factor = text.new(f"fmul {SUMS} {scales[c]}, {powers[i]}")
            made[i, c] = text.call("fma", SUMS, [number, factor, sums[i, c]])
        return made

    def _of_row(self, base: str, kind: str, i: int, name: str, count: int) -> str:
        """The values that some portions of a row have one of, each in its lane."""
        place = self.text.place(f"{base} + ({i} * portions + {name}) * 4")
        return self._padded(self.text.new(f"load <{count} x {kind}>, ptr {place}, align 4"), kind, count)

    def _wide(self, four: str) -> str:
        """The same with 0 in the lanes that a dot product has more."""
        if self.shape.lanes == TOGETHER:
            return four
        return self._shuffled(four, "zeroinitializer", list(range(self.shape.lanes)), "i32", TOGETHER)

    def _shuffled(self, a: str, b: str, lanes: list[int], scalar: str, count: int) -> str:
        return shuffled(self.text, a, b, lanes, scalar, count)

    # Scales

    def _by_scale(self, base: str, name: str, count: int, scalar: str, width: int) -> str:
        """The values that there is one of for each scale, in the lane of each portion."""
        text, shared = self.text, self.shape.shared
        first = text.place(f"{base} + {name} // {shared if shared < TOGETHER else 'shared'} * {width}")
        few = max(count // shared, 1)
        loaded = text.new(f"load <{few} x {scalar}>, ptr {first}, align {width}")
        if few != count:
            loaded = self._shuffled(loaded, "poison", [u // shared for u in range(count)], scalar, few)
        return self._padded(loaded, scalar, count)

    def _zeros(self, base: str, name: str, count: int) -> str:
        """Zero points of the weights as they are multiplied; empty where there are none."""
        text, shape = self.text, self.shape
        if not shape.has_zeros:
            return ""
        octets = self._by_scale(base, name, count, "i8", 1)
        wide = text.new(f"{'sext' if shape.is_signed else 'zext'} <{TOGETHER} x i8> {octets} to {FOUR}")
        return text.new(f"add {FOUR} {wide}, splat (i32 {shape.raised})") if shape.raised else wide

    def _padded(self, vector: str, scalar: str, count: int) -> str:
        """The same with 0 in the lanes of portions that there are not."""
        if count == TOGETHER:
            return vector
        return self._shuffled(vector, "zeroinitializer", [min(k, count) for k in range(TOGETHER)], scalar, count)

    # Sums

    @property
    def _is_apart(self) -> bool:
        """Whether the sums of elements are not yet times the zero point."""
        return self.shape.has_zeros or self.shape.bits == 8

    def _is_chained(self, count: int) -> bool:
        """Whether the sum of a place begins with that of the place above: with a few, each would wait for the other.

        8 rows take 9.4 ms so in place of 10.2, and one 1.43 in place of 1.25 (Arm Neoverse-N1).
        """
        return self.shape.is_arm and self.shape.bits == 4 and count > CHAINED

    def _above(self, above: str, start: str) -> str:
        """Where a place's sum begins, given that of the place above."""
        up = self.text.new(f"shl {self.ints} {above}, splat (i32 8)")
        return up if start == "zeroinitializer" else self.text.new(f"add {self.ints} {up}, {start}")

    def _number(self, parts: list[str], count: int, sums: str, zeros: str) -> str:
        """The sums of products less the zero point's, FLOAT32."""
        text, shape = self.text, self.shape
        whole, *others = parts
        low = others.pop() if shape.bits == 8 and others else ""  # 32 bits have no room for all three
        for other in others:
            whole = text.new(f"add {self.ints} {text.new(f'shl {self.ints} {whole}, splat (i32 8)')}, {other}")
        if not low:
            together = self._together(whole, count)
            if self._is_apart:
                less = text.new(f"mul {FOUR} {sums}, {zeros or f'splat (i32 {shape.zero})'}")
                together = text.new(f"sub {FOUR} {together}, {less}")
            return self._float(together)
        most, least = (self._together(x, count) for x in (whole, low))
        if zeros or shape.zero:
            # Whole numbers are exact, however much larger than the result what is taken off is.
            zero = zeros or f"splat (i32 {shape.zero})"
            high = text.new(f"ashr {FOUR} {text.new(f'add {FOUR} {sums}, splat (i32 128)')}, splat (i32 8)")
            rest = text.new(f"sub {FOUR} {sums}, {text.new(f'shl {FOUR} {high}, splat (i32 8)')}")
            most = text.new(f"sub {FOUR} {most}, {text.new(f'mul {FOUR} {high}, {zero}')}")
            least = text.new(f"sub {FOUR} {least}, {text.new(f'mul {FOUR} {rest}, {zero}')}")
        return text.call("fma", SUMS, [self._float(most), "splat (float 256.0)", self._float(least)])

    def _float(self, number: str) -> str:
        return self.text.new(f"sitofp {FOUR} {number} to {SUMS}")

    def _together(self, total: str, count: int) -> str:
        """The sums of portions, each in its lane: of one portion all lanes are in the first."""
        text, lanes = self.text, self.shape.lanes
        if count == 1:
            name = f"@llvm.vector.reduce.add.v{lanes}i32"
            text.declared[f"declare i32 {name}({self.ints})"] = None
            one = text.new(f"call i32 {name}({self.ints} {total})")
            return text.new(f"insertelement {FOUR} zeroinitializer, i32 {one}, i32 0")
        if lanes > TOGETHER:
            a, b = (self._shuffled(total, "poison", list(range(k, k + 4)), "i32", lanes) for k in (0, 4))
            return text.new(f"add {FOUR} {a}, {b}")
        return total

    def _fold(self, value: str) -> str:
        """The sum of all lanes, in pairs."""
        text = self.text
        for lanes in (2, 1):
            mask = ", ".join(f"i32 {lanes + k if k < lanes else 'poison'}" for k in range(TOGETHER))
            other = text.new(f"shufflevector {SUMS} {value}, {SUMS} poison, {FOUR} <{mask}>")
            value = text.new(f"fadd {SUMS} {value}, {other}")
        return text.new(f"extractelement {SUMS} {value}, i32 0")


# A row times columns of weights of few bits in FLOAT32, one by one: for rows with infinities, which have no digits.


def make_plain(shape: Quantised) -> str:
    """The text of `kernel(right, bases, n0, columns, a, total, portions)`."""
    text = Steps()
    read_section(text, shape.views)
    with text.loop("n", 0, "columns"):
        for name in shape.views:
            text.let(name, f"{name}_base + (n0 + n) * {name}_on")
        to = text.place("total + n * 4")
        text.add(f"store float 0.0, ptr {to}")
        with text.loop("k", 0, f"portions * {PORTION}"):
            text.let("scale", f"k // ({PORTION} * shared)")
            number = text.new(f"sub i32 {_weight(text, shape)}, {_zero(text, shape)}")
            number = text.new(f"sitofp i32 {number} to float")
            scale = text.new(f"load float, ptr {text.place('scales + scale * 4')}")
            a = text.new(f"load float, ptr {text.place('a + k * 4')}")
            product = text.new(f"fmul float {a}, {text.new(f'fmul float {number}, {scale}')}")
            old = text.new(f"load float, ptr {to}")
            text.add(f"store float {text.new(f'fadd float {old}, {product}')}, ptr {to}")
    text.add("ret void")
    names = ("right", "bases", "n0", "columns", "a", "total", "portions")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _weight(text: Steps, shape: Quantised) -> str:
    at = f"k * {shape.bits} // 8"
    if shape.is_laid_out:
        text.let("portion", f"k // {PORTION}")
        text.let("byte", f"k % {PORTION} * {shape.bits} // 8")
        whole = f"(portion - portion % {TOGETHER}) * {shape.width}"
        at = f"{whole} + byte // 4 * {4 * TOGETHER} + portion % {TOGETHER} * 4 + byte % 4"
    byte = text.new(f"load i8, ptr {text.place(f'weights + {at}')}")
    if shape.bits == 4:
        shift = text.new(f"trunc i64 {text.value('k % 2 * 4')} to i8")
        byte = text.new(f"and i8 {text.new(f'lshr i8 {byte}, {shift}')}, 15")
        byte = text.new(f"sub i8 {text.new(f'xor i8 {byte}, 8')}, 8") if shape.is_signed else byte
    return text.new(f"{'sext' if shape.is_signed else 'zext'} i8 {byte} to i32")


def _zero(text: Steps, shape: Quantised) -> str:
    if not shape.has_zeros:
        return str(shape.zero - shape.raised)
    byte = text.new(f"load i8, ptr {text.place('zeros + scale')}")
    return text.new(f"{'sext' if shape.is_signed else 'zext'} i8 {byte} to i32")
