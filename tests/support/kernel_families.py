"""Which kernels programs of the cpu engine are: the first word of a kernel's name."""

from __future__ import annotations

from anydml.engines.cpu.launch.program import KernelProgram

PRODUCTS = {"column-per-lane", "attention", "macrokernel", "direct", "stencil", "weights"}
"""Kernels of GEMM, convolution, pooling stencils and attention."""


def family_of(program: object) -> str:
    """The family of the kernel that is all of a program; nothing for other programs."""
    return program.kernel.name.partition(" ")[0] if isinstance(program, KernelProgram) else ""
