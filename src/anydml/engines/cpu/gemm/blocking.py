"""Blocking for registers: the parameters of register tiles, and of what is packed for them; tiles cut to the rows that
there are from the shape that is best on the CPU's family (`families.py`, which has the cache blocking too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import kernel_for
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_dots, has_matrices, multiplies_by_lane, multiplies_bytes

if TYPE_CHECKING:
    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.epilogue import Epilogue

CHAIN = 128
"""Products that are added up one after the other: a sum of such sums has a smaller error than one of all."""
GROUP = 4
"""Rows at once where they lie anyhow. Where vectors are longer, windows come by whole ones if they can: a convolution
of 3 x 3, 64 channels to 64, took 1.4 times ONNX Runtime's time by fours, and takes 1.1 times (one thread, 16 lanes)."""
LINED = 16
"""Steps of a row that are laid out side by side: a line of the cache."""
UNROLLED = LINED // 2
"""Steps at once: a hundredth quicker than 4."""
FOUR = 4
"""Steps of bytes that a dot instruction takes, packed side by side: K4."""
BYTES = ("i8", "pairs", "small", "matrices")
"""The kinds of tiles whose elements are four bytes."""
MATRIX_SIDE = 16
"""Rows of a matrix register, and its sums in each."""
MATRIX_LINE = 64
"""Bytes of a matrix register's row."""
MATRIX_ROWS = 2 * MATRIX_SIDE
"""The most rows of a tile of those."""


class MicroTile(NamedTuple):
    """The parameters of a tile's text."""

    rows: int
    vectors: int
    lanes: int
    pitch: int
    """Rows that a step of a has room for."""
    by_lane: bool
    """Whether arithmetic takes a factor from a lane of a vector, as an Arm's; otherwise it is spread as it is read."""
    kind: str = "f32"
    """Of elements: `i8` are four bytes of as many steps, and `pairs` too, for an x86 without dot instructions, with
    rows as 16 bits: the first and third bytes of all, then the others; `small` are bytes for such a one, of which one
    factor's are small; `matrices` are bytes for matrix registers; of `f16` columns are FLOAT16, and rows FLOAT32.
    """
    panels: int = 1
    """Panels of columns that it takes at once, so that a few rows have sums enough to wait for none of them."""
    reads: str = ""
    """How rows are read that are not packed, see `conv/microkernel.py`; none where they are."""
    is_swapped: bool = False
    """Whether the left one of bytes is signed, and the right one is not, where that is an x86's other way round."""
    is_lined: bool = False
    """Whether rows lie in lines."""
    is_apart: bool = False
    """Whether rows are not packed, and lie some bytes apart."""
    fetches: bool = False
    """Whether columns are fetched that are multiplied later."""
    ahead: int = 0
    """Steps ahead that columns are fetched, where they lie in a matrix; 0 where they are packed."""
    steps: int = 0
    """Of each piece of rows that are not packed, where all have the same few; 0 where a table says how many."""
    tail: int = 0
    """Lanes of a row's last vector that there are; 0 where all are."""
    is_halved: bool = False
    """Whether products of some steps have sums of their own: ONNX Runtime's error of one row is half of a chain's."""
    epilogue: Epilogue | None = None
    """The computation of results from sums; None where they are results, or others compute those."""

    @property
    def across(self) -> int:
        """Vectors of a row, of all panels."""
        return self.vectors * self.panels

    def present(self, j: int) -> int:
        """The lanes of a row's vector that there are."""
        return self.tail if self.tail and j == self.across - 1 else self.lanes

    @property
    def reads_some(self) -> bool:
        """Whether columns are read that there are, and no more, so that none need to be packed."""
        return self.tail > 0 and self.kind == "f32" and not self.by_lane

    @property
    def is_tied(self) -> bool:
        """Whether LLVM reads steps ahead that it has no registers for, unless every step's sums are waited for."""
        of = figures().gemm
        is_short_of_registers = self.panels > 1 or self.is_apart or self.kind in ("pairs", "small")
        return (self.rows, self.vectors) in of.tied_tiles or (of.ties_panels and is_short_of_registers)


class Packing(NamedTuple):
    """The parameters of a packer's text, of floats and of INT32."""

    layout: str
    """How elements lie: p where rows are side by side, t where steps are, w where tables say it, s otherwise; l
    where steps are, and they are laid out in lines."""
    kind: str
    """Of the source; the target's is `f32` for floats."""
    panel: int
    """The rows of a whole panel."""
    pitch: int
    """The elements from one step to the next."""
    lanes: int = GROUP
    """Of the CPU's vectors: of a vector rows are packed at once where they lie side by side, or every other one."""


class K4Packing(NamedTuple):
    """The parameters of a packing of bytes, and of the sums of what is packed."""

    layout: str
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


def letter_of(step: int, across: int, width: int) -> str:
    """How elements lie for a `Packing`, by the bytes from a step and from a row to the next."""
    return "p" if across == width else "t" if step == width else "s"


def pack_kernel(packing: Packing) -> Kernel:
    """What packs a factor."""
    return kernel_for("pack", "gemm.packing:NumberPacker", packing)


def tile_kernel(tile: MicroTile) -> int:
    """The address of a tile's kernel."""
    return kernel_for("tile", "gemm.microkernel:make_microkernel", tile).address


MANY = 4096
"""Rows for which the CPU's own tile is taken."""


def tile_for(kind: str, rows: int = MANY) -> MicroTile:
    """The tile for so many rows: the CPU's own, or one that is lower and wider."""
    of = figures().gemm
    lanes, height, vectors = of.lanes, of.tile_rows, of.tile_vectors
    # An x86 without dot instructions multiplies bytes in two parts, and each column takes two registers.
    parts = 1 if kind != "i32" or has_dots(lanes) or not multiplies_bytes(lanes) else 2
    height = height if parts == 1 else of.pair_rows
    if rows < height or parts > 1:
        height = min(rows, height)
        vectors = min((of.registers - 1 - 2 * parts) // (height + parts), of.most_vectors)
        if halves(kind, rows):
            vectors = most_halved()
    elif 0 < rows % height < height // of.short_panel:  # a last panel of a few rows would wait for its sums
        height = -(-rows // -(-rows // height))
    return MicroTile(height, vectors, lanes, -(-height // GROUP) * GROUP, multiplies_by_lane(), kind)


def halves(kind: str, rows: int) -> bool:
    """Whether products have sums of their own for some steps: of one row, where the family has it so."""
    return rows == 1 and kind != "i32" and figures().gemm.halves_row


def most_halved() -> int:
    """The vectors of a single row, each with three sums in registers."""
    return min((figures().gemm.registers - 2) // 3, figures().gemm.most_halved)


def matrices_for(rows: int) -> MicroTile | None:
    """The tile of matrix registers for so many rows of bytes; None where there are none, or the rows are few."""
    if rows < figures().gemm.amx_rows or not has_matrices():
        return None
    height = min(rows, MATRIX_ROWS)
    pitch = -(-height // MATRIX_SIDE) * MATRIX_SIDE
    return MicroTile(height, MATRIX_ROWS // MATRIX_SIDE, MATRIX_SIDE, pitch, by_lane=False, kind="matrices")
