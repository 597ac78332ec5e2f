"""Int8 GEMM: operands packed K4 (four steps of K to a 32-bit lane), windows packed by implicit im2col, and zero-point
compensation from the sums of rows and columns.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function, Steps, vector_of
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.gemm.amx import LINE
from anydml.engines.cpu.gemm.operands import NOWHERE, byte_less_zero
from anydml.engines.cpu.gemm.packing import GROUP
from anydml.engines.cpu.gemm.tile_shapes import has_dots, has_matrices, multiplies_bytes
from anydml.engines.cpu.quant.dot4 import FOUR, SIGNED_PAIR, UNSIGNED_PAIR, widened, write_dot, write_pairs
from anydml.enums import DataType
from anydml.ir.expressions import const

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.microkernel import Tile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.program import Section
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr

# Vectors of bytes as they are packed for products: four steps of each of four rows, of the sign that is multiplied.


class K4Packing(NamedTuple):
    """The parameters of the texts."""

    lie: str
    """As a `Packing` has it."""
    flips: bool
    """Whether bytes are given the other sign."""
    panel: int
    pitch: int
    lanes: int
    is_arm: bool
    has_dots: bool
    """Whether there are dot instructions."""
    is_wide: bool = False
    """Whether bytes are packed as 16 bits: those of a left factor, where products of 16 bits are added up."""
    is_signed: bool = False
    """Whether bytes are multiplied as signed ones."""
    filled: int = FOUR
    """Of the steps of a panel there is a multiple: past the end lies 0."""
    is_lined: bool = False
    """Whether rows lie in lines, for matrix registers."""

    @property
    def group(self) -> int:
        """The bytes of a packed step."""
        return 4 * self.pitch * (2 if self.is_wide else 1)

    @property
    def name(self) -> str:
        """The end of the kernels' names."""
        return " ".join(map(str, self))


def within(text: Steps, count: str) -> str:
    """A mask of the bytes of so many steps of four: whatever lies past the end is 0."""
    bits = text.value(f"(1 << (({count}) * 8)) - 1")
    return text.spread(text.new(f"trunc i64 {bits} to i32"), "i32", GROUP)


def side_by_side(text: Steps, lines: list[str], count: int, step: int = 1) -> list[str]:
    """Four steps of four or eight rows that lie side by side, or two bytes from each other, by vectors of four rows."""
    if count == GROUP and step == 1:  # in the low half of a vector of eight, or LLVM widens bytes first
        low = [text.new(f"load i32, ptr {text.place(line)}, align 1") for line in lines]
        wide = [text.new(f"insertelement <2 x i32> poison, i32 {one}, i32 0") for one in low]
        a, b, c, d = (text.new(f"bitcast <2 x i32> {one} to <8 x i8>") for one in wide)
        halves = [zipped(text, "<8 x i8>", *two, range(GROUP)) for two in ((a, b), (c, d))]
        x, y = (text.new(f"bitcast <8 x i8> {one} to <4 x i16>") for one in halves)
        return [text.new(f"bitcast <8 x i16> {zipped(text, '<4 x i16>', x, y, range(GROUP))} to <4 x i32>")]
    kind = f"<{count} x i8>"
    steps = [text.new(f"load {kind}, ptr {text.place(line)}, align 1") for line in lines]
    if step == 2:  # nothing is read past the last of them
        ends = [text.new(f"load {kind}, ptr {text.place(f'{line} + {count - 1}')}, align 1") for line in lines]
        mask = ", ".join(f"i32 {2 * k if 2 * k < count else 2 * k + 1}" for k in range(count))
        both = zip(steps, ends, strict=True)
        steps = [text.new(f"shufflevector {kind} {a}, {kind} {b}, <{count} x i32> <{mask}>") for a, b in both]
    pairs = []
    for a, b in (steps[:2], steps[2:]):
        found = zipped(text, kind, a, b, range(count))
        pairs.append(text.new(f"bitcast <{2 * count} x i8> {found} to <{count} x i16>"))
    made = []
    for first in range(0, count, GROUP):
        found = zipped(text, f"<{count} x i16>", pairs[0], pairs[1], range(first, first + GROUP))
        made.append(text.new(f"bitcast <{2 * GROUP} x i16> {found} to <{GROUP} x i32>"))
    return made


def zipped(text: Steps, kind: str, a: str, b: str, lanes: range) -> str:
    """Lanes of two vectors in turns."""
    count = int(kind[1:].split()[0])
    mask = ", ".join(f"i32 {k}, i32 {k + count}" for k in lanes)
    return text.new(f"shufflevector {kind} {a}, {kind} {b}, <{2 * len(lanes)} x i32> <{mask}>")


def flip(text: Steps, shape: K4Packing, value: str, kind: str = "<4 x i32>") -> str:
    """Bytes with the other sign, where they are multiplied so."""
    return text.new(f"xor {kind} {value}, splat (i32 {-0x7F7F7F80})") if shape.flips else value


def put(text: Steps, shape: K4Packing, value: str, line: str) -> None:
    """Four bytes of each of four rows, as they are packed."""
    parts = widened(text, GROUP, value, is_signed=shape.is_signed) if shape.is_wide else (value,)
    for i, part in enumerate(parts):
        text.add(f"store <4 x i32> {part}, ptr {text.place(f'{line} + {4 * shape.pitch * i}')}, align 4")


def transpose(text: Steps, rows: list[str]) -> list[str]:
    """Four steps of four rows as four rows of each step."""

    def pick(a: str, b: str, *lanes: int) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return text.new(f"shufflevector <4 x i32> {a}, <4 x i32> {b}, <4 x i32> <{mask}>")

    a, b, c, d = rows
    pairs = [pick(x, y, *lanes) for x, y in ((a, b), (c, d)) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return [pick(pairs[i], pairs[i + 2], *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for i in (0, 1)]


# Windows packed for products of bytes, four steps at a time: rows may lie anywhere, a table has their distances.


def pack_windows(text: Steps, shape: K4Packing) -> None:
    """Eight rows at once where they lie side by side or every other one does, otherwise four; they may lie anywhere.

    7 x 7 by 2 of 224 x 224 pixels of 3 bytes, by 64 filters, take 2.55 ms so, and 2.94 where each byte is read for
    itself (one thread of an Arm Neoverse-N1).
    """

    def beside(first: int, count: int, step: int = 1, name: str = "far") -> str:
        found = (f"{name}{i} == {name}{first} + {(i - first) * step}" for i in range(first + 1, first + count))
        return " and ".join(found)

    if 2 * GROUP < shape.panel <= 4 * GROUP and shape.panel % GROUP == 0:
        for i in range(shape.panel):
            text.read(f"off{i}", f"row_step + min({i}, rows - 1) * 8")
        with text.when(f"rows == {shape.panel} and {beside(0, shape.panel, name='off')}"):
            _pack_rows(text, shape, "source + off0", range(shape.panel), "w", to="target")
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    with text.loop("r", 0, "rows", 2 * GROUP):
        for i in range(2 * GROUP):
            text.read(f"far{i}", f"row_step + min(r + {i}, rows - 1) * 8")
        text.let("eight", f"1 if {beside(0, 2 * GROUP)} else 2 if {beside(0, 2 * GROUP, 2)} else 0")
        for step in (1, 2):
            with text.when(f"eight == {step}"):
                _pack_rows(text, shape, "source + far0", range(2 * GROUP), f"e{step}", step)
        for first in (0, GROUP):
            text.let(f"four{first}", f"1 if {beside(first, GROUP)} else 0")
            with text.when(f"eight == 0 and four{first} != 0 and r + {first} < rows"):
                _pack_rows(text, shape, f"source + far{first}", range(first, first + GROUP), f"f{first}")
            with text.when(f"eight == 0 and four{first} == 0 and r + {first} < rows"):
                _pack_rows(text, shape, "source", range(first, first + GROUP), f"o{first}", 0)


def _pack_rows(
    text: Steps, shape: K4Packing, line: str, rows: range, name: str, step: int = 1, to: str = "target + r * 4"
) -> None:
    """All steps of some rows, so many bytes from each other, or 0 where a table has their distances."""
    text.let(f"whole_{name}", f"count - count % {FOUR}")

    def write(k: str, mask: str | None) -> None:
        for j in range(FOUR):
            text.read(f"far_{k}{j}", f"step + ({k} + {j if mask is None else f'min({j}, count - 1 - {k})'}) * 8")
            text.let(f"line_{k}{j}", f"{line} + far_{k}{j}")
        lines = [f"line_{k}{j}" for j in range(FOUR)]
        made = [] if step else [_apart(text, lines, rows)]
        for first in range(0, len(rows) if step else 0, 2 * GROUP):
            places = [f"{one} + {first * step}" for one in lines]
            made += side_by_side(text, places, min(2 * GROUP, len(rows) - first), step)
        for i, value in enumerate(made):
            found = flip(text, shape, value)
            found = found if mask is None else text.new(f"and <4 x i32> {found}, {mask}")
            put(text, shape, found, f"{to} + {4 * (rows[0] + GROUP * i)} + {k} * {shape.group // FOUR}")

    with text.loop(f"k_{name}", 0, f"whole_{name}", FOUR):
        write(f"k_{name}", None)
    with text.when(f"whole_{name} < count"):
        text.let(f"last_{name}", f"whole_{name}")
        write(f"last_{name}", within(text, f"count - whole_{name}"))


def _apart(text: Steps, lines: list[str], rows: range) -> str:
    """Four steps of four rows, each where its distance says."""
    value = "poison"
    for i, row in enumerate(rows):
        for j, line in enumerate(lines):
            one = text.new(f"load i8, ptr {text.place(f'{line} + far{row}')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return text.new(f"bitcast <16 x i8> {value} to <4 x i32>")


# K4 packing: bytes packed for products, four steps at a time, as `dot4.py` multiplies them.
#
# A packed step is four steps of the folded dimension side by side, 0 where there are no more: the step of a tile, whose
# elements have 32 bits. Bytes are of the signs that the instruction wants, a byte of the other sign less or plus 128.
# So with a' = a - s and za' = za - s the sum of (a - za)·(b - zb) is that of a'·b', less zb'·(Σa' - count·za') and
# za'·Σb': `mend` takes that off, from what `total` has summed up. Where products of 16 bits are added up, of the left
# factor there are the first and third bytes of all rows as such, then the others. For matrix registers it lies in
# lines, 64 bytes of each row.


def make_octets(shape: K4Packing) -> str:
    """The text of the packing: `kernel(source, row.step, step, rows, count, target)`, as `gemm/packing.py` has it."""
    text, group = Steps(), shape.group
    if shape.is_lined:
        _pack_lines(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    if shape.filled > FOUR:
        _fill(text, shape)
    if shape.lie == "p" and shape.panel % GROUP == 0:
        with text.when(f"rows % {shape.panel} == 0"):
            _pack_panels(text, shape)
            text.add("ret void")
            text.add(f"{text.label('never')}:")
    if shape.lie == "w":
        pack_windows(text, shape)
        text.add("ret void")
        return text.define(_HEAD)
    with text.loop("r", 0, "rows", GROUP):
        for i in range(GROUP):
            text.let(f"row{i}", f"source + min(r + {i}, rows - 1) * row_step")
        text.let("to", "target + r * 4")
        text.let("whole", f"count - count % {FOUR}")
        text.let("most", f"count - count % {FOUR * GROUP}" if shape.lie == "t" else 0)
        if shape.lie == "t":
            with text.loop("q", 0, "most", FOUR * GROUP):
                rows = [text.new(f"load <4 x i32>, ptr {text.place(f'row{i} + q')}, align 1") for i in range(GROUP)]
                for i, column in enumerate(transpose(text, rows)):
                    put(text, shape, flip(text, shape, column), f"to + (q // {FOUR} + {i}) * {group}")
        with text.loop("t", "most", "whole", FOUR):
            _store(text, shape, _one_by_one(text, [f"t + {j}" for j in range(FOUR)]), "t")
        with text.when("whole < count"):
            found = _one_by_one(text, [f"min(whole + {j}, count - 1)" for j in range(FOUR)])
            flipped = flip(text, shape, text.new(f"bitcast <16 x i8> {found} to <4 x i32>"))
            mask = within(text, "count - whole")
            put(text, shape, text.new(f"and <4 x i32> {flipped}, {mask}"), f"to + whole // {FOUR} * {group}")
    text.add("ret void")
    return text.define(_HEAD)


_HEAD = "void @kernel(i64 %source, i64 %row_step, i64 %step, i64 %rows, i64 %count, i64 %target)"


def _steps(shape: K4Packing) -> str:
    """The packed steps of a panel."""
    return f"(count + {shape.filled - 1}) // {shape.filled} * {shape.filled // FOUR}"


def _fill(text: Steps, shape: K4Packing) -> None:
    """Zeros in the packed steps of all panels that there are no bytes for."""
    text.let("filled", _steps(shape))
    with (
        text.loop("n_f", 0, f"(rows + {shape.panel - 1}) // {shape.panel}"),
        text.loop("z_f", f"(count + {FOUR - 1}) // {FOUR}", "filled"),
        text.loop("c_f", 0, shape.group, 8),
    ):
        text.put(f"target + (n_f * filled + z_f) * {shape.group} + c_f", 0)


def _pack_lines(text: Steps, shape: K4Packing) -> None:
    """Row by row, in lines of 64 bytes; past the end of the steps lies 0."""
    line, line_type, octets = shape.filled, "<16 x i32>", "<64 x i8>"
    text.let("whole", f"count - count % {line}")
    with text.loop("r", 0, "rows"):
        text.let("row", "source + r * row_step")
        text.let("to", f"target + r * {line}")
        text.let("last", f"to + whole * {shape.pitch}")
        if shape.lie == "t":
            with text.loop("q", 0, "whole", line):
                found = text.new(f"load {line_type}, ptr {text.place('row + q')}, align 1")
                found = flip(text, shape, found, line_type)
                text.add(f"store {line_type} {found}, ptr {text.place(f'to + q * {shape.pitch}')}, align 4")
        else:
            with text.loop("s", 0, "whole"):
                _put_byte(text, shape, "row + s * step", f"to + (s // {line}) * {line * shape.pitch} + s % {line}")
        with text.when("whole < count"):
            text.add(f"store {octets} zeroinitializer, ptr {text.place('last')}, align 4")
            with text.loop("z", "whole", "count"):
                _put_byte(text, shape, "row + z * step", "last + (z - whole)")


def _put_byte(text: Steps, shape: K4Packing, source: str, target: str) -> None:
    one = text.new(f"load i8, ptr {text.place(source)}")
    one = text.new(f"xor i8 {one}, -128") if shape.flips else one
    text.add(f"store i8 {one}, ptr {text.place(target)}")


def _pack_panels(text: Steps, shape: K4Packing) -> None:
    """Whole panels of rows that lie side by side, one after the other: lines of the cache are read once."""
    text.let("panel", f"{_steps(shape)} * {shape.group}")
    text.let("deep", f"count - count % {FOUR}")

    def write(k: str, mask: str | None) -> None:
        for j in range(FOUR):
            text.let(f"{k}_from{j}", f"source + min({k} + {j}, count - 1) * step")
        text.let(f"{k}_to", f"target + {k} * {shape.group // FOUR}")
        with text.loop(f"{k}_p", 0, f"rows // {shape.panel}"):
            for g in range(0, shape.panel, 2 * GROUP):
                lines = [f"{k}_from{j} + {k}_p * {shape.panel} + {g}" for j in range(FOUR)]
                for i, value in enumerate(side_by_side(text, lines, min(2 * GROUP, shape.panel - g))):
                    found = flip(text, shape, value)
                    found = found if mask is None else text.new(f"and <4 x i32> {found}, {mask}")
                    put(text, shape, found, f"{k}_to + {k}_p * panel + {4 * (g + GROUP * i)}")

    with text.loop("k", 0, "deep", FOUR):
        write("k", None)
    with text.when("deep < count"):
        text.let("z", "deep")
        write("z", within(text, "count - deep"))


def _store(text: Steps, shape: K4Packing, octets: str, step: str) -> None:
    value = flip(text, shape, text.new(f"bitcast <16 x i8> {octets} to <4 x i32>"))
    put(text, shape, value, f"to + {step} // {FOUR} * {shape.group}")


def _one_by_one(text: Steps, steps: list[str]) -> str:
    """Four rows of four steps, a byte at a time."""
    value = "poison"
    for i in range(GROUP):
        for j, step in enumerate(steps):
            one = text.new(f"load i8, ptr {text.place(f'row{i} + ({step}) * step')}")
            value = text.new(f"insertelement <16 x i8> {value}, i8 {one}, i32 {FOUR * i + j}")
    return value


# The sums of the bytes of each row and column, which zero points are taken off sums of products by.


def read_totals(text: Steps) -> None:
    """The columns' totals, of all steps, that lie beside panels: the first block has them, the others nothing."""
    text.read("ahead", "right_bases + 8")
    with text.loop("t_c", 0, "columns"):
        one = text.new(f"load i32, ptr {text.place('ahead + (n0 + t_c) * 4')}, align 4")
        one = text.new(f"select i1 {text.new('icmp eq i64 %k0, 0')}, i32 {one}, i32 0")
        text.add(f"store i32 {one}, ptr {text.place('right_totals + t_c * 4')}, align 4")


def total_right(text: Steps) -> None:
    """The columns' totals, once rows have a zero point that is not 0: those of filters are 0 as a rule."""
    with text.loop("z_r", 0, "height"):
        one = text.new(f"load i32, ptr {text.place('left_zeros + z_r * 4')}, align 4")
        text.add(f"%zero_r = zext i32 {one} to i64")
        text.read("is_totalled", "totalled")
        with text.when("zero_r != 0 and is_totalled == 0"):
            text.put("totalled", 1)
            with text.loop("j_t", "n0", "n1", "tile_columns"):
                text.invoke(
                    "total_right", "right_memory + (j_t - n0) * packed * 4", "packed", "min(tile_columns, n1 - j_t)",
                    "right_totals + (j_t - n0) * 4",
                )  # fmt: skip


def make_total(shape: K4Packing) -> str:
    """`kernel(panel, steps, rows, target)`: the sum of all bytes of each row or column of a packed panel."""
    f, vector = Function("kernel", "panel steps rows target"), vector_of(shape.lanes, "i32")
    panel, steps, rows, target = f.args
    ones = f.value(0x01010101, vector)
    with f.loop(0, rows, 1 if shape.is_lined else GROUP) as r:
        total = [f.zero(vector)]
        with f.loop(0, steps, shape.lanes if shape.is_lined else 1, carry=total) as s:
            found = _to_total(f, shape, panel + s * shape.group, r)
            if shape.has_dots:
                factors = (ones, found[0]) if shape.is_signed else (found[0], ones)
                made = write_dot(f, shape.lanes, shape.is_arm, *factors, total[0])
            elif shape.is_wide:
                made = write_pairs(f, shape.lanes, (found[0], found[1]), ones, total[0], is_turned=False)
            else:
                one = f.value(0x00010001, vector)
                made = write_pairs(f, shape.lanes, (one, one), found[0], total[0], is_turned=not shape.is_signed)
            total[0] = f.value(made, vector)
        value = f.reduce("add", total[0]) if shape.is_lined else f.shuffle(total[0], None, range(GROUP))
        f.store(value, target + r * 4)
    return f.end()


def _to_total(f: Function, shape: K4Packing, step: Value, row: Value) -> list[Value]:
    """The vectors added to the sums of a step: four rows or columns, or a line of one row."""
    if shape.is_lined:
        return [f.load(vector_of(shape.lanes, "i32"), step + row * shape.filled)]
    fours = [f.load("<4 x i32>", step + row * 4 + 4 * shape.pitch * i) for i in range(2 if shape.is_wide else 1)]
    return [f.shuffle(four, None, [min(k, 3) for k in range(shape.lanes)]) for four in fours]


# Zero-point compensation: the share of zero points is taken off sums; how much that is stands above `make_octets`.


def make_compensation() -> str:
    """`kernel(c, pitch, rows, columns, ra, za, rb, zb, count, mends)`: what zero points add to sums is taken off them.

    The columns' zero points are one where `mends` is 1. Filters have none as a rule: then only a number is taken off,
    or where it is 0 only what the row's own adds: 256 x 256 x 256 takes 251 us so, and 264 as others (Neoverse-N1).
    """
    text = Steps()
    with text.loop("i", 0, "rows"):
        one, zero = (text.new(f"load i32, ptr {text.place(f'{name} + i * 4')}, align 4") for name in ("ra", "za"))
        count = text.new("trunc i64 %count to i32")
        less = text.new(f"sub i32 {one}, {text.new(f'mul i32 {count}, {zero}')}")
        rows = [text.spread(x, "i32", GROUP) for x in (less, zero)]
        first = text.new(f"load i32, ptr {text.place('zb')}, align 4")
        whole = text.spread(text.new(f"mul i32 {less}, {first}"), "i32", GROUP)
        text.add(f"%own = sext i32 {zero} to i64", f"%other = sext i32 {first} to i64")
        text.let("line", "c + i * pitch")
        text.let("is_one", "1 if own == 0 and mends == 1 else 0")
        text.let("is_own", "1 if own != 0 and mends == 1 and other == 0 else 0")
        text.let("many", f"columns - columns % {4 * GROUP}")
        with text.when("is_own != 0"):
            with text.loop("p", 0, "many", 4 * GROUP):
                _take_own(text, [f"p * 4 + {4 * GROUP * k}" for k in range(4)], rows[1])
            with text.loop("q", "many", "columns", GROUP):
                _take_own(text, ["q * 4"], rows[1])
        with text.when("is_one != 0"):
            with text.loop("m", 0, "many", 4 * GROUP):
                _take_off(text, [f"line + m * 4 + {4 * GROUP * k}" for k in range(4)], whole)
            with text.loop("f", "many", "columns", GROUP):
                _take_off(text, ["line + f * 4"], whole)
        with text.when("is_one + is_own == 0"), text.loop("j", 0, "columns", GROUP):
            place = text.place("line + j * 4")
            value = text.new(f"load <4 x i32>, ptr {place}, align 4")
            for row, name in zip(rows, ("zb", "rb"), strict=True):
                other = text.new(f"load <4 x i32>, ptr {text.place(f'{name} + j * 4')}, align 4")
                value = text.new(f"sub <4 x i32> {value}, {text.new(f'mul <4 x i32> {row}, {other}')}")
            text.add(f"store <4 x i32> {value}, ptr {place}, align 4")
    text.add("ret void")
    names = ("c", "pitch", "rows", "columns", "ra", "za", "rb", "zb", "count", "mends")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _take_own(text: Steps, offsets: list[str], zero: str) -> None:
    """Take a row's zero point times the columns' totals off."""
    places = [text.place(f"line + {offset}") for offset in offsets]
    pairs = [
        [text.new(f"load <4 x i32>, ptr {one}, align 4") for one in (place, text.place(f"rb + {offset}"))]
        for place, offset in zip(places, offsets, strict=True)
    ]
    for place, (value, total) in zip(places, pairs, strict=True):
        less = text.new(f"mul <4 x i32> {total}, {zero}")
        text.add(f"store <4 x i32> {text.new(f'sub <4 x i32> {value}, {less}')}, ptr {place}, align 4")


def _take_off(text: Steps, lines: list[str], number: str) -> None:
    places = [text.place(line) for line in lines]
    values = [text.new(f"load <4 x i32>, ptr {place}, align 4") for place in places]
    for place, value in zip(places, values, strict=True):
        text.add(f"store <4 x i32> {text.new(f'sub <4 x i32> {value}, {number}')}, ptr {place}, align 4")


# Contractions of bytes, planned: how dot instructions take them, and what zero points add.


class Int8Plan(NamedTuple):
    """A product of bytes."""

    factors: tuple[tuple[Section, Kernel], ...]
    """With what packs each."""
    small: K4Packing | None
    """How the left factor is packed for a tile of small bytes; None where there is none."""
    zeros: tuple[Section, ...]
    """Of both zero points; empty where there is nothing to mend."""
    mends: int
    """0 where there is nothing to mend; 1 where columns have one zero point, else 2."""
    kernels: tuple[int, ...]
    """That add up each factor's bytes, and that mend sums."""
    left: Expr
    """The load of the left factor."""
    right: Expr
    """The load of the right factor."""
    flips: bool
    """Whether its bytes are multiplied with the other sign."""
    is_turned: bool
    """Whether the left factor is signed and the right one is not."""
    filled: int
    """Of the steps of a panel there is a multiple: past the end lies 0."""

    def most(self, *, is_left: bool) -> int:
        """The most that two neighbours of a factor may add up to, so that they are small."""
        return SIGNED_PAIR if is_left == self.is_turned else UNSIGNED_PAIR

    def small_kernels(self) -> tuple[int, int]:
        """That pack the left factor for a tile of small bytes, and that add those up."""
        return (0, 0) if self.small is None else (_pack(self.small).address, _total(self.small))


def _pack(shape: K4Packing) -> Kernel:
    return get_kernel(f"octets {shape.name}", functools.partial(make_octets, shape))


def _total(shape: K4Packing) -> int:
    return get_kernel(f"total {shape.name}", functools.partial(make_total, shape)).address


def _folded(value: Expr) -> Expr:
    """A difference of constants as one."""
    if value.op == "sub" and all(arg.op == "const" for arg in value.args):
        return const(value.args[0].value - value.args[1].value, value.type)
    return value


def _is_none(zero: Expr) -> bool:
    """Whether a zero point is 0."""
    return zero.op == "const" and not zero.value


def plan_int8(sides: Operands, tile: Tile, constants: frozenset[str] = frozenset()) -> Int8Plan | None:
    """How bytes less their zero points are multiplied by fours; None where they are not, or cannot be."""
    found = [byte_less_zero(value) for value in (sides.left, sides.right)]
    if sides.kind != "i32" or None in found or not multiplies_bytes(tile.lanes):
        return None
    columns = tile.vectors * tile.lanes
    # Panels of a constant are the same for any number of rows, whichever tile those take.
    filled = LINE if has_matrices() else FOUR
    factors, zeros, totals, leaves = [], [], [], []
    small = None
    # An x86 multiplies an unsigned byte by a signed one, on either side. Constants stay signed, for they may be small,
    # and so does the other factor of windows, whose sums are taken.
    kinds = [part[0].type for part in found if part is not None]
    is_turned = not IS_ARM and kinds[0] is DataType.INT8
    is_turned = is_turned and (
        kinds[1] is DataType.UINT8
        or sides.windows is not None
        or any(lie.tensor in constants for part in found[:1] if part for lie in sides.lies(part[0]))
    )
    for part, is_left, across, panel, pitch in (
        (found[0], True, sides.rows, tile.rows, tile.pitch),
        (found[1], False, sides.columns, columns, columns),
    ):
        assert part is not None  # noqa: S101 - for type checkers: both factors are bytes
        leaf, zero = part
        if sides.folded and any(lie.along(sides.folded) for lie in sides.lies(zero)):
            return None
        lie = sides.lie(leaf)
        step, on = lie.along(sides.folded), lie.along(across)
        lies = "p" if on == 1 else "t" if step == 1 else "s"
        if sides.windows is not None and not is_left:
            lies, (on, step) = "w", sides.tables()
        is_signed = IS_ARM or is_left == is_turned
        flips = (leaf.type is DataType.INT8) != is_signed
        is_lined = is_left and tile.kind == "matrices"
        is_wide = is_left and not (is_lined or has_dots(tile.lanes))
        shape = K4Packing(
            lies, flips, panel, pitch, tile.lanes, IS_ARM, has_dots(tile.lanes), is_wide, is_signed, filled, is_lined
        )
        factors.append((sides.section((), [lie], [step], [on]), _pack(shape)))
        totals.append(_total(shape))
        if is_wide and tile.lanes > GROUP:
            small = shape._replace(is_wide=False)
        leaves.append(leaf)
        offset = 0 if not flips else 128 if leaf.type is DataType.UINT8 else -128
        zeros.append((zero - offset, across))
    kernels = (*totals, get_kernel("mend", make_compensation).address)
    if all(_is_none(_folded(value)) for value, _ in zeros):
        return Int8Plan(tuple(factors), small, (), 0, kernels, leaves[0], leaf, flips, is_turned, filled)
    sections = tuple(sides.mapped(value, across, (), NOWHERE, 4) for value, across in zeros)
    is_one = not any(lie.strides[k] for lie in sides.lies(zero) for k in sides.columns)
    mends = 1 if is_one else 2
    return Int8Plan(tuple(factors), small, sections, mends, kernels, leaves[0], leaf, flips, is_turned, filled)
