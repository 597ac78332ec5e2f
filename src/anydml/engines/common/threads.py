"""The number of threads that a dispatch may run on."""

from __future__ import annotations

import ctypes
import os

from anydml.core.errors import DescriptionError, Fault
from anydml.core.late_imports import import_alone
from anydml.core.parse import read_int

MOST_THREADS = 1024

number_cell = ctypes.c_int64(0)
"""The number where native code reads it, and who must import nothing meanwhile: a signal handler that needs a kernel
would wait for the module for ever. It is 0 until it is first asked for."""


def _from_environment() -> int:
    given = os.environ.get("ANYDML_NUM_THREADS", "")
    if not given:
        import_alone("anydml.engines.common.cores")
        from anydml.engines.common.cores import count_cores  # whose paths take 8 ms of `import anydml`

        return min(count_cores(), MOST_THREADS)
    return _read(int(given) if given.strip().isdecimal() else given, "ANYDML_NUM_THREADS", "threads")


def _read(number: object, field: str, subject: str) -> int:
    faults: list[Fault] = []
    found = read_int(number, field, faults, 1, MOST_THREADS)
    if faults:
        raise DescriptionError(subject, faults)
    return found


def get_num_threads() -> int:
    """The threads that one dispatch may run on, the caller's own included.

    As many as there are cores that the process may use, its affinity and the quotas of its control groups counted,
    unless `set_num_threads` or ANYDML_NUM_THREADS says otherwise.
    """
    if not number_cell.value:
        number_cell.value = _from_environment()
    return number_cell.value


def set_num_threads(number: int) -> None:
    """Set the threads that one dispatch may run on; the answers are the same for any number.

    Functions that are called take them from the next call on. What was compiled before may have its work divided for
    fewer: compile it again for more.
    """
    number_cell.value = _read(number, "number", "set_num_threads")
