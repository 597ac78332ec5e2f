"""ONNX Runtime itself, which nodes run on that DirectML has no operator for, and answers are compared with."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from anydml.locks import make_lock

_NAME = "onnxruntime"
_lock = make_lock()
_found: list[Any] = []


def load_onnxruntime() -> Any:
    """The package; the real one where this library stands in for it under its name. ImportError where there is none."""
    if not getattr(sys.modules.get(_NAME), "__name__", "").startswith("anydml."):
        return importlib.import_module(_NAME)
    with _lock:
        if not _found:
            ours = _taken_out()
            try:
                _found.append(importlib.import_module(_NAME))
            finally:
                _taken_out()
                sys.modules.update(ours)
    return _found[0]


def _taken_out() -> dict[str, Any]:
    """The modules of its name, which are gone from those that Python knows."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == _NAME}
