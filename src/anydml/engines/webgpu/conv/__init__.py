"""Convolution and pooling: implicit GEMM, and the depthwise and pooling stencil."""
