"""How the factors of a convolution are laid out first: channels beside one another, and few of them with their line.

A copy into another order takes a few microseconds, and without it every element is read by itself. Of a picture with
three channels a line of taps is one run of terms: with a fourth channel of zeros it is read 8 bytes at once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.cuda.programs.shapes import ceil_power
from anydml.engines.cuda.programs.window_walk import Walked
from anydml.enums import DataType
from anydml.ir.expressions import const, coordinate
from anydml.ir.outside import reach
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cuda.programs.window_walk import Axis, WindowWalk
    from anydml.ir.expressions import Expr

PLACES, WEIGHTS = "windows by channel", "weights by tap"
"""Layouts made anew: in memory of the program's own, or for weights that never change ahead."""
FEW = 16
"""Channels below which a line of taps is one run."""
LEAST = 4
"""Channels of such a run, some of them zeros."""


def lay_out(walk: WindowWalk) -> tuple[WindowWalk, list[Map]]:
    """The walk over factors laid out anew, where they had better be, with what lays them out."""
    channels = walk.channels
    if channels is None:
        return walk, []
    if walk.run < FEW:
        return _in_runs(walk, channels) or (walk, [])
    left, right = walk.left, walk.right
    made: list[Map] = []
    if left.axes[channels].stride != 1:
        order = sorted(range(len(left.axes)), key=lambda k: (k == channels, -abs(left.axes[k].stride)))
        left = left.packed(PLACES, order)
        made.append(copy_of(walk.left.view, left.view))
    if right.stride(walk.inner) != 1:
        right = right.packed(WEIGHTS, _order(walk))
        made.append(copy_of(walk.right.view, right.view))
    return replace(walk, left=left, right=right), made


def _order(walk: WindowWalk) -> list[int]:
    """The axes of weights: by group, channel of the result and tap, the channels last."""
    every = [*walk.found.batch, *walk.found.columns, *walk.taps[::-1], walk.inner]

    def rank(axis: int) -> int:
        return min((every.index(k) for k in walk.right.axes[axis].steps), default=-1)

    return sorted(range(len(walk.right.axes)), key=rank)


def _in_runs(walk: WindowWalk, channels: int) -> tuple[WindowWalk, list[Map]] | None:
    """A line of taps as one run of terms; None where the taps of a line do not follow one another."""
    own = [k for k, axis in enumerate(walk.left.axes) if walk.taps and walk.taps[0] in axis.steps]
    if walk.found.batch or len(own) != 1 or walk.left.axes[own[0]].steps[walk.taps[0]] != 1:
        return None
    tap, width = walk.taps[0], ceil_power(max(walk.run, LEAST))
    last = (own[0], channels)
    others = [k for k in range(len(walk.left.axes)) if k not in last]
    order = [*sorted(others, key=lambda k: -abs(walk.left.axes[k].stride)), *last]
    left, lines = _roomy(walk, walk.left, order, PLACES, width)
    every = _order(walk)
    right, weights = _roomy(walk, walk.right, every, WEIGHTS, width)
    if set(walk.right.axes[every[-1]].steps) != {walk.inner} or tap not in walk.right.axes[every[-2]].steps:
        return None
    run = width * walk.found.sizes[tap]
    return replace(walk, left=left, right=right, taps=walk.taps[1:], run=run), [lines, weights]


def _roomy(walk: WindowWalk, of: Walked, order: Sequence[int], name: str, width: int) -> tuple[Walked, Map]:
    """A factor in memory of its own, with zeros where indices lie outside, and so many channels."""
    axes: list[Axis] = []
    firsts: list[int] = []
    for axis in of.axes:
        reaches = [(walk.found.sizes[k] - 1) * step for k, step in axis.steps.items()]
        low, high = (axis.first + sum(limit(far, 0) for far in reaches) for limit in (min, max))
        size = width if walk.inner in axis.steps else high - low + 1
        axes.append(axis._replace(size=size, first=axis.first - low, is_limited=False))
        firsts.append(low)
    packed = Walked("", of.kind, 0, tuple(axes)).packed(name, order)
    indices: list[Expr] = []
    limits: list[int | None] = []
    for k, axis in enumerate(of.axes):
        place, low = coordinate(order.index(k)), firsts[k]
        indices.append(place + low if low else place)
        limits.append(None if low >= 0 and low + axes[k].size <= axis.size else axis.size)
    value = reach(0, of.kind, indices, limits, const(0, DataType(of.kind)))
    sizes = tuple(axes[k].size for k in order)
    strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    return packed, Map((of.view,), View(name, of.kind, sizes, strides), value)
