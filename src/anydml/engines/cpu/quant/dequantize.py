"""Weights of 4 and 8 bits dequantised: (q - z)·s, each block with its scale, straight into GEMM's panels of columns, or
by rows where they are the left factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.gemm.work_item import SectionText
from anydml.engines.cpu.quant.digits import PORTION, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value

# Rows of weights of 4 or 8 bits as FLOAT32: (q - z)·s, each block with its scale.
#
# `kernel(words, places, count)` is a row as a map's is. The places are those of a column's weights, its scales and its
# zero points, where there are such; then the first step itself, and where the FLOAT32 go. Steps come by whole portions.


class Unpacked(NamedTuple):
    """The parameters of the text."""

    bits: int
    is_signed: bool
    block: int
    """Steps that share a scale, whole portions."""
    zero: int
    """The number taken off each weight, where no zero points are read."""
    zeros: str
    """The type of zero points that are read, `u8` or `s8`; empty for none."""
    scale: str
    """The type of a scale, `float` or `half`."""
    is_laid_out: bool
    """Whether words lie together as for products of a few rows: of four portions, or of columns."""
    columns: int = 0
    """In the latter case so many columns; the column's number is among the places then, before the first step, and the
    bytes of a panel of them is a number of the words."""

    def in_panels(self, width: int) -> PanelShape:
        """The same for panels of so many columns."""
        lanes = figures().gemm.lanes
        has_tables = self.bits == 4 and lanes == 16 and not IS_ARM
        return PanelShape(*self, lanes=lanes, vectors=width // lanes, has_tables=has_tables)

    @property
    def kind(self) -> str:
        """In which a number less another has room: a byte for 4 bits."""
        return "i32" if self.columns else "i8" if self.bits == 4 else "i16"

    @property
    def width(self) -> int:
        """Bytes of a portion."""
        return PORTION * self.bits // 8


class Unpacking:
    """The text of the kernel."""

    def __init__(self, shape: Unpacked) -> None:
        self.shape, self.f = shape, Function("kernel", "words places count")

    def write(self) -> str:
        """All of it, portion by portion."""
        f, shape = self.f, self.shape
        words, places, count = f.args
        more = (*(("zeros",) if shape.zeros else ()), *(("column",) if shape.columns else ()))
        names = ("weights", "scales", *more, "first", "to")
        self.at = {name: f.load("i64", places + 8 * i) for i, name in enumerate(names)}
        together = TOGETHER if shape.is_laid_out and not shape.columns else 1
        if shape.columns:
            panel, column = f.load("i64", words + 16 * len(names)), self.at["column"]
            own = self.at["weights"] + column // shape.columns * panel + column % shape.columns * 4
        with f.loop(0, count, PORTION * together) as k:
            step, to = self.at["first"] + k, self.at["to"] + k * 4
            if shape.columns:
                self._write_words(own, step, to)
            else:
                here = self.at["weights"] + step // PORTION * shape.width
                self._write_portions(here, step, to, together)
        return f.end()

    def _of_block(self, step: Value) -> tuple[Value, Value]:
        """The scale of a portion's weights, and the number that is taken off them."""
        f, shape, block = self.f, self.shape, step // self.shape.block
        scale = f.load(shape.scale, self.at["scales"] + block * (4 if shape.scale == "float" else 2), align=1)
        zero = f.value(shape.zero, shape.kind)
        if shape.zeros:
            byte = f.load("i8", self.at["zeros"] + block)
            zero = f.cast("sext" if shape.zeros == "s8" else "zext", byte, shape.kind)
        return f.cast("fpext", scale, "float"), zero

    def _write_words(self, own: Value, step: Value, to: Value) -> None:
        """A portion of a column whose words lie beside those of others: each has 8 steps."""
        f, shape = self.f, self.shape
        scale, zero = self._of_block(step)
        by, less = self._spread([scale], 8), self._spread([zero], 8)
        for w in range(PORTION // 8):
            word = f.splat(f.load("i32", own + (step // 8 + w) * (4 * shape.columns)), 8)
            if shape.is_signed:
                number = f.binary("ashr", word << f.vector("i32", range(28, -1, -4)), 28)
            else:
                number = word >> f.vector("i32", range(0, 29, 4)) & 15
            f.store(f.cast("sitofp", number - less, "float") * by, to + 32 * w)

    def _write_portions(self, here: Value, step: Value, to: Value, together: int) -> None:
        """One portion, or four whose words lie together: a vector has a run of steps of one, two or all four."""
        f, shape = self.f, self.shape
        scales, zeros = zip(*(self._of_block(step + PORTION * p) for p in range(together)), strict=True)
        per = max(together * shape.bits // 8, 1)  # portions of a vector
        length = 16 // per
        by = [self._spread([scale], length) for scale in scales]
        less = [self._spread(zeros[p : p + per], 16) for p in range(0, together, per)]
        for start in range(0, shape.width * together, 16):
            octets = f.load("<16 x i8>", here + start)
            for k, part in enumerate(self._numbers(octets)):
                wide = f.cast("sext" if shape.is_signed else "zext", part, shape.kind) - less[k % len(less)]
                on = start * 8 // shape.bits // together + (16 * k if together == 1 else 0)
                for r in range(per):
                    portion = (k * per + r) % together
                    one = f.cast("sext", f.shuffle(wide, None, range(r * length, (r + 1) * length)), "i32")
                    f.store(f.cast("sitofp", one, "float") * by[portion], to + 4 * (PORTION * portion + on))

    def _numbers(self, octets: Value) -> list[Value]:
        """The weights in 16 bytes as a byte each, in their order."""
        if self.shape.bits == 8:
            return [octets]
        orders = ([lane for i in range(k, k + 8) for lane in (i, 16 + i)] for k in (0, 8))
        halves = [self.f.shuffle(octets & 15, octets >> 4, order) for order in orders]
        return [(half ^ 8) - 8 for half in halves] if self.shape.is_signed else halves

    def _spread(self, values: Sequence[Value], lanes: int) -> Value:
        """A vector with each value as often as another."""
        f, kind = self.f, vector_of(lanes, values[0].type)
        if not values[0].startswith("%"):
            return f.value(f"splat ({values[0].typed})", kind)
        found = f.value("poison", kind)
        for i, value in enumerate(values):
            found = f.insert(found, value, i)
        return f.shuffle(found, None, [i * len(values) // lanes for i in range(lanes)])


# Panels of columns, as the microkernel reads them: a lane for each column, step by step.
#
# `kernel(section, bases, first, width, start, steps, to)` writes some steps of a panel's columns. Columns that lie side
# by side in words, of `PanelShape.columns` at once, are lanes already; of others each has as many bytes loaded as a
# vector has words of, and those are transposed as words. A word has 8 weights of 4 bits, or 4 of 8.


GROUP_STEPS = PORTION * TOGETHER
"""Steps whose words lie together where weights are laid out for `digits.py`; others are taken so many at once too."""


class PanelShape(NamedTuple):
    """The parameters of the text: those of `Unpacked`, and the panel's."""

    bits: int
    is_signed: bool
    block: int
    zero: int
    zeros: str
    scale: str
    is_laid_out: bool
    columns: int
    lanes: int
    vectors: int
    """Of a step of the panel."""
    has_tables: bool
    """Whether an instruction looks up each lane in a table of 16 (`vpermps`): shift and lookup in place of three."""

    @property
    def in_word(self) -> int:
        """Weights of a word."""
        return 32 // self.bits


class PanelUnpacking:
    """The text of the kernel."""

    def __init__(self, shape: PanelShape) -> None:
        self.shape, self.f = shape, Function("kernel", "at bases first width start steps to")
        at, bases, self.first, self.width, self.start, self.steps, self.to = self.f.args
        section = SectionText(self.f, at, bases)
        count = 3 if shape.zeros else 2
        self.base, self.on = [section.base(v) for v in range(count)], [section.on(v) for v in range(count)]
        self.ints, self.floats = vector_of(shape.lanes, "i32"), vector_of(shape.lanes, "float")
        self.pitch = 4 * shape.lanes * shape.vectors
        numbers = self._numbers_of_table()
        self.table = self.f.vector("float", numbers) if shape.has_tables else None

    def _numbers_of_table(self) -> list[float]:
        """Of the 16 numbers of 4 bits what each stands for, less the zero point where that is known."""
        signed = [q - 16 * (self.shape.is_signed and q > 7) for q in range(16)]
        return [float(q - (0 if self.shape.zeros else self.shape.zero)) for q in signed]

    def write(self) -> str:
        """All of it, a vector of columns at a time."""
        f, shape, lanes = self.f, self.shape, self.shape.lanes
        last, whole = self.first + self.width - 1, f.value(0, "i64")
        if not shape.columns:
            whole = self.steps - self.steps % GROUP_STEPS
        with f.loop(0, self.width, lanes) as v:
            columns = [f.min(self.first + v + lane, last) for lane in range(lanes)]
            self.places = [
                [base + column * on for column in columns] for base, on in zip(self.base, self.on, strict=True)
            ]
            self.target = self.to + v * 4
            if shape.columns:
                self._write_words(v, last)
            else:
                with f.loop(0, whole, GROUP_STEPS) as k:
                    self._write_group(k)
                with f.loop(whole, self.steps, shape.in_word) as k:
                    far = (self.start + k) // shape.in_word * 4
                    self._write_word(self._gather([at + far for at in self.places[0]], "i32"), k)
        return f.end()

    def _write_words(self, v: Value, last: Value) -> None:
        """A vector of columns that lie side by side in words, of one panel of those or two."""
        f, shape = self.f, self.shape
        first, most, parts = (self.first + v) // shape.columns, last // shape.columns, shape.lanes // shape.columns
        panels = [self.base[0] + f.min(first + c, most) * self.on[0] for c in range(parts)]
        with f.loop(0, self.steps, shape.in_word) as k:
            far = (self.start + k) // shape.in_word * (4 * shape.columns)
            self._write_word(self._together([f.load(vector_of(shape.columns, "i32"), at + far) for at in panels]), k)

    def _write_group(self, k: Value) -> None:
        """The words of a group of steps, transposed a square at a time."""
        f, shape, lanes = self.f, self.shape, self.shape.lanes
        far = (self.start + k) * shape.bits // 8
        by_block = max(GROUP_STEPS // shape.block, 1)
        first = (self.start + k) // shape.block
        scales, zeros = self._scales(first, by_block), [self._zero(first + b) for b in range(by_block)]
        for part in range(4 * shape.bits // lanes):
            rows = [f.load(self.ints, at + (far + 4 * lanes * part), align=1) for at in self.places[0]]
            for at in self.places[0]:  # of the columns that come next
                f.prefetch(at + self.on[0] * lanes + far)
            for d, word in enumerate(f.transpose(rows)):
                number = part * lanes + d
                step = number * shape.in_word
                if shape.is_laid_out:
                    step = number % TOGETHER * PORTION + number // TOGETHER * shape.in_word
                block = min(step // shape.block, by_block - 1)  # a block of any length is the only one
                self._put(word, k + step, scales[block], zeros[block])

    def _write_word(self, word: Value, k: Value) -> None:
        """A word of each column."""
        block = (self.start + k) // self.shape.block
        self._put(word, k, self._scales(block, 1)[0], self._zero(block))

    def _scales(self, block: Value, count: int) -> list[Value]:
        """The scales of some blocks that follow one another."""
        f, shape, size = self.f, self.shape, 4 if self.shape.scale == "float" else 2
        found: list[Value] = []
        places = [at + block * size for at in self.places[1]]
        if count % 4 == 0:
            # Four of a column at a time: each part of a vector has those of a column, four by four are transposed.
            for b in range(0, count, 4):
                fours = [f.load(vector_of(4, shape.scale), at + size * b, align=1) for at in places]
                rows = [self._together([f.cast("fpext", x, "float") for x in fours[c::4]]) for c in range(4)]
                found += self._transposed_parts(rows)
            return found
        for b in range(count):
            found.append(f.cast("fpext", self._gather([at + size * b for at in places], shape.scale), "float"))
        return found

    def _together(self, parts: list[Value]) -> Value:
        """Vectors as one."""
        f = self.f
        while parts[1:]:
            parts = [f.shuffle(a, b, range(2 * a.lanes)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def _transposed_parts(self, rows: list[Value]) -> list[Value]:
        """Four vectors, columns for rows within each part of four lanes."""
        lanes = self.shape.lanes

        def pick(a: Value, b: Value, *four: int) -> Value:
            order = [part + k % 4 + (lanes if k > 3 else 0) for part in range(0, lanes, 4) for k in four]
            return self.f.shuffle(a, b, order)

        a, b, c, d = rows
        pairs = [pick(x, y, *four) for four in ((0, 4, 1, 5), (2, 6, 3, 7)) for x, y in ((a, b), (c, d))]
        return [pick(pairs[2 * h], pairs[2 * h + 1], *four) for h in (0, 1) for four in ((0, 1, 4, 5), (2, 3, 6, 7))]

    def _zero(self, block: Value) -> Value | None:
        """The zero points of a block, where such are read: FLOAT32 for a table's numbers, else whole numbers."""
        shape, f = self.shape, self.f
        if not shape.zeros:
            return None
        found = self._gather([at + block for at in self.places[2]], "i8")
        wide = f.cast("sext" if shape.zeros == "s8" else "zext", found, "i32")
        return f.cast("sitofp", wide, "float") if shape.has_tables else wide

    def _gather(self, places: Sequence[Value], kind: str) -> Value:
        f = self.f
        found = f.value("poison", vector_of(len(places), kind))
        for lane, at in enumerate(places):
            found = f.insert(found, f.load(kind, at, align=1), lane)
        return found

    def _put(self, word: Value, k: Value, scale: Value, zero: Value | None) -> None:
        """The steps of a word, each a vector of columns."""
        f, shape, bits = self.f, self.shape, self.shape.bits
        middle = 1 << bits - 1
        # A zero point in the middle of the range is what the other sign has taken off already.
        is_turned = not shape.zeros and not shape.is_signed and shape.zero == middle
        is_signed = shape.is_signed or is_turned
        less = 0 if is_turned else shape.zero
        if is_turned and not shape.has_tables:
            word ^= int.from_bytes(bytes([0x88 if bits == 4 else 0x80] * 4), "little", signed=True)
        for j in range(shape.in_word):
            if self.table is not None:
                at = word >> bits * j if j else word
                number = f.intrinsic("x86.avx512.permvar.sf.512", self.table, at, result=self.floats)
                number = number if zero is None else number - zero
            else:
                if is_signed:
                    left = 32 - bits * (j + 1)
                    whole = f.binary("ashr", word << left if left else word, 32 - bits)
                else:
                    whole = word >> bits * j & (1 << bits) - 1
                if zero is not None or less:
                    whole -= less if zero is None else zero
                number = f.cast("sitofp", whole, "float")
            f.store(number * scale, self.target + (k + j) * self.pitch)
