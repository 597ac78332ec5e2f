"""GATHER_ND, GATHER and GATHER_ELEMENTS as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.calls import Attempt, make_call
from anydml.enums import IndexMode
from anydml.errors import DescriptionError, Fault
from anydml.operators import Gather, GatherElements, GatherND, GatherND1
from anydml.parse import read_int

if TYPE_CHECKING:
    from anydml.runtime.device import Device


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

    The last dimension of `indices` holds the coordinates of a tuple; one tuple of as many coordinates as `x` has
    dimensions gives an array without dimensions, or such an expression. An index outside its dimension is an error
    that names it; with `index_mode="clamp"` it takes the nearest element.

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
    indices_sizes = call.inputs[1].sizes
    call.make_room(len(indices_sizes) - 1 + call.rank - batch - (indices_sizes[-1] if indices_sizes else 0))
    attributes: dict[str, Any] = {"batch_dimension_count": batch} if batch else {}
    return call.run(
        input_dimension_count=call.rank,
        indices_dimension_count=len(indices_sizes),
        index_mode=index_mode,
        **attributes,
    )


def gather(
    x: Any,
    indices: Any,
    axis: int = 0,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER: the elements or blocks of `x` that indices point at along an axis, as `numpy.take` has it.

    The dimensions of `indices`, which may have none, stand in the result in the place of the axis. An index outside
    is an error that names it; with `index_mode="clamp"` it takes the nearest element.

    >>> gather(np.array([[0, 1], [2, 3]]), np.array([1, 1, 0]), axis=1)
    array([[1, 1, 0],
           [3, 3, 2]])
    """
    attempt = Attempt(Gather, device, out, (x, indices), axis, index_mode)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(Gather, device, out, x, indices, key=attempt.key)
    call.scalars = ("IndicesTensor",)
    number, index_rank = call.axis(axis), len(call.inputs[1].sizes)
    call.make_room(call.rank - 1 + index_rank)
    return call.run(axis=number + call.common_rank - call.rank, index_dimensions=index_rank, index_mode=index_mode)


def gather_elements(
    x: Any,
    indices: Any,
    axis: int,
    index_mode: IndexMode | str = IndexMode.RAISE,
    *,
    out: Any = None,
    device: Device | str | None = None,
) -> Any:
    """GATHER_ELEMENTS: along an axis of `x`, the element that each index points at, as `numpy.take_along_axis` has it.

    `indices` has the sizes of `x`, but along the axis any. An index outside is an error that names it; with
    `index_mode="clamp"` it takes the nearest element.

    >>> gather_elements(np.array([[1, 2], [3, 4]]), np.array([[1, 0]]), axis=0)
    array([[3, 2]])
    """
    attempt = Attempt(GatherElements, device, out, (x, indices), axis, index_mode)
    if (result := attempt.run()) is not None:
        return result
    call = make_call(GatherElements, device, out, x, indices, key=attempt.key)
    return call.run(axis=call.axis(axis), index_mode=index_mode)
