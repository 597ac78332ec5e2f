"""Maps: what happens along one innermost row of several views, written in LLVM itself from a tree.

A row is `kernel(words, places, count)`, called by the walk of `rows`: after each view's address and step its words hold
the numbers that the user chose, then of each fetch the step of its rows, and its source's strides. The target is the
last of the views; a coordinate is one whose address is the number, and a fetch's source does not move.

A row goes by whole vectors. What is left at its end is computed first, by a vector that overlaps the last whole one,
and written last: in place, every element is read before it is written. A row that is shorter than a vector goes by way
of the stack, where its last element is repeated, so that nothing is computed of what nobody gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.fetch import write_lanes, write_start
from anydml.engines.cpu.kernels.nodes import Text, kind_of, scalar_text, write_tree
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr


LINE = 64
"""Bytes of a line of the cache."""
FAR = 128
"""Bytes ahead that a large map's first source is fetched, and each source ahead of the one before. For three sources of
64 MiB that is 11.2 ms, 12.2 where all are 384 ahead, and 13.2 without; one thread of an Arm Neoverse-N1 takes 3.6 to
read one."""


class Shape(NamedTuple):
    """What a row is compiled for beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads, coordinates and fetches that are views, in the words' order."""
    rows: str
    """A letter for each of them, then for the target: p for packed, r for repeated, s for strided; a for anywhere."""
    lanes: int
    """A power of two."""
    stream: bool
    """Whether the target is written past the cache, and sources are fetched ahead."""
    ahead: bool = False
    """Whether rows that are fetched are asked for some rows ahead: the last leaf is then the number of a row."""


def givens(nodes: Sequence[Expr]) -> list[Expr]:
    """The numbers that the user chose, in the words' order."""
    return [node for node in nodes if node.op == "given"]


def body_of(value: Expr, leaves: Sequence[Expr], rows: str) -> list[Expr]:
    """What is computed for each element: all but the indices of fetches that a row has one start for."""
    fetches = [leaf for leaf, row in zip(leaves, rows, strict=False) if leaf.op == "fetch" and row != "a"]
    found = list(walk(value, known=fetches))
    return [*(leaf for leaf in fetches if leaf is not value), *(found or [value])]


def make_map(value: Expr, shape: Shape) -> str:
    """The text of a map's row."""
    return _Row(value, shape).write()


class _View:
    def __init__(self, node: Expr, row: str, lanes: int) -> None:
        self.row, self.is_coordinate, self.is_fetch = row, node.op == "coordinate", node.op == "fetch"
        kind = kind_of(node.type)
        self.scalar, self.width = scalar_text(kind), int(kind[1:]) // 8
        self.vector = f"<{lanes} x {self.scalar}>"

    @property
    def is_moved(self) -> bool:
        """Whether a short row of it goes by way of the stack."""
        return self.row not in "ra" and not self.is_coordinate


class _Row:
    """A row in the making: the names of a view's values end in its number, the target's in `t`."""

    def __init__(self, value: Expr, shape: Shape) -> None:
        self.nodes, self.shape, self.lanes = body_of(value, shape.leaves, shape.rows), shape, shape.lanes
        self.givens = givens(list(walk(value)))
        self.has_lanes = "a" in shape.rows
        """Whether an index of every lane counts, those past the end of a row too."""
        self.sources = {
            str(v): _View(node, row, shape.lanes)
            for v, (node, row) in enumerate(zip(shape.leaves, shape.rows[:-1], strict=True))
        }
        self.target = _View(value, shape.rows[-1], shape.lanes)
        self.target.is_coordinate = self.target.is_fetch = False
        self.text = Text()
        self.found: dict[Expr, str] = {}
        """The vectors of leaves."""
        self.strides: dict[Expr, tuple[str, list[str]]] = {}
        """Of fetches that lie anywhere, where their sources do, and vectors of their strides."""

    def write(self) -> str:
        self._enter()
        self._short()
        self._body()
        self._finish()
        head = ["define void @kernel(ptr %w, ptr %places, i64 %n) {", "entry:"]
        if numbers := self.text.numbers:
            head.append('%numbers = call ptr asm "", "=r,0"(ptr @numbers)')
        return "\n".join([*numbers, *head, *self.text.lines, "}", *self.text.declared, "!0 = !{i32 1}"])

    # Memory

    def _word(self, name: str, base: str, index: int, kind: str = "i64") -> None:
        place = self.text.new(f"getelementptr i64, ptr {base}, i64 {index}")
        self.text.add(f"{name} = load {kind}, ptr {place}")

    def _at(self, base: str, index: str, step: str | int) -> str:
        """The address of an element."""
        on = self.text.new(f"mul i64 {index}, {step}")
        return self.text.new(f"getelementptr i8, ptr {base}, i64 {on}")

    def _fetch(self, place: str, ahead: int) -> None:
        far = self.text.new(f"getelementptr i8, ptr {place}, i64 {ahead}")
        self.text.add(f"call void @llvm.prefetch.p0(ptr {far}, i32 0, i32 3, i32 1)")
        self.text.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None

    def _move(self, kind: str, source: str, target: str) -> None:
        element = self.text.new(f"load {kind}, ptr {source}, align 1")
        self.text.add(f"store {kind} {element}, ptr {target}, align 1")

    def _read(self, view: _View, base: str, step: str) -> str:
        """The vector at %i."""
        if view.row == "p":
            return self.text.new(f"load {view.vector}, ptr {self._at(base, '%i', view.width)}, align 1")
        place, value = self._at(base, "%i", step), "poison"
        for lane in range(self.lanes):
            if lane:
                place = self.text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = self.text.new(f"load {view.scalar}, ptr {place}, align 1")
            value = self.text.new(f"insertelement {view.vector} {value}, {view.scalar} {element}, i32 {lane}")
        return value

    def _write(self, value: str, base: str, index: str, step: str, hint: str = "") -> None:
        """The target's vector at an index."""
        view, text = self.target, self.text
        if view.row == "p":
            text.add(f"store {view.vector} {value}, ptr {self._at(base, index, view.width)}, align 1{hint}")
            return
        place = self._at(base, index, step)
        for lane in range(self.lanes):
            if lane:
                place = text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = text.new(f"extractelement {view.vector} {value}, i32 {lane}")
            text.add(f"store {view.scalar} {element}, ptr {place}, align 1")

    # The blocks

    def _enter(self) -> None:
        text, lanes, count = self.text, self.lanes, len(self.sources) + 1
        text.add(f"%scratch = alloca {self.target.vector}")
        early: dict[Expr, str] = {}
        """Vectors of one, of a row's first element."""
        for i, (name, view) in enumerate({**self.sources, "t": self.target}.items()):
            if view.is_fetch:
                self._word(f"%base{name}", "%places", i, "ptr")
                continue
            self._word(f"%p{name}", "%places", i, "i64" if view.is_coordinate else "ptr")
            if view.is_coordinate and self.fetches:
                early[self.shape.leaves[i]] = text.spread(f"%p{name}", "i64", 1)
            if view.row == "r":
                self._repeat(name, view, self.shape.leaves[i], early)
                continue
            self._word(f"%step{name}", "%w", count + i)
            if not view.is_coordinate:
                text.add(f"%stack{name} = alloca {view.vector}")
            elif not self.has_lanes:
                self._count(name, self._counts)
        for i, node in enumerate(self.givens):
            scalar = scalar_text(kind_of(node.type))
            self._word(f"%given{i}", "%w", 2 * count + i, scalar)
            self.found[node] = text.spread(f"%given{i}", scalar, lanes)
            if self.fetches:
                early[node] = text.spread(f"%given{i}", scalar, 1)
        self._fetch_rows(2 * count + len(self.givens), early)
        text.add(
            f"%over = and i64 %n, {lanes - 1}",
            "%whole = sub i64 %n, %over",
            f"%rest = sub i64 %n, {lanes}",
            f"%is.short = icmp slt i64 %n, {lanes}",
            "br i1 %is.short, label %short, label %long",
            "long:",
            "%is.whole = icmp eq i64 %over, 0",
            f"%back = mul i64 %rest, {-self.target.width}",
            "%scratch.rest = getelementptr i8, ptr %scratch, i64 %back",
            "%i.long = select i1 %is.whole, i64 0, i64 %rest",
            "%t.long = select i1 %is.whole, ptr %pt, ptr %scratch.rest",
            "%state.long = select i1 %is.whole, i32 0, i32 1",
            f"%step.long = select i1 %is.whole, i64 %stept, i64 {self.target.width}",
            "br label %enter",
            "again:",
            "br label %enter",
        )

    @property
    def fetches(self) -> bool:
        """Whether there are any."""
        return any(view.is_fetch for view in self.sources.values())

    @property
    def _counts(self) -> str:
        return f"<{', '.join(f'i64 {k}' for k in range(self.lanes))}>"

    def _count(self, name: str, lane: str) -> None:
        """How far a coordinate's lanes are on from its first."""
        each = self.text.spread(f"%step{name}", "i64", self.lanes)
        self.text.add(f"%on{name} = mul <{self.lanes} x i64> {each}, {lane}")

    def _repeat(self, name: str, view: _View, node: Expr, early: dict[Expr, str]) -> None:
        """One element, or coordinate, for the whole row."""
        text = self.text
        once = f"%p{name}" if view.is_coordinate else text.new(f"load {view.scalar}, ptr %p{name}, align 1")
        self.found[node] = text.spread(once, view.scalar, self.lanes)
        if self.fetches:
            early[node] = text.spread(once, view.scalar, 1)

    def _fetch_rows(self, word: int, early: dict[Expr, str]) -> None:
        """Work out where the rows of fetches start; their words begin with one of some number."""
        text = self.text
        for node, (name, view) in zip(self.shape.leaves, self.sources.items(), strict=True):
            if not view.is_fetch:
                continue
            strides = [f"%stride{name}.{k}" for k in range(len(node.args))]
            for k, stride in enumerate(strides):
                self._word(stride, "%w", word + 1 + k)
            if view.row == "a":
                spread = [text.spread(stride, "i64", self.lanes) for stride in strides]
                self.strides[node] = (f"%base{name}", spread)
            else:
                start = write_start(text, node, early, f"%base{name}", strides)
                text.add(f"%p{name} = getelementptr i8, ptr {start}, i64 0")
                if view.row == "r":
                    self._repeat(name, view, node, early)
                else:
                    self._word(f"%step{name}", "%w", word)
                    text.add(f"%stack{name} = alloca {view.vector}")
            word += 1 + len(strides)
        if self.shape.ahead:
            self._ask_ahead(word)

    def _ask_ahead(self, word: int) -> None:
        """Have rows brought to the cache that will be fetched some rows on, as far as there are any."""
        text, block = self.text, "entry"
        for k, name in enumerate(("size", "distance", "lines")):
            self._word(f"%ahead.{name}", "%w", word + k)
        past = text.new(f"add i64 %p{len(self.sources) - 1}, 1")
        left = text.new(f"sub i64 %ahead.size, {past}")
        is_far = text.new(f"icmp slt i64 %ahead.distance, {left}")
        on = text.new(f"select i1 {is_far}, i64 %ahead.distance, i64 {left}")
        soon = {
            node: text.spread(f"%given{i}", scalar_text(kind_of(node.type)), 1) for i, node in enumerate(self.givens)
        }
        for k, (node, (name, view)) in enumerate(zip(self.shape.leaves, self.sources.items(), strict=True)):
            if view.is_fetch:
                strides = [f"%stride{name}.{d}" for d in range(len(node.args))]
                place = write_start(text, node, soon, f"%base{name}", strides) if view.row in "rp" else ""
            else:
                self._word(f"%ahead.step{name}", "%w", word + 3 + k)
                place = "" if view.is_coordinate else self._at(f"%p{name}", on, f"%ahead.step{name}")
            if view.is_coordinate:
                far = text.new(f"mul i64 {on}, %ahead.step{name}")
                soon[node] = text.spread(text.new(f"add i64 %p{name}, {far}"), "i64", 1)
            elif view.row == "r":
                soon[node] = text.spread(text.new(f"load {view.scalar}, ptr {place}, align 1"), view.scalar, 1)
            elif view.is_fetch and view.row == "p":
                text.add(f"br label %ahead{name}", f"ahead{name}:")
                text.add(f"%line{name} = phi i64 [ 0, %{block} ], [ %line.on{name}, %ahead{name} ]")
                self._fetch(self._at(place, f"%line{name}", LINE), 0)
                text.add(f"%line.on{name} = add i64 %line{name}, 1")
                text.add(f"%is.line{name} = icmp slt i64 %line.on{name}, %ahead.lines")
                text.add(f"br i1 %is.line{name}, label %ahead{name}, label %ahead.done{name}", f"ahead.done{name}:")
                block = f"ahead.done{name}"

    def _write_fetch(self, node: Expr, args: Sequence[str]) -> str:
        return write_lanes(self.text, node, args, *self.strides[node], self.lanes)

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
                source = self._at(f"%p{name}", "%from", f"%step{name}")
                self._move(view.scalar, source, self._at(f"%stack{name}", "%j", view.width))
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
            "%t = phi ptr [ %t.long, %long ], [ %pt, %again ], [ %scratch, %shorter ]",
            f"%t.step = phi i64 [ %step.long, %long ], [ %stept, %again ], [ {self.target.width}, %shorter ]",
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
                    self._fetch(self._at(f"%q{name}", "%i", view.width), FAR * (int(name) + 1))
                self.found[node] = self._read(view, f"%q{name}", f"%q.step{name}")
        value = write_tree(text, self.nodes, self.found, self.lanes, self._write_fetch)
        self._write(value, "%t", "%i", "%t.step", ", !nontemporal !0" if self.shape.stream else "")
        text.add(f"%i1 = add i64 %i, {self.lanes}", "%is.on = icmp slt i64 %i1, %stop")
        text.add("br label %next", "next:", "br i1 %is.on, label %body, label %after")

    def _finish(self) -> None:
        """What lies in the scratch: nothing, the end of a row, or all of a short one."""
        text, target = self.text, self.target
        text.add(
            "after:",
            "switch i32 %state, label %done [ i32 1, label %again i32 2, label %end i32 3, label %out ]",
            "end:",
        )
        self._write(text.new(f"load {target.vector}, ptr %scratch"), "%pt", "%rest", "%stept")
        text.add("br label %done", "out:", "%o = phi i64 [ 0, %after ], [ %o1, %out ]")
        self._move(target.scalar, self._at("%scratch", "%o", target.width), self._at("%pt", "%o", "%stept"))
        text.add("%o1 = add i64 %o, 1", "%is.out = icmp slt i64 %o1, %n")
        text.add("br i1 %is.out, label %out, label %done", "done:", "ret void")
