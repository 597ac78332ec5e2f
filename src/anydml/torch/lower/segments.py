"""Segments: rows in a line of which so many at a time are folded into one, as bags of embeddings are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.gradients import embedding_gradient
from anydml.torch.lower.movement import window
from anydml.torch.lower.scatter import fold_rows, numbers_to, unsigned, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32, INT64 = DataType.FLOAT32, DataType.INT64
_MOST_FOLDED = 1 << 18
"""Elements that may be looked at where segments are of several lengths: each of them looks at all rows, which takes as
long as a call at 2^18 of them, and 1.3 ms at 2^22 where PyTorch's takes 0.02 (one thread of an Arm)."""


class _Fold(NamedTuple):
    """How a segment becomes one row, and what an empty one is."""

    of_many: Callable[..., Any]
    of_two: Callable[..., Any]
    nothing: float


_FOLDS = {
    "sum": _Fold(dml.sum, dml.add, 0),
    "mean": _Fold(dml.sum, dml.add, 0),
    "prod": _Fold(dml.prod, dml.multiply, 1),
    "max": _Fold(dml.amax, dml.max, -math.inf),
    "min": _Fold(dml.amin, dml.min, math.inf),
}


def _hold(context: Context, segments: int, count: int, width: int) -> None:
    if segments * count * width > _MOST_FOLDED:
        raise context.refuse("many segments of many rows")


def _is_inside(context: Context, starts: Expression, ends: Expression, count: int) -> Any:
    """By batch, segment and place whether it is between a segment's ends, which are [batch, segments]."""
    batch, segments = starts.sizes
    _hold(context, batch * segments, count, 1)
    number = dml.reshape(numbers_to(context, count), (1, 1, count))
    starts, ends = (dml.reshape(cast(one, INT64), (batch, segments, 1)) for one in (starts, ends))
    return dml.logical_and(dml.logical_greater_than_or_equal(number, starts), dml.logical_less_than(number, ends))


def _chosen(context: Context, inside: Expression, x: Expression, nothing: float) -> Any:
    """[batch, segments, places, width]: rows of [batch, places, width] where they are of a segment."""
    (batch, segments, count), width = inside.sizes, x.sizes[2]
    _hold(context, batch * segments, count, width)
    return dml.if_(
        dml.reshape(inside, (batch, segments, count, 1)), dml.reshape(x, (batch, 1, count, width)), float(nothing)
    )


def _counts(inside: Expression) -> Any:
    """[batch, segments, 1]: how many places are of each."""
    return dml.sum(cast(inside, INT64), (2,), True)


# segment_reduce


class _Segments(NamedTuple):
    """Data as [batch, places, width], and which places are of which segment."""

    rows: Any
    inside: Any
    sizes: tuple[int, ...]


def _segments(
    context: Context, data: Expression, lengths: Expression | None, offsets: Expression | None, axis: int
) -> _Segments:
    batch, width = math.prod(data.sizes[:axis]), math.prod(data.sizes[axis + 1 :])
    count = data.sizes[axis]
    rows = dml.reshape(cast(data, F32), (batch, count, width))
    if lengths is not None:
        lengths = dml.reshape(cast(lengths, INT64), (batch, -1))
        ends = dml.cumulative_summation(lengths, 1)
        starts = dml.subtract(ends, lengths)
    else:
        offsets = dml.reshape(cast(offsets, INT64), (batch, -1))
        segments = offsets.sizes[1] - 1
        starts, ends = window(offsets, 1, 0, segments), window(offsets, 1, 1, segments)
    # One that ends behind the data is PyTorch's error, where it looks for one.
    ends = within(context, ends, count + 1)
    return _Segments(rows, _is_inside(context, starts, ends, count), (*data.sizes[:axis], ends.sizes[1]))


def _reduce(
    context: Context,
    data: Expression,
    reduce: str,
    *,
    lengths: Expression | None = None,
    indices: Any = None,
    offsets: Expression | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    del unsafe
    if indices is not None:
        raise context.refuse("segments by indices")
    fold = _FOLDS[reduce]
    rows, inside, _ = _segments(context, data, lengths, offsets, axis)
    found = fold.of_many(_chosen(context, inside, rows, fold.nothing), (2,))
    if initial is not None:
        found = fold.of_two(found, context.full(initial, F32, found.sizes))
    if reduce == "mean":
        counts = cast(_counts(inside), F32)
        mean = dml.divide(found, counts)
        found = dml.if_(
            dml.broadcast_to(dml.logical_equals(counts, 0.0), found.sizes),
            math.nan if initial is None else found,
            mean,
        )
    return cast(dml.reshape(found, context.sizes()), context.data_type())


def _reduce_gradient(
    context: Context,
    grad: Expression,
    output: Expression,
    data: Expression,
    reduce: str,
    *,
    lengths: Expression | None = None,
    offsets: Expression | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Any:
    rows, inside, _ = _segments(context, data, lengths, offsets, axis)
    (batch, segments, count), width = inside.sizes, rows.sizes[2]
    slopes, results = (dml.reshape(cast(one, F32), (batch, segments, width)) for one in (grad, output))
    if reduce == "prod":
        return cast(
            dml.reshape(_product_gradient(context, slopes, rows, inside, initial), context.sizes()), data.data_type
        )
    if reduce == "mean":
        slopes = dml.divide(slopes, dml.max(cast(_counts(inside), F32), 1.0))
    mask = dml.reshape(inside, (batch, segments, count, 1))
    if reduce in ("max", "min"):  # those that are the extreme share its slope
        here = dml.reshape(rows, (batch, 1, count, width))
        result = dml.reshape(results, (batch, segments, 1, width))
        is_equal = dml.logical_or(dml.logical_equals(here, result), dml.is_nan(here))
        mask = dml.logical_and(mask, is_equal)
        slopes = dml.divide(slopes, dml.max(dml.sum(cast(mask, F32), (2,)), 1.0))
    parts = dml.if_(
        dml.broadcast_to(mask, (batch, segments, count, width)), dml.reshape(slopes, (batch, segments, 1, width)), 0.0
    )
    return cast(dml.reshape(dml.sum(parts, (1,)), context.sizes()), data.data_type)


def _product_gradient(
    context: Context, slopes: Expression, rows: Expression, inside: Expression, initial: float | None
) -> Any:
    """Each factor's slope: the product of its segment's others."""
    (batch, segments, count), width = inside.sizes, rows.sizes[2]
    _hold(context, batch * segments, count * count, width)
    number = numbers_to(context, count)
    is_other = dml.logical_not(dml.logical_equals(dml.reshape(number, (count, 1)), dml.reshape(number, (1, count))))
    mask = dml.logical_and(
        dml.reshape(inside, (batch, segments, 1, count, 1)), dml.reshape(is_other, (1, 1, count, count, 1))
    )
    others = dml.prod(dml.if_(mask, dml.reshape(rows, (batch, 1, 1, count, width)), 1.0), (3,))
    if initial is not None:
        others = dml.multiply(others, float(initial))
    parts = dml.multiply(others, dml.reshape(slopes, (batch, segments, 1, width)))
    own = dml.reshape(inside, (batch, segments, count, 1))
    return dml.sum(dml.if_(own, parts, 0.0), (1,))


# Bags of embeddings

_SUM, _MEAN, _MAX = range(3)


class _Bags(NamedTuple):
    """What lies in which bag."""

    length: int | None
    """Of every bag, where offsets are equally far apart, as those of a matrix of indices are."""
    number: Any
    """[places]: the bag's."""
    counted: Any
    """[places]: those that are no padding; None where none is."""
    inside: Any
    """[bags, places], without those that are padding; None where bags are of one length."""
    counts: Any
    """[bags, 1]: how many are no padding."""

    def rows(self, x: Expression, nothing: float) -> Any:
        """[bags, length or places, width]: rows of [places, width] where they are of a bag."""
        count, width = x.sizes
        if self.inside is None:
            if self.counted is not None:
                x = dml.if_(dml.reshape(self.counted, (count, 1)), x, nothing)
            return dml.reshape(x, (-1, self.length, width))
        bags = self.inside.sizes[0]
        return dml.if_(dml.reshape(self.inside, (bags, count, 1)), dml.reshape(x, (1, count, width)), nothing)


def _bags(
    context: Context, places: tuple[int, int], indices: Expression, offsets: Any, bags: int, padding: int
) -> _Bags:
    """What lies behind the last offset is of the last bag. The first must be 0, and none beyond the indices."""
    (count,) = indices.sizes
    counted = None if padding < 0 else dml.logical_not(dml.logical_equals(cast(indices, INT64), int(padding)))
    number = numbers_to(context, count)
    if (length := _step(context.node.args[places[1]])) is not None and length * bags == count:
        own = dml.gather(numbers_to(context, bags), context.graph.constant(np.arange(count) // length), 0)
        if counted is None:
            counts = context.full(length, INT64, (bags, 1))
        else:
            counts = dml.sum(cast(dml.reshape(counted, (bags, length)), INT64), (1,), True)
        return _Bags(length, own, counted, None, counts)
    _hold(context, bags, count, context.value(places[0]).shape[1])
    offsets = within(context, cast(offsets, INT64), count + 1)
    first = within(context, dml.abs(window(offsets, 0, 0, 1)), 1)
    offsets = dml.reshape(dml.add(offsets, first), (-1, 1))
    begun = dml.logical_less_than_or_equal(offsets, dml.reshape(number, (1, count)))
    own = dml.min(dml.subtract(dml.sum(cast(begun, INT64), (0,)), 1), context.constant(bags - 1, INT64))
    inside = dml.logical_equals(dml.reshape(own, (1, count)), dml.reshape(numbers_to(context, bags), (bags, 1)))
    if counted is not None:
        inside = dml.logical_and(inside, dml.reshape(counted, (1, count)))
    return _Bags(None, own, counted, inside, dml.sum(cast(inside, INT64), (1,), True))


def _step(node: Any) -> int | None:
    """The distance of offsets that are an arange from 0."""
    if str(getattr(node, "target", "")) != "aten.arange.start_step":
        return None
    start, _, step = (*node.args, 1)[:3]
    return step if start == 0 and isinstance(step, int) and step > 0 else None


def _embedding_bag(
    context: Context,
    weight: Expression,
    indices: Expression,
    offsets: Expression,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Expression | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    del scale_grad_by_freq, sparse, include_last_offset
    (bags, width), (count,) = context.sizes(0), indices.sizes
    of = _bags(context, (0, 2), indices, offsets, bags, padding_idx)
    rows = cast(dml.gather(weight, unsigned(indices), 0), F32)
    if per_sample_weights is not None:
        rows = dml.multiply(rows, dml.reshape(cast(per_sample_weights, F32), (count, 1)))
    several = of.rows(rows, -math.inf if mode == _MAX else 0.0)
    places = None
    if mode == _MAX:
        is_empty = dml.logical_equals(of.counts, 0)
        found = dml.if_(is_empty, 0.0, dml.amax(several, (1,)))
        if context.is_read(3):
            places = dml.reshape(cast(dml.argmax(several, 1), INT64), (bags, width))
            if of.length is not None:
                places = dml.add(places, dml.fill_value_sequence((bags, 1), 0, of.length, INT64, graph=context.graph))
            places = dml.gather(cast(indices, INT64), dml.reshape(places, (-1,)), 0)
            places = dml.if_(is_empty, cast(0, INT64), dml.reshape(places, (bags, width)))
    else:
        found = dml.sum(several, (1,))
        if mode == _MEAN:
            found = dml.divide(found, cast(dml.max(of.counts, context.constant(1, INT64)), F32))
    sizes = dml.reshape(of.counts, (bags,)) if mode != _SUM else context.full(0, INT64, (bags,))
    made = [found, of.number, sizes, sizes if places is None else places]
    for k in range(1, 4):
        is_left = not context.is_read(k) or not math.prod(context.sizes(k))
        if not is_left and context.sizes(k) != tuple(made[k].sizes):
            raise context.refuse("sizes of bags as PyTorch does not make them")
        made[k] = None if is_left else cast(made[k], context.data_type(k))
    return (cast(found, context.data_type(0)), *made[1:])


def _slopes(of: _Bags, grad: Expression, mode: int) -> Any:
    """[places, width]: the slope of each place's row."""
    slopes = cast(grad, F32)
    if mode == _MEAN:
        slopes = dml.divide(slopes, dml.max(cast(of.counts, F32), 1.0))
    found = dml.gather(slopes, of.number, 0)
    return found if of.counted is None else dml.if_(dml.reshape(of.counted, (-1, 1)), found, 0.0)


def _bag_gradient(
    context: Context,
    grad: Expression,
    indices: Expression,
    offsets: Expression,
    _: Any,
    __: Any,
    largest: Any,
    count: int,
    by_frequency: bool,
    mode: int,
    ___: bool,
    per_sample_weights: Expression | None,
    padding: int = -1,
) -> Any:
    if by_frequency:  # PyTorch's kernel divides by how often another index stands there
        raise context.refuse("bags by frequency")
    bags, width = grad.sizes
    of = _bags(context, (0, 2), indices, offsets, bags, padding)
    if mode == _MAX:
        _hold(context, bags, count, width)
        slopes = dml.if_(dml.logical_greater_than(of.counts, 0), cast(grad, F32), 0.0)
        places, slopes = (dml.transpose(one, (1, 0)) for one in (largest, slopes))
        made = dml.transpose(fold_rows(context, context.full(0, F32, (width, count)), places, slopes, "sum"), (1, 0))
    else:
        slopes = _slopes(of, grad, mode)
        if per_sample_weights is not None:
            slopes = dml.multiply(slopes, dml.reshape(cast(per_sample_weights, F32), (-1, 1)))
        made = embedding_gradient(context, slopes, indices, count, padding, False)
    return cast(made, context.data_type())


def _weights_gradient(
    context: Context,
    grad: Expression,
    weight: Expression,
    indices: Expression,
    offsets: Expression,
    _: Any,
    mode: int,
    padding: int = -1,
) -> Any:
    """Of the numbers that rows are multiplied by: the row times its bag's slope."""
    slopes = _slopes(_bags(context, (1, 3), indices, offsets, grad.sizes[0], padding), grad, mode)
    rows = cast(dml.gather(weight, unsigned(indices), 0), F32)
    return cast(dml.sum(dml.multiply(slopes, rows), (1,)), context.data_type())


def _renormed(context: Context, weight: Expression, indices: Expression, most: float, p: float) -> Any:
    """Rows that indices name, shortened to a norm."""
    rows, _ = weight.sizes
    x, count = cast(weight, F32), math.prod(indices.sizes)
    places = unsigned(dml.reshape(cast(indices, INT64), (count,)))
    is_named = dml.scatter(
        context.full(0, DataType.UINT8, (rows,)), places, context.full(1, DataType.UINT8, (count,)), 0
    )
    is_named = dml.reshape(is_named, (rows, 1))
    if p == math.inf:
        norm = dml.amax(dml.abs(x), (1,), True)
    elif p == 1:
        norm = dml.sum(dml.abs(x), (1,), True)
    elif p == 2:
        norm = dml.sqrt(dml.sum(dml.multiply(x, x), (1,), True))
    else:
        norm = dml.constant_pow(dml.sum(dml.constant_pow(dml.abs(x), float(p)), (1,), True), 1 / p)
    is_long = dml.logical_and(is_named, dml.logical_greater_than(norm, float(most)))
    scale = dml.divide(float(most), dml.add(norm, 1e-7))
    return cast(dml.multiply(x, dml.if_(is_long, scale, 1.0)), context.data_type())


OF_NOTHING: dict[str, Lowering] = {
    "_embedding_bag_backward.default": _bag_gradient,
    "_embedding_bag_per_sample_weights_backward.default": _weights_gradient,
}
"""Those that need not be told which bag a place is in: the forward pass gives no elements for it where it sums."""
LOWERINGS: dict[str, Lowering] = {
    **OF_NOTHING,
    "_embedding_bag.default": _embedding_bag,
    "_embedding_bag_forward_only.default": _embedding_bag,
    "_segment_reduce_backward.default": _reduce_gradient,
    "embedding_renorm.default": _renormed,
    "segment_reduce.default": _reduce,
}
