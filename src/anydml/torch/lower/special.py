"""Special functions in FLOAT32, by polynomials, asymptotic series and reflection."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.torch.lower.context import Context, cast, dml
from anydml.torch.lower.scatter import within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression

    Lowering = Callable[..., Any]

F32 = DataType.FLOAT32
_MOST_DERIVATIVES = 6


def _of_one(function: Callable[[Any], Any]) -> Lowering:
    return lambda context, x: cast(function(cast(x, F32)), context.data_type())


def polynomial(x: Any, factors: Sequence[float]) -> Any:
    """Horner's rule, the constant term first."""
    found = dml.identity(x, (factors[-1], factors[-2]))
    for one in reversed(factors[:-2]):
        found = dml.add(dml.multiply(found, x), one)
    return found


def below(x: Any, bound: float) -> Any:
    """Whether elements are less than a number."""
    return dml.logical_less_than(x, bound)


def choose(test: Any, a: Any, b: Any) -> Any:
    """One or the other, of which either may be a number."""
    return dml.if_(
        test, a if isinstance(a, dml.Expression) else float(a), b if isinstance(b, dml.Expression) else float(b)
    )


def expm1(x: Any) -> Any:
    """exp(x) - 1: near 0 as 2t/(1 - t) for t = tanh(x/2), which does not cancel."""
    t = dml.tanh(dml.multiply(x, 0.5))
    near = dml.divide(dml.multiply(t, 2.0), dml.subtract(1.0, t))
    return choose(below(dml.abs(x), 0.5), near, dml.subtract(dml.exp(x), 1.0))


_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
         -0.82215223, 0.17087277)  # fmt: skip


def _erfc(x: Any) -> Any:
    """1 - erf(x); from 1/2 on t·exp(-x² + P(t)) for t = 1/(1 + x/2), with a relative error of 1.2e-7.

    x² in two parts, of which the first is exact, for exp(x²) has the absolute error of its argument.
    """
    x_abs = dml.abs(x)
    t = dml.recip(dml.identity(x_abs, (0.5, 1.0)))
    head = dml.multiply(dml.trunc(dml.multiply(x_abs, 16.0)), 1 / 16)
    rest = dml.multiply(dml.subtract(head, x_abs), dml.add(head, x_abs))
    tail = dml.multiply(
        dml.multiply(t, dml.exp(dml.negate(dml.multiply(head, head)))), dml.exp(dml.add(rest, polynomial(t, _ERFC)))
    )
    tail = choose(below(x_abs, 11.0), tail, dml.multiply(tail, 0.0))
    tail = choose(dml.is_infinity(x_abs), 0.0, tail)
    return choose(
        below(x_abs, 0.5), dml.subtract(1.0, dml.erf(x)), choose(below(x, 0.0), dml.subtract(2.0, tail), tail)
    )


def _erfinv(x: Any) -> Any:
    """Giles' polynomials in -log(1 - x²), and one step of Newton's method where erf is not flat."""
    w = dml.negate(dml.log(dml.multiply(dml.subtract(1.0, x), dml.add(1.0, x))))
    near = polynomial(
        dml.subtract(w, 2.5),
        (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
         3.43273939e-07, 2.81022636e-08),
    )  # fmt: skip
    far = polynomial(
        dml.subtract(dml.sqrt(w), 3.0),
        (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
         0.000100950558, -0.000200214257),
    )  # fmt: skip
    found = dml.multiply(x, choose(below(w, 5.0), near, far))
    slope = dml.multiply(dml.exp(dml.negate(dml.multiply(found, found))), 2 / math.sqrt(math.pi))
    better = dml.subtract(found, dml.divide(dml.subtract(dml.erf(found), x), slope))
    found = choose(below(dml.abs(x), 0.9), better, found)
    found = choose(dml.logical_equals(dml.abs(x), 1.0), dml.multiply(x, math.inf), found)
    return choose(below(dml.abs(x), 1.0000001), found, dml.multiply(x, math.nan))


def _sine_of_pi(x: Any) -> Any:
    """sin(πx) up to its sign."""
    return dml.sin(dml.multiply(dml.subtract(x, dml.round(x)), math.pi))


_LANCZOS = (76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.1208650973866179e-2,
            -0.5395239384953e-5)  # fmt: skip


def _lgamma(x: Any) -> Any:
    """log|Γ(x)| by Lanczos' series, of negative numbers by reflection: log(π/|sin πx|) - log Γ(1 - x)."""
    is_left = below(x, 0.5)
    y = choose(is_left, dml.subtract(1.0, x), x)
    series: Any = 1.000000000190015
    for k, one in enumerate(_LANCZOS, 1):
        series = dml.add(dml.divide(one, dml.add(y, float(k))), series)
    shifted = dml.add(y, 5.5)
    # (y + 1/2)·log(shifted) - shifted, with the 5 that cancels taken out of the product.
    found = dml.add(
        dml.subtract(dml.multiply(dml.add(y, 0.5), dml.log(shifted)), shifted),
        dml.log(dml.divide(dml.multiply(series, 2.5066282746310005), y)),
    )
    mirrored = dml.subtract(dml.subtract(math.log(math.pi), dml.log(dml.abs(_sine_of_pi(x)))), found)
    found = choose(is_left, mirrored, found)
    is_pole = dml.logical_and(dml.logical_less_than_or_equal(x, 0.0), dml.logical_equals(dml.floor(x), x))
    return choose(dml.logical_or(is_pole, dml.is_infinity(x)), math.inf, found)


def _digamma(x: Any) -> Any:
    """ψ(x): eight steps of its recurrence, then its asymptotic series; of negative numbers ψ(1 - x) - π/tan(πx)."""
    is_left = below(x, 0.0)
    y = choose(is_left, dml.subtract(1.0, x), x)
    steps: Any = 0.0
    for k in range(8):
        steps = dml.add(dml.recip(dml.add(y, float(k))), steps)
    far = dml.add(y, 8.0)
    square = dml.recip(dml.multiply(far, far))
    series = dml.multiply(square, polynomial(square, (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)))
    found = dml.subtract(dml.subtract(dml.subtract(dml.log(far), dml.multiply(dml.recip(far), 0.5)), series), steps)
    part = dml.subtract(x, dml.round(x))
    tangent = dml.divide(math.pi, dml.tan(dml.multiply(part, math.pi)))
    found = choose(is_left, dml.subtract(found, tangent), found)
    is_whole = dml.logical_and(is_left, dml.logical_equals(dml.floor(x), x))
    found = choose(is_whole, math.nan, found)
    found = choose(dml.logical_equals(x, 0.0), dml.negate(dml.recip(x)), found)
    return choose(dml.logical_equals(x, math.inf), math.inf, found)


def _ndtri(p: Any) -> Any:
    """The quantile of the normal distribution: Wichura's PPND7, right to about 7 digits."""
    q = dml.subtract(p, 0.5)
    r = dml.subtract(0.180625, dml.multiply(q, q))
    middle = dml.multiply(
        q,
        dml.divide(
            polynomial(r, (3.3871327179, 50.434271938, 159.29113202, 59.109374720)),
            polynomial(r, (1.0, 17.895169469, 78.757757664, 67.187563600)),
        ),
    )
    is_left = below(q, 0.0)
    root = dml.sqrt(dml.negate(dml.log(choose(is_left, p, dml.subtract(1.0, p)))))
    less, more = dml.subtract(root, 1.6), dml.subtract(root, 5.0)
    near = dml.divide(
        polynomial(less, (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103)),
        polynomial(less, (1.0, 0.73700164250, 0.12021132975)),
    )
    far = dml.divide(
        polynomial(more, (6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997)),
        polynomial(more, (1.0, 0.24197894225, 0.012258202635)),
    )
    outer = choose(below(root, 5.0), near, far)
    outer = choose(is_left, dml.negate(outer), outer)
    found = choose(below(dml.abs(q), 0.425), middle, outer)
    found = choose(dml.logical_equals(p, 0.0), -math.inf, choose(dml.logical_equals(p, 1.0), math.inf, found))
    return choose(
        dml.logical_and(dml.logical_less_than_or_equal(0.0, p), dml.logical_less_than_or_equal(p, 1.0)), found, math.nan
    )


# Bessel functions: the polynomials of Abramowitz and Stegun, 9.4 and 9.8

_I0 = (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813)
_I0_FAR = (
    0.39894228,
    0.01328592,
    0.00225319,
    -0.00157565,
    0.00916281,
    -0.02057706,
    0.02635537,
    -0.01647633,
    0.00392377,
)
_I1 = (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411)
_I1_FAR = (
    0.39894228,
    -0.03988024,
    -0.00362018,
    0.00163801,
    -0.01031555,
    0.02282967,
    -0.02895312,
    0.01787654,
    -0.00420059,
)
_K0 = (-0.57721566, 0.42278420, 0.23069756, 0.03488590, 0.00262698, 0.00010750, 0.00000740)
_K0_FAR = (1.25331414, -0.07832358, 0.02189568, -0.01062446, 0.00587872, -0.00251540, 0.00053208)
_K1 = (1.0, 0.15443144, -0.67278579, -0.18156897, -0.01919402, -0.00110404, -0.00004686)
_K1_FAR = (1.25331414, 0.23498619, -0.03655620, 0.01504268, -0.00780353, 0.00325614, -0.00068245)


def _square(x: Any) -> Any:
    return dml.multiply(x, x)


def _modified(order: int, *, scaled: bool) -> Callable[[Any], Any]:
    """I0 or I1, scaled by exp(-|x|) or as it is."""
    near, far = (_I1, _I1_FAR) if order else (_I0, _I0_FAR)

    def function(x: Any) -> Any:
        size = dml.abs(x)
        small = polynomial(_square(dml.multiply(x, 1 / 3.75)), near)
        large = dml.divide(polynomial(dml.divide(3.75, dml.max(size, 3.75)), far), dml.sqrt(size))
        if scaled:
            small = dml.multiply(small, dml.exp(dml.negate(size)))
        else:
            half = dml.exp(dml.multiply(size, 0.5))  # exp(x) overflows before I0 does
            large = dml.multiply(dml.multiply(large, half), half)
        if order:
            small = dml.multiply(small, x)
            large = choose(below(x, 0.0), dml.negate(large), large)
        found = choose(below(size, 3.75), small, large)
        return choose(dml.is_nan(x), x, found)

    return function


def _modified_second(order: int, *, scaled: bool) -> Callable[[Any], Any]:
    """K0 or K1, scaled by exp(x) or as it is."""
    near, far = (_K1, _K1_FAR) if order else (_K0, _K0_FAR)

    def function(x: Any) -> Any:
        log = dml.log(dml.multiply(x, 0.5))
        small = polynomial(_square(dml.multiply(x, 0.5)), near)
        if order:
            small = dml.divide(dml.add(dml.multiply(dml.multiply(x, log), _modified(1, scaled=False)(x)), small), x)
        else:
            small = dml.subtract(small, dml.multiply(log, _modified(0, scaled=False)(x)))
        large = dml.divide(polynomial(dml.divide(2.0, dml.max(x, 2.0)), far), dml.sqrt(x))
        if scaled:
            small = dml.multiply(small, dml.exp(x))
        else:
            large = dml.multiply(large, dml.exp(dml.negate(x)))
        found = choose(below(x, 2.0), small, large)
        found = choose(dml.logical_equals(x, 0.0), math.inf, found)
        return choose(below(x, 0.0), math.nan, found)

    return function


_LOWERED_MODIFIED = {
    "i0": (0, False), "special_i0e": (0, True), "special_i1": (1, False), "special_i1e": (1, True),
    "special_modified_bessel_i0": (0, False), "special_modified_bessel_i1": (1, False),
}  # fmt: skip
_LOWERED_SECOND = {
    "special_modified_bessel_k0": (0, False), "special_modified_bessel_k1": (1, False),
    "special_scaled_modified_bessel_k0": (0, True), "special_scaled_modified_bessel_k1": (1, True),
}  # fmt: skip


_J0 = (1.0, -2.2499997, 1.2656208, -0.3163866, 0.0444479, -0.0039444, 0.0002100)
_J1 = (0.5, -0.56249985, 0.21093573, -0.03954289, 0.00443319, -0.00031761, 0.00001109)
_Y0 = (0.36746691, 0.60559366, -0.74350384, 0.25300117, -0.04261214, 0.00427916, -0.00024846)
_Y1 = (-0.6366198, 0.2212091, 2.1682709, -1.3164827, 0.3123951, -0.0400976, 0.0027873)
_SIZES = (
    (0.79788456, -0.00000077, -0.00552740, -0.00009512, 0.00137237, -0.00072805, 0.00014476),
    (0.79788456, 0.00000156, 0.01659667, 0.00017105, -0.00249511, 0.00113653, -0.00020033),
)
_ANGLES = (
    (-0.78539816, -0.04166397, -0.00003954, 0.00262573, -0.00054125, -0.00029333, 0.00013558),
    (-2.35619449, 0.12499612, 0.00005650, -0.00637879, 0.00074348, 0.00079824, -0.00029166),
)
"""Of orders 0 and 1 in 3/x: the amplitude times √x, and the angle less x."""


def _bessel(order: int, *, second: bool) -> Callable[[Any], Any]:
    """J or Y of order 0 or 1."""

    def function(x: Any) -> Any:
        size = x if second else dml.abs(x)
        part = dml.divide(3.0, dml.max(size, 3.0))
        angle = dml.add(polynomial(part, _ANGLES[order]), size)
        wave = dml.sin(angle) if second else dml.cos(angle)
        large = dml.multiply(dml.divide(polynomial(part, _SIZES[order]), dml.sqrt(size)), wave)
        square = _square(dml.multiply(x, 1 / 3))
        small = polynomial(square, _J1 if order else _J0)
        small = dml.multiply(small, x) if order else small
        if second:
            log = dml.multiply(dml.log(dml.multiply(x, 0.5)), 2 / math.pi)
            near = polynomial(square, _Y1 if order else _Y0)
            small = dml.add(dml.multiply(log, small), dml.divide(near, x) if order else near)
        elif order:
            large = choose(below(x, 0.0), dml.negate(large), large)
        found = choose(below(size, 3.0), small, large)
        found = choose(dml.is_infinity(x), 0.0, found)
        if second:
            found = choose(dml.logical_equals(x, 0.0), -math.inf, choose(below(x, 0.0), math.nan, found))
        return choose(dml.is_nan(x), x, found)

    return function


def _spherical(x: Any) -> Any:
    """sin(x)/x, near 0 by its series."""
    near = polynomial(_square(x), (1.0, -1 / 6, 1 / 120, -1 / 5040))
    found = choose(below(dml.abs(x), 0.5), near, dml.divide(dml.sin(x), x))
    return choose(dml.is_infinity(x), 0.0, found)


def _erfcx(x: Any) -> Any:
    """exp(x²)·erfc(x), of negative numbers by erfc(x) = 2 - erfc(-x)."""
    size = dml.abs(x)
    t = dml.recip(dml.identity(size, (0.5, 1.0)))
    found = dml.multiply(t, dml.exp(polynomial(t, _ERFC)))
    mirrored = dml.subtract(dml.multiply(dml.exp(dml.multiply(x, x)), 2.0), found)
    found = choose(dml.logical_equals(x, math.inf), 0.0, found)
    return choose(below(x, 0.0), mirrored, found)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)


def _powers_of_cotangent(order: int) -> list[float]:
    """The derivative of π·cot(πx) of an order, as a polynomial in the cotangent: (cot πx)' = -π·(1 + cot² πx)."""
    found = [0.0, math.pi]
    for _ in range(order):
        slope = [k * one for k, one in enumerate(found)][1:]
        found = [-math.pi * (a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return found


def _derivative_of_digamma(order: int) -> Callable[[Any], Any]:
    """ψ⁽ⁿ⁾(x): six steps of its recurrence, then its asymptotic series; to the left of 1/2 by reflection."""
    sign, factorial = (-1.0) ** (order + 1), float(math.factorial(order))

    def function(x: Any) -> Any:
        is_left = below(x, 0.5)
        y = choose(is_left, dml.subtract(1.0, x), x)
        steps: Any = 0.0
        for k in range(6):
            steps = dml.add(dml.constant_pow(dml.add(y, float(k)), -(order + 1.0)), steps)
        far = dml.add(y, 6.0)
        square = dml.recip(_square(far))
        factors = [math.factorial(order - 1)] + [
            one * math.factorial(2 * k + order - 1) / math.factorial(2 * k) for k, one in enumerate(_BERNOULLI, 1)
        ]
        series = dml.multiply(polynomial(square, factors), dml.constant_pow(far, -float(order)))
        half = dml.multiply(dml.constant_pow(far, -(order + 1.0)), factorial / 2)
        found = dml.multiply(dml.add(dml.add(series, half), dml.multiply(steps, factorial)), sign)
        cotangent = dml.recip(dml.tan(dml.multiply(dml.subtract(x, dml.round(x)), math.pi)))
        turned = polynomial(cotangent, _powers_of_cotangent(order))
        # ψ⁽ⁿ⁾(1 - x) = (-1)ⁿ·(ψ⁽ⁿ⁾(x) + (π·cot πx)⁽ⁿ⁾)
        mirrored = dml.subtract(dml.multiply(found, -sign), turned)
        found = choose(is_left, mirrored, found)
        is_pole = dml.logical_and(dml.logical_less_than_or_equal(x, 0.0), dml.logical_equals(dml.floor(x), x))
        return choose(is_pole, sign * math.inf, found)

    return function


def _polygamma(context: Context, order: int, x: Expression) -> Any:
    if order > _MOST_DERIVATIVES:
        raise context.refuse("a high derivative of the digamma function")
    function = _derivative_of_digamma(order) if order else _digamma
    return cast(function(cast(x, F32)), context.data_type())


def _mantissa_and_exponent(context: Context, x: Expression) -> Any:
    mantissa, exponent = _split(context, cast(x, F32))
    return cast(mantissa, context.data_type(0)), cast(exponent, context.data_type(1))


def _split(context: Context, x: Expression) -> tuple[Any, Any]:
    """x as m·2ᵉ with 1/2 <= |m| < 1: scaled by powers of two, which is exact."""
    mantissa, exponent = x, context.full(0, F32, x.sizes)
    for power in (64, 32, 16, 8, 4, 2, 1):
        is_large = dml.logical_greater_than_or_equal(dml.abs(mantissa), 2.0**power / 2)
        mantissa = dml.if_(is_large, dml.multiply(mantissa, 2.0**-power), mantissa)
        exponent = dml.if_(is_large, dml.add(exponent, float(power)), exponent)
    mantissa, exponent = (
        dml.if_(dml.logical_greater_than_or_equal(dml.abs(mantissa), 1.0), b, a)
        for a, b in ((mantissa, dml.multiply(mantissa, 0.5)), (exponent, dml.add(exponent, 1.0)))
    )
    for power in (64, 64, 32, 16, 8, 4, 2, 1):
        is_small = below(dml.abs(mantissa), 2.0**-power)
        mantissa = dml.if_(is_small, dml.multiply(mantissa, 2.0**power), mantissa)
        exponent = dml.if_(is_small, dml.subtract(exponent, float(power)), exponent)
    is_small = below(dml.abs(mantissa), 0.5)
    mantissa = dml.if_(is_small, dml.multiply(mantissa, 2.0), mantissa)
    exponent = dml.if_(is_small, dml.subtract(exponent, 1.0), exponent)
    is_plain = dml.logical_or(dml.logical_equals(x, 0.0), dml.logical_or(dml.is_infinity(x), dml.is_nan(x)))
    return dml.if_(is_plain, x, mantissa), dml.if_(is_plain, 0.0, exponent)


_FORMATS = {DataType.FLOAT32: (24, -149), DataType.FLOAT16: (11, -24)}
"""Of a type the bits of its significands, and the exponent of its least number."""


def _next(context: Context, x: Expression, toward: Expression) -> Any:
    """The next number: one unit of the last place away, half of one toward 0 from a power of two."""
    kind = context.data_type()
    bits, least = _FORMATS[kind]
    largest = float(np.finfo(kind.dtype).max)
    x, toward = (dml.broadcast_to(cast(one, F32), context.sizes()) for one in (x, toward))
    mantissa, exponent = _split(context, x)
    goes_up = dml.logical_greater_than(toward, x)
    is_inward = dml.logical_xor(dml.logical_less_than(x, 0.0), dml.logical_not(goes_up))
    is_halved = dml.logical_and(is_inward, dml.logical_equals(dml.abs(mantissa), 0.5))
    place = dml.subtract(dml.subtract(exponent, float(bits)), cast(is_halved, F32))
    place = dml.if_(dml.logical_equals(x, 0.0), float(least), dml.max(place, float(least)))
    powers = context.graph.constant(np.ldexp(1.0, np.arange(least, 106)).astype(np.float32))
    step = dml.gather(powers, cast(dml.subtract(place, float(least)), DataType.INT64), 0)
    found = dml.if_(goes_up, dml.add(x, step), dml.subtract(x, step))
    if kind is not F32:
        found = dml.if_(dml.logical_greater_than(dml.abs(found), largest), dml.multiply(found, math.inf), found)
    found = dml.if_(dml.is_infinity(x), dml.clip1(x, -largest, largest), found)
    # -0 has +0 beside it: what is reached from the least number keeps its sign
    is_last = dml.logical_equals(found, 0.0)
    found = dml.if_(is_last, dml.multiply(x, 0.0), found)
    found = dml.if_(dml.logical_equals(x, toward), toward, found)
    is_nan = dml.logical_or(dml.is_nan(x), dml.is_nan(toward))
    return cast(dml.if_(is_nan, math.nan, found), kind)


# The Airy function: Cephes' rational functions far from 0, between them its series

_AIRY_RIGHT = (
    (3.46538101525629032477e-01, 1.20075952739645805542e01, 7.62796053615234516538e01, 1.68089224934630576269e02,
     1.59756391350164413639e02, 7.05360906840444183113e01, 1.40264691163389668864e01, 1.0),
    (5.67594532638770212846e-01, 1.47562562584847203173e01, 8.45138970141474626562e01, 1.77318088145400459522e02,
     1.64234692871529701831e02, 7.14778400825575695274e01, 1.40959135607834029598e01, 1.0),
)  # fmt: skip
_AIRY_SINE = (
    (-1.31696323418331795333e-01, -6.26456544431912369773e-01, -6.93158036036933542233e-01,
     -2.79779981545119124951e-01, -4.91900132609500318020e-02, -4.06265923594885404393e-03,
     -1.59276496239262096340e-04, -2.77649108155232920844e-06, -1.67787698489114633780e-08),
    (1.33560420706553243746e01, 3.26825032795224613948e01, 2.67367040941499554804e01, 9.18707402907259625840e00,
     1.47529146771666414581e00, 1.15687173795188044134e-01, 4.40291641615211203805e-03, 7.54720348287414296618e-05,
     4.51850092970580378464e-07),
)  # fmt: skip
_AIRY_COSINE = (
    (1.97339932091685679179e-02, 3.91103029615688277255e-01, 1.06579897599595591108e00, 9.39169229816650230044e-01,
     3.51465656105547619242e-01, 6.33888919628925490927e-02, 5.85804113048388458567e-03, 2.82851600836737019778e-04,
     6.98793669997260967291e-06, 8.11789239554389293311e-08, 3.41551784765923618484e-10),
    (9.30892908077441974853e00, 1.98352928718312140417e01, 1.55646628932864612953e01, 5.47686069422975497931e00,
     9.54293611618961883998e-01, 8.64580826352392193095e-02, 4.12656523824222607191e-03, 1.01259085116509135510e-04,
     1.17166733214413521882e-06, 4.91834570062930015649e-09),
)  # fmt: skip
"""The highest power first."""


def _ratio(x: Any, of: tuple[Sequence[float], Sequence[float]]) -> Any:
    return dml.divide(*(polynomial(x, one[::-1]) for one in of))


def _airy(x: Any) -> Any:
    size = dml.abs(x)
    root = dml.sqrt(size)
    zeta = dml.multiply(dml.multiply(size, root), 2 / 3)
    far = dml.max(zeta, 1.0)
    part, fourth = dml.recip(far), dml.sqrt(dml.max(root, 0.5))
    right = dml.multiply(dml.divide(_ratio(part, _AIRY_RIGHT), dml.multiply(fourth, dml.exp(zeta))), 0.5 * _ROOT)
    square = _square(part)
    angle = dml.add(zeta, math.pi / 4)
    sine = dml.multiply(dml.sin(angle), dml.add(dml.multiply(square, _ratio(square, _AIRY_SINE)), 1.0))
    cosine = dml.multiply(dml.cos(angle), dml.multiply(part, _ratio(square, _AIRY_COSINE)))
    left = dml.multiply(dml.divide(dml.subtract(sine, cosine), fourth), _ROOT)
    cube = dml.multiply(_square(x), x)
    even, odd = [0.355028053887817239260], [-0.258819403792806798405]
    for k in range(1, 10):
        even.append(even[-1] / ((3 * k - 1) * 3 * k))
        odd.append(odd[-1] / (3 * k * (3 * k + 1)))
    middle = dml.add(polynomial(cube, even), dml.multiply(x, polynomial(cube, odd)))
    found = choose(below(x, -2.09), left, choose(below(x, 2.09), middle, right))
    found = choose(dml.logical_greater_than(x, 103.892), 0.0, found)
    return choose(dml.is_infinity(x), math.nan, found)


_ROOT = 1 / math.sqrt(math.pi)


_MOST_TERMS = 24
"""Of Hurwitz' sum: what is further left than -14 is PyTorch's."""
_ZETA = tuple(
    math.factorial(2 * k) / number
    for k, number in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1)
)
"""(2k)!/B(2k), of Euler's and Maclaurin's formula."""


def _zeta(context: Context, x: Any, q: Any) -> Any:
    """Σ (q + k)⁻ˣ: ten terms and as many more as q is less than 0, then Euler's and Maclaurin's formula."""
    sizes = context.sizes()
    x, q = (
        dml.broadcast_to(cast(one, F32) if isinstance(one, dml.Expression) else context.constant(one, F32), sizes)
        for one in (x, q)
    )
    steps = dml.ceil(dml.subtract(10.0, dml.min(dml.clip1(q, -1e6, 1e6), 0.0)))
    has_sum = dml.logical_and(dml.logical_greater_than(x, 1.0), dml.logical_greater_than(q, -1e6))
    steps = within(context, cast(dml.if_(has_sum, steps, 0.0), DataType.INT64), _MOST_TERMS + 1)
    steps = cast(steps, F32)
    power = dml.negate(x)
    total: Any = context.full(0, F32, sizes)
    for k in range(_MOST_TERMS):
        term = dml.pow(dml.add(q, float(k)), power)
        total = dml.add(total, dml.if_(dml.logical_less_than(float(k), steps), term, 0.0))
    # what is left begins at w = q + steps: w¹⁻ˣ/(x - 1) + w⁻ˣ/2 + Σ B(2k)/(2k)!·x·(x + 1)···(x + 2k - 2)·w¹⁻ˣ⁻²ᵏ
    far = dml.add(q, steps)
    first = dml.pow(far, power)
    total = dml.add(total, dml.divide(dml.multiply(first, far), dml.subtract(x, 1.0)))
    total = dml.add(total, dml.multiply(first, 0.5))
    factor, inverse = dml.divide(dml.multiply(first, x), far), dml.recip(dml.multiply(far, far))
    for k, one in enumerate(_ZETA, 1):
        total = dml.add(total, dml.multiply(factor, 1 / one))
        ahead = dml.multiply(dml.add(x, 2.0 * k - 1), dml.add(x, 2.0 * k))
        factor = dml.multiply(dml.multiply(factor, ahead), inverse)
    # of a large x 0·∞, and of an infinite one from 1 on PyTorch's NaN
    is_finite = dml.logical_less_than(dml.abs(x), math.inf)
    total = dml.if_(dml.logical_and(dml.is_nan(total), dml.logical_and(is_finite, has_sum)), 0.0, total)
    at_limit = dml.if_(below(q, 1.0), math.inf, dml.if_(dml.logical_equals(q, 1.0), 1.0, total))
    total = dml.if_(dml.is_infinity(x), at_limit, total)
    is_whole = dml.logical_equals(dml.floor(q), q)
    left = dml.if_(is_whole, math.inf, dml.if_(dml.logical_equals(dml.floor(x), x), total, math.nan))
    found = dml.if_(dml.logical_greater_than(q, 0.0), total, left)
    found = dml.if_(dml.logical_equals(x, 1.0), math.inf, dml.if_(below(x, 1.0), math.nan, found))
    return cast(found, context.data_type())


LOWERINGS: dict[str, Lowering] = {
    **{
        f"{name}.default": _of_one(_modified(k, scaled=is_scaled)) for name, (k, is_scaled) in _LOWERED_MODIFIED.items()
    },
    **{
        f"{name}.default": _of_one(_modified_second(k, scaled=is_scaled))
        for name, (k, is_scaled) in _LOWERED_SECOND.items()
    },
    **{f"special_bessel_j{k}.default": _of_one(_bessel(k, second=False)) for k in (0, 1)},
    **{f"special_bessel_y{k}.default": _of_one(_bessel(k, second=True)) for k in (0, 1)},
    "nextafter.default": _next,
    "special_airy_ai.default": _of_one(_airy),
    "frexp.Tensor": _mantissa_and_exponent,
    "special_erfcx.default": _of_one(_erfcx),
    "special_spherical_bessel_j0.default": _of_one(_spherical),
    "digamma.default": _of_one(_digamma),
    "erfc.default": _of_one(_erfc),
    "erfinv.default": _of_one(_erfinv),
    "exp2.default": _of_one(lambda x: dml.exp(dml.multiply(x, math.log(2)))),
    "expm1.default": _of_one(expm1),
    "lgamma.default": _of_one(_lgamma),
    "log10.default": _of_one(lambda x: dml.multiply(dml.log(x), 1 / math.log(10))),
    "log2.default": _of_one(lambda x: dml.multiply(dml.log(x), 1 / math.log(2))),
    "polygamma.default": _polygamma,
    **{f"special_zeta.{kind}": _zeta for kind in ("default", "self_scalar", "other_scalar")},
    "special_ndtri.default": _of_one(_ndtri),
}
