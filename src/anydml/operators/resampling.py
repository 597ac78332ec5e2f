"""RESAMPLE 0 to 3 and UPSAMPLE_2D: a tensor in other sizes, its elements between those that are there."""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.enums import AxisDirection, InterpolationMode
from anydml.errors import Fault
from anydml.ir.expressions import absolute, const, coordinate, fetch, fma, fold, given, load, maximum, minimum, rint
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import wide
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    Direction,
    FloatArray,
    Interpolation,
    Size2D,
    dml_name,
)
from anydml.operators.moved import Moved, at_least_1, split, temporary
from anydml.operators.rules import one_value_per_dimension, same_data_type, same_dimension_count
from anydml.operators.sampling import F32, F64, INT64, Axis, Term, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.enums import DataType
    from anydml.ir.expressions import Expr
    from anydml.operators.computed import Computed

HALF = 0.5
"""What the offsets of elements' middles are: of the input's, and its negative of the output's."""


def scale_rules(desc: Computed, *names: str) -> Iterator[Fault]:
    """Check that numbers are finite, and those of scales above 0."""
    for name in names:
        for i, value in enumerate(getattr(desc, name)):
            field, is_scale = f"{dml_name(name)}[{i}]", name == "scales"
            if not math.isfinite(value) or (is_scale and value <= 0):
                rule = f"{field} must be finite{' and above 0' if is_scale else ''}"
                yield Fault(field=field, rule=rule, value=value, found=str(value))


class _Resampled(Moved):
    """What they share: an axis for each dimension."""

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

    def lower(self) -> tuple[Map | Reduce, ...]:
        """Walks along the innermost dimension; where there are none, or in the others, places by arithmetic."""
        source, target = self.views()
        axes = self.axes()
        if not self.is_linear and all(axis.is_kept or axis.repeats for axis in axes):
            return (self._repeated(source, target, axes),)
        before: list[Reduce] = []
        for k, axis in enumerate(axes):
            if self._is_smoothed(axis):
                into = temporary(f"dimension {k}", F32, with_size(source.sizes, k, axis.length))
                before.append(_smoothed(source, into, k, axis))
                source, axes[k] = into, _kept(axis.length)
        long = [k for k, size in enumerate(target.sizes) if size > 1]
        inner = min(long, key=lambda k: (abs(target.strides[k]), -k), default=0)
        walks = [] if axes[inner].is_kept else axes[inner].walks(is_linear=self.is_linear)
        if not walks:
            return (*before, self._whole(source, target, axes))
        return (*before, *(self._walked(source, target, axes, inner, walk) for walk in walks))

    def told(self) -> tuple[Map | Reduce, ...]:
        """Each element with the places that it comes from."""
        axes = self.axes()
        return self.lower() if any(map(self._is_smoothed, axes)) else (self._whole(*self.views(), axes),)

    def _is_smoothed(self, axis: Axis) -> bool:
        """Whether more than two elements go into one."""
        return bool(getattr(self, "antialiased", False)) and self.is_linear and 1 / axis.scale > 2

    def _repeated(self, source: View, target: View, axes: Sequence[Axis]) -> Map:
        """A copy from a view that stands still where elements follow themselves."""
        source = source.window([0] * len(axes), [1] * len(axes), [min(axis.size, axis.length) for axis in axes])
        for k in reversed(range(len(axes))):
            if (count := axes[k].repeats) > 1:
                target = split(target, k, axes[k].size, count)
                sizes, strides = list(source.sizes), list(source.strides)
                sizes.insert(k + 1, count)
                strides.insert(k + 1, 0)
                source = replace(source, sizes=tuple(sizes), strides=tuple(strides))
        return copy_of(source, target)

    def _whole(self, source: View, target: View, axes: Sequence[Axis]) -> Map:
        """All of the output, each element found by arithmetic."""
        terms = [self._terms(k, axis) for k, axis in enumerate(axes)]
        kind = source.data_type
        value = self._mixed(terms, lambda places: fetch(0, kind, places))
        return Map((source,), target, finished(value, target.data_type))

    def _walked(self, source: View, target: View, axes: Sequence[Axis], inner: int, walk: Walk) -> Map:
        """A walk along a dimension; the others as they are."""
        rank, kind = len(axes), source.data_type
        start, steps, sizes = [0] * rank, [1] * rank, list(target.sizes)
        start[inner], steps[inner], sizes[inner] = walk.start, walk.step, walk.count
        into = target.window(start, steps, sizes)
        windows = []
        others = [k for k in range(rank) if k != inner]
        is_plain = all(axes[k].is_kept for k in others)
        for first, step, _ in walk.sources:
            kept = [walk.count if k == inner else axes[k].length if is_plain else source.sizes[k] for k in range(rank)]
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
        """What goes into an element along a dimension: a place, or two with their parts."""
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


def wide32(element: Expr, *, is_linear: bool) -> Expr:
    """An element to be weighted, as FLOAT32; one that is moved stays as it is."""
    return element.to(F32) if is_linear else element


def finished(value: Expr, kind: DataType) -> Expr:
    """A weighted element as the output has it: of integers the nearest."""
    return (value if kind.is_float or value.type is kind else rint(value)).to(kind)


def lerp(elements: Sequence[Expr], parts: Sequence[Expr]) -> Expr:
    """Two elements weighted: the sum is rounded once."""
    return fma(elements[1], parts[1], elements[0] * parts[0])


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


class Resampling(_Resampled):
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


class Upsample2D(_Resampled):
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
