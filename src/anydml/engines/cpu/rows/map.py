"""Maps: elementwise expressions over rows of several views. A kernel for each tree and for how its views' rows lie:
planned, and written in LLVM IR.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import is_open
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_tree
from anydml.engines.cpu.codegen.function import SIZES, Function, vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.row import (
    ANYWHERE,
    EVERY,
    choose_lanes,
    fetch_steps,
    givens,
    load_each,
    load_leaf,
    store_leaf,
    write_lanes,
    write_start,
)
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS, is_streamed, program_of_rows
from anydml.ir.expressions import coordinate, number_of
from anydml.ir.loops import Loops, simplify
from anydml.ir.trees import walk, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.program import KernelProgram
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

# Maps: what happens along one innermost row of several views, written from a tree.
#
# A row is `kernel(words, places, count)`, called by `walk.py`: after each view's address and step its words
# hold the numbers that the user chose, then how far ahead lines of targets are fetched, then of each fetch the step of
# its rows, and its source's strides. Targets are the last of the views; a coordinate is one whose address is the
# number, and a fetch's source does not move.
#
# A row goes by whole vectors. What is left at its end is computed first, by a vector that overlaps the last whole one,
# and written last: in place, every element is read before it is written. So is the vector at its beginning, where those
# after it are aligned in the target: a store across two lines of the cache takes twice as long. A row that is shorter
# than a vector goes by way of the stack, where its last element is repeated, so that nothing is computed of what nobody
# gave.


class RowShape(NamedTuple):
    """The parameters of a row, beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads, coordinates and fetches that are views, in the words' order."""
    rows: str
    """A letter for each of them, then for each target: p for packed, r for repeated, s for strided, those of EVERY
    for loads; a for anywhere, and g for anywhere along a packed dimension; w for one of the targets whose
    elements lie in turn."""
    lanes: int
    """A power of two."""
    stream: bool
    """Whether the target is written past the cache, and sources are fetched ahead."""
    ahead: bool = False
    """Whether rows that are fetched are asked for some rows ahead: the last leaf is then the number of a row."""
    woven: int = 1
    """How many targets, one after the other, have their elements in turn: 2 for the even and the odd ones of a row."""
    soon: bool = False
    """Whether lines that are written soon are fetched ahead, each target's so many bytes as its word says."""
    aligns: bool = False
    """Whether whole vectors begin where one of the target is aligned, of a row that has one target."""


def make_map(values: Sequence[Expr], shape: RowShape) -> str:
    """The text of a map's row, with a value for each target."""
    return _Row(values, shape).write()


class _View:
    """A view of a row: what is known of it, and where it lies."""

    place: Value
    """Of the row's first element; the number itself of a coordinate."""
    base: Value
    """Of the row's first element, and of what is fetched its source's."""
    step: Value
    """Bytes from one element to the next, where they are strided; of a coordinate, what the next adds."""
    on: Value
    """How far a coordinate's lanes are on from its first."""
    stack: Value
    """Where a short row lies; of a target also the vector that is written last."""
    head: Value
    """Where a target's first vector lies until it is written, ahead of aligned ones."""
    strides: Sequence[Value]
    """Of what is fetched, in bytes."""
    soon: Value
    """How far ahead lines of a target are fetched."""

    def __init__(self, node: Expr, row: str, lanes: int, woven: int = 0) -> None:
        self.node, self.row, self.is_source = node, row, not woven
        self.is_coordinate, self.is_fetch = (self.is_source and node.op == op for op in ("coordinate", "fetch"))
        self.scalar = scalar_text(kind_of(node.type))
        self.width, self.every = SIZES[self.scalar], EVERY.get(row, 1)
        self.part, self.vector = (vector_of(lanes * each, self.scalar) for each in (1, woven or 1))
        self.align = 1 << (lanes * self.width * (woven or self.every) - 1).bit_length()
        """Of a vector on the stack, or of those that are read as one."""
        self.apart = self.width * (woven or 1)
        """Bytes from one element to the next, where they are not strided."""
        self.is_moved = row not in f"r{ANYWHERE}" and not self.is_coordinate
        """Whether a short row of it goes by way of the stack."""


_ALL, _TAIL, _REST, _SHORT, _HEAD = range(5)
"""What a run over vectors is: all of a row, its end ahead of the rest, that rest, all of a short row, or the vector at
its beginning ahead of aligned ones."""


class _Row:
    """A row in the making."""

    def __init__(self, values: Sequence[Expr], shape: RowShape) -> None:
        self.values, self.shape, self.lanes = values, shape, shape.lanes
        self.f = Function("kernel", "w:ptr places:ptr n")
        self.words, self.places, self.n = self.f.args
        leaves, lanes = len(shape.leaves), shape.lanes
        self.sources = [_View(*pair, lanes) for pair in zip(shape.leaves, shape.rows, strict=False)]
        self.targets = [_View(*pair, lanes, shape.woven) for pair in zip(values, shape.rows[leaves:], strict=True)]
        self.written = self.targets[:: shape.woven]
        """The first target of each that are written as one."""
        self.givens = givens(list(walk(*values)))
        self.fetches = [view for view in self.sources if view.is_fetch]
        self.letters = dict(zip(shape.leaves, shape.rows, strict=False))
        self.found: dict[Expr, str] = {}
        """Vectors, of leaves and of what is the same for the whole row."""
        self.early: dict[Expr, str] = {}
        """Vectors of one, of a row's first element: what indices are computed from."""
        self.numbers: dict[Expr, str] = {}
        """Those of numbers that the user chose."""
        self.moving: dict[Expr, dict[int, Value]] = {}
        """Of fetches that lie anywhere, a vector of strides for each index that moves."""
        self.has_lanes = not set(ANYWHERE).isdisjoint(shape.rows)
        """Whether an index of every lane counts, those past the end of a row too."""
        self.counts = self.f.vector("i64", range(lanes))

    def write(self) -> str:
        """The whole text."""
        f, n, lanes = self.f, self.n, self.lanes
        self._enter()
        aligns = self.shape.aligns
        head = self._count_to_aligned() if aligns else f.value(0, "i64")
        over = (n - head if aligns else n) & (lanes - 1)
        whole, rest = n - over, n - lanes
        long, again, short, enter, end, out, done = map(
            f.label, ("long", "again", "short", "enter", "end", "out", "done")
        )
        after = f.label("after") if aligns else again
        ends: list[tuple[str, list[Value]]] = []

        def go_in(run: dict[Any, Value]) -> None:
            ends.append((f.block, [*run.values()]))
            f.go(enter)

        f.branch(n < lanes, short, long)
        f.open(long)
        is_all, run = (over | head if aligns else over).eq(0), self._run(_TAIL, n)
        run["first"] = f.select(is_all, 0, rest)
        run["state"] = f.select(is_all, f.value(_ALL, "i32"), run["state"])
        for view in self.written:
            ahead = view.stack + rest * -view.apart  # so that the vector at `rest` lies on the stack
            run[view] = f.select(is_all, view.place, ahead)
            run[view, "step"] = f.select(is_all, view.step, view.apart)
        go_in(run)
        f.open(again)
        if aligns:
            go_in(self._run(_HEAD, f.value(lanes, "i64")))
            f.open(after)
        go_in({**self._run(_REST, whole), "first": head})
        f.open(short)
        go_in(self._run(_SHORT, f.value(lanes, "i64")))
        # One block for all of them, not a loop around it.
        f.open(enter)
        run = dict(zip(run, f.join(ends), strict=True))
        for view in self.sources if self.has_lanes else ():
            if view.is_coordinate and view.row != "r":
                view.on = f.splat(view.step, lanes) * run["lane"]
        with f.loop(run["first"], run["stop"], lanes, is_entered=True) as i:
            self._vectors(i, run)
        f.switch(run["state"], done, {_TAIL: again, _REST: end, _SHORT: out} | ({_HEAD: after} if aligns else {}))
        # The loop of short rows comes first, and lies within 32 bytes so, which an x86 decodes at once.
        f.open(out)
        with f.loop(0, n, is_entered=True) as o:
            for k, view in enumerate(self.targets):
                here = self.written[k // self.shape.woven].stack + k % self.shape.woven * view.width
                f.store(f.load(view.scalar, here + o * view.apart, align=1), view.place + o * view.step, align=1)
        f.go(done)
        f.open(end)
        for view in self.written:
            if aligns:
                self._store(
                    view, f.load(view.vector, view.head, align=view.align), view.place, f.value(0, "i64"), view.step
                )
            self._store(view, f.load(view.vector, view.stack, align=view.align), view.place, rest, view.step)
        f.go(done)
        f.open(done)
        return f.end()

    def _run(self, state: int, stop: Value) -> dict[Any, Value]:
        """A run from a row's first element on: a short row's over the stack, where its last element is repeated."""
        f, is_short = self.f, state == _SHORT
        run: dict[Any, Value] = {"first": f.value(0, "i64"), "stop": stop, "state": f.value(state, "i32")}
        moved = [view for view in self.sources if view.is_moved]
        for view in (*self.written, *moved):
            is_apart = state == _HEAD and not view.is_source
            run[view] = view.head if is_apart else view.stack if is_short else view.place
            run[view, "step"] = f.value(view.apart, "i64") if is_short else view.step
        if self.has_lanes:
            run["lane"] = self.counts
        if is_short:
            last = self.n - 1
            if self.has_lanes:
                ends = f.splat(last, self.lanes)
                run["lane"] = f.select(self.counts < ends, self.counts, ends)
            with f.loop(0, self.lanes, is_entered=True) as j:
                source = f.min(j, last)
                for view in moved:
                    element = f.load(view.scalar, view.place + source * view.step, align=1)
                    f.store(element, view.stack + j * (view.width * view.every), align=1)
        return run

    def _count_to_aligned(self) -> Value:
        """The elements of the target, fewer than a vector has, before the first that is aligned as a vector."""
        f, (target,) = self.f, self.written
        size = min(target.width * self.lanes, LINE)
        bytes_on = (0 - f.address(target.place)) & (size - 1)
        return f.select(self.n < 2 * self.lanes, 0, bytes_on >> (target.width.bit_length() - 1))

    # Before all vectors

    def _word(self, index: int, kind: str = "i64") -> Value:
        return self.f.load(kind, self.words + 8 * index)

    def _enter(self) -> None:
        """Read the words, and compute what is the same for the whole row."""
        f, views = self.f, [*self.sources, *self.targets]
        for view in self.written:
            view.stack = f.stack(view.vector, align=view.align)
            if self.shape.aligns:
                view.head = f.stack(view.vector, align=view.align)
        for i, view in enumerate(views):
            view.place = view.base = f.load("i64" if view.is_coordinate else "ptr", self.places + 8 * i)
            if view.is_coordinate and self.fetches:
                self.early[view.node] = f.splat(view.place, 1)
            if view.row == "r" and view.is_source and not view.is_fetch:
                self._repeat(view)
            elif not view.is_fetch:
                view.step = self._word(len(views) + i)
                if view.is_coordinate and not self.has_lanes:
                    view.on = f.splat(view.step, self.lanes) * self.counts
                elif view.is_source and view.is_moved:
                    view.stack = f.stack(vector_of(self.lanes * view.every, view.scalar), align=view.align)
        for i, node in enumerate(self.givens):
            given = self._word(2 * len(views) + i, scalar_text(kind_of(node.type)))
            self.found[node] = f.splat(given, self.lanes)
            if self.fetches:
                self.early[node] = self.numbers[node] = f.splat(given, 1)
        word = 2 * len(views) + len(self.givens)
        if self.shape.soon:
            for i, view in enumerate(self.written):
                view.soon = self._word(word + i)
            word += len(self.written)
        for view in self.fetches:
            self._begin_fetch(view, word)
            word += 1 + len(view.strides)
        if self.shape.ahead:
            self._ask_ahead(word)
        self._compute_once()

    def _repeat(self, view: _View) -> None:
        """One element, or coordinate, for the whole row."""
        f = self.f
        once = view.place if view.is_coordinate else f.load(view.scalar, view.place, align=1)
        self.found[view.node] = f.splat(once, self.lanes)
        if self.fetches:
            self.early[view.node] = f.splat(once, 1)

    def _begin_fetch(self, view: _View, word: int) -> None:
        """Work out where the row of a fetch starts, or where those do whose indices do not move."""
        f, node = self.f, view.node
        view.strides = [self._word(word + 1 + k) for k in range(len(node.args))]
        moved = moving(node, self.letters) if view.row in ANYWHERE else []
        still = [k for k in range(len(node.args)) if k not in moved]
        indices, strides = [node.args[k] for k in still], [view.strides[k] for k in still]
        view.place = write_start(f, indices, self.early, view.base, strides)
        if moved:
            self.moving[node] = {k: f.splat(view.strides[k], self.lanes) for k in moved}
        elif view.row == "r":
            self._repeat(view)
        else:
            view.step, view.stack = self._word(word), f.stack(view.vector, align=view.align)

    def _ask_ahead(self, word: int) -> None:
        """Have rows brought to the cache that will be fetched some rows on, as far as there are any."""
        f = self.f
        size, distance, lines = (self._word(word + k) for k in range(3))
        on = f.min(distance, size - (self.sources[-1].place + 1))
        soon: dict[Expr, str] = dict(self.numbers)
        for k, view in enumerate(self.sources):
            if view.is_fetch and view.row not in "rp":
                continue
            if view.is_fetch:
                place = write_start(f, view.node.args, soon, view.base, view.strides)
            else:
                place = view.place + on * self._word(word + 3 + k)
            if view.is_coordinate:
                soon[view.node] = f.splat(place, 1)
            elif view.row == "r":
                soon[view.node] = f.splat(f.load(view.scalar, place, align=1), 1)
            elif view.is_fetch:
                with f.loop(0, lines, is_entered=True) as line:
                    f.prefetch(place + line * LINE)

    def _compute_once(self) -> None:
        """The values that are the same for the whole row: the keys of ten rounds of Philox, for every vector."""
        same: set[Expr] = set(self.found)
        for node in walk(*self.values):
            if node.op == "const" or (node.args and node.op != "fetch" and same.issuperset(node.args)):
                same.add(node)
        nodes = [node for node in walk(*self.values) if node in same and node.op != "const"]
        kept = dict.fromkeys(arg for node in walk(*self.values) if node not in same for arg in node.args if arg in same)
        self._compute(node for node in nodes if node in kept or node in self.values)

    def _compute(self, roots: Iterable[Expr]) -> None:
        """Write trees, as far as they are not found."""
        for root in roots:
            if nodes := list(walk(root, known=self.found)):
                write_tree(self.f, nodes, self.found, self.lanes, self._fetch)

    def _fetch(self, node: Expr, args: Sequence[str]) -> Value:
        """A fetch that lies anywhere, given vectors of its indices."""
        view, strides = self.sources[self.shape.leaves.index(node)], self.moving[node]
        if view.row == "g":
            index = self.f.value(args[next(iter(strides))], self.counts.type)
            return load_each(self.f, view.scalar, view.place, index, view.width)
        return write_lanes(self.f, node, [args[k] for k in strides], view.place, [*strides.values()])

    # A row's vectors

    def _vectors(self, i: Value, run: Mapping[Any, Value]) -> None:
        """Read, compute and write the vectors at an index."""
        f, lanes = self.f, self.lanes
        for v, view in enumerate(self.sources):
            if view.is_coordinate and view.row != "r":
                self.found[view.node] = f.splat(view.place + i * view.step, lanes) + view.on
            elif view.is_moved:
                base, step = run[view], run[view, "step"]
                if self.shape.stream and view.row == "p" and view.width * lanes >= LINE:
                    f.prefetch(base + i * view.width + figures().rows.prefetch_bytes * (v + 1))
                place = base + i * (step if view.row == "s" else view.every * view.width)
                self.found[view.node] = load_leaf(f, view.row, view.scalar, place, step, lanes)
        self._compute(self.values)
        woven = self.shape.woven
        for k, view in enumerate(self.written):
            each = [f.value(self.found[value], view.part) for value in self.values[k * woven : (k + 1) * woven]]
            # Element beside element, as one: LLVM has few shuffles for it, and an Arm one store.
            order = [v * lanes + lane for lane in range(lanes) for v in range(woven)]
            value = choose_lanes(f, each, order) if woven > 1 else each[0]
            if self.shape.soon:
                soon = view.place + i * view.apart + view.soon
                for on in range(0, view.apart * lanes, LINE):
                    f.prefetch(soon + on, is_written=True)
            self._store(view, value, run[view], i, run[view, "step"], is_streamed=self.shape.stream)

    def _store(
        self, view: _View, value: Value, base: Value, index: Value, step: Value, *, is_streamed: bool = False
    ) -> None:
        """A target's vector at an index, or several targets' woven one."""
        is_run = view.row in "pw"
        place = base + index * (view.apart if is_run else step)
        store_leaf(self.f, "p" if is_run else "s", value, place, step, is_streamed=is_streamed)


def moving(node: Expr, rows: Mapping[Expr, str]) -> list[int]:
    """Which indices of a fetch are not the same along a row, given the letters of leaves."""
    return [k for k, index in enumerate(node.args) if any(rows.get(part, "r") != "r" for part in walk(index))]


def body_of(values: Sequence[Expr], leaves: Sequence[Expr], rows: str) -> list[Expr]:
    """The nodes computed for each element: all but the indices of fetches that a row has one start for."""
    fetches = [leaf for leaf, row in zip(leaves, rows, strict=False) if leaf.op == "fetch" and row not in ANYWHERE]
    return [*fetches, *walk(*values, known=fetches)]


# Maps of any expression, planned: a kernel for each tree, and for how its views' innermost rows lie.


FLOATS = [t for t in DataType if t.is_float]
MOST_WOVEN = 8
"""Targets that are written as one at most: each takes a vector, and half of a shuffle for every other."""
MOST_MOVES = 96
"""Lanes of all strided views together: each is moved for itself, and takes 1 ms to compile."""
FEW = 4
"""Lanes that vectors of short rows have at least."""


def plan_map(primitive: Map) -> KernelProgram | None:
    """Let each load, coordinate and fetch be a view, and walk them together for the first target's memory."""
    values, targets = primitive.values, primitive.targets
    nodes = list(walk(*values))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate", "fetch"))
    sources = [None if leaf.op == "coordinate" else primitive.sources[int(leaf.value)] for leaf in leaves]
    views = (*sources, *targets)
    widths = [1 if view is None else view.data_type.size_in_bytes for view in views]
    of = figures().rows
    loops = _lengthen(
        simplify(_loops(leaves, sources, targets), len(leaves)), min(of.vector_bytes // widest_of(nodes), of.short)
    )
    if not loops.sizes:
        loops = Loops((1,), ((1,),) * len(views), loops.offsets)
    *outer, count = loops.sizes
    if len(views) > VIEWS or len(outer) > OUTER_RANK:
        return None
    steps = [row[-1] for row in loops.strides]
    fetches = fetch_steps(nodes, dict(zip(leaves, steps, strict=False)), primitive.sources)
    along = [fetches.get(leaf, step) for leaf, step in zip(leaves, steps, strict=False)]
    letters, woven = _letters(leaves, along, sources), _woven(loops, targets)
    rows = "".join((*letters, *("w" if woven > 1 else row_letter(step) for step in steps[len(leaves) :])))
    is_across, weight = bool(outer) and "s" in rows, min(1 + len(nodes) // 8, 16)
    length = of.segment_across if is_across else max(of.segment // max(widths) // weight // LINE, 1) * LINE
    body = body_of(values, leaves, rows)
    lanes = lanes_of(body, widest_of(body), rows, count if outer else of.vector_bytes)
    soon = _soon(loops, targets, rows[len(leaves) :], woven)
    numbers = [*(word_of(node) for node in givens(nodes)), *soon]
    for leaf, source, width in zip(leaves, sources, widths, strict=False):
        if leaf.op == "fetch" and source is not None:
            numbers += [(fetches[leaf] or 0) * width, *(stride * width for stride in source.strides)]
    is_run = len(targets) == 1 and steps[-1] == 1
    stream = is_run and is_streamed(count * widths[-1], loops.count * widths[-1])
    # Of an open size rows may become too short for it.
    aligns = is_run and not stream and not is_open(count) and 0 < of.aligned_from <= count * widths[-1]
    shape = RowShape(leaves, rows, lanes, stream, woven=woven, soon=bool(soon), aligns=aligns)
    if outer and len(views) < VIEWS and _comes_from_far(shape, sources):
        # The number of a row is one view more, by which those ahead are known to be there.
        first = len(leaves)
        numbers += _words_ahead(loops, widths, first)
        place = (*[0] * (len(outer) - 1), 1, 0)
        loops = Loops(
            loops.sizes,
            (*loops.strides[:first], place, *loops.strides[first:]),
            (*loops.offsets[:first], 0, *loops.offsets[first:]),
        )
        views, widths[first:first] = (*sources, None, *targets), [1]
        shape = shape._replace(leaves=(*leaves, coordinate(-1)), rows=f"{rows[:first]}r{rows[first:]}", ahead=True)
    return program_of_rows(
        row_kernel(values, shape), views, widths, loops, numbers, loops.count * sum(widths) * weight, length=length,
        is_empty=not all(primitive.sizes), aligned=widths[-1] if shape.stream and not outer else 0,
    )  # fmt: skip


def _woven(loops: Loops, targets: Sequence[View]) -> int:
    """How many targets, one after the other, have their elements in turn; 1 where they lie otherwise.

    Enlarged images do, and random numbers: 1M words of counters take 2.5 ms in place of 2.7.
    """
    strides, offsets = loops.strides[-len(targets) :], loops.offsets[-len(targets) :]
    number = strides[0][-1]
    if not 2 <= number <= MOST_WOVEN or len(targets) % number or any(row != strides[0] for row in strides):
        return 1
    for k, (one, offset) in enumerate(zip(targets, offsets, strict=True)):
        first = k - k % number
        if offset != offsets[first] + k % number or one.data_type is not targets[0].data_type:
            return 1
        if one.tensor != targets[first].tensor:
            return 1
    return int(number)


def _soon(loops: Loops, targets: Sequence[View], letters: str, woven: int) -> list[int]:
    """How many bytes ahead lines are fetched for each target, or for several in turn; none where they are not.

    A short row's end does not tell where the next row begins, and that is fetched. An image enlarged by 2.5 to 20 MB
    takes 2.5 ms so, and 4.9 without; long rows take 0.85 to 1.0 of their time (one thread of a Xeon).
    """
    strides, widths = loops.strides[-len(targets) :], [target.data_type.size_in_bytes for target in targets]
    of = figures().rows
    is_small = loops.count * sum(widths) < of.fetched_written_from
    if not of.fetches_written or "s" in letters or is_small:
        return []
    is_long = len(loops.sizes) == 1 or loops.sizes[-1] * widths[0] * woven > 2 * of.fetched_written
    pairs = list(zip(strides, widths, strict=True))[::woven]
    return [of.fetched_written if is_long else row[-2] * width for row, width in pairs]


def _comes_from_far(shape: RowShape, sources: Sequence[View | None]) -> bool:
    """Whether rows are fetched from more than the cache holds."""
    leaves = zip(shape.leaves, shape.rows, sources, strict=False)
    found = [source for leaf, row, source in leaves if leaf.op == "fetch" and row == "p" and source is not None]
    far = figures().rows.fetched_far
    return any(math.prod(source.sizes) * source.data_type.size_in_bytes >= far for source in found)


def _words_ahead(loops: Loops, widths: Sequence[int], sources: int) -> list[int]:
    """How many rows there are, how many ahead is asked for, how many lines of each; each source's stride onward."""
    size = loops.sizes[-1] * widths[-1]
    strides = (row[-2] * width for row, width in zip(loops.strides[:sources], widths, strict=False))
    of = figures().rows
    rows = max(min(of.fetched_bytes // size, of.fetched_rows), 1)
    return [loops.sizes[-2], rows, min(-(-size // LINE), of.fetched_bytes // LINE), *strides, 1]


def _loops(leaves: tuple[Expr, ...], sources: list[View | None], targets: Sequence[View]) -> Loops:
    """The walk over all views; a coordinate's elements lie one on for each step in its dimension.

    What is fetched from stays where it is.
    """
    rank = len(targets[0].sizes)
    strides = [
        tuple(int(k == leaf.value) for k in range(rank))
        if view is None
        else (0,) * rank
        if leaf.op == "fetch"
        else view.strides
        for leaf, view in zip(leaves, sources, strict=True)
    ]
    offsets = [0 if view is None else view.offset for view in sources]
    last, ends = [target.strides for target in targets], [target.offset for target in targets]
    return Loops(targets[0].sizes, (*strides, *last), (*offsets, *ends))


def _letters(leaves: Sequence[Expr], along: Sequence[int | None], sources: Sequence[View | None]) -> list[str]:
    """How the rows of leaves lie; of fetches from anywhere, whether that is along a packed dimension."""
    letters: dict[Expr, str] = {}
    every: dict[int | None, str] = {step: letter for letter, step in EVERY.items()}
    for leaf, step, source in zip(leaves, along, sources, strict=True):
        letters[leaf] = every.get(step, row_letter(step)) if leaf.op == "load" else row_letter(step)
        if step is None and source is not None:
            moved = moving(leaf, letters)
            letters[leaf] = "g" if [source.strides[k] for k in moved] == [1] else "a"
    return [letters[leaf] for leaf in leaves]


def row_letter(step: int | None) -> str:
    """How a view's row lies, as kernels name it."""
    return {None: "a", 0: "r", 1: "p"}.get(step, "s")


def widest_of(nodes: Sequence[Expr]) -> int:
    """Bytes of the widest type that is computed with."""
    return max(1 if node.type is None else node.type.size_in_bytes for node in nodes)


def lanes_of(nodes: Iterable[Expr], widest: int, rows: str, count: int) -> int:
    """The lanes of vectors: fewer where each is read, written or divided for itself, or rows are short."""
    by_lane = not {"s", *ANYWHERE}.isdisjoint(rows) or any(
        node.op in ("div", "rem") and node.type not in FLOATS for node in nodes
    )
    of = figures().rows
    lanes = min(of.vector_bytes // widest, of.strided_lanes) if by_lane else of.vector_bytes // widest
    while lanes > FEW and (lanes > count or lanes * rows.count("s") > MOST_MOVES):
        lanes //= 2
    return lanes


def _lengthen(loops: Loops, least: int) -> Loops:
    """Walk along a dimension of so many elements at least where the innermost has fewer."""
    last = len(loops.sizes) - 1
    long = [k for k in range(last) if loops.sizes[k] >= least > loops.sizes[-1]]
    return loops.pick([k for k in range(last + 1) if k != long[-1]] + long[-1:]) if long else loops


def word_of(node: Expr) -> int:
    """A number's bits, in the low bytes of a word; an integer that is an open size is written when it is known."""
    if is_open(node.value) and node.type is not None and not node.type.is_float:
        value: int = node.value  # type: ignore[assignment]  # an open size computes as a number does
        return value if node.type.size_in_bytes == 8 else value % 2 ** (8 * node.type.size_in_bytes)
    bits = number_of(node).tobytes().ljust(8, b"\0")
    return int.from_bytes(bits, "little", signed=True)


def row_kernel(values: Sequence[Expr], shape: RowShape) -> Kernel:
    """The kernel that computes a row, with a value for each target."""
    marks = f"{shape.stream} {shape.ahead} {shape.woven} {shape.soon} {shape.aligns}"
    key = f"{digest(*values)} {shape.rows} {shape.lanes} {marks}"
    name = f"map {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_map, values, shape))


@functools.lru_cache(maxsize=256)
def digest(*values: Expr) -> str:
    """The identity of trees, without the numbers that the user chose."""
    return hashlib.sha256(write(*values, numbers=False).encode()).hexdigest()
