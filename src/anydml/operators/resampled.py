"""How resampling is carried out: in passes, by walks along memory, by tables, or by arithmetic."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.enums import DataType, InterpolationMode
from anydml.ir.expressions import (
    absolute,
    const,
    coordinate,
    fetch,
    fold,
    given,
    load,
    maximum,
    minimum,
    rint,
    where,
)
from anydml.ir.pass_by_pass import InPasses
from anydml.ir.verbs import Map, Reduce, Write
from anydml.ir.views import View
from anydml.operators.computed import wide
from anydml.operators.enlarged import enlarged
from anydml.operators.moved import Moved, copies_of, split, temporary
from anydml.operators.sampling import F32, F64, INT64, Axis, Term, Walk, finished, lerp, wide32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.operators.fields import (
        Interpolation,
    )

INT32 = DataType.INT32
_MOST_IN_TABLE = 2**31 - 1
_MOST_TARGETS = 16


class Resampled(Moved):
    """Their shared part: an axis for each dimension."""

    sizes_from: ClassVar[str] = "those of InputTensor times Scales"
    if TYPE_CHECKING:
        interpolation_mode: Interpolation

    def axes(self) -> list[Axis]:
        """The dimensions."""
        raise NotImplementedError  # each has its own scales and offsets

    @property
    def is_linear(self) -> bool:
        """Whether elements are weighted, and not the nearest taken."""
        return InterpolationMode(self.interpolation_mode) is InterpolationMode.LINEAR

    def lower(self) -> tuple[Map | Reduce | InPasses, ...]:
        """Walks along the innermost dimension; where there are none, or in the others, places by arithmetic."""
        source, target = self.views()
        axes = self.axes()
        before: list[Reduce] = []
        for k, axis in enumerate(axes):
            if self._is_smoothed(axis):
                into = temporary(f"dimension {k}", F32, with_size(source.sizes, k, axis.length))
                before.append(_smoothed(source, into, k, axis))
                source, axes[k] = into, _kept(axis.length)
        long = [k for k, size in enumerate(target.sizes) if size > 1]
        inner = min(long, key=lambda k: (abs(target.strides[k]), -k), default=0)
        others = [axis for k, axis in enumerate(axes) if k != inner and not axis.is_kept]
        grows = math.prod(axis.length for axis in others) >= math.prod(axis.size for axis in others)
        is_one = axes[inner].is_kept or not others or not (self.is_linear or grows)
        at_once = self._at_once(source, target, axes, inner, is_inner_first=is_one or grows)
        way = self._along if is_one else partial(self._by_two, grows=grows)
        passes = enlarged(source, target, axes, inner, is_linear=self.is_linear) or list(
            way(source, target, axes, inner)
        )
        return (*before, *passes) if at_once is None else (*before, InPasses.of(at_once, passes))

    def _by_two(self, source: View, target: View, axes: Sequence[Axis], inner: int, *, grows: bool) -> Iterator[Map]:
        """In two passes there is less to find and to weigh: the dimension along which memory is walked, and all others.

        Those by whole rows. First is what makes the tensor smaller, or not as much larger.
        """
        along = [axis if (k == inner) == grows else _kept(axis.size) for k, axis in enumerate(axes)]
        across = [_kept(axis.length) if (k == inner) == grows else axis for k, axis in enumerate(axes)]
        kind = F32 if self.is_linear else source.data_type
        between = _stored_like("between", kind, [axis.length for axis in along], target)
        yield from self._along(source, between, along, inner)
        yield from self._along(between, target, across, inner)

    def _at_once(
        self, source: View, target: View, axes: Sequence[Axis], inner: int, *, is_inner_first: bool
    ) -> Map | None:
        """A walk over the elements after which all goes on as before, with a target for each; None without."""
        rank, kind = len(axes), source.data_type
        phases = [[(0, 0.0)] if axis.is_kept else axis.phases(is_linear=self.is_linear) for axis in axes]
        if all(axis.is_kept for axis in axes) or not 0 < math.prod(map(len, phases)) <= _MOST_TARGETS:
            return None
        if any(length % len(several) for length, several in zip(target.sizes, phases, strict=True)):
            return None
        order = [k for k in range(rank) if k != inner]
        order = [*order, inner] if is_inner_first else [inner, *order]

        def mixed(chosen: Sequence[tuple[int, float]], places: dict[int, Expr]) -> Expr:
            """The outermost dimension is weighted last."""
            if len(places) == rank:
                return wide32(fetch(0, kind, [places[k] for k in range(rank)]), is_linear=self.is_linear)
            k = order[len(places)]
            (low, part), axis = chosen[k], axes[k]
            if axis.is_kept:
                return mixed(chosen, places | {k: coordinate(k)})
            last = given(axis.size - 1, INT64)
            at = coordinate(k) * given(int(axis.ratio[1]), INT64)
            near = [at + given(low + n, INT64) for n in (0, 1)]
            first, then = (mixed(chosen, places | {k: minimum(maximum(place, 0), last)}) for place in near)
            if not part:
                return first
            weighted = lerp((first, then), (given(1 - part, F32), given(part, F32)))
            return where((near[0] >= 0) & (near[0] < last), weighted, first)

        writes = []
        for chosen in itertools.product(*(enumerate(several) for several in phases)):
            starts, picked = zip(*chosen, strict=True)
            steps = [len(several) for several in phases]
            sizes = [length // step for length, step in zip(target.sizes, steps, strict=True)]
            value = finished(mixed(picked, {}), target.data_type)
            writes.append(Write(target.window(starts, steps, sizes), value))
        return Map((source,), writes[0].target, writes[0].value, also=tuple(writes[1:]))

    def _along(self, source: View, target: View, axes: Sequence[Axis], inner: int) -> Iterator[Map]:
        """A pass: walks along the innermost dimension, or places by arithmetic."""
        if not self.is_linear and all(axis.is_kept or axis.repeats for axis in axes):
            yield from self._repeated(source, target, axes)
            return
        moved = [k for k, axis in enumerate(axes) if not axis.is_kept]
        alone = moved[0] if self.is_linear and len(moved) == 1 else inner  # whole rows are weighted by the same parts
        walks = [] if axes[alone].is_kept else axes[alone].walks(is_linear=self.is_linear)
        for walk in walks:
            yield self._walked(source, target, axes, alone, walk)
        if walks:
            return
        tables = [] if axes[inner].is_kept or axes[inner].size > _MOST_IN_TABLE else self._tables(axes[inner], target)
        yield from tables
        yield self._whole(source, target, axes, inner, [table.target for table in tables])

    def _tables(self, axis: Axis, target: View) -> list[Map]:
        """The places along a dimension, and the parts, found once for all rows."""
        name = target.tensor if target.tensor != "OutputTensor" else "output"
        places = temporary(f"places of {name}", INT32, [axis.length])
        if not self.is_linear:
            return [Map((), places, axis.nearest(coordinate(0)).to(INT32))]
        low, high = axis.between(coordinate(0))
        parts = temporary(f"parts of {name}", F32, [axis.length])
        return [Map((), places, low.place.to(INT32)), Map((), parts, high.part)]

    def told(self) -> tuple[Map | Reduce | InPasses, ...]:
        """Each element with the places that it comes from."""
        axes = self.axes()
        return self.lower() if any(map(self._is_smoothed, axes)) else (self._whole(*self.views(), axes),)

    def _is_smoothed(self, axis: Axis) -> bool:
        """Whether more than two elements go into one."""
        return bool(getattr(self, "antialiased", False)) and self.is_linear and 1 / axis.scale > 2

    def _repeated(self, source: View, target: View, axes: Sequence[Axis]) -> tuple[Map, ...]:
        """Copies from a view that stands still where elements follow themselves."""
        source = source.window([0] * len(axes), [1] * len(axes), [min(axis.size, axis.length) for axis in axes])
        last = len(axes) - 1 + sum(axis.repeats > 1 for axis in axes)
        for k in reversed(range(len(axes))):
            if (count := axes[k].repeats) > 1:
                target = split(target, k, axes[k].size, count)
                sizes, strides = list(source.sizes), list(source.strides)
                sizes.insert(k + 1, count)
                strides.insert(k + 1, 0)
                source = replace(source, sizes=tuple(sizes), strides=tuple(strides))
        return copies_of(source, target, last)

    def _whole(
        self, source: View, target: View, axes: Sequence[Axis], inner: int = 0, tables: Sequence[View] = ()
    ) -> Map:
        """All of the output, each element found by arithmetic, or along a dimension by tables."""
        terms = [self._terms(k, axis) for k, axis in enumerate(axes)]
        kind = source.data_type
        if tables:
            last = axes[inner].size - 1
            place = minimum(maximum(load(1, INT32), 0), given(last, INT32)).to(INT64)
            terms[inner] = [place]
        if len(tables) > 1:
            part = load(2, F32)
            terms[inner] = [Term(place, 1 - part), Term(minimum(place + 1, given(last, INT64)), part)]
        along = tuple(int(k == inner) for k in range(len(axes)))
        repeated = [View(table.tensor, table.data_type, target.sizes, along) for table in tables]
        value = self._mixed(terms, lambda places: fetch(0, kind, places))
        return Map((source, *repeated), target, finished(value, target.data_type))

    def _walked(self, source: View, target: View, axes: Sequence[Axis], inner: int, walk: Walk) -> Map:
        """A walk along a dimension; the others as they are."""
        rank, kind = len(axes), source.data_type
        start, steps, sizes = [0] * rank, [1] * rank, list(target.sizes)
        start[inner], steps[inner], sizes[inner] = walk.start, walk.step, walk.number
        into = target.window(start, steps, sizes)
        windows = []
        others = [k for k in range(rank) if k != inner]
        is_plain = all(axes[k].is_kept for k in others)
        for first, step, _ in walk.sources:
            kept = [walk.number if k == inner else axes[k].length if is_plain else source.sizes[k] for k in range(rank)]
            at, by = [0] * rank, [1] * rank
            at[inner], by[inner] = first, step
            windows.append(source.window(at, by, kept))
        parts = [given(part, F32) for *_, part in walk.sources]
        terms = [self._terms(k, axes[k]) for k in others]

        def mixed(places: list[Expr]) -> Expr:
            places.insert(inner, coordinate(inner))
            read = [
                wide32(load(slot, kind) if is_plain else fetch(slot, kind, places), is_linear=self.is_linear)
                for slot in range(len(windows))
            ]
            return read[0] if len(read) == 1 else lerp(read, parts)

        value = mixed([coordinate(k) for k in others]) if is_plain else self._mixed(terms, mixed)
        return Map(tuple(windows), into, finished(value, target.data_type))

    def _terms(self, k: int, axis: Axis) -> list[Term | Expr]:
        """The terms of an element along a dimension: a place, or two with their parts."""
        if axis.is_kept:
            return [coordinate(k)]
        return [*axis.between(coordinate(k))] if self.is_linear else [axis.nearest(coordinate(k))]

    def _mixed(self, terms: Sequence[Sequence[Term | Expr]], read: Any, places: tuple[Expr, ...] = ()) -> Expr:
        """The elements of all places, the last dimension's weighted first."""
        if not terms:
            return wide32(read(list(places)), is_linear=self.is_linear)
        found = [
            self._mixed(terms[1:], read, (*places, term.place if isinstance(term, Term) else term)) for term in terms[0]
        ]
        parts = [term.part for term in terms[0] if isinstance(term, Term)]
        return lerp(found, parts) if len(found) > 1 else found[0]


def _stored_like(name: str, kind: DataType, sizes: Sequence[int], like: View) -> View:
    """A temporary whose dimensions lie in the order of another view's."""
    order = sorted(range(len(sizes)), key=lambda k: (-abs(like.strides[k]), k))
    packed = temporary(name, kind, [sizes[k] for k in order])
    return packed.pick([order.index(k) for k in range(len(sizes))])


def _kept(size: int) -> Axis:
    return Axis(size, size, 1.0, 0.0, 0.0)


def with_size(sizes: Sequence[int], k: int, size: int) -> tuple[int, ...]:
    """Sizes with another one in a dimension."""
    return (*sizes[:k], size, *sizes[k + 1 :])


def _smoothed(source: View, target: View, k: int, axis: Axis) -> Reduce:
    """A dimension made shorter by a filter as wide as two elements of the output; past the ends it reads the last."""
    rank, stretch = len(source.sizes), 1 / axis.scale
    reach = math.ceil(stretch)
    x = axis.position(coordinate(k))
    middle = rint(x)
    place = (
        minimum(maximum(middle, const(-(2.0**40), F64)), const(2.0**40, F64)).to(INT64)
        + coordinate(rank)
        - given(reach, INT64)
    )
    # 1 at the place itself, and 0 one element of the output away.
    part = maximum(1 - absolute(place.to(F64) - x) * given(axis.scale, F64), 0)
    at = [coordinate(j) for j in range(rank)]
    at[k] = minimum(maximum(place, 0), given(axis.size - 1, INT64))
    element = wide(fetch(0, source.data_type, at)).to(F64)
    value = (fold("sum", element * part) / fold("sum", part)).to(F32)
    by_row = replace(target, sizes=(*target.sizes, 1), strides=(*target.strides, 0))
    return Reduce((source,), by_row, value, 1, rows=(2 * reach + 1,))
