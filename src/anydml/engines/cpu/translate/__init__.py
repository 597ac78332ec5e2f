"""Kernels in Python as ones in LLVM: whole numbers, loops over ranges, branches, and words of LLVM itself.

What is known when a kernel is made, such as a width, is a constant in it, and a branch that it closes is not written.
Functions that a kernel calls become part of it. LLVM's optimiser does the rest. A kernel takes 0.1 s, where Numba
took 1.2, to find out types that are known here.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.translate.expressions import I64, as_value, word
from anydml.engines.cpu.translate.statements import Body

__all__ = ["translate", "word"]


def translate(kernel: Any) -> str:
    """The text of `kernel(words, begin, end)`."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(I64, [I64] * 3), "kernel")
    start, body = function.append_basic_block("start"), function.append_basic_block("body")
    builder = ir.IRBuilder(body)
    builder.ret(as_value(Body(kernel, function.args, builder).run()))
    ir.IRBuilder(start).branch(body)
    return str(module)
