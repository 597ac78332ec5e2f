"""Orthogonal polynomials in FLOAT32 whose degrees are elements: Chebyshev's, Hermite's, Laguerre's, Legendre's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.scatter import within
from anydml.torch.lower.special import below, choose

if TYPE_CHECKING:
    from collections.abc import Callable

    Lowering = Callable[..., Any]

F32, INT64 = DataType.FLOAT32, DataType.INT64
_BITS = 24
"""Degrees beyond 2²⁴ are no numbers of FLOAT32 that follow one another."""


def _chebyshev(kind: str, *, shifted: bool) -> Lowering:
    """Chebyshev's polynomials by degrees that are elements: U of n - 1 and n by doubling, and T, V or W from them.

    U(2n-1) = 2·U(n-1)·(U(n) - x·U(n-1)), U(2n) = U(n)² - U(n-1)², U(n+1) = 2x·U(n) - U(n-1).
    """

    def lower(context: Context, x: Any, n: Any) -> Any:
        sizes = context.sizes()
        x = cast(x, F32) if isinstance(x, dml.Expression) else context.constant(x, F32)
        x = dml.broadcast_to(x, sizes)
        x = dml.identity(x, (2.0, -1.0)) if shifted else x
        if not isinstance(n, dml.Expression) and n < 0:
            return context.full(0, context.data_type(), sizes)
        twice = dml.multiply(x, 2.0)
        low: Any = context.full(0, F32, sizes)  # U(-1)
        high: Any = context.full(1, F32, sizes)  # U(0)
        for is_set in _digits(context, n):
            doubled = dml.multiply(dml.multiply(low, 2.0), dml.subtract(high, dml.multiply(x, low)))
            even = dml.multiply(dml.subtract(high, low), dml.add(high, low))
            if is_set is False:
                low, high = doubled, even
                continue
            odd = dml.subtract(dml.multiply(twice, even), doubled)
            if is_set is True:
                low, high = even, odd
            else:
                low, high = dml.if_(is_set, even, doubled), dml.if_(is_set, odd, even)
        if kind == "u":
            found = high
        elif kind == "t":
            found = dml.subtract(high, dml.multiply(x, low))
        else:
            found = (dml.subtract if kind == "v" else dml.add)(high, low)
        if isinstance(n, dml.Expression):
            found = choose(below(dml.trunc(cast(n, F32)), 0), 0.0, found)
        return cast(found, context.data_type())

    return lower


def _digits(context: Context, n: Any) -> list[Any]:
    """The binary digits of degrees from the first on: truths of a number's, of a tensor's a tensor each."""
    if not isinstance(n, dml.Expression):
        return [digit == "1" for digit in f"{int(n):b}"]
    most = 1 if context.is_boolean(1) else min(_BITS, 8 * n.data_type.size_in_bytes)
    if n.data_type.is_float:
        n, most = dml.clip1(dml.trunc(cast(n, F32)), 0.0, 2.0**_BITS - 1), _BITS
    n = cast(n, DataType.UINT32)
    return [
        dml.logical_greater_than(dml.bit_and(n, context.constant(1 << k, DataType.UINT32)), 0)
        for k in reversed(range(most))
    ]


# By recurrence: steps as many as the largest degree, of which each element takes its own

_MOST_DEGREES = 64
"""Degrees for which a tensor of them is ours; of larger ones the call is PyTorch's."""
_HERMITE_LIMIT = 128
"""Degrees beyond it are NaN for PyTorch, in FLOAT32."""


class _Recurrence(NamedTuple):
    """P(0) = 1, P(1), and P(k + 1) of x, k, P(k) and P(k - 1)."""

    first: Callable[[Any], Any]
    following: Callable[[Any, int, Any, Any], Any]
    limit: int | None = None


def _hermite(x: Any, k: int, high: Any, low: Any) -> Any:
    return dml.subtract(dml.multiply(dml.multiply(x, 2.0), high), dml.multiply(low, 2.0 * k))


def _hermite_of_probability(x: Any, k: int, high: Any, low: Any) -> Any:
    return dml.subtract(dml.multiply(x, high), dml.multiply(low, float(k)))


def _laguerre(x: Any, k: int, high: Any, low: Any) -> Any:
    factor = dml.add(dml.subtract(1.0, x), 2.0 * k)
    return dml.divide(dml.subtract(dml.multiply(factor, high), dml.multiply(low, float(k))), k + 1.0)


def _legendre(x: Any, k: int, high: Any, low: Any) -> Any:
    return dml.divide(
        dml.subtract(dml.multiply(dml.multiply(x, 2.0 * k + 1), high), dml.multiply(low, float(k))), k + 1.0
    )


_RECURRENCES = {
    "hermite_polynomial_h": _Recurrence(lambda x: dml.multiply(x, 2.0), _hermite, _HERMITE_LIMIT),
    "hermite_polynomial_he": _Recurrence(lambda x: x, _hermite_of_probability, _HERMITE_LIMIT),
    "laguerre_polynomial_l": _Recurrence(lambda x: dml.subtract(1.0, x), _laguerre),
    "legendre_polynomial_p": _Recurrence(lambda x: x, _legendre),
}


def _by_recurrence(name: str) -> Lowering:
    of = _RECURRENCES[name]

    def lower(context: Context, x: Any, n: Any) -> Any:
        sizes = context.sizes()
        known = None if isinstance(n, dml.Expression) else int(n)
        x = cast(x, F32) if isinstance(x, dml.Expression) else context.constant(x, F32)
        x = dml.broadcast_to(x, sizes)
        if known is not None and known < 0:
            return context.full(0, context.data_type(), sizes)
        most = of.limit or _MOST_DEGREES
        if known is not None and known > most:
            if of.limit is None:
                raise context.refuse("a polynomial of a high degree")
            return context.full(math.nan, context.data_type(), sizes)
        degree = None if known is not None else dml.broadcast_to(_degrees(context, n, of.limit), sizes)
        low, high = context.full(1, F32, sizes), of.first(x)
        found = low if known in (None, 0) else high
        for k in range(1, (known if known is not None else most) + 1):
            if degree is not None:
                found = dml.if_(dml.logical_equals(degree, k), high, found)
            if known is None or k < known:
                low, high = high, of.following(x, k, high, low)
                found = found if known is None else high
        if name == "legendre_polynomial_p":  # to the last digit where |x| = 1
            parity = _parity(context, known, degree)
            found = choose(dml.logical_equals(x, 1.0), 1.0, choose(dml.logical_equals(x, -1.0), parity, found))
        elif name == "laguerre_polynomial_l":
            found = choose(dml.logical_equals(x, 0.0), 1.0, found)
        if degree is not None:
            found = choose(dml.logical_less_than(degree, 0), 0.0, found)
            if of.limit is not None:
                found = choose(dml.logical_greater_than(degree, of.limit), math.nan, found)
        return cast(found, context.data_type())

    return lower


def _degrees(context: Context, n: Any, limit: int | None) -> Any:
    """Whole degrees; where there is no limit a larger one than are looked at is out of range."""
    if n.data_type.is_float:
        n = cast(n, F32)
        is_finite = dml.logical_less_than(dml.abs(n), math.inf)
        n = dml.if_(is_finite, dml.clip1(n, -1.0, 2.0**20), -1.0 if limit else 2.0**20)
    degree = cast(n, INT64)
    if limit is not None:
        return degree
    return within(context, degree, _MOST_DEGREES + 1)


def _parity(context: Context, known: int | None, degree: Any) -> Any:
    """(-1)ⁿ."""
    if known is not None:
        return -1.0 if known % 2 else 1.0
    is_odd = dml.logical_equals(dml.modulus_floor(degree, 2), 1)
    return dml.if_(is_odd, context.constant(-1, F32), context.constant(1, F32))


LOWERINGS: dict[str, Lowering] = {
    **{
        f"special_{way}chebyshev_polynomial_{kind}.{overload}": _chebyshev(kind, shifted=bool(way))
        for way in ("", "shifted_")
        for kind in "tuvw"
        for overload in ("default", "x_scalar", "n_scalar")
    },
    **{
        f"special_{name}.{overload}": _by_recurrence(name)
        for name in _RECURRENCES
        for overload in ("default", "x_scalar", "n_scalar")
    },
}
