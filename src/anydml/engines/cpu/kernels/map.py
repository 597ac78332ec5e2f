"""Maps: what happens along one innermost row of several views, written in LLVM itself from a tree.

A row is `kernel(words, places, count)`, called by the walk of `rows`: after each view's address and step its words hold
the numbers that the user chose, then how far ahead lines of targets are fetched, then of each fetch the step of its
rows, and its source's strides. Targets are the last of the views; a coordinate is one whose address is the number, and
a fetch's source does not move.

A row goes by whole vectors. What is left at its end is computed first, by a vector that overlaps the last whole one,
and written last: in place, every element is read before it is written. A row that is shorter than a vector goes by way
of the stack, where its last element is repeated, so that nothing is computed of what nobody gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.fetch import FetchingRow
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text
from anydml.engines.cpu.kernels.row import ANYWHERE
from anydml.engines.cpu.kernels.tree import write_tree
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernels.row import Shape
    from anydml.ir.expressions import Expr


FAR = 128
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
                    self.prefetch(self.at(f"%q{name}", "%i", view.width), FAR * (int(name) + 1))
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
