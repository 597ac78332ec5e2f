"""DirectML's flags, with DirectML's names and values."""

from __future__ import annotations

from anydml.spelling import Flags


class TensorFlags(Flags):
    """DML_TENSOR_FLAGS: options of a tensor description."""

    NONE = 0
    OWNED_BY_DML = 0x1
    """The data is copied when the operator is initialized, and is not bound when it runs. Inputs only."""


class ExecutionFlags(Flags):
    """DML_EXECUTION_FLAGS: options of a compilation."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 0x1
    """A permission that no engine here makes use of: sums of FLOAT16 stay exact."""
    DISABLE_META_COMMANDS = 0x2
    """Has no effect here: there are no meta commands."""
    DESCRIPTORS_VOLATILE = 0x4
    """Bindings may be set or changed between the recording of a dispatch and its execution."""
