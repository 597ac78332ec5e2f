"""Weights of 4 and 8 bits dequantised: (q - z)·s, each block with its scale, as GEMM packs panels of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.codegen.function import Function, vector_of
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
