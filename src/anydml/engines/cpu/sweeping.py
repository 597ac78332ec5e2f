"""The steps of a loop as one built-in function: two rows of launches that take turns, and copies between them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from anydml.engines.cpu import team
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import LONG, METH_FASTCALL, NO_STATUS, SMALL, make_builtin
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.direct import BYTES_HEAD
from anydml.engines.cpu.kernels.sweep import make_sweep
from anydml.engines.cpu.series import kernels_of
from anydml.memory import has_fast_address, numpy_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]


def make_sweep_of(
    launches: Sequence[Callable[[], Any]],
    number: Array | None,
    condition: Array | None,
    reads: Sequence[Array],
    gives: Sequence[Array],
    ahead: Sequence[tuple[Array, Array]],
    at_once: int,
) -> Callable[..., Any] | None:
    """A function that runs steps by launches which take turns, as the kernel has it; None where one is no kernel's.

    A call of it runs up to `at_once` steps; where those take long there is no such function either.
    The arrays, and the launches, are to be kept for as long as it is called, by one thread at a time.
    """
    rows = [kernels_of([launch]) for launch in launches]
    if not has_fast_address or None in rows:
        return None
    sizes = [sum(struct.unpack_from("q", own, 8 * (HEADER - 1))[0] for own in row or ()) for row in rows]
    if at_once * max(sizes) >= LONG:  # Ctrl-C is looked for between launches
        return None
    lengths = [len(table) for table in (reads, gives, ahead, *rows) if table is not None]
    words = [NO_STATUS, *(0 if array is None else numpy_address(array) for array in (number, condition)), *lengths]
    for array in (*reads, *gives):
        words += [numpy_address(array), array.nbytes]
    for array, kept in ahead:
        words += [numpy_address(array), numpy_address(kept), array.nbytes]
    for row in rows:
        for own in row or ():
            (size,) = struct.unpack_from("q", own, 8 * (HEADER - 1))
            words += [id(own) + BYTES_HEAD, 0 if size < SMALL else team.get_team().entry]
    return make_builtin(get_kernel("sweep", make_sweep).address, struct.pack(f"{len(words)}q", *words), METH_FASTCALL)
