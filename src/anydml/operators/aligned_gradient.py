"""ROI_ALIGN_GRAD: what the elements of aligned regions are worth to the images, and to the regions."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import InterpolationMode, ReduceFunction
from anydml.errors import DescriptionError, Fault
from anydml.ir.expressions import ceil, const, coordinate, fetch, floor, fold, given, load, maximum, minimum, where
from anydml.ir.fetches import nearest
from anydml.ir.patterns import filled
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.operators.aligned import F32, F64, INT64, Aligned
from anydml.operators.computed import wide
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    Float,
    Input,
    Interpolation,
    OptionalInput,
    OptionalOutput,
    Reduction,
    Uint,
)
from anydml.operators.margins import walked
from anydml.operators.moved import temporary
from anydml.operators.reductions import is_extreme
from anydml.operators.regions import LOWEST, by_row, number_of
from anydml.operators.rules import exact_sizes, same_data_type, same_sizes
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.operators.aligned import Sample
    from anydml.operators.sizes import Sizes


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
        place = minimum(maximum(own.position, 0.0), given(sizes[by] - 1, F32))
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
