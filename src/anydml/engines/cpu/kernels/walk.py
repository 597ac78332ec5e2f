"""The walk over lines: the kernel whose rows are lines, of whichever name.

Words are those of a walk with room for eight outer dimensions, then the line's address and its parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from anydml.engines.cpu.kernels.outer import OUTER, make_walk
from anydml.engines.cpu.language import I64, POINTER

if TYPE_CHECKING:
    from collections.abc import Callable

PARAMETERS = OUTER + 24 * 8 + 8
"""The line's address is the word before."""


def _call_line(
    _typing: Any, _words: Any, _source: Any, _target: Any, _count: Any, _source_step: Any, _target_step: Any
) -> Any:
    """call_line(words, source, target, count, source step, target step): the line that the words name."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        parameters = builder.add(args[0], ir.Constant(I64, PARAMETERS))
        named = builder.inttoptr(builder.sub(parameters, ir.Constant(I64, 8)), POINTER)
        kind = ir.FunctionType(ir.VoidType(), [I64] * 6)
        line = builder.inttoptr(builder.load(named, typ=I64), kind.as_pointer())
        builder.call(line, [parameters, *args[1:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


call_line = intrinsic(_call_line)


def make_line_walk(compile_inline: Callable[[Any], Any]) -> Any:
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

    return make_walk(compile_inline(row), compile_inline)
