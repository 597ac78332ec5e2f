"""GEMM on tensor cores, and split-K."""
