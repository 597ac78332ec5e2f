"""Weight-only quantisation: products of many rows with weights of 4 and 8 bits, dequantised as tiles read them.

Few rows go as those of all weights do: see `gemm/few_rows.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.webgpu.conv.implicit_gemm import plan_windows
from anydml.engines.webgpu.gemm.gemm import plan_product
from anydml.ir.blocked_weights import match_weights
from anydml.ir.expressions import fold
from anydml.ir.trees import rewrite

if TYPE_CHECKING:
    from anydml.engines.common.program import Program
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Reduce


def plan_weights(verb: Reduce, memory: Memory) -> Program | None:
    """For sums of a·q·s: the product of a and q·s, which is rounded once, as a·q is otherwise."""
    found = match_weights(verb)
    if found is None:
        return None
    number, scale = found.fold.args[0].args[0].args[1], found.fold.args[0].args[1]
    whole = fold("sum", found.left * (number * scale))
    made = verb.computing(lambda value: rewrite(value, lambda node: whole if node is found.fold else node))
    return plan_product(made, memory) if len(made.rows) == 1 else plan_windows(made, memory)
