"""Operators of tensors that have no elements, and that make some all the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.torch.lower.context import Context, Nothing, cast, dml
from anydml.torch.lower.movement import join, stack
from anydml.torch.lower.segments import OF_NOTHING as SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Lowering = Callable[..., Any]


def _number(number: float) -> Lowering:
    """A fold of nothing: its neutral element, or NaN."""

    def lower(context: Context, *_: Any, **__: Any) -> Any:
        kind = context.data_type()
        if not kind.is_float and math.isnan(number):
            raise context.refuse("no elements")
        return context.full(number, kind, context.sizes())

    return lower


def _numbers(*numbers: float) -> Lowering:
    return lambda context, *_, **__: tuple(
        context.full(number, context.data_type(k), context.sizes(k)) for k, number in enumerate(numbers)
    )


def _joined(function: Callable[..., Any]) -> Lowering:
    """What is joined, without what is nothing."""

    def lower(context: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
        return function(context, [one for one in tensors if not isinstance(one, Nothing)], dim)

    return lower


def _first(context: Context, x: Any, *_: Any, **__: Any) -> Any:
    """A tensor into which nothing is written."""
    if isinstance(x, Nothing):
        raise context.refuse("no elements")
    return cast(x, context.data_type())


def _scaled_first(context: Context, x: Any, *_: Any, beta: float = 1, **__: Any) -> Any:
    """What is added to a product over no terms."""
    if isinstance(x, Nothing):
        raise context.refuse("no elements")
    kind = context.data_type()
    if not beta:
        return context.full(0, kind, context.sizes())
    x = dml.broadcast_to(cast(x, kind), context.sizes())
    return x if beta == 1 else dml.multiply(x, cast(beta, kind))


def _padded(context: Context, _: Nothing, __: Any, number: float = 0) -> Any:
    return context.full(number, context.data_type(), context.sizes())


def _search(context: Context, ordered: Any, values: Any, **_: Any) -> Any:
    """Among nothing all belong at the start."""
    if not isinstance(ordered, Nothing) and not isinstance(values, Nothing):
        raise context.refuse("no elements")
    return context.full(0, context.data_type(), context.sizes())


_LOWERINGS: dict[str, Lowering] = {
    **{f"sum.{kind}": _number(0) for kind in ("default", "dim_IntList")},
    **{f"prod.{kind}": _number(1) for kind in ("default", "dim_int")},
    **{f"any.{kind}": _number(0) for kind in ("default", "dim", "dims")},
    **{f"all.{kind}": _number(1) for kind in ("default", "dim", "dims")},
    **{f"mean.{kind}": _number(math.nan) for kind in ("default", "dim")},
    **{f"{name}.default": _number(math.nan) for name in ("median", "nanmedian")},
    **{f"{name}.correction": _number(math.nan) for name in ("var", "std")},
    **{f"{name}.default": _number(0) for name in ("mm", "bmm", "dot", "vdot", "mv")},
    **{f"{name}.default": _scaled_first for name in ("addmm", "addmv", "baddbmm", "addbmm")},
    **{
        f"{name}.default": _first
        for name in ("index_put", "_unsafe_index_put", "scatter_add", "put", "index_reduce", "masked_scatter")
    },
    **{f"scatter.{kind}": _first for kind in ("src", "value", "reduce", "value_reduce")},
    **SEGMENTS,
    "_cdist_forward.default": _number(0),
    "_cdist_backward.default": _number(0),
    "_pdist_backward.default": _number(0),
    "_trilinear.default": _number(0),
    "bucketize.Tensor": lambda context, values, ordered, **_: _search(context, ordered, values),
    "cat.default": _joined(join),
    "constant_pad_nd.default": _padded,
    "scatter_reduce.two": _first,
    "searchsorted.Tensor": _search,
    "stack.default": _joined(stack),
    "var_mean.correction": _numbers(math.nan, math.nan),
}
OF_NOTHING = {f"aten.{name}": lowering for name, lowering in _LOWERINGS.items()}
"""By the name of an operator and its overload, what builds it where one of its tensors has no elements."""
