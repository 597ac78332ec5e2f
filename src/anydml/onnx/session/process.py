"""ONNX Runtime's functions for the whole process."""

from __future__ import annotations

from anydml.onnx.seeding import set_seed
from anydml.onnx.session.errors import refuse

INTERFACE = "1.24.0"
"""The version of ONNX Runtime whose interface this is, for programs that ask."""


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return INTERFACE


def get_build_info() -> str:
    """What this is."""
    return f"anydml, with the interface of ONNX Runtime {INTERFACE}"


def set_default_logger_severity(severity: int) -> None:
    """Accepted, from 0 to 4: nothing is logged here, errors are raised and warnings are Python's."""
    if severity not in range(5):
        raise refuse("set_default_logger_severity", "severity", "severity must be 0 to 4", repr(severity))


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted: nothing is logged here."""


def enable_telemetry_events() -> None:
    """Accepted: nothing is sent anywhere."""


def disable_telemetry_events() -> None:
    """Accepted: nothing is sent anywhere."""


__all__ = [
    "INTERFACE",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_build_info",
    "get_version_string",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]
