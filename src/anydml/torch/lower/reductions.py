"""Sums, means, extremes, running sums and orders along dimensions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.torch.lower.context import MOST_DIMENSIONS, Context, axis_of, cast, dml
from anydml.torch.lower.elementwise import truth
from anydml.torch.lower.movement import window
from anydml.torch.lower.scatter import MOST_LOOKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F16, F32, INT64 = DataType.FLOAT16, DataType.FLOAT32, DataType.INT64


def axes_of(x: Expression, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that are folded: all, where none is named."""
    rank = len(x.sizes)
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(rank))
    several = dim if isinstance(dim, (list, tuple)) else (dim,)
    return tuple(sorted({axis_of(x, one) for one in several})) if rank else ()


def _wide(context: Context) -> DataType:
    """The type to fold in: integers of few bits wrap alike in many."""
    kind = context.data_type()
    if str(context.dtype()) == "torch.bool":
        raise context.refuse("a fold of truths")
    return kind if kind.is_float else INT64


def _sum(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = cast(x, _wide(context))
    return cast(dml.sum(x, axes_of(x, dim), keepdim), context.data_type())


def _mean(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = cast(x, context.data_type())
    return dml.average(x, axes_of(x, dim), keepdim)


def _product(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    x = cast(x, _wide(context))
    return cast(dml.prod(x, axes_of(x, dim), keepdim), context.data_type())


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
    return _by_order(x, axis_of(x, dim), k, largest)


def _sort(context: Context, x: Expression, dim: int = -1, descending: bool = False) -> Any:
    if not x.sizes:
        return x, context.full(0, DataType.INT64, ())
    axis = axis_of(x, dim)
    return _by_order(x, axis, x.sizes[axis], descending)


def _sort_stable(
    context: Context, x: Expression, *, stable: Any = None, dim: int = -1, descending: bool = False
) -> Any:
    del stable  # the order of equal elements is kept always
    return _sort(context, x, dim, descending)


def _by_order(x: Expression, axis: int, count: Any, is_decreasing: bool) -> Any:
    found = dml.top_k1(x, axis, count, "decreasing" if is_decreasing else "increasing")
    return found[0], cast(found[1], DataType.INT64)


def _kth(context: Context, x: Expression, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    del keepdim  # which is in the sizes of the result
    if not x.sizes:
        return x, context.full(0, INT64, ())
    axis = axis_of(x, dim)
    found = dml.top_k1(x, axis, k, "increasing")
    return tuple(
        dml.reshape(window(cast(one, context.data_type(j)), axis, k - 1, 1), context.sizes(j))
        for j, one in enumerate(found)
    )


def _middle(*, ignores: bool) -> Lowering:
    """The median along a dimension, of two in the middle the lower: NaN where there is one, or of the numbers alone."""

    def lower(context: Context, x: Expression, dim: int | None = None, keepdim: bool = False) -> Any:
        del keepdim
        several = isinstance(context.node.meta["val"], (list, tuple))
        if dim is None:
            x, axis = dml.reshape(x, (-1,)), 0
        else:
            x = x if x.sizes else dml.reshape(x, (1,))
            axis = axis_of(x, dim)
        count, is_float = x.sizes[axis], x.data_type.is_float
        values, places = dml.top_k1(x, axis, count, "increasing")
        places = cast(places, INT64)
        missing = dml.sum(cast(dml.is_nan(x), INT64), (axis,), True) if is_float else None
        sizes = [1 if k == axis else size for k, size in enumerate(x.sizes)]
        middle = context.full((count - 1) // 2, INT64, sizes)
        if missing is not None and ignores:
            left = dml.subtract(dml.subtract(cast(count, INT64), missing), 1)
            left = dml.max(left, context.constant(0, INT64))
            middle = dml.divide(dml.subtract(left, dml.modulus_floor(left, 2)), 2)
        elif missing is not None:  # NaN comes last, and the first of several before the others
            first = dml.subtract(cast(count, INT64), missing)
            middle = dml.if_(dml.logical_greater_than(missing, 0), first, middle)
        found = [dml.gather_elements(one, middle, axis) for one in (values, places)]
        if not several:
            return dml.reshape(found[0], context.sizes())
        return tuple(dml.reshape(one, context.sizes(k)) for k, one in enumerate(found))

    return lower


def _running_extreme(*, largest: bool) -> Lowering:
    """The extreme of each element and those before it, and its last place: NaN is beyond all numbers."""

    def lower(context: Context, x: Expression, dim: int) -> Any:
        if not x.sizes:
            return x, context.full(0, INT64, ())
        axis, rank = axis_of(x, dim), len(x.sizes)
        count = x.sizes[axis]
        if rank == MOST_DIMENSIONS or math.prod(x.sizes) * count > MOST_LOOKS:
            raise context.refuse("a running extreme of many elements")
        order = [*(k for k in range(rank) if k != axis), axis]
        rows = dml.reshape(dml.transpose(x, order), (-1, 1, count))
        number = dml.fill_value_sequence((count,), 0, 1, INT64, graph=context.graph)
        own, other = dml.reshape(number, (1, count, 1)), dml.reshape(number, (1, 1, count))
        is_before = dml.logical_less_than_or_equal(other, own)
        # The last place of the extreme before each: the largest number of those that equal it.
        kind = x.data_type
        worst = context.full(_worst(kind, largest=largest), kind, (1, 1, 1))
        seen = dml.if_(is_before, rows, worst)
        extreme = (dml.amax if largest else dml.amin)(seen, (2,), True)
        is_it = dml.logical_equals(rows, extreme)
        if kind.is_float:
            is_it = dml.if_(dml.is_nan(extreme), dml.is_nan(rows), is_it)
        places = dml.amax(dml.if_(dml.logical_and(is_before, is_it), other, 0), (2,))
        back = [order.index(k) for k in range(rank)]
        sizes = [x.sizes[k] for k in order]
        return tuple(dml.transpose(dml.reshape(one, sizes), back) for one in (extreme, places))

    return lower


def _worst(kind: DataType, *, largest: bool) -> float:
    if kind.is_float:
        return -math.inf if largest else math.inf
    limits = np.iinfo(kind.dtype)
    return int(limits.min if largest else limits.max)


def _search(
    context: Context,
    ordered: Expression,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Expression | None = None,
) -> Any:
    """Where values belong among sorted ones: how many do not reach them, or with `right` do not pass them."""
    del out_int32  # which is in the type of the result
    right = right or side == "right"
    count = ordered.sizes[-1]
    if sorter is not None:
        ordered = dml.gather_elements(ordered, sorter, len(ordered.sizes) - 1)
    kind = ordered.data_type
    sizes = context.sizes()
    if not isinstance(values, dml.Expression):
        values = context.constant(values, kind)
    if values.data_type is not kind:
        raise context.refuse("a search among values of another type")
    batch = math.prod(ordered.sizes[:-1])
    wanted = dml.reshape(values, (batch, -1, 1))
    if math.prod(wanted.sizes) * count > MOST_LOOKS:
        raise context.refuse("a search for many among many")
    among = dml.reshape(ordered, (batch, 1, count))
    reaches = (dml.logical_greater_than if right else dml.logical_greater_than_or_equal)(among, wanted)
    found = dml.sum(cast(dml.logical_not(reaches), INT64), (2,))
    return dml.reshape(cast(found, context.data_type()), sizes)


def _bucket(
    context: Context, values: Any, boundaries: Expression, *, out_int32: bool = False, right: bool = False
) -> Any:
    return _search(context, boundaries, values, out_int32=out_int32, right=right)


def _distances(context: Context, a: Expression, b: Expression, p: float, _mode: int | None = None) -> Any:
    """Norms of the differences of all pairs of rows."""
    rank = len(a.sizes)
    if rank == MOST_DIMENSIONS:
        raise context.refuse("distances of rows in as many dimensions")
    apart = dml.abs(dml.subtract(dml.expand_dims(a, rank - 1), dml.expand_dims(b, rank - 2)))
    axis = (rank,)
    if p == 0:
        return cast(dml.sum(cast(truth(apart), F32), axis), context.data_type())
    if math.isinf(p):
        return dml.amax(apart, axis)
    if p == 1:
        return dml.sum(apart, axis)
    if p == 2:
        return dml.sqrt(dml.sum(dml.multiply(apart, apart), axis))
    return dml.constant_pow(dml.sum(dml.constant_pow(apart, p), axis), 1 / p)


def _distances_gradient(
    context: Context, grad: Expression, a: Expression, b: Expression, p: float, found: Expression
) -> Any:
    """Of rows: the sum over their pairs of the norm's derivative, which is 0 where rows are equal."""
    rank = len(a.sizes)
    if rank == MOST_DIMENSIONS:
        raise context.refuse("distances of rows in as many dimensions")
    if p == 0:
        return context.full(0, context.data_type(), context.sizes())
    return dml.reshape(_norm_gradient(grad, a, b, p, found), context.sizes())


def _pair_distances(context: Context, x: Expression, p: float = 2) -> Any:
    """Norms of the differences of each pair of one set of rows."""
    rows = int(x.sizes[0])
    above = np.ravel_multi_index(np.triu_indices(rows, 1), (rows, rows))
    whole = dml.reshape(_distances(context, x, x, p), (rows * rows,))
    return dml.gather(whole, context.graph.constant(above.astype(np.int64)), 0)


def _pair_distances_gradient(context: Context, grad: Expression, x: Expression, p: float, found: Expression) -> Any:
    """The same of the pairs of one set of rows: their numbers in a symmetric matrix, whose diagonal is 0."""
    rows = int(x.sizes[0])
    if p == 0:
        return context.full(0, context.data_type(), context.sizes())
    numbers = np.zeros((rows, rows), np.int64)
    numbers[np.triu_indices(rows, 1)] = np.arange(rows * (rows - 1) // 2)
    places = context.graph.constant((numbers + numbers.T).reshape(-1))
    is_pair = context.graph.constant((~np.eye(rows, dtype=bool)).astype(np.uint8))
    grad, found = (
        dml.if_(is_pair, dml.reshape(dml.gather(one, places, 0), (rows, rows)), 0.0) for one in (grad, found)
    )
    return dml.reshape(_norm_gradient(grad, x, x, p, found), context.sizes())


def _norm_gradient(grad: Expression, a: Expression, b: Expression, p: float, found: Expression) -> Any:
    rank = len(a.sizes)
    apart = dml.subtract(dml.expand_dims(a, rank - 1), dml.expand_dims(b, rank - 2))
    grad, found = dml.expand_dims(grad, rank), dml.expand_dims(found, rank)
    way, size = dml.sign(apart), dml.abs(apart)
    if p == 1:
        parts = dml.multiply(way, grad)
    elif math.isinf(p):
        parts = dml.if_(dml.logical_equals(size, found), dml.multiply(way, grad), 0.0)
    elif p == 2:
        parts = dml.divide(dml.multiply(grad, apart), found)
    else:
        ratio = dml.divide(dml.constant_pow(size, p - 1), dml.constant_pow(found, p - 1))
        parts = dml.multiply(dml.multiply(way, ratio), grad)
        if p < 1:
            parts = dml.if_(dml.logical_equals(size, 0.0), 0.0, parts)
    if p != 1:
        parts = dml.if_(dml.logical_equals(found, 0.0), 0.0, parts)
    return dml.sum(parts, (rank - 1,))


def _most_frequent(context: Context, x: Expression, dim: int = -1, keepdim: bool = False) -> Any:
    """The element that is there most often along a dimension, of several the least, and its last place."""
    del keepdim
    if not x.sizes:
        return x, context.full(0, INT64, ())
    axis, rank, kind = axis_of(x, dim), len(x.sizes), x.data_type
    count = x.sizes[axis]
    if math.prod(x.sizes) * count > MOST_LOOKS:
        raise context.refuse("the most frequent of many elements")
    order = [*(k for k in range(rank) if k != axis), axis]
    rows = dml.reshape(dml.transpose(x, order), (-1, count))
    batch = rows.sizes[0]
    same = dml.logical_equals(dml.reshape(rows, (batch, count, 1)), dml.reshape(rows, (batch, 1, count)))
    times = dml.max(dml.sum(cast(same, INT64), (2,)), context.constant(1, INT64))  # NaN equals not even itself
    is_most = dml.logical_equals(times, dml.amax(times, (1,), True))
    worst = math.inf if kind.is_float else int(np.iinfo(kind.dtype).max)
    chosen = dml.if_(is_most, rows, cast(worst, kind))
    if kind.is_float:
        is_number = dml.logical_and(is_most, dml.logical_not(dml.is_nan(rows)))
        least = dml.amin(dml.if_(is_number, rows, math.inf), (1,), True)
        chosen = dml.if_(dml.amax(is_number, (1,), True), least, math.nan)
    else:
        chosen = dml.amin(chosen, (1,), True)
    number = dml.reshape(dml.fill_value_sequence((count,), 0, 1, INT64, graph=context.graph), (1, count))
    is_it = dml.logical_equals(rows, chosen)
    is_it = dml.logical_or(is_it, dml.logical_and(dml.is_nan(rows), dml.is_nan(chosen))) if kind.is_float else is_it
    places = dml.amax(dml.if_(is_it, number, 0), (1,))
    return dml.reshape(chosen, context.sizes(0)), dml.reshape(places, context.sizes(1))


def _running_logsumexp(context: Context, x: Expression, dim: int) -> Any:
    """log Σ exp of each element and those before it, less the largest of them first."""
    if not x.sizes:
        return x
    axis, rank, kind = axis_of(x, dim), len(x.sizes), x.data_type
    count = x.sizes[axis]
    if math.prod(x.sizes) * count > MOST_LOOKS:
        raise context.refuse("a running sum of many exponentials")
    order = [*(k for k in range(rank) if k != axis), axis]
    rows = dml.reshape(dml.transpose(cast(x, F32), order), (-1, 1, count))
    number = dml.fill_value_sequence((count,), 0, 1, INT64, graph=context.graph)
    is_before = dml.logical_less_than_or_equal(dml.reshape(number, (1, 1, count)), dml.reshape(number, (1, count, 1)))
    seen = dml.if_(is_before, rows, -math.inf)
    most = dml.amax(seen, (2,), True)
    most = dml.if_(dml.is_infinity(most), 0.0, most)
    sums = dml.sum(dml.exp(dml.subtract(seen, most)), (2,), True)
    back = [order.index(k) for k in range(rank)]
    found = dml.reshape(dml.add(dml.log(sums), most), [x.sizes[k] for k in order])
    return cast(dml.transpose(found, back), kind)


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
    "_cdist_forward.default": _distances,
    "_cdist_backward.default": _distances_gradient,
    "_pdist_forward.default": _pair_distances,
    "_pdist_backward.default": _pair_distances_gradient,
    "mode.default": _most_frequent,
    "logcumsumexp.default": _running_logsumexp,
    "bucketize.Tensor": _bucket,
    "bucketize.Scalar": _bucket,
    "cummax.default": _running_extreme(largest=True),
    "cummin.default": _running_extreme(largest=False),
    "kthvalue.default": _kth,
    **{f"median.{kind}": _middle(ignores=False) for kind in ("default", "dim")},
    **{f"nanmedian.{kind}": _middle(ignores=True) for kind in ("default", "dim")},
    **{f"searchsorted.{kind}": _search for kind in ("Tensor", "Scalar")},
    "topk.default": _top,
    "sort.default": _sort,
    "sort.stable": _sort_stable,
}
