"""Reduces of any expression, planned: a kernel for each tree, and for how its views' rows lie."""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import IS_ARM, get_kernel
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.across import make_across
from anydml.engines.cpu.kernels.along import BLOCK, make_along
from anydml.engines.cpu.kernels.reduce import ROOM, VECTOR, Shape, width_of
from anydml.engines.cpu.kernels.row import givens
from anydml.engines.cpu.kernels.rows import FIXED, OUTER_RANK, VIEWS, make_rows
from anydml.engines.cpu.programs.cut import CutProgram, cut
from anydml.engines.cpu.programs.fetching import Fetched, fetches_of
from anydml.engines.cpu.programs.map import LONG_ROW, MapProgram, digest, plan_map, word_of
from anydml.engines.cpu.programs.words import STREAM_FROM
from anydml.ir.plan import Loops, merge, squeeze
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from anydml.engines.cpu.build import Kernel
    from anydml.engines.cpu.kernels.passes import Pass
    from anydml.engines.protocol import Program
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

UNIT = 64 * 1024
"""Bytes of rows that one unit of work goes through, if there are several."""
STRIP = 1024
"""Rows that are folded together where vectors lie across them."""
NARROW, WIDE = 64, 256
"""Such rows that one unit has at least: with values for their elements, and with one for each."""
SEGMENT = 64 * 1024
"""Elements of a segment of rows that are cut."""
NEAR = 1024 * 1024
"""Bytes of a source that caches hold which are near."""
FEW = 32
"""Rows, or strips of them, from which on they are not cut."""


class _Walk(NamedTuple):
    """The walk over the rows, and within a row."""

    kept: Loops
    folded: Loops
    widths: tuple[int, ...]
    """Of the views' elements, in bytes."""


class _Reads(NamedTuple):
    """What a reduce reads, each load, coordinate and fetch a view, and how it is walked."""

    fetched: Fetched
    leaves: tuple[Expr, ...]
    views: tuple[View | None, ...]
    """Of each leaf; None for a coordinate."""
    walk: _Walk
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
            if leaf.op == "fetch" or (is_kept and leaf in self.fetched.starts):
                found[v] = (0,) * len(loops.sizes)
        return found


def plan_reduce(primitive: Reduce) -> Program | None:
    """Cut rows that are too few for many threads and too long for one; plan them whole otherwise."""
    if found := _segments(primitive, _reads(primitive)):
        parts = cut(primitive, *found)
        planned = tuple(plan_map(part) if isinstance(part, Map) else _plan_whole(part) for part in parts)
        steps = tuple(filter(None, planned))
        if len(steps) == len(planned):
            return CutProgram.of(parts, steps)
    return _plan_whole(primitive)


def _reads(primitive: Reduce) -> _Reads:
    """Rows that are fetched are lines where vectors lie along the rows; across them each element is for itself."""
    for has_lines in (True, False):
        fetched = fetches_of(primitive, has_lines=has_lines)
        leaves = tuple(node for node in fetched.nodes if node.op in ("load", "coordinate", "fetch"))
        views = tuple(_view(primitive, fetched, leaf) for leaf in leaves)
        walk_ = _walk(primitive, fetched, leaves, views)
        is_across = not has_lines or _is_across(walk_, fetched.nodes)
        if not (is_across and fetched.starts):
            break
    return _Reads(fetched, leaves, views, walk_, is_across)


def _view(primitive: Reduce, fetched: Fetched, leaf: Expr) -> View | None:
    return None if leaf.op == "coordinate" else primitive.sources[int(fetched.starts.get(leaf, leaf).value)]


def _segments(primitive: Reduce, reads: _Reads) -> tuple[int, int] | None:
    """The dimension to cut and the elements of a segment, where rows are few and long."""
    kept, folded, widths = reads.walk
    if kept.count * folded.count < 4 * SEGMENT or not any(map(any, folded.strides)):
        return None
    beside, few = 1, FEW
    if reads.is_across:
        is_narrow = not primitive.is_by_row and folded.count * max(widths) * NARROW <= ROOM
        beside, few = (NARROW, FEW // 4) if is_narrow else (STRIP, FEW)
        beside = min(beside, kept.sizes[-1])
    if kept.count // beside >= few:
        return None
    first = len(primitive.sizes) - primitive.depth
    dimension = max(range(first, len(primitive.sizes)), key=lambda k: primitive.sizes[k])
    size = primitive.sizes[dimension]
    length = max(SEGMENT // beside // (folded.count // size), 1)
    return (dimension, length) if size >= 2 * length else None


def _plan_whole(primitive: Reduce) -> MapProgram | None:
    """Find out along which dimension vectors lie."""
    reads = _reads(primitive)
    nodes, (kept, folded, widths) = reads.nodes, reads.walk
    *outer, count = kept.sizes
    views = len(reads.leaves) + 1
    if views > VIEWS or len(outer) > OUTER_RANK:
        return None
    shape = _shape(primitive, reads)
    weight = min(1 + len(nodes) // 8, 16)
    length = max(UNIT // (folded.count * sum(widths) * weight), 1)
    if shape.strip:
        least = NARROW
        if primitive.is_by_row:
            least = STRIP if kept.count >= 8 * STRIP else WIDE
        length = -(-max(length, least) // shape.lanes) * shape.lanes
    numbers = [word_of(node) for node in givens(nodes)]
    for leaf, view, width in zip(reads.leaves, reads.views, widths, strict=False):
        if view is not None and (leaf.op == "fetch" or leaf in shape.starts):
            numbers += [stride * width for stride in view.strides]
    by_row, along = (reads.strides(loops, is_kept=loops is kept) for loops in (kept, folded))
    table = [
        word
        for sizes, strides in ((folded.sizes, along), (outer, by_row))
        for k, size in enumerate(sizes)
        for word in (size, *(row[k] * width for row, width in zip(strides, widths, strict=True)))
    ]
    get_kernel("rows", make_rows)
    before = HEADER + FIXED + 2 * views + len(numbers) + len(folded.sizes) * (views + 1)
    offsets = [
        view.offset if view is not None and (leaf.op == "fetch" or leaf in shape.starts) else offset
        for leaf, view, offset in zip(reads.leaves, reads.views, kept.offsets, strict=False)
    ]
    return MapProgram(
        _kernel(reads.fetched.value, shape),
        (*("" if view is None else view.tensor for view in reads.views), primitive.target.tensor),
        tuple(offset * width for offset, width in zip((*offsets, kept.offsets[-1]), widths, strict=True)),
        (views, before, count, math.prod(outer), length, len(outer)),
        (*(row[-1] * width for row, width in zip(by_row, widths, strict=True)), *numbers, *table),
        math.prod(outer) * -(-count // length),
        kept.count * folded.count * sum(widths) * weight,
    )


def _shape(primitive: Reduce, reads: _Reads) -> Shape:
    """What the kernel is compiled for."""
    (kept, folded, widths), nodes, is_across = reads.walk, reads.nodes, reads.is_across
    along = kept if is_across else folded
    letters = "".join({0: "r", 1: "p"}.get(row[-1], "s") for row in along.strides)
    varies = "".join("y" if any(row) else "n" for row in reads.strides(folded, is_kept=False))
    for v, leaf in enumerate(reads.leaves):
        if leaf.op == "fetch":
            letters = f"{letters[:v]}{'u' if letters[v] == 'p' else 'a'}{letters[v + 1 :]}"
    most = VECTOR // (max(map(width_of, nodes)) if is_across else 1)
    if "s" in letters or "a" in letters or any(node.op in ("div", "rem") and not _is_float(node) for node in nodes):
        most = min(most, 16)
    lanes = 1
    while 2 * lanes <= min(most, along.sizes[-1]):
        lanes *= 2
    shape = Shape(
        reads.leaves,
        reads.fetched.starts,
        letters,
        varies,
        len(folded.sizes),
        lanes,
        strip=lanes if is_across else 0,
        by_row=primitive.is_by_row,
        keep="stack",
        long=not is_across and folded.sizes[-1] > 2 * BLOCK,
        far=is_across and kept.count * folded.count * max(widths) > NEAR,
        stream=_streams(reads.walk, letters),
    )
    passes = shape.passes(reads.fetched.value)
    keeps = [node for step in passes for node in step.keeps]
    row = folded.count * max(map(width_of, keeps), default=0) * len(keeps)
    if is_across:
        shape = shape._replace(strip=_strip(shape, passes, row))
    if row * max(shape.strip, 1) <= ROOM:
        return shape
    return shape._replace(keep="target", stream=False) if _target_keeps(shape, passes) else shape._replace(keep="")


def _strip(shape: Shape, passes: list[Pass], row: int) -> int:
    """Rows that are folded together: fewer where there is room for what is kept of them, or they are gathered."""
    held = sum(width_of(node) for step in passes for node in (*step.folds, *step.once)) or 1
    most = min(STRIP, ROOM // 2 // held)  # a kernel has 64 KiB of stack
    if "s" in shape.letters:
        most = shape.lanes
    elif row and NARROW * row <= ROOM:
        most = min(most, ROOM // row)
    return max(most // shape.lanes, 1) * shape.lanes


def _target_keeps(shape: Shape, passes: list[Pass]) -> bool:
    """Whether what is kept fits the target, which may be the memory of a source: none is read any more."""
    keeping = [k for k, step in enumerate(passes) if step.keeps]
    if shape.strip or shape.by_row or shape.letters[-1] != "p" or len(keeping) != 1:
        return False
    (first,), (written,) = keeping, passes[-1].roots
    is_read = any(leaf.op == "load" and leaf in shape.varying for step in passes[first + 1 :] for leaf in step.leaves)
    return len(passes[first].keeps) == 1 and passes[first].keeps[0].type is written.type and not is_read


def _is_float(node: Expr) -> bool:
    return node.type is not None and node.type.is_float


def _walk(primitive: Reduce, fetched: Fetched, leaves: tuple[Expr, ...], views: tuple[View | None, ...]) -> _Walk:
    """Both walks, turned and ordered for the memory; a coordinate's elements lie one on for each step."""
    sizes, rank = primitive.sizes, len(primitive.sizes)
    strides = [
        tuple(int(k == leaf.value) for k in range(rank)) if view is None else fetched.usual.get(leaf, view.strides)
        for leaf, view in zip(leaves, views, strict=True)
    ]
    target = primitive.target
    last = tuple(s if n > 1 else 0 for n, s in zip(target.sizes, target.strides, strict=True))
    offsets = [0 if view is None else view.offset for view in views]
    is_memory = [*(leaf.op == "load" and leaf not in fetched.starts for leaf in leaves), True]
    loops = _turn(Loops(sizes, (*strides, last), (*offsets, target.offset)), is_memory)
    split = rank - primitive.depth
    widths = tuple(1 if view is None else view.data_type.size_in_bytes for view in (*views, target))
    return _Walk(_ordered(loops.pick(range(split))), _ordered(loops.pick(range(split, rank))), widths)


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


def _is_across(walk_: _Walk, nodes: list[Expr]) -> bool:
    """Whether vectors lie across the rows."""
    kept, folded, _ = walk_
    lanes = VECTOR // max(map(width_of, nodes))
    strided = [sum(row[-1] not in (0, 1) for row in loops.strides) for loops in (kept, folded)]
    if strided[0] < strided[1]:
        return kept.sizes[-1] >= min(lanes, 4) or kept.sizes[-1] >= folded.sizes[-1]
    is_short = folded.sizes[-1] < 2 * lanes and folded.sizes[-1] % lanes > 0
    return is_short and kept.sizes[-1] >= 4 * lanes


def _streams(walk_: _Walk, letters: str) -> bool:
    """Whether the target is written past the cache."""
    kept, folded, widths = walk_
    along = folded if any(folded.strides[-1]) else kept
    is_run = letters[-1] == "p" and along.sizes[-1] * widths[-1] >= LONG_ROW
    return IS_ARM and is_run and any(folded.strides[-1]) and kept.count * folded.count * widths[-1] >= STREAM_FROM


def _kernel(value: Expr, shape: Shape) -> Kernel:
    key = f"{digest(value)} {shape[2:]}{''.join(map(digest, shape.starts.values()))}"
    name = f"reduce {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_across if shape.strip else make_along, value, shape))
