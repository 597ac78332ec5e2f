"""The cpu engine against NumPy, PyTorch and ONNX Runtime, on as many threads, and memcpy."""
