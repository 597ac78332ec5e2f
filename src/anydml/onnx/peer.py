"""ONNX Runtime itself, which nodes run on that DirectML has no operator for, and answers are compared with."""

from __future__ import annotations

import sys
from typing import Any

from anydml.core.late_imports import import_alone
from anydml.core.locks import make_lock

NAME = "onnxruntime"
_lock = make_lock()
_found: dict[str, Any] = {}
"""Its modules by name, once they were loaded."""


def load_onnxruntime() -> Any:
    """The package; the real one where this library stands in for it under its name. ImportError where there is none."""
    with _lock:
        if not _found:
            if not hasattr(sys.modules.get(NAME), "as_onnxruntime"):
                import_alone(NAME)
                _found.update(_known())
            else:
                ours = take_out()
                try:
                    import_alone(NAME)
                    _found.update(_known())
                finally:
                    take_out()
                    sys.modules.update(ours)
        return _found[NAME]


def take_out() -> dict[str, Any]:
    """The modules of its name, which are gone from those that Python knows."""
    return {name: sys.modules.pop(name) for name in _known()}


def _known() -> dict[str, Any]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == NAME}
