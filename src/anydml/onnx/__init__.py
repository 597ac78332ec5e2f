"""ONNX models on DirectML's operators: `load(path)`, `model.run({"x": array})`.

>>> model = load("model.onnx")
>>> model.run({"x": x})["y"]

Programs that were written for ONNX Runtime find its interface in `anydml.onnxruntime`.
"""

import importlib
import warnings

from anydml.onnx.backend import Backend
from anydml.onnx.checks import TensorInfo
from anydml.onnx.model import Model, load
from anydml.onnx.tools.compare import Comparison, Difference, NodeComparison, compare
from anydml.onnx.tools.minimise import Reduction, reduce, reductions
from anydml.onnx.tools.report import NodeReport, Report, check

__all__ = [
    "Backend",
    "Comparison",
    "Difference",
    "Model",
    "NodeComparison",
    "NodeReport",
    "Reduction",
    "Report",
    "TensorInfo",
    "check",
    "compare",
    "load",
    "reduce",
    "reductions",
]


def __getattr__(name: str) -> object:
    """The names of ONNX Runtime, which lay here: for one release."""
    session = importlib.import_module("anydml.onnxruntime")
    if name not in (*session.__all__, "__version__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    if name != "__version__":  # which pydoc asks for by itself
        warnings.warn(f"anydml.onnx.{name} is anydml.onnxruntime.{name} now", FutureWarning, stacklevel=2)
    return getattr(session, name)
