"""Products of matrices: GEMM, with what is added to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.torch.lower.context import Context, cast, dml

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]


def _of_floats(context: Context) -> None:
    if not context.data_type().is_float:
        raise context.refuse("a product of integers")


def _product(context: Context, a: Expression, b: Expression) -> Any:
    _of_floats(context)
    return dml.gemm(a, b)


def _sum_and_product(
    context: Context, added: Expression, a: Expression, b: Expression, *, beta: float = 1, alpha: float = 1
) -> Any:
    _of_floats(context)
    if not beta:
        return dml.gemm(a, b, alpha=float(alpha))
    c = dml.broadcast_to(cast(added, context.data_type()), context.sizes())
    return dml.gemm(a, b, c, alpha=float(alpha), beta=float(beta))


def _by_vector(context: Context, a: Expression, b: Expression) -> Any:
    _of_floats(context)
    return dml.reshape(dml.matmul(a, b), context.sizes())


LOWERINGS: dict[str, Lowering] = {
    "mm.default": _product,
    "bmm.default": _product,
    "addmm.default": _sum_and_product,
    "baddbmm.default": _sum_and_product,
    "mv.default": _by_vector,
    "dot.default": _by_vector,
}
