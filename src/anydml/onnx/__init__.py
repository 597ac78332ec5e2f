"""ONNX models on DirectML's operators: `load(path)`, `model.run({"x": array})`.

>>> model = load("model.onnx")
>>> model.run({"x": x})["y"]
"""

from anydml.onnx.backend import Backend
from anydml.onnx.graphs import TensorInfo
from anydml.onnx.model import Model, load

__all__ = ["Backend", "Model", "TensorInfo", "load"]
