"""Gathers by tensors of indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.torch.lower.context import Context, axis_of, dml
from anydml.torch.lower.movement import reshaped, window
from anydml.torch.lower.scatter import from_start, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


def _embedding(_: Context, weight: Expression, indices: Expression, *__: Any) -> Any:
    return dml.gather(weight, unsigned(indices), 0)


def _select(context: Context, x: Expression, dim: int, indices: Expression) -> Any:
    x = x if x.sizes else dml.reshape(x, (1,))
    return dml.reshape(dml.gather(x, unsigned(indices), axis_of(x, dim)), context.sizes())


def _gather(context: Context, x: Expression, dim: int, indices: Expression, *, sparse_grad: bool = False) -> Any:
    del sparse_grad
    sizes = context.sizes()
    x, indices = (one if one.sizes else dml.reshape(one, (1,)) for one in (x, indices))
    axis = axis_of(x, dim)
    for k, (own, wanted) in enumerate(zip(x.sizes, indices.sizes, strict=True)):
        if k != axis and own != wanted:
            x = window(x, k, 0, wanted)
    return dml.reshape(dml.gather_elements(x, unsigned(indices), axis), sizes)


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
    if len(given) == 1:
        found = dml.gather(x, from_start(given[0], x.sizes[places[0]]), places[0])
        return dml.reshape(found, context.sizes())
    stand_together = places == list(range(places[0], places[0] + len(places)))
    before, count = places[0] if stand_together else 0, len(given)
    rank = len(context.sizes()) - len(x.sizes) + count  # of the indices
    wanted = context.sizes()[before : before + rank]
    rest = [k for k in range(len(x.sizes)) if k not in places]
    if rest != list(range(count, len(x.sizes))):  # what stands before the indexed dimensions moves behind them
        x = dml.transpose(x, [*places, *rest])
    several = []
    for one, size in zip(given, x.sizes, strict=False):
        several.append(dml.expand_dims(dml.broadcast_to(from_start(one, size), wanted), len(wanted)))
    found = dml.gather_nd(x, dml.join(several, len(wanted)))
    if before:  # and back
        behind = range(rank + before, len(found.sizes))
        found = dml.transpose(found, [*range(rank, rank + before), *range(rank), *behind])
    return reshaped(found, context.sizes())


LOWERINGS: dict[str, Lowering] = {
    "embedding.default": _embedding,
    "gather.default": _gather,
    "index.Tensor": _index,
    "index_select.default": _select,
}
