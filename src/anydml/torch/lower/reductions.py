"""Sums, means, extremes, running sums and orders along dimensions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, axis_of, cast, dml
from anydml.torch.lower.elementwise import truth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F16, F32 = DataType.FLOAT16, DataType.FLOAT32


def axes_of(x: Expression, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that are folded: all, where none is named."""
    rank = len(x.sizes)
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    several = dim if isinstance(dim, (list, tuple)) else (dim,)
    return tuple(sorted({axis_of(x, one) for one in several})) if rank else ()


def _sum(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    kind = context.data_type()
    if not kind.is_float and kind is not DataType.INT64:
        raise context.refuse("a sum in few bits")
    x = cast(x, kind)
    return dml.sum(x, axes_of(x, dim), keepdim)


def _mean(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = cast(x, context.data_type())
    return dml.average(x, axes_of(x, dim), keepdim)


def _product(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    kind = context.data_type()
    if not kind.is_float and kind is not DataType.INT64:
        raise context.refuse("a product in few bits")
    x = cast(x, kind)
    return dml.prod(x, axes_of(x, dim), keepdim)


def _extreme(function: Callable[..., Any]) -> Lowering:
    def lower(_: Context, x: Expression, dim: Any = None, keepdim: bool = False) -> Any:
        return function(x, axes_of(x, dim), keepdim)

    return lower


def _truths(function: Callable[..., Any]) -> Lowering:
    def lower(context: Context, x: Expression, dim: Any = None, keepdim: bool = False) -> Any:
        found = x if context.is_boolean() else truth(x)
        return function(found, axes_of(x, dim), keepdim)

    return lower


def _place(function: Callable[..., Any]) -> Lowering:
    """The place of an extreme: of equal ones the first."""

    def lower(context: Context, x: Expression, dim: int | None = None, *_: Any) -> Any:
        if not x.sizes:
            return context.full(0, DataType.INT64, ())
        if dim is None:
            x, axis = dml.reshape(x, (-1,)), 0
        else:
            axis = axis_of(x, dim)
        found = cast(function(x, axis), DataType.INT64)
        return dml.reshape(found, context.sizes())

    return lower


def _with_place(extreme: Callable[..., Any], place: Callable[..., Any]) -> Lowering:
    def lower(context: Context, x: Expression, dim: int, keepdim: bool = False) -> Any:
        if not x.sizes:
            return x, context.full(0, DataType.INT64, ())
        axis = axis_of(x, dim)
        places = cast(place(x, axis), DataType.INT64) if context.is_read(1) else None
        return extreme(x, axis, keepdim), None if places is None else dml.reshape(places, context.sizes(1))

    return lower


def _moments(x: Expression, axes: tuple[int, ...], correction: Any) -> tuple[Any, Any]:
    """The mean, and the variance with a correction of the count; both keep their dimensions."""
    count = math.prod(x.sizes[k] for k in axes)
    middle = dml.average(x, axes, keepdims=True)
    square = dml.average(dml.difference_square(x, middle), axes, keepdims=True)
    if correction:
        square = dml.multiply(square, count / (count - correction))
    return middle, square


def _variance(context: Context, x: Expression, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    axes = axes_of(x, dim)
    correction = 1 if correction is None else correction
    if not axes or math.prod(x.sizes[k] for k in axes) <= correction:
        raise context.refuse("the variance of too few elements")
    middle, square = _moments(cast(x, F32), axes, correction)
    if not keepdim:
        middle, square = dml.squeeze(middle, axes), dml.squeeze(square, axes)
    return square, middle


def _var(context: Context, x: Expression, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return cast(_variance(context, x, dim, correction, keepdim)[0], context.data_type())


def _std(context: Context, x: Expression, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return cast(dml.sqrt(_variance(context, x, dim, correction, keepdim)[0]), context.data_type())


def _var_mean(
    context: Context, x: Expression, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    found = _variance(context, x, dim, correction, keepdim)
    return tuple(cast(one, context.data_type(0)) for one in found)


def _running(function: Callable[..., Any]) -> Lowering:
    def lower(context: Context, x: Expression, dim: int, **_: Any) -> Any:
        x = cast(x, context.data_type())
        return function(x, axis_of(x, dim)) if x.sizes else x

    return lower


def _softmax(function: Callable[..., Any]) -> Lowering:
    def lower(context: Context, x: Expression, dim: int, half_to_float: bool = False) -> Any:
        if half_to_float:
            x = cast(x, F32)
        if not x.sizes:
            return context.full(1 if function is dml.softmax1 else 0, context.data_type(), ())
        return function(x, [axis_of(x, dim)])

    return lower


def _safe_softmax(context: Context, x: Expression, dim: int, *_: Any) -> Any:
    """A softmax that is 0 where all of a row is masked."""
    axis = axis_of(x, dim)
    is_masked = dml.logical_equals(dml.amax(x, axis, keepdims=True), -math.inf)
    return dml.if_(is_masked, cast(0, context.data_type()), dml.softmax1(x, [axis]))


def _top(context: Context, x: Expression, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    del is_sorted  # which leaves the order to the implementation
    if not x.sizes:
        return x, context.full(0, DataType.INT64, ())
    return _by_order(context, x, axis_of(x, dim), k, largest)


def _sort(context: Context, x: Expression, dim: int = -1, descending: bool = False) -> Any:
    if not x.sizes:
        return x, context.full(0, DataType.INT64, ())
    axis = axis_of(x, dim)
    return _by_order(context, x, axis, x.sizes[axis], descending)


def _sort_stable(
    context: Context, x: Expression, *, stable: Any = None, dim: int = -1, descending: bool = False
) -> Any:
    del stable  # the order of equal elements is kept always
    return _sort(context, x, dim, descending)


def _by_order(context: Context, x: Expression, axis: int, count: Any, is_decreasing: bool) -> Any:
    if x.data_type.is_float:
        raise context.refuse("an order of floats, in which NaN has a place")
    found = dml.top_k1(x, axis, count, "decreasing" if is_decreasing else "increasing")
    return found[0], cast(found[1], DataType.INT64)


LOWERINGS: dict[str, Lowering] = {
    **{f"sum.{kind}": _sum for kind in ("default", "dim_IntList")},
    **{f"mean.{kind}": _mean for kind in ("default", "dim")},
    **{f"prod.{kind}": _product for kind in ("default", "dim_int")},
    **{f"any.{kind}": _truths(dml.amax) for kind in ("default", "dim", "dims")},
    **{f"all.{kind}": _truths(dml.amin) for kind in ("default", "dim", "dims")},
    "amax.default": _extreme(dml.amax),
    "amin.default": _extreme(dml.amin),
    "max.default": _extreme(dml.amax),
    "min.default": _extreme(dml.amin),
    "max.dim": _with_place(dml.amax, dml.argmax),
    "min.dim": _with_place(dml.amin, dml.argmin),
    "argmax.default": _place(dml.argmax),
    "argmin.default": _place(dml.argmin),
    "var.correction": _var,
    "std.correction": _std,
    "var_mean.correction": _var_mean,
    "cumsum.default": _running(dml.cumulative_summation),
    "cumprod.default": _running(dml.cumulative_product),
    "_softmax.default": _softmax(dml.softmax1),
    "_log_softmax.default": _softmax(dml.log_softmax1),
    "_safe_softmax.default": _safe_softmax,
    "topk.default": _top,
    "sort.default": _sort,
    "sort.stable": _sort_stable,
}
