"""Histograms: how many elements, or the sum of their weights, lie between edges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.movement import window
from anydml.torch.lower.scatter import MOST_LOOKS, numbers_to

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32, INT64 = DataType.FLOAT32, DataType.INT64


def _ends(context: Context, x: Expression, given: Sequence[float] | None, more: float) -> tuple[Any, Any]:
    """The outer edges: those given, or the least and the largest element; both further out where they are the same."""
    kind = x.data_type
    if given is None:
        low, high = dml.amin(x, (0,), True), dml.amax(x, (0,), True)
        is_one = dml.logical_equals(low, high)
        return dml.if_(is_one, dml.subtract(low, more), low), dml.if_(is_one, dml.add(high, more), high)
    low, high = given
    if low == high:
        low, high = low - more, high + more
    low, high = (dml.reshape(context.constant(one, kind), (1,)) for one in (low, high))
    return low, high


def _edges(context: Context, low: Any, high: Any, count: int) -> Any:
    """Edges of bins of one width, each reckoned from the end that is nearer."""
    step = dml.divide(dml.subtract(high, low), float(count))
    number = dml.fill_value_sequence((count + 1,), 0, 1, F32, graph=context.graph)
    up = dml.add(dml.multiply(number, step), low)
    down = dml.subtract(high, dml.multiply(dml.subtract(float(count), number), step))
    return dml.if_(dml.logical_less_than(number, float((count + 1) // 2)), up, down)


def _counted(context: Context, inside: Expression, weight: Expression | None, kind: DataType) -> Any:
    """Over the last dimension of truths, the sum of weights, or how many there are."""
    if math.prod(inside.sizes) > MOST_LOOKS:
        raise context.refuse("a histogram of many elements and bins")
    what = cast(inside, F32) if weight is None else dml.if_(inside, cast(weight, F32), 0.0)
    return cast(dml.sum(what, (len(inside.sizes) - 1,)), kind)


def _between(context: Context, x: Expression, edges: Expression) -> Any:
    """By bin and element whether it is in: from the bin's edge to before the next, and the last edge too.

    The search halves as C++'s upper_bound does, which has an answer for edges that are not in order too.
    """
    count = edges.sizes[0]
    x = dml.reshape(x, (-1,))
    first: Any = context.full(0, INT64, x.sizes)
    left: Any = context.full(count, INT64, x.sizes)
    for _ in range(int(count).bit_length()):
        half = dml.divide(dml.subtract(left, dml.modulus_floor(left, 2)), 2)
        middle = dml.add(first, half)
        edge = dml.gather(edges, dml.min(middle, context.constant(count - 1, INT64)), 0)
        is_behind = dml.logical_greater_than_or_equal(x, edge)
        is_behind = dml.logical_and(is_behind, dml.logical_greater_than(left, 0))
        first = dml.if_(is_behind, dml.add(middle, 1), first)
        left = dml.if_(is_behind, dml.subtract(dml.subtract(left, half), 1), half)
    low, high = window(edges, 0, 0, 1), window(edges, 0, count - 1, 1)
    is_inside = dml.logical_and(dml.logical_greater_than_or_equal(x, low), dml.logical_less_than_or_equal(x, high))
    place = dml.min(dml.subtract(first, 1), context.constant(count - 2, INT64))
    return _one_hot(context, dml.if_(is_inside, place, cast(-1, INT64)), count - 1)


def _one_hot(context: Context, place: Expression, count: int) -> Any:
    """By bin and element whether it is in."""
    return dml.logical_equals(dml.reshape(place, (1, -1)), dml.reshape(numbers_to(context, count), (count, 1)))


def _by_width(context: Context, x: Expression, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    """histc: the bin is (x - low)·bins/(high - low), each operation rounded to the type of x."""
    kind = x.data_type

    def rounded(one: Any) -> Any:
        return one if kind is F32 else cast(cast(one, kind), F32)

    x = dml.reshape(cast(x, F32), (-1,))
    left, right = _ends(context, x, None if low == high else (float(low), float(high)), 1.0)
    left, right = rounded(left), rounded(right)
    part = rounded(dml.multiply(rounded(dml.subtract(x, left)), float(bins)))
    place = dml.trunc(rounded(dml.divide(part, rounded(dml.subtract(right, left)))))
    place = dml.min(place, bins - 1.0)
    is_inside = dml.logical_and(dml.logical_greater_than_or_equal(x, left), dml.logical_less_than_or_equal(x, right))
    place = cast(dml.if_(is_inside, place, -1.0), INT64)
    return _counted(context, _one_hot(context, place, bins), None, kind)


def _dense(found: Any, widths: Any) -> Any:
    return dml.divide(found, dml.multiply(widths, dml.sum(found, tuple(range(len(found.sizes))), True)))


def _widths(edges: Any) -> Any:
    count = edges.sizes[0] - 1
    return dml.subtract(window(edges, 0, 1, count), window(edges, 0, 0, count))


def _histogram(context: Context, x: Expression, edges: Expression, weight: Any, density: bool) -> tuple[Any, Any]:
    x = dml.reshape(x, (-1,))
    weight = None if weight is None else dml.reshape(weight, (1, -1))
    found = _counted(context, _between(context, x, edges), weight, F32)
    return _dense(found, _widths(edges)) if density else found, edges


def _by_count(
    context: Context,
    x: Expression,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - PyTorch's name
    weight: Expression | None = None,
    density: bool = False,
) -> Any:
    low, high = _ends(context, dml.reshape(x, (-1,)), range, 0.5)
    return _histogram(context, x, _edges(context, low, high, bins), weight, density)


def _by_edges(
    context: Context, x: Expression, bins: Expression, *, weight: Expression | None = None, density: bool = False
) -> Any:
    return _histogram(context, x, bins, weight, density)


# Of several dimensions


def _all_edges(
    context: Context,
    x: Expression,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - PyTorch's name
    weight: Any = None,
    density: bool = False,
) -> Any:
    del weight, density
    rows = dml.reshape(x, (-1, len(bins)))
    found = []
    for k, count in enumerate(bins):
        column = dml.reshape(window(rows, 1, k, 1), (-1,))
        given = None if range is None else (range[2 * k], range[2 * k + 1])
        found.append(_edges(context, *_ends(context, column, given, 0.5), count))
    return tuple(found)


def _by_all_edges(
    context: Context,
    x: Expression,
    bins: Sequence[Expression],
    *,
    weight: Expression | None = None,
    density: bool = False,
) -> Any:
    rank = len(bins)
    rows = dml.reshape(x, (-1, rank))
    counts = [one.sizes[0] - 1 for one in bins]
    inside: Any = None
    volumes: Any = None
    for k, edges in enumerate(bins):
        shape = [counts[k] if k == j else 1 for j in range(rank)]
        one = dml.reshape(_between(context, window(rows, 1, k, 1), edges), (*shape, -1))
        inside = one if inside is None else dml.logical_and(inside, one)
        widths = dml.reshape(_widths(edges), shape)
        volumes = widths if volumes is None else dml.multiply(volumes, widths)
    weight = None if weight is None else dml.reshape(weight, (*[1] * rank, -1))
    found = _counted(context, inside, weight, F32)
    return _dense(found, volumes) if density else found


def _by_counts(
    context: Context,
    x: Expression,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - PyTorch's name
    weight: Expression | None = None,
    density: bool = False,
) -> Any:
    return _by_all_edges(context, x, _all_edges(context, x, bins, range=range), weight=weight, density=density)


LOWERINGS: dict[str, Lowering] = {
    "histc.default": _by_width,
    "histogram.bin_ct": _by_count,
    "histogram.bins_tensor": _by_edges,
    "_histogramdd_bin_edges.default": _all_edges,
    "_histogramdd_from_bin_cts.default": _by_counts,
    "_histogramdd_from_bin_tensors.default": _by_all_edges,
}
