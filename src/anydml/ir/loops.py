"""Loops: views that are walked together, simplified, as every engine does before it picks a kernel.

Several views of equal sizes are walked together. Dimensions of size 1 go, the walk is turned and ordered for the
memory that is written, and dimensions that follow one another in every view become one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.views import View


@dataclass(frozen=True, slots=True)
class Loops:
    """Nested loops over several views at once, the innermost last: view v lies at offsets[v] + Σ i[k]·strides[v][k]."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    """By view, then by dimension, in elements."""
    offsets: tuple[int, ...]

    @property
    def count(self) -> int:
        """The steps of the whole walk."""
        return math.prod(self.sizes)

    def pick(self, dimensions: Sequence[int]) -> Loops:
        """The same walk with its dimensions in another order, those not named left out."""
        sizes = tuple(self.sizes[k] for k in dimensions)
        return Loops(sizes, tuple(tuple(s[k] for k in dimensions) for s in self.strides), self.offsets)


def loops_of(*views: View) -> Loops:
    """Walk views of equal sizes together."""
    return Loops(views[0].sizes, tuple(view.strides for view in views), tuple(view.offset for view in views))


def squeeze(loops: Loops) -> Loops:
    """Leave out the dimensions of size 1."""
    return loops.pick([k for k, size in enumerate(loops.sizes) if size > 1])


def turn(loops: Loops, view: int) -> Loops:
    """Walk dimensions that run backwards in a view from their other end, so that its memory is walked upwards."""
    back = [k for k, stride in enumerate(loops.strides[view]) if stride < 0]
    strides = tuple(tuple(-s if k in back else s for k, s in enumerate(row)) for row in loops.strides)
    offsets = tuple(
        offset + sum((loops.sizes[k] - 1) * row[k] for k in back)
        for offset, row in zip(loops.offsets, loops.strides, strict=True)
    )
    return Loops(loops.sizes, strides, offsets)


def order(loops: Loops, view: int) -> Loops:
    """Walk a view's memory in large steps outside and small steps inside; the other views break ties."""

    def step(k: int) -> tuple[int, ...]:
        others = [abs(row[k]) for v, row in enumerate(loops.strides) if v != view]
        return (abs(loops.strides[view][k]), *others)

    return loops.pick(sorted(range(len(loops.sizes)), key=step, reverse=True))


def runs(dimensions: Sequence[int], sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Some dimensions in runs: those of each follow one another without a gap in every view, and so are one."""
    found: list[tuple[int, ...]] = []
    for k in dimensions:
        if found and all(row[found[-1][-1]] == row[k] * sizes[k] for row in strides):
            found[-1] += (k,)
        else:
            found.append((k,))
    return found


def merge(loops: Loops) -> Loops:
    """Make one dimension of two that follow one another without a gap in every view."""
    found = runs(range(len(loops.sizes)), loops.sizes, loops.strides)
    sizes = tuple(math.prod(loops.sizes[k] for k in run) for run in found)
    return Loops(sizes, tuple(tuple(row[run[-1]] for run in found) for row in loops.strides), loops.offsets)


def simplify(loops: Loops, written: int) -> Loops:
    """Everything above, for a walk whose order does not matter: `written` is the view whose memory leads."""
    return merge(order(turn(squeeze(loops), written), written))
