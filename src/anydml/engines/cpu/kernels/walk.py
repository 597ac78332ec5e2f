"""The walk over lines: the kernel whose rows are lines, of whichever name.

Words are those of a walk with room for eight outer dimensions, then the line's address and its parameters.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.outer import OUTER, make_walk
from anydml.engines.cpu.language import I64, POINTER
from anydml.engines.cpu.translate import word

PARAMETERS = OUTER + 24 * 8 + 8
"""The line's address is the word before."""


@word
def call_line(
    builder: Any, words: Any, source: Any, target: Any, count: Any, source_step: Any, target_step: Any
) -> None:
    """call_line(words, source, target, count, source step, target step): the line that the words name."""
    parameters = builder.add(words, ir.Constant(I64, PARAMETERS))
    named = builder.inttoptr(builder.sub(parameters, ir.Constant(I64, 8)), POINTER)
    kind = ir.FunctionType(ir.VoidType(), [I64] * 6)
    line = builder.inttoptr(builder.load(named, typ=I64), kind.as_pointer())
    builder.call(line, [parameters, source, target, count, source_step, target_step])


def make_line_walk() -> Any:
    """The kernel that calls its line for every unit."""

    def row(
        words: int,
        at: int,
        first: int,
        source: int,
        target: int,
        count: int,
        source_step: int,
        target_step: int,
        after: int,
    ) -> None:
        call_line(words, source, target, count, source_step, target_step)

    return make_walk(row)
