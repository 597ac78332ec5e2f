"""The parameters of a kernel of taps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.endings import Ending

MOST = 64
"""Taps at most; the input's zero point lies after as many weights."""


class Taps(NamedTuple):
    """The parameters of the text: distances are in lines of the input, and in elements along one."""

    op: str
    """`fma`, or the name of a fold."""
    rows: int
    columns: int
    down: int
    """From a result to the one below."""
    step: int
    """And to the one beside: 1 or 2."""
    below: int
    """From a tap to the one below."""
    beside: int
    lanes: int
    by_lane: bool
    """Whether arithmetic takes a weight from a lane of a vector, as an Arm's."""
    kind: str = "f32"
    """Of the input: `f32`, or `i8` or `u8` with weights, and for the largest and the smallest."""
    together: int = 4
    """Rows of results at once, which share lines of the input; 0 where sums roll on from line to line."""
    vectors: int = 2
    """And vectors of a row."""
    is_single: bool = False
    """Whether a row has no more."""
    left: int | None = None
    """Elements that a line's first window has before it; None where all that is read is there."""
    over: int = 0
    """And those that its last window has after it."""
    width: int = 0
    """The results of a row and the elements of a line, in texts that know them; 0 in others."""
    line: int = 0
    has_bytes: bool = False
    """Whether weights are bytes, as they lie, and nothing is taken off the input."""
    ending: Ending | None = None
    """The computation of results from folds; None where they are results."""

    @property
    def name(self) -> str:
        """The kernel's."""
        *plain, ending = self
        return " ".join(["taps", *map(str, plain), *([ending.name] if ending is not None else [])])

    @property
    def sums(self) -> DataType:
        """The type that is folded in."""
        if self.kind == "f32":
            return DataType.FLOAT32
        return DataType.INT32 if self.op == "fma" else DataType.UINT8 if self.kind == "u8" else DataType.INT8

    @property
    def is_by_line(self) -> bool:
        """Whether lines are folded first, then what lies side by side: extremes, which no order changes."""
        return self.op in ("max", "min") and self.beside == 1 and self.step <= self.columns <= self.step + self.lanes


class Group(NamedTuple):
    """Vectors of a row of results, side by side from a column on."""

    at: str
    """The column's number."""
    vectors: int
    first: int = 0
    """Of them in the block."""
    is_left: bool = False
    """Whether the column is the row's first."""
    is_right: bool = False
    """Whether it is the one vector that ends with the row."""
