"""ROI_POOLING, and what it shares with the other operators on regions of images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.enums import DataType
from anydml.errors import Fault
from anydml.ir.expressions import ceil, const, coordinate, fetch, floor, fold, given, load, maximum, minimum, where
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import Float, Input, Output, Size2D  # noqa: TC001 - read at run time
from anydml.operators.moved import at_least_1, temporary
from anydml.operators.rules import exact_sizes, same_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.tensor import TensorDesc

INT64, F32 = DataType.INT64, DataType.FLOAT32
LOWEST = float("-inf")


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
        number = self._number((regions, channels, height, pooled_width, width))
        first, last = self._part(3, 1, pooled_width, width)
        image = inside(self._element(0).to(INT64), batch)
        element = wide(fetch(0, kind, [image, coordinate(1), coordinate(2), coordinate(4)]))
        is_part = (coordinate(4) >= first) & (coordinate(4) < last)
        along = Reduce(
            (x, *number),
            by_row(columns, 1),
            fold("max", where(is_part, element, const(LOWEST, F32))),
            1,
            rows=(width,),
        )
        first, last = self._part(2, 2, pooled_height, height)
        begin, end = self._part(3, 1, pooled_width, width)
        number = self._number((*target.sizes, height))
        element = fetch(0, F32, [coordinate(0), coordinate(1), coordinate(4), coordinate(3)])
        is_part = (coordinate(4) >= first) & (coordinate(4) < last)
        largest = fold("max", where(is_part, element, const(LOWEST, F32)))
        value = where((first < last) & (begin < end), largest, const(0.0, F32))
        return along, Reduce((columns, *number), by_row(target, 1), value.to(kind), 1, rows=(height,))

    def _number(self, sizes: tuple[int, ...]) -> list[View]:
        return [number_of("ROITensor", self.roi_tensor, k, sizes) for k in range(5)]

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
