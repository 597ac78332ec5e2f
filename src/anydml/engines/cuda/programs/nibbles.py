"""Products of a few rows with weights of 4 bits on tensor cores, planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cuda.emit_nibbles import EACH, NibblesForm, emit_nibbles
from anydml.engines.cuda.launch import ALIGNMENT, HOPPER, IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.shapes import ceil_power
from anydml.enums import DataType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cuda.emit_weights import WeightsForm
    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce
    from anydml.ir.weights import Weights

WORDS = 4
"""Of 32 weights."""
MOST_WARPS = 2 if IS_INTERPRETED else 8
LEAST_ROWS = {DataType.FLOAT16: 1, DataType.FLOAT32: 3}
"""Below, threads multiply one by one: a row of FLOAT32 by 4096^2 takes 5.8 us so on a H200, and here 12.1, as all are
taken apart; one of FLOAT16 6.6 to 8.4, and here 5.4."""


def has_nibbles(
    found: Weights, form: WeightsForm, left: Expr, strides: Sequence[tuple[int, ...]], figures: Figures
) -> bool:
    """Whether tensor cores can have it: 4 bits, rows as they are, of 16 bytes' multiples."""
    source = found.left.args[0] if found.left.op == "cast" else found.left
    if form.bits != 4 or source is not left:
        return False
    if left.type not in LEAST_ROWS or form.rows < LEAST_ROWS[left.type] or form.by_block != (False,):
        return False
    is_known = IS_INTERPRETED or figures.target.arch >= HOPPER
    apart = strides[2 + found.right.has_zeros][0] * left.type.size_in_bytes
    is_aligned = apart % ALIGNMENT == 0 and strides[0][0] % WORDS == 0
    return is_known and is_aligned and form.zero == int(form.zero) and 0 <= form.zero < 128


def nibbles_kernel(
    primitive: Reduce, found: Weights, form: WeightsForm, leaves: tuple[Expr, Sequence[Expr]], numbers: Numbers,
    kinds: Sequence[str], block: int, figures: Figures,
) -> Kernel | None:  # fmt: skip
    """The kernel, which takes what that of `WeightsProgram` does."""
    columns, units, _, scales = numbers[:4]
    assert isinstance(columns, int) and isinstance(units, int)  # noqa: S101, PT018 - for type checkers
    if units % WORDS or block % WORDS:
        return None
    left, rests = leaves
    blocks = units // WORDS
    assert left.type is not None  # noqa: S101 - for type checkers
    each = EACH[left.type]
    warps = min(ceil_power(-(-blocks // each)), MOST_WARPS)
    scale = found.right.scale.type
    assert scale is not None and isinstance(scales, tuple)  # noqa: S101, PT018 - for type checkers
    is_aligned = scales[1] == 1 and scales[0] * scale.size_in_bytes % ALIGNMENT == 0
    made = emit_nibbles(primitive.value, found, rests, NibblesForm(
        rows=form.rows, warps=warps, kind=left.type, flip=form.flip, zero=int(form.zero),
        shared=block // WORDS, is_even=blocks % (each * warps) == 0, scales=scale,
        has_lines=is_aligned and block == WORDS and blocks % each == 0, has_zeros=found.right.has_zeros,
    ))  # fmt: skip
    programs = -(-columns // 16)
    return Kernel(made, tuple(kinds), numbers, {}, programs, warps, figures, fuses=False)
