"""From a sum of a·q·s, with weights q of 4 bits, to a Triton function: on tensor cores, or a row alone."""

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
"""Blocks of 32 weights of a column that a warp has in a step, whole lines of memory: of 8 with FLOAT16, 4 and 8 rows by
4096^2 take 9.1 and 9.6 us on a H200 instead of 8.5 and 8.8, and of 16 with FLOAT32 15.8 and 16.8 us instead of 11.5."""


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
    is_alone: bool = False
    """Whether threads multiply a row one by one, and no tensor cores."""
    steps: int = 0
    """How many there are, where they are few; 0 for a loop."""

    @property
    def columns(self) -> int:
        """Of a program."""
        return 8 if self.is_alone else 16 * self.groups


def emit_nibbles(value: Expr, found: Weights, rests: Sequence[Expr], form: NibblesForm) -> Any:
    """A kernel: some columns a program, with all rows; and the user's numbers that it takes.

    It takes pointers (weights, scales, the left factor's load, the others', the target), the numbers of columns and of
    words, two strides of each view, and the user's numbers.
    """
    return (_Alone if form.is_alone else _Together)(value, found, rests, form).made()


class _Writer(Lines):
    """The parts that both kernels have."""

    def __init__(self, value: Expr, found: Weights, rests: Sequence[Expr], form: NibblesForm) -> None:
        super().__init__()
        self.value, self.fold, self.rests, self.form = value, found.fold, rests, form
        self.given = [node for node in walk(value) if node.op == "given"]
        self.is_half, self.each = form.kind is DataType.FLOAT16, EACH[form.kind]

    def begin(self) -> None:
        """The head of the function, and numbers that all of it needs."""
        pointers = ["weights_", "scale", "left", *(f"rest{k}" for k in range(len(self.rests))), "target"]
        strides = [f"strides_{name}" for name in pointers]
        chosen = [f"given{k}" for k in range(len(self.given))]
        self.say(
            "@triton.jit",
            f"def generated_nibbles({', '.join([*pointers, 'columns', 'units', *strides, *chosen])}):",
        )
        self.indent = "    "
        for node, name in zip(self.given, chosen, strict=True):
            self.put(node, from_bits(f"{name}.to(tl.int64)", node.type))
        self.say(
            f"lane = tl.arange(0, {32 * self.form.warps})",
            "blocks, count = units.to(tl.int32) // 4, columns.to(tl.int32)",
            f"first = tl.program_id(0) * {self.form.columns}",
            "none = tl.zeros_like(lane).to(tl.float32)",
        )

    def write(self) -> None:
        """The results of sums, whose columns, rows and places within bounds have names."""
        names = {**self.names, self.fold: "sum_"}
        for k, node in enumerate(self.rests):
            names[node] = f"r{k}"
            place = f"rest{k} + line * strides_rest{k}[0] + column * strides_rest{k}[1]"
            self.say(f"r{k} = tl.load({place}, mask=inside)")
        for number, node in enumerate(walk(self.value, known=names)):
            names[node] = f"f{number}"
            self.say(f"f{number} = {text_of(node, names)}")
        place = "target + line * strides_target[0] + column * strides_target[1]"
        self.say(f"tl.store({place}, {names[self.value]}, mask=inside)")


class _Alone(_Writer):
    """One row of FLOAT16: a thread multiplies a block of each column.

    By 4096^2 it takes 5.7 us on a H200 with 8 columns in 2 warps, 7.7 with 16 and 7.2 with 4; on tensor cores 7.5.
    """

    def made(self) -> Any:
        form, columns = self.form, range(self.form.columns)
        self.begin()
        for k in columns:
            self.say(
                f"column{k} = tl.minimum(first + {k}, count - 1).to(tl.int64)",
                f"at{k} = weights_ + column{k} * strides_weights_[0]",
                f"scale{k} = scale + column{k} * strides_scale[0]",
                f"total{k} = none",
            )
        if form.steps:  # so that all of them are read before one is multiplied
            for number in range(form.steps):
                self.step(str(32 * form.warps * number))
        else:
            self.say(f"for step in range(0, blocks, {32 * form.warps}):")
            self.indent = "        "
            self.step("step")
            self.indent = "    "
        joined = [f"total{k}" for k in columns]
        while len(joined) > 1:  # the last two of a list are joined last: columns come in order
            half = len(joined) // 2
            joined = [self.line(f"tl.join({joined[i]}, {joined[i + half]})") for i in range(half)]
        self.say(
            f"sum_ = tl.sum(tl.reshape({joined[0]}, ({32 * form.warps}, {form.columns})), 0)",
            f"column = (first + tl.arange(0, {form.columns})).to(tl.int64)",
            "line = tl.zeros_like(column)",
            "inside = column < columns",
        )
        self.write()
        return function_of("\n".join(self.lines) + "\n"), tuple(self.given)

    def step(self, first: str) -> None:
        """A block of each column a thread."""
        form, columns = self.form, range(self.form.columns)
        self.say(f"block = {first} + lane")
        if not form.is_even:
            self.say("there = block < blocks", "block = tl.minimum(block, blocks - 1)")
        for k in columns:
            self.say(f"{', '.join(f'w{k}_{i}' for i in range(4))} = nibbles.four(at{k} + block * 4)")
        by = "block" if form.shared == 1 else f"block // {form.shared}"
        for k in columns:
            self.say(f"s{k} = tl.load(scale{k} + ({by}).to(tl.int64) * strides_scale[1]).to(tl.float32)")
            if not form.is_even:
                self.say(f"s{k} = tl.where(there, s{k}, 0.0)")
        for i in range(0, 16, 4):
            self.say(f"{', '.join(f'y{i + j}' for j in range(4))} = nibbles.four(left + block * 32 + {2 * i})")
        for i in range(16):
            for j, bits in enumerate((f"y{i}", f"(y{i} >> 16)")):
                self.say(f"x{2 * i + j} = {bits}.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)")
                if not form.is_even:  # nothing times infinity is no number
                    self.say(f"x{2 * i + j} = tl.where(there, x{2 * i + j}, 0.0)")
        flip = f" ^ {form.flip}" if form.flip else ""
        for k in columns:
            self.say("part = none")
            for i in range(4):
                numbers = ", ".join(f"x{8 * i + j}" for j in range(8))
                self.say(f"part = weights.add_nibbles(part, w{k}_{i}{flip}, {float(form.zero)}, {numbers})")
            self.say(f"total{k} = arithmetic.fma(part, s{k}, total{k})")


class _Together(_Writer):
    """Rows on tensor cores."""

    def made(self) -> Any:
        form, columns = self.form, range(2 * self.form.groups)
        self.begin()
        self.say(
            "within, line = lane % 4, lane // 4 % 8",
            f"row = left + tl.minimum(line, {form.rows - 1}).to(tl.int64) * strides_left[0] + within * 8",
        )
        for k in columns:
            self.say(
                f"column{k} = tl.minimum(first + {8 * k} + line, count - 1).to(tl.int64)",
                f"at{k} = weights_ + column{k} * strides_weights_[0]",
                f"scale{k} = scale + column{k} * strides_scale[0]",
            )
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
        self.say(
            f"sum_ = nibbles.together(total{group}_{i})",
            f"column = (first + {16 * group + 8 * (i // 2)} + tl.arange(0, 32) // 4).to(tl.int64)",
            f"line = (tl.arange(0, 32) % 4 * 2 + {i % 2}).to(tl.int64)",
            f"inside = (column < columns) & (line < {self.form.rows})",
        )
        self.write()


def _twice(number: int, *, is_wide: bool = False) -> int:
    """The bits of a pair of equal FLOAT16, or of bfloat16, as an INT32."""
    one = int(np.float32(number).view(np.uint32)) >> 16 if is_wide else int(np.float16(number).view(np.uint16))
    both = one << 16 | one
    return both - 2**32 if both >= 2**31 else both
