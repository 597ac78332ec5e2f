"""Convolution and pooling: direct, implicit GEMM over NHWC, and the depthwise and pooling stencil."""
