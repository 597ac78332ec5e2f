"""Padded inputs, matched: maps that copy planes into the middle of a filled tensor, as one description, from which the
stencil or a direct convolution reads the input itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.rows.map import word_of
from anydml.ir.contraction import StridedOperand
from anydml.ir.patterns import is_copy, is_plain
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


NO_FRAME: tuple[int, ...] = (0,) * 10


class PaddedInput(NamedTuple):
    """A tensor of planes, packed but for margins: what lies in it, and what is around that."""

    name: str
    inner: View
    strides: tuple[int, ...]
    """Of the tensor with margins, by dimension, in elements."""
    top: int
    left: int
    number: int
    """The filling of margins, in the low bytes of a word; or nothing, where it is an element."""
    element: View | None

    @property
    def line(self) -> int:
        """The elements of a line."""
        return self.strides[-2]

    @property
    def height(self) -> int:
        """The lines of a plane with margins; 0 where there is one plane."""
        return (self.strides[1] or self.strides[0]) // self.line

    def words(self, step: int, reach: int, size: int) -> tuple[int, ...]:
        """The fields of `FRAME` of `conv/depthwise.py`, for rows of results so many lines apart, of `reach` lines."""
        width = self.inner.data_type.size_in_bytes
        (*_, height, line), (*_, down, _) = self.inner.sizes, self.inner.strides
        fill = self.number if width == 4 else (self.number & 0xFF) * 0x01010101
        plain = (self.line, self.left, line, down)
        pitch, left, length, onward = (count * width for count in plain)
        return (pitch, step, reach, left, self.top, height, length, onward, size, fill)

    def lines(self, step: int) -> tuple[int, ...]:
        """The same where the input's lines are read as they lie, and one line is filled."""
        _, _, _, _, top, height, length, _, _, fill = self.words(step, 0, 0)
        return (0, step, 0, 0, top, height, 0, 0, length, fill)

    def lie(self, lie: StridedOperand, batch: Sequence[int]) -> StridedOperand | None:
        """How the input lies along the dimensions of the batch, given how the tensor with margins does."""
        width = self.inner.data_type.size_in_bytes
        strides = [0] * len(lie.strides)
        for k in batch:
            for own, there in zip(self.inner.strides[:2], self.strides[:2], strict=True):
                if there and lie.strides[k] % (there * width) == 0:
                    strides[k] = own * (lie.strides[k] // there)
                    break
            else:
                return None
        return StridedOperand(self.inner.tensor, self.inner.offset * width, tuple(strides), width)

    def filler(self, rank: int) -> list[StridedOperand]:
        """The element that margins are filled with, if it is one."""
        one = self.element
        return (
            []
            if one is None
            else [StridedOperand(one.tensor, one.offset * one.data_type.size_in_bytes, (0,) * rank, 1)]
        )


def match_padded_input(primitives: Sequence[Primitive], *, is_beside: bool = False) -> PaddedInput | None:
    """Maps that copy planes to the middle of a tensor and fill what is around them; None for others.

    Elements of a plane's line lie side by side in both; or `is_beside` asks for channels that do so, in what is copied.
    """
    maps = [one for one in primitives if isinstance(one, Map) and is_plain(one)]
    if len(maps) != len(primitives) or len({one.target.tensor for one in maps}) != 1:
        return None
    fills = {_fill(one) for one in maps}
    inside = [one for one in maps if _fill(one) is None and is_copy(one)]
    fills.discard(None)
    if len(inside) != 1 or len(fills) != 1 or len(maps) < 2:
        return None
    target, inner = inside[0].target, inside[0].sources[0]
    ((number, element),) = (fill for fill in fills if fill is not None)
    is_plane = len(target.sizes) == 4 and min(target.sizes[2:]) > 1 and target.strides[3] == 1
    is_plane = is_plane and inner.strides[1 if is_beside else 3] == 1 and _are_margins([one.target for one in maps])
    is_ours = inner.data_type is target.data_type and inner.data_type.size_in_bytes in (1, 4) and is_plane
    if not is_ours or (element is not None and inner.data_type.size_in_bytes != 1):
        return None
    top, left = divmod(target.offset, target.strides[2])
    return PaddedInput(target.tensor, inner, target.strides, top, left, number, element)


def _are_margins(views: Sequence[View]) -> bool:
    """Whether views are parts of the same planes: padding along channels or images adds planes, which no frame says."""
    first = views[0]
    if any((view.sizes[:-2], view.strides[:-2]) != (first.sizes[:-2], first.strides[:-2]) for view in views):
        return False
    if len(first.sizes) != 4 or min(first.strides[:2]) < 0:
        return False
    rows = [zip(view.sizes[2:], view.strides[2:], strict=True) for view in views]
    ends = [view.offset + sum((n - 1) * s for n, s in row) for view, row in zip(views, rows, strict=True)]
    return all(max(ends) < pitch for pitch in first.strides[:2] if pitch)


def _fill(one: Map) -> tuple[int, View | None] | None:
    """The number, or the element, that a map fills its target with; None where it does something else."""
    if not one.sources and one.value.op in ("given", "const"):
        return word_of(one.value), None
    if is_copy(one) and not any(one.sources[0].strides):
        source = one.sources[0]
        return 0, source.__class__(source.tensor, source.data_type, (1,), (0,), source.offset)
    return None
