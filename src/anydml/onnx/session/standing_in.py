"""Standing in for ONNX Runtime under its own name, for programs whose code one cannot change."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from anydml.onnx import capi
from anydml.onnx.peer import NAME, load_onnxruntime, take_out


def as_onnxruntime() -> None:
    """Let `import onnxruntime` find this interface, in this process and from now on.

    `python -m anydml.onnx script.py` does so and runs a script. What ONNX Runtime has beside its interface, such as
    onnxruntime.quantization, is ONNX Runtime's own where it is installed, and not there where it is not. Whoever holds
    names of ONNX Runtime's already keeps them, so call it first; nodes that run on the host go on to find the real one.
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
    ours = sys.modules["anydml.onnx"]
    vars(module).update({name: getattr(ours, name) for name in (*ours.__all__, "__version__")})
    take_out()
    sys.modules[NAME] = module
    for name in [name for name in sys.modules if name.startswith(capi.__name__)]:
        sys.modules[f"{NAME}.capi" + name.removeprefix(capi.__name__)] = capi
