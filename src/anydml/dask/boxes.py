"""Parts of an array that reach over several of its blocks: cut where the blocks are, and put together where needed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dask._task_spec import Task, TaskRef

from anydml.dask.arrays import Chunks, Key, edges
from anydml.dask.blocks import empty_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.dask.tensors import Layout

Box: TypeAlias = tuple[tuple[int, int], ...]
"""By dimension, where a part begins and where it ends."""


@dataclass(frozen=True)
class Pieces:
    """How pieces are put together: the sizes of the whole, and where each piece begins."""

    sizes: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    """The pieces' own sizes, in the dimensions of the whole."""

    def joined(self, pieces: Sequence[Any]) -> Any:
        """The part that they make."""
        shown = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        if len(shown) == 1:
            return shown[0]
        whole = empty_like(shown[0], self.sizes)
        for piece, start in zip(shown, self.starts, strict=True):
            whole[tuple(slice(a, a + n) for a, n in zip(start, piece.shape, strict=True))] = piece
        return whole


def cut_box(
    made: dict[Key, Any], name: str, source: str, layout: Layout, chunks: Chunks, box: Box
) -> tuple[Pieces, list[TaskRef]]:
    """The pieces of a box, one of each block that it touches; tasks that cut some are added."""
    reached = []
    for sizes, (low, high) in zip(chunks, box, strict=True):
        ends = edges(sizes)
        reached.append(
            [
                (i, max(low, a), min(high, b), a)
                for i, (a, b) in enumerate(itertools.pairwise(ends))
                if a < high and low < b
            ]
        )
    refs, starts, shapes = [], [], []
    for parts in itertools.product(*reached):
        place = tuple(i for i, *_ in parts)
        key = layout.key(source, place)
        within = tuple((low - first, high - first) for _, low, high, first in parts)
        whole = tuple(own[i] for own, i in zip(chunks, place, strict=True))
        if within != tuple((0, size) for size in whole):
            own = [(0, 1)] * layout.rank
            for axis, ends_of in zip(layout.axes, within, strict=True):
                if axis is not None:
                    own[axis] = ends_of
            cut = (f"{name}-cut", source, *key[1:], *(end for pair in own for end in pair))
            if cut not in made:
                made[cut] = Task(cut, _cut, TaskRef(key), own)
            key = cut
        refs.append(TaskRef(key))
        starts.append(tuple(low - begin for (_, low, _, _), (begin, _) in zip(parts, box, strict=True)))
        shapes.append(tuple(high - low for _, low, high, _ in parts))
    sizes = tuple(high - low for low, high in box)
    return Pieces(sizes, tuple(starts), tuple(shapes)), refs


def _cut(block: Any, own: Sequence[tuple[int, int]]) -> Any:
    """A part of a block, as an array of its own: a view would keep the whole block."""
    return block[tuple(slice(*ends) for ends in own)].copy()
