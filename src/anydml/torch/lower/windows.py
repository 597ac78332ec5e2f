"""Folds over windows of unequal sizes: adaptive pools, averages by other counts, and gradients of paddings.

Along each dimension a table has, for every result, the places that it folds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, as_list, cast, dml
from anydml.torch.lower.scatter import fold_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]
    Table = list[list[int]]

F32, INT64 = DataType.FLOAT32, DataType.INT64
_MOST_PRODUCTS = 1 << 26
"""Beyond so many a convolution of integers loses to PyTorch's."""


def _inverse(table: Table, count: int) -> Table:
    """For every place the results that fold it."""
    found: Table = [[] for _ in range(count)]
    for k, places in enumerate(table):
        for place in places:
            found[place].append(k)
    return found


def _padded(table: Table) -> tuple[Any, Any]:
    """A table as rows of the same length, and which of their places count."""
    most = max(1, *map(len, table))
    places, counts = np.zeros((len(table), most), np.int64), np.zeros((len(table), most), np.uint8)
    for k, row in enumerate(table):
        places[k, : len(row)], counts[k, : len(row)] = row, 1
    return places, counts


def _sum_by(context: Context, x: Expression, axis: int, table: Table) -> Any:
    """Along a dimension the sums of the places that a table names."""
    places, counts = _padded(table)
    rows, most = places.shape
    found = dml.gather(x, context.graph.constant(places.reshape(-1)), axis)
    found = dml.reshape(found, (*x.sizes[:axis], rows, most, *x.sizes[axis + 1 :]))
    if not counts.all():
        behind = [1] * (len(x.sizes) - axis - 1)
        found = dml.if_(
            context.graph.constant(counts.reshape([*[1] * axis, rows, most, *behind])), found, cast(0, found.data_type)
        )
    return dml.sum(found, (axis + 1,)) if most > 1 else dml.squeeze(found, axis + 1)


def _sum_by_all(context: Context, x: Expression, tables: Sequence[Table]) -> Any:
    """The same along the last dimensions, one after the other."""
    first = len(x.sizes) - len(tables)
    for k, table in enumerate(tables):
        x = _sum_by(context, x, first + k, table)
    return x


def _work(x: Expression) -> DataType:
    return F32 if x.data_type.is_float else INT64


def _adaptive(own: int, wanted: int) -> Table:
    return [list(range(k * own // wanted, -(-(k + 1) * own // wanted))) for k in range(wanted)]


def adaptive_average(context: Context, x: Expression, count: int) -> Any:
    """Averages over windows that cover the input, of sizes that differ by one."""
    sizes = context.sizes()
    tables = [_adaptive(int(n), int(want)) for n, want in zip(x.sizes[-count:], sizes[-count:], strict=True)]
    found = _sum_by_all(context, cast(x, F32), tables)
    return cast(dml.divide(found, _counts(context, [list(map(len, table)) for table in tables])), x.data_type)


def adaptive_average_gradient(context: Context, grad: Expression, x: Expression, count: int) -> Any:
    """Each number to the elements of its window, in equal parts."""
    own, wanted = x.sizes[-count:], grad.sizes[-count:]
    tables = [_adaptive(int(n), int(want)) for n, want in zip(own, wanted, strict=True)]
    parts = dml.divide(cast(grad, F32), _counts(context, [list(map(len, table)) for table in tables]))
    back = [_inverse(table, int(n)) for table, n in zip(tables, own, strict=True)]
    return cast(_sum_by_all(context, parts, back), grad.data_type)


def _counts(context: Context, several: Sequence[Sequence[int]]) -> Any:
    found = np.ones((), np.float32)
    for counts in several:
        found = np.multiply.outer(found, np.array(counts, np.float32))
    return context.graph.constant(found.astype(np.float32))


def _pool_tables(
    own: Sequence[int], wanted: Sequence[int], size: Any, stride: Any, padding: Any, *, include_pad: bool
) -> tuple[list[Table], list[list[int]]]:
    """Of each dimension the windows' places, and by how many PyTorch divides."""
    spatial = len(own)
    sizes, pads = as_list(size, spatial), as_list(padding, spatial)
    strides = as_list(stride, spatial) if stride not in (None, [], ()) else sizes
    tables, counts = [], []
    for n, want, k, step, pad in zip(own, wanted, sizes, strides, pads, strict=True):
        starts = [j * step - pad for j in range(int(want))]
        tables.append([list(range(max(one, 0), min(one + k, int(n)))) for one in starts])
        padded = [min(one + k, int(n) + pad) - one for one in starts]
        counts.append(padded if include_pad else [len(row) for row in tables[-1]])
    return tables, counts


def average_by_count(
    context: Context,
    x: Expression,
    size: Any,
    stride: Any,
    padding: Any,
    spatial: int,
    *,
    include_pad: bool,
    divisor: int | None,
) -> Any:
    """An average pool of which windows reach past the padding, or that divides by a number of its own."""
    own, wanted = x.sizes[-spatial:], context.sizes()[-spatial:]
    tables, counts = _pool_tables(own, wanted, size, stride, padding, include_pad=include_pad)
    found = _sum_by_all(context, cast(x, _work(x)), tables)
    if x.data_type.is_float:
        by = float(divisor) if divisor is not None else _counts(context, counts)
        return cast(dml.divide(found, by), x.data_type)
    whole = np.ones((), np.int64)
    for one in counts:
        whole = np.multiply.outer(whole, np.array(one))
    return cast(dml.divide(found, int(divisor) if divisor is not None else context.graph.constant(whole)), x.data_type)


def average_by_count_gradient(
    context: Context,
    grad: Expression,
    x: Expression,
    size: Any,
    stride: Any,
    padding: Any,
    spatial: int,
    *,
    include_pad: bool,
    divisor: int | None,
) -> Any:
    """Each number to the elements of its window, in the parts by which the pool divided."""
    own, wanted = x.sizes[-spatial:], grad.sizes[-spatial:]
    tables, counts = _pool_tables(own, wanted, size, stride, padding, include_pad=include_pad)
    by = float(divisor) if divisor is not None else _counts(context, counts)
    parts = dml.divide(cast(grad, F32), by)
    back = [_inverse(table, int(n)) for table, n in zip(tables, own, strict=True)]
    return cast(dml.reshape(_sum_by_all(context, parts, back), context.sizes()), grad.data_type)


# Convolutions of integers


def whole_convolution(
    context: Context,
    x: Expression,
    weights: Expression,
    bias: Expression | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    *,
    transposed: bool,
) -> Any:
    """A convolution of integers, which wraps: products of windows and weights, summed."""
    sizes, kind, count = context.sizes(), context.data_type(), len(strides)
    taps = [int(k) for k in weights.sizes[2:]]
    batch, channels = x.sizes[:2]
    if math.prod(sizes) * math.prod(taps) * channels // groups > _MOST_PRODUCTS:
        raise context.refuse("a large convolution of integers")
    found = cast(x, INT64)
    for k in range(count):
        n, out = int(x.sizes[2 + k]), int(sizes[2 + k])
        at, tap = np.arange(out)[:, None], np.arange(taps[k])[None, :] * dilations[k]
        places = at + pads[k] - tap if transposed else at * strides[k] - pads[k] + tap
        counts = np.ones(places.shape, bool)
        if transposed:
            counts, places = places % strides[k] == 0, places // strides[k]
        counts &= (places >= 0) & (places < n)
        axis = 2 + 2 * k
        found = dml.gather(found, context.graph.constant(np.where(counts, places, 0).reshape(-1)), axis)
        found = dml.reshape(found, (*found.sizes[:axis], *places.shape, *found.sizes[axis + 1 :]))
        behind = [1] * (len(found.sizes) - axis - 2)
        mask = counts.reshape(*[1] * axis, *places.shape, *behind).astype(np.uint8)
        found = dml.if_(context.graph.constant(mask), found, cast(0, INT64))
    spatial = range(2, 2 + 2 * count, 2)
    found = dml.transpose(found, [0, 1, *(k + 1 for k in spatial), *spatial])
    inner, area = channels // groups * math.prod(taps), math.prod(sizes[2:])
    found = dml.reshape(found, (batch, groups, 1, inner, area))
    weights = cast(weights, INT64)
    if transposed:  # input channels first
        weights = dml.reshape(weights, (groups, channels // groups, -1, math.prod(taps)))
        weights = dml.transpose(weights, (0, 2, 1, 3))
    weights = dml.reshape(weights, (1, groups, sizes[1] // groups, inner, 1))
    total = dml.reshape(dml.sum(dml.multiply(found, weights), (3,)), sizes)
    if bias is not None:
        total = dml.add(total, dml.reshape(cast(bias, INT64), (1, -1, *[1] * count)))
    return cast(total, kind)


# Adaptive maxima


def _array(number: int) -> Any:
    return np.array(number, np.int64)


def _adaptive_max(context: Context, x: Expression, size: Sequence[int]) -> Any:
    """The largest of each window, and its place among the elements of its channel."""
    count, sizes, rank = len(size), context.sizes(0), len(x.sizes)
    own = [int(n) for n in x.sizes[-count:]]
    tables = [_adaptive(n, int(want)) for n, want in zip(own, sizes[-count:], strict=True)]
    rows, kind = math.prod(x.sizes[: rank - count]), x.data_type
    found, flat, real = dml.reshape(x, (rows, *own)), _array(0), _array(1)
    for k, (table, n) in enumerate(zip(tables, own, strict=True)):
        places, counts = _padded(table)
        found = dml.gather(found, context.graph.constant(places.reshape(-1)), 1 + 2 * k)
        found = dml.reshape(found, (*found.sizes[: 1 + 2 * k], *places.shape, *found.sizes[2 + 2 * k :]))
        flat = flat[..., None, None] * n + places
        real = real[..., None, None] * counts
    order = [*range(0, 2 * count, 2), *range(1, 2 * count, 2)]
    windows, area = math.prod(map(len, tables)), math.prod(_padded(table)[0].shape[1] for table in tables)
    flat, real = (one.transpose(order).reshape(1, windows, area) for one in (flat, real))
    found = dml.transpose(found, [0, *(k + 1 for k in order)])
    found = dml.reshape(found, (rows, windows, area))
    if not real.all():
        found = dml.if_(context.graph.constant(real.astype(np.uint8)), found, cast(-math.inf, kind))
    best = cast(dml.argmax(found, 2), INT64)
    values = dml.amax(found, (2,))
    numbers = context.graph.constant(flat)
    places = dml.gather_elements(
        dml.broadcast_to(numbers, (rows, windows, area)), dml.reshape(best, (rows, windows, 1)), 2
    )
    return dml.reshape(values, sizes), dml.reshape(places, sizes)


def _adaptive_max_gradient(context: Context, grad: Expression, x: Expression, indices: Expression) -> Any:
    count = 2 if str(context.node.target).startswith("aten.adaptive_max_pool2d") else 3
    rank = len(x.sizes)
    rows, area = math.prod(x.sizes[: rank - count]), math.prod(x.sizes[rank - count :])
    nothing = context.full(0, grad.data_type, (rows, area))
    places, parts = (dml.reshape(one, (rows, math.prod(grad.sizes[rank - count :]))) for one in (indices, grad))
    return dml.reshape(fold_rows(context, nothing, places, parts, "sum"), context.sizes())


# Paddings by what lies inside


def _reflected(n: int, start: int, end: int) -> Iterable[int]:
    period = max(2 * (n - 1), 1)
    return (min(one % period, period - one % period) for one in range(-start, n + end))


def _repeated(n: int, start: int, end: int) -> Iterable[int]:
    return (min(max(one, 0), n - 1) for one in range(-start, n + end))


def _padding_gradient(sources: Callable[[int, int, int], Iterable[int]]) -> Lowering:
    """To each element the sum of what it was copied to."""

    def lower(context: Context, grad: Expression, x: Expression, pads: Sequence[int]) -> Any:
        count = len(pads) // 2
        own = [int(n) for n in x.sizes[-count:]]
        tables = []
        for k, n in enumerate(own):
            start, end = pads[2 * (count - 1 - k)], pads[2 * (count - 1 - k) + 1]
            tables.append(_inverse([[one] for one in sources(n, start, end)], n))
        return cast(_sum_by_all(context, cast(grad, F32), tables), grad.data_type)

    return lower


def _padding(mode: str, sources: Callable[[int, int, int], Iterable[int]]) -> Lowering:
    """Padding by what lies inside: its mirror image, or its edge. One that takes away reads by places."""

    def lower(context: Context, x: Expression, pads: Sequence[int]) -> Any:
        count, rank = len(pads) // 2, len(x.sizes)
        if min(pads) >= 0:
            starts, ends = [0] * rank, [0] * rank
            for k in range(count):
                starts[rank - 1 - k], ends[rank - 1 - k] = pads[2 * k], pads[2 * k + 1]
            return dml.padding1(x, starts, ends, mode)
        for k in range(count):
            axis = rank - 1 - k
            places = list(sources(int(x.sizes[axis]), pads[2 * k], pads[2 * k + 1]))
            x = dml.gather(x, context.graph.constant(np.array(places, np.int64)), axis)
        return x

    return lower


LOWERINGS: dict[str, Lowering] = {
    **{f"adaptive_max_pool{rank}d.default": _adaptive_max for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d_backward.default": _adaptive_max_gradient for rank in (2, 3)},
    **{f"reflection_pad{rank}d.default": _padding("reflection", _reflected) for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d.default": _padding("edge", _repeated) for rank in (1, 2, 3)},
    **{f"reflection_pad{rank}d_backward.default": _padding_gradient(_reflected) for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d_backward.default": _padding_gradient(_repeated) for rank in (1, 2, 3)},
}
