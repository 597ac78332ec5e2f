"""GEMM: microkernels, the macro-kernel around them, packing, epilogues, small-M products, and the selection of them."""
