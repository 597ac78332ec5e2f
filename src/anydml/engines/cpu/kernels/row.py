"""The parts of a map's row: its views, and text that reads and writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.function_text import Text
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.expressions import Expr

EVERY = {"e": 2, "3": 3, "4": 4}
"""The letters of loads of every other element, every third and every fourth, which are read by whole vectors."""
ANYWHERE = "ag"
"""The letters of fetches whose elements are each read for itself."""


class Shape(NamedTuple):
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


def givens(nodes: Sequence[Expr]) -> list[Expr]:
    """The numbers that the user chose, in the words' order."""
    return [node for node in nodes if node.op == "given"]


def body_of(values: Sequence[Expr], leaves: Sequence[Expr], rows: str) -> list[Expr]:
    """The nodes computed for each element: all but the indices of fetches that a row has one start for."""
    fetches = [leaf for leaf, row in zip(leaves, rows, strict=False) if leaf.op == "fetch" and row not in ANYWHERE]
    return [*fetches, *walk(*values, known=fetches)]


def moving(node: Expr, rows: Mapping[Expr, str]) -> list[int]:
    """Which indices of a fetch are not the same along a row, given the letters of leaves."""
    return [k for k, index in enumerate(node.args) if any(rows.get(part, "r") != "r" for part in walk(index))]


class RowView:
    """A view of a row."""

    def __init__(self, node: Expr, row: str, lanes: int, woven: int = 1) -> None:
        self.row, self.is_coordinate, self.is_fetch = row, node.op == "coordinate", node.op == "fetch"
        kind = kind_of(node.type)
        self.scalar, self.width = scalar_text(kind), int(kind[1:]) // 8
        self.vector = f"<{lanes * woven} x {self.scalar}>"
        self.every = EVERY.get(row, 1)
        self.apart = self.width * woven
        """Bytes from one element to the next, where they are not strided."""

    @property
    def is_moved(self) -> bool:
        """Whether a short row of it goes by way of the stack."""
        return self.row not in f"r{ANYWHERE}" and not self.is_coordinate


class RowText:
    """A row in the making: the names of a view's values end in its number, those of targets in `t`, `t1` and so on."""

    def __init__(self, values: Sequence[Expr], shape: Shape) -> None:
        self.shape, self.lanes, self.text = shape, shape.lanes, Text()
        self.sources = {
            str(v): RowView(node, row, shape.lanes)
            for v, (node, row) in enumerate(zip(shape.leaves, shape.rows, strict=False))
        }
        last = shape.rows[len(shape.leaves) :]
        self.targets = {
            f"t{v or ''}": RowView(node, row, shape.lanes, shape.woven)
            for v, (node, row) in enumerate(zip(values, last, strict=True))
        }
        for view in self.targets.values():
            view.is_coordinate = view.is_fetch = False
        names = list(self.targets)
        self.groups = [names[k : k + shape.woven] for k in range(0, len(names), shape.woven)]
        """The targets that are written as one."""
        self.givens = givens(list(walk(*values)))
        self.found: dict[Expr, str] = {}
        """The vectors of leaves."""

    def word(self, name: str, base: str, index: int, kind: str = "i64") -> None:
        """Name a word of some memory."""
        place = self.text.new(f"getelementptr i64, ptr {base}, i64 {index}")
        self.text.add(f"{name} = load {kind}, ptr {place}")

    def at(self, base: str, index: str, step: str | int) -> str:
        """The address of an element."""
        on = self.text.new(f"mul i64 {index}, {step}")
        return self.text.new(f"getelementptr i8, ptr {base}, i64 {on}")

    def prefetch(self, place: str, ahead: int) -> None:
        """Ask for a line of the cache."""
        self.text.fetch(self.text.new(f"getelementptr i8, ptr {place}, i64 {ahead}"))

    def move(self, kind: str, source: str, target: str) -> None:
        """Copy an element."""
        element = self.text.new(f"load {kind}, ptr {source}, align 1")
        self.text.add(f"store {kind} {element}, ptr {target}, align 1")

    def read(self, view: RowView, base: str, step: str) -> str:
        """The vector at %i."""
        if view.row == "p":
            return self.text.new(f"load {view.vector}, ptr {self.at(base, '%i', view.width)}, align 1")
        if view.row in EVERY:
            return self._every(view, base)
        place, value = self.at(base, "%i", step), "poison"
        for lane in range(self.lanes):
            if lane:
                place = self.text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = self.text.new(f"load {view.scalar}, ptr {place}, align 1")
            value = self.text.new(f"insertelement {view.vector} {value}, {view.scalar} {element}, i32 {lane}")
        return value

    def _every(self, view: RowView, base: str) -> str:
        """Elements some apart, from %i on. Of as many vectors the last ends with the last that is needed."""
        text, lanes, step = self.text, self.lanes, view.every
        first, last, before = self.at(base, "%i", step * view.width), (lanes - 1) * (step - 1), lanes * (step - 1)
        starts = [*range(0, before, lanes), last]
        places = (text.new(f"getelementptr i8, ptr {first}, i64 {start * view.width}") for start in starts)
        found = [text.new(f"load {view.vector}, ptr {place}, align 1") for place in places]
        order = [at if at < before else before + at - last for at in range(0, step * lanes, step)]
        return self._chosen(view.scalar, found, order)

    def weave(self, values: Sequence[str]) -> str:
        """Vectors element beside element, as one: LLVM has few shuffles for it, and an Arm one store."""
        (view, *_), lanes, number = self.targets.values(), self.lanes, len(values)
        return self._chosen(view.scalar, values, [k * lanes + i for i in range(lanes) for k in range(number)])

    def _chosen(self, scalar: str, values: Sequence[str], order: Sequence[int]) -> str:
        """Elements of several vectors that follow one another, as one vector."""
        lanes = self.lanes
        while len(values) > 2:
            values = [*values, "poison"] if len(values) % 2 else values
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self._shuffled(scalar, lanes, *pair, range(2 * lanes)) for pair in pairs]
            lanes *= 2
        return self._shuffled(scalar, lanes, values[0], values[1], order)

    def _shuffled(self, scalar: str, lanes: int, a: str, b: str, order: Sequence[int]) -> str:
        kind, places = f"<{lanes} x {scalar}>", ", ".join(f"i32 {k}" for k in order)
        return self.text.new(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{places}>")

    def write_target(self, view: RowView, value: str, base: str, index: str, step: str, hint: str = "") -> None:
        """A target's vector at an index, or several targets' woven one."""
        text = self.text
        if view.row in "pw":
            text.add(f"store {view.vector} {value}, ptr {self.at(base, index, view.apart)}, align 1{hint}")
            return
        place = self.at(base, index, step)
        for lane in range(self.lanes):
            if lane:
                place = text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = text.new(f"extractelement {view.vector} {value}, i32 {lane}")
            text.add(f"store {view.scalar} {element}, ptr {place}, align 1")
