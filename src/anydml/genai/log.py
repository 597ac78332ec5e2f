"""GenAI's log: what a program asks to be told of steps, on stderr, in a file, or by a call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enum_parsing import suggest
from anydml.core.errors import show
from anydml.core.locks import make_lock
from anydml.onnxruntime.ort_errors import refuse, refuse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEFAULTS = {
    "enabled": False,
    "ansi_tags": True,
    "warning": True,
    "generate_next_token": False,
    "append_next_tokens": False,
    "hit_eos": False,
    "hit_max_length": False,
    "model_input_values": False,
    "model_output_shapes": False,
    "model_output_values": False,
    "model_logits": False,
    "ort_lib": False,
    "value_stats": True,
}


class _Log:
    def __init__(self) -> None:
        self.options = dict(_DEFAULTS)
        self.callback: Callable[[str], object] | None = None
        self.path: Path | None = None
        self.lock = make_lock()

    def write(self, label: str, text: str) -> None:
        tag = f"\x1b[1m\x1b[44m  {label}  \x1b[0m " if self.options["ansi_tags"] else f"{label}: "
        with self.lock:
            if self.callback is not None:
                self.callback(f"{tag}{text}\n")
            elif self.path is not None:
                with self.path.open("a") as file:
                    file.write(f"{tag}{text}\n")
            else:
                sys.stderr.write(f"{tag}{text}\n")


_log = _Log()


def set_log_options(**options: Any) -> None:
    """Say what is told: enabled=True, generate_next_token=True, filename="steps.log"."""
    for name, value in options.items():
        if name == "filename":
            if not isinstance(value, str):
                raise refuse_type("set_log_options", name, "a path as a string", value)
            _log.path = Path(value) if value else None
            if _log.path is not None:
                _log.callback = None
                _log.path.write_text("")
            continue
        if name not in _DEFAULTS:
            way_out = suggest(name, _DEFAULTS) or f"there are filename, {', '.join(_DEFAULTS)}"
            raise refuse("set_log_options", name, f"there is no log option {show(name)}", way_out=way_out)
        if not isinstance(value, bool):
            raise refuse_type("set_log_options", name, "of type bool", value)
        _log.options[name] = value


def set_log_callback(callback: Callable[[str], object] | None) -> None:
    """Let a function be called with each message; None ends that."""
    if callback is not None and not callable(callback):
        raise refuse_type("set_log_callback", "callback", "a function, or None", callback)
    _log.callback = callback
    if callback is not None:
        _log.path = None


def tells(name: str) -> bool:
    """Whether somebody asked to be told of this."""
    return _log.options["enabled"] and _log.options[name]


def log(label: str, text: str) -> None:
    """Tell, where `tells(label)`."""
    _log.write(label, text)


def log_arrays(label: str, arrays: Mapping[str, Any]) -> None:
    """Tell arrays by name: shapes, types, first values and what they are like."""
    lines = []
    for name, array in arrays.items():
        values = np.asarray(array)
        told = f"\n{name}: {values.dtype.name} {list(values.shape)}"
        if label != "model_output_shapes" and values.size:
            told += f" {np.array2string(values, threshold=8, edgeitems=3, max_line_width=10_000)}"
            if _log.options["value_stats"] and values.dtype.kind == "f":
                plain = values.astype(np.float32)
                told += f" min {plain.min():g}, max {plain.max():g}, mean {plain.mean():g}"
        lines.append(told)
    _log.write(label, "".join(lines))
