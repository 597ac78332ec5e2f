"""ONNX models on DirectML's operators: `load(path)`, `model.run({"x": array})`.

>>> model = load("model.onnx")
>>> model.run({"x": x})["y"]
"""

from anydml.onnx.backend import Backend
from anydml.onnx.comparing import Comparison, NodeComparison, compare
from anydml.onnx.differences import Difference
from anydml.onnx.graphs import TensorInfo
from anydml.onnx.model import Model, load
from anydml.onnx.reducing import Reduction, reduce, reductions
from anydml.onnx.report import NodeReport, Report, check

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
