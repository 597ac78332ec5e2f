"""The cpu engine against NumPy, PyTorch, ONNX Runtime and the machine's own copy speed: `python -m benchmarks`."""
