"""The parameters of a reduce, beside its trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.passes import CHEAP, DEAR, find_passes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernels.passes import Pass
    from anydml.ir.expressions import Expr


class Shape(NamedTuple):
    """The parameters of a reduce, beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads, coordinates and fetches that are views, in the words' order."""
    starts: dict[Expr, Expr]
    """Loads of lines that begin, in each row, where a fetch says."""
    letters: str
    """One for each leaf, then for each target, along the vectors: p for packed, r for repeated, d for every other one,
    s for strided; of other fetches u for usually packed, a for anywhere."""
    varies: str
    """Whether each of them varies along the row: y or n."""
    rank: int
    """The folded dimensions."""
    lanes: int
    """The most, a power of two."""
    strip: int
    """Rows whose vectors lie across and that are done together; 0 where vectors lie along the row."""
    by_row: str
    """Whether each target has a value for each row: y or n."""
    early: str
    """Whether each target is written by the first pass that computes it: y or n."""
    keep: str
    """Where there is room for what would be computed again: on the `stack`, in the `target`, or nowhere."""
    long: bool
    """Whether rows are folded in blocks, or, where vectors lie across them, sums of FLOAT32 in float64."""
    far: bool
    """Whether the sources are more than caches hold that are near."""
    stream: bool
    """Whether the target is written past the cache."""
    masked: bool = False
    """Whether rows are fewer than a vector's lanes, which lies across them: the other lanes are neither read nor
    written."""
    window: tuple[int, ...] = ()
    """The sizes of a row's dimensions, where its elements are few and vectors lie across the rows."""

    @property
    def varying(self) -> set[Expr]:
        """The leaves that vary along the row."""
        return {leaf for leaf, letter in zip(self.leaves, self.varies, strict=False) if letter == "y"}

    def passes(self, values: Sequence[Expr]) -> list[Pass]:
        """The work on a row."""
        by_element = [value for value, letter in zip(values, self.by_row, strict=True) if letter == "n"]
        early = [value for value, letter in zip(values, self.early, strict=True) if letter == "y"]
        dear = CHEAP if self.keep == "stack" and not self.strip else DEAR if self.keep else 0
        return find_passes(values, by_element, self.varying, dear=dear, early=early)
