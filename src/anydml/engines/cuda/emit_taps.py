"""From folds over small windows to a Triton function: a tile of results a program, over all taps together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import constant, from_bits, function_of, text_of, type_of
from anydml.engines.cuda.emit_lines import Lines
from anydml.engines.cuda.emit_rows import neutral
from anydml.engines.cuda.emit_window import split, weighted
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.cuda.programs.window_walk import Walked
    from anydml.ir.expressions import Expr


FEW = 16
"""Taps that are written out."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimensions of a walk."""

    rows: tuple[int, ...]
    """The fastest first."""
    column: int
    """Along which the first target lies."""
    taps: tuple[int, ...]
    """Those that are folded, the fastest first."""


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
        writer.put(node, from_bits(f"{name}.to(tl.int64)", node.type))
    folds = [node for node in walk(*values, known=leaves) if node.op in FOLDS]
    for number, fold in enumerate(folds):
        assert fold.type is not None  # noqa: S101 - for type checkers
        shape = "(TILE.rows, TILE.columns)"
        writer.say(f"fold{number} = tl.broadcast_to({constant(neutral(fold))}, {shape}).to({type_of(fold.type)})")
    steps = f"tl.static_range(0, {taps})" if taps <= FEW else "range(0, shape[2].to(tl.int32))"
    writer.say(f"for step in {steps}:")
    outside = dict(writer.names)
    writer.indent += "    "
    writer.say("tap = step + tl.full((), 0, tl.int32)", *split("tap", "k", "tap_sizes", len(of.taps)))
    writer.say(*(f"k{k} = windows.index(k{k}, TILE)" for k in range(len(of.taps))))
    for number, fold in enumerate(folds):
        (term,) = fold.args
        if fold.op == "fold_sum" and term.op == "mul" and term.type is DataType.FLOAT32:  # rounded once
            for factor in term.args:
                writer.compute(factor)
            a, b = (f"tl.broadcast_to({writer.names[factor]}, (TILE.rows, TILE.columns))" for factor in term.args)
            writer.say(f"fold{number} = arithmetic.fma({a}, {b}, fold{number})")
            continue
        writer.compute(term)
        writer.say(f"fold{number} = rows.both_{fold.op.removeprefix('fold_')}(fold{number}, {writer.names[term]})")
    writer.indent = writer.indent[:-4]
    writer.names = outside | {fold: f"fold{number}" for number, fold in enumerate(folds)}
    writer.say(*(f"k{k} = tl.full((), 0, tl.int32)" for k in range(len(of.taps))))
    for number, value in enumerate(values):
        writer.compute(value)
        place = writer.place(f"target{number}", len(leaves) + number)
        full = f"tl.broadcast_to({writer.names[value]}, (TILE.rows, TILE.columns))"
        writer.say(f"tl.store({place}, {full}, mask=there)")
    return EmittedTaps(function_of("\n".join(writer.lines) + "\n"), tuple(given))


class _Writer(Lines):
    def __init__(self, leaves: Mapping[Expr, Walked], of: Dimensions, is_apart: bool) -> None:
        self.leaves, self.of, self.is_apart = leaves, of, is_apart
        self.numbers = {leaf: k for k, leaf in enumerate(leaves)}
        super().__init__("    ")
        self.coordinates = {dimension: f"r{k}.to(tl.int64)[:, None]" for k, dimension in enumerate(of.rows)}
        self.coordinates |= {dimension: f"k{k}.to(tl.int64)" for k, dimension in enumerate(of.taps)}
        self.coordinates[of.column] = "column.to(tl.int64)[None, :]"

    def head(self) -> None:
        """This program's tile, and where it lies in what is read."""
        self.say(
            "across = (shape[1].to(tl.int32) + TILE.columns - 1) // TILE.columns",
            "row = tl.program_id(0) // across * TILE.rows + tl.arange(0, TILE.rows)",
            "column = tl.program_id(0) % across * TILE.columns + tl.arange(0, TILE.columns)",
            "is_row = (row < shape[0])[:, None]",
            "is_column = (column < places.known(shape[1], TILE.wide))[None, :]",
            "there = is_row & is_column",
            *split("row", "r", "row_sizes", len(self.of.rows)),
            *(f"r{k} = windows.index(r{k}, TILE)" for k in range(len(self.of.rows))),
        )
        for k, leaf in enumerate(self.leaves.values()):
            self.say(f"at{k} = {self.place(f'p{k}', k, *self._spans(leaf))}")
            for i, axis in enumerate(leaf.limits):
                name = f"{k}_{i}"
                first = weighted("r", f"limit_rows{name}", len(self.of.rows), f"limit{name}[0].to(tl.int32)")
                across = f" + (column * limit{name}[1].to(tl.int32))[None, :]" if axis.steps.get(self.of.column) else ""
                down = any(axis.steps.get(dimension) for dimension in self.of.rows)
                first = f"({first}).to(tl.int32)[:, None]" if down else f"limit{name}[0].to(tl.int32)"
                self.say(f"place{name} = {first}{across}")

    def _spans(self, leaf: Walked) -> tuple[bool, bool]:
        """Whether an element varies from row to row, and from column to column."""
        return any(leaf.stride(k) for k in self.of.rows), bool(leaf.stride(self.of.column))

    def place(self, base: str, view: int, down: bool = True, across: bool = True) -> str:
        """Where a tile lies in a view.

        The compiler gives neighbouring threads what it takes for neighbours: columns are, whatever lies between them.
        More it makes nothing of, as it knows of no alignment.
        """
        parts = []
        if down and self.of.rows:
            row = weighted("r", f"rows{view}", len(self.of.rows))
            parts.append(f"windows.far({row}, TILE.aligns[{view}])[:, None]")
        if across:
            parts.append(f"places.far(column, more{view}[0], TILE.steps[{view}], TILE.aligns[{view}])[None, :]")
        if self.is_apart and len(parts) == 2:
            parts = [f"tl.max_contiguous({' + '.join(parts)}, [1, 2])"]
        return " + ".join([base, *parts])

    def compute(self, value: Expr) -> None:
        """The nodes of a tree that have no names yet."""
        for node in walk(value, known=(*self.names, *self.leaves)):
            self._node(node)
        if value in self.leaves and value not in self.names:
            self._node(value)

    def _node(self, node: Expr) -> None:
        for arg in node.args if node not in self.leaves else ():
            if arg in self.leaves and arg not in self.names:
                self._node(arg)
        if node in self.leaves:
            self.put(node, self._read(node))
        elif node.op == "coordinate":
            self.put(node, self.coordinates.get(int(node.value), "tl.full((), 0, tl.int64)"))
        else:
            self.put(node, text_of(node, self.names))

    def _read(self, node: Expr) -> str:
        """An element of every place, and a number where that lies outside."""
        leaf, k = self.leaves[node], self.numbers[node]
        down, across = self._spans(leaf)
        masks = [*(["is_row"] if down else []), *(["is_column"] if across else [])]
        shift = weighted("k", f"taps{k}", len(self.of.taps))
        for i in range(len(leaf.limits)):
            name = f"{k}_{i}"
            moved = weighted("k", f"limit_taps{name}", len(self.of.taps), f"place{name}")
            self.say(f"now{name} = {moved}")
            masks.append(f"(now{name} >= 0) & (now{name} < limit{name}[2].to(tl.int32))")
        text = f"at{k} + windows.far({shift}, TILE.aligns[{k}])"
        if not masks:
            return f"tl.load({text})"
        if not leaf.limits:
            return f"tl.load({text}, mask={' & '.join(masks)}, other=0)"
        # A mask has the shape of all that is read, and a pointer of as much as it varies with.
        shape = "(TILE.rows, TILE.columns)"
        other = "0" if leaf.outside is None else constant(leaf.outside)
        return f"windows.read(tl.broadcast_to({text}, {shape}), {' & '.join(masks)} & there, {other})"
