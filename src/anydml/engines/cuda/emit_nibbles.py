"""From a sum of a·q·s, with weights q of 4 bits, to a Triton function that multiplies on tensor cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cuda.emit import from_bits, function_of, text_of
from anydml.engines.cuda.emit_lines import Lines
from anydml.enums import DataType
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.weights import Weights

EACH = {DataType.FLOAT16: 16, DataType.FLOAT32: 8}
"""Blocks of 32 weights of a column that a warp has in a step, whole lines of memory: with FLOAT16 4 rows by 4096^2 take
8.2 us so on a H200, and 9.4 of 8 blocks; with FLOAT32 11.5, and 15.8 of 16."""


@dataclass(frozen=True, slots=True)
class NibblesForm:
    """The facts that the text of a kernel depends on besides the expression."""

    rows: int
    groups: int
    """Of 16 columns of a program."""
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


def emit_nibbles(value: Expr, found: Weights, rests: Sequence[Expr], form: NibblesForm) -> Any:
    """A kernel: some columns a program, with all rows; and the user's numbers that it takes.

    It takes pointers (weights, scales, the left factor's load, the others', the target), the numbers of columns and of
    words, two strides of each view, and the user's numbers.
    """
    return _Writer(value, found, rests, form).made()


class _Writer(Lines):
    def __init__(self, value: Expr, found: Weights, rests: Sequence[Expr], form: NibblesForm) -> None:
        super().__init__()
        self.value, self.fold, self.rests, self.form = value, found.fold, rests, form
        self.given = [node for node in walk(value) if node.op == "given"]
        self.is_half, self.each = form.kind is DataType.FLOAT16, EACH[form.kind]

    def made(self) -> Any:
        form = self.form
        pointers = ["weights_", "scale", "left", *(f"rest{k}" for k in range(len(self.rests))), "target"]
        strides = [f"strides_{name}" for name in pointers]
        chosen = [f"given{k}" for k in range(len(self.given))]
        columns = range(2 * form.groups)
        self.say(
            "@triton.jit",
            f"def generated_nibbles({', '.join([*pointers, 'columns', 'units', *strides, *chosen])}):",
        )
        self.indent = "    "
        for node, name in zip(self.given, chosen, strict=True):
            self.put(node, from_bits(f"{name}.to(tl.int64)", node.type))
        self.say(
            f"lane = tl.arange(0, {32 * form.warps})",
            "within, line = lane % 4, lane // 4 % 8",
            "blocks, count = units.to(tl.int32) // 4, columns.to(tl.int32)",
            f"first = tl.program_id(0) * {16 * form.groups}",
            f"row = left + tl.minimum(line, {form.rows - 1}).to(tl.int64) * strides_left[0] + within * 8",
        )
        for k in columns:
            self.say(
                f"column{k} = tl.minimum(first + {8 * k} + line, count - 1).to(tl.int64)",
                f"at{k} = weights_ + column{k} * strides_weights_[0]",
                f"scale{k} = scale + column{k} * strides_scale[0]",
            )
        self.say("none = tl.zeros_like(lane).to(tl.float32)")
        self.say(*(f"total{group}_{i} = none" for group in range(form.groups) for i in range(4)))
        self.say(f"for step in range(0, blocks, {self.each * form.warps}):")
        self.indent = "        "
        self.step()
        self.indent = "    "
        for group in range(form.groups):
            for i in range(4):
                if i % 2 < form.rows:
                    self.finish(group, i)
        return function_of("\n".join(self.lines) + "\n"), tuple(self.given)

    def step(self) -> None:
        """Read a line of each column, and what rows have there; then multiply block by block."""
        form, columns = self.form, range(2 * self.form.groups)
        self.say(f"block = step + lane // 32 * {self.each}")
        for j in range(self.each):
            self.say(f"block{j} = block + {j}")
            if not form.is_even:
                self.say(f"there{j} = block{j} < blocks", f"block{j} = tl.minimum(block{j}, blocks - 1)")
        for k in columns:
            for j in range(0, self.each, 4):
                names = ", ".join(f"word{k}_{j + i}" for i in range(4))
                place = f"block + {j} + within"
                place = place if form.is_even else f"tl.minimum({place}, blocks - 1)"
                self.say(f"{names} = nibbles.four_turned(at{k} + ({place}) * 4, within)")
        if form.has_lines and not form.is_even:
            self.say(f"block = tl.minimum(block, blocks - {self.each})")
        for k in columns:
            self.scales(k)
        for j in range(self.each):
            if self.is_half:
                self.row(j)
        zero = form.zero
        constants = [_twice(1024 + zero), _twice(-(64 + zero))] if self.is_half else [_twice(128 + zero, is_wide=True)]
        flip = f" ^ {form.flip}" if form.flip else ""
        unpack = "halves" if self.is_half else "wide_halves"
        ends = ", ".join(map(str, constants))
        for j in range(self.each):
            if not self.is_half:
                self.row(j)
            for group in range(form.groups):
                for half, letter in enumerate("ab"):
                    names = ", ".join(f"{letter}{i}" for i in range(4))
                    self.say(f"{names} = nibbles.{unpack}(word{2 * group + half}_{j}{flip}, {ends})")
                before = "none, none, none, none"
                for part in range(1 if self.is_half else 3):
                    for i in (0, 2):
                        weights = f"a{i}, b{i}, a{i + 1}, b{i + 1}"
                        rows = f"x{j}_{4 * part + i}, x{j}_{4 * part + i + 1}"
                        kind = "tl.float16" if self.is_half else "tl.bfloat16"
                        self.say(f"p0, p1, p2, p3 = nibbles.product({before}, {weights}, {rows}, {kind})")
                        before = "p0, p1, p2, p3"
                for i in range(4):
                    name = f"total{group}_{i}"
                    self.say(f"{name} = arithmetic.fma(p{i}, s{2 * group + i // 2}_{j}, {name})")

    def row(self, j: int) -> None:
        """The numbers of rows for a block; 0 past the end."""
        names = ", ".join(f"x{j}_{i}" for i in range(4 if self.is_half else 12))
        words = [f"y{i}" for i in range(4 if self.is_half else 8)]
        for i in range(0, len(words), 4):
            self.say(f"{', '.join(words[i : i + 4])} = nibbles.four(row + (block{j} * 32 + {i}))")
        if not self.form.is_even:
            self.say(*(f"{word} = tl.where(there{j}, {word}, 0)" for word in words))
        self.say(f"{names} = nibbles.pairs_of_{'halves' if self.is_half else 'singles'}({', '.join(words)})")

    def scales(self, k: int) -> None:
        """The scales of a column's blocks."""
        form = self.form
        if form.has_lines and form.scales is DataType.FLOAT16:
            for j in range(self.each):
                if j % 8 == 0:
                    self.say(f"q0, q1, q2, q3 = nibbles.four(scale{k} + (block + {j}))")
                bits = f"(q{j % 8 // 2} >> 16)" if j % 2 else f"q{j % 8 // 2}"
                self.say(f"s{k}_{j} = {bits}.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)")
        elif form.has_lines:
            for j in range(0, self.each, 4):
                self.say(f"q0, q1, q2, q3 = nibbles.four(scale{k} + (block + {j}))")
                self.say(*(f"s{k}_{j + i} = q{i}.to(tl.float32, bitcast=True)" for i in range(4)))
        else:
            for j in range(self.each):
                by = f"block{j}" if form.shared == 1 else f"block{j} // {form.shared}"
                self.say(f"s{k}_{j} = tl.load(scale{k} + ({by}).to(tl.int64) * strides_scale[1]).to(tl.float32)")
        if not form.is_even:
            self.say(*(f"s{k}_{j} = tl.where(there{j}, s{k}_{j}, 0.0)" for j in range(self.each)))

    def finish(self, group: int, i: int) -> None:
        """The results of the sums of columns g or g + 8 with the even rows, or the odd ones."""
        names = {**self.names, self.fold: "sum_"}
        self.say(
            f"sum_ = nibbles.together(total{group}_{i})",
            f"column = (first + {16 * group + 8 * (i // 2)} + tl.arange(0, 32) // 4).to(tl.int64)",
            f"line = (tl.arange(0, 32) % 4 * 2 + {i % 2}).to(tl.int64)",
            f"inside = (column < columns) & (line < {self.form.rows})",
        )
        for k, node in enumerate(self.rests):
            names[node] = f"r{k}"
            place = f"rest{k} + line * strides_rest{k}[0] + column * strides_rest{k}[1]"
            self.say(f"r{k} = tl.load({place}, mask=inside)")
        for number, node in enumerate(walk(self.value, known=names)):
            names[node] = f"f{number}"
            self.say(f"f{number} = {text_of(node, names)}")
        place = "target + line * strides_target[0] + column * strides_target[1]"
        self.say(f"tl.store({place}, {names[self.value]}, mask=inside)")


def _twice(number: int, *, is_wide: bool = False) -> int:
    """The bits of a pair of equal FLOAT16, or of bfloat16, as an INT32."""
    one = int(np.float32(number).view(np.uint32)) >> 16 if is_wide else int(np.float16(number).view(np.uint16))
    both = one << 16 | one
    return both - 2**32 if both >= 2**31 else both
