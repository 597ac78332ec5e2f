"""The functions: DirectML's operators on arrays of any library, with NumPy's habits.

Ranks are the arrays' own, negative axes count from the end, the result is a new array of the caller's library unless
`out` is given, and `device` says where and at which feature level to run: where the first array lies, if not given.
Given expressions of a graph, a function adds a node to it and gives an expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.calls import Attempt, make_call
from anydml.enums import AxisDirection, IndexMode
from anydml.errors import DescriptionError, Fault
from anydml.operators import CumulativeProduct, CumulativeSummation, GatherND, GatherND1, Slice, Slice1
from anydml.parse import read_int

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


def gather_nd(
    x: Any,
    indices: Any,
    batch_dimension_count: int = 0,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER_ND, and GATHER_ND1 with batch dimensions: the elements or blocks of `x` that tuples point at.

    The last dimension of `indices` holds the coordinates of a tuple. An index outside its dimension is an error that
    names it; with `index_mode="clamp"` it takes the nearest element.

    >>> gather_nd(np.array([[0, 1], [2, 3]]), np.array([[1], [0]]))
    array([[2, 3],
           [0, 1]])
    """
    attempt = Attempt(GatherND1, device, out, (x, indices), batch_dimension_count, index_mode)
    if (result := attempt.run()) is not None:
        return result
    faults: list[Fault] = []
    batch = read_int(batch_dimension_count, "BatchDimensionCount", faults)
    cls = GatherND1 if batch or faults else GatherND
    if faults:
        raise DescriptionError(cls.type.name, faults)
    call = make_call(cls, device, out, x, indices, key=attempt.key)
    call.make_room_for_gathered(batch)
    attributes = {"batch_dimension_count": batch} if batch else {}
    return call.run(
        {},
        input_dimension_count=call.rank,
        indices_dimension_count=len(call.inputs[1].sizes),
        index_mode=index_mode,
        **attributes,
    )


def cumulative_summation(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_sum: bool = False,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_SUMMATION: the running sum along an axis. `out=x` works in place.

    >>> cumulative_summation(np.array([2, 1, 3, 5]), 0)
    array([ 2,  3,  6, 11])
    """
    attempt = Attempt(CumulativeSummation, device, out, (x,), axis, axis_direction, has_exclusive_sum)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(CumulativeSummation, device, out, x, key=attempt.key)
    number = call.axis(axis)
    return call.run({}, axis=number, axis_direction=axis_direction, has_exclusive_sum=has_exclusive_sum)


def cumulative_product(
    x: Any,
    axis: int,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    has_exclusive_product: bool = False,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """CUMULATIVE_PRODUCT: the running product along an axis. `out=x` works in place.

    >>> cumulative_product(np.array([2, 1, 3, 5]), 0)
    array([ 2,  2,  6, 30])
    """
    attempt = Attempt(CumulativeProduct, device, out, (x,), axis, axis_direction, has_exclusive_product)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(CumulativeProduct, device, out, x, key=attempt.key)
    number = call.axis(axis)
    return call.run({}, axis=number, axis_direction=axis_direction, has_exclusive_product=has_exclusive_product)
