"""Fetches in a row of a map: rows that lie one element after the other, and elements that lie anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text, write_node
from anydml.engines.cpu.kernels.row import ANYWHERE, RowText, moving
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernels.function_text import Text
    from anydml.engines.cpu.kernels.row import RowView, Shape
    from anydml.ir.expressions import Expr


def write_start(text: Text, indices: Sequence[Expr], early: dict[Expr, str], base: str, strides: Sequence[str]) -> str:
    """Where the first element of a row lies, given the row's first leaves, each a vector of one."""
    for one in walk(*indices, known=early):
        early[one] = write_node(text, one, early, 1)
    place = base
    for index, stride in zip(indices, strides, strict=True):
        at = text.new(f"extractelement <1 x i64> {early[index]}, i32 0")
        on = text.new(f"mul i64 {at}, {stride}")
        place = text.new(f"getelementptr i8, ptr {place}, i64 {on}")
    return place


def write_lanes(
    text: Text,
    node: Expr,
    args: Sequence[str],
    base: str,
    strides: Sequence[str],
    lanes: int,
    *,
    is_run: bool = False,
) -> str:
    """Elements that are each read for itself, given vectors of indices and of strides.

    Where they usually follow one another, as behind a margin, a vector that does is read whole.
    """
    offset = "zeroinitializer"
    for index, stride in zip(args, strides, strict=True):
        on = text.new(f"mul <{lanes} x i64> {index}, {stride}")
        offset = text.new(f"add <{lanes} x i64> {offset}, {on}")
    if not is_run or lanes == 1:
        return _each(text, node, base, offset, lanes)
    kind = kind_of(node.type)
    vector, width = f"<{lanes} x {scalar_text(kind)}>", int(kind[1:]) // 8
    first = text.new(f"extractelement <{lanes} x i64> {offset}, i32 0")
    counts = ", ".join(f"i64 {k * width}" for k in range(lanes))
    on = text.new(f"add <{lanes} x i64> {text.spread(first, 'i64', lanes)}, <{counts}>")
    differ = text.new(f"icmp ne <{lanes} x i64> {on}, {offset}")
    name = f"@llvm.vector.reduce.or.v{lanes}i1"
    text.declared[f"declare i1 {name}(<{lanes} x i1>)"] = None
    is_apart = text.new(f"call i1 {name}(<{lanes} x i1> {differ})")
    apart, together, done = (text.label(stem) for stem in ("apart", "together", "read"))
    text.add(f"br i1 {is_apart}, label %{apart}, label %{together}")
    text.open(apart)
    one_by_one = _each(text, node, base, offset, lanes)
    text.add(f"br label %{done}")
    text.open(together)
    place = text.new(f"getelementptr i8, ptr {base}, i64 {first}")
    at_once = text.new(f"load {vector}, ptr {place}, align 1")
    text.add(f"br label %{done}")
    text.open(done)
    return text.new(f"phi {vector} [ {one_by_one}, %{apart} ], [ {at_once}, %{together} ]")


def _each(text: Text, node: Expr, base: str, offset: str, lanes: int, unit: str = "i8") -> str:
    scalar, value = scalar_text(kind_of(node.type)), "poison"
    for lane in range(lanes):
        on = text.new(f"extractelement <{lanes} x i64> {offset}, i32 {lane}")
        place = text.new(f"getelementptr {unit}, ptr {base}, i64 {on}")
        element = text.new(f"load {scalar}, ptr {place}, align 1")
        value = text.new(f"insertelement <{lanes} x {scalar}> {value}, {scalar} {element}, i32 {lane}")
    return value


class FetchingRow(RowText):
    """A row with fetches in it."""

    def __init__(self, values: Sequence[Expr], shape: Shape) -> None:
        super().__init__(values, shape)
        self.fetches = any(view.is_fetch for view in self.sources.values())
        """Whether there are any."""
        self.letters = dict(zip(shape.leaves, shape.rows, strict=False))
        self.lines: dict[Expr, tuple[str, dict[int, str]]] = {}
        """Of fetches that lie anywhere, where their rows start, and a vector of strides for each index that moves."""

    def repeat(self, name: str, view: RowView, node: Expr, early: dict[Expr, str]) -> None:
        """One element, or coordinate, for the whole row."""
        text = self.text
        once = f"%p{name}" if view.is_coordinate else text.new(f"load {view.scalar}, ptr %p{name}, align 1")
        self.found[node] = text.spread(once, view.scalar, self.lanes)
        if self.fetches:
            early[node] = text.spread(once, view.scalar, 1)

    def fetch_rows(self, word: int, early: dict[Expr, str]) -> None:
        """Work out where the rows of fetches start; their words begin with one of some number."""
        text = self.text
        for node, (name, view) in zip(self.shape.leaves, self.sources.items(), strict=True):
            if not view.is_fetch:
                continue
            strides = [f"%stride{name}.{k}" for k in range(len(node.args))]
            for k, stride in enumerate(strides):
                self.word(stride, "%w", word + 1 + k)
            moved = moving(node, self.letters) if view.row in ANYWHERE else []
            still = [k for k in range(len(strides)) if k not in moved]
            start = write_start(text, [node.args[k] for k in still], early, f"%base{name}", [strides[k] for k in still])
            if moved:
                self.lines[node] = start, {k: text.spread(strides[k], "i64", self.lanes) for k in moved}
            else:
                text.add(f"%p{name} = getelementptr i8, ptr {start}, i64 0")
                if view.row == "r":
                    self.repeat(name, view, node, early)
                else:
                    self.word(f"%step{name}", "%w", word)
                    text.add(f"%stack{name} = alloca {view.vector}")
            word += 1 + len(strides)
        if self.shape.ahead:
            self._ask_ahead(word)

    def _ask_ahead(self, word: int) -> None:
        """Have rows brought to the cache that will be fetched some rows on, as far as there are any."""
        text, block = self.text, "entry"
        for k, name in enumerate(("size", "distance", "lines")):
            self.word(f"%ahead.{name}", "%w", word + k)
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
                place = write_start(text, node.args, soon, f"%base{name}", strides) if view.row in "rp" else ""
            else:
                self.word(f"%ahead.step{name}", "%w", word + 3 + k)
                place = "" if view.is_coordinate else self.at(f"%p{name}", on, f"%ahead.step{name}")
            if view.is_coordinate:
                far = text.new(f"mul i64 {on}, %ahead.step{name}")
                soon[node] = text.spread(text.new(f"add i64 %p{name}, {far}"), "i64", 1)
            elif view.row == "r":
                soon[node] = text.spread(text.new(f"load {view.scalar}, ptr {place}, align 1"), view.scalar, 1)
            elif view.is_fetch and view.row == "p":
                text.add(f"br label %ahead{name}", f"ahead{name}:")
                text.add(f"%line{name} = phi i64 [ 0, %{block} ], [ %line.on{name}, %ahead{name} ]")
                self.prefetch(self.at(place, f"%line{name}", LINE), 0)
                text.add(f"%line.on{name} = add i64 %line{name}, 1")
                text.add(f"%is.line{name} = icmp slt i64 %line.on{name}, %ahead.lines")
                text.add(f"br i1 %is.line{name}, label %ahead{name}, label %ahead.done{name}", f"ahead.done{name}:")
                block = f"ahead.done{name}"

    def write_fetch(self, node: Expr, args: Sequence[str]) -> str:
        """A fetch that lies anywhere, given vectors of its indices."""
        start, strides = self.lines[node]
        if self.letters[node] == "g":
            (index,) = strides
            return _each(self.text, node, start, args[index], self.lanes, scalar_text(kind_of(node.type)))
        return write_lanes(self.text, node, [args[k] for k in strides], start, [*strides.values()], self.lanes)
