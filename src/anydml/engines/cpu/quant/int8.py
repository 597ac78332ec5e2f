"""Int8 GEMM: operands packed K4 (four steps of K to a 32-bit lane), windows packed by implicit im2col, and zero-point
compensation from the sums of rows and columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.features import has_dots, has_matrices, has_signed_dots, multiplies_bytes
from anydml.engines.cpu.gemm.blocking import (
    FOUR,
    GROUP,
    MATRIX_LINE,
    letter_of,
)
from anydml.engines.cpu.gemm.operands import NOWHERE
from anydml.engines.cpu.gemm.packing import Packer
from anydml.engines.cpu.quant.dot4 import SIGNED_PAIR, UNSIGNED_PAIR, widened, write_dot, write_pairs
from anydml.ir.contraction import byte_less_zero

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr

# K4 packing: bytes, four steps of K to a 32-bit lane, as `quant/dot4.py` multiplies them.
#
# A packed step is four steps side by side, 0 where there are no more: the step of a tile, whose elements have 32 bits.
# Where products of 16 bits are added up, of the left factor there are the first and third bytes of all rows as such,
# then the others. For matrix registers it lies in lines, 64 bytes of each row.


class K4Packing(NamedTuple):
    """The parameters of a packing of bytes, and of the sums of what is packed."""

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


FOUR_ROWS = vector_of(GROUP, "i32")
"""Four steps of each of four rows."""


class K4Pack(Packer):
    """The text of a packer of bytes."""

    def __init__(self, packing: K4Packing) -> None:
        super().__init__()
        self.packing = packing

    def write(self) -> str:
        """All of it, by how bytes lie."""
        f, packing, group = self.f, self.packing, self.packing.group
        if packing.is_lined:
            self._write_lines()
            return f.end()
        if packing.filled > FOUR:
            self._fill()
        if packing.lie == "p" and packing.panel % GROUP == 0:
            with f.when((self.rows % packing.panel).eq(0)):
                self._write_panels()
                f.ret()
        if packing.lie == "w":
            self._write_windows()
            return f.end()
        whole, most = self.count - self.count % FOUR, f.value(0, "i64")
        with f.loop(0, self.rows, GROUP) as r:
            rows, to = [self.row(r + i) for i in range(GROUP)], self.target + r * 4
            if packing.lie == "t":
                most = self.count - self.count % (FOUR * GROUP)
                with f.loop(0, most, FOUR * GROUP) as q:
                    found = [f.load(FOUR_ROWS, row + q, align=1) for row in rows]
                    for i, column in enumerate(f.transpose(found)):
                        self._put(column, to + (q // FOUR + i) * group)
            with f.loop(most, whole, FOUR) as k:
                places = [row + (k + j) * self.step for row in rows for j in range(FOUR)]
                self._put(self._gather(places), to + k // FOUR * group)
            with f.when(whole < self.count):
                last = self.count - 1
                places = [row + f.min(whole + j, last) * self.step for row in rows for j in range(FOUR)]
                self._put(self._gather(places), to + whole // FOUR * group, self._mask(whole))
        return f.end()

    # Bytes of rows, four steps of each

    def _mask(self, whole: Value) -> Value:
        """The bytes of the steps that are left: whatever lies past the end is 0."""
        f = self.f
        bits = (f.value(1, "i64") << (self.count - whole) * 8) - 1
        return f.splat(f.cast("trunc", bits, "i32"), GROUP)

    def _put(self, value: Value, to: Value, mask: Value | None = None) -> None:
        """Write four bytes of each of four rows, with the sign that they are multiplied with."""
        f, packing = self.f, self.packing
        value = self._flip(value)
        value = value if mask is None else value & mask
        parts = widened(f, value, is_signed=packing.is_signed) if packing.is_wide else (value,)
        for i, part in enumerate(parts):
            f.store(part, to + 4 * packing.pitch * i)

    def _flip(self, value: Value) -> Value:
        """Bytes with the other sign, where they are multiplied so."""
        return value ^ -0x7F7F7F80 if self.packing.flips else value

    def _gather(self, places: list[Value]) -> Value:
        """Four steps of four rows, a byte at a time."""
        f = self.f
        value = f.value("poison", vector_of(len(places), "i8"))
        for i, place in enumerate(places):
            value = f.insert(value, f.load("i8", place), i)
        return f.bitcast(value, FOUR_ROWS)

    def _beside(self, lines: list[Value], count: int, step: int = 1) -> list[Value]:
        """Four steps of four or eight rows that lie side by side, or two bytes from each other, by four rows."""
        f, kind = self.f, vector_of(count, "i8")
        if count == GROUP and step == 1:  # in the low half of a vector of eight, or LLVM widens bytes first
            low = [f.load("i32", line, align=1) for line in lines]
            steps = [f.bitcast(f.insert(f.value("poison", "<2 x i32>"), one, 0), "<8 x i8>") for one in low]
        else:
            steps = [f.load(kind, line) for line in lines]
        if step == 2:  # nothing is read past the last of them
            ends = [f.load(kind, line + (count - 1)) for line in lines]
            steps = [f.every_other(a, b) for a, b in zip(steps, ends, strict=True)]
        pairs = [f.bitcast(self._zip(a, b, range(count)), vector_of(count, "i16")) for a, b in (steps[:2], steps[2:])]
        return [
            f.bitcast(self._zip(pairs[0], pairs[1], range(first, first + GROUP)), FOUR_ROWS)
            for first in range(0, count, GROUP)
        ]

    def _zip(self, a: Value, b: Value, lanes: range) -> Value:
        """Lanes of two vectors in turns."""
        return self.f.shuffle(a, b, [lane for k in lanes for lane in (k, k + a.lanes)])

    # Layouts

    def _steps(self) -> Value:
        """The packed steps of a panel."""
        filled = self.packing.filled
        return (self.count + (filled - 1)) // filled * (filled // FOUR)

    def _fill(self) -> None:
        """Zeros in the packed steps of all panels that there are no bytes for."""
        f, packing, steps = self.f, self.packing, self._steps()
        with (
            f.loop(0, (self.rows + (packing.panel - 1)) // packing.panel) as n,
            f.loop((self.count + (FOUR - 1)) // FOUR, steps) as k,
            f.loop(0, packing.group, 8) as c,
        ):
            f.store(0, self.target + (n * steps + k) * packing.group + c)

    def _write_lines(self) -> None:
        """Row by row, in lines of 64 bytes; past the end of the steps lies 0."""
        f, packing, line = self.f, self.packing, self.packing.filled
        whole, octets, words = self.count - self.count % line, vector_of(line, "i8"), vector_of(line // 4, "i32")

        def put_byte(source: Value, to: Value) -> None:
            byte = f.load("i8", source)
            f.store(byte ^ -128 if packing.flips else byte, to)

        with f.loop(0, self.rows) as r:
            row, to = self.base + r * self.row_step, self.target + r * line
            last = to + whole * packing.pitch
            if packing.lie == "t":
                with f.loop(0, whole, line) as q:
                    f.store(self._flip(f.load(words, row + q, align=1)), to + q * packing.pitch)
            else:
                with f.loop(0, whole) as k:
                    put_byte(row + k * self.step, to + k // line * (line * packing.pitch) + k % line)
            with f.when(whole < self.count):
                f.store(f.zero(octets), last, align=4)
                with f.loop(whole, self.count) as k:
                    put_byte(row + k * self.step, last + (k - whole))

    def _write_panels(self) -> None:
        """Whole panels of rows that lie side by side, one after the other: lines of the cache are read once."""
        f, packing = self.f, self.packing
        panel, deep = self._steps() * packing.group, self.count - self.count % FOUR

        def write(k: Value, mask: Value | None = None) -> None:
            lines = [self.base + f.min(k + j, self.count - 1) * self.step for j in range(FOUR)]
            to = self.target + k * (packing.group // FOUR)
            with f.loop(0, self.rows // packing.panel) as p:
                for first in range(0, packing.panel, 2 * GROUP):
                    places = [line + p * packing.panel + first for line in lines]
                    for i, value in enumerate(self._beside(places, min(2 * GROUP, packing.panel - first))):
                        self._put(value, to + p * panel + 4 * (first + GROUP * i), mask)

        with f.loop(0, deep, FOUR) as k:
            write(k)
        with f.when(deep < self.count):
            write(deep, self._mask(deep))

    def _write_windows(self) -> None:
        """Eight rows at once where they lie side by side or every other one does, otherwise four, anywhere.

        7 x 7 by 2 of 224 x 224 pixels of 3 bytes, by 64 filters, take 2.55 ms so, and 2.94 where each byte is read for
        itself (one thread of an Arm Neoverse-N1).
        """
        f, panel = self.f, self.packing.panel

        def are_beside(far: list[Value], step: int = 1) -> Value:
            test = far[1].eq(far[0] + step)
            for i, one in enumerate(far[2:], 2):
                test &= one.eq(far[0] + i * step)
            return test

        if 2 * GROUP < panel <= 4 * GROUP and panel % GROUP == 0:
            far = [self.distance(f.value(i, "i64")) for i in range(panel)]
            with f.when(self.rows.eq(panel) & are_beside(far)):
                self._write_rows(far, self.target, 1)
                f.ret()
        with f.loop(0, self.rows, 2 * GROUP) as r:
            far, to = [self.distance(r + i) for i in range(2 * GROUP)], self.target + r * 4
            are_one, are_other = are_beside(far), are_beside(far, 2)
            with f.when(are_one):
                self._write_rows(far, to, 1)
            with f.when(are_other):
                self._write_rows(far, to, 2)
            for first in (0, GROUP):
                four = far[first : first + GROUP]
                is_left = ~(are_one | are_other) & (r + first < self.rows)
                with f.when(is_left), f.either(are_beside(four)) as (beside, apart):
                    with beside:
                        self._write_rows(four, to + 4 * first, 1)
                    with apart:
                        self._write_rows(four, to + 4 * first, 0)

    def _write_rows(self, far: list[Value], to: Value, step: int) -> None:
        """All steps of some rows, so many bytes from each other, or 0 where they lie at any distances."""
        f, count = self.f, len(far)
        whole = self.count - self.count % FOUR

        def write(k: Value, mask: Value | None = None) -> None:
            on = [j if mask is None else f.min(j, self.count - 1 - k) for j in range(FOUR)]
            lines = [self.base + f.load("i64", self.step + (k + j) * 8) for j in on]
            if not step:
                made = [self._gather([line + one for one in far for line in lines])]
            else:
                made = [
                    value
                    for first in range(0, count, 2 * GROUP)
                    for value in self._beside(
                        [line + far[0] + first * step for line in lines], min(2 * GROUP, count - first), step
                    )
                ]
            for i, value in enumerate(made):
                self._put(value, to + 4 * GROUP * i + k * (self.packing.group // FOUR), mask)

        with f.loop(0, whole, FOUR) as k:
            write(k)
        with f.when(whole < self.count):
            write(whole, self._mask(whole))


# The sums of the bytes of each row and column, which zero points are taken off sums of products by.
#
# Bytes are packed with the signs that the instruction wants, a byte of the other sign less or plus 128. So with
# a' = a - s and za' = za - s the sum of (a - za)·(b - zb) is that of a'·b', less zb'·(Σa' - count·za') and za'·Σb':
# `make_compensation` takes that off, from what `make_total` has summed up.


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
                total[0] = write_dot(f, shape.is_arm, *factors, total[0])
            elif shape.is_wide:
                total[0] = write_pairs(f, (found[0], found[1]), ones, total[0], is_turned=False)
            else:
                one = f.value(0x00010001, vector)
                total[0] = write_pairs(f, (one, one), found[0], total[0], is_turned=not shape.is_signed)
        value = f.reduce("add", total[0]) if shape.is_lined else f.shuffle(total[0], None, range(GROUP))
        f.store(value, target + r * 4)
    return f.end()


def _to_total(f: Function, shape: K4Packing, step: Value, row: Value) -> list[Value]:
    """The vectors added to the sums of a step: four rows or columns, or a line of one row."""
    if shape.is_lined:
        return [f.load(vector_of(shape.lanes, "i32"), step + row * shape.filled)]
    fours = [f.load("<4 x i32>", step + row * 4 + 4 * shape.pitch * i) for i in range(2 if shape.is_wide else 1)]
    return [f.shuffle(four, None, [min(k, 3) for k in range(shape.lanes)]) for four in fours]


def make_compensation() -> str:
    """Zero-point compensation: what zero points add to the sums at c is taken off them.

    The columns' zero points are one where `kind` is 1. Filters have none as a rule: then only a number is taken off, or
    where it is 0 only what the row's own adds: 256 x 256 x 256 takes 251 us so, and 264 as others (Neoverse-N1).
    """
    f = Function("kernel", "c pitch rows columns row_totals row_zeros totals zeros count kind")
    c, pitch, rows, columns, row_totals, row_zeros, totals, zeros, count, kind = f.args
    four, many = vector_of(GROUP, "i32"), columns - columns % (4 * GROUP)

    def take_off(line: Value, vectors: int, *products: tuple[Value, Value | None]) -> None:
        """Take products of a number with what lies at an address off a line, or the number, some vectors at once."""
        for start, stop, several in ((0, many, vectors), (many, columns, 1)) if vectors > 1 else ((0, columns, 1),):
            with f.loop(start, stop, several * GROUP) as j:
                offsets = [j * 4 + 4 * GROUP * k for k in range(several)]
                values = [f.load(four, line + on) for on in offsets]
                for number, at in products:
                    less = [number if at is None else number * f.load(four, at + on) for on in offsets]
                    values = [value - one for value, one in zip(values, less, strict=True)]
                for value, on in zip(values, offsets, strict=True):
                    f.store(value, line + on)

    with f.loop(0, rows) as i:
        zero, first = f.load("i32", row_zeros + i * 4), f.load("i32", zeros)
        less, line = f.load("i32", row_totals + i * 4) - f.cast("trunc", count, "i32") * zero, c + i * pitch
        is_one = kind.eq(1)
        is_own, is_none = is_one & zero.ne(0) & first.eq(0), is_one & zero.eq(0)
        with f.when(is_own):
            take_off(line, 4, (f.splat(zero, GROUP), totals))
        with f.when(is_none):
            take_off(line, 4, (f.splat(less * first, GROUP), None))
        with f.when(~(is_own | is_none)):
            take_off(line, 1, (f.splat(less, GROUP), zeros), (f.splat(zero, GROUP), totals))
    return f.end()


# Contractions of bytes, planned: how dot instructions take them, and what zero points add.


class Int8Plan(NamedTuple):
    """A product of bytes."""

    factors: tuple[tuple[Section, Kernel], ...]
    """With what packs each."""
    small: K4Packing | None
    """How the left factor is packed for a tile of small bytes; None where there is none."""
    zeros: tuple[Section, ...]
    """Of both zero points; empty where there is no zero point."""
    compensates: int
    """0 where there is no zero point; 1 where columns have one zero point, else 2."""
    kernels: tuple[int, ...]
    """That add up each factor's bytes, and that take what zero points add off sums."""
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
    return kernel_for("k4-pack", K4Pack, shape)


def _total(shape: K4Packing) -> int:
    return kernel_for("k4-total", make_total, shape).address


def _is_none(zero: Expr) -> bool:
    """Whether a zero point, or a difference of constants, is 0."""
    if zero.op == "sub" and all(arg.op == "const" for arg in zero.args):
        return zero.args[0].value == zero.args[1].value
    return zero.op == "const" and not zero.value


def plan_int8(sides: Operands, tile: MicroTile, constants: frozenset[str] = frozenset()) -> Int8Plan | None:
    """How bytes less their zero points are multiplied by fours; None where they are not, or cannot be."""
    found = [byte_less_zero(value) for value in (sides.left, sides.right)]
    if sides.kind != "i32" or None in found or not multiplies_bytes(tile.lanes):
        return None
    columns = tile.vectors * tile.lanes
    # Panels of a constant are the same for any number of rows, whichever tile those take.
    filled = MATRIX_LINE if has_matrices() else FOUR
    factors, zeros, totals, leaves = [], [], [], []
    small = None
    # An x86 multiplies an unsigned byte by a signed one, on either side. Constants stay signed, for they may be small,
    # and so does the other factor of windows, whose sums are taken.
    kinds = [part[0].type for part in found if part is not None]
    is_turned = not has_signed_dots() and kinds[0] is DataType.INT8
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
        lies = letter_of(step, on, 1)
        if sides.windows is not None and not is_left:
            lies, (on, step) = "w", sides.tables()
        is_signed = has_signed_dots() or is_left == is_turned
        flips = (leaf.type is DataType.INT8) != is_signed
        is_lined = is_left and tile.kind == "matrices"
        dots = has_dots(tile.lanes)
        is_wide = is_left and not (is_lined or dots)
        shape = K4Packing(
            lies, flips, panel, pitch, tile.lanes, has_signed_dots(), dots, is_wide, is_signed, filled, is_lined
        )
        factors.append((sides.section((), [lie], [step], [on]), _pack(shape)))
        totals.append(_total(shape))
        if is_wide and tile.lanes > GROUP:
            small = shape._replace(is_wide=False)
        leaves.append(leaf)
        offset = 0 if not flips else 128 if leaf.type is DataType.UINT8 else -128
        zeros.append((zero - offset, across))
    kernels = (*totals, kernel_for("compensation", make_compensation).address)
    sections: tuple[Section, ...] = ()
    compensates = 0
    if not all(_is_none(value) for value, _ in zeros):
        sections = tuple(sides.mapped(value, across, (), NOWHERE, 4) for value, across in zeros)
        is_one = not any(lie.strides[k] for lie in sides.lies(zero) for k in sides.columns)
        compensates = 1 if is_one else 2
    return Int8Plan(tuple(factors), small, sections, compensates, kernels, leaves[0], leaf, flips, is_turned, filled)
