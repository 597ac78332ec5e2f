"""ONNX Runtime's functions for the whole process, and standing in for it under its own name."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from anydml.onnx.library import NAME, load_onnxruntime, take_out
from anydml.onnx.lower import tracer
from anydml.onnxruntime.ort_errors import refuse, refuse_type

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
    tracer.set_seed(seed)


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


# Standing in, for programs whose code one cannot change


def as_onnxruntime() -> None:
    """Let `import onnxruntime` find this interface, in this process and from now on.

    `python -m anydml.onnxruntime script.py` does so and runs a script. What ONNX Runtime has beside its interface, such
    as onnxruntime.quantization, is ONNX Runtime's own where it is installed, and not there where it is not. Whoever
    holds names of ONNX Runtime's already keeps them, so call it first; nodes that run on the host go on to find the
    real one.
    """
    if hasattr(sys.modules.get(NAME), "as_onnxruntime"):
        return
    spec = ModuleSpec(NAME, None, is_package=True)
    installed = importlib.util.find_spec(NAME)
    if installed is not None:
        spec.submodule_search_locations = list(installed.submodule_search_locations or ())
    if NAME in sys.modules:
        load_onnxruntime()  # which keeps it
    module: Any = ModuleType(NAME, __doc__)
    module.__spec__, module.__path__ = spec, spec.submodule_search_locations
    ours = sys.modules["anydml.onnxruntime"]
    vars(module).update({name: getattr(ours, name) for name in (*ours.__all__, "__version__")})
    take_out()
    sys.modules[NAME] = module
    capi = ours.capi
    for name in [name for name in sys.modules if name.startswith(capi.__name__)]:
        sys.modules[f"{NAME}.capi" + name.removeprefix(capi.__name__)] = capi
