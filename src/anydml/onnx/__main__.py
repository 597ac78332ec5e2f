"""The old name of `python -m anydml.onnxruntime`, for one release."""

import importlib
import warnings

if __name__ == "__main__":
    warnings.warn("python -m anydml.onnx is python -m anydml.onnxruntime now", FutureWarning, stacklevel=2)
    importlib.import_module("anydml.onnxruntime.__main__").main()
