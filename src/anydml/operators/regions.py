"""Regions of images: ROI_POOLING, ROI_ALIGN and ROI_ALIGN1, and ROI_ALIGN_GRAD."""

from __future__ import annotations

import abc
import functools
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, InterpolationMode, ReduceFunction
from anydml.core.errors import DescriptionError, Fault
from anydml.ir.expressions import ceil, const, coordinate, fetch, floor, fma, fold, given, load, maximum, minimum, where
from anydml.ir.fetches import nearest
from anydml.ir.patterns import filled
from anydml.ir.verbs import Check, Map, Reduce
from anydml.ir.views import View
from anydml.operators.lowering import by_row, temporary, walked, wide
from anydml.operators.reductions import is_extreme
from anydml.operators.schema.fields import (
    Float,
    Input,
    Interpolation,
    OptionalInput,
    OptionalOutput,
    Output,
    Reduction,
    Size2D,
    Uint,
)
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import at_least_1, exact_sizes, fault, same_data_type, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import IndexFault, Primitive
    from anydml.operators.schema.sizes import Sizes


# ROI_POOLING, and what all share


INT64, UINT64, F32 = DataType.INT64, DataType.UINT64, DataType.FLOAT32
LOWEST = float("-inf")
_NAN = -(2**63)
"""What NaN is as the number of an image."""


def region_rules(field: str, tensor: TensorDesc, last: int | None) -> Iterator[Fault]:
    """Check that a tensor has a line of numbers for each region, and leading sizes of 1."""
    kept = 1 if last is None else 2
    rule = ""
    if any(size > 1 for size in tensor.sizes[:-kept]):
        last_ones = "two dimensions" if kept > 1 else "dimension"
        rule = f"{field}.Sizes must be 1 in all but the last {last_ones}"
    elif last is not None and tensor.sizes[-1] != last:
        rule = f"{field}.Sizes must end with {last}, the numbers of a region"
    if rule:
        yield Fault(field=f"{field}.Sizes", rule=rule, value=tensor.sizes, found=str(tensor.sizes))


def number_of(field: str, tensor: TensorDesc, place: int | None, sizes: tuple[int, ...], dimension: int = 0) -> View:
    """A number of each region in the sizes of a walk, in which regions are a dimension; with no place the only one."""
    view = View.of(field, tensor)
    by = view.strides[-1] if place is None else view.strides[-2]
    strides = tuple(by if k == dimension else 0 for k in range(len(sizes)))
    return View(field, view.data_type, sizes, strides, view.offset + (place or 0) * view.strides[-1])


def image_check(numbers: View, count: int) -> Check:
    """That each region's image is one of so many, by a view of a number for each region."""
    return Check(
        View(numbers.tensor, numbers.data_type, (*numbers.sizes, 1), (*numbers.strides, 0), numbers.offset), (count,)
    )


def word_image(fault: IndexFault, field: str, place: str, found: object) -> Fault:
    """Word the number of an image that is not there."""
    rule = f"{field}[{place}] = {found} is outside the {fault.size} images of InputTensor"
    return Fault(field=field, rule=rule, value=fault.indices, way_out=f"take 0 .. {fault.size - 1}")


def inside(index: Expr, size: int) -> Expr:
    """The nearest place that is there."""
    return minimum(maximum(index, 0), given(size - 1, INT64))


class RoiPooling(Computed):
    """The largest element of each part of each region of an image, a region being taken apart into PooledSize.

    ROITensor has the image's number, then the first column and row and the last ones, all but the number times
    SpatialScale and rounded, halves away from 0. PooledSize is the width, then the height. A part begins with the whole
    element that its first place is in, and ends with the one that its last is in; one with no element of the image is
    0. The image's number loses its fraction; one of an image that is not there is an error.
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

    def lower(self) -> tuple[Map | Reduce, ...]:
        """The number of each region's image; the largest of each part's columns, in every row, then of its rows."""
        x, target = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        (regions, channels, pooled_height, pooled_width), kind = target.sizes, x.data_type
        batch, _, height, width = x.sizes
        columns = temporary("columns", F32, (regions, channels, height, pooled_width))
        images = temporary("images", UINT64, (regions,))
        number = self._element(0, 0)
        # A Check counts negative numbers from the end: of 64 bits without a sign they are past every end, as NaN is.
        whole = where(number.equals(number), number.to(INT64), const(_NAN, INT64)).to(UINT64)
        find = Map((number_of("ROITensor", self.roi_tensor, 0, (regions,)),), images, whole)
        sizes = (regions, channels, height, pooled_width, width)
        regional = self._number(sizes)
        regional[0] = replace(images, sizes=sizes, strides=(1, 0, 0, 0, 0))
        first, last = self._part(3, 1, pooled_width, width)
        image = nearest(load(1, UINT64), batch)
        element = wide(fetch(0, kind, [image, coordinate(1), coordinate(2), coordinate(4)]))
        is_part = (coordinate(4) >= first) & (coordinate(4) < last)
        along = Reduce(
            (x, *regional),
            by_row(columns, 1),
            fold("max", where(is_part, element, const(LOWEST, F32))),
            1,
            rows=(width,),
            checks=(image_check(images, batch),),
        )
        first, last = self._part(2, 2, pooled_height, height)
        begin, end = self._part(3, 1, pooled_width, width)
        regional = self._number((*target.sizes, height))
        element = fetch(0, F32, [coordinate(0), coordinate(1), coordinate(4), coordinate(3)])
        is_part = (coordinate(4) >= first) & (coordinate(4) < last)
        largest = fold("max", where(is_part, element, const(LOWEST, F32)))
        value = where((first < last) & (begin < end), largest, const(0.0, F32))
        return find, along, Reduce((columns, *regional), by_row(target, 1), value.to(kind), 1, rows=(height,))

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the image by its place in ROITensor, as the number that it was."""
        (index,) = fault.indices
        signed = index - 2**64 if index >= 2**63 else index
        ends: dict[int, object] = {_NAN: "NaN, or below -2^63", 2**63 - 1: "a number above 2^63"}
        return word_image(fault, "ROITensor", f"{fault.position[0]}, 0", ends.get(signed, signed))

    def _number(self, sizes: tuple[int, ...]) -> list[View]:
        return [number_of("ROITensor", self.roi_tensor, k, sizes) for k in range(5)]

    def _element(self, place: int, first: int = 1) -> Expr:
        """A number of the region, whose numbers are the sources from the first on."""
        return wide(load(first + place, self.roi_tensor.data_type))

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


# ROI_ALIGN: regions, sampled between elements, each in the same sizes


F64 = DataType.FLOAT64


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
            yield fault("BatchIndicesTensor.Sizes", f"must end with {theirs}, one for each region of ROITensor", mine)
        function = ReduceFunction(self.reduction_function)
        if function not in self.choices["reduction_function"]:
            yield fault("ReductionFunction", "must be AVERAGE or MAX", function, function.name)
        least, most = self.minimum_samples_per_output, self.maximum_samples_per_output
        if not 1 <= least <= most:
            yield fault(
                "MinimumSamplesPerOutput",
                "must be at least 1, and at most MaximumSamplesPerOutput",
                (least, most),
                f"{least} and {most}",
            )

    @property
    def regions(self) -> int:
        """How many there are; 1 for a ROITensor of one dimension, which every level refuses."""
        return self.roi_tensor.sizes[-2] if self.roi_tensor.dimension_count > 1 else 1

    @abc.abstractmethod
    def image_sizes(self) -> Sizes:
        """The sizes of the images: batch, channels, height and width."""

    def image_check(self) -> Check:
        """That each region's image is there."""
        return image_check(
            number_of("BatchIndicesTensor", self.batch_indices_tensor, None, (self.regions,)), self.image_sizes()[0]
        )

    def word_outside(self, fault: IndexFault) -> Fault:
        """Name the image by its place in BatchIndicesTensor."""
        return word_image(fault, "BatchIndicesTensor", str(fault.position[0]), fault.indices[0])

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
        last = last_place(size)
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
        image = nearest(load(5, self.batch_indices_tensor.data_type), batch)
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
        sources, checks = (x, *regions, images), (self.image_check(),)
        return (Reduce(sources, by_row(target, 2), total.to(kind), 2, rows=depth, checks=checks),)


def last_place(size: int) -> Expr:
    """The last place of a dimension, or one before it: past 2^24 the nearest of FLOAT32 may be outside."""
    nearest = np.float32(size - 1)
    return given(float(nearest if nearest < size else np.nextafter(nearest, np.float32(0))), F32)


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
    element outside of the image the last goes on, and beyond that a sample is OutOfBoundsInputValue. The number of an
    image that is not there is an error.
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
    and beyond that a sample is OutOfBoundsInputValue. The number of an image that is not there is an error.
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


# ROI_ALIGN_GRAD: what the elements of aligned regions are worth to the images, and to the regions


class RoiAlignGrad(Aligned):
    """The gradients of ROI_ALIGN1 with respect to its images and to its regions.

    Each number is added to the elements that its samples are of, by their parts: with AVERAGE of all samples, over as
    many as there are, with MAX of the first of the largest, a sample more than one element outside of the image being
    0. The regions' gradient is that of where samples stand, their count being constant: it is 0 with NEAREST_NEIGHBOR,
    and so is the slope at an element itself, beyond the last one, and where a sample is outside. Sums are of FLOAT64.
    The number of an image that is not there is an error.

    At least one output must be given. InputTensor must be for MAX and for the regions' gradient; without it the sizes
    of OutputGradientTensor say those of the images. With MAX it takes time in proportion to the product of the sizes
    of InputGradientTensor's regions and of the images.
    """

    sizes_are_free = True
    typed_like = dict.fromkeys(
        ("InputTensor", "ROITensor", "OutputGradientTensor", "OutputROIGradientTensor"), "InputGradientTensor"
    )

    input_tensor: OptionalInput = None  # type: ignore[assignment]  # forward it is always there
    input_gradient_tensor: Input
    roi_tensor: Input
    batch_indices_tensor: Input
    output_gradient_tensor: OptionalOutput = None
    output_roi_gradient_tensor: OptionalOutput = None
    reduction_function: Reduction = ReduceFunction.AVERAGE
    interpolation_mode: Interpolation = InterpolationMode.LINEAR
    spatial_scale_x: Float = 1.0
    spatial_scale_y: Float = 1.0
    input_pixel_offset: Float = 0.5
    output_pixel_offset: Float = -0.5
    minimum_samples_per_output: Uint = 1
    maximum_samples_per_output: Uint = 2**32 - 1
    align_regions_to_corners: bool = False

    @classmethod
    @functools.cache
    def optional_outputs(cls) -> tuple[str, ...]:
        """The regions' gradient: functions give that of the images always, which a description may leave out too."""
        return ("output_roi_gradient_tensor",)

    def rules(self) -> Iterator[Fault]:
        """The tensors fit one another, and the input is there where it is read."""
        yield from self.region_rules()
        channels = self.input_gradient_tensor.sizes[1:2]
        if self.input_tensor is not None:
            yield from same_data_type(self, "InputGradientTensor", "InputTensor")
            channels = self.input_tensor.sizes[1:2]
        elif self.is_largest:
            rule = "InputTensor must be given for a ReductionFunction of MAX"
            yield Fault(field="InputTensor", rule=rule, found="none")
        elif self.output_roi_gradient_tensor is not None:
            rule = "InputTensor must be given for OutputROIGradientTensor"
            yield Fault(field="InputTensor", rule=rule, found="none")
        wanted = (self.regions, *channels, *self.input_gradient_tensor.sizes[2:])
        yield from exact_sizes(self, "InputGradientTensor", wanted, "{regions, channels, height, width}")

    def implied_output_sizes(self) -> Sizes:
        """The images'."""
        if self.input_tensor is None:
            rule = "Sizes must be given where InputTensor is not: they are those of the images"
            raise DescriptionError(self.type.name, Fault(field="Sizes", rule=rule, found="none"))
        return self.input_tensor.sizes

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """Like the images, and like the regions."""
        kind = self.input_gradient_tensor.data_type
        return TensorDesc(kind, self.implied_output_sizes()), TensorDesc(kind, self.roi_tensor.sizes)

    def output_rules(self) -> Iterator[Fault]:
        """There is an output, like the images or like the regions."""
        if not self.outputs():
            rule = "OutputGradientTensor or OutputROIGradientTensor must be given"
            yield Fault(field="OutputGradientTensor", rule=rule, found="none")
        if self.output_gradient_tensor is not None:
            yield from same_data_type(self, "OutputGradientTensor", "InputGradientTensor")
            if self.input_tensor is not None:
                yield from same_sizes(self, "OutputGradientTensor", "InputTensor")
            else:
                batch, *_ = sizes = self.output_gradient_tensor.sizes
                wanted = (batch, *self.input_gradient_tensor.sizes[1:2], *sizes[2:])
                yield from exact_sizes(self, "OutputGradientTensor", wanted, "{batch, channels, height, width}")
        if self.output_roi_gradient_tensor is not None:
            yield from same_data_type(self, "OutputROIGradientTensor", "InputGradientTensor")
            yield from same_sizes(self, "OutputROIGradientTensor", "ROITensor")

    def image_sizes(self) -> Sizes:
        """The input's, or where there is none those of its gradient."""
        tensor = self.output_gradient_tensor if self.input_tensor is None else self.input_tensor
        assert tensor is not None  # noqa: S101 - for type checkers: one of the two is there
        return tensor.sizes

    def lower(self) -> tuple[Primitive, ...]:
        """With MAX the sample of each number first, then each gradient."""
        found: list[Primitive] = [self._choice()] if self.is_largest else []
        if self.output_gradient_tensor is not None:
            target = View.of("OutputGradientTensor", self.output_gradient_tensor)
            found += [self._largest(target)] if self.is_largest else self._means(target)
        if self.output_roi_gradient_tensor is not None:
            found.append(self._of_regions(View.of("OutputROIGradientTensor", self.output_roi_gradient_tensor)))
        return (replace(found[0], checks=(self.image_check(),)), *found[1:])

    # What verbs read

    @property
    def _most(self) -> tuple[int, int]:
        """Samples of an element, down and across."""
        (height, width), (rows, columns) = self.image_sizes()[2:], self.input_gradient_tensor.sizes[2:]
        return self.most_samples(height, rows), self.most_samples(width, columns)

    def _gradient(self, sizes: Sizes, dimensions: dict[int, int]) -> View:
        return _spread(View.of("InputGradientTensor", self.input_gradient_tensor), sizes, dimensions)

    def _chosen(self) -> View:
        """The number of the sample that is the largest."""
        return temporary("chosen", INT64, self.input_gradient_tensor.sizes)

    def _images(self) -> View:
        assert self.input_tensor is not None  # noqa: S101 - for type checkers: a rule says so
        return View.of("InputTensor", self.input_tensor)

    def _numbers(self, sizes: Sizes, dimension: int) -> list[View]:
        """The four numbers of each region, and its image."""
        regions = [number_of("ROITensor", self.roi_tensor, k, sizes, dimension) for k in range(4)]
        return [*regions, number_of("BatchIndicesTensor", self.batch_indices_tensor, None, sizes, dimension)]

    def _element(self, slot: int) -> Expr:
        return wide(load(slot, self.input_gradient_tensor.data_type))

    def _image(self, slot: int) -> Expr:
        return nearest(load(slot, self.batch_indices_tensor.data_type), self.image_sizes()[0])

    def _sampled(self, first: int, at: tuple[Expr, Expr], numbers: tuple[Expr, Expr]) -> tuple[Sample, Sample]:
        """A sample, the regions' numbers being the sources from the first on."""
        number = [self._element(first + k) for k in range(4)]
        counts, sizes = self.input_gradient_tensor.sizes[2:], self.image_sizes()[2:]
        return self.down_and_across(number, at, numbers, counts, sizes)

    def _part(self, sample: Sample, size: int, place: Expr) -> Expr:
        """The part that the element at a place has in a sample."""
        total = const(0.0, F32)
        for corner, part in self.corners(sample.position, size):
            total = total + where(corner.equals(place), part, 0.0)
        return where(sample.is_there, total, 0.0)

    # The images' gradient

    def _means(self, target: View) -> list[Primitive]:
        """The share of each region's rows and columns in those of an image, and with these two sums of products."""
        (regions, channels, rows, columns), (_, _, height, width) = self.input_gradient_tensor.sizes, target.sizes
        down = temporary("down", F32, (regions, rows, height))
        across = temporary("across", F32, (regions, columns, width))
        spread = temporary("spread", F32, (regions, channels, rows, width))
        sizes = (*spread.sizes, columns)
        sources = self._gradient(sizes, {0: 0, 1: 1, 2: 2, 4: 3}), _spread(across, sizes, {0: 0, 4: 1, 3: 2})
        total = fold("sum", _weighted(self._element(0), load(1, F32)).to(F64))
        along = Reduce(sources, by_row(spread, 1), total.to(F32), 1)
        sizes = (*target.sizes, regions, rows)
        images = number_of("BatchIndicesTensor", self.batch_indices_tensor, None, sizes, 4)
        sources = _spread(spread, sizes, {4: 0, 1: 1, 5: 2, 3: 3}), _spread(down, sizes, {4: 0, 5: 1, 2: 2})
        is_own = self._image(2).equals(coordinate(0))
        total = fold("sum", where(is_own, _weighted(load(0, F32), load(1, F32)), 0.0).to(F64))
        whole = Reduce((*sources, images), by_row(target, 2), total.to(target.data_type), 2)
        return [self._parts(0, down), self._parts(1, across), along, whole]

    def _parts(self, axis: int, target: View) -> Reduce:
        """The share of each place of an image's dimension in each element of a region's."""
        _, count, size = target.sizes
        sizes = (*target.sizes, self._most[axis])
        sources = tuple(number_of("ROITensor", self.roi_tensor, k, sizes) for k in (1 - axis, 3 - axis))
        scale = (self.spatial_scale_y, self.spatial_scale_x)[axis]
        numbers = (self._element(0), self._element(1))
        sample = self.sample(numbers, scale, coordinate(1), coordinate(3), count, size)
        part = where(sample.is_there, self._part(sample, size, coordinate(2)) / sample.samples, 0.0)
        return Reduce(sources, by_row(target, 1), fold("sum", part.to(F64)).to(F32), 1)

    def _choice(self) -> Reduce:
        """The first of the largest samples of each number."""
        target = self._chosen()
        sizes = (*target.sizes, *self._most)
        down, across = self._sampled(1, (coordinate(2), coordinate(3)), (coordinate(4), coordinate(5)))
        x = self._images()
        value = self.interpolated(x.data_type, self._image(5), coordinate(1), down, across)
        value = where(down.is_there & across.is_there, value, 0.0)
        value = where(down.is_counted & across.is_counted, value, const(LOWEST, F32))
        last = given(self._most[0] * self._most[1] - 1, INT64)
        first = fold("min", where(is_extreme(value, "max"), self._number(coordinate(4), coordinate(5)), last))
        return Reduce((x, *self._numbers(sizes, 0)), by_row(target, 2), first, 2, rows=self._most)

    def _number(self, down: Expr, across: Expr) -> Expr:
        return down * given(self._most[1], INT64) + across

    def _largest(self, target: View) -> Reduce:
        """The sum of the numbers whose sample an element has a part in."""
        _, _, height, width = target.sizes
        sizes, dimensions = (
            (*target.sizes, *self.input_gradient_tensor.sizes[:1], *self.input_gradient_tensor.sizes[2:]),
            {4: 0, 1: 1, 5: 2, 6: 3},
        )
        number, across_count = load(1, INT64), given(self._most[1], INT64)
        down, across = self._sampled(2, (coordinate(5), coordinate(6)), (number / across_count, number % across_count))
        part = self._part(down, height, coordinate(2)) * self._part(across, width, coordinate(3))
        is_own = self._image(6).equals(coordinate(0))
        total = fold("sum", where(is_own, _weighted(self._element(0), part), 0.0).to(F64))
        sources = (self._gradient(sizes, dimensions), _spread(self._chosen(), sizes, dimensions))
        return Reduce((*sources, *self._numbers(sizes, 4)), by_row(target, 3), total.to(target.data_type), 3)

    # The regions' gradient

    def _of_regions(self, target: View) -> Primitive:
        """A sum over samples, for each of the four numbers: how each moves them, times the slope where they stand."""
        if not self.is_linear:
            return filled(target, 0)
        regions, channels, rows, columns = self.input_gradient_tensor.sizes
        sizes, dimensions = (regions, 4, channels, rows, columns, *self._most), {0: 0, 2: 1, 3: 2, 4: 3}
        x = self._images()
        down, across = self._sampled(2, (coordinate(3), coordinate(4)), (coordinate(5), coordinate(6)))
        is_row, is_last = (coordinate(1) % 2).equals(1), coordinate(1) >= 2
        along = where(is_row, down.along, across.along)
        scale = where(is_row, given(self.spatial_scale_y, F32), given(self.spatial_scale_x, F32))
        moved = where(is_last, along, 1.0 - along) * scale
        slopes = [self._slope(x, by, down, across) for by in range(2)]
        one = self._element(1) * where(is_row, slopes[0], slopes[1]) * moved
        is_there = down.is_there & across.is_there
        sources = [x, self._gradient(sizes, dimensions), *self._numbers(sizes, 0)]
        if self.is_largest:
            is_there = is_there & self._number(coordinate(5), coordinate(6)).equals(load(7, INT64))
            sources.append(_spread(self._chosen(), sizes, dimensions))
        else:
            one = one / (down.samples * across.samples)
        total = fold("sum", where(is_there, one, 0.0).to(F64)).to(target.data_type)
        ending = walked(target, (regions, 4, *(1,) * 5), (*target.strides[-2:], *(0,) * 5))
        return Reduce(tuple(sources), ending, total, 5, rows=sizes[2:])

    def _slope(self, x: View, by: int, down: Sample, across: Sample) -> Expr:
        """By how much an image rises at a sample, from the element before to the one after."""
        ends, sizes = [], x.sizes[2:]
        own, other = (down, across) if by == 0 else (across, down)
        place = minimum(maximum(own.position, 0.0), last_place(sizes[by]))
        for end in (floor(place).to(INT64), ceil(place).to(INT64)):
            total = const(0.0, F32)
            for corner, part in self.corners(other.position, sizes[1 - by]):
                at = [end, corner] if by == 0 else [corner, end]
                total = total + wide(fetch(0, x.data_type, [self._image(6), coordinate(2), *at])) * part
            ends.append(total)
        return ends[1] - ends[0]


def _spread(view: View, sizes: Sizes, dimensions: dict[int, int]) -> View:
    """A view in the sizes of a walk, which has some of its dimensions; along the others it repeats."""
    return walked(view, sizes, tuple(view.strides[dimensions[k]] if k in dimensions else 0 for k in range(len(sizes))))


def _weighted(number: Expr, part: Expr) -> Expr:
    """A product that is 0 where the part is: an infinity goes nowhere else."""
    return where(part.equals(0.0), const(0.0, F32), number * part)
