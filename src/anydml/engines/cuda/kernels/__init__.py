"""Kernels in Triton: one file a primitive. Sizes and strides are arguments; what shapes the code is a constant."""
