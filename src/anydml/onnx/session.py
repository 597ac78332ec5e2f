"""The old name of `anydml.onnxruntime`, for one release."""

import importlib
import sys
import warnings

warnings.warn("anydml.onnx.session is anydml.onnxruntime now", FutureWarning, stacklevel=2)
sys.modules[__name__] = importlib.import_module("anydml.onnxruntime")
