"""Int8 GEMM, planned: how dot instructions take the factors, which `gemm/packing.py` packs K4 (four steps of K to a
32-bit lane), and zero-point compensation from the sums of rows and columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.features import has_dots, has_matrices, has_signed_dots, multiplies_bytes
from anydml.engines.cpu.gemm.blocking import FOUR, GROUP, MATRIX_LINE, K4Packing, letter_of
from anydml.engines.cpu.gemm.operands import NOWHERE
from anydml.engines.cpu.quant.dot4 import SIGNED_PAIR, UNSIGNED_PAIR, write_dot, write_pairs
from anydml.ir.contraction import byte_less_zero

if TYPE_CHECKING:
    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr

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
                total[0] = write_pairs(f, (found[0], found[1]), ones, total[0], is_swapped=False)
            else:
                one = f.value(0x00010001, vector)
                total[0] = write_pairs(f, (one, one), found[0], total[0], is_swapped=not shape.is_signed)
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
    is_swapped: bool
    """Whether the left factor is signed and the right one is not."""
    filled: int
    """Of the steps of a panel there is a multiple: past the end lies 0."""

    def most(self, *, is_left: bool) -> int:
        """The most that two neighbours of a factor may add up to, so that they are small."""
        return SIGNED_PAIR if is_left == self.is_swapped else UNSIGNED_PAIR

    def small_kernels(self) -> tuple[int, int]:
        """That pack the left factor for a tile of small bytes, and that add those up."""
        return (0, 0) if self.small is None else (_pack(self.small).address, _total(self.small))


def _pack(shape: K4Packing) -> Kernel:
    return kernel_for("k4-pack", "gemm.packing:BytePacker", shape)


def _total(shape: K4Packing) -> int:
    return kernel_for("k4-total", make_total, shape).address


def _is_none(zero: Expr) -> bool:
    """Whether a zero point, or a difference of constants, is 0."""
    if zero.op == "sub" and all(arg.op == "const" for arg in zero.args):
        return zero.args[0].value == zero.args[1].value
    return zero.op == "const" and not zero.value


def plan_int8(operands: Operands, tile: MicroTile, constants: frozenset[str] = frozenset()) -> Int8Plan | None:
    """How bytes less their zero points are multiplied by fours; None where they are not, or cannot be."""
    found = [byte_less_zero(value) for value in (operands.left, operands.right)]
    if operands.kind != "i32" or None in found or not multiplies_bytes(tile.lanes):
        return None
    columns = tile.vectors * tile.lanes
    # Panels of a constant are the same for any number of rows, whichever tile those take.
    filled = MATRIX_LINE if has_matrices() else FOUR
    factors, zeros, totals, leaves = [], [], [], []
    small = None
    # An x86 multiplies an unsigned byte by a signed one, on either side. Constants stay signed, for they may be small,
    # and so does the other factor of windows, whose sums are taken.
    kinds = [part[0].type for part in found if part is not None]
    is_swapped = not has_signed_dots() and kinds[0] is DataType.INT8
    is_swapped = is_swapped and (
        kinds[1] is DataType.UINT8
        or operands.windows is not None
        or any(lie.tensor in constants for part in found[:1] if part for lie in operands.all_strided(part[0]))
    )
    for part, is_left, across, panel, pitch in (
        (found[0], True, operands.rows, tile.rows, tile.pitch),
        (found[1], False, operands.columns, columns, columns),
    ):
        assert part is not None  # noqa: S101 - for type checkers: both factors are bytes
        leaf, zero = part
        if operands.folded and any(lie.along(operands.folded) for lie in operands.all_strided(zero)):
            return None
        lie = operands.strided(leaf)
        step, on = lie.along(operands.folded), lie.along(across)
        lies = letter_of(step, on, 1)
        if operands.windows is not None and not is_left:
            lies, (on, step) = "w", operands.tables()
        is_signed = has_signed_dots() or is_left == is_swapped
        flips = (leaf.type is DataType.INT8) != is_signed
        is_lined = is_left and tile.kind == "matrices"
        dots = has_dots(tile.lanes)
        is_wide = is_left and not (is_lined or dots)
        shape = K4Packing(
            lies, flips, panel, pitch, tile.lanes, has_signed_dots(), dots, is_wide, is_signed, filled, is_lined
        )
        factors.append((operands.section((), [lie], [step], [on]), _pack(shape)))
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
        sections = tuple(operands.mapped(value, across, (), NOWHERE, 4) for value, across in zeros)
        is_one = not any(lie.strides[k] for lie in operands.all_strided(zero) for k in operands.columns)
        compensates = 1 if is_one else 2
    return Int8Plan(tuple(factors), small, sections, compensates, kernels, leaves[0], leaf, flips, is_swapped, filled)
