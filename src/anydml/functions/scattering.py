"""SCATTER_ND as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.calls import Attempt, make_call
from anydml.operators import ScatterND

if TYPE_CHECKING:
    from anydml.runtime.device import Device


def scatter_nd(x: Any, indices: Any, updates: Any, *, out: Any = None, device: Device | str | None = None) -> Any:
    """SCATTER_ND: a copy of `x` with elements or blocks of `updates` at the places that tuples point at.

    The last dimension of `indices` holds the coordinates of a tuple. `updates` has the other sizes of `indices`, then
    those of `x` that no tuple indexes. Of several updates of one place the last one stays. An index outside its
    dimension is an error that names it.

    >>> scatter_nd(np.array([0, 1, 2, 3]), np.array([[3], [1], [3]]), np.array([7, 8, 9]))
    array([0, 8, 2, 9])
    """
    attempt = Attempt(ScatterND, device, out, (x, indices, updates))
    if (result := attempt.run()) is not None:
        return result
    call = make_call(ScatterND, device, out, x, indices, updates, key=attempt.key)
    call.make_room(call.rank)
    return call.run(input_dimension_count=call.rank, indices_dimension_count=len(call.inputs[1].sizes))
