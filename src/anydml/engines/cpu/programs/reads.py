"""The reads of a reduce, each load, coordinate and fetch a view: how all are walked, and which way vectors lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.kernels.reduce import VECTOR, width_of
from anydml.engines.cpu.programs.fetching import Fetched, fetches_of
from anydml.ir.plan import Loops, merge, squeeze
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View


class Walk(NamedTuple):
    """The walk over the rows, and within a row."""

    kept: Loops
    folded: Loops
    widths: tuple[int, ...]
    """Of the views' elements, in bytes."""


class Reads(NamedTuple):
    """The reads of a reduce."""

    fetched: Fetched
    leaves: tuple[Expr, ...]
    views: tuple[View | None, ...]
    """Of each leaf; None for a coordinate."""
    walk: Walk
    is_across: bool
    """Whether vectors lie across the rows."""

    @property
    def nodes(self) -> list[Expr]:
        """All that is computed."""
        return self.fetched.nodes

    def strides(self, loops: Loops, *, is_kept: bool) -> list[tuple[int, ...]]:
        """Of each view: what is fetched begins where indices say, along a row or for each element."""
        found = list(loops.strides)
        for v, leaf in enumerate(self.leaves):
            if leaf.op == "fetch" or (leaf in self.fetched.starts and (is_kept or self.is_across)):
                found[v] = (0,) * len(loops.sizes)
        return found

    def varies(self) -> str:
        """Whether each view varies along the row."""
        found = ["y" if any(row) else "n" for row in self.strides(self.walk.folded, is_kept=False)]
        if self.is_across:
            for line, node in self.fetched.starts.items():
                of = (self.leaves.index(leaf) for leaf in walk(*node.args) if leaf in self.leaves)
                found[self.leaves.index(line)] = "y" if any(found[v] == "y" for v in of) else "n"
        return "".join(found)


def reads_of(primitive: Reduce) -> Reads:
    """Lines that are fetched begin with each row; with each element where vectors lie across the rows."""
    rank = len(primitive.sizes)
    reads = _reads_along(primitive, range(rank - primitive.depth, rank))
    if not _is_across(reads.walk, reads.nodes):
        return reads
    if reads.fetched.usual:
        reads = _reads_along(primitive, _innermost(primitive, reads))
    return reads._replace(is_across=True)


def _reads_along(primitive: Reduce, dimensions: Iterable[int]) -> Reads:
    fetched = fetches_of(primitive, dimensions)
    leaves = tuple(node for node in fetched.nodes if node.op in ("load", "coordinate", "fetch"))
    views = tuple(_view(primitive, fetched, leaf) for leaf in leaves)
    return Reads(fetched, leaves, views, _walk(primitive, fetched, leaves, views), is_across=False)


def _innermost(primitive: Reduce, reads: Reads) -> list[int]:
    """The dimensions that the rows next to one another are of."""
    strides, found = _strides(primitive, reads.fetched, reads.leaves, reads.views), list[int]()
    kept = [k for k in range(len(primitive.sizes) - primitive.depth) if primitive.sizes[k] > 1]
    for k in sorted(kept, key=lambda k: sum(abs(row[k]) for row in strides)):
        if math.prod(primitive.sizes[m] for m in found) < reads.walk.kept.sizes[-1]:
            found.append(k)
    return found


def _view(primitive: Reduce, fetched: Fetched, leaf: Expr) -> View | None:
    return None if leaf.op == "coordinate" else primitive.sources[int(fetched.starts.get(leaf, leaf).value)]


def _walk(primitive: Reduce, fetched: Fetched, leaves: tuple[Expr, ...], views: tuple[View | None, ...]) -> Walk:
    """Both walks, turned and ordered for the memory; a coordinate's elements lie one on for each step."""
    targets, rank = primitive.targets, len(primitive.sizes)
    offsets = [0 if view is None else view.offset for view in (*views, *targets)]
    is_memory = [*(leaf.op == "load" and leaf not in fetched.starts for leaf in leaves), *(True for _ in targets)]
    strides = _strides(primitive, fetched, leaves, views)
    loops = _turn(Loops(primitive.sizes, strides, tuple(offsets)), is_memory)
    split = rank - primitive.depth
    widths = tuple(1 if view is None else view.data_type.size_in_bytes for view in (*views, *targets))
    return Walk(_ordered(loops.pick(range(split))), _ordered(loops.pick(range(split, rank))), widths)


def _strides(
    primitive: Reduce, fetched: Fetched, leaves: tuple[Expr, ...], views: tuple[View | None, ...]
) -> tuple[tuple[int, ...], ...]:
    """Of each leaf, then of each target: those of fetches as they usually are."""
    rank = len(primitive.sizes)
    read = [
        tuple(int(k == leaf.value) for k in range(rank)) if view is None else fetched.usual.get(leaf, view.strides)
        for leaf, view in zip(leaves, views, strict=True)
    ]
    written = (
        tuple(stride if size > 1 else 0 for size, stride in zip(target.sizes, target.strides, strict=True))
        for target in primitive.targets
    )
    return (*read, *written)


def _ordered(loops: Loops) -> Loops:
    """Walk in large steps outside and small steps inside, in one dimension at least."""

    def step(k: int) -> int:
        return sum(abs(row[k]) for row in loops.strides)

    found = merge(squeeze(loops.pick(sorted(range(len(loops.sizes)), key=step, reverse=True))))
    return found if found.sizes else Loops((1,), ((0,),) * len(found.strides), found.offsets)


def _turn(loops: Loops, is_memory: list[bool]) -> Loops:
    """Walk dimensions from their other end that run backwards in the first view of memory that has them."""
    rows = [row for row, is_one in zip(loops.strides, is_memory, strict=True) if is_one]
    back = [k for k in range(len(loops.sizes)) if next((row[k] for row in rows if row[k]), 0) < 0]
    strides = tuple(tuple(-s if k in back else s for k, s in enumerate(row)) for row in loops.strides)
    offsets = tuple(
        offset + sum((loops.sizes[k] - 1) * row[k] for k in back)
        for offset, row in zip(loops.offsets, loops.strides, strict=True)
    )
    return Loops(loops.sizes, strides, offsets)


def _is_across(walk_: Walk, nodes: list[Expr]) -> bool:
    """Whether vectors lie across the rows."""
    kept, folded, _ = walk_
    lanes = VECTOR // max(map(width_of, nodes))
    strided = [sum(row[-1] not in (0, 1) for row in loops.strides) for loops in (kept, folded)]
    if strided[0] < strided[1]:
        return kept.sizes[-1] >= min(lanes, 4) or kept.sizes[-1] >= folded.sizes[-1]
    is_short = folded.sizes[-1] < 2 * lanes and folded.sizes[-1] % lanes > 0
    # Rows of a few elements, as windows have, fill no vector: 3 by 3 of every other column take a quarter of the time.
    is_window = 2 * folded.sizes[-1] < lanes
    return is_short and kept.sizes[-1] >= (lanes if is_window else 4 * lanes)
