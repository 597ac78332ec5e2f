"""RESAMPLE 0 to 3, UPSAMPLE_2D and the gradients: a tensor in other sizes, its elements between those that are there.

Resampling is carried out in passes, by walks along memory, by tables, or by arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from anydml.core.enums import AxisDirection, DataType, InterpolationMode
from anydml.core.errors import Fault
from anydml.core.late_imports import import_alone
from anydml.ir.expressions import (
    absolute,
    ceil,
    const,
    coordinate,
    fetch,
    floor,
    fma,
    fold,
    given,
    load,
    maximum,
    minimum,
    rint,
    where,
)
from anydml.ir.pass_by_pass import InPasses
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce, Write
from anydml.ir.views import View
from anydml.operators.lowering import by_row, copies_of, split, temporary, wide
from anydml.operators.manipulation import Moved
from anydml.operators.schema.fields import Direction, FloatArray, Input, Interpolation, Output, Size2D, dml_name
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import (
    at_least_1,
    fault,
    one_value_per_dimension,
    same_data_type,
    same_dimension_count,
    values_for_each,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive


# Where the elements of a resampled dimension come from


INT64, F64, F32 = DataType.INT64, DataType.FLOAT64, DataType.FLOAT32
MOST_PHASES = 4
"""Elements of the output after which it goes on as before, for which each has a walk of its own."""
MOST_IN_TURN = 5
"""Such elements that one walk has together."""
MOST_AT_ENDS = 16
"""Elements of the output before the first group of them and after the last."""
_LARGEST = 2048
"""Of whole numbers whose ratio a scale is: 24 binary digits tell all of these apart."""


class Term(NamedTuple):
    """An element of the input that goes into one of the output: its place, and its part."""

    place: Expr
    part: Expr


class Walk(NamedTuple):
    """Elements of the output a step apart, which come from elements of the input that are too, with the same parts."""

    start: int
    step: int
    number: int
    sources: tuple[tuple[int, int, float], ...]
    """Of each the first, the step, and the part."""


class Phase(NamedTuple):
    """An element of the output, and those that follow a stretch's step apart."""

    start: int
    sources: tuple[tuple[int, int, float], ...]
    """As a walk has them."""


class Stretch(NamedTuple):
    """Elements of the output, so many times some that follow one another."""

    number: int
    step: int
    phases: tuple[Phase, ...]


def _fraction(number: float) -> Fraction:
    """A number exactly."""
    import_alone("fractions")
    from fractions import Fraction  # with decimal: 4 ms of import

    return Fraction(number)


def ratio_of(number: float) -> tuple[float, float]:
    """A FLOAT as a numerator and a denominator: a ratio of small whole numbers that it is the FLOAT of, or it and 1."""
    near = _fraction(number).limit_denominator(_LARGEST)
    is_near = abs(near.numerator) <= _LARGEST and float(np.float32(float(near))) == number
    return (near.numerator, near.denominator) if is_near else (number, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension: the element o of the output stands at (o - output_offset)/scale - input_offset of the input."""

    size: int
    length: int
    """Of the output."""
    scale: float
    input_offset: float
    output_offset: float
    rounding: AxisDirection | None = None
    """Of a place between two elements; None for the nearest, halves up."""

    @property
    def ratio(self) -> tuple[float, float]:
        """The scale as a numerator and a denominator."""
        return ratio_of(self.scale)

    @property
    def is_kept(self) -> bool:
        """Whether each element stands in its own place."""
        return self.scale == 1 and self.input_offset == -self.output_offset and self.length <= self.size

    def position(self, at: Expr) -> Expr:
        """Where an element of the output stands, FLOAT64."""
        over, under = self.ratio
        return (at.to(F64) - given(self.output_offset, F64)) * given(under, F64) / given(over, F64) - given(
            self.input_offset, F64
        )

    def positions(self) -> np.ndarray[Any, Any]:
        """Where every element of the output stands."""
        over, under = self.ratio
        return (np.arange(self.length) - self.output_offset) * under / over - self.input_offset

    def nearest(self, at: Expr) -> Expr:
        """The place of the one element that is taken."""
        x = self.position(at)
        if self.rounding is None:
            return self._inside(floor(x + const(0.5, F64))).to(INT64)
        return self._inside((ceil if self.rounding is AxisDirection.INCREASING else floor)(x)).to(INT64)

    def between(self, at: Expr) -> tuple[Term, Term]:
        """The two elements around a place, with the part of each; past the ends the last."""
        x = self._inside(self.position(at))
        low = floor(x)
        part, place = (x - low).to(F32), low.to(INT64)
        return Term(place, 1 - part), Term(minimum(place + 1, given(self.size - 1, INT64)), part)

    def _inside(self, x: Expr) -> Expr:
        return minimum(maximum(x, 0), given(self.size - 1, F64))

    def phases(self, *, is_linear: bool, most: int = MOST_PHASES) -> list[tuple[int, float]]:
        """Of the first elements, after which it goes on as before: the element at or before each, and the next's part.

        None where there are too many of them, or the scale is no small ratio.
        """
        over, under = self.ratio
        if not (isinstance(over, int) and isinstance(under, int)) or over > most:
            return []
        places = [self._exact(phase) for phase in range(over)]
        if not is_linear:
            return [(self._rounded(x), 0.0) for x in places]
        return [(math.floor(x), float(np.float32(float(x - math.floor(x))))) for x in places]

    def walks(self, *, is_linear: bool) -> list[Walk]:
        """The elements in walks; none where there are too many of them, or the scale is no small ratio."""
        return self._walks(self.phases(is_linear=is_linear))

    def _walks(self, phases: Sequence[tuple[int, float]]) -> list[Walk]:
        """A walk for each phase, and for its ends."""
        over, under = (int(number) for number in self.ratio)
        found = []
        for phase, (low, part) in enumerate(phases[: self.length]):
            count = -(-(self.length - phase) // over)
            last = self.size - 1 - bool(part)
            # Before the first element, among them, and past the last.
            begin = min(max(-(low // under), 0), count)
            end = min(max((last - low) // under + 1, begin), count)
            first = low + begin * under
            inside = [(first, under, 1.0)] if not part else [(first, under, 1 - part), (first + 1, under, part)]
            for start, stop, sources in ((0, begin, [(0, 0, 1.0)]), (begin, end, inside), (end, count, None)):
                if stop > start:
                    found.append(
                        Walk(phase + start * over, over, stop - start, tuple(sources or [(self.size - 1, 0, 1.0)]))
                    )
        return found

    def stretches(self, *, is_linear: bool) -> list[Stretch]:
        """The elements between the ends, in groups after which it goes on as before, and those left at both ends.

        None where there are too many of them, the scale is no small ratio, or makes the dimension smaller.
        """
        if self.is_kept:
            return [Stretch(self.length, 1, (Phase(0, ((0, 1, 1.0),)),))]
        phases = self.phases(is_linear=is_linear, most=MOST_IN_TURN)
        over, under = (int(number) for number in self.ratio)
        found = [walk for walk in self._walks(phases) if walk.sources[0][1]]
        if not found or over < under:
            return []
        first = min(walk.start for walk in found)
        number = (max(walk.start + (walk.number - 1) * over for walk in found) + 1 - first) // over
        ends = [*range(first), *range(first + number * over, self.length)]
        if not number or len(ends) > MOST_AT_ENDS:
            return []
        groups = Stretch(number, over, tuple(self._phase(phases, first + k, under) for k in range(over)))
        return [groups, Stretch(1, 1, tuple(self._phase(phases, at, 0) for at in ends))][: 1 + bool(ends)]

    def _phase(self, phases: Sequence[tuple[int, float]], at: int, step: int) -> Phase:
        """An element of the output, past the ends the last, the next ones from so many elements on."""
        low, part = phases[at % len(phases)]
        low += at // len(phases) * int(self.ratio[1])
        if low < 0 or low + bool(part) >= self.size:
            return Phase(at, ((min(max(low, 0), self.size - 1), 0, 1.0),))
        return Phase(at, ((low, step, 1 - part), (low + 1, step, part)) if part else ((low, step, 1.0),))

    @property
    def repeats(self) -> int:
        """How often each element follows itself, where the nearest ones are those alone; 0 otherwise."""
        over, under = self.ratio
        if under != 1 or not isinstance(over, int) or self.length != self.size * over:
            return 0
        is_each = all(self._rounded(self._exact(phase)) == 0 for phase in range(over))
        return over if is_each else 0

    def _exact(self, at: int) -> Fraction:
        """Where an element of the output stands."""
        over, under = self.ratio
        return (at - _fraction(self.output_offset)) * _fraction(under) / _fraction(over) - _fraction(self.input_offset)

    def _rounded(self, x: Fraction) -> int:
        """The place that is taken."""
        if self.rounding is None:
            return (math.floor(2 * x) + 1) // 2
        return math.ceil(x) if self.rounding is AxisDirection.INCREASING else math.floor(x)


def wide32(element: Expr, *, is_linear: bool) -> Expr:
    """An element to be weighted, as FLOAT32; one that is moved stays as it is."""
    return element.to(F32) if is_linear else element


def finished(value: Expr, kind: DataType) -> Expr:
    """A weighted element as the output has it: of integers the nearest."""
    return (value if kind.is_float or value.type is kind else rint(value)).to(kind)


def lerp(elements: Sequence[Expr], parts: Sequence[Expr]) -> Expr:
    """Two elements weighted: the sum is rounded once."""
    return fma(elements[1], parts[1], elements[0] * parts[0])


# Images made larger in one pass: each group of elements that goes on as before is a map's targets. Along the innermost
# dimension the targets' elements lie in turn, and engines write them as one.


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


# The ways


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

    def told(self) -> tuple[Primitive, ...]:
        """Of copies each element with the place that it comes from; weights as they are computed with."""
        return super().told() if self.is_linear else (self._whole(*self.views(), self.axes()),)

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
    return Reduce((source,), by_row(target, 1), value, 1, rows=(2 * reach + 1,))


# The operators


HALF = 0.5
"""The offset of elements' middles: of the input's, and its negative of the output's."""


def scale_rules(desc: Computed, *names: str) -> Iterator[Fault]:
    """Check that numbers are finite, and those of scales above 0."""
    for name in names:
        for i, value in enumerate(getattr(desc, name)):
            field, is_scale = f"{dml_name(name)}[{i}]", name == "scales"
            if not math.isfinite(value) or (is_scale and value <= 0):
                yield fault(field, f"must be finite{' and above 0' if is_scale else ''}", value)


class Resampling(Resampled):
    """Scales for each dimension, and sizes that need not be what they give."""

    fills: ClassVar[Mapping[str, float]] = {"scales": 1.0}
    sizes_are_free = True
    if TYPE_CHECKING:
        scales: FloatArray

    def rules(self) -> Iterator[Fault]:
        """There is a scale for each dimension, above 0, and finite offsets."""
        yield from one_value_per_dimension(self, *self.fills)
        yield from scale_rules(self, *self.fills)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's times Scales, rounded down, and at least 1."""
        return tuple(
            max(math.floor(size * scale), 1) for size, scale in zip(self.input_tensor.sizes, self.scales, strict=True)
        )

    def output_rules(self) -> Iterator[Fault]:
        """The output is of the input's type and dimension count: its sizes are free."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from same_dimension_count(self, "OutputTensor", "InputTensor")

    def axes(self) -> list[Axis]:
        """By Scales, and the offsets where there are some."""
        count = len(self.scales)
        inputs: Sequence[float] = getattr(self, "input_pixel_offsets", (HALF,) * count)
        outputs: Sequence[float] = getattr(self, "output_pixel_offsets", (-HALF,) * count)
        rounding = getattr(self, "rounding_direction", None)
        sizes = zip(self.input_tensor.sizes, self.output_tensor.sizes, strict=True)
        return [
            Axis(size, length, self.scales[k], inputs[k], outputs[k], rounding)
            for k, (size, length) in enumerate(sizes)
        ]


class Resample(Resampling):
    """A tensor in other sizes: its element o stands at (o + 0.5)/Scale - 0.5 of the input.

    With NEAREST_NEIGHBOR the nearest element is taken, the later one of two; with LINEAR the two around are weighted,
    in each dimension, in FLOAT32. Past the ends the last element goes on. A Scale that is the FLOAT of a ratio of small
    whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    scales: FloatArray

    @property
    def scale_count(self) -> int:
        """DirectML's ScaleCount, the length of the array."""
        return len(self.scales)


class _WithOffsets(Resampling):
    """Offsets for each dimension."""

    fills: ClassVar[Mapping[str, float]] = {"scales": 1.0, "input_pixel_offsets": 0.0, "output_pixel_offsets": 0.0}

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.scales)


class Resample1(_WithOffsets):
    """A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input.

    With NEAREST_NEIGHBOR the nearest element is taken, the later one of two; with LINEAR the two around are weighted,
    in each dimension, in FLOAT32. Past the ends the last element goes on. A Scale that is the FLOAT of a ratio of small
    whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray


class Resample2(_WithOffsets):
    """A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input.

    With NEAREST_NEIGHBOR the element before or after that is taken, as RoundingDirection says; with LINEAR the two
    around are weighted, in each dimension, in FLOAT32. Past the ends the last element goes on. A Scale that is the
    FLOAT of a ratio of small whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    rounding_direction: Direction = AxisDirection.INCREASING
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray


class Resample3(_WithOffsets):
    """A tensor in other sizes: its element o stands at (o - OutputPixelOffset)/Scale - InputPixelOffset of the input.

    With NEAREST_NEIGHBOR the element before or after that is taken, as RoundingDirection says; with LINEAR the two
    around are weighted, in each dimension, in FLOAT32. With Antialiased, LINEAR and a Scale below 1/2 those up to
    1/Scale away are, by how near they are. Past the ends the last element goes on. A Scale that is the FLOAT of a ratio
    of small whole numbers is that ratio. Integers are rounded to the nearest,
    halves to even, which the documents leave open.
    """

    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    rounding_direction: Direction = AxisDirection.INCREASING
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray
    antialiased: bool = False


class Upsample2D(Resampled):
    """Makes the rows and columns, the last two dimensions, a whole number of times as many.

    ScaleSize is the width's number, then the height's. The element o stands at (o + 0.5)/Scale - 0.5 of the input: with
    NEAREST_NEIGHBOR the nearest is taken, with LINEAR the two around are weighted, in FLOAT32. Past the ends the last
    element goes on.
    """

    sizes_from: ClassVar[str] = "those of InputTensor times ScaleSize"

    scale_size: Size2D
    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR

    def rules(self) -> Iterator[Fault]:
        """The numbers are at least 1."""
        yield from at_least_1(self, "scale_size")

    def _scales(self) -> tuple[int, ...]:
        width, height = self.scale_size
        return (*(1 for _ in self.input_tensor.sizes[2:]), height, width)

    def implied_output_sizes(self) -> tuple[int, ...]:
        """The input's, rows and columns so many times."""
        return tuple(size * scale for size, scale in zip(self.input_tensor.sizes, self._scales(), strict=True))

    def axes(self) -> list[Axis]:
        """By ScaleSize, of elements' middles."""
        sizes = zip(self.input_tensor.sizes, self.output_tensor.sizes, self._scales(), strict=True)
        return [Axis(size, length, float(scale), HALF, -HALF) for size, length, scale in sizes]


# Gradients


class _ResampleGrad(Computed):
    """The shared part of the two."""

    implies_output = False
    fills: ClassVar[Mapping[str, float]] = {"scales": 1.0, "input_pixel_offsets": 0.0, "output_pixel_offsets": 0.0}
    if TYPE_CHECKING:
        input_gradient_tensor: Input
        output_gradient_tensor: Output
        interpolation_mode: Interpolation
        scales: FloatArray
        input_pixel_offsets: FloatArray
        output_pixel_offsets: FloatArray

    @property
    def dimension_count(self) -> int:
        """DirectML's DimensionCount, the length of the arrays."""
        return len(self.scales)

    def rules(self) -> Iterator[Fault]:
        """The gradients are alike, and there is a scale for each dimension, above 0, and finite offsets."""
        yield from same_data_type(self, "OutputGradientTensor", "InputGradientTensor")
        yield from same_dimension_count(self, "OutputGradientTensor", "InputGradientTensor")
        yield from values_for_each(self, "InputGradientTensor", *self.fills)
        yield from scale_rules(self, *self.fills)

    def output_rules(self) -> Iterator[Fault]:
        """Every size will do."""
        yield from ()

    def axes(self) -> list[Axis]:
        """The dimensions of the resampling whose gradient it is."""
        rounding = getattr(self, "rounding_direction", None)
        sizes = zip(self.output_gradient_tensor.sizes, self.input_gradient_tensor.sizes, strict=True)
        return [
            Axis(size, length, self.scales[k], self.input_pixel_offsets[k], self.output_pixel_offsets[k], rounding)
            for k, (size, length) in enumerate(sizes)
        ]

    def lower(self) -> tuple[Map | Reduce, ...]:
        """A dimension after the other: the sum of what its elements went into, by their parts."""
        source = View.of("InputGradientTensor", self.input_gradient_tensor)
        target = View.of("OutputGradientTensor", self.output_gradient_tensor)
        axes = [(k, axis) for k, axis in enumerate(self.axes()) if not (axis.is_kept and axis.size == axis.length)]
        if not axes:
            return (copy_of(source, target),)
        steps = []
        for k, axis in axes:
            is_last = k == axes[-1][0]
            into = target if is_last else temporary(f"dimension {k}", F32, with_size(source.sizes, k, axis.size))
            steps.append(self._gathered(source, into, k, axis))
            source = into
        return tuple(steps)

    def _gathered(self, source: View, target: View, k: int, axis: Axis) -> Reduce:
        is_linear = InterpolationMode(self.interpolation_mode) is InterpolationMode.LINEAR
        at, rank = coordinate(k), len(source.sizes)
        number = _first(axis, at) + coordinate(rank)
        if is_linear:
            terms = axis.between(number)
            zero = const(0.0, F32)
            parts = [where(term.place.equals(at), term.part, zero) for term in terms]
            part = parts[0] + parts[1]
        else:
            part = where(axis.nearest(number).equals(at), const(1.0, F32), const(0.0, F32))
        places = [coordinate(j) for j in range(rank)]
        last = given(axis.length - 1, INT64)
        places[k] = minimum(number, last)
        element = wide(fetch(0, source.data_type, places))
        # What has no part is left out, whatever it is: 0 times an infinity is none.
        is_part = (number <= last) & (part > 0.0)
        total = fold("sum", where(is_part, element * part, const(0.0, F32)).to(F64))
        return Reduce((source,), by_row(target, 1), total.to(target.data_type), 1, rows=(_most(axis),))


_FAR = 2.0**40
"""Past every dimension, and a whole number in INT64."""


def _first(axis: Axis, at: Expr) -> Expr:
    """An element at or before the first that an element of the input goes into: the first one goes into all before."""
    over, under = axis.ratio
    before = (at.to(F64) - const(1.0, F64) + given(axis.input_offset, F64)) * given(over, F64) / given(under, F64)
    place = minimum(maximum(floor(before + given(axis.output_offset, F64)), 0), const(_FAR, F64)).to(INT64)
    return where(at.equals(0), const(0, INT64), minimum(place, given(axis.length - 1, INT64)))


def _most(axis: Axis) -> int:
    """The most elements from that one on that one of the input goes into."""
    over, under = axis.ratio
    places = np.arange(axis.size)
    first = np.clip(np.floor((places - 1 + axis.input_offset) * over / under + axis.output_offset), 0, axis.length - 1)
    first[0] = 0
    # The last that stands less than one element on, or everything past the end.
    last = np.searchsorted(axis.positions(), places + 1, side="right")
    last[-1] = axis.length
    return max(int(np.max(last - first)), 1)


class ResampleGrad(_ResampleGrad):
    """The gradient of RESAMPLE1 with respect to its input: the sum of the incoming one where each element went.

    Sums accumulate in FLOAT64, dimension by dimension.
    """

    input_gradient_tensor: Input
    output_gradient_tensor: Output
    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray


class ResampleGrad1(_ResampleGrad):
    """The gradient of RESAMPLE2 with respect to its input: the sum of the incoming one where each element went.

    Sums accumulate in FLOAT64, dimension by dimension.
    """

    continues: ClassVar[bool] = False  # it rounds one way, and RESAMPLE_GRAD to the nearest
    input_gradient_tensor: Input
    output_gradient_tensor: Output
    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    rounding_direction: Direction = AxisDirection.INCREASING
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray
