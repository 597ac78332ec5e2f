"""ONNX Runtime's functions for the whole process."""

from __future__ import annotations

from anydml.onnx import seeding
from anydml.onnx.session.ort_errors import refuse, refuse_type

INTERFACE = "1.24.0"
"""The version of ONNX Runtime whose interface this is, for programs that ask."""


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return INTERFACE


def get_build_info() -> str:
    """The name and the version of this library."""
    return f"anydml, with the interface of ONNX Runtime {INTERFACE}"


def set_seed(seed: int) -> None:
    """Let random numbers of nodes without a seed, in models compiled from now on, be the same at each start."""
    if not isinstance(seed, int):
        raise refuse_type("set_seed", "seed", "of type int", seed)
    seeding.set_seed(seed)


def set_default_logger_severity(severity: int) -> None:
    """Accepted, from 0 to 4: nothing is logged here, errors are raised and warnings are Python's."""
    if not isinstance(severity, int) or severity not in range(5):
        raise refuse("set_default_logger_severity", "severity", "severity must be 0 to 4", repr(severity))


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted: nothing is logged here."""


def enable_telemetry_events() -> None:
    """Accepted: nothing is sent anywhere."""


def disable_telemetry_events() -> None:
    """Accepted: nothing is sent anywhere."""
