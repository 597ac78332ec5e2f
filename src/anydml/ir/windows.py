"""Window geometry: which dimensions of a contraction are output positions, channels and taps, and how operands are
strided along them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.ir.contraction import ConvolutionAxes, match_contraction
from anydml.ir.epilogue import fetches_beside
from anydml.ir.padded_reads import match_reached
from anydml.ir.views import View, trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.contraction import Contraction
    from anydml.ir.expressions import Expr
    from anydml.ir.padded_reads import Padded
    from anydml.ir.verbs import Reduce


MOST_ROWS, MOST_TERMS = 4, 4
"""Dimensions of places, and of terms: those of volumes in a batch."""


class Axis(NamedTuple):
    """A dimension of a source, with the line of indices that a walk reads there: first + Σ coordinate·step."""

    stride: int
    size: int
    first: int
    steps: Mapping[int, int]
    """By dimension of the walk."""
    is_limited: bool
    """Whether indices may lie outside."""


@dataclass(frozen=True, slots=True)
class WindowedOperand:
    """A source as a walk reads it."""

    tensor: str
    kind: DataType
    offset: int
    axes: tuple[Axis, ...]
    outside: Expr | None = None
    """The number that stands where indices lie outside; of a padded tensor it may be an element, and this None."""

    def stride(self, dimension: int) -> int:
        """Along a dimension of the walk, in elements."""
        return sum(axis.stride * axis.steps.get(dimension, 0) for axis in self.axes)

    @property
    def start(self) -> int:
        """The offset of the first element of the walk, whether or not it lies inside."""
        return self.offset + sum(axis.stride * axis.first for axis in self.axes)

    @property
    def limits(self) -> tuple[Axis, ...]:
        """The dimensions that indices may lie outside of."""
        return tuple(axis for axis in self.axes if axis.is_limited)

    @property
    def view(self) -> View:
        """All of the source."""
        sizes, strides = (tuple(of) for of in zip(*((axis.size, axis.stride) for axis in self.axes), strict=True))
        return View(self.tensor, self.kind, sizes, strides, self.offset)

    def packed(self, tensor: str, order: Sequence[int]) -> WindowedOperand:
        """The same in memory of its own, the axes in another order, the last the fastest."""
        strides = {axis: math.prod(self.axes[k].size for k in order[i + 1 :]) for i, axis in enumerate(order)}
        axes = tuple(axis._replace(stride=strides[k]) for k, axis in enumerate(self.axes))
        return WindowedOperand(tensor, self.kind, 0, axes, self.outside)

    def along(self, *dimensions: int) -> Axis | None:
        """The axis that some dimensions of the walk go along, and no others do: of one element where none of them goes
        anywhere. None where there are several, or others go along it too.
        """
        found = [axis for axis in self.axes if not axis.steps.keys().isdisjoint(dimensions)]
        if not found:
            return Axis(0, 1, 0, {}, False)
        return found[0] if len(found) == 1 and found[0].steps.keys() <= {*dimensions} else None

    @property
    def reach(self) -> int:
        """How far its elements lie apart at most, and what lies beside it within a tile."""
        return sum(abs(axis.stride) * (axis.size + 1024) for axis in self.axes)


def walked_by(
    node: Expr, sources: Sequence[View], pairs: Mapping[int, int], padded: Padded | None = None
) -> WindowedOperand | None:
    """How an element is read, at the current coordinates or at lines of them; None for other nodes.

    Of one at the current coordinates `pairs` says which dimensions of the walk go along one of the source. One of a
    tensor that is `padded` is read of the tensor within, or lies outside.
    """
    if node.op == "load":
        view = sources[int(node.value)]
        is_padded = padded is not None and view.tensor == padded.inner.tensor
        return walked_within(view, padded) if padded is not None and is_padded else _loaded(view, pairs)
    found = match_reached(node)
    if found is None:
        return None
    view = sources[found.slot]
    axes = []
    for stride, size, line, limit in zip(view.strides, view.sizes, found.lines, found.limits, strict=True):
        axes.append(Axis(stride, limit or size, line.start, dict(line.steps), limit is not None))
    return WindowedOperand(view.tensor, view.data_type, view.offset, tuple(axes), found.outside)


def _loaded(view: View, pairs: Mapping[int, int]) -> WindowedOperand:
    """Dimensions that go along one of the source have a common unit of their strides."""
    axes, offset = [], view.offset
    groups: dict[int, list[int]] = {}
    for k, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
        if size > 1 and stride:
            groups.setdefault(pairs.get(k, k), []).append(k)
    for several in groups.values():
        unit = math.gcd(*(view.strides[k] for k in several))
        steps = {k: view.strides[k] // unit for k in several}
        reach = [(view.sizes[k] - 1) * step for k, step in steps.items()]
        low, high = sum(min(far, 0) for far in reach), sum(max(far, 0) for far in reach)
        axes.append(Axis(unit, high - low + 1, -low, steps, False))
        offset += low * unit
    return WindowedOperand(view.tensor, view.data_type, offset, tuple(axes))


def walked_within(view: View, padded: Padded) -> WindowedOperand | None:
    """How a view of a padded tensor walks over the tensor within; None where dimensions run on from line to line."""
    inner, source, whole = padded.inner, padded.source, padded.whole
    wide = [k for k, size in enumerate(inner.sizes) if size > 1]
    found = None if whole is None else trace(view, whole)
    first = None if whole is None else trace(inner.pick(wide), whole)
    if found is None or first is None or view.data_type is not source.data_type:
        return None
    axes = []
    for k, start, begin, along in zip(wide, found.first, first.first, found.steps, strict=True):
        steps = {m: step for m, step in enumerate(along) if step and view.sizes[m] > 1}
        far = [(view.sizes[m] - 1) * step for m, step in steps.items()]
        low, high = start - begin + sum(min(one, 0) for one in far), start - begin + sum(max(one, 0) for one in far)
        is_limited = low < 0 or high >= source.sizes[k]
        axes.append(Axis(source.strides[k], source.sizes[k], start - begin, steps, is_limited))
    outside = None if isinstance(padded.outside, View) else padded.outside
    return WindowedOperand(source.tensor, source.data_type, source.offset, tuple(axes), outside)


@dataclass(frozen=True, slots=True)
class WindowWalk:
    """The walk of a convolution."""

    found: Contraction
    left: WindowedOperand
    right: WindowedOperand
    rows: tuple[int, ...]
    """The dimensions of places, the fastest first."""
    inner: int
    """The dimension of terms along which a tap is walked: the channels."""
    taps: tuple[int, ...]
    """The other dimensions of terms, the fastest first."""
    run: int
    """The terms of a tap."""

    @property
    def kind(self) -> DataType:
        """Of both factors in memory."""
        return self.left.kind

    @property
    def shape(self) -> tuple[int, int, int]:
        """Places, channels of the result, terms."""
        rows, columns, _ = self.found.shape
        return rows, columns, self.run * self.found.count(self.taps)

    @property
    def groups(self) -> int:
        """How many convolutions there are beside one another."""
        return self.found.count(self.found.batch)

    @property
    def channels(self) -> int | None:
        """The axis of the left factor that the innermost terms go along alone, of all groups; None without."""
        alone = {self.inner, *self.found.batch}
        axes = [k for k, axis in enumerate(self.left.axes) if self.inner in axis.steps]
        is_ours = len(axes) == 1 and alone >= set(self.left.axes[axes[0]].steps)
        return axes[0] if is_ours and self.left.axes[axes[0]].steps[self.inner] == 1 else None


def walk_of(primitive: Reduce) -> WindowWalk | None:
    """A sum of products of windows and weights in FLOAT32, of FLOAT32 or FLOAT16; None for others."""
    found = match_contraction(primitive)
    if found is None or not found.folded or found.fold.type is not DataType.FLOAT32:
        return None
    if len(found.rows) < len(found.columns):
        found = found.transposed
    axes = ConvolutionAxes.of(len(found.sizes), primitive.depth)
    pairs = {tap: place for tap, place in zip(axes.taps, axes.places, strict=True) if place >= 0}
    nodes = [factor.args[0] if factor.op == "cast" else factor for factor in (found.left, found.right)]
    left, right = (walked_by(node, primitive.sources, pairs) for node in nodes)
    if left is None or right is None or right.limits or left.kind is not right.kind:
        return None
    if left.outside is not None and (left.outside.op != "const" or left.outside.value):
        return None
    if left.kind not in (DataType.FLOAT16, DataType.FLOAT32) or not 1 <= len(found.rows) <= MOST_ROWS:
        return None
    if len(found.columns) > 1 or len(found.batch) > 1 or len(found.folded) > MOST_TERMS:
        return None
    if fetches_beside(primitive.value, found.fold):
        return None
    if any(axis.steps.get(k) for axis in left.limits for k in (*found.columns, *found.batch)):
        return None
    target = primitive.target.strides
    rows = tuple(sorted(found.rows, key=lambda k: (abs(target[k]), -k)))

    def badness(k: int) -> tuple[bool, bool, int]:
        own = [axis for axis in left.axes if k in axis.steps]
        is_shared = any(set(axis.steps) - {k, *found.batch} for axis in own)
        return is_shared, abs(left.stride(k)) != 1, -found.sizes[k]

    inner = min(found.folded, key=badness)
    taps = tuple(k for k in reversed(found.folded) if k != inner)
    return WindowWalk(found, left, right, rows, inner, taps, found.sizes[inner])
