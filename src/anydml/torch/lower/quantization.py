"""Quantised numbers: QUANTIZE and DEQUANTIZE as PyTorch's exported graphs have them, and products of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, axis_of, cast, dml
from anydml.torch.lower.movement import reshaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32 = DataType.FLOAT32


def _quantized(context: Context, x: Expression, factor: Any, zero_point: Any, low: int, high: int) -> Any:
    """round(x·factor) + zero point, within a range. PyTorch multiplies by 1/scale: QUANTIZE_LINEAR, which divides by
    the scale, is one step off where that ends at a half.
    """
    found = dml.add(dml.round(dml.multiply(cast(x, F32), factor)), zero_point)
    return cast(dml.clip1(found, float(low), float(high)), context.data_type())


def _quantize(context: Context, x: Expression, scale: Any, zero_point: Any, low: Any, high: Any, *_: Any) -> Any:
    if not isinstance(low, int) or not isinstance(high, int):
        raise context.refuse("a range that depends on data")
    if isinstance(scale, dml.Expression):
        scale, zero_point = (reshaped(cast(one, F32), (1,) * len(x.sizes)) for one in (scale, zero_point))
        return _quantized(context, x, dml.recip(scale), zero_point, low, high)
    return _quantized(context, x, 1.0 / scale, float(zero_point), low, high)


def _along(x: Expression, several: Expression, axis: int) -> Any:
    """A number for each place along an axis."""
    sizes = [1] * len(x.sizes)
    sizes[axis_of(x, axis)] = several.sizes[0]
    return reshaped(several, sizes)


def _quantize_channels(
    context: Context, x: Expression, scales: Expression, zero_points: Expression, axis: int, low: int, high: int, _: Any
) -> Any:
    factors, zeros = (_along(x, cast(one, F32), axis) for one in (scales, zero_points))
    return _quantized(context, x, dml.recip(factors), zeros, low, high)


def _dequantized(context: Context, x: Expression, scale: Expression, zero_point: Expression | None) -> Any:
    more = () if zero_point is None else (cast(zero_point, x.data_type),)
    return cast(dml.dequantize_linear(x, cast(scale, F32), *more), context.data_type())


def _dequantize(context: Context, x: Expression, scale: Any, zero_point: Any, *_: Any, **__: Any) -> Any:
    if isinstance(scale, dml.Expression):
        scale, zero_point = (reshaped(one, (1,) * len(x.sizes)) for one in (scale, zero_point))
    else:
        if not -(2**31) <= zero_point < 2**31 or not (x.data_type.limits[0] <= zero_point <= x.data_type.limits[1]):
            raise context.refuse("a zero point outside of the numbers")
        scale, zero_point = context.constant(scale, F32), context.constant(zero_point, x.data_type)
    return _dequantized(context, x, scale, zero_point)


def _dequantize_channels(
    context: Context, x: Expression, scales: Expression, zero_points: Expression | None, axis: int, *_: Any, **__: Any
) -> Any:
    zeros = None if zero_points is None else _along(x, zero_points, axis)
    return _dequantized(context, x, _along(x, scales, axis), zeros)


def _product_of_bytes(_: Context, a: Expression, b: Expression) -> Any:
    return dml.matrix_multiply_integer(a, b)


def _product_by_bytes(context: Context, x: Expression, weight: Expression, scales: Expression) -> Any:
    """Rows by weights of 8 bits, with a scale for each column: a product reads those as they lie."""
    kind = context.data_type()
    weights = dml.dequantize_linear(weight, _along(weight, cast(scales, F32), 0))
    return cast(dml.gemm(cast(x, F32), dml.transpose(weights, (1, 0))), kind)


_DECOMPOSED: dict[str, Lowering] = {
    **{f"quantize_per_tensor.{kind}": _quantize for kind in ("default", "tensor")},
    **{f"dequantize_per_tensor.{kind}": _dequantize for kind in ("default", "tensor")},
    "quantize_per_channel.default": _quantize_channels,
    "dequantize_per_channel.default": _dequantize_channels,
}
LOWERINGS: dict[str, Lowering] = {
    **{f"quantized_decomposed.{name}": lowering for name, lowering in _DECOMPOSED.items()},
    "_int_mm.default": _product_of_bytes,
    "_weight_int8pack_mm.default": _product_by_bytes,
}
