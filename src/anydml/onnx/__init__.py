"""ONNX models on DirectML's operators: `load(path)`, `model.run({"x": array})`.

>>> model = load("model.onnx")
>>> model.run({"x": x})["y"]

The interface of ONNX Runtime is here as well, for programs that were written for it: `InferenceSession` and its kin.
"""

from anydml.onnx import capi, session
from anydml.onnx.backend import Backend
from anydml.onnx.tools.compare import Comparison, Difference, NodeComparison, compare
from anydml.onnx.checks import TensorInfo
from anydml.onnx.loading import load
from anydml.onnx.model import Model
from anydml.onnx.tools.minimise import Reduction, reduce, reductions
from anydml.onnx.tools.report import NodeReport, Report, check
from anydml.onnxruntime import *  # noqa: F403 - its names, which it lists

__version__ = session.get_version_string()
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
    "capi",
    "check",
    "compare",
    "load",
    "reduce",
    "reductions",
]
__all__ += session.__all__
