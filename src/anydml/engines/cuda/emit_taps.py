"""From folds over small windows to a Triton function: a tile of results a program, over all taps together.

A thread has several results that follow one another along a dimension, a group: what two of them read is read once.
Where the dimension is the one along which memory lies, a thread reads words of several elements, and takes them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import constant, from_bits, function_of, text_of, type_of
from anydml.engines.cuda.emit_elements import Elements
from anydml.engines.cuda.emit_lines import put_together
from anydml.engines.cuda.emit_rows import neutral
from anydml.engines.cuda.emit_window import split, weighted
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.cuda.programs.groups import Dimensions
    from anydml.engines.cuda.programs.window_walk import Walked
    from anydml.ir.expressions import Expr


FEW = 16
"""Taps that are written out."""


@dataclass(frozen=True, slots=True)
class EmittedTaps:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes pointers, the walk's numbers, the user's numbers, and TILE."""
    given: tuple[Expr, ...]


def emit_taps(
    values: Sequence[Expr], leaves: Mapping[Expr, Walked], of: Dimensions, taps: int, *, is_apart: bool
) -> EmittedTaps:
    """A kernel for trees of operations and folds, one for each target; leaves are what is read.

    A few taps are written out, so that all of them are on their way at once. `is_apart` where a thread has results that
    lie apart: neighbours are then of neighbouring threads.
    """
    writer = _Writer(leaves, of, is_apart)
    given = [node for node in walk(*values, known=leaves) if node.op == "given"]
    pointers = [*(f"p{k}" for k in range(len(leaves))), *(f"target{k}" for k in range(len(values)))]
    numbers = ["shape", "row_sizes", "tap_sizes"]
    for k, leaf in enumerate(leaves.values()):
        numbers += [f"rows{k}", f"taps{k}", f"more{k}"]
        numbers += [f"{name}{k}_{i}" for i in range(len(leaf.limits)) for name in ("limit_rows", "limit_taps", "limit")]
    numbers += [f"{name}{len(leaves) + k}" for k in range(len(values)) for name in ("rows", "more")]
    chosen = [f"given{number}" for number in range(len(given))]
    parameters = [*pointers, *numbers, *chosen, "TILE: tl.constexpr"]
    writer.lines = ["@triton.jit", f"def generated_taps({', '.join(parameters)}):"]
    writer.head()
    for node, name in zip(given, chosen, strict=True):
        writer.names[node] = writer.line(from_bits(f"{name}.to(tl.int64)", node.type))
    folds = [node for node in walk(*values, known=leaves) if node.op in FOLDS]
    each = range(of.group.count)
    for number, fold in enumerate(folds):
        assert fold.type is not None  # noqa: S101 - for type checkers
        first = f"tl.broadcast_to({constant(neutral(fold))}, ({writer.sizes})).to({type_of(fold.type)})"
        writer.say(*(f"fold{number}_{g} = {first}" for g in each))
    steps = f"tl.static_range(0, {taps})" if taps * of.reach <= FEW else "range(0, shape[2].to(tl.int32))"
    writer.say(f"for step in {steps}:")
    writer.indent += "    "
    writer.say("tap = step + tl.full((), 0, tl.int32)", *split("tap", "k", "tap_sizes", len(of.taps)))
    writer.say(*(f"k{k} = windows.index(k{k}, TILE)" for k in range(len(of.taps))))
    writer.begin()
    for k in range(of.reach):
        for number, fold in enumerate(folds):
            for g in each:
                writer.fold(fold, f"fold{number}_{g}", g, k)
    writer.indent = writer.indent[:-4]
    writer.begin()
    writer.say(*(f"k{k} = tl.full((), 0, tl.int32)" for k in range(len(of.taps))))
    for g in each:
        writer.known |= {(fold, g, 0): f"fold{number}_{g}" for number, fold in enumerate(folds)}
    for number, value in enumerate(values):
        writer.store(number, [writer.compute(value, g, 0) for g in each])
    return EmittedTaps(function_of("\n".join(writer.lines) + "\n"), tuple(given))


class _Writer(Elements):
    def begin(self) -> None:
        """Forget what was computed: a loop begins, or is over."""
        self.known = {}

    def head(self) -> None:
        """This program's tile, and where it lies in what is read."""
        self.say(
            "across = (shape[1].to(tl.int32) + TILE.columns - 1) // TILE.columns",
            "row = tl.program_id(0) // across * TILE.rows + tl.arange(0, TILE.rows)",
            "column = tl.program_id(0) % across * TILE.columns + tl.arange(0, TILE.columns)",
            f"is_row = (row < shape[0]){self.down}",
            f"is_column = (column < places.known(shape[1], TILE.wide)){self.beside}",
            "there = is_row & is_column",
            *split("row", "r", "row_sizes", len(self.of.rows)),
            *(f"r{k} = windows.index(r{k}, TILE)" for k in range(len(self.of.rows))),
        )
        for k, leaf in enumerate(self.leaves.values()):
            word = self.word_of(k)
            self.say(f"at{k} = {self.place(f'p{k}', k, *self.spans(leaf), word and self.step_of_groups(leaf))}")
            for i, axis in enumerate(leaf.limits):
                name = f"{k}_{i}"
                first = weighted("r", f"limit_rows{name}", len(self.of.rows), f"limit{name}[0].to(tl.int32)")
                across = (
                    f" + (column * limit{name}[1].to(tl.int32)){self.beside}" if axis.steps.get(self.of.column) else ""
                )
                down = any(axis.steps.get(dimension) for dimension in self.of.rows)
                first = f"({first}).to(tl.int32){self.down}" if down else f"limit{name}[0].to(tl.int32)"
                self.say(f"place{name} = {first}{across}")

    def fold(self, fold: Expr, name: str, g: int, k: int) -> None:
        """Add what a result has of a tap."""
        (term,) = fold.args
        if fold.op == "fold_sum" and term.op == "mul" and term.type is DataType.FLOAT32:  # rounded once
            a, b = (f"tl.broadcast_to({self.compute(factor, g, k)}, ({self.sizes}))" for factor in term.args)
            self.say(f"{name} = arithmetic.fma({a}, {b}, {name})")
        else:
            self.say(f"{name} = rows.both_{fold.op.removeprefix('fold_')}({name}, {self.compute(term, g, k)})")

    def compute(self, value: Expr, g: int, k: int) -> str:
        """A tree, for a result of a group and a tap of it."""
        if (value, g, k) in self.known:
            return self.known[value, g, k]
        if value in self.names:
            return self.names[value]
        if value in self.leaves:
            name = self.element(value, g, k)
        elif value.op == "coordinate":
            name = self.once(self._coordinate(int(value.value), g, k))
        else:
            name = self.once(text_of(value, {arg: self.compute(arg, g, k) for arg in value.args}))
        self.known[value, g, k] = name
        return name

    def _coordinate(self, dimension: int, g: int, k: int) -> str:
        of, group = self.of, self.of.group
        inside = f" * {group.count} + {g}" if dimension == group.dimension and group.count > 1 else ""
        if dimension == of.column:
            return f"(column.to(tl.int64){inside}){self.beside}"
        if dimension in of.rows:
            return f"(r{of.rows.index(dimension)}.to(tl.int64){inside}){self.down}"
        if dimension in of.taps:
            return f"k{of.taps.index(dimension)}.to(tl.int64)"
        return f"tl.full((), {k if dimension == group.tap else 0}, tl.int64)"

    def store(self, number: int, results: Sequence[str]) -> None:
        """Write the results of every group."""
        view, group = len(self.leaves) + number, self.of.group
        full = [f"tl.broadcast_to({result}, ({self.sizes}))" for result in results]
        base = f"target{number}"
        if self.of.is_across:
            place = self.place(base, view, step=group.count)
            each = f"tl.arange(0, {group.count})[None, None, :]"
            mask = "there[:, :, None]"
            if not group.is_whole:
                mask += f" & ((column * {group.count}){self.beside}[:, :, None] + {each} < shape[3].to(tl.int32))"
            value = f"tl.reshape({put_together(full)}, ({self.sizes}, {group.count}))"
            self.say(f"tl.store(({place})[:, :, None] + {each}, {value}, mask={mask})")
            return
        self.say(f"to{number} = {self.place(base, view)}")
        for g, result in enumerate(full):
            mask = "there"
            if not group.is_whole:
                mask += f" & {self.has_result(g)}"
            far = f" + windows.far({g} * more{view}[1], TILE.aligns[{view}])" if g else ""
            self.say(f"tl.store(to{number}{far}, {result}, mask={mask})")
