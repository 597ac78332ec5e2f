"""Epilogues: what is computed from the sums of a GEMM or convolution in registers, before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_node
from anydml.engines.cpu.codegen.function import vector_of
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.row import givens
from anydml.ir.contraction import SUM_BYTES
from anydml.ir.epilogue import COLUMN, FOLD, ROW, find_epilogue, is_cheap
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.engines.cpu.gemm.blocking import MicroTile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.expressions import Expr

# Results computed from folds where they are written: a tree in registers, for a vector of a row of a plane at a time.
#
# Leaves are the fold, numbers of the user's, elements and coordinates. Each node is written as seldom as what it
# depends on lets it be: once for a plane, for a row, for a vector of columns, or for each.


class EpilogueText:
    """The text of an epilogue in a function, given the words of its section and the addresses of its views' rows."""

    def __init__(self, epilogue: Epilogue, f: Function, lanes: int, section: Value, bases: Value) -> None:
        self.epilogue, self.f, self.lanes, self.section, self.bases = epilogue, f, lanes, section, bases
        self.few: dict[int, int] = {}
        """Of vectors that have not all lanes, by number, how many they have."""
        self.nodes = list(walk(epilogue.value))
        self.moves = epilogue.levels()
        self._fixed: dict[Expr, str] = {}
        """The values that are the same for the whole plane."""
        self._views: dict[Expr, tuple[Value, Value]] = {}
        """Of each view that moves: where it begins, and its step from row to row."""
        self._found: dict[tuple[Expr, int, int], str] = {}
        self._at = (-1, -1)

    def enter(self) -> None:
        """Before all rows: what is the same for a plane."""
        f, numbers = self.f, givens(self.nodes)
        for node in self.nodes:
            if self.moves[node]:
                if node.op == "load" and node is not self.epilogue.fold:
                    self._views[node] = self._view(node)
            elif node in numbers:
                at = 3 + 2 * (len(self.epilogue.leaves) + 1) + numbers.index(node)  # the target is the last view
                self._fixed[node] = self._splat(node, self.section + 8 * at)
            elif node.op in ("load", "coordinate"):
                base = self.bases + 8 * self.epilogue.leaves.index(node)
                self._fixed[node] = self._splat(node, f.load("i64", base) if node.op == "load" else base)
            else:
                self._fixed[node] = write_node(f, node, self._fixed, self.lanes)

    def elements(self) -> list[tuple[Value, Value, int]]:
        """Of each view with an element for every fold: its base, its step across, and its width."""
        return [
            (*self._view(leaf), int(kind_of(leaf.type)[1:]) // 8)
            for leaf, way in zip(self.epilogue.leaves, self.epilogue.moves, strict=True)
            if way == FOLD and leaf.op == "load" and leaf is not self.epilogue.fold
        ]

    def _view(self, leaf: Expr) -> tuple[Value, Value]:
        """Where a view begins, and its step across."""
        own = self.epilogue.leaves.index(leaf)
        across = 3 + 2 * (len(self.epilogue.leaves) + 1) + len(givens(self.nodes)) + own
        return self.f.load("i64", self.bases + 8 * own), self.f.load("i64", self.section + 8 * across)

    def _splat(self, node: Expr, at: Value) -> Value:
        return self.f.splat(self.f.load(scalar_text(kind_of(node.type)), at, align=1), self.lanes)

    def clear(self) -> None:
        """Forget what another block has computed."""
        self._found.clear()

    def compute(self, fold: Value, r: int, v: int, row: Value, column: Value) -> Value:
        """The value of a fold in the row of a number, and in columns from a number on."""
        self._fold, self._row, self._column, self._at = fold, row, column, (r, v)
        kind = vector_of(self.lanes, scalar_text(kind_of(self.epilogue.value.type)))
        return self.f.value(self[self.epilogue.value], kind)

    # What `write_node` takes for the names of nodes.

    def __contains__(self, node: Expr) -> bool:
        return node in self.moves

    def __getitem__(self, node: Expr) -> str:
        if node in self._fixed:
            return self._fixed[node]
        if node is self.epilogue.fold:
            return self._fold
        moved = self.moves[node]
        if FOLD in moved:
            r, v = self._at
        else:
            r, v = (self._at[0] if ROW in moved else -1), (self._at[1] if COLUMN in moved else -1)
        if (node, r, v) not in self._found:
            make = {"coordinate": self._coordinate, "load": self._element}.get(node.op)
            made = make(node) if make else write_node(self.f, node, self._names(), self.lanes)
            self._found[node, r, v] = made
        return self._found[node, r, v]

    def _names(self) -> Mapping[Expr, str]:
        return self  # type: ignore[return-value]  # it has what `write_node` asks for

    def _element(self, node: Expr) -> Value:
        """An element of the row, or those of a vector of columns."""
        kind, (base, across) = kind_of(node.type), self._views[node]
        row = base + self._row * across
        if self.moves[node] == {ROW}:
            return self._splat(node, row)
        there = range(self.few.get(self._at[1], self.lanes))
        vector = vector_of(self.lanes, scalar_text(kind))
        return self.f.load(vector, row + self._column * (int(kind[1:]) // 8), align=1, mask=there)

    def _coordinate(self, node: Expr) -> Value:
        if ROW in self.moves[node]:
            return self.f.splat(self._row, self.lanes)
        return self.f.splat(self._column, self.lanes) + self.f.vector("i64", range(self.lanes))


# Epilogues, planned: the values that tiles compute from their sums, and the layout of what they read.


def fills_lines(tile: MicroTile) -> bool:
    """Whether a row of a tile fills lines of the cache, so that it may be written where results lie.

    Products that end in a bias and a rectifier take 16 lanes nine tenths of the time so. Three vectors of 4 lanes are
    no line: ResNet-50 takes 248 ms so, and 242 where whole rows are written (one thread of a Neoverse-N1).
    """
    return tile.vectors * tile.lanes * 4 % LINE == 0


def epilogue_of(operands: Operands, longest: int = 0) -> Epilogue | None:
    """The value computed from sums where they are, if it is short or has so many nodes at most, and its reads lie as
    the results do.

    A function of an element alone would be computed for every tile: it is left to rows, which compute it once.
    """
    is_packed, short = operands.target.along(operands.columns) == operands.target.width, figures().gemm.epilogue_nodes
    if (
        operands.finish is operands.sum
        or not is_packed
        or not is_cheap(operands.finish, operands.sum if longest else None)
    ):
        return None
    found = find_epilogue(operands, operands.rows, operands.columns, longest=longest or short)
    is_long = len(list(walk(operands.finish))) > short or not is_cheap(operands.finish)
    return None if found is None else found._replace(is_long=is_long)


def may_place(operands: Operands, epilogue: Epilogue) -> bool:
    """Whether sums may lie where the results come to lie: as large, and nothing is read that may lie there too.

    2048 x 2048 x 2048 with a bias and a rectifier packs its right factor once so, and eight times where a unit has
    room for the sums of 256 rows alone.
    """
    is_alike = operands.target.width == operands.target.along(operands.columns) == SUM_BYTES and not operands.line
    return is_alike and FOLD not in epilogue.reads
