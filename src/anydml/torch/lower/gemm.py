"""Products of matrices: GEMM, with what is added to it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


_MOST_PRODUCTS = 1 << 26
"""Beyond so many a product of integers, which is no GEMM, loses to PyTorch's."""


def _multiplied(context: Context, a: Expression, b: Expression) -> Any:
    """A product of matrices; of integers as sums of single products, which wrap."""
    kind = context.data_type()
    if kind.is_float:
        return dml.gemm(a, b)
    if str(context.dtype()) == "torch.bool":
        raise context.refuse("a product of truths")
    rank, work = len(a.sizes), DataType.INT64
    if math.prod(a.sizes) * b.sizes[-1] > _MOST_PRODUCTS:
        raise context.refuse("a large product of integers")
    a, b = dml.expand_dims(cast(a, work), rank), dml.expand_dims(cast(b, work), rank - 2)
    return cast(dml.sum(dml.multiply(a, b), (rank - 1,)), kind)


def _scaled(x: Any, factor: float, kind: DataType) -> Any:
    return x if factor == 1 else dml.multiply(x, cast(factor, kind))


def _sum_and_product(
    context: Context, added: Expression, a: Expression, b: Expression, *, beta: float = 1, alpha: float = 1
) -> Any:
    kind = context.data_type()
    if not kind.is_float:
        found = _scaled(_multiplied(context, a, b), alpha, kind)
        return dml.add(_scaled(dml.broadcast_to(added, context.sizes()), beta, kind), found) if beta else found
    if not beta:
        return dml.gemm(a, b, alpha=float(alpha))
    c = dml.broadcast_to(cast(added, kind), context.sizes())
    return dml.gemm(a, b, c, alpha=float(alpha), beta=float(beta))


def _by_vector(context: Context, a: Expression, b: Expression) -> Any:
    a = a if len(a.sizes) == 2 else dml.reshape(a, (1, -1))
    return dml.reshape(_multiplied(context, a, dml.reshape(b, (-1, 1))), context.sizes())


def _sum_and_vector(
    context: Context, added: Expression, a: Expression, b: Expression, *, beta: float = 1, alpha: float = 1
) -> Any:
    kind = context.data_type()
    found = _scaled(_by_vector(context, a, b), alpha, kind)
    return dml.add(_scaled(dml.broadcast_to(added, context.sizes()), beta, kind), found) if beta else found


def _sum_and_products(
    context: Context, added: Expression, a: Expression, b: Expression, *, beta: float = 1, alpha: float = 1
) -> Any:
    """The sum of a batch's products: one product, of the matrices side by side."""
    kind, (batch, rows, inner) = context.data_type(), a.sizes
    wide = dml.reshape(dml.transpose(a, (1, 0, 2)), (rows, batch * inner))
    high = dml.reshape(b, (batch * inner, b.sizes[2]))
    found = _scaled(_multiplied(context, wide, high), alpha, kind)
    return dml.add(_scaled(dml.broadcast_to(added, context.sizes()), beta, kind), found) if beta else found


def _trilinear(
    context: Context,
    a: Expression,
    b: Expression,
    c: Expression,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    _unroll: int = 1,
) -> Any:
    """Sums of products of three tensors, each without some of the dimensions."""

    def expanded(x: Expression, dims: Sequence[int]) -> Any:
        sizes = list(x.sizes)
        for dim in sorted(dims):
            sizes.insert(dim, 1)
        return dml.reshape(x, sizes)

    a, b, c = (expanded(x, dims) for x, dims in ((a, expand1), (b, expand2), (c, expand3)))
    return dml.reshape(dml.sum(dml.multiply(dml.multiply(a, b), c), tuple(sumdim)), context.sizes())


LOWERINGS: dict[str, Lowering] = {
    "mm.default": _multiplied,
    "bmm.default": _multiplied,
    "addmm.default": _sum_and_product,
    "addbmm.default": _sum_and_products,
    "addmv.default": _sum_and_vector,
    "baddbmm.default": _sum_and_product,
    "mv.default": _by_vector,
    "dot.default": _by_vector,
    "vdot.default": _by_vector,
    "_trilinear.default": _trilinear,
}
