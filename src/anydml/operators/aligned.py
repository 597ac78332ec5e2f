"""ROI_ALIGN and ROI_ALIGN1: regions of images, sampled between elements, each in the same sizes."""

from __future__ import annotations

import abc
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from anydml.enums import DataType, InterpolationMode, ReduceFunction
from anydml.errors import Fault
from anydml.ir.expressions import ceil, const, coordinate, fetch, floor, fma, fold, given, load, maximum, minimum, where
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import Float, Input, Interpolation, Output, Reduction, Uint  # noqa: TC001 - read at run time
from anydml.operators.regions import LOWEST, by_row, inside, number_of, region_rules
from anydml.operators.rules import exact_sizes, same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.operators.sizes import Sizes

INT64, F32, F64 = DataType.INT64, DataType.FLOAT32, DataType.FLOAT64


class Sample(NamedTuple):
    """Where a sample of a region stands along a dimension of the image, and how many there are."""

    position: Expr
    samples: Expr
    is_there: Expr
    """Whether it is one of those, and at most one element outside of the image."""
    is_counted: Expr
    """Whether it is one of those."""
    along: Expr
    """How far along the region it stands: 0 at its beginning, 1 at its end."""


class Aligned(Computed):
    """Regions sampled between elements."""

    choices = MappingProxyType({"reduction_function": (ReduceFunction.AVERAGE, ReduceFunction.MAX)})

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
        mine, theirs = self.batch_indices_tensor.sizes[-1], self.regions
        if mine != theirs:
            rule = f"BatchIndicesTensor.Sizes must end with {theirs}, one for each region of ROITensor"
            yield Fault(field="BatchIndicesTensor.Sizes", rule=rule, value=mine, found=str(mine))
        function = ReduceFunction(self.reduction_function)
        if function not in self.choices["reduction_function"]:
            rule = "ReductionFunction must be AVERAGE or MAX"
            yield Fault(field="ReductionFunction", rule=rule, value=function, found=function.name)
        least, most = self.minimum_samples_per_output, self.maximum_samples_per_output
        if not 1 <= least <= most:
            rule = "MinimumSamplesPerOutput must be at least 1, and at most MaximumSamplesPerOutput"
            yield Fault(field="MinimumSamplesPerOutput", rule=rule, value=(least, most), found=f"{least} and {most}")

    @property
    def regions(self) -> int:
        """How many there are; 1 for a ROITensor of one dimension, which every level refuses."""
        return self.roi_tensor.sizes[-2] if self.roi_tensor.dimension_count > 1 else 1

    @abc.abstractmethod
    def image_sizes(self) -> Sizes:
        """The sizes of the images: batch, channels, height and width."""

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
        steps = at.to(F32) * samples + number.to(F32) - offset
        place = steps * (extent / whole) + low
        position = place - given(getattr(self, "input_pixel_offset", 0.5), F32)
        is_counted = number.to(F32) < samples
        is_there = is_counted & (position >= -1.0) & (position <= given(size, F32))
        return Sample(position, samples, is_there, is_counted, steps / whole)

    def down_and_across(
        self, number: list[Expr], at: tuple[Expr, Expr], numbers: tuple[Expr, Expr], counts: Sizes, sizes: Sizes
    ) -> tuple[Sample, Sample]:
        """The sample of such numbers of the element `at`, along the height and the width."""
        scales = (self.spatial_scale_y, self.spatial_scale_x)
        down, across = (
            self.sample((number[1 - k], number[3 - k]), scales[k], at[k], numbers[k], counts[k], sizes[k])
            for k in range(2)
        )
        return down, across

    def corners(self, position: Expr, size: int) -> list[tuple[Expr, Expr]]:
        """The elements that a sample is of, with the part of each: two, or the nearest, the earlier of two."""
        last = given(size - 1, F32)
        if not self.is_linear:
            return [(minimum(maximum(ceil(position - 0.5), 0.0), last).to(INT64), const(1.0, F32))]
        x = minimum(maximum(position, 0.0), last)
        low = floor(x)
        part, place = x - low, low.to(INT64)
        return [(place, 1.0 - part), (inside(place + 1, size), part)]

    def interpolated(self, kind: DataType, image: Expr, channel: Expr, down: Sample, across: Sample) -> Expr:
        """The value of the first source, the images, at a sample that is there."""
        height, width = self.image_sizes()[2:]
        lines = []
        for row, part in self.corners(down.position, height):
            found = [
                (wide(fetch(0, kind, [image, channel, row, column])), own)
                for column, own in self.corners(across.position, width)
            ]
            lines.append((_weighed(found), part))
        return _weighed(lines)


class _RoiAlign(Aligned):
    """Forward."""

    implies_output = False
    result_rank = 4
    if TYPE_CHECKING:
        output_tensor: Output
        out_of_bounds_input_value: Float

    def image_sizes(self) -> Sizes:
        """The input's."""
        return self.input_tensor.sizes

    def rules(self) -> Iterator[Fault]:
        """The tensors fit one another."""
        yield from self.region_rules()

    def output_rules(self) -> Iterator[Fault]:
        """The output has the regions and the channels."""
        yield from same_data_type(self, "OutputTensor", "InputTensor")
        wanted = (self.regions, *self.input_tensor.sizes[1:2], *self.output_tensor.sizes[2:])
        yield from exact_sizes(self, "OutputTensor", wanted, "{regions, channels, height, width}")

    def lower(self) -> tuple[Reduce]:
        """A reduce over the samples of each element."""
        x, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        (batch, _, height, width), (_, _, rows, columns) = x.sizes, target.sizes
        depth = (self.most_samples(height, rows), self.most_samples(width, columns))
        sizes, kind = (*target.sizes, *depth), x.data_type
        regions = [number_of("ROITensor", self.roi_tensor, k, sizes) for k in range(4)]
        images = number_of("BatchIndicesTensor", self.batch_indices_tensor, None, sizes)
        number = [wide(load(1 + k, kind)) for k in range(4)]
        image = nearest_image(load(5, self.batch_indices_tensor.data_type), batch)
        at, numbers = (coordinate(2), coordinate(3)), (coordinate(4), coordinate(5))
        down, across = self.down_and_across(number, at, numbers, (rows, columns), (height, width))
        is_there = down.is_there & across.is_there
        is_counted = down.is_counted & across.is_counted
        value = where(
            is_there,
            self.interpolated(kind, image, coordinate(1), down, across),
            given(self.out_of_bounds_input_value, F32),
        )
        if self.is_largest:
            total = fold("max", where(is_counted, value, const(LOWEST, F32)))
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
