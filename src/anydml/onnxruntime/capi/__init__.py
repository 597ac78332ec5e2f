"""Names that programs take from onnxruntime.capi: the errors of onnxruntime_pybind11_state, and its other classes."""

import sys

from anydml.onnxruntime import *  # noqa: F403 - the names of the interface, in the places where it has them as well

onnxruntime_pybind11_state = _pybind_state = onnxruntime_inference_collection = sys.modules[__name__]
PARTS = ("onnxruntime_pybind11_state", "_pybind_state", "onnxruntime_inference_collection")
"""Names of one thing here."""
sys.modules.update(dict.fromkeys((f"{__name__}.{part}" for part in PARTS), sys.modules[__name__]))
