"""Attention in one pass (as FlashAttention): a block of queries a program, over all keys with an online softmax.
Planned, and written as a Triton function with the expression of its scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.common.routes import Route, note
from anydml.engines.common.tiles import ALIGNMENT, alignment_of, ceil_power, divisor_of, floor_power, over, step_of
from anydml.engines.cuda.attention.attention_kernel import AttentionConstants, join_parts
from anydml.engines.cuda.codegen.expressions import Emitted, TritonLines, bounded, load_text
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel, KernelProgram, bases_of, kind_of
from anydml.engines.cuda.rows.reduce_kernel import RowSteps
from anydml.engines.cuda.scratch import DeviceWords
from anydml.ir.expressions import load
from anydml.ir.loops import Loops, simplify
from anydml.ir.numerics import expand
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.device import Figures
    from anydml.ir.attention import Attend
    from anydml.ir.expressions import Expr
    from anydml.ir.views import View

# From attention, and the expression of its scores, to a Triton function: some queries a program, over all keys.


SUM = load(0, DataType.FLOAT32)
TENSORS = 3
"""The views before those of scores: the query, the key, the value."""


def trees_of(primitive: Attend) -> tuple[Expr, Expr | None]:
    """The score and the limit, of operations alone."""
    score, limit = (
        None if tree is None else rewrite(expand(tree), bounded) for tree in (primitive.score, primitive.limit)
    )
    assert score is not None  # noqa: S101 - for type checkers: there is always a score
    return score, limit


def leaves_of(primitive: Attend) -> list[Expr]:
    """Parts of scores beside the product: loads first, then coordinates."""
    nodes = list(walk(*(tree for tree in trees_of(primitive) if tree is not None)))
    return [node for op in ("load", "coordinate") for node in nodes if node.op == op and node is not SUM]


def emit_attend(
    primitive: Attend, spans: Callable[[int], tuple[bool, bool]], *, has_rest: bool, is_alone: bool, is_split: bool
) -> Emitted:
    """A kernel; `spans` says if a view varies from query to query, and from key to key.

    `has_rest` where tiles do not fill the keys, or queries do not see them all: those come in a loop of their own.
    `is_alone` where there is one query, whose scores then lie below one another, as the keys do. `is_split` where a
    program looks at a part of the keys, and writes for each query the sum of values, the largest score and the sum of
    powers: `attention.join_parts` makes the result of them.
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
    writer.define("attend", arguments)
    writer.say(f"part, block, matrix = attention.block(shape, {limit is not None}, TILE)", "wait_for_previous()")
    writer.say("row = products.within(block, TILE.rows)")
    for number, name in enumerate(("queries", "stop", "size", "value_size")):
        writer.say(f"{name} = attention.count(shape[{number}], TILE.aligns[{number}])")
    writer.say("is_row = (row < queries)[:, None]", "term = tl.arange(0, TILE.size)")
    writer.say("number = tl.arange(0, TILE.value_size)")
    for view in range(TENSORS):
        writer.say(f"at{view} = products.to_matrix(p{view}, matrix, sizes, matrix{view}, LINE{view}.align)")
    writer.say(f"query = {_tile(0, 'row, term, queries, size', 0, 2)}")
    writer.take_given(given, chosen)
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
    first, last_step = "0", "(stop + TILE.keys - 1) // TILE.keys"
    if is_split:
        writer.say(f"first, last = attention.steps_of(part, {last_step}, TILE.parts)")
        writer.say("whole = tl.maximum(first, tl.minimum(whole, last))")
        first, last_step = "first", "last"
    for is_whole in (True, False) if has_rest else (True,):
        steps = f"{first}, whole" if is_whole else f"whole, {last_step}"
        writer.say(f"for step in {f'tl.range({steps}, num_stages=TILE.stages)' if is_alone else f'range({steps})'}:")
        writer.indent, writer.names = "        ", dict(outside)
        seen = f"is_column & (column{writer.along} < limit)" if limit is not None else "is_column"
        _write_keys(writer, score, None if is_whole else seen)
        writer.indent = "    "
    writer.say("total, sums, top = attention.joined(top, sums, total)" if is_alone else "sums = sums[:, None]")
    if is_split:
        top = "top" if is_alone else "top[:, None]"
        writer.say(
            f"attention.put_part(target, matrix, part, row, number, total, sums, {top}, queries, value_size, TILE)"
        )
    else:
        writer.say("found = (total / sums).to(target.dtype.element_ty)")
        place = writer.place("target", last, True, True, "number")
        writer.say(f"tl.store({place}, found, mask=is_row & (number < value_size)[None, :])")
    return Emitted(writer.function(), tuple(given))


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


class _Writer(TritonLines):
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
                self.operate(node)
                continue
            view, spans = self.leaves[node], self.spans(self.leaves[node])
            base = f"p{view}" if node.op == "load" else f"start{view}.to(tl.int64)"
            masks = ("is_row", "" if self.has_all else "is_column")
            inside = [name for name, varies in zip(masks, spans, strict=True) if varies and name]
            place = self.place(base, view, *spans)
            self.put(node, load_text(place, inside) if node.op == "load" else place)


# Attention, planned: one pass over the keys for every block of queries.


FEWEST = 16
"""Queries from which on one pass is worth it, or one alone: others are quicker as products of few rows."""
SMALLEST = 16
"""Numbers that the hardware multiplies at once."""
LARGEST = {DataType.FLOAT16: 256, DataType.FLOAT32: 128}
"""Numbers of a query or a value for which there is room: 8 heads of 1024 x 256 in FLOAT32 take 313 us in one pass, and
PyTorch 217."""


LONG = 256
"""Keys of one query from which on more are taken at once, where there are fewer queries than multiprocessors."""


class AttentionTile(NamedTuple):
    """How an attention is cut: the queries of a program, the keys that it takes at once, and what it takes for that."""

    rows: int
    keys: int
    warps: int
    stages: int


def takes_attend(primitive: Attend) -> bool:
    """Whether the hardware multiplies these numbers, and there are queries enough."""
    kinds = {view.data_type for view in (*primitive.sources[:TENSORS], primitive.target)}
    is_plain = not any(node.op == "fetch" for node in walk(primitive.seen))
    queries = primitive.scores[-2]
    is_large = (queries >= FEWEST or queries == 1) and all(primitive.scores)
    most = LARGEST.get(primitive.target.data_type, 0)
    return len(kinds) == 1 and is_plain and is_large and min(primitive.depths) > 0 and max(primitive.depths) <= most


def tile_of(primitive: Attend, multiprocessors: int) -> AttentionTile:
    """The cut for a type and a size, as measured on a H200.

    32 heads of 2048 x 128 in FLOAT16 take 153 us with 128 queries at once and 160 with 64, where PyTorch takes 204 by
    its flash attention and 123 by cuDNN's; 12 of 512 x 64 take 5.9 us, and PyTorch 11.9 and 9.1. Causal, the former
    take 129 and 118, and PyTorch 164 and 87. In FLOAT32 they take 1.05 ms and 30 us, and PyTorch 1.57 ms and 55 us.
    One query takes 27.9 us of 256 heads with 1500 keys of 64 numbers, at 3.5 TB/s, and 29.0 with 128 at once; those are
    quicker where not every multiprocessor has a head: 8.5 us of 12 with 1001 keys, and 9.4 with 64 at once.
    """
    if IS_INTERPRETED:
        return AttentionTile(1 if primitive.scores[-2] == 1 else 16, 16, 1, 1)
    *batch, queries, keys = primitive.scores
    if 1 < queries < FEWEST:  # heads that share keys
        return AttentionTile(FEWEST, 128 if max(primitive.depths) <= 64 else 64, 4, 3)
    if queries == 1:
        is_long = math.prod(batch) < multiprocessors and keys > LONG
        return AttentionTile(1, 128, 8, 3) if is_long else AttentionTile(1, 64, 4, 3)
    width = max(map(ceil_power, primitive.depths))
    is_many = math.prod(batch) * -(-queries // 128) >= multiprocessors
    if primitive.target.data_type is DataType.FLOAT32:
        if width > 64:
            return AttentionTile(128, 64, 8, 1)
        return AttentionTile(128, 32, 8, 2) if is_many else AttentionTile(32, 64, 4, 2)
    if width > 128:
        return AttentionTile(128, 64, 8, 2)
    if is_many and primitive.limit is None:
        return AttentionTile(128, 64, 8, 3)
    # With a mask beside the product, 64 x 128 scores have 472 bytes a thread in memory that registers have no room for.
    is_wide = is_many or width > 64 or bool(primitive.beside)
    return AttentionTile(64, 64, 4, 3) if is_wide else AttentionTile(64, 128, 4, 3)


MOST_PARTS = 64


def parts_of(primitive: Attend, shape: AttentionTile, multiprocessors: int) -> int:
    """The parts that the keys of few queries are cut into (flash decoding): two programs a multiprocessor in all."""
    *batch, queries, keys = primitive.scores
    if queries > shape.rows:
        return 1
    steps = -(-keys // shape.keys)
    if IS_INTERPRETED:
        return 4 if steps >= 4 else 1
    return floor_power(max(min(2 * multiprocessors // math.prod(batch), steps // 2, MOST_PARTS), 1))


def _grouped(primitive: Attend) -> Attend:
    """One query of several heads that share keys and values: as several queries of one head, which read them once."""
    rank = len(primitive.scores)
    if rank < 3 or primitive.scores[-2] != 1 or primitive.scores[-3] == 1:
        return primitive
    trees = [tree for tree in (primitive.score, primitive.limit) if tree is not None]
    if any(view.strides[-3] for view in primitive.sources[1:TENSORS]) or any(
        node.op == "coordinate" and node.value in (rank - 2, rank - 3) for node in walk(*trees)
    ):
        return primitive
    limits = [] if primitive.limit is None else [node for node in walk(primitive.limit) if node.op == "load"]
    if any(primitive.beside[int(node.value) - 1].strides[-3] for node in limits):
        return primitive

    def turned(view: View) -> View:
        places = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
        return replace(view, sizes=tuple(view.sizes[k] for k in places), strides=tuple(view.strides[k] for k in places))

    query, key, value = primitive.sources[:TENSORS]
    sources = turned(query), _of_one_head(key), _of_one_head(value)
    beside = tuple(map(turned, primitive.beside))
    return replace(primitive, sources=(*sources, *beside), target=turned(primitive.target))


def _of_one_head(view: View) -> View:
    """Keys or values, whose last two dimensions are their own, for one head of those that share them."""
    sizes, strides = view.sizes, view.strides
    return replace(view, sizes=(*sizes[:-3], 1, *sizes[-2:]), strides=(*strides[:-3], 0, *strides[-2:]))


@dataclass(frozen=True, slots=True)
class AttentionProgram(KernelProgram):
    """An attention, planned."""

    parts: int = 1
    """That the keys are cut into."""
    join: Kernel | None = None
    """What makes the result of them."""
    part_bytes: int = 0

    @classmethod
    def plan(cls, primitive: Attend, figures: Figures) -> AttentionProgram:
        """Let all views be matrices of queries and keys, or of the numbers of each."""
        primitive = _grouped(primitive)
        rank = len(primitive.scores)
        views: list[View | None] = [*primitive.sources[:TENSORS]]
        strides = [view.strides for view in primitive.sources[:TENSORS]]
        for leaf in leaves_of(primitive):  # a coordinate is a view of its own numbers
            view = primitive.beside[int(leaf.value) - 1] if leaf.op == "load" else None
            views.append(view)
            strides.append(view.strides if view else tuple(int(k == leaf.value) for k in range(rank)))
        views.append(primitive.target)
        strides.append(primitive.target.strides)
        offsets = tuple(0 if view is None else view.offset for view in views)
        batch = simplify(Loops(primitive.scores[:-2], tuple(row[:-2] for row in strides), offsets), len(views) - 1)
        pairs = [(row[-2], row[-1]) for row in strides]
        numbers: list[tuple[int, ...]] = []
        lines = []
        for pair, steps, view in zip(pairs, batch.strides, views, strict=True):
            own = steps or (0,)
            align = 1 if view is None else alignment_of((*own, *(step for step in pair if step_of(step) == 2)))
            numbers += [over(pair, align), over(own[::-1], align)]
            lines.append(RowSteps(step_of(pair[0]), step_of(pair[1]), align))
        shape = tile_of(primitive, figures.multiprocessors)
        parts = parts_of(primitive, shape, figures.multiprocessors)
        note(Route(f"tiles of {shape.rows} x {shape.keys}{f', {parts} parts' if parts > 1 else ''}", tile_of))
        has_rest = primitive.limit is not None or primitive.scores[-1] % shape.keys != 0
        is_alone = primitive.scores[-2] == 1

        def spans(view: int) -> tuple[bool, bool]:
            return pairs[view][0] != 0, pairs[view][1] != 0

        made = emit_attend(primitive, spans, has_rest=has_rest, is_alone=is_alone, is_split=parts > 1)
        sizes = (*primitive.scores[-2:], *primitive.depths)
        cuts = (shape.rows, shape.keys, *(max(ceil_power(size), SMALLEST) for size in primitive.depths))
        fit = list(zip(sizes, cuts, strict=True))
        tile = AttentionConstants(
            rows=shape.rows,
            keys=shape.keys,
            size=cuts[2],
            value_size=cuts[3],
            precision="bf16x6" if primitive.target.data_type is DataType.FLOAT32 and not IS_INTERPRETED else "ieee",
            aligns=tuple(min(divisor_of(size), cut) for size, cut in fit),  # type: ignore[arg-type]  # `fit` has four pairs
            is_even=tuple(size % cut == 0 for size, cut in fit),  # type: ignore[arg-type]  # `fit` has four pairs
            is_long=any(_reach(view, cuts) >= 2**31 for view in primitive.sources[:TENSORS]),
            stages=shape.stages if is_alone else 1,
            parts=parts,
        )
        starts = [offset for offset, view in zip(batch.offsets, views, strict=True) if view is None]
        around = (sizes, batch.sizes[::-1] or (1,))
        fixed: Numbers = (*around, *numbers, *starts, *made.numbers)
        read = [(view, offset) for offset, view in zip(batch.offsets, views, strict=True) if view is not None]
        kinds, bases = [kind_of(view.data_type) for view, _ in read], bases_of(*zip(*read, strict=True))
        join, part_bytes = None, 0
        if parts > 1:
            constants = {"TILE": tile, "LINE": lines[-1]}
            count = batch.count * sizes[0]
            join = Kernel(join_parts, ("fp32", kinds[-1]), (*around, *numbers[-2:]), constants, count, 1, figures)
            part_bytes = 4 * count * parts * (sizes[3] + 2)
            kinds[-1] = "fp32"
            join.prepare()
        kernel = Kernel(
            made.function, tuple(kinds), fixed,
            {"TILE": tile} | {f"LINE{view}": line for view, line in enumerate(lines)},
            batch.count * -(-sizes[0] // shape.rows) * parts, shape.warps, figures,
            stages=1 if is_alone else shape.stages,
        )  # fmt: skip
        kernel.prepare()
        return cls(kernel, bases, parts, join, part_bytes)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; parts have memory of the program's own."""
        if self.join is None:
            return KernelProgram.bind(self, places)
        words = DeviceWords(self.part_bytes // 8 + 4, self.kernel.figures.index)
        parts = -(-words.address // ALIGNMENT) * ALIGNMENT
        *addresses, target = [places[tensor] + offset for tensor, offset in self.bases]
        return words.around([self.kernel.launch([*addresses, parts]), self.join.launch([parts, target])], "attention")


def _reach(view: View, cuts: tuple[int, ...]) -> int:
    """The largest offset in one matrix, tiles that go past its ends included."""
    last = zip(view.sizes[-2:], view.strides[-2:], strict=True)
    return sum((size + max(cuts)) * abs(stride) for size, stride in last)
