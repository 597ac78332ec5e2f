"""Reduces of any expression, planned: a kernel for each tree, and for how its views' rows lie."""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import IS_ARM, get_kernel
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.across import make_across
from anydml.engines.cpu.kernels.along import make_along
from anydml.engines.cpu.kernels.map import givens
from anydml.engines.cpu.kernels.reduce import ROOM, VECTOR, Shape, width_of
from anydml.engines.cpu.kernels.rows import FIXED, OUTER_RANK, VIEWS, make_rows
from anydml.engines.cpu.programs.map import LONG_ROW, MapProgram, digest, word_of
from anydml.engines.cpu.programs.words import STREAM_FROM
from anydml.ir.plan import Loops, merge, squeeze
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from anydml.engines.cpu.build import Kernel
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

UNIT = 64 * 1024
"""Bytes of rows that one unit of work goes through, if there are several."""
STRIP = 1024
"""Rows that are folded together where vectors lie across them."""
SHORT = 16
"""Elements of a row up to which vectors lie across rows though they would have to be gathered."""


class _Walk(NamedTuple):
    """The walk over the rows, and within a row."""

    kept: Loops
    folded: Loops
    widths: tuple[int, ...]
    """Of the views' elements, in bytes."""

    @property
    def bytes(self) -> int:
        """Of all elements, a row's value counted as one."""
        return self.kept.count * self.folded.count * sum(self.widths)


def plan_reduce(primitive: Reduce) -> MapProgram | None:
    """Let each load and each coordinate be a view; find out along which dimension vectors lie."""
    value = primitive.value
    nodes = list(walk(value))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate"))
    walk_ = _walk(primitive, leaves)
    kept, folded, widths = walk_
    views = len(leaves) + 1
    if views > VIEWS:
        return None
    is_across = _is_across(kept, folded, nodes)
    along = kept if is_across else folded
    steps = [row[-1] for row in along.strides]
    letters = "".join({0: "r", 1: "p"}.get(step, "s") for step in steps)
    varies = "".join("y" if any(row) else "n" for row in folded.strides)
    lanes = 1
    most = VECTOR // (max(map(width_of, nodes)) if is_across else 1)
    if "s" in letters or any(node.op in ("div", "rem") and node.type and not node.type.is_float for node in nodes):
        most = min(most, 16)
    while 2 * lanes <= min(most, along.sizes[-1]):
        lanes *= 2
    strip = _strip(kept, folded, lanes) if is_across else 0
    shape = Shape(
        leaves, letters, varies, len(folded.sizes), lanes, strip, primitive.is_by_row, True, _streams(walk_, letters)
    )
    passes = shape.passes(value)
    keeps = [node for step in passes for node in step.keeps]
    if folded.count * max(strip, 1) * max(map(width_of, keeps), default=0) * len(keeps) > ROOM:
        shape = shape._replace(keep=False)
    *outer, count = kept.sizes
    if len(outer) > OUTER_RANK:
        return None
    weight = min(1 + len(nodes) // 8, 16)
    row = folded.count * sum(widths) * weight
    length = max(UNIT // row, 1)
    if is_across:
        length = max(-(-length // strip), 1) * strip
    numbers = [word_of(node) for node in givens(nodes)]
    table = [
        word
        for loops, first, last in ((folded, 0, len(folded.sizes)), (kept, 0, len(outer)))
        for k in range(first, last)
        for word in (loops.sizes[k], *(row[k] * width for row, width in zip(loops.strides, widths, strict=True)))
    ]
    get_kernel("rows", make_rows)
    before = HEADER + FIXED + 2 * views + len(numbers) + len(folded.sizes) * (views + 1)
    sources = [primitive.sources[int(leaf.value)].tensor if leaf.op == "load" else "" for leaf in leaves]
    return MapProgram(
        _kernel(value, shape),
        (*sources, primitive.target.tensor),
        tuple(offset * width for offset, width in zip(kept.offsets, widths, strict=True)),
        (views, before, count, math.prod(outer), length, len(outer)),
        (*(row[-1] * width for row, width in zip(kept.strides, widths, strict=True)), *numbers, *table),
        math.prod(outer) * -(-count // length),
        walk_.bytes * weight,
    )


def _walk(primitive: Reduce, leaves: tuple[Expr, ...]) -> _Walk:
    """Both walks, turned and ordered for the memory; a coordinate's elements lie one on for each step."""
    sizes, rank = primitive.sizes, len(primitive.sizes)
    views = [primitive.sources[int(leaf.value)] if leaf.op == "load" else None for leaf in leaves]
    strides = [
        tuple(int(k == leaf.value) for k in range(rank)) if view is None else view.strides
        for leaf, view in zip(leaves, views, strict=True)
    ]
    target = primitive.target
    last = tuple(s if n > 1 else 0 for n, s in zip(target.sizes, target.strides, strict=True))
    offsets = [0 if view is None else view.offset for view in views]
    loops = _turn(Loops(sizes, (*strides, last), (*offsets, target.offset)), [*(v is not None for v in views), True])
    split = rank - primitive.depth
    widths = tuple(1 if view is None else view.data_type.size_in_bytes for view in (*views, target))
    parts = []
    for part in (range(split), range(split, rank)):
        some = squeeze(loops.pick(part))
        ordered = sorted(
            range(len(some.sizes)), key=lambda k, some=some: sum(abs(row[k]) for row in some.strides), reverse=True
        )
        merged = merge(some.pick(ordered))
        parts.append(merged if merged.sizes else Loops((1,), ((0,),) * len(merged.strides), merged.offsets))
    return _Walk(*parts, widths)


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


def _is_across(kept: Loops, folded: Loops, nodes: list[Expr]) -> bool:
    """Whether vectors lie across the rows."""
    lanes = VECTOR // max(map(width_of, nodes))
    strided = [sum(row[-1] not in (0, 1) for row in loops.strides) for loops in (kept, folded)]
    if strided[0] < strided[1]:
        return kept.sizes[-1] >= min(lanes, 4) or kept.sizes[-1] >= folded.sizes[-1]
    return folded.sizes[-1] <= SHORT and kept.sizes[-1] >= 4 * lanes


def _strip(kept: Loops, folded: Loops, lanes: int) -> int:
    """Rows that are folded together: many where they lie side by side."""
    if any(row[-1] not in (0, 1) for row in kept.strides):
        return lanes
    return max(min(STRIP, kept.sizes[-1]) // lanes, 1) * lanes


def _streams(walk_: _Walk, letters: str) -> bool:
    """Whether the target is written past the cache."""
    kept, folded, widths = walk_
    along = folded if any(folded.strides[-1]) else kept
    is_run = letters[-1] == "p" and along.sizes[-1] * widths[-1] >= LONG_ROW
    return IS_ARM and is_run and any(folded.strides[-1]) and kept.count * folded.count * widths[-1] >= STREAM_FROM


def _kernel(value: Expr, shape: Shape) -> Kernel:
    key = f"{digest(value)} {shape[1:]}"
    name = f"reduce {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_across if shape.strip else make_along, value, shape))
