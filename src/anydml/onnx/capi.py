"""The old name of `anydml.onnxruntime.capi`, for one release."""

import importlib
import sys
import warnings

warnings.warn("anydml.onnx.capi is anydml.onnxruntime.capi now", FutureWarning, stacklevel=2)
sys.modules[__name__] = importlib.import_module("anydml.onnxruntime.capi")
PARTS = sys.modules[__name__].PARTS
sys.modules.update(dict.fromkeys((f"{__name__}.{part}" for part in PARTS), sys.modules[__name__]))
