"""From an expression with folds to a Triton function: some rows a program, whole ones or a chunk at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cuda.emit import bounded, constant, from_bits, function_of, text_of, type_of
from anydml.engines.cuda.emit_lines import Lines
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, Expr, const
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Form:
    """The facts that the text of a kernel depends on besides the expression."""

    is_whole: bool
    """Whether a tile holds whole rows: each element is read once, whatever is folded how often."""
    is_even: bool
    """Whether chunks fill rows."""
    by_row: tuple[bool, ...]
    """By target, whether it has a value for each row."""
    is_parted: bool = False
    """Whether several programs have a part of a row each, and put down what the folds make of it."""
    is_full: bool = False
    """Whether tiles fill the rows."""


@dataclass(frozen=True, slots=True)
class EmittedRows:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes pointers, a walk's numbers, the coordinates' first ones, the user's numbers, TILE, and a LINE a view."""
    slots: tuple[int, ...]
    dimensions: tuple[int, ...]
    given: tuple[Expr, ...]
    fetches: tuple[Expr, ...]
    """Fetched values, each by a pointer and its source's strides."""


def neutral(fold: Expr) -> Expr:
    """The neutral element of a fold: -0.0 and not 0.0, which would make a sum of -0.0 alone 0.0."""
    kind = fold.type
    assert kind is not None  # noqa: S101 - for type checkers: truths are not folded
    if fold.op in ("fold_sum", "fold_product"):
        return const({"fold_sum": -0.0, "fold_product": 1.0}[fold.op], kind)
    if kind.is_float:
        return const(-np.inf if fold.op == "fold_max" else np.inf, kind)
    limits = np.iinfo(kind.dtype)
    return const(int(limits.min if fold.op == "fold_max" else limits.max), kind)


def levels_of(*values: Expr) -> dict[Expr, int]:
    """How deep in one another the folds up to each node are."""
    found: dict[Expr, int] = {}
    for node in walk(*values):
        found[node] = max((found[arg] for arg in node.args), default=0) + (node.op in FOLDS)
    return found


def leaves_of(*values: Expr) -> list[list[Expr]]:
    """The loads, the coordinates and the user's numbers of trees."""
    nodes = list(walk(*values))
    return [[node for node in nodes if node.op == op] for op in ("load", "coordinate", "given")]


def emit_rows(
    values: Sequence[Expr], form: Form, spans: Callable[[Expr], tuple[bool, bool]], verdicts: int = 0
) -> EmittedRows:
    """A kernel for trees of operations and folds, one for each target.

    `spans` says if a leaf varies from row to row, and along a row. It writes nothing where one of so many verdicts
    finds a fault.
    """
    writer = _Writer([rewrite(value, bounded) for value in values], form, spans, verdicts)
    return EmittedRows(
        function_of(writer.text()),
        tuple(int(node.value) for node in writer.loads),
        tuple(int(node.value) for node in writer.coordinates),
        tuple(writer.given),
        tuple(writer.fetches),
    )


class _Writer(Lines):
    def __init__(
        self, values: list[Expr], form: Form, spans: Callable[[Expr], tuple[bool, bool]], verdicts: int
    ) -> None:
        self.values, self.form = values, form
        self.guards = [f"verdict{number}" for number in range(verdicts)]
        self.loads, self.coordinates, self.given = leaves_of(*values)
        self.levels = levels_of(*values)
        self.folds = [node for node in self.levels if node.op in FOLDS]
        self.fetches = {node: f"f{k}" for k, node in enumerate(node for node in self.levels if node.op == "fetch")}
        self.views = {node: number for number, node in enumerate((*self.loads, *self.coordinates))}
        self.spans = {node: spans(node) for node in self.views}
        self.varies: dict[Expr, bool] = {}
        """Whether a node has a number for each element of a row."""
        for node in self.levels:
            is_leaf, is_fold = node in self.views, node.op in FOLDS
            below = any(self.varies[arg] for arg in node.args)
            self.varies[node] = self.spans[node][1] if is_leaf else below and not is_fold
        super().__init__()

    def text(self) -> str:
        written = self.folds if self.form.is_parted else self.values
        views = range(len(self.views) + (0 if self.form.is_parted else len(written)))
        targets = [f"target{number}" for number in range(len(written))]
        pointers = [*(f"p{view}" for view in range(len(self.loads))), *targets, *self.fetches.values(), *self.guards]
        numbers = ["count", "length", "parts", "chunks", "row_sizes", "sizes"]
        numbers += [f"{of}{view}" for view in views for of in ("row_strides", "strides")]
        starts = [f"start{number}" for number in range(len(self.coordinates))]
        chosen = [f"given{number}" for number in range(len(self.given))]
        chosen_strides = [f"strides_{name}" for name in self.fetches.values()]
        constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"LINE{view}" for view in views))]
        self.say(
            "@triton.jit",
            f"def generated_reduce({', '.join([*pointers, *numbers, *starts, *chosen, *chosen_strides, *constants])}):",
        )
        self.indent = "    "
        for guard in self.guards:
            self.say(f"if tl.load({guard}) != NONE_OUTSIDE:", "    return")
        for node, number in zip(self.given, chosen, strict=True):
            self.put(node, from_bits(f"{number}.to(tl.int64)", node.type))
        if self.form.is_parted:
            self.say("tile, part = rows.parted(parts)")
        else:
            self.say("tile = tl.program_id(0)")
        self.say("row, is_row = rows.begin(tile, count, TILE)")
        for node, view in self.views.items():
            base = f"p{view}" if node.op == "load" else f"start{view - len(self.loads)}.to(tl.int64)"
            at = f"rows.to_rows({base}, row, row_sizes, row_strides{view}, LINE{view})" if self.spans[node][0] else base
            self.say(f"at{view} = {at}")
        if not self.form.is_parted:
            for target, last in zip(targets, range(len(self.views), len(views)), strict=True):
                self.say(f"at{last} = rows.to_rows({target}, row, row_sizes, row_strides{last}, LINE{last})")
        if self.form.is_whole:
            self.whole()
        else:
            self.chunks()
        return "\n".join(self.lines) + "\n"

    # One chunk of a row, or all of it

    def begin(self, first: str) -> None:
        self.say(f"number = rows.within({first}, TILE)")
        if not self.form.is_even:
            self.say("there = rows.there(number, length, TILE)")

    def mask(self, by_row: bool, along: bool) -> str:
        parts = ["is_row"] * (by_row and not self.form.is_full) + ["there"] * (along and not self.form.is_even)
        return f", mask={' & '.join(parts)}" if parts else ""

    def compute(self, nodes: Sequence[Expr]) -> None:
        for node in nodes:
            if node in self.views:
                self.put(node, self.leaf(node))
            elif node.op in FOLDS:
                self.put(node, f"rows.{node.op}({self.filled(node)})")
            elif node in self.fetches:
                self.put(node, self.fetched(node))
            elif self.is_shared(node):
                self.put(node, "rows.divided({}, {})".format(*(self.names[arg] for arg in node.args)))
            elif node.op != "given":
                self.put(node, text_of(node, self.names))

    def is_shared(self, node: Expr) -> bool:
        """Whether elements are divided by what is folded of their row: one inverse serves all of them."""
        if node.op != "div" or node.type is not DataType.FLOAT32:
            return False
        by = node.args[1]
        return self.varies[node.args[0]] and not self.varies[by] and self.levels[by] > 0

    def leaf(self, node: Expr) -> str:
        view, (by_row, along) = self.views[node], self.spans[node]
        place = f"rows.along(at{view}, number, sizes, strides{view}, LINE{view})" if along else f"at{view}"
        return f"tl.load({place}{self.mask(by_row, along)})" if node.op == "load" else place

    def fetched(self, node: Expr) -> str:
        """Elements at computed places."""
        name, length = self.fetches[node], "TILE.length" if self.varies[node] else "1"
        indices = (f"{self.names[index]} * strides_{name}[{k}]" for k, index in enumerate(node.args))
        offset = f"rows.spread({' + '.join(indices)}, TILE.rows, {length})"
        return f"tl.load({name} + {offset}{self.mask(True, self.varies[node])})"

    def filled(self, fold: Expr) -> str:
        """The folded value, as a whole tile; outside of rows the neutral element."""
        name = self.names[fold.args[0]]
        if not self.form.is_even:
            name = f"tl.where(there, {name}, {constant(neutral(fold))})"
        return f"rows.spread({name}, TILE.rows, TILE.length)"

    def store(self, *, by_row: bool) -> None:
        """Write the targets that have a value for each row, or those that have one for each element."""
        for view, (value, is_by_row) in enumerate(zip(self.values, self.form.by_row, strict=True), len(self.views)):
            if is_by_row != by_row:
                continue
            name = self.names[value]
            if by_row:
                self.say(f"tl.store(at{view}, rows.spread({name}, TILE.rows, 1){self.mask(True, False)})")
                continue
            place = f"rows.along(at{view}, number, sizes, strides{view}, LINE{view})"
            self.say(f"tl.store({place}, rows.spread({name}, TILE.rows, TILE.length){self.mask(True, True)})")

    # The two ways

    def whole(self) -> None:
        self.begin("0")
        self.compute(list(walk(*self.values)))
        self.store(by_row=True)
        self.store(by_row=False)

    def chunks(self) -> None:
        """A loop along the rows for each level of folds, and one for what is written."""
        self.say("begin, end = 0, (length + TILE.length - 1) // TILE.length")
        if self.form.is_parted:
            self.say("begin = part.to(tl.int64) * chunks", "end = tl.minimum(begin + chunks, end)")
        for level in range(1, max(self.levels.values()) + 1):
            self.loop([node for node in self.folds if self.levels[node] == level])
        if self.form.is_parted:
            for number, fold in enumerate(self.folds):
                place = f"target{number} + row.to(tl.int64)[:, None] * parts + part"
                self.say(f"tl.store({place}, {self.names[fold]}{self.mask(True, False)})")
        else:
            self.loop([])

    def loop(self, folds: list[Expr]) -> None:
        """Go along the rows, and fold; without folds, compute the values and write them."""
        roots = [fold.args[0] for fold in folds] or self.values
        needed = list(walk(*roots, known=self.names))
        self.compute([node for node in needed if not self.varies[node]])
        if not folds:
            self.store(by_row=True)
            if all(self.form.by_row):
                return
        sums = [f"sum{next(self.fresh)}" for _ in folds]
        for name, fold in zip(sums, folds, strict=True):
            self.say(f"{name} = rows.spread(rows.wide({constant(neutral(fold))}), TILE.rows, TILE.length)")
        self.say("for step in range(begin, end):")
        outside, kept = self.indent, dict(self.names)
        self.indent += "    "
        self.begin("step * TILE.length")
        self.compute([node for node in needed if self.varies[node]])
        for name, fold in zip(sums, folds, strict=True):
            self.say(f"{name} = rows.both_{fold.op.removeprefix('fold_')}({name}, rows.wide({self.filled(fold)}))")
        if not folds:
            self.store(by_row=False)
        self.indent = outside
        self.names = kept
        for name, fold in zip(sums, folds, strict=True):
            assert fold.type is not None  # noqa: S101 - for type checkers
            self.put(fold, f"rows.{fold.op}({name}).to({type_of(fold.type)})")
