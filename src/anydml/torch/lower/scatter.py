"""Scatters: what lies at places is replaced, or folded with all that is for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, axis_of, cast, dml
from anydml.torch.lower.movement import replaced, reshaped, window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32, INT64 = DataType.FLOAT32, DataType.INT64
MOST_LOOKS = 1 << 28
"""Beyond so many comparisons of places a fold by looking at all of them loses to PyTorch's."""


class _Fold(NamedTuple):
    """How several elements become one."""

    of_many: Callable[..., Any]
    of_two: Callable[..., Any]
    nothing: float


_FOLDS = {
    "sum": _Fold(dml.sum, dml.add, 0),
    "mean": _Fold(dml.sum, dml.add, 0),
    "prod": _Fold(dml.prod, dml.multiply, 1),
    "amax": _Fold(dml.amax, dml.max, -math.inf),
    "amin": _Fold(dml.amin, dml.min, math.inf),
}
_OTHER_NAMES = {"add": "sum", "multiply": "prod"}


def unsigned(indices: Expression) -> Any:
    """Indices of which none counts from the end: without a sign a negative one lies far outside, which is an error."""
    if not indices.data_type.is_signed:
        return indices
    listed = indices if indices.sizes else dml.reshape(indices, (1,))
    made = listed.reinterpret(listed.sizes, listed.strides, DataType[f"U{indices.data_type.name}"])
    return made if indices.sizes else dml.reshape(made, ())


def from_start(indices: Expression, size: Any) -> Any:
    """Indices of which negative ones count from the end, once."""
    return unsigned(dml.if_(dml.logical_less_than(indices, 0), dml.add(indices, size), indices))


def numbers_to(context: Context, count: Any, data_type: DataType = INT64) -> Any:
    """0, 1, 2 and so on."""
    return dml.fill_value_sequence((count,), 0, 1, data_type, graph=context.graph)


def _rows(x: Expression, axis: int) -> Any:
    """What lies along an axis, a row below the other."""
    order = [*(k for k in range(len(x.sizes)) if k != axis), axis]
    return dml.reshape(dml.transpose(x, order), (-1, x.sizes[axis]))


def _from_rows(rows: Expression, sizes: Sequence[Any], axis: int) -> Any:
    """Rows along an axis where they were."""
    rest = [size for k, size in enumerate(sizes) if k != axis]
    back = list(range(len(rest)))
    back.insert(axis, len(rest))
    return dml.transpose(dml.reshape(rows, (*rest, sizes[axis])), back)


def fold_rows(
    context: Context, x: Expression, places: Expression, updates: Expression, how: str, *, include: bool = True
) -> Any:
    """Rows of elements, each folded with the updates that are for its place: all of them are looked at for each."""
    (rows, size), count, kind = x.sizes, updates.sizes[1], x.data_type
    if math.prod((rows, size, count)) > MOST_LOOKS:
        raise context.refuse("a scatter of many updates into many places")
    fold, is_float = _FOLDS[how], kind.is_float
    work = F32 if is_float else INT64
    nothing = fold.nothing
    if not is_float and math.isinf(nothing):
        limits = np.iinfo(work.dtype)
        nothing = limits.min if nothing < 0 else limits.max
    here = dml.logical_equals(
        dml.reshape(cast(places, INT64), (places.sizes[0], 1, count)),
        dml.reshape(numbers_to(context, size), (1, size, 1)),
    )
    new = dml.if_(here, dml.reshape(cast(updates, work), (rows, 1, count)), cast(nothing, work))
    folded = fold.of_many(new, (2,))
    whole = cast(x, work)
    if include:
        folded = fold.of_two(whole, folded)
    if include and how != "mean":
        return cast(folded, kind)
    found = dml.broadcast_to(dml.sum(cast(here, INT64), (2,)), (rows, size))
    if how == "mean":
        counted = dml.add(found, 1) if include else dml.max(found, context.constant(1, INT64))
        folded = _mean(folded, cast(counted, work))
    if not include:
        folded = dml.if_(dml.logical_greater_than(found, 0), folded, whole)
    return cast(folded, kind)


def _mean(total: Expression, count: Expression) -> Any:
    """A quotient, of integers rounded down."""
    if not total.data_type.is_float:
        total = dml.subtract(total, dml.modulus_floor(total, count))
    return dml.divide(total, count)


def within(context: Context, numbers: Expression, limit: int) -> Any:
    """Whole numbers of which one that is not below a limit is an error as the graph runs; negative ones are kept."""
    zero = context.graph.constant(np.zeros(1, np.int64))
    is_past = cast(dml.logical_greater_than_or_equal(numbers, limit), INT64)
    return dml.add(numbers, dml.reshape(dml.gather(zero, is_past, 0), numbers.sizes))


# Along a dimension


def _corner(x: Expression, sizes: Sequence[Any]) -> Any:
    """What lies before these sizes."""
    for k, (own, wanted) in enumerate(zip(x.sizes, sizes, strict=True)):
        x = x if own == wanted else window(x, k, 0, wanted)
    return x


def _put_corner(x: Expression, corner: Expression) -> Any:
    """A tensor with what lies in its corner replaced."""
    cut = [k for k, (own, new) in enumerate(zip(x.sizes, corner.sizes, strict=True)) if own != new]
    if not cut:
        return corner
    axis = cut[0]
    return replaced(x, _put_corner(window(x, axis, 0, corner.sizes[axis]), corner), axis, 0)


def _along(how: Callable[..., Any]) -> Lowering:
    """A scatter of single elements along a dimension, by what replaces or folds them."""

    def lower(
        context: Context, x: Expression, dim: int, indices: Expression, source: Any, *rest: Any, **named: Any
    ) -> Any:
        sizes, kind = context.sizes(), context.data_type()
        x = cast(x, kind)
        if not x.sizes:
            x = dml.reshape(x, (1,))
        if not indices.sizes:
            indices = dml.reshape(indices, (1,))
        axis = axis_of(x, dim)
        if not isinstance(source, dml.Expression):
            source = context.full(source, kind, indices.sizes)
        source = dml.reshape(source, (1,)) if not source.sizes else source
        source = _corner(cast(source, kind), indices.sizes)
        wanted = [x.sizes[k] if k == axis else size for k, size in enumerate(indices.sizes)]
        corner = _corner(x, wanted)
        made = how(context, corner, axis, indices, source, *rest, **named)
        return dml.reshape(_put_corner(x, made), sizes)

    return lower


def _replacing(
    context: Context, x: Expression, axis: int, indices: Expression, source: Expression, *, reduce: str | None = None
) -> Any:
    if reduce is not None:
        return _folding(context, x, axis, indices, source, reduce)
    return dml.scatter(x, unsigned(indices), source, axis)


def _checked(context: Context, indices: Expression, size: Any) -> Any:
    """Indices, of which one outside is an error as the graph runs."""
    return dml.gather(numbers_to(context, size), unsigned(indices), 0)


def _folding(
    context: Context,
    x: Expression,
    axis: int,
    indices: Expression,
    source: Expression,
    reduce: str = "sum",
    *,
    include_self: bool = True,
) -> Any:
    places = _checked(context, indices, x.sizes[axis])
    how = _OTHER_NAMES.get(reduce, reduce)
    rows = [_rows(one, axis) for one in (x, places, source)]
    return _from_rows(fold_rows(context, rows[0], rows[1], rows[2], how, include=include_self), x.sizes, axis)


def _index_reduce(
    context: Context,
    x: Expression,
    dim: int,
    index: Expression,
    source: Expression,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """Slices along a dimension folded into those that an index names."""
    sizes = context.sizes()
    if not x.sizes:
        x = dml.reshape(x, (1,))
    axis = axis_of(x, dim)
    if not source.sizes or len(source.sizes) != len(x.sizes):
        source = dml.reshape(source, (1,))
    places = _checked(context, dml.reshape(index, (-1,)), x.sizes[axis])
    rows, own = _rows(x, axis), _rows(cast(source, x.data_type), axis)
    how = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}[reduce]
    made = fold_rows(context, rows, dml.reshape(places, (1, -1)), own, how, include=include_self)
    return dml.reshape(_from_rows(made, x.sizes, axis), sizes)


# By tuples of indices


def _index_put(
    context: Context,
    x: Expression,
    indices: Sequence[Expression | None],
    values: Expression,
    accumulate: bool = False,
    *_: Any,
) -> Any:
    """x[i, j] = values, or += values."""
    kind, sizes = context.data_type(), context.sizes()
    values = cast(values, kind)
    if _truths(context):
        return _put_by_truths(context, x, indices, values, accumulate=accumulate)
    axes = [k for k, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    own = np.broadcast_shapes(*(tuple(map(int, one.sizes)) for one in given))
    rest = [k for k in range(len(x.sizes)) if k not in axes]
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    # The values as x[i, j] has them: the dimensions of indices in place of the indexed ones, or in front.
    shape = [x.sizes[k] for k in rest]
    shape[first:first] = own
    values = dml.broadcast_to(values, tuple(shape)) if shape else values
    order = [*range(first, first + len(own)), *range(first), *range(first + len(own), len(shape))]
    values = dml.transpose(values, order) if shape else values
    count, block = math.prod(own), math.prod(x.sizes[k] for k in rest)
    values = dml.reshape(values, (count, block))
    front = dml.transpose(x, [*axes, *rest])
    indexed = [x.sizes[k] for k in axes]
    several = [
        dml.reshape(dml.broadcast_to(cast(from_start(one, size), DataType.UINT64), own or (1,)), (count, 1))
        for one, size in zip(given, indexed, strict=True)
    ]
    tuples = dml.join(several, 1) if len(several) > 1 else several[0]
    whole = math.prod(indexed)
    places = dml.gather_nd(dml.reshape(numbers_to(context, whole), tuple(indexed)), tuples)
    flat = dml.reshape(front, (whole, block))
    if accumulate and kind is DataType.UINT8 and context.is_boolean():
        made = _rows_back(fold_rows(context, _rows(flat, 0), dml.reshape(places, (1, count)), _rows(values, 0), "amax"))
    elif accumulate:
        made = _rows_back(fold_rows(context, _rows(flat, 0), dml.reshape(places, (1, count)), _rows(values, 0), "sum"))
    else:
        made = dml.scatter_nd(flat, dml.reshape(places, (count, 1)), values)
    made = dml.reshape(made, [x.sizes[k] for k in (*axes, *rest)])
    back = [0] * len(x.sizes)
    for place, k in enumerate((*axes, *rest)):
        back[k] = place
    return dml.reshape(dml.transpose(made, back), sizes)


def _rows_back(rows: Expression) -> Any:
    return dml.transpose(rows, (1, 0))


def _truths(context: Context) -> bool:
    return any(
        str(node.meta["val"].dtype) in ("torch.bool", "torch.uint8")
        for node in context.node.args[1]
        if node is not None
    )


def _put_by_truths(
    context: Context, x: Expression, indices: Sequence[Expression | None], values: Expression, *, accumulate: bool
) -> Any:
    """x[mask] = number, or += number."""
    given = [(k, one) for k, one in enumerate(indices) if one is not None]
    if len(given) != 1 or math.prod(values.sizes) != 1:
        raise context.refuse("an index by truths")
    axis, mask = given[0]
    sizes = [1] * len(x.sizes)
    sizes[axis : axis + len(mask.sizes)] = mask.sizes
    new = dml.reshape(values, [1] * len(x.sizes))
    if accumulate:
        new = dml.add(x, new)
    return dml.if_(dml.reshape(mask, sizes), new, x)


def _put(context: Context, x: Expression, index: Expression, source: Expression, accumulate: bool = False) -> Any:
    """x.flatten()[index] = source, or += source."""
    count = math.prod(x.sizes)
    flat, own = dml.reshape(x, (1, count)), math.prod(index.sizes)
    places = dml.reshape(_checked(context, dml.reshape(from_start(index, count), (-1,)), count), (1, own))
    source = dml.reshape(cast(source, x.data_type), (1, own))
    made = (
        fold_rows(context, flat, places, source, "amax" if context.is_boolean() else "sum")
        if accumulate
        else dml.scatter(flat, places, source, 1)
    )
    return dml.reshape(made, context.sizes())


def _masked_scatter(context: Context, x: Expression, mask: Expression, source: Expression) -> Any:
    """Where the mask is true the source's elements, in their order."""
    sizes = context.sizes()
    whole = dml.reshape(dml.broadcast_to(mask, sizes), (-1,))
    number = dml.subtract(dml.cumulative_summation(cast(whole, INT64), 0), 1)
    number = dml.if_(whole, number, cast(0, INT64))
    found = dml.gather(dml.reshape(cast(source, x.data_type), (-1,)), number, 0)
    return dml.if_(dml.broadcast_to(mask, sizes), dml.reshape(found, sizes), dml.broadcast_to(x, sizes))


def _masked_scatter_gradient(context: Context, grad: Expression, mask: Expression, _: Sequence[Any]) -> Any:
    """What the mask names, in order, from the start on; behind it 0."""
    sizes = context.sizes()
    count, kind = math.prod(sizes), grad.data_type
    whole = dml.reshape(dml.broadcast_to(mask, grad.sizes), (-1,))
    number = dml.subtract(dml.cumulative_summation(cast(whole, INT64), 0), 1)
    place = dml.if_(whole, number, cast(count, INT64))  # the others behind the end
    made = dml.scatter(context.full(0, kind, (count + 1,)), place, dml.reshape(grad, (-1,)), 0)
    return dml.reshape(window(made, 0, 0, count), sizes)


def _diagonal_places(sizes: Sequence[int], offset: int, first: int, second: int) -> tuple[list[int], int, int, int]:
    """The other dimensions, and in rows of the two: the diagonal's first place, its step and its length."""
    rest = [k for k in range(len(sizes)) if k not in (first, second)]
    rows, columns = sizes[first], sizes[second]
    start = offset if offset >= 0 else -offset * columns
    count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    return rest, start, columns + 1, count


def _diagonal(context: Context, x: Expression, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    rest, start, step, count = _diagonal_places(x.sizes, offset, first, second)
    flat = dml.reshape(
        dml.transpose(x, [*rest, first, second]), (*(x.sizes[k] for k in rest), x.sizes[first] * x.sizes[second])
    )
    return reshaped(window(flat, len(rest), start, count, step), context.sizes())


def _put_diagonal(
    context: Context, x: Expression, source: Expression, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    rest, start, step, count = _diagonal_places(x.sizes, offset, first, second)
    order = [*rest, first, second]
    batch = math.prod(x.sizes[k] for k in rest)
    flat = dml.reshape(dml.transpose(x, order), (batch, x.sizes[first] * x.sizes[second]))
    places = context.graph.constant(start + step * np.arange(count))
    places = dml.broadcast_to(dml.reshape(places, (1, count)), (batch, count))
    made = dml.scatter(flat, places, dml.reshape(cast(source, x.data_type), (batch, count)), 1)
    back = [order.index(k) for k in range(len(order))]
    return dml.transpose(dml.reshape(made, [x.sizes[k] for k in order]), back)


# By strides


def _storage(context: Context, x: Expression) -> Any:
    """A tensor's elements as they lie in memory, where they lie packed."""
    value = context.value(0)
    strides = [int(one) for one in value.stride()]
    order = sorted(range(len(strides)), key=lambda k: -strides[k])
    expected = 1
    for k in reversed(order):
        if x.sizes[k] != 1 and strides[k] != expected:
            raise context.refuse("strides over memory with gaps")
        expected *= int(x.sizes[k])
    if value.storage_offset():
        raise context.refuse("strides over memory that begins elsewhere")
    return dml.reshape(dml.transpose(x, order) if order else x, (-1,)), order


def _places(size: Sequence[int], stride: Sequence[int], offset: int | None) -> Any:
    found = np.full((), offset or 0, np.int64)
    for k, (count, step) in enumerate(zip(size, stride, strict=True)):
        found = found + (np.arange(int(count)) * int(step)).reshape([-1 if k == j else 1 for j in range(len(size))])
    return found


def _as_strided(
    context: Context, x: Expression, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    flat, _ = _storage(context, x)
    places = _places(size, stride, storage_offset)
    if places.size and int(places.max()) >= flat.sizes[0]:
        raise context.refuse("strides over more memory than a tensor has")
    found = dml.gather(flat, context.graph.constant(places.reshape(-1)), 0)
    return dml.reshape(found, context.sizes())


def _put_strided(
    context: Context,
    x: Expression,
    source: Expression,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    flat, order = _storage(context, x)
    places = context.graph.constant(_places(size, stride, storage_offset).reshape(-1))
    source = dml.reshape(cast(dml.broadcast_to(source, tuple(size)) if size else source, x.data_type), (-1,))
    made = dml.scatter(flat, places, source, 0)
    if not order:
        return dml.reshape(made, ())
    back = [order.index(k) for k in range(len(order))]
    return dml.transpose(dml.reshape(made, [x.sizes[k] for k in order]), back)


def _unfold(context: Context, x: Expression, dim: int, size: int, step: int) -> Any:
    """Windows along a dimension, each as a dimension behind all others."""
    if not x.sizes:
        return dml.reshape(x, context.sizes())
    axis = axis_of(x, dim)
    count = context.sizes()[axis]
    places = step * np.arange(int(count))[:, None] + np.arange(size)
    found = dml.gather(x, context.graph.constant(places.reshape(-1)), axis)
    found = dml.reshape(found, (*x.sizes[:axis], count, size, *x.sizes[axis + 1 :]))
    order = [k for k in range(len(found.sizes)) if k != axis + 1]
    return dml.transpose(found, [*order, axis + 1])


LOWERINGS: dict[str, Lowering] = {
    **{f"scatter.{kind}": _along(_replacing) for kind in ("src", "value", "reduce", "value_reduce")},
    "as_strided.default": _as_strided,
    "as_strided_copy.default": _as_strided,
    "as_strided_scatter.default": _put_strided,
    "diagonal.default": _diagonal,
    "diagonal_copy.default": _diagonal,
    "diagonal_scatter.default": _put_diagonal,
    "index_put.default": _index_put,
    "index_reduce.default": _index_reduce,
    "masked_scatter.default": _masked_scatter,
    "masked_scatter_backward.default": _masked_scatter_gradient,
    "put.default": _put,
    "scatter_add.default": _along(_folding),
    "scatter_reduce.two": _along(_folding),
    "unfold.default": _unfold,
    "unfold_copy.default": _unfold,
    "_unsafe_index_put.default": _index_put,
}
