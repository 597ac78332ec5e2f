"""The operators that quantise element by element, with scales and zero points, or find them out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from anydml.enums import DataType
from anydml.ir.expressions import const, fold, load, maximum, minimum, rint, where
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View
from anydml.operators.computed import Computed
from anydml.operators.elementwise import ElementWise, type_of
from anydml.operators.fields import Input, OptionalInput, Output  # noqa: TC001 - read at run time
from anydml.operators.rules import exact_sizes, same_data_type, same_dimension_count, same_sizes
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.errors import Fault
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

F32 = DataType.FLOAT32
_LONGEST = 2**31 // 255**2
"""The products of differences of bytes that an INT32 can sum up, whatever they are: 33,025."""


def sum_type(count: int) -> DataType:
    """The type that holds the sum of so many products of differences of bytes."""
    return DataType.INT32 if count <= _LONGEST else DataType.INT64


def quantised(x: Expr, zero_point: Expr | None) -> Expr:
    """A scaled number of FLOAT32 rounded, halves to even, plus the zero point: its conversion takes the nearest end."""
    return rint(x) if zero_point is None else rint(x) + zero_point.to(type_of(x))


def difference(x: Expr, zero_point: Expr | None, data_type: DataType) -> Expr:
    """An integer less its zero point, in a type that has all of them."""
    return x.to(data_type) if zero_point is None else x.to(data_type) - zero_point.to(data_type)


def dequantised(x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
    """(x - z)·s, of which the difference is exact."""
    kind = DataType.INT32 if type_of(x).size_in_bytes < 4 else DataType.INT64
    return difference(x, zero_point, kind).to(F32) * scale


class ElementWiseQuantizeLinear(ElementWise):
    """Quantises: round(x/scale) + zero_point, halves to even; what lies outside the range takes its nearest end.

    Without a zero point, which may be left out from 6_2 on, it is 0, and the result UINT8 unless `out` says INT8.
    """

    result_type = None
    typed_like = {"ScaleTensor": "InputTensor", "OutputTensor": "ZeroPointTensor"}  # noqa: RUF012 - nobody writes to it

    input_tensor: Input
    scale_tensor: Input
    zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """The inputs are alike, but the scales of integers are of FLOAT32."""
        kind, own = self.input_tensor.data_type, self.scale_tensor.data_type
        for fault in super().rules():
            if fault.field != "ScaleTensor.DataType" or kind.is_float:
                yield fault
            elif own is not F32:
                yield replace(fault, rule=f"ScaleTensor.DataType must be FLOAT32 with an InputTensor of {kind.name}")

    def value(self, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
        """round(x/scale) + zero_point."""
        return quantised(x.to(F32) / scale, zero_point)


class ElementWiseDequantizeLinear(ElementWise):
    """Numbers of what was quantised: (x - zero_point)·scale. The zero point may be left out from 6_2 on."""

    input_tensor: Input
    scale_tensor: Input
    zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def value(self, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
        """(x - zero_point)·scale."""
        return dequantised(x, scale, zero_point)


class ElementWiseQuantizedLinearAdd(ElementWise):
    """The sum of quantised numbers, quantised: round(((a - za)·sa + (b - zb)·sb)/s) + z, halves to even.

    What lies outside the type's range takes its nearest end. Scales and zero points have the sizes of A and B, or 1.
    """

    result_type = None
    repeated = tuple(f"{x}{what}Tensor" for x in ("A", "B", "Output") for what in ("Scale", "ZeroPoint"))
    typed_like = {  # noqa: RUF012 - a table that nobody writes to
        "AZeroPointTensor": "ATensor",
        "BZeroPointTensor": "BTensor",
        "OutputTensor": "OutputZeroPointTensor",
    }

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def implied_output_type(self) -> DataType:
        """The output's zero point's, or A's."""
        return (self.output_zero_point_tensor or self.a_tensor).data_type

    def value(
        self,
        a: Expr,
        a_scale: Expr,
        za: Expr | None,
        b: Expr,
        b_scale: Expr,
        zb: Expr | None,
        scale: Expr,
        z: Expr | None,
    ) -> Expr:
        """round(((a - za)·sa + (b - zb)·sb)/s) + z."""
        total = dequantised(a, a_scale, za) + dequantised(b, b_scale, zb)
        return quantised(total / scale, z)


class DynamicQuantizeLinear(Computed):
    """Quantises to the range that the numbers have: round(x/scale) + zero_point, and the scale and the zero point.

    The scale is the range, 0 included, over 255, and 1 where all numbers are 0; the zero point is what 0 becomes,
    rounded. The result is UINT8 unless `out` says INT8.
    """

    result_type = None

    input_tensor: Input
    output_tensor: Output
    output_scale_tensor: Output
    output_zero_point_tensor: Output

    def rules(self) -> Iterator[Fault]:
        """An input alone is what its level takes."""
        return iter(())

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """Bytes of the input's sizes, and a scale and a zero point of one element."""
        own, one = self.output_tensor.data_type, (1,) * self.input_tensor.dimension_count
        kind = DataType.UINT8 if own.is_float else own
        return TensorDesc(kind, self.input_tensor.sizes), TensorDesc(F32, one), TensorDesc(kind, one)

    def output_rules(self) -> Iterator[Fault]:
        """The output has the input's sizes, and the others have one element."""
        yield from same_sizes(self, "OutputTensor", "InputTensor")
        yield from same_data_type(self, "OutputZeroPointTensor", "OutputTensor")
        for field in ("OutputScaleTensor", "OutputZeroPointTensor"):
            counts = list(same_dimension_count(self, field, "InputTensor"))
            yield from counts or exact_sizes(self, field, (1,) * self.input_tensor.dimension_count, "one element")

    def lower(self) -> tuple[Primitive, ...]:
        """The range, then the zero point, then a map."""
        x, y = View.of("InputTensor", self.input_tensor), View.of("OutputTensor", self.output_tensor)
        scale_of = View.of("OutputScaleTensor", self.output_scale_tensor)
        zero_of = View.of("OutputZeroPointTensor", self.output_zero_point_tensor)
        limits, depth = np.iinfo(y.data_type.dtype), len(x.sizes)
        number = load(0, x.data_type).to(F32)
        low = minimum(fold("min", number), 0)
        extent = maximum(fold("max", number), 0) - low
        scale = where(extent.equals(0), const(1, F32), extent / 255)
        zero_point = rint(int(limits.min) - low / load(1, F32))
        scales, zeros = (View(view.tensor, view.data_type, x.sizes, (0,) * depth) for view in (scale_of, zero_of))
        value = quantised(number / load(1, F32), load(2, y.data_type))
        return (
            Reduce((x,), scale_of, scale, depth),
            Reduce((x, scales), zero_of, zero_point.to(y.data_type), depth),
            Map((x, scales, zeros), y, value.to(y.data_type)),
        )
