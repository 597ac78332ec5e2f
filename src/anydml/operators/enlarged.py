"""Images made larger in one pass: each group of elements that goes on as before is a map's targets.

Along the innermost dimension the targets' elements lie in turn, and engines write them as one.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from anydml.ir.expressions import given, load
from anydml.ir.verbs import Map, Write
from anydml.operators.sampling import F32, finished, lerp, wide32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.views import View
    from anydml.operators.sampling import Axis, Phase, Stretch

LEAST = 4096
"""Elements of the output from which on it is worth kernels of its own: each scale has some."""
MOST_TARGETS = 32
"""Of one map."""


def enlarged(source: View, target: View, axes: Sequence[Axis], inner: int, *, is_linear: bool) -> list[Map]:
    """The maps that write all of a larger image, its middle and its ends; none where it is no such image.

    The innermost dimension is weighted first, then the last of the others.
    """
    if math.prod(target.sizes) < LEAST or all(axis.is_kept for axis in axes):
        return []
    parts = [axis.stretches(is_linear=is_linear) for axis in axes]
    order = [*(k for k in range(len(axes)) if k != inner), inner]
    found: list[Map] = []

    def map_of(stretches: Sequence[Stretch], chosen: Sequence[Sequence[Phase]]) -> Map:
        return _map(source, target, stretches, chosen, order, is_linear=is_linear)

    for chosen in itertools.product(*parts):
        several = itertools.product(*(chosen[k].phases for k in order))
        phases = [tuple(one[order.index(k)] for k in range(len(axes))) for one in several]
        together = len(chosen[inner].phases)
        number = max(MOST_TARGETS // together, 1) * together
        found += [map_of(chosen, phases[first : first + number]) for first in range(0, len(phases), number)]
    return found


def _map(
    source: View,
    target: View,
    stretches: Sequence[Stretch],
    chosen: Sequence[Sequence[Phase]],
    order: Sequence[int],
    *,
    is_linear: bool,
) -> Map:
    """A target for each choice of a phase in every dimension."""
    sizes, steps = [one.number for one in stretches], [one.step for one in stretches]
    slots: dict[tuple[tuple[int, int], ...], int] = {}

    def mixed(phases: Sequence[Phase], places: dict[int, tuple[int, int]]) -> Expr:
        """The first dimension of the order is weighted last."""
        if len(places) == len(order):
            slot = slots.setdefault(tuple(places[k] for k in range(len(order))), len(slots))
            return wide32(load(slot, source.data_type), is_linear=is_linear)
        k = order[len(places)]
        near = [mixed(phases, places | {k: (first, step)}) for first, step, _ in phases[k].sources]
        parts = [given(part, F32) for *_, part in phases[k].sources]
        return lerp(near, parts) if len(near) > 1 else near[0]

    def writes() -> Iterator[Write]:
        for phases in chosen:
            into = target.window([one.start for one in phases], steps, sizes)
            yield Write(into, finished(mixed(phases, {}), target.data_type))

    first, *others = writes()
    windows = (source.window([at for at, _ in key], [step for _, step in key], sizes) for key in slots)
    return Map(tuple(windows), first.target, first.value, also=tuple(others))
