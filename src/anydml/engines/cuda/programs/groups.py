"""Which results of a fold over windows a thread has: several in a row, so that they share what is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.engines.cuda.launch import ALIGNMENT
from anydml.engines.cuda.programs.shapes import alignment_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.cuda.programs.window_walk import Axis, Walked
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

MOST = 8
"""Results of a group along memory, of 16 bytes at most."""
DOWN = 4
"""Results of a group across memory, each of them 16 bytes wide."""
SPARE = 0.25
"""The part of such groups that may be past the end."""


@dataclass(frozen=True, slots=True)
class Group:
    """Results of a thread that follow one another."""

    dimension: int
    count: int
    tap: int | None = None
    """The dimension of taps that leads from one of them to the next; it is written out."""
    words: tuple[int, ...] = ()
    """By what is read, the elements of a word along the dimension; none where memory does not lie along it."""
    is_whole: bool = True
    """Whether groups fill the dimension."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimensions of a walk."""

    rows: tuple[int, ...]
    """The fastest first."""
    column: int
    """Along which the first target lies."""
    taps: tuple[int, ...]
    """Those that are folded, the fastest first, but for the group's."""
    group: Group
    reach: int = 1
    """The taps of the group's dimension of taps."""

    @property
    def is_across(self) -> bool:
        """Whether groups lie along columns."""
        return self.group.dimension == self.column and self.group.count > 1


def group_of(
    leaves: Mapping[Expr, Walked], primitive: Reduce, rows: Sequence[int], column: int, taps: Sequence[int]
) -> Group:
    """The results of a thread: along memory, where words can be read there, else across it, else one."""
    found = _along(leaves, primitive, column, taps)
    if found is not None:
        return found
    for dimension in rows:
        tap = _tap(leaves, dimension, taps)
        if tap is None or not _overlap(leaves, dimension, tap, primitive.sizes[tap]):
            continue  # what two results read they do not share
        size = primitive.sizes[dimension]
        for count in (DOWN, DOWN // 2):
            if _spare(size, count) <= SPARE:
                return Group(dimension, count, tap, is_whole=size % count == 0)
    return Group(column, 1)


def _spare(size: int, count: int) -> float:
    """The part of groups of so many that is past the end, of what there is."""
    return (-(-size // count) * count - size) / size


def _overlap(leaves: Mapping[Expr, Walked], dimension: int, tap: int, taps: int) -> bool:
    """Whether the windows of neighbours overlap."""
    axes = [axis for leaf in leaves.values() for axis in leaf.axes if axis.steps.get(dimension) and tap in axis.steps]
    return any(abs(axis.steps[dimension]) < abs(axis.steps[tap]) * taps for axis in axes)


def _tap(leaves: Mapping[Expr, Walked], dimension: int, taps: Sequence[int]) -> int | None:
    """The dimension of taps along the same axis as a dimension of the results."""
    found = {
        tap for leaf in leaves.values() for axis in leaf.axes if axis.steps.get(dimension) for tap in axis.steps
    } & set(taps)
    return found.pop() if len(found) == 1 else None


def _along(leaves: Mapping[Expr, Walked], primitive: Reduce, column: int, taps: Sequence[int]) -> Group | None:
    """Groups along memory; None where there is no tap along it, or words do not lie in line."""
    tap = _tap(leaves, column, taps)
    if tap is None or any(target.strides[column] != 1 for target in primitive.targets):
        return None
    words, step = [], 1
    for leaf in leaves.values():
        own = [axis for axis in leaf.axes if axis.steps.get(column)]
        if not own:
            words.append(0)
            continue
        word = _word(leaf, own, column, tap)
        if word < 2:
            return None
        words.append(word)
        step = max(step, word // math.gcd(word, own[0].steps[column]))
    if not any(words) or step > MOST:
        return None
    size = primitive.sizes[column]
    most = min(*(ALIGNMENT // target.data_type.size_in_bytes for target in primitive.targets), MOST)
    counts = [count for k in range(3) if (count := most >> k) > 1 and count % step == 0]
    if not counts:
        return None
    # Those that fill the rows, or more that are written one by one: by twos weights are read four times as often.
    fitting = [count for count in counts if size % count == 0 and count >= min(DOWN, most)]
    fitting += [count for count in counts if _spare(size, count) <= SPARE]
    count = next(iter(fitting), counts[-1])
    return Group(column, count, tap, tuple(words), is_whole=size % count == 0)


def _word(leaf: Walked, own: Sequence[Axis], column: int, tap: int) -> int:
    """The elements that lie in line wherever a multiple of as many begins; 1 where they do not."""
    (axis, *others) = own
    if others or axis.stride != 1 or set(axis.steps) - {column, tap} or min(axis.steps.values()) < 0:
        return 1
    if any(tap in other.steps for other in leaf.axes if other is not axis):
        return 1
    strides = [other.stride * step for other in leaf.axes if other is not axis for step in other.steps.values()]
    return min(alignment_of((axis.size, *strides)), ALIGNMENT // leaf.kind.size_in_bytes, MOST)
