"""From attention, and the expression of its scores, to a Triton function: some queries a program, over all keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import bounded, from_bits, function_of, text_of
from anydml.engines.cuda.emit_lines import Lines
from anydml.enums import DataType
from anydml.ir.expressions import load
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from anydml.ir.attending import Attend
    from anydml.ir.expressions import Expr

SUM = load(0, DataType.FLOAT32)
TENSORS = 3
"""The views before those of scores: the query, the key, the value."""


@dataclass(frozen=True, slots=True)
class EmittedAttention:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes pointers, the walk's numbers, the coordinates' first ones, the user's numbers, TILE and a Line a view."""
    given: tuple[Expr, ...]


def trees_of(primitive: Attend) -> tuple[Expr, Expr | None]:
    """The score and the limit, of operations alone."""
    score, limit = (
        None if tree is None else rewrite(expand(tree), bounded) for tree in (primitive.score, primitive.limit)
    )
    assert score is not None  # noqa: S101 - for type checkers
    return score, limit


def leaves_of(primitive: Attend) -> list[Expr]:
    """Parts of scores beside the product: loads first, then coordinates."""
    nodes = list(walk(*(tree for tree in trees_of(primitive) if tree is not None)))
    return [node for op in ("load", "coordinate") for node in nodes if node.op == op and node is not SUM]


def emit_attend(
    primitive: Attend, spans: Callable[[int], tuple[bool, bool]], *, has_rest: bool, is_alone: bool = False
) -> EmittedAttention:
    """A kernel; `spans` says if a view varies from query to query, and from key to key.

    `has_rest` where tiles do not fill the keys, or queries do not see them all: those come in a loop of their own.
    `is_alone` where there is one query, whose scores then lie below one another, as the keys do.
    """
    leaves, (score, limit) = leaves_of(primitive), trees_of(primitive)
    given = [node for node in walk(*(tree for tree in (score, limit) if tree is not None)) if node.op == "given"]
    last = TENSORS + len(leaves)
    loads = [f"p{view}" for view, leaf in enumerate(leaves, TENSORS) if leaf.op == "load"]
    numbers = ["shape", "sizes", *(f"{of}{view}" for view in range(last + 1) for of in ("strides", "matrix"))]
    starts = [f"start{view}" for view, leaf in enumerate(leaves, TENSORS) if leaf.op == "coordinate"]
    chosen = [f"given{number}" for number in range(len(given))]
    constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"LINE{view}" for view in range(last + 1)))]
    writer = _Writer(leaves, spans, is_alone=is_alone)
    arguments = [*(f"p{view}" for view in range(TENSORS)), *loads, "target", *numbers, *starts, *chosen, *constants]
    writer.say("@triton.jit", f"def generated_attend({', '.join(arguments)}):")
    writer.indent = "    "
    writer.say(f"block, matrix = attention.block(shape, {limit is not None}, TILE)")
    writer.say("row = products.within(block, TILE.rows)")
    for number, name in enumerate(("queries", "stop", "size", "value_size")):
        writer.say(f"{name} = attention.count(shape[{number}], TILE.aligns[{number}])")
    writer.say("is_row = (row < queries)[:, None]", "term = tl.arange(0, TILE.size)")
    writer.say("number = tl.arange(0, TILE.value_size)")
    for view in range(TENSORS):
        writer.say(f"at{view} = products.to_matrix(p{view}, matrix, sizes, matrix{view}, LINE{view}.align)")
    writer.say(f"query = {_tile(0, 'row, term, queries, size', 0, 2)}")
    for node, name in zip(given, chosen, strict=True):
        writer.put(node, from_bits(f"{name}.to(tl.int64)", node.type))
    writer.say("whole = stop // TILE.keys")
    if limit is not None:
        writer.compute(limit)
        writer.say(f"limit = tl.broadcast_to(tl.minimum({writer.names[limit]}, stop).to(tl.int32), (TILE.rows, 1))")
        writer.say("whole = tl.min(tl.where(is_row, limit, stop)) // TILE.keys")
        writer.say("stop = tl.max(tl.where(is_row, limit, 0))")
    lines = "TILE.keys, 1" if is_alone else "TILE.rows,"
    writer.say(f'top = tl.full(({lines}), float("-inf"), tl.float32)', f"sums = tl.full(({lines}), 0, tl.float32)")
    writer.say(f"total = tl.full((TILE.{'keys' if is_alone else 'rows'}, TILE.value_size), 0, tl.float32)")
    outside = dict(writer.names)
    for is_whole in (True, False) if has_rest else (True,):
        steps = "0, whole" if is_whole else "whole, (stop + TILE.keys - 1) // TILE.keys"
        writer.say(f"for step in {f'tl.range({steps}, num_stages=TILE.stages)' if is_alone else f'range({steps})'}:")
        writer.indent, writer.names = "        ", dict(outside)
        seen = f"is_column & (column{writer.along} < limit)" if limit is not None else "is_column"
        _write_keys(writer, score, None if is_whole else seen)
        writer.indent = "    "
    writer.say("total, sums = attention.joined(top, sums, total)" if is_alone else "sums = sums[:, None]")
    writer.say("found = (total / sums).to(target.dtype.element_ty)")
    place = writer.place("target", last, True, True, "number")
    writer.say(f"tl.store({place}, found, mask=is_row & (number < value_size)[None, :])")
    return EmittedAttention(function_of("\n".join(writer.lines) + "\n"), tuple(given))


def _write_keys(writer: _Writer, score: Expr, seen: str | None) -> None:
    """Some keys: all that there are, or those that are seen."""
    even = 4 if seen else 5
    writer.say("column = step * TILE.keys + tl.arange(0, TILE.keys)", f"is_column = (column < stop){writer.along}")
    writer.say(f"key = {_tile(1, 'column, term, stop, size', even, 2)}")
    is_alone = writer.is_alone
    product = "attention.scores(query, key)" if is_alone else "tl.dot(query, key.T, input_precision=TILE.precision)"
    writer.put(SUM, product)
    writer.has_all = seen is None
    writer.compute(score)
    shape = "TILE.keys, 1" if is_alone else "TILE.rows, TILE.keys"
    writer.say(f"x = tl.broadcast_to({writer.names[score]}, ({shape}))")
    if seen:
        writer.say(f'x = tl.where({seen}, x, float("-inf"))')
    value = _tile(2, "column, number, stop, value_size", even, 3)
    if is_alone:
        writer.say(f"top, sums, total = attention.soften_each(x, {value}, top, sums, total)")
        return
    writer.say("power, top, sums, total = attention.soften(x, top, sums, total)", f"value = {value}")
    writer.say("total = tl.dot(power.to(value.dtype), value, total, input_precision=TILE.precision)")


def _tile(view: int, what: str, rows: int, columns: int) -> str:
    """A tile; numbers say which of the sizes it goes along: it fills 5, and may not fill 4."""
    even = [f"TILE.is_even[{number}]" if number < 4 else str(number == 5) for number in (rows, columns)]
    return f"attention.tile(at{view}, {what}, strides{view}, {', '.join(even)}, TILE.is_long, LINE{view})"


class _Writer(Lines):
    def __init__(self, leaves: Iterable[Expr], spans: Callable[[int], tuple[bool, bool]], *, is_alone: bool) -> None:
        self.leaves, self.spans = {leaf: view for view, leaf in enumerate(leaves, TENSORS)}, spans
        super().__init__()
        self.is_alone = is_alone
        self.along = "[:, None]" if is_alone else "[None, :]"
        """How scores go from key to key."""
        self.has_all = False
        """Whether there are keys for all of a tile."""

    def place(self, base: str, view: int, down: bool, across: bool, column: str = "column") -> str:
        """Where a tile lies in a view."""
        text = f"products.to_matrix({base}, matrix, sizes, matrix{view}, LINE{view}.align)"
        if down:
            text = f"products.down({text}, row, strides{view}[0], LINE{view}.row_step, LINE{view}.align)"
        if across:
            way = "down" if self.is_alone and column == "column" else "across"
            text = f"products.{way}({text}, {column}, strides{view}[1], LINE{view}.step, LINE{view}.align)"
        return text

    def compute(self, value: Expr) -> None:
        """The nodes of a tree that have no names yet."""
        for node in walk(value, known=self.names):
            if node not in self.leaves:
                self.put(node, text_of(node, self.names))
                continue
            view, spans = self.leaves[node], self.spans(self.leaves[node])
            base = f"p{view}" if node.op == "load" else f"start{view}.to(tl.int64)"
            masks = ("is_row", "" if self.has_all else "is_column")
            inside = [name for name, varies in zip(masks, spans, strict=True) if varies and name]
            masked = f", mask={' & '.join(inside)}, other=0" if inside else ""
            place = self.place(base, view, *spans)
            self.put(node, f"tl.load({place}{masked})" if node.op == "load" else place)
