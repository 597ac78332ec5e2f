"""The vectors of a strip of rows: where they begin, and their results so far, which lie on the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.folds import combine, vector_of
from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text
from anydml.engines.cpu.kernels.reduce import VECTOR, Writer, width_of
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS, LEAVES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernels.passes import Pass
    from anydml.ir.expressions import Expr

AHEAD, RUN = 512, 1024
"""Bytes ahead that are fetched of a strip of so many elements: it is read as it lies. 16384 x 1024 take 3.5 ms so, and
3.9 with the same column of the next row fetched, as narrow strips have it."""


class Strip(Writer):
    """A number of vectors across the rows, each with a place of its own on the stack, its slot."""

    held: Mapping[Expr, str]
    """Where on the stack the strip's results lie."""
    beginning: Sequence[str]
    """Where the rows' first elements lie."""
    first: str
    """The row that the strip begins at."""
    end: str
    """How many rows it has."""
    last: str
    """The row that the last vector begins at."""

    def slots(self, body: Callable[[str], None], together: int = 1) -> None:
        """body(slot) for every vector; for several together as one, with as many lanes, where they are whole."""

        def inside(slot: str, _: list[str]) -> list[str]:
            body(slot)
            return []

        narrow, whole = self.shape, "0"
        if together > 1:
            self.shape = narrow._replace(lanes=narrow.lanes * together)
            whole = self.text.new(f"and i64 {self.end}, {-self.shape.lanes}")
            self.loop("0", whole, self.shape.lanes, [], inside)
            self.shape = narrow
        self.loop(whole, self.end, self.shape.lanes, [], inside)

    def column(self, slot: str) -> str:
        """The row that a vector begins at."""
        text = self.text
        at = text.new(f"add i64 {self.first}, {slot}")
        is_inside = text.new(f"icmp slt i64 {at}, {self.last}")
        return text.new(f"select i1 {is_inside}, i64 {at}, i64 {self.last}")

    def hold(self, node: Expr, slot: str) -> str:
        """The place of a result."""
        return self.move(self.held[node], self.times(slot, self.held_width(node)))

    def align(self, node: Expr) -> int:
        """Of a node's vectors on the stack."""
        return min(self.shape.lanes * width_of(node), VECTOR)

    def load(self, node: Expr, slot: str) -> str:
        """A result so far."""
        if not self._is_long(node):
            place, vector = self.hold(node, slot), vector_of(node, self.shape.lanes)
            kept = self._bytes() if node.type is None else vector
            value = self.text.new(f"load {kept}, ptr {place}, align {self.align(node)}")
            return value if node.type is not None else self.text.new(f"trunc {kept} {value} to {vector}")
        wide, vector = self._wide(), vector_of(node, self.shape.lanes)
        return self.text.new(f"fptrunc {wide} {self._load_wide(node, slot)} to {vector}")

    def store(self, node: Expr, slot: str, value: str) -> None:
        """Keep a result; truth values a byte each, since several vectors may be read as one."""
        place, vector = self.hold(node, slot), vector_of(node, self.shape.lanes)
        if node.type is None:
            value, vector = self.text.new(f"zext {vector} {value} to {self._bytes()}"), self._bytes()
        if self._is_long(node):
            wide = self._wide()
            value, vector = self.text.new(f"fpext {vector} {value} to {wide}"), wide
        self.text.add(f"store {vector} {value}, ptr {place}, align {self.align(node)}")

    def combine(self, node: Expr, slot: str, value: str) -> None:
        """Fold more into a result so far."""
        text, lanes = self.text, self.shape.lanes
        if not self._is_long(node):
            self.store(node, slot, combine(text, node, self.load(node, slot), value, lanes))
            return
        wide, old = self._wide(), self._load_wide(node, slot)
        more = text.new(f"fpext {vector_of(node, lanes)} {value} to {wide}")
        total = text.new(f"fadd {wide} {old}, {more}")
        text.add(f"store {wide} {total}, ptr {self.hold(node, slot)}, align {self.align(node)}")

    def held_width(self, node: Expr) -> int:
        """The bytes of an element on the stack."""
        return 8 if self._is_long(node) else width_of(node)

    def _is_long(self, node: Expr) -> bool:
        """Whether a result is a sum of FLOAT32 of very many, which are added up in float64."""
        return node.op == "fold_sum" and node.type is DataType.FLOAT32 and self.shape.long

    def _bytes(self) -> str:
        return f"<{self.shape.lanes} x i8>"

    def _wide(self) -> str:
        return f"<{self.shape.lanes} x double>"

    def _load_wide(self, node: Expr, slot: str) -> str:
        return self.text.new(f"load {self._wide()}, ptr {self.hold(node, slot)}, align {self.align(node)}")

    def leaf(self, leaf: Expr, places: Sequence[str], column: str) -> str:
        """A number, or what is read of a view for the rows from one on."""
        lanes = self.shape.lanes
        if leaf in self.numbers:
            return self.text.spread(self.numbers[leaf], scalar_text(kind_of(leaf.type)), lanes)
        view = self.shape.leaves.index(leaf)
        return self.read(view, places[view], column, self.row_steps[view], lanes)

    def compute(self, roots: Sequence[Expr], slot: str, known: set[Expr]) -> list[str]:
        """The values that are the same for a whole row."""
        found: dict[Expr, str] = {}
        pending, column, seen = list(roots), self.column(slot), set()
        while pending:
            node = pending.pop()
            if node in seen or node.op == "const":
                continue
            seen.add(node)
            if node in known or node.op in FOLDS:
                found[node] = self.load(node, slot)
            elif node.op in LEAVES:
                found[node] = self.leaf(node, self.beginning, column)
            else:
                pending += node.args
        return self.tree(roots, found, self.shape.lanes)

    # Memory ahead

    def fetch_next(self, step: Pass, places: Sequence[str], column: str, count: int) -> None:
        """Ask for what is read next: further along the strip, or the rows' elements that are so many on."""
        for view in self.packed(step):
            is_run = self.shape.strip >= RUN
            on = self.move(places[view], str(AHEAD) if is_run else self.times(self.strides[-1][view], count))
            self._fetch_all(view, self.move(on, self.times(column, self.widths[view])))

    def fetch_targets(self, places: Sequence[str], column: str) -> None:
        """Ask for what is written next: a softmax along the second of 8 x 64 x 1,024 takes 0.70 ms so, not 0.79."""
        for view, _ in self.by_element:
            if self.shape.letters[view] == "p":
                on = self.move(places[view], self.strides[-1][view])
                self._fetch_all(view, self.move(on, self.times(column, self.widths[view])), to_write=True)

    def _fetch_all(self, view: int, place: str, *, to_write: bool = False) -> None:
        """Ask for the lines of a view's vector."""
        for on in range(0, self.shape.lanes * self.widths[view], LINE):
            self.fetch(self.move(place, str(on)) if on else place, to_write=to_write)
