"""SLICE and SLICE1 as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.calls import Attempt, make_call
from anydml.operators import Slice, Slice1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.runtime.device import Device


def slice(
    x: Any,
    offsets: Sequence[int] | int,
    sizes: Sequence[int] | int,
    strides: Sequence[int] | int | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE: `sizes` elements from `offsets` on, `strides` apart (1 where not given), in each dimension.

    >>> slice(np.arange(10), [2], [3], [2])
    array([2, 4, 6])
    """
    attempt = Attempt(Slice, device, out, (x,), offsets, sizes, strides)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Slice, device, out, x, key=attempt.key)
    strides = (1,) * call.rank if strides is None else strides
    return call.run({"offsets": 0, "sizes": 1, "strides": 1}, offsets=offsets, sizes=sizes, strides=strides)


def slice1(
    x: Any,
    input_window_offsets: Sequence[int] | int,
    input_window_sizes: Sequence[int] | int,
    input_window_strides: Sequence[int] | int | None = None,
    output_sizes: Sequence[int] | int | None = None,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """SLICE1: from a window of `x`, every stride-th element; a negative stride walks from the window's end.

    Without `output_sizes` the result takes all that the window gives.

    >>> slice1(np.arange(10), [2], [6], [-2])
    array([7, 5, 3])
    """
    attempt = Attempt(
        Slice1, device, out, (x,), input_window_offsets, input_window_sizes, input_window_strides, output_sizes
    )
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Slice1, device, out, x, output_sizes=output_sizes, key=attempt.key)
    strides = (1,) * call.rank if input_window_strides is None else input_window_strides
    return call.run(
        {"input_window_offsets": 0, "input_window_sizes": 1, "input_window_strides": 1},
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=strides,
    )
