"""ROI_POOLING, ROI_ALIGN and ROI_ALIGN1: regions of images, each in the same sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType, InterpolationMode, ReduceFunction
from anydml.errors import Fault
from anydml.ir.expressions import (
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
    where,
)
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    Float,
    Input,
    Interpolation,
    Output,
    Reduction,
    Size2D,
    Uint,
)
from anydml.operators.moved import at_least_1, temporary
from anydml.operators.rules import exact_sizes, same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.tensor import TensorDesc

INT64, F32, F64 = DataType.INT64, DataType.FLOAT32, DataType.FLOAT64
_LOWEST = float("-inf")


def region_rules(field: str, tensor: TensorDesc, last: int | None) -> Iterator[Fault]:
    """Check that a tensor has a line of numbers for each region, and leading sizes of 1."""
    kept = 1 if last is None else 2
    rule = ""
    if any(size > 1 for size in tensor.sizes[:-kept]):
        rule = f"{field}.Sizes must be 1 but for the last{' two' if kept > 1 else ''}"
    elif last is not None and tensor.sizes[-1] != last:
        rule = f"{field}.Sizes must end with {last}, the numbers of a region"
    if rule:
        yield Fault(field=f"{field}.Sizes", rule=rule, value=tensor.sizes, found=str(tensor.sizes))


def number_of(field: str, tensor: TensorDesc, place: int, rank: int, depth: int, *, is_line: bool = True) -> View:
    """A number of each region, which repeats along all other dimensions; regions are the first."""
    view = View.of(field, tensor)
    by = view.strides[-2] if is_line and len(view.strides) > 1 else view.strides[-1]
    offset = view.offset + (place * view.strides[-1] if is_line else 0)
    return View(field, view.data_type, (1,) * (rank + depth), (by, *(0,) * (rank + depth - 1)), offset)


def spread(view: View, sizes: tuple[int, ...]) -> View:
    """A number of each region in the sizes of a walk."""
    return replace(view, sizes=sizes)


def by_row(view: View, depth: int) -> View:
    """A target of an element for each row."""
    return replace(view, sizes=(*view.sizes, *(1,) * depth), strides=(*view.strides, *(0,) * depth))


def inside(index: Expr, size: int) -> Expr:
    """The nearest place that is there."""
    return minimum(maximum(index, 0), given(size - 1, INT64))


class RoiPooling(Computed):
    """The largest element of each part of each region of an image, a region being taken apart into PooledSize.

    ROITensor has the image's number, then the first column and row and the last ones, all but the number times
    SpatialScale and rounded, halves away from 0. PooledSize is the width, then the height. A part begins with the whole
    element that its first place is in, and ends with the one that its last is in; one with no element of the image is
    0, and an image that is not there is the nearest, which the documents leave open.
    """

    shares_rank = True

    input_tensor: Input
    roi_tensor: Input
    output_tensor: Output
    spatial_scale: Float = 1.0
    pooled_size: Size2D

    def rules(self) -> Iterator[Fault]:
        """The tensors are of one type, and a region has five numbers."""
        yield from same_data_type(self, "ROITensor", "InputTensor")
        yield from region_rules("ROITensor", self.roi_tensor, 5)
        yield from at_least_1(self, "pooled_size")

    def implied_output_sizes(self) -> tuple[int, ...]:
        """Regions, channels, and the sizes that they are made."""
        width, height = self.pooled_size
        return self.roi_tensor.sizes[-2], self.input_tensor.sizes[1], height, width

    def output_rules(self) -> Iterator[Fault]:
        """The output is of that, and of the input's type."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        yield from exact_sizes(self, "OutputTensor", self.implied_output_sizes(), "{regions, channels, PooledSize}")

    def lower(self) -> tuple[Reduce, ...]:
        """The largest of each part's columns, in every row of the image, then of its rows."""
        x, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        (regions, channels, pooled_height, pooled_width), kind = target.sizes, x.data_type
        batch, _, height, width = x.sizes
        columns = temporary("columns", F32, (regions, channels, height, pooled_width))
        number = self._number(1, (regions, channels, height, pooled_width, width))
        first, last = self._part(3, 1, pooled_width, width)
        image = inside(self._element(0).to(INT64), batch)
        element = wide(fetch(0, kind, [image, coordinate(1), coordinate(2), coordinate(4)]))
        is_part = (coordinate(4) >= first) & (coordinate(4) < last)
        along = Reduce(
            (x, *number),
            by_row(columns, 1),
            fold("max", where(is_part, element, const(_LOWEST, F32))),
            1,
            rows=(width,),
        )
        first, last = self._part(2, 2, pooled_height, height)
        begin, end = self._part(3, 1, pooled_width, width)
        number = self._number(1, (*target.sizes, height))
        element = fetch(0, F32, [coordinate(0), coordinate(1), coordinate(4), coordinate(3)])
        is_part = (coordinate(4) >= first) & (coordinate(4) < last)
        largest = fold("max", where(is_part, element, const(_LOWEST, F32)))
        value = where((first < last) & (begin < end), largest, const(0.0, F32))
        return along, Reduce((columns, *number), by_row(target, 1), value.to(kind), 1, rows=(height,))

    def _number(self, depth: int, sizes: tuple[int, ...]) -> list[View]:
        return [spread(number_of("ROITensor", self.roi_tensor, k, 4, depth), sizes) for k in range(5)]

    def _element(self, place: int) -> Expr:
        """A number of the region, of those after the first source."""
        return wide(load(1 + place, self.roi_tensor.data_type))

    def _part(self, dimension: int, place: int, count: int, size: int) -> tuple[Expr, Expr]:
        """The first element of a part, and the one after its last."""
        scale = given(self.spatial_scale, F32)
        low, high = (_rounded(self._element(at) * scale) for at in (place, place + 2))
        extent = maximum(high - low + 1.0, 1.0) / given(count, F32)
        at = coordinate(dimension).to(F32)
        limit = given(size, F32)
        first, last = floor(at * extent) + low, ceil((at + 1.0) * extent) + low
        begin, end = (minimum(maximum(bound, 0.0), limit).to(INT64) for bound in (first, last))
        return begin, end


def _rounded(x: Expr) -> Expr:
    """The nearest whole number, of two the one farther from 0."""
    return where(x < 0.0, ceil(x - 0.5), floor(x + 0.5))


class Sample(NamedTuple):
    """Where a sample of a region stands along a dimension of the image, and how many there are."""

    position: Expr
    samples: Expr
    is_there: Expr
    """Whether it is one of those, and at most one element outside of the image."""
    is_counted: Expr
    """Whether it is one of those."""


class Aligned(Computed):
    """Regions sampled between elements."""

    if TYPE_CHECKING:
        input_tensor: Input
        roi_tensor: Input
        batch_indices_tensor: Input
        reduction_function: Reduction
        interpolation_mode: Interpolation
        spatial_scale_x: Float
        spatial_scale_y: Float
        minimum_samples_per_output: Uint
        maximum_samples_per_output: Uint

    def region_rules(self) -> Iterator[Fault]:
        """Regions have four numbers, and each has an image; samples are averaged, or the largest taken."""
        yield from same_data_type(self, "ROITensor", next(iter(self.inputs())))
        yield from region_rules("ROITensor", self.roi_tensor, 4)
        yield from region_rules("BatchIndicesTensor", self.batch_indices_tensor, None)
        mine, theirs = self.batch_indices_tensor.sizes[-1], self.roi_tensor.sizes[-2]
        if mine != theirs:
            rule = f"BatchIndicesTensor.Sizes must end with {theirs}, one for each region of ROITensor"
            yield Fault(field="BatchIndicesTensor.Sizes", rule=rule, value=mine, found=str(mine))
        function = ReduceFunction(self.reduction_function)
        if function not in (ReduceFunction.AVERAGE, ReduceFunction.MAX):
            rule = "ReductionFunction must be AVERAGE or MAX"
            yield Fault(field="ReductionFunction", rule=rule, value=function, found=function.name)
        least, most = self.minimum_samples_per_output, self.maximum_samples_per_output
        if not 1 <= least <= most:
            rule = "MinimumSamplesPerOutput must be at least 1, and at most MaximumSamplesPerOutput"
            yield Fault(field="MinimumSamplesPerOutput", rule=rule, value=(least, most), found=f"{least} and {most}")

    @property
    def is_largest(self) -> bool:
        """Whether the largest sample is taken, and not the mean."""
        return ReduceFunction(self.reduction_function) is ReduceFunction.MAX

    @property
    def is_linear(self) -> bool:
        """Whether elements are weighted, and not the nearest taken."""
        return InterpolationMode(self.interpolation_mode) is InterpolationMode.LINEAR

    def most_samples(self, size: int, count: int) -> int:
        """Samples of an element along a dimension: as many as a region of the image's size has, or those asked for."""
        needed = max(-(-size // count), self.minimum_samples_per_output)
        return min(needed, self.maximum_samples_per_output)

    def sample(self, numbers: tuple[Expr, Expr], scale: float, at: Expr, number: Expr, count: int, size: int) -> Sample:
        """A sample of the element `at` of so many, in an image of a size."""
        low, high = (number.to(F32) * given(scale, F32) for number in numbers)
        extent = high - low
        most = given(self.most_samples(size, count), F32)
        least = given(self.minimum_samples_per_output, F32)
        samples = minimum(maximum(ceil(extent / given(count, F32)), least), most)
        whole = given(count, F32) * samples
        if getattr(self, "align_regions_to_corners", False):
            whole = maximum(whole - 1.0, 1.0)
        offset = given(getattr(self, "output_pixel_offset", -0.5), F32)
        place = (at.to(F32) * samples + number.to(F32) - offset) * (extent / whole) + low
        position = place - given(getattr(self, "input_pixel_offset", 0.5), F32)
        is_counted = number.to(F32) < samples
        is_there = is_counted & (position >= -1.0) & (position <= given(size, F32))
        return Sample(position, samples, is_there, is_counted)

    def corners(self, position: Expr, size: int) -> list[tuple[Expr, Expr]]:
        """The elements that a sample is of, with the part of each: two, or the nearest, the earlier of two."""
        last = given(size - 1, F32)
        if not self.is_linear:
            return [(minimum(maximum(ceil(position - 0.5), 0.0), last).to(INT64), const(1.0, F32))]
        x = minimum(maximum(position, 0.0), last)
        low = floor(x)
        part, place = x - low, low.to(INT64)
        return [(place, 1.0 - part), (inside(place + 1, size), part)]


class _RoiAlign(Aligned):
    """Forward."""

    implies_output = False
    result_rank = 4
    if TYPE_CHECKING:
        output_tensor: Output
        out_of_bounds_input_value: Float

    def rules(self) -> Iterator[Fault]:
        """The tensors fit one another."""
        yield from self.region_rules()

    def output_rules(self) -> Iterator[Fault]:
        """The output has the regions and the channels."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        wanted = (self.roi_tensor.sizes[-2], self.input_tensor.sizes[1], *self.output_tensor.sizes[2:])
        yield from exact_sizes(self, "OutputTensor", wanted, "{regions, channels, height, width}")

    def lower(self) -> tuple[Reduce]:
        """A reduce over the samples of each element."""
        x, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        (batch, _, height, width), (_, _, rows, columns) = x.sizes, target.sizes
        depth = (self.most_samples(height, rows), self.most_samples(width, columns))
        sizes, kind = (*target.sizes, *depth), x.data_type
        regions = [spread(number_of("ROITensor", self.roi_tensor, k, 4, 2), sizes) for k in range(4)]
        images = spread(number_of("BatchIndicesTensor", self.batch_indices_tensor, 0, 4, 2, is_line=False), sizes)
        number = [wide(load(1 + k, kind)) for k in range(4)]
        image = nearest_image(load(5, self.batch_indices_tensor.data_type), batch)
        down = self.sample((number[1], number[3]), self.spatial_scale_y, coordinate(2), coordinate(4), rows, height)
        across = self.sample((number[0], number[2]), self.spatial_scale_x, coordinate(3), coordinate(5), columns, width)
        lines = []
        for row, part in self.corners(down.position, height):
            found = [
                (wide(fetch(0, kind, [image, coordinate(1), row, column])), own)
                for column, own in self.corners(across.position, width)
            ]
            lines.append((_weighed(found), part))
        is_there = down.is_there & across.is_there
        is_counted = down.is_counted & across.is_counted
        value = where(is_there, _weighed(lines), given(self.out_of_bounds_input_value, F32))
        if self.is_largest:
            total = fold("max", where(is_counted, value, const(_LOWEST, F32)))
        else:
            sums = fold("sum", where(is_counted, value, const(0.0, F32)).to(F64))
            counts = fold("sum", where(is_counted, const(1.0, F64), const(0.0, F64)))
            total = (sums / counts).to(F32)
        return (Reduce((x, *regions, images), by_row(target, 2), total.to(kind), 2, rows=depth),)


def nearest_image(index: Expr, count: int) -> Expr:
    """The image of a region; of one that is not there the last."""
    assert index.type is not None  # noqa: S101 - for type checkers: a number
    return minimum(index, given(count - 1, index.type)).to(INT64)


def _weighed(terms: list[tuple[Expr, Expr]]) -> Expr:
    if len(terms) == 1:
        return terms[0][0]
    (first, own), (second, other) = terms
    return fma(second, other, first * own)


class RoiAlign(_RoiAlign):
    """Regions of images, sampled between elements, each in the output's sizes.

    ROITensor has the first column and row and the last ones, times SpatialScaleX and SpatialScaleY, and
    BatchIndicesTensor the image. An element of the output is the mean or the largest of samples, size/count of them
    rounded up in each dimension, within MinimumSamplesPerOutput and MaximumSamplesPerOutput, and no more than a region
    as large as the image has. Sample s of n stands at (s + 0.5)·size/n - 0.5 from the region's beginning. With LINEAR
    the four elements around are weighted, with NEAREST_NEIGHBOR the nearest is taken, the earlier of two; up to one
    element outside of the image the last goes on, and beyond that a sample is OutOfBoundsInputValue.
    """

    input_tensor: Input
    roi_tensor: Input
    batch_indices_tensor: Input
    output_tensor: Output
    reduction_function: Reduction = ReduceFunction.AVERAGE
    interpolation_mode: Interpolation = InterpolationMode.LINEAR
    spatial_scale_x: Float = 1.0
    spatial_scale_y: Float = 1.0
    out_of_bounds_input_value: Float = 0.0
    minimum_samples_per_output: Uint = 1
    maximum_samples_per_output: Uint = 2**32 - 1


class RoiAlign1(_RoiAlign):
    """Regions of images, sampled between elements, each in the output's sizes.

    ROITensor has the first column and row and the last ones, times SpatialScaleX and SpatialScaleY, and
    BatchIndicesTensor the image. An element of the output is the mean or the largest of samples, size/count of them
    rounded up in each dimension, within MinimumSamplesPerOutput and MaximumSamplesPerOutput, and no more than a region
    as large as the image has. Sample s of n stands at (s - OutputPixelOffset)·size/n - InputPixelOffset from the
    region's beginning, with AlignRegionsToCorners by n - 1. With LINEAR the four elements around are weighted, with
    NEAREST_NEIGHBOR the nearest is taken, the earlier of two; up to one element outside of the image the last goes on,
    and beyond that a sample is OutOfBoundsInputValue.
    """

    input_tensor: Input
    roi_tensor: Input
    batch_indices_tensor: Input
    output_tensor: Output
    reduction_function: Reduction = ReduceFunction.AVERAGE
    interpolation_mode: Interpolation = InterpolationMode.LINEAR
    spatial_scale_x: Float = 1.0
    spatial_scale_y: Float = 1.0
    input_pixel_offset: Float = 0.5
    output_pixel_offset: Float = -0.5
    out_of_bounds_input_value: Float = 0.0
    minimum_samples_per_output: Uint = 1
    maximum_samples_per_output: Uint = 2**32 - 1
    align_regions_to_corners: bool = False
