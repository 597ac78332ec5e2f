"""Maps: a kernel for a tree, written in LLVM itself, walk and all.

Words, after the header: the address of each view, the target's last; the elements of a row, the segments of a row, the
elements of a segment, the outer dimensions; each view's step; the numbers that the user chose; of each outer dimension
its size and each view's stride, outermost first. Addresses, steps and strides are in bytes. A coordinate is a view
whose address is the number itself. A unit is one segment of one row.

A row goes by whole vectors. What is left at its end is computed first, by a vector that overlaps the last whole one,
and written last: in place, every element is read before it is written. A row that is shorter than a vector goes by way
of the stack, where its last element is repeated, so that nothing is computed of what nobody gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.nodes import Text, kind_of, scalar_text, write_tree
from anydml.ir.expressions import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.expressions import Expr

OUTER_RANK = 8
"""Outer dimensions that a walk has room for."""


class Shape(NamedTuple):
    """What a kernel is compiled for beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads and coordinates that are views, in the words' order."""
    rows: str
    """A letter for each of them, then for the target: p for packed, r for repeated, s for strided."""
    lanes: int
    """A power of two."""
    stream: bool
    """Whether the target is written past the cache."""


def givens(nodes: Sequence[Expr]) -> list[Expr]:
    """The numbers that the user chose, in the words' order."""
    return [node for node in nodes if node.op == "given"]


def make_map(value: Expr, shape: Shape) -> str:
    """The text of a map's kernel."""
    return _Map(value, shape).write()


class _View:
    """A view in the making: its names are its number's."""

    def __init__(self, number: int, node: Expr, row: str, lanes: int) -> None:
        self.number, self.row, self.is_coordinate = number, row, node.op == "coordinate"
        self.kind = kind_of(node.type)
        self.scalar, self.width = scalar_text(self.kind), int(self.kind[1:]) // 8
        self.vector = f"<{lanes} x {self.scalar}>"

    @property
    def is_moved(self) -> bool:
        """Whether a short row of it goes by way of the stack."""
        return self.row != "r" and not self.is_coordinate


class _Map:
    def __init__(self, value: Expr, shape: Shape) -> None:
        self.nodes, self.shape, self.lanes = list(walk(value)), shape, shape.lanes
        self.views = [
            _View(v, node, row, shape.lanes)
            for v, (node, row) in enumerate(zip((*shape.leaves, value), shape.rows, strict=True))
        ]
        self.sources, self.target = self.views[:-1], self.views[-1]
        self.text = Text()
        self.spread: dict[Expr, str] = {}
        """What is the same in all of a row."""

    def write(self) -> str:
        self._enter()
        self._find()
        self._unit()
        self._short()
        self._body()
        self._finish()
        self._advance()
        declared = [*self.text.declared, "!0 = !{i32 1}"]
        head = "define i64 @kernel(i64 %words, i64 %begin, i64 %end) {"
        return "\n".join([head, *self.text.lines, "}", *declared])

    # Memory

    def _word(self, name: str, index: int, kind: str = "i64") -> None:
        self.text.add(
            f"{name}.p = getelementptr i64, ptr %w, i64 {HEADER + index}", f"{name} = load {kind}, ptr {name}.p"
        )

    def _at(self, base: str, index: str, step: str | int) -> str:
        """The address of an element."""
        on = self.text.new(f"mul i64 {index}, {step}")
        return self.text.new(f"getelementptr i8, ptr {base}, i64 {on}")

    def _scatter(self, value: str, base: str, index: str, step: str) -> None:
        """Write a vector by the element."""
        place = self._at(base, index, step)
        for lane in range(self.lanes):
            if lane:
                place = self.text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = self.text.new(f"extractelement {self.target.vector} {value}, i32 {lane}")
            self.text.add(f"store {self.target.scalar} {element}, ptr {place}, align 1")

    def _gather(self, view: _View, base: str, index: str, step: str) -> str:
        """Read a vector by the element."""
        place, value = self._at(base, index, step), "poison"
        for lane in range(self.lanes):
            if lane:
                place = self.text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = self.text.new(f"load {view.scalar}, ptr {place}, align 1")
            value = self.text.new(f"insertelement {view.vector} {value}, {view.scalar} {element}, i32 {lane}")
        return value

    # The walk

    def _enter(self) -> None:
        text, count = self.text, len(self.views)
        text.add("entry:", "%w = inttoptr i64 %words to ptr")
        for v in range(count):
            self._word(f"%address{v}", v)
            self._word(f"%step{v}", count + 4 + v)
        for i, name in enumerate(("%count", "%segments", "%length", "%rank")):
            self._word(name, count + i)
        numbers = givens(self.nodes)
        for i, node in enumerate(numbers):
            scalar = scalar_text(kind_of(node.type))
            self._word(f"%given{i}", 2 * count + 4 + i, scalar)
            self.spread[node] = text.spread(f"%given{i}", scalar, self.lanes)
        text.add(
            f"%table = getelementptr i64, ptr %w, i64 {HEADER + 2 * count + 4 + len(numbers)}",
            f"%at = alloca [{OUTER_RANK} x i64]",
            f"%scratch = alloca {self.target.vector}",
        )
        for v, view in enumerate(self.views):
            text.add(f"%row{v} = alloca i64", f"store i64 %address{v}, ptr %row{v}")
            if view.is_moved:
                text.add(f"%stack{v} = alloca {view.vector}")
            if view.is_coordinate and view.row != "r":
                each = text.spread(f"%step{v}", "i64", self.lanes)
                counts = ", ".join(f"i64 {i}" for i in range(self.lanes))
                text.add(f"%on{v} = mul <{self.lanes} x i64> {each}, <{counts}>")

    def _move_rows(self, dimension: str, times: str) -> None:
        """Every view so many times on in an outer dimension."""
        text, count = self.text, len(self.views)
        for v in range(count):
            stride = text.new(f"getelementptr i64, ptr {dimension}, i64 {v + 1}")
            stride = text.new(f"load i64, ptr {stride}")
            on = text.new(f"mul i64 {times}, {stride}")
            row = text.new(f"load i64, ptr %row{v}")
            row = text.new(f"add i64 {row}, {on}")
            text.add(f"store i64 {row}, ptr %row{v}")

    def _find(self) -> None:
        """The row of the first unit."""
        dimension = f"getelementptr [{len(self.views) + 1} x i64], ptr %table, i64"
        self.text.add(
            "%rest0 = udiv i64 %begin, %segments",
            "%before = mul i64 %rest0, %segments",
            "%segment0 = sub i64 %begin, %before",
            "br label %find",
            "find:",
            "%k = phi i64 [ %rank, %entry ], [ %k1, %found ]",
            "%rest = phi i64 [ %rest0, %entry ], [ %quotient, %found ]",
            "%is.outer = icmp sgt i64 %k, 0",
            "br i1 %is.outer, label %found, label %units",
            "found:",
            "%k1 = sub i64 %k, 1",
            f"%dimension = {dimension} %k1",
            "%size = load i64, ptr %dimension",
            "%quotient = udiv i64 %rest, %size",
            "%product = mul i64 %quotient, %size",
            "%i.outer = sub i64 %rest, %product",
            "%at.k = getelementptr i64, ptr %at, i64 %k1",
            "store i64 %i.outer, ptr %at.k",
        )
        self._move_rows("%dimension", "%i.outer")
        self.text.add("br label %find")

    def _unit(self) -> None:
        text, lanes, last = self.text, self.lanes, len(self.sources)
        text.add(
            "units:",
            "%unit = phi i64 [ %begin, %find ], [ %unit1, %next ], [ %unit1, %moved ], [ %unit1, %advance ]",
            "%segment = phi i64 [ %segment0, %find ], [ %segment1, %next ], [ 0, %moved ], [ 0, %advance ]",
            "%is.unit = icmp slt i64 %unit, %end",
            "br i1 %is.unit, label %row, label %done",
            "done:",
            "ret i64 0",
            "row:",
            "%unit1 = add i64 %unit, 1",
            "%first = mul i64 %segment, %length",
            "%left = sub i64 %count, %first",
            "%is.last = icmp slt i64 %left, %length",
            "%n = select i1 %is.last, i64 %left, i64 %length",
        )
        for v, (view, node) in enumerate(zip(self.views, (*self.shape.leaves, None), strict=True)):
            row = text.new(f"load i64, ptr %row{v}")
            on = text.new(f"mul i64 %first, %step{v}")
            text.add(f"%place{v} = add i64 {row}, {on}")
            if not view.is_coordinate:
                text.add(f"%p{v} = inttoptr i64 %place{v} to ptr")
            if node is not None and view.row == "r":
                once = f"%place{v}"
                if not view.is_coordinate:
                    once = text.new(f"load {view.scalar}, ptr %p{v}, align 1")
                self.spread[node] = text.spread(once, view.scalar, lanes)
        width, step = self.target.width, f"%step{last}"
        text.add(
            f"%over = and i64 %n, {lanes - 1}",
            "%whole = sub i64 %n, %over",
            f"%end.first = sub i64 %n, {lanes}",
            f"%is.short = icmp slt i64 %n, {lanes}",
            "br i1 %is.short, label %short, label %long",
            "long:",
            "%is.even = icmp eq i64 %over, 0",
            "%i.long = select i1 %is.even, i64 0, i64 %end.first",
            "%state.long = select i1 %is.even, i32 0, i32 1",
            f"%step.long = select i1 %is.even, i64 {step}, i64 {width}",
            f"%back = mul i64 %end.first, {-width}",
            "%scratch.long = getelementptr i8, ptr %scratch, i64 %back",
            f"%t.long = select i1 %is.even, ptr %p{last}, ptr %scratch.long",
            "br label %enter",
            "again:",
            "br label %enter",
        )

    def _short(self) -> None:
        """A row that is shorter than a vector."""
        text = self.text
        text.add(
            "short:",
            "%last = sub i64 %n, 1",
            "br label %shorter",
            "shorter:",
            "%j = phi i64 [ 0, %short ], [ %j1, %shorter ]",
            "%is.in = icmp slt i64 %j, %last",
            "%from = select i1 %is.in, i64 %j, i64 %last",
        )
        for v, view in enumerate(self.sources):
            if view.is_moved:
                place = self._at(f"%p{v}", "%from", f"%step{v}")
                element = text.new(f"load {view.scalar}, ptr {place}, align 1")
                text.add(f"store {view.scalar} {element}, ptr {self._at(f'%stack{v}', '%j', view.width)}, align 1")
        text.add(
            "%j1 = add i64 %j, 1",
            f"%is.shorter = icmp slt i64 %j1, {self.lanes}",
            "br i1 %is.shorter, label %shorter, label %enter",
        )

    def _body(self) -> None:
        text, lanes, last = self.text, self.lanes, len(self.sources)
        text.add(
            "enter:",
            "%i0 = phi i64 [ %i.long, %long ], [ 0, %again ], [ 0, %shorter ]",
            f"%stop = phi i64 [ %n, %long ], [ %whole, %again ], [ {lanes}, %shorter ]",
            "%state = phi i32 [ %state.long, %long ], [ 2, %again ], [ 3, %shorter ]",
            f"%t = phi ptr [ %t.long, %long ], [ %p{last}, %again ], [ %scratch, %shorter ]",
            f"%t.step = phi i64 [ %step.long, %long ], [ %step{last}, %again ], [ {self.target.width}, %shorter ]",
        )
        for v, view in enumerate(self.sources):
            if view.is_moved:
                text.add(f"%q{v} = phi ptr [ %p{v}, %long ], [ %p{v}, %again ], [ %stack{v}, %shorter ]")
                steps = f"[ %step{v}, %long ], [ %step{v}, %again ], [ {view.width}, %shorter ]"
                text.add(f"%q.step{v} = phi i64 {steps}")
        text.add("br label %body", "body:", "%i = phi i64 [ %i0, %enter ], [ %i1, %body ]")
        leaves = dict(self.spread)
        for v, (view, node) in enumerate(zip(self.sources, self.shape.leaves, strict=True)):
            if node not in leaves:
                leaves[node] = self._read(v, view)
        value = write_tree(text, self.nodes, leaves, lanes)
        if self.target.row == "s":
            self._scatter(value, "%t", "%i", "%t.step")
        else:
            hint = ", !nontemporal !0" if self.shape.stream else ""
            place = self._at("%t", "%i", self.target.width)
            text.add(f"store {self.target.vector} {value}, ptr {place}, align 1{hint}")
        text.add(f"%i1 = add i64 %i, {lanes}", "%is.on = icmp slt i64 %i1, %stop")
        text.add("br i1 %is.on, label %body, label %after")

    def _read(self, v: int, view: _View) -> str:
        text = self.text
        if view.is_coordinate:
            on = text.new(f"mul i64 %i, %step{v}")
            each = text.spread(text.new(f"add i64 %place{v}, {on}"), "i64", self.lanes)
            return text.new(f"add {view.vector} {each}, %on{v}")
        if view.row == "s":
            return self._gather(view, f"%q{v}", "%i", f"%q.step{v}")
        return text.new(f"load {view.vector}, ptr {self._at(f'%q{v}', '%i', view.width)}, align 1")

    def _finish(self) -> None:
        """After the vectors of a row, by its state: done, the rest in the scratch, or all of a short row there."""
        text, last, target = self.text, len(self.sources), self.target
        text.add(
            "after:",
            "switch i32 %state, label %next [ i32 1, label %again i32 2, label %over.write i32 3, label %out ]",
            "over.write:",
        )
        value = text.new(f"load {target.vector}, ptr %scratch, align 1")
        if target.row == "s":
            self._scatter(value, f"%p{last}", "%end.first", f"%step{last}")
        else:
            text.add(f"store {target.vector} {value}, ptr {self._at(f'%p{last}', '%end.first', target.width)}, align 1")
        text.add("br label %next", "out:", "%o = phi i64 [ 0, %after ], [ %o1, %out ]")
        element = text.new(f"load {target.scalar}, ptr {self._at('%scratch', '%o', target.width)}, align 1")
        text.add(
            f"store {target.scalar} {element}, ptr {self._at(f'%p{last}', '%o', f'%step{last}')}, align 1",
            "%o1 = add i64 %o, 1",
            "%is.out = icmp slt i64 %o1, %n",
            "br i1 %is.out, label %out, label %next",
        )

    def _advance(self) -> None:
        """The next unit: the next segment, or the first of the next row."""
        self.text.add(
            "next:",
            "%segment1 = add i64 %segment, 1",
            "%is.same = icmp slt i64 %segment1, %segments",
            "br i1 %is.same, label %units, label %advance",
            "advance:",
            "%m = phi i64 [ %rank, %next ], [ %m1, %moved ]",
            "%is.inside = icmp sgt i64 %m, 0",
            "br i1 %is.inside, label %moved, label %units",
            "moved:",
            "%m1 = sub i64 %m, 1",
            f"%outer = getelementptr [{len(self.views) + 1} x i64], ptr %table, i64 %m1",
            "%outer.size = load i64, ptr %outer",
            "%at.m = getelementptr i64, ptr %at, i64 %m1",
            "%c = load i64, ptr %at.m",
            "%c1 = add i64 %c, 1",
            "%fits = icmp slt i64 %c1, %outer.size",
            "%c2 = select i1 %fits, i64 %c1, i64 0",
            "store i64 %c2, ptr %at.m",
            "%times = sub i64 %c2, %c",
        )
        self._move_rows("%outer", "%times")
        self.text.add("br i1 %fits, label %units, label %advance")
