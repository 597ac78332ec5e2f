"""The program's exit statuses, the same for every command."""

from __future__ import annotations

from anydml.core.errors import (
    FAULT,
    MISSING,
    UNUSABLE,
    DmlError,
    DynamicSizesError,
    MissingDependencyError,
    ModelFileError,
    UnsupportedError,
)

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it: 1 is a model's fault."""
_SERIOUS_FIRST = (UNUSABLE, FAULT, MISSING)


def status_of(error: Exception) -> int:
    """1 for a fault of a model or description, 2 for what cannot be used or lacks sizes, 3 for what is not here.

    A node type that ONNX lacks is the model's fault, whoever reads it: no version will have it.
    """
    if isinstance(error, DmlError) and error.faults and all(fault.is_slip for fault in error.faults):
        return UNUSABLE
    if isinstance(error, (ModelFileError, DynamicSizesError)):
        return UNUSABLE
    if isinstance(error, DmlError) and any(fault.is_final for fault in error.faults):
        return FAULT
    return MISSING if isinstance(error, (MissingDependencyError, UnsupportedError)) else FAULT


def worst(statuses: set[int]) -> int:
    """The status of several: what the author of a file can mend comes before what is not here."""
    return next((status for status in _SERIOUS_FIRST if status in statuses), 0)
