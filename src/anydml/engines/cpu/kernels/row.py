"""The parts of a map's row: its views, and text that reads and writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.function_text import Text
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.expressions import Expr

ANYWHERE = "ag"
"""The letters of fetches whose elements are each read for itself."""


class Shape(NamedTuple):
    """The parameters of a row, beside its tree."""

    leaves: tuple[Expr, ...]
    """The loads, coordinates and fetches that are views, in the words' order."""
    rows: str
    """A letter for each of them, then for each target: p for packed, r for repeated, s for strided, e for a load of
    every other element; a for anywhere, and g for anywhere along a packed dimension."""
    lanes: int
    """A power of two."""
    stream: bool
    """Whether the target is written past the cache, and sources are fetched ahead."""
    ahead: bool = False
    """Whether rows that are fetched are asked for some rows ahead: the last leaf is then the number of a row."""
    woven: bool = False
    """Whether targets are the even and the odd elements of one row, or every fourth."""


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

    def __init__(self, node: Expr, row: str, lanes: int) -> None:
        self.row, self.is_coordinate, self.is_fetch = row, node.op == "coordinate", node.op == "fetch"
        kind = kind_of(node.type)
        self.scalar, self.width = scalar_text(kind), int(kind[1:]) // 8
        self.vector = f"<{lanes} x {self.scalar}>"

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
            f"t{v or ''}": RowView(node, row, shape.lanes)
            for v, (node, row) in enumerate(zip(values, last, strict=True))
        }
        for view in self.targets.values():
            view.is_coordinate = view.is_fetch = False
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
        if view.row == "e":
            return self._every_other(view, base)
        place, value = self.at(base, "%i", step), "poison"
        for lane in range(self.lanes):
            if lane:
                place = self.text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = self.text.new(f"load {view.scalar}, ptr {place}, align 1")
            value = self.text.new(f"insertelement {view.vector} {value}, {view.scalar} {element}, i32 {lane}")
        return value

    def _every_other(self, view: RowView, base: str) -> str:
        """Every other element from %i on. Of two vectors the second ends with the last that is needed."""
        text, lanes = self.text, self.lanes
        first = self.at(base, "%i", 2 * view.width)
        second = text.new(f"getelementptr i8, ptr {first}, i64 {(lanes - 1) * view.width}")
        a, b = (text.new(f"load {view.vector}, ptr {place}, align 1") for place in (first, second))
        order = ", ".join(f"i32 {2 * k if 2 * k < lanes else 2 * k + 1}" for k in range(lanes))
        return text.new(f"shufflevector {view.vector} {a}, {view.vector} {b}, <{lanes} x i32> <{order}>")

    def weave(self, values: Sequence[str], base: str, index: str, step: str) -> None:
        """All targets' vectors at an index, element beside element: as one store, which an Arm has instructions for."""
        text, (view, *_), lanes = self.text, self.targets.values(), self.lanes
        while len(values) > 2:
            pairs = zip(values[::2], values[1::2], strict=True)
            whole = ", ".join(f"i32 {k}" for k in range(2 * lanes))
            values = [self._shuffled(view.scalar, lanes, *pair, whole) for pair in pairs]
            lanes *= 2
        number = len(self.targets)
        order = ", ".join(f"i32 {k * self.lanes + i}" for i in range(self.lanes) for k in range(number))
        woven = self._shuffled(view.scalar, lanes, values[0], values[1], order)
        text.add(f"store <{2 * lanes} x {view.scalar}> {woven}, ptr {self.at(base, index, step)}, align 1")

    def _shuffled(self, scalar: str, lanes: int, a: str, b: str, order: str) -> str:
        kind = f"<{lanes} x {scalar}>"
        return self.text.new(f"shufflevector {kind} {a}, {kind} {b}, <{2 * lanes} x i32> <{order}>")

    def write_target(self, view: RowView, value: str, base: str, index: str, step: str, hint: str = "") -> None:
        """A target's vector at an index."""
        text = self.text
        if view.row == "p":
            text.add(f"store {view.vector} {value}, ptr {self.at(base, index, view.width)}, align 1{hint}")
            return
        place = self.at(base, index, step)
        for lane in range(self.lanes):
            if lane:
                place = text.new(f"getelementptr i8, ptr {place}, i64 {step}")
            element = text.new(f"extractelement {view.vector} {value}, i32 {lane}")
            text.add(f"store {view.scalar} {element}, ptr {place}, align 1")
