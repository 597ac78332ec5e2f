"""Maps: elementwise expressions over rows of several views. A kernel for each tree and for how its views' rows lie:
planned, and written in LLVM IR.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_tree
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.launch.record import LINE, STREAM_FROM
from anydml.engines.cpu.rows.row import ANYWHERE, EVERY, FetchingRow, Shape, body_of, fetch_steps, givens, moving
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS, program_of_rows
from anydml.enums import DataType
from anydml.ir.expressions import coordinate, number_of
from anydml.ir.loops import Loops, simplify
from anydml.ir.trees import walk, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.program import KernelProgram
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

# Maps: what happens along one innermost row of several views, written in LLVM itself from a tree.
#
# A row is `kernel(words, places, count)`, called by `walk.py`: after each view's address and step its words
# hold the numbers that the user chose, then how far ahead lines of targets are fetched, then of each fetch the step of
# its rows, and its source's strides. Targets are the last of the views; a coordinate is one whose address is the
# number, and a fetch's source does not move.
#
# A row goes by whole vectors. What is left at its end is computed first, by a vector that overlaps the last whole one,
# and written last: in place, every element is read before it is written. A row that is shorter than a vector goes by
# way of the stack, where its last element is repeated, so that nothing is computed of what nobody gave.


PREFETCH_BYTES = 128
"""Bytes ahead that a large map's first source is fetched, and each source ahead of the one before. For three sources of
64 MiB that is 11.2 ms, 12.2 where all are 384 ahead, and 13.2 without; one thread of an Arm Neoverse-N1 takes 3.6 to
read one."""


def make_map(values: Sequence[Expr], shape: Shape) -> str:
    """The text of a map's row, with a value for each target."""
    return _Row(values, shape).write()


class _Row(FetchingRow):
    """The blocks of a row."""

    def __init__(self, values: Sequence[Expr], shape: Shape) -> None:
        super().__init__(values, shape)
        self.values = values
        self.written = {first: self.targets[first] for first, *_ in self.groups}
        """The first target of each that are written as one."""
        self.has_lanes = not set(ANYWHERE).isdisjoint(shape.rows)
        """Whether an index of every lane counts, those past the end of a row too."""

    def write(self) -> str:
        self._enter()
        self._short()
        self._body()
        self._finish()
        head = ["define void @kernel(ptr %w, ptr %places, i64 %n) {", "entry:"]
        if numbers := self.text.numbers:
            head.append('%numbers = call ptr asm "", "=r,0"(ptr @numbers)')
        return "\n".join([*numbers, *head, *self.text.lines, "}", *self.text.declared, "!0 = !{i32 1}"])

    def _enter(self) -> None:
        text, lanes, count = self.text, self.lanes, len(self.sources) + len(self.targets)
        text.add(*(f"%scratch{name} = alloca {view.vector}" for name, view in self.written.items()))
        early: dict[Expr, str] = {}
        """Vectors of one, of a row's first element."""
        for i, (name, view) in enumerate({**self.sources, **self.targets}.items()):
            if view.is_fetch:
                self.word(f"%base{name}", "%places", i, "ptr")
                continue
            self.word(f"%p{name}", "%places", i, "i64" if view.is_coordinate else "ptr")
            if view.is_coordinate and self.fetches:
                early[self.shape.leaves[i]] = text.spread(f"%p{name}", "i64", 1)
            if view.row == "r" and name in self.sources:
                self.repeat(name, view, self.shape.leaves[i], early)
                continue
            self.word(f"%step{name}", "%w", count + i)
            if not view.is_coordinate:
                text.add(f"%stack{name} = alloca <{lanes * view.every} x {view.scalar}>")
            elif not self.has_lanes:
                self._count(name, self._counts)
        for i, node in enumerate(self.givens):
            scalar = scalar_text(kind_of(node.type))
            self.word(f"%given{i}", "%w", 2 * count + i, scalar)
            self.found[node] = text.spread(f"%given{i}", scalar, lanes)
            if self.fetches:
                early[node] = text.spread(f"%given{i}", scalar, 1)
        first = 2 * count + len(self.givens)
        if self.shape.soon:
            for i, name in enumerate(self.written):
                self.word(f"%soon{name}", "%w", first + i)
            first += len(self.written)
        self.fetch_rows(first, early)
        self._compute_once()
        text.add(
            f"%over = and i64 %n, {lanes - 1}",
            "%whole = sub i64 %n, %over",
            f"%rest = sub i64 %n, {lanes}",
            f"%is.short = icmp slt i64 %n, {lanes}",
            "br i1 %is.short, label %short, label %long",
            "long:",
            "%is.whole = icmp eq i64 %over, 0",
            "%i.long = select i1 %is.whole, i64 0, i64 %rest",
            "%state.long = select i1 %is.whole, i32 0, i32 1",
        )
        for name, view in self.written.items():
            text.add(
                f"%back{name} = mul i64 %rest, {-view.apart}",
                f"%scratch.rest{name} = getelementptr i8, ptr %scratch{name}, i64 %back{name}",
                f"%long{name} = select i1 %is.whole, ptr %p{name}, ptr %scratch.rest{name}",
                f"%step.long{name} = select i1 %is.whole, i64 %step{name}, i64 {view.apart}",
            )
        text.add("br label %enter", "again:", "br label %enter")

    def _compute_once(self) -> None:
        """The values that are the same for the whole row: the keys of ten rounds of Philox, for every vector."""
        same: set[Expr] = set(self.found)
        for node in walk(*self.values):
            if node.op == "const" or (node.args and node.op != "fetch" and same.issuperset(node.args)):
                same.add(node)
        nodes = [node for node in walk(*self.values) if node in same and node.op != "const"]
        kept = dict.fromkeys(arg for node in walk(*self.values) if node not in same for arg in node.args if arg in same)
        for root in [node for node in nodes if node in kept or node in self.values]:
            if some := list(walk(root, known=self.found)):
                write_tree(self.text, some, self.found, self.lanes, self.write_fetch)

    @property
    def _counts(self) -> str:
        return f"<{', '.join(f'i64 {k}' for k in range(self.lanes))}>"

    def _count(self, name: str, lane: str) -> None:
        """How far a coordinate's lanes are on from its first."""
        each = self.text.spread(f"%step{name}", "i64", self.lanes)
        self.text.add(f"%on{name} = mul <{self.lanes} x i64> {each}, {lane}")

    def _short(self) -> None:
        """A row that is shorter than a vector."""
        text = self.text
        text.add(
            "short:",
            "%last = sub i64 %n, 1",
        )
        if self.has_lanes:  # the last element is repeated
            vector = f"<{self.lanes} x i64>"
            last = text.spread("%last", "i64", self.lanes)
            test = text.new(f"icmp slt {vector} {self._counts}, {last}")
            text.add(f"%lane.short = select <{self.lanes} x i1> {test}, {vector} {self._counts}, {vector} {last}")
        text.add(
            "br label %shorter",
            "shorter:",
            "%j = phi i64 [ 0, %short ], [ %j1, %shorter ]",
            "%is.in = icmp slt i64 %j, %last",
            "%from = select i1 %is.in, i64 %j, i64 %last",
        )
        for name, view in self.sources.items():
            if view.is_moved:
                source = self.at(f"%p{name}", "%from", f"%step{name}")
                self.move(view.scalar, source, self.at(f"%stack{name}", "%j", view.width * view.every))
        text.add(
            "%j1 = add i64 %j, 1",
            f"%is.shorter = icmp slt i64 %j1, {self.lanes}",
            "br i1 %is.shorter, label %shorter, label %enter",
        )

    def _body(self) -> None:
        """The vectors of a row, or of its end, which go to the scratch; `state` says which."""
        text = self.text
        text.add(
            "enter:",
            "%i0 = phi i64 [ %i.long, %long ], [ 0, %again ], [ 0, %shorter ]",
            f"%stop = phi i64 [ %n, %long ], [ %whole, %again ], [ {self.lanes}, %shorter ]",
            "%state = phi i32 [ %state.long, %long ], [ 2, %again ], [ 3, %shorter ]",
        )
        for name, view in self.written.items():
            text.add(
                f"%{name} = phi ptr [ %long{name}, %long ], [ %p{name}, %again ], [ %scratch{name}, %shorter ]",
                f"%{name}.step = phi i64 [ %step.long{name}, %long ], [ %step{name}, %again ], "
                f"[ {view.apart}, %shorter ]",
            )
        for name, view in self.sources.items():
            if view.is_moved:
                text.add(
                    f"%q{name} = phi ptr [ %p{name}, %long ], [ %p{name}, %again ], [ %stack{name}, %shorter ]",
                    f"%q.step{name} = phi i64 [ %step{name}, %long ], [ %step{name}, %again ], "
                    f"[ {view.width}, %shorter ]",
                )
        if self.has_lanes:
            counts = self._counts
            text.add(
                f"%lane = phi <{self.lanes} x i64> [ {counts}, %long ], [ {counts}, %again ], [ %lane.short, %shorter ]"
            )
            for name, view in self.sources.items():
                if view.is_coordinate and view.row != "r":
                    self._count(name, "%lane")
        text.add("br label %body")
        text.open("body")
        text.add("%i = phi i64 [ %i0, %enter ], [ %i1, %next ]")
        for node, (name, view) in zip(self.shape.leaves, self.sources.items(), strict=True):
            if view.is_coordinate and view.row != "r":
                on = text.new(f"mul i64 %i, %step{name}")
                each = text.spread(text.new(f"add i64 %p{name}, {on}"), "i64", self.lanes)
                self.found[node] = text.new(f"add {view.vector} {each}, %on{name}")
            elif view.is_moved:
                if self.shape.stream and view.row == "p" and view.width * self.lanes >= LINE:
                    self.prefetch(self.at(f"%q{name}", "%i", view.width), PREFETCH_BYTES * (int(name) + 1))
                self.found[node] = self.read(view, f"%q{name}", f"%q.step{name}")
        for value in self.values:
            if nodes := list(walk(value, known=self.found)):
                write_tree(text, nodes, self.found, self.lanes, self.write_fetch)
        hint = ", !nontemporal !0" if self.shape.stream else ""
        for names in self.groups:
            values = [self.found[value] for value, name in zip(self.values, self.targets, strict=True) if name in names]
            vector = self.weave(values) if len(values) > 1 else values[0]
            if self.shape.soon:
                self._fetch_soon(names[0])
            self.write_target(self.targets[names[0]], vector, f"%{names[0]}", "%i", f"%{names[0]}.step", hint)
        text.add(f"%i1 = add i64 %i, {self.lanes}", "%is.on = icmp slt i64 %i1, %stop")
        text.add("br label %next", "next:", "br i1 %is.on, label %body, label %after")

    def _fetch_soon(self, name: str) -> None:
        """Have lines of the cache fetched that a target's vectors are written to soon."""
        apart = self.targets[name].apart
        soon = self.text.new(f"getelementptr i8, ptr {self.at(f'%p{name}', '%i', apart)}, i64 %soon{name}")
        for k in range(0, apart * self.lanes, LINE):
            self.text.fetch(self.text.new(f"getelementptr i8, ptr {soon}, i64 {k}"), is_written=True)

    def _finish(self) -> None:
        """The contents of the scratch: nothing, the end of a row, or all of a short one."""
        text = self.text
        text.add(
            "after:",
            "switch i32 %state, label %done [ i32 1, label %again i32 2, label %end i32 3, label %out ]",
            "end:",
        )
        for name, view in self.written.items():
            rest = text.new(f"load {view.vector}, ptr %scratch{name}")
            self.write_target(view, rest, f"%p{name}", "%rest", f"%step{name}")
        text.add("br label %done", "out:", "%o = phi i64 [ 0, %after ], [ %o1, %out ]")
        for first, *others in self.groups:
            for k, name in enumerate((first, *others)):
                view = self.targets[name]
                here = text.new(f"getelementptr i8, ptr %scratch{first}, i64 {k * view.width}")
                self.move(view.scalar, self.at(here, "%o", view.apart), self.at(f"%p{name}", "%o", f"%step{name}"))
        text.add("%o1 = add i64 %o, 1", "%is.out = icmp slt i64 %o1, %n")
        text.add("br i1 %is.out, label %out, label %done", "done:", "ret void")


# Maps of any expression, planned: a kernel for each tree, and for how its views' innermost rows lie.


SEGMENT = 128 * 1024
"""Bytes of a row, the target's or a source's, that one unit of work goes through."""
ACROSS = 256
"""Elements of a row that one unit goes through where a view lies across the rows: as many lines of the cache."""
AHEAD, MOST_AHEAD = 4096, 16
"""Bytes of rows to fetch that are asked for ahead, and rows at most: 16,384 rows of 1 KiB, fetched and added to, take
4.6 ms so, 5.9 with 1024 bytes and 12.6 without (one thread of an Arm Neoverse-N1)."""
FAR = 128 * 1024
"""Bytes of a source from which on its rows are asked for ahead."""
SOON, SOON_FROM = 2048, 2 * 1024 * 1024
"""Bytes ahead that lines to be written are fetched, and bytes of output from which on they are: in a second cache of
1 MiB it gains nothing."""
VECTOR = 64
"""Bytes of a vector of the widest type in a tree."""
FLOATS = [t for t in DataType if t.is_float]
MOST_WOVEN = 8
"""Targets that are written as one at most: each takes a vector, and half of a shuffle for every other."""
SHORT = 8
"""Elements of a row below which another dimension is walked along, where that has more: 500 rows of 3 sums take 5 us so
and 14 by the row, of 8 either way 10, and of 60 bytes 60 and 12."""
MOST_MOVES = 96
"""Lanes of all strided views together: each is moved for itself, and takes 1 ms to compile."""
FEW = 4
"""Lanes that vectors of short rows have at least."""
LONG_ROW = 256
"""Bytes of a row from which on it is written past the cache, where the output is large."""


def plan_map(primitive: Map) -> KernelProgram | None:
    """Let each load, coordinate and fetch be a view, and walk them together for the first target's memory."""
    values, targets = primitive.values, primitive.targets
    nodes = list(walk(*values))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate", "fetch"))
    sources = [None if leaf.op == "coordinate" else primitive.sources[int(leaf.value)] for leaf in leaves]
    views = (*sources, *targets)
    widths = [1 if view is None else view.data_type.size_in_bytes for view in views]
    loops = _lengthen(simplify(_loops(leaves, sources, targets), len(leaves)), min(VECTOR // widest_of(nodes), SHORT))
    *outer, count = loops.sizes or (1,)
    if len(views) > VIEWS or len(outer) > OUTER_RANK:
        return None
    steps = [row[-1] for row in loops.strides] if loops.sizes else [1] * len(views)
    fetches = fetch_steps(nodes, dict(zip(leaves, steps, strict=False)), primitive.sources)
    along = [fetches.get(leaf, step) for leaf, step in zip(leaves, steps, strict=False)]
    letters, number = _letters(leaves, along, sources), math.prod(outer)
    woven = _woven(loops, targets)
    rows = "".join((*letters, *("w" if woven > 1 else row_letter(step) for step in steps[len(leaves) :])))
    is_across, weight = bool(outer) and "s" in rows, min(1 + len(nodes) // 8, 16)
    length = ACROSS if is_across else max(SEGMENT // max(widths) // weight // VECTOR, 1) * VECTOR
    body = body_of(values, leaves, rows)
    lanes = lanes_of(body, widest_of(body), rows, count if outer else VECTOR)
    soon = _soon(loops, targets, rows[len(leaves) :], woven)
    numbers = [*(word_of(node) for node in givens(nodes)), *soon]
    for leaf, source, width in zip(leaves, sources, widths, strict=False):
        if leaf.op == "fetch" and source is not None:
            numbers += [(fetches[leaf] or 0) * width, *(stride * width for stride in source.strides)]
    shape = Shape(leaves, rows, lanes, len(targets) == 1 and _streams(loops, widths[-1]), woven=woven, soon=bool(soon))
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
        views, widths[first:first], steps[first:first] = (*sources, None, *targets), [1], [0]
        shape = shape._replace(leaves=(*leaves, coordinate(-1)), rows=f"{rows[:first]}r{rows[first:]}", ahead=True)
    table = [
        word
        for k, size in enumerate(outer)
        for word in (size, *(row[k] * width for row, width in zip(loops.strides, widths, strict=True)))
    ]
    offsets, steps = ([one * width for one, width in zip(each, widths, strict=True)] for each in (loops.offsets, steps))
    return program_of_rows(
        row_kernel(values, shape), views, offsets, steps, numbers, (), table, loops.count * sum(widths) * weight,
        count=count, number=number, length=length, rank=len(outer), is_empty=not all(primitive.sizes),
        aligned=widths[-1] if shape.stream and not outer else 0,
    )  # fmt: skip


def _woven(loops: Loops, targets: Sequence[View]) -> int:
    """How many targets, one after the other, have their elements in turn; 1 where they lie otherwise.

    Enlarged images do, and random numbers: 1M words of counters take 2.5 ms in place of 2.7.
    """
    strides, offsets = loops.strides[-len(targets) :], loops.offsets[-len(targets) :]
    number = strides[0][-1] if loops.sizes else 1
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
    if IS_ARM or "s" in letters or not loops.sizes or loops.count * sum(widths) < SOON_FROM:
        return []
    is_long = len(loops.sizes) == 1 or loops.sizes[-1] * widths[0] * woven > 2 * SOON
    return [SOON if is_long else row[-2] * width for row, width in list(zip(strides, widths, strict=True))[::woven]]


def _comes_from_far(shape: Shape, sources: Sequence[View | None]) -> bool:
    """Whether rows are fetched from more than the cache holds."""
    leaves = zip(shape.leaves, shape.rows, sources, strict=False)
    found = [source for leaf, row, source in leaves if leaf.op == "fetch" and row == "p" and source is not None]
    return any(math.prod(source.sizes) * source.data_type.size_in_bytes >= FAR for source in found)


def _words_ahead(loops: Loops, widths: Sequence[int], sources: int) -> list[int]:
    """How many rows there are, how many ahead is asked for, how many lines of each; each source's stride onward."""
    size = loops.sizes[-1] * widths[-1]
    strides = (row[-2] * width for row, width in zip(loops.strides[:sources], widths, strict=False))
    return [loops.sizes[-2], max(min(AHEAD // size, MOST_AHEAD), 1), min(-(-size // LINE), AHEAD // LINE), *strides, 1]


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
    lanes = min(VECTOR // widest, 16) if by_lane else VECTOR // widest
    while lanes > FEW and (lanes > count or lanes * rows.count("s") > MOST_MOVES):
        lanes //= 2
    return lanes


def _lengthen(loops: Loops, least: int) -> Loops:
    """Walk along a dimension of so many elements at least where the innermost has fewer."""
    last = len(loops.sizes) - 1
    long = [k for k in range(last) if loops.sizes[k] >= least > loops.sizes[-1]]
    return loops.pick([k for k in range(last + 1) if k != long[-1]] + long[-1:]) if long else loops


def _streams(loops: Loops, width: int) -> bool:
    """Whether the target is written past the cache."""
    is_run = bool(loops.sizes) and loops.strides[-1][-1] == 1 and loops.sizes[-1] * width >= LONG_ROW
    return IS_ARM and is_run and loops.count * width >= STREAM_FROM


def word_of(node: Expr) -> int:
    """A number's bits, in the low bytes of a word."""
    bits = number_of(node).tobytes().ljust(8, b"\0")
    return int.from_bytes(bits, "little", signed=True)


def row_kernel(values: Sequence[Expr], shape: Shape) -> Kernel:
    """The kernel that computes a row, with a value for each target."""
    key = f"{digest(*values)} {shape.rows} {shape.lanes} {shape.stream} {shape.ahead} {shape.woven} {shape.soon}"
    name = f"map {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_map, values, shape))


@functools.lru_cache(maxsize=256)
def digest(*values: Expr) -> str:
    """The identity of trees, without the numbers that the user chose."""
    return hashlib.sha256(write(*values, numbers=False).encode()).hexdigest()
