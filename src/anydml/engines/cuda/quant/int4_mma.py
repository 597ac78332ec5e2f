"""Int4 weights on tensor cores for a few rows: planned, and written as a Triton function over `mma` fragments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.engines.common.tiles import ALIGNMENT, ceil_power
from anydml.engines.cuda.codegen.expressions import TRITON, TritonLines
from anydml.engines.cuda.launch import HOPPER, IS_INTERPRETED, Kernel
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.engines.cuda.quant.weight_only import WeightsForm
    from anydml.ir.blocked_weights import Weights
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

# From a sum of a·q·s, with weights q of 4 bits, to a Triton function that multiplies on tensor cores.


EACH = {DataType.FLOAT16: 4, DataType.FLOAT32: 8}
"""Blocks of 32 weights of a column that a warp has in a step. 1, 4 and 8 rows of FLOAT16 by 4096^2 take 5.5, 6.0 and
6.5 us so on a H200, 5.7, 6.2 and 6.7 of 8 blocks, and 7.8 to 9.5 of 16; 8 rows of FLOAT32 take 10.4, and 12.3 of 4."""


@dataclass(frozen=True, slots=True)
class Int4MmaForm:
    """The facts that the text of a kernel depends on besides the expression."""

    rows: int
    warps: int
    """Each with blocks of its own."""
    kind: DataType
    """Of rows."""
    flip: int
    """The bits of a word to be turned, which makes numbers with a sign others without."""
    zero: int
    """The excess of the weights then."""
    shared: int
    """Blocks of 32 weights that share a scale."""
    is_even: bool
    """Whether steps fill the columns' lengths."""
    scales: DataType
    has_lines: bool
    """Whether scales of neighbours lie side by side at multiples of 16 bytes."""
    has_zeros: bool
    """Whether a block has a zero point of its own, a byte."""


def emit_int4_mma(value: Expr, found: Weights, rests: Sequence[Expr], form: Int4MmaForm) -> Any:
    """A kernel: 16 columns a program, with all rows.

    It takes pointers (weights, scales, zero points where they are loads, the left factor's load, the others', the
    target), the numbers of columns and of words, two strides of each view, and the user's numbers.
    """
    return _Writer(value, found, rests, form).made()


class _Writer(TritonLines):
    def __init__(self, value: Expr, found: Weights, rests: Sequence[Expr], form: Int4MmaForm) -> None:
        super().__init__()
        self.value, self.fold, self.rests, self.form = value, found.fold, rests, form
        self.given = [node for node in walk(value) if node.op == "given"]
        self.is_half, self.each = form.kind is DataType.FLOAT16, EACH[form.kind]
        self.eights = range(-(-form.rows // 8))
        """Of rows, each with sums of its own."""
        self.read: list[str] = []
        """A word of each load of a step."""

    def made(self) -> Any:
        form = self.form
        own = ["scale", "zero"] if form.has_zeros else ["scale"]
        pointers = ["weights_", *own, "left", *(f"rest{k}" for k in range(len(self.rests))), "target"]
        strides = [f"strides_{name}" for name in pointers]
        chosen = [f"given{k}" for k in range(len(self.given))]
        self.define("nibbles", [*pointers, "columns", "units", *strides, *chosen])
        self.take_given(self.given, chosen)
        self.say(
            "blocks, count, first = units.to(tl.int32) // 4, columns.to(tl.int32), tl.program_id(0) * 16",
            f"ask_for_lines(weights_, strides_weights_[0], first, count, blocks * 4, 16, {32 * form.warps})",
        )
        if form.has_lines:
            self.say(f"ask_for_lines(scale, strides_scale[0], first, count, blocks, 16, {32 * form.warps})")
        self.say(
            "wait_for_previous()",
            f"lane = tl.arange(0, {32 * form.warps})",
            "within, line = lane % 4, lane // 4 % 8",
        )
        for m in self.eights:
            place = f"tl.minimum(line + {8 * m}, {form.rows - 1}).to(tl.int64) * strides_left[0]"
            self.say(f"row{m} = left + {place} + within * 8")
        for k in (0, 1):
            self.say(
                f"column{k} = tl.minimum(first + {8 * k} + line, count - 1).to(tl.int64)",
                f"at{k} = weights_ + column{k} * strides_weights_[0]",
                *(f"{name}{k} = {name} + column{k} * strides_{name}[0]" for name in own),
            )
        self.say("none = tl.zeros_like(lane).to(tl.float32)")
        self.say(*(f"total{m}_{i} = none" for m in self.eights for i in range(4)))
        self.say(f"for step in range(0, blocks, {self.each * form.warps}):")
        self.indent = "        "
        self.step()
        self.indent = "    "
        for m in self.eights:
            totals = ", ".join(f"total{m}_{i}" for i in range(4))
            self.say(f"sum0, sum1, sum2, sum3 = int4_mma.together({totals})")
            for i in range(4):
                if 8 * m + i % 2 < form.rows:
                    self.finish(m, i)
        return self.function()

    def step(self) -> None:
        """Read a line of each column, and what rows have there; then multiply block by block."""
        form = self.form
        self.read.clear()
        self.say(f"block = step + lane // 32 * {self.each}")
        for j in range(self.each):
            self.say(f"block{j} = block + {j}")
            if not form.is_even:
                self.say(f"there{j} = block{j} < blocks", f"block{j} = tl.minimum(block{j}, blocks - 1)")
        for k in (0, 1):
            for j in range(0, self.each, 4):
                place = f"block + {j} + within"
                place = place if form.is_even else f"tl.minimum({place}, blocks - 1)"
                self.load(f"read{k}_", j, f"at{k} + ({place}) * 4")
        if form.has_lines and not form.is_even:
            self.say(f"block = tl.minimum(block, blocks - {self.each})")
        for k in (0, 1):
            self.scales(k)
            if form.has_zeros:
                self.zeros(k)
        for j in range(self.each):
            if self.is_half:
                self.row(j)
        # Nothing is turned before all is read: units >> 40 is 0, which the compiler does not know. Else it puts loads
        # off until they are needed, and each is waited for: 8 rows take 9.8 us.
        turn = f"within + (({' | '.join(self.read)}) & (units >> 40).to(tl.int32))" if self.is_half else "within"
        self.say(f"turn = {turn}")
        for k in (0, 1):
            for j in range(0, self.each, 4):
                words, read = (", ".join(f"{name}{k}_{j + i}" for i in range(4)) for name in ("word", "read"))
                self.say(f"{words} = int4_mma.turned({read}, turn)")
        zero, is_wide = form.zero, not self.is_half
        constants = [_twice(128 + zero, is_wide=True)] if is_wide else [_twice(1024 + zero), _twice(-(64 + zero))]
        flip = f" ^ {form.flip}" if form.flip else ""
        unpack = "halves" if self.is_half else "wide_halves"
        ends = ", ".join(map(str, constants))
        for j in range(self.each):
            if not self.is_half:
                self.row(j)
            for half, letter in enumerate("ab"):
                names = ", ".join(f"{letter}{i}" for i in range(4))
                zeros = f"z{half}_{j}" if is_wide else f"z{half}_{j}, int4_mma.below(z{half}_{j})"
                self.say(f"{names} = int4_mma.{unpack}(word{half}_{j}{flip}, {zeros if form.has_zeros else ends})")
            for m in self.eights:
                self.multiply(m, j)

    def multiply(self, m: int, j: int) -> None:
        """Eight rows with a block, of which the sums are scaled."""
        before = "none, none, none, none"
        for part in range(1 if self.is_half else 3):
            for i in (0, 2):
                weights = f"a{i}, b{i}, a{i + 1}, b{i + 1}"
                rows = f"x{m}_{j}_{4 * part + i}, x{m}_{j}_{4 * part + i + 1}"
                kind = "tl.float16" if self.is_half else "tl.bfloat16"
                self.say(f"p0, p1, p2, p3 = int4_mma.product({before}, {weights}, {rows}, {kind})")
                before = "p0, p1, p2, p3"
        totals = [f"total{m}_{i}" for i in range(4)]
        self.say(*(f"{total} = arithmetic.fma(p{i}, s{i // 2}_{j}, {total})" for i, total in enumerate(totals)))

    def load(self, name: str, first: int, place: str, count: int = 4) -> None:
        """Read words that lie side by side."""
        names = [f"{name}{first + i}" for i in range(count)]
        self.say(f"{', '.join(names)} = int4_mma.{'four' if count == 4 else 'two'}({place})")
        self.read.append(names[0])

    def row(self, j: int) -> None:
        """The numbers of rows for a block; 0 past the end."""
        for m in self.eights:
            names = ", ".join(f"x{m}_{j}_{i}" for i in range(4 if self.is_half else 12))
            words = [f"y{m}_{j}_{i}" for i in range(4 if self.is_half else 8)]
            for i in range(0, len(words), 4):
                self.load(f"y{m}_{j}_", i, f"row{m} + (block{j} * 32 + {i})")
            if not self.form.is_even:
                self.say(*(f"{word} = tl.where(there{j}, {word}, 0)" for word in words))
            self.say(f"{names} = int4_mma.pairs_of_{'halves' if self.is_half else 'singles'}({', '.join(words)})")

    def scales(self, k: int) -> None:
        """The scales of a column's blocks."""
        form, each = self.form, self.each
        if form.has_lines and form.scales is DataType.FLOAT16:
            self.load(f"q{k}_", 0, f"scale{k} + block", each // 2)
            for j in range(each):
                bits = f"(q{k}_{j // 2} >> 16)" if j % 2 else f"q{k}_{j // 2}"
                self.say(f"s{k}_{j} = {bits}.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)")
        elif form.has_lines:
            for j in range(0, each, 4):
                self.load(f"q{k}_", j, f"scale{k} + (block + {j})")
            self.say(*(f"s{k}_{j} = q{k}_{j}.to(tl.float32, bitcast=True)" for j in range(each)))
        else:
            for j in range(each):
                by = f"block{j}" if form.shared == 1 else f"block{j} // {form.shared}"
                self.say(f"s{k}_{j} = tl.load(scale{k} + ({by}).to(tl.int64) * strides_scale[1]).to(tl.float32)")
        if not form.is_even:
            self.say(*(f"s{k}_{j} = tl.where(there{j}, s{k}_{j}, 0.0)" for j in range(each)))

    def zeros(self, k: int) -> None:
        """The zero points of a column's blocks, as the numbers are that they are taken off."""
        whole = _twice(1024) if self.is_half else _twice(128, is_wide=True)
        for j in range(self.each):
            by = f"block{j}" if self.form.shared == 1 else f"block{j} // {self.form.shared}"
            place = f"zero{k} + ({by}).to(tl.int64) * strides_zero[1]"
            self.say(f"z{k}_{j} = tl.load({place}).to(tl.int32) * 0x10001 + {whole}")

    def finish(self, m: int, i: int) -> None:
        """The results of the sums of columns g or g + 8 with the even rows of eight, or the odd ones."""
        names = {**self.names, self.fold: f"sum{i}"}
        self.say(
            f"column = (first + {8 * (i // 2)} + tl.arange(0, 32) // 4).to(tl.int64)",
            f"line = (tl.arange(0, 32) % 4 * 2 + {8 * m + i % 2}).to(tl.int64)",
            f"inside = (column < columns) & (line < {self.form.rows})",
        )
        for k, node in enumerate(self.rests):
            names[node] = f"r{k}"
            place = f"rest{k} + line * strides_rest{k}[0] + column * strides_rest{k}[1]"
            self.say(f"r{k} = tl.load({place}, mask=inside)")
        self.say(*TRITON.tree(self.value, names, "f"))
        place = "target + line * strides_target[0] + column * strides_target[1]"
        self.say(f"tl.store({place}, {names[self.value]}, mask=inside)")


def _twice(number: int, *, is_wide: bool = False) -> int:
    """The bits of a pair of equal FLOAT16, or of bfloat16, as an INT32."""
    one = int(np.float32(number).view(np.uint32)) >> 16 if is_wide else int(np.float16(number).view(np.uint16))
    both = one << 16 | one
    return both - 2**32 if both >= 2**31 else both


# Products of a few rows with weights of 4 bits on tensor cores, planned.


WORDS = 4
"""Of 32 weights."""
MOST_WARPS = 2 if IS_INTERPRETED else 8
LEAST_ROWS = {DataType.FLOAT16: 1, DataType.FLOAT32: 3}
"""Below, threads multiply one by one: a row of FLOAT32 by 4096^2 takes 5.8 us so on a H200, and here 12.1, as all are
taken apart; one of FLOAT16 6.6 to 8.4, and here 5.4."""


def takes_int4_mma(
    found: Weights, form: WeightsForm, lefts: Sequence[Expr], strides: Sequence[tuple[int, ...]],
    units: int, block: int, figures: Figures,
) -> bool:  # fmt: skip
    """From Hopper on, 4 bits, rows as they are, of 16 bytes' multiples: FLOAT16, or 3 of FLOAT32 and more."""
    left, source = lefts[0], found.left.args[0] if found.left.op == "cast" else found.left
    if form.bits != 4 or len(lefts) > 1 or source is not left or units % WORDS or block % WORDS:
        return False
    if left.type not in LEAST_ROWS or form.rows < LEAST_ROWS[left.type] or form.by_block != (False,):
        return False
    is_known = IS_INTERPRETED or figures.target.arch >= HOPPER
    apart = strides[2 + found.right.has_zeros][0] * left.type.size_in_bytes
    is_aligned = apart % ALIGNMENT == 0 and strides[0][0] % WORDS == 0
    return is_known and is_aligned and form.zero == int(form.zero) and 0 <= form.zero < 128


def int4_mma_kernel_of(
    primitive: Reduce, found: Weights, form: WeightsForm, leaves: tuple[Expr, Sequence[Expr]], numbers: Numbers,
    kinds: Sequence[str], block: int, figures: Figures,
) -> Kernel:  # fmt: skip
    """The kernel, which takes what that of `WeightOnlyProgram` does."""
    columns, units, _, scales = numbers[:4]
    assert isinstance(columns, int) and isinstance(units, int)  # noqa: S101, PT018 - for type checkers: neither is a tuple
    left, rests = leaves
    blocks = units // WORDS
    assert left.type is not None  # noqa: S101 - for type checkers: rows are FLOAT16 or FLOAT32
    each = EACH[left.type]
    warps = min(ceil_power(-(-blocks // each)), MOST_WARPS)
    scale = found.right.scale.type
    assert scale is not None and isinstance(scales, tuple)  # noqa: S101, PT018 - for type checkers: they are
    is_aligned = scales[1] == 1 and scales[0] * scale.size_in_bytes % ALIGNMENT == 0
    made = emit_int4_mma(primitive.value, found, rests, Int4MmaForm(
        rows=form.rows, warps=warps, kind=left.type, flip=form.flip, zero=int(form.zero),
        shared=block // WORDS, is_even=blocks % (each * warps) == 0, scales=scale,
        has_lines=is_aligned and block == WORDS and blocks % each == 0, has_zeros=found.right.has_zeros,
    ))  # fmt: skip
    programs = -(-columns // 16)
    return Kernel(made, tuple(kinds), numbers, {}, programs, warps, figures, fuses=False)
