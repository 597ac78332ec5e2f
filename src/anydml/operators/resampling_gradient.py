"""RESAMPLE_GRAD and RESAMPLE_GRAD1: what the elements of a resampled tensor are worth to those it was made of."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from anydml.enums import AxisDirection, InterpolationMode
from anydml.ir.expressions import const, coordinate, fetch, floor, fold, given, maximum, minimum, where
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed, wide
from anydml.operators.fields import Direction, FloatArray, Input, Interpolation, Output  # noqa: TC001 - read at run time
from anydml.operators.moved import temporary
from anydml.operators.resampled import with_size
from anydml.operators.resampling import scale_rules
from anydml.operators.rules import same_data_type, same_dimension_count, values_for_each
from anydml.operators.sampling import F32, F64, INT64, Axis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.errors import Fault
    from anydml.ir.expressions import Expr


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
        by_row = replace(target, sizes=(*target.sizes, 1), strides=(*target.strides, 0))
        return Reduce((source,), by_row, total.to(target.data_type), 1, rows=(_most(axis),))


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

    input_gradient_tensor: Input
    output_gradient_tensor: Output
    interpolation_mode: Interpolation = InterpolationMode.NEAREST_NEIGHBOR
    rounding_direction: Direction = AxisDirection.INCREASING
    scales: FloatArray
    input_pixel_offsets: FloatArray
    output_pixel_offsets: FloatArray
