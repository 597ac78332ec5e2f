"""Gathers and scatters by tensors of indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.torch.lower.context import Context, axis_of, cast, dml
from anydml.torch.lower.movement import reshaped, window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


def _embedding(_: Context, weight: Expression, indices: Expression, *__: Any) -> Any:
    return dml.gather(weight, indices, 0)


def _select(context: Context, x: Expression, dim: int, indices: Expression) -> Any:
    if not x.sizes:
        raise context.refuse("an index into one number")
    return dml.reshape(dml.gather(x, indices, axis_of(x, dim)), context.sizes())


def _gather(context: Context, x: Expression, dim: int, indices: Expression, *, sparse_grad: bool = False) -> Any:
    del sparse_grad
    if not x.sizes or not indices.sizes:
        raise context.refuse("an index into one number")
    axis = axis_of(x, dim)
    for k, (own, wanted) in enumerate(zip(x.sizes, indices.sizes, strict=True)):
        if k != axis and own != wanted:
            x = window(x, k, 0, wanted)
    return dml.gather_elements(x, indices, axis)


def _from_start(indices: Expression, size: Any) -> Any:
    """Indices of which negative ones count from the end."""
    return dml.if_(dml.logical_less_than(indices, 0), dml.add(indices, size), indices)


def _index(context: Context, x: Expression, indices: Sequence[Expression | None]) -> Any:
    """x[i, j, :]: tensors of indices that stand side by side are the coordinates of a tuple."""
    places = [k for k, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    if any(
        str(node.meta["val"].dtype) in ("torch.bool", "torch.uint8")
        for node in context.node.args[1]
        if node is not None
    ):
        raise context.refuse("an index by truths")
    if places != list(range(places[0], places[0] + len(places))):
        raise context.refuse("indices that do not stand side by side")
    if len(given) == 1:
        found = dml.gather(x, _from_start(given[0], x.sizes[places[0]]), places[0])
        return dml.reshape(found, context.sizes())
    before, count = places[0], len(given)
    rank = len(context.sizes()) - len(x.sizes) + count  # of the indices
    wanted = context.sizes()[before : before + rank]
    if before:  # what stands before the indexed dimensions moves behind them, and back
        x = dml.transpose(x, [*places, *range(before), *range(before + count, len(x.sizes))])
    several = []
    for one, size in zip(given, x.sizes, strict=False):
        several.append(dml.expand_dims(dml.broadcast_to(_from_start(one, size), wanted), len(wanted)))
    found = dml.gather_nd(x, dml.join(several, len(wanted)))
    if before:
        behind = range(rank + before, len(found.sizes))
        found = dml.transpose(found, [*range(rank, rank + before), *range(rank), *behind])
    return reshaped(found, context.sizes())


def _scatter(context: Context, x: Expression, dim: int, indices: Expression, source: Any, **_: Any) -> Any:
    if not x.sizes or not indices.sizes:
        raise context.refuse("an index into one number")
    axis, kind = axis_of(x, dim), x.data_type
    if isinstance(source, dml.Expression):
        source = cast(source, kind)
        for k, (own, wanted) in enumerate(zip(source.sizes, indices.sizes, strict=True)):
            source = source if own == wanted else window(source, k, 0, wanted)
    else:
        source = context.full(source, kind, indices.sizes)
    return dml.scatter(cast(x, kind), indices, source, axis)


LOWERINGS: dict[str, Lowering] = {
    "embedding.default": _embedding,
    "gather.default": _gather,
    "index.Tensor": _index,
    "index_select.default": _select,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
}
