"""Epilogues: what is computed from the sums of a GEMM or convolution in registers, before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.codegen.expressions import kind_of, scalar_text, write_node
from anydml.engines.cpu.codegen.function import load_some
from anydml.engines.cpu.rows.row import givens
from anydml.ir.contraction import SUM_BYTES
from anydml.ir.epilogue import COLUMN, FOLD, ROW, find_epilogue, is_cheap
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.codegen.function import Steps
    from anydml.engines.cpu.gemm.microkernel import Tile
    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.expressions import Expr

# Results computed from folds where they are written: a tree in registers, for a vector of a row of a plane at a time.
#
# Leaves are the fold, numbers of the user's, elements and coordinates. Each node is written as seldom as what it
# depends on lets it be: once for a plane, for a row, for a vector of columns, or for each.


class EpilogueText:
    """The text of an epilogue, in a function that has `section`, `bases` and `first`, the number of its first row."""

    def __init__(self, epilogue: Epilogue, text: Steps, lanes: int) -> None:
        self.epilogue, self.text, self.lanes = epilogue, text, lanes
        self.few: dict[int, int] = {}
        """Of vectors that have not all lanes, by number, how many they have."""
        self.nodes = list(walk(epilogue.value))
        self.moves = self._moves()
        self._fixed: dict[Expr, str] = {}
        """The values that are the same for the whole plane."""
        self._found: dict[tuple[Expr, int, int], str] = {}
        self._fold = self._row = self._column = ""
        self._at = (-1, -1)

    def _moves(self) -> dict[Expr, frozenset[str]]:
        own = dict(zip(self.epilogue.leaves, self.epilogue.moves, strict=True))
        found: dict[Expr, frozenset[str]] = {}
        for node in self.nodes:  # arguments come before what they are arguments of
            moved = frozenset((own[node],)) if own.get(node) else frozenset()
            found[node] = moved.union(*(found[arg] for arg in node.args))
        return found

    def enter(self) -> None:
        """Before all rows: what is the same for a plane."""
        text, views = self.text, len(self.epilogue.leaves) + 1  # the target is the last
        numbers = {node: i for i, node in enumerate(givens(self.nodes))}
        for i, node in enumerate(self.nodes):
            if self.moves[node]:
                if node.op == "load" and node is not self.epilogue.fold:
                    own = self.epilogue.leaves.index(node)
                    text.read(f"base_{i}", f"bases + {8 * own}")
                    text.read(f"across_{i}", f"section + {8 * (3 + 2 * views + len(numbers) + own)}")
                continue
            if node in numbers:
                place = f"section + {8 * (3 + 2 * views + numbers[node])}"
                self._fixed[node] = self._spread(node, place)
            elif node.op == "load":
                text.read(f"base.{i}", f"bases + {8 * self.epilogue.leaves.index(node)}")
                self._fixed[node] = self._spread(node, None, f"base.{i}")
            elif node.op == "coordinate":
                self._fixed[node] = self._spread(node, f"bases + {8 * self.epilogue.leaves.index(node)}")
            else:
                self._fixed[node] = write_node(text, node, self._fixed, self.lanes)

    def elements(self) -> list[tuple[str, str, int]]:
        """Of each view with an element for every fold: where its base and its step across stand, and its width."""
        views, numbers = len(self.epilogue.leaves) + 1, len(givens(self.nodes))
        return [
            (f"bases + {8 * i}", f"section + {8 * (3 + 2 * views + numbers + i)}", int(kind_of(leaf.type)[1:]) // 8)
            for i, (leaf, way) in enumerate(zip(self.epilogue.leaves, self.epilogue.moves, strict=True))
            if way == FOLD and leaf.op == "load" and leaf is not self.epilogue.fold
        ]

    def _spread(self, node: Expr, place: str | None, name: str = "") -> str:
        kind, text = scalar_text(kind_of(node.type)), self.text
        at = text.place(place) if place is not None else text.new(f"inttoptr i64 %{name} to ptr")
        return text.spread(text.new(f"load {kind}, ptr {at}, align 1"), kind, self.lanes)

    def clear(self) -> None:
        """Forget what another block has computed."""
        self._found.clear()

    def compute(self, fold: str, r: int, v: int, row: str, column: str) -> str:
        """The value of a fold in the row of a number, counted from `first`, and in columns from a number on."""
        self._fold, self._row, self._column, self._at = fold, row, column, (r, v)
        return self[self.epilogue.value]

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
            made = make(node) if make else write_node(self.text, node, self._names(), self.lanes)
            self._found[node, r, v] = made
        return self._found[node, r, v]

    def _names(self) -> Mapping[Expr, str]:
        return self  # type: ignore[return-value]  # it has what `write_node` asks for

    def _element(self, node: Expr) -> str:
        """An element of the row, or those of a vector of columns."""
        i, kind = self.nodes.index(node), kind_of(node.type)
        row = f"base_{i} + ({self._row}) * across_{i}"
        if self.moves[node] == {ROW}:
            return self._spread(node, row)
        place = self.text.place(f"{row} + ({self._column}) * {int(kind[1:]) // 8}")
        return load_some(self.text, kind, self.lanes, self.few.get(self._at[1], self.lanes), place, 1)

    def _coordinate(self, node: Expr) -> str:
        text, lanes, kind = self.text, self.lanes, f"<{self.lanes} x i64>"
        if ROW in self.moves[node]:
            return text.spread(text.value(self._row), "i64", lanes)
        first = text.spread(text.value(self._column), "i64", lanes)
        return text.new(f"add {kind} {first}, <{', '.join(f'i64 {k}' for k in range(lanes))}>")


# Epilogues, planned: the values that tiles compute from their sums, and the layout of what they read.


CACHE_LINE = 64
"""Bytes of a line of the cache."""
SHORT = 24
"""Operations at most that are written for each vector of a tile."""


def fills_lines(tile: Tile) -> bool:
    """Whether a row of a tile fills lines of the cache, so that it may be written where results lie.

    An Arm's does not: ResNet-50 takes 248 ms so, and 242 where whole rows are written (one thread of a Neoverse-N1).
    Products that end in a bias and a rectifier take 16 lanes nine tenths of the time.
    """
    return tile.vectors * tile.lanes * 4 % CACHE_LINE == 0


def epilogue_of(sides: Operands, longest: int = SHORT) -> Epilogue | None:
    """The value computed from sums where they are, if it is short, and its reads lie as the results do.

    A function of an element alone would be computed for every tile: it is left to rows, which compute it once.
    """
    is_packed = sides.target.along(sides.columns) == sides.target.width
    if (
        sides.finish is sides.sum
        or not is_packed
        or not is_cheap(sides.finish, None if longest == SHORT else sides.sum)
    ):
        return None
    found = find_epilogue(sides, sides.rows, sides.columns, longest=longest)
    is_long = len(list(walk(sides.finish))) > SHORT or not is_cheap(sides.finish)
    return None if found is None else found._replace(is_long=is_long)


def may_place(sides: Operands, epilogue: Epilogue) -> bool:
    """Whether sums may lie where the results come to lie: as large, and nothing is read that may lie there too.

    2048 x 2048 x 2048 with a bias and a rectifier packs its right factor once so, and eight times where a unit has
    room for the sums of 256 rows alone.
    """
    is_alike = sides.target.width == sides.target.along(sides.columns) == SUM_BYTES and not sides.line
    return is_alike and FOLD not in epilogue.reads
