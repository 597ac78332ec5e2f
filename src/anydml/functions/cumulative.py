"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.calls import Attempt, make_call
from anydml.enums import AxisDirection
from anydml.operators import CumulativeProduct, CumulativeSummation

if TYPE_CHECKING:
    from anydml.runtime.device import Device


def cumulative_summation(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_sum: bool = False,
    *,
    allow_float64: bool = False,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_SUMMATION: the running sum along an axis. `out=x` works in place.

    `allow_float64=True` takes float64 as well, which DirectML does not.

    >>> cumulative_summation(np.array([2, 1, 3, 5]), 0)
    array([ 2,  3,  6, 11])
    """
    attempt = Attempt(CumulativeSummation, device, out, (x,), axis, axis_direction, has_exclusive_sum, allow_float64)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(CumulativeSummation, device, out, x, key=attempt.key)
    return call.run(
        axis=call.axis(axis),
        axis_direction=axis_direction,
        has_exclusive_sum=has_exclusive_sum,
        allow_float64=allow_float64,
    )


def cumulative_product(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_product: bool = False,
    *,
    allow_float64: bool = False,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_PRODUCT: the running product along an axis. `out=x` works in place.

    `allow_float64=True` takes float64 as well, which DirectML does not.

    >>> cumulative_product(np.array([2, 1, 3, 5]), 0)
    array([ 2,  2,  6, 30])
    """
    attempt = Attempt(CumulativeProduct, device, out, (x,), axis, axis_direction, has_exclusive_product, allow_float64)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(CumulativeProduct, device, out, x, key=attempt.key)
    return call.run(
        axis=call.axis(axis),
        axis_direction=axis_direction,
        has_exclusive_product=has_exclusive_product,
        allow_float64=allow_float64,
    )
