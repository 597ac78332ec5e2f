"""Transposed convolutions with strides: outputs of each phase of the strides are a dense convolution of the input.

An output o has the taps k for which o + start - k·dilation is a multiple of the stride: that many times the stride is
the input's element. Those of one phase, outputs a stride apart, have the same taps.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.views import View


class Walk(NamedTuple):
    """How windows walk over an input, in its elements."""

    across: Sequence[int]
    """From a window to the next, in each spatial dimension."""
    within: Sequence[int]
    """From a tap to the next."""
    offset: int
    """Where the first window's first tap is."""


class Phase(NamedTuple):
    """Outputs of one dimension that have the same taps."""

    start: int
    """The first output; others are strides apart."""
    outputs: int
    tap: int
    """The first tap."""
    step: int
    """From a tap to the next."""
    taps: int
    first: int
    """The input's element of the first output and tap."""
    by: int
    """How many elements before it that of the next tap is."""


def phases_of(size: int, window: int, stride: int, dilation: int, start: int) -> list[Phase]:
    """The phases of a dimension; one has no taps where those that would reach it lie outside of the window."""
    shared = math.gcd(stride, dilation)
    step, found = stride // shared, []
    for at in range(min(stride, size)):
        taps = [k for k in range(window) if (at + start - k * dilation) % stride == 0]
        tap = taps[0] if taps else 0
        first = (at + start - tap * dilation) // stride
        found.append(Phase(at, -(-(size - at) // stride), tap, step, len(taps), first, dilation // shared))
    return found


class Frame(NamedTuple):
    """The part of an input, or of what is around it, that all phases read."""

    starts: tuple[int, ...]
    """Of its first element, below 0 before the input's."""
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, phases: Sequence[Sequence[Phase]]) -> Frame:
        """The smallest one."""
        starts = tuple(min(one.first - (one.taps - 1) * one.by for one in several) for several in phases)
        ends = [max(one.first + one.outputs for one in several) for several in phases]
        return cls(starts, tuple(end - start for start, end in zip(starts, ends, strict=True)))


def cut(
    phases: Sequence[Sequence[Phase]], frame: Frame, x: View, filters: View, target: View, *, turned: bool
) -> Iterator[tuple[View, View, Walk]]:
    """For each phase of all dimensions its filters, its part of the target, and how its windows walk over a frame.

    The last dimensions are spatial, of the filters all but three.
    """
    places, sizes = x.strides[2:], filters.sizes[3:]
    for several in itertools.product(*phases):
        ahead = -1 if turned else 1
        taps = [size - 1 - one.tap if turned else one.tap for size, one in zip(sizes, several, strict=True)]
        some = filters.window(
            (0, 0, 0, *taps), (1, 1, 1, *(ahead * one.step for one in several)),
            (*filters.sizes[:3], *(one.taps for one in several)),
        )  # fmt: skip
        strides = (len(one) for one in phases)
        part = target.window(
            (0, 0, *(one.start for one in several)), (1, 1, *strides),
            (*target.sizes[:2], *(one.outputs for one in several)),
        )  # fmt: skip
        within = [-one.by * stride for one, stride in zip(several, places, strict=True)]
        offset = sum((one.first - at) * by for one, at, by in zip(several, frame.starts, places, strict=True))
        yield some, part, Walk(places, within, offset)
