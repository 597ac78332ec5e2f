"""Operand classification: the M, N, K and batch dimensions of a contraction, how each operand is strided along them,
and the operand modes by which a kernel brings it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from anydml.core.enums import DataType
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import multiplies_bytes
from anydml.engines.cpu.gemm.work_item import Section, place_of, section_of
from anydml.engines.cpu.rows.map import RowShape, lanes_of, row_kernel, row_letter, widest_of, word_of
from anydml.engines.cpu.rows.row import givens
from anydml.ir.contraction import StridedContraction, StridedOperand, byte_less_zero
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.ir.contraction import Contraction
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

# How a contraction's kernel brings its factors: packed, computed by rows of maps, or as they lie.


(
    AS_IT_LIES, ALONG_STEPS, ALONG_ROWS, SIDE_BY_SIDE, UNPACKED, PANELS, HALVES, WINDOWS, PIECES, DEQUANTISED, STRIP,
    DOTS,
) = range(12)  # fmt: skip
"""How a factor is brought: packed as it lies; computed along the steps, or along its rows or columns; packed all at
once, for its columns lie side by side; not packed; packed ahead; packed ahead, but for its type; packed by tables of
distances; rows by a table of pieces, and not packed; in panels that the section's kernel dequantises; or by a kernel
for few rows, which the section names."""


WIDE = 16
"""Elements of the right factor that a kernel for few rows computes at once."""


# The operands of a contraction, and how views lie along them: the words that its kernel knows factors and results by.


SUM_KINDS = {DataType.FLOAT32: "f32", DataType.INT32: "i32", DataType.UINT32: "i32"}
"""Types of sums; integers wrap, whatever their sign."""


def element_of(factor: Expr) -> Expr:
    """The load that a factor is, or is converted from."""
    is_half = factor.op == "cast" and factor.args[0].type is DataType.FLOAT16
    return factor.args[0] if is_half else factor


_Merged: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions that are one, and the others."""


NOWHERE = StridedOperand("", 0, (), 4)
"""The layout of numbers in the scratch, where the kernel says."""


def letters_of(steps: Sequence[int], lies: Sequence[StridedOperand]) -> str:
    """How rows of views lie, given each one's step in bytes."""
    pairs = zip(steps, lies, strict=True)
    return "".join(row_letter(2 if step % lie.width else step // lie.width) for step, lie in pairs)


def map_section(
    value: Expr, leaves: Sequence[Expr], lies: Sequence[StridedOperand], steps: Sequence[int], across: Sequence[int],
    batch: Iterable[int], *, is_written: bool = True,
) -> Section:  # fmt: skip
    """The section of a map's rows over some views, the last of which is written."""
    nodes = list(walk(value))
    letters = letters_of(steps, lies)
    lanes = lanes_of(nodes, widest_of(nodes), letters, figures().rows.vector_bytes)
    shape = RowShape(tuple(leaves), letters, lanes, stream=False)
    address = row_kernel((value,), shape).address if is_written else 0
    return section_of(address, lies, steps, [word_of(node) for node in givens(nodes)], across, batch)


class Operands(StridedContraction):
    """A contraction, and the words that its kernel knows factors and results by."""

    windows: Expr | None = None
    """The factor that tables say the places of, where one is windows that overlap."""
    unmerged: tuple[int, ...] = ()
    """Dimensions that are folded, and are not one with the others."""
    line = gap = 0
    """Columns may be of several lines, where the target alone has gaps between those, as the middle of a padded one
    has: `line` is the columns of one, else 0, and `gap` the distance from one to the next."""

    @property
    def kind(self) -> str:
        """Of sums: `f32` or `i32`; others have none."""
        return SUM_KINDS.get(self.sum.type, "")  # type: ignore[arg-type]  # a sum is a number

    def window(self, factor: Expr) -> Expr:
        """The load of a factor that may be windows: of bytes too, less a number, where the CPU multiplies those."""
        leaf, found = element_of(factor), [byte_less_zero(one) for one in (self.left, self.right)]
        if leaf.op == "load" or self.kind != "i32" or None in found or not multiplies_bytes(figures().gemm.lanes):
            return leaf
        byte, zero = found[factor is self.right]  # type: ignore[misc]  # neither is None
        return leaf if any(any(lie.strides) for lie in self.all_strided(zero)) else byte

    def tables(self) -> tuple[int, int]:
        """The addresses of tables of the columns' distances in bytes, and of the steps', in windows."""
        lie = self.strided(self.window(self.right))
        sizes = self.found.sizes
        first, second = (
            place_of(tuple(sizes[k] for k in side), tuple(lie.strides[k] for k in side))
            for side in (self.columns, self.folded)
        )
        return first, second

    def is_across(self, value: Expr, across: tuple[int, ...]) -> bool:
        """Whether more of a factor lies along its rows or columns than along what is folded."""
        lies = self.all_strided(value)
        return sum(lie.along(across) == lie.width for lie in lies) > sum(
            lie.along(self.folded) == lie.width for lie in lies
        )

    def computed(self, value: Expr, across: tuple[int, ...], is_along: bool = False) -> tuple[str, Section, int]:
        """A factor that rows of a map compute: along what most of it lies along."""
        is_across = not is_along and self.is_across(value, across)
        inner, outer = (across, self.folded) if is_across else (self.folded, across)
        section = self.mapped(value, inner, outer, NOWHERE, 4)
        return ("p", section, ALONG_ROWS) if is_across else ("t", section, ALONG_STEPS)

    def result(self, *, is_written: bool = True) -> Section:
        """The value computed from sums, by rows of the target; no kernel where they are written otherwise."""
        step = self.target.along(self.columns)
        return self.mapped(self.finish, self.columns, self.rows, self.target, step, is_written=is_written)

    def mapped(
        self, value: Expr, inner: tuple[int, ...], outer: tuple[int, ...], target: StridedOperand, step: int, *,
        is_written: bool = True,
    ) -> Section:  # fmt: skip
        """The section of a map's rows, along some dimensions and across others, to a target with some step.

        There is no kernel for rows that are written otherwise.
        """
        leaves, lies = self.leaves(value)
        steps = [4 if node is self.sum else lie.along(inner) for node, lie in zip(leaves, lies, strict=True)]
        across = [*(lie.along(outer) for lie in lies), target.along(outer) if target.strides else 0]
        return map_section(value, leaves, [*lies, target], [*steps, step], across, self.batch, is_written=is_written)

    def section(
        self, line: tuple[int, ...], lies: Sequence[StridedOperand], steps: Sequence[int], across: Sequence[int]
    ) -> Section:
        """The words of some views; a line is the kernel's address, and the numbers that the user chose."""
        address, *numbers = line or (0,)
        return section_of(address, lies, steps, numbers, across, self.batch)


class MergedOperands(Operands):
    """A contraction with one dimension each of rows, columns and what is folded; all others are of the batch."""

    def __init__(self, primitive: Reduce, found: Contraction, *, has_lines: bool = False) -> None:
        super().__init__(primitive, found)
        self._sort(has_lines=has_lines)

    def _sort(self, *, has_lines: bool) -> None:
        found = self.found
        operands = (found.rows, found.columns, found.folded)
        results = [*self.all_strided(self.finish), self.target]
        merged = [self.merge(side, [*self.all_strided(self.left, self.right), *results]) for side in operands]
        self.windows = self._windows(merged)
        if self.windows is not None:
            other = self.right if self.windows is self.left else self.left
            merged = [self.merge(side, [*self.all_strided(other), *results]) for side in operands]
        lined = self._lined(merged) if has_lines else None
        if lined is not None:
            merged[lined] = self._lines(lined)
        (self.rows, more_rows), (self.columns, more_columns), (self.folded, self.unmerged) = merged
        self.batch = (*found.batch, *more_rows, *more_columns)
        m, n = self.target.along(self.rows), self.target.along(self.columns)
        # A few rows rather than a few columns; and columns that lie side by side in the target.
        few = min(self.count(self.rows), self.count(self.columns)) <= figures().small_m.rows
        turned = self.count(self.rows) > self.count(self.columns) if few else m == self.target.width != n
        turned = self.windows is self.left if self.windows is not None else turned
        turned = lined == 0 if lined is not None else turned
        if turned:
            self.left, self.right, self.rows, self.columns = self.right, self.left, self.columns, self.rows

    def _lined(self, merged: Sequence[_Merged]) -> int | None:
        """The side, rows or columns, whose lines are taken together: there are few in one."""
        found, most = [], figures().gemm.line_columns
        for number, factor in enumerate((self.left, self.right)):
            own, lines = self.count(merged[number][0]), self._lines(number)[0]
            is_ours = self.windows in (None, factor) and own <= most and self.count(lines) >= 2 * own
            inner = self.runs(lines, [self.target])
            if is_ours and len(inner) == 2 and self.target.along(lines) == self.target.width:
                found.append((number, self.count(inner[1]), self.target.along(inner[0])))
        if len(found) != 1:
            return None
        number, self.line, self.gap = found[0]
        return number

    def _lines(self, number: int) -> _Merged:
        """The dimensions of a side that lie as one, but in the target, where two do; tables say how windows lie."""
        factor, side = ((self.left, self.found.rows), (self.right, self.found.columns))[number]
        read = self.all_strided(self.finish) if factor is self.windows else self.all_strided(factor, self.finish)
        best, _ = self.merge(side, read)
        lines = tuple(k for run in self.runs(best, [self.target])[-2:] for k in run)
        return lines, tuple(k for k in side if k not in lines)

    def _windows(self, merged: Sequence[_Merged]) -> Expr | None:
        """A factor whose elements alone keep dimensions from being one: windows that overlap, as a convolution's.

        Tables say where they lie. It takes longer to pack them so, which few rows or columns do not make up for.
        """
        found = self.found
        (rows, _), (columns, _), (_, unmerged) = merged
        of = figures().gemm
        for factor, own in ((self.left, rows), (self.right, columns)):
            other = self.right if factor is self.left else self.left
            lies = [*self.all_strided(other, self.finish), self.target]
            whole = self.merge(found.rows if factor is self.left else found.columns, lies)[0]
            few, count = of.window_rows, self.count(own)
            is_longer = count <= few and self.count(whole) > min(few, of.window_rows_times * count)
            if self.window(factor).op != "load" or self.merge(found.folded, lies)[1]:
                continue
            if unmerged or is_longer:
                return factor
        return None
