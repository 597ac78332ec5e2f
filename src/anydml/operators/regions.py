"""ROI_POOLING, and what it shares with the other operators on regions of images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.errors import Fault
from anydml.ir.expressions import ceil, const, coordinate, fetch, floor, fold, given, load, maximum, minimum, where
from anydml.ir.fetches import nearest
from anydml.ir.verbs import Check, Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import Float, Input, Output, Size2D  # noqa: TC001 - read at run time
from anydml.operators.moved import at_least_1, temporary
from anydml.operators.rules import exact_sizes, same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import IndexFault
    from anydml.tensor import TensorDesc

INT64, UINT64, F32 = DataType.INT64, DataType.UINT64, DataType.FLOAT32
LOWEST = float("-inf")
_NAN = -(2**63)
"""What NaN is as the number of an image."""


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
