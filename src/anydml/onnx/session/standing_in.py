"""Standing in for ONNX Runtime under its own name, for programs whose code one cannot change."""

from __future__ import annotations

import importlib
import sys


def as_onnxruntime() -> None:
    """Let `import onnxruntime` find this interface, in this process and from now on.

    `python -m anydml.onnx script.py` does so and runs a script. What ONNX Runtime has beside its interface for running
    models, such as onnxruntime.quantization, is not there then; whoever holds ONNX Runtime's own names already keeps
    them, and this library finds the real one for nodes that run on the host.
    """
    ours = "anydml.onnx"
    importlib.import_module(ours)
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnxruntime"]:
        del sys.modules[name]
    for name in [name for name in sys.modules if name == ours or name.startswith(f"{ours}.capi")]:
        sys.modules["onnxruntime" + name.removeprefix(ours)] = sys.modules[name]
