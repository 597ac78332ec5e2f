"""Reductions: folds of any expression along rows, planned. A kernel for each tree and for how its views' rows lie;
softmax and normalisations are reductions of several passes.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.symbolic_sizes import is_open
from anydml.engines.common.routes import Route, choose
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_lanes
from anydml.engines.cpu.launch.record import dimension_words
from anydml.engines.cpu.rows.map import digest, plan_map, word_of
from anydml.engines.cpu.rows.reduce_across import make_across
from anydml.engines.cpu.rows.reduce_along import BLOCK, make_along
from anydml.engines.cpu.rows.reduce_kernel import ROOM, ReduceShape, width_of
from anydml.engines.cpu.rows.row import Fetched, fetches_of, givens
from anydml.engines.cpu.rows.segmented_reduce import CutProgram, cut
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS, is_streamed, program_of_rows
from anydml.ir.loops import Loops, merge, squeeze
from anydml.ir.trees import walk
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anydml.engines.common.program import Program
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.program import KernelProgram
    from anydml.ir.expressions import Expr
    from anydml.ir.row_passes import Pass
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

# The reads of a reduce, each load, coordinate and fetch a view: how all are walked, and which way vectors lie.


class ReduceWalk(NamedTuple):
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
    walk: ReduceWalk
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


def _walk(primitive: Reduce, fetched: Fetched, leaves: tuple[Expr, ...], views: tuple[View | None, ...]) -> ReduceWalk:
    """Both walks, turned and ordered for the memory; a coordinate's elements lie one on for each step."""
    targets, rank = primitive.targets, len(primitive.sizes)
    offsets = [0 if view is None else view.offset for view in (*views, *targets)]
    is_memory = [*(leaf.op == "load" and leaf not in fetched.starts for leaf in leaves), *(True for _ in targets)]
    strides = _strides(primitive, fetched, leaves, views)
    loops = _turn(Loops(primitive.sizes, strides, tuple(offsets)), is_memory)
    split = rank - primitive.depth
    widths = tuple(1 if view is None else view.data_type.size_in_bytes for view in (*views, *targets))
    return ReduceWalk(_ordered(loops.pick(range(split))), _ordered(loops.pick(range(split, rank))), widths)


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


def _is_across(walk_: ReduceWalk, nodes: list[Expr]) -> bool:
    """Whether vectors lie across the rows."""
    kept, folded, _ = walk_
    lanes = figures().rows.vector_bytes // max(map(width_of, nodes))
    strided = [sum(row[-1] not in (0, 1) for row in loops.strides) for loops in (kept, folded)]
    if strided[0] < strided[1]:
        return kept.sizes[-1] >= min(lanes, 4) or kept.sizes[-1] >= folded.sizes[-1]
    if not is_open(kept.sizes[-1]) and kept.sizes[-1] < lanes:  # whatever is found of an open size below
        return False
    is_short = folded.sizes[-1] < 2 * lanes and folded.sizes[-1] % lanes > 0
    # Rows of a few elements, as windows have, fill no vector: 3 by 3 of every other column take a quarter of the time.
    is_window = 2 * folded.sizes[-1] < lanes
    return is_short and kept.sizes[-1] >= (lanes if is_window else 4 * lanes)


# Reduces of any expression, planned: a kernel for each tree, and for how its views' rows lie.


MANY = 256
"""Elements of rows past which FLOAT32 is added up in float64, where vectors lie across the rows: a softmax along 8,192
elements is 3 units of its last digit off, and 40 in FLOAT32."""


def is_segmented(primitive: Reduce, reads: Reads) -> bool:
    """Fewer than 32 rows, or strips of them, of 262,144 elements or more in all: cut into segments for all threads."""
    return _segments(primitive, reads) is not None


def is_across(_primitive: Reduce, reads: Reads) -> bool:
    """Rows whose elements lie apart, or are too short to fill vectors: a lane for each row."""
    return reads.is_across


def is_along(_primitive: Reduce, _reads: Reads) -> bool:
    """Rows whose elements lie side by side: vectors along the row."""
    return True


SEGMENTED = Route("segmented", is_segmented)
ACROSS = Route(
    "across rows", is_across, measured="2048 x 4096 take 2.0 ms by strips of 4,096 rows, and 3.6 by 1,024 (N1)"
)
ALONG = Route("along rows", is_along)
WAYS = (SEGMENTED, ACROSS, ALONG)
"""In the order in which they are asked."""


def plan_reduce(primitive: Reduce) -> Program | None:
    """Cut rows that are too few for many threads and too long for one; plan them whole otherwise."""
    reads = reads_of(primitive)
    way = choose(WAYS, primitive, reads)
    if way is SEGMENTED and (found := _segments(primitive, reads)):
        parts = cut(primitive, *found)
        planned = tuple(plan_map(part) if isinstance(part, Map) else _plan_whole(part) for part in parts)
        steps = tuple(filter(None, planned))
        if len(steps) == len(planned):
            return CutProgram.of(parts, steps)
    return _plan_whole(primitive)


def _segments(primitive: Reduce, reads: Reads) -> tuple[int, int] | None:
    """The dimension to cut and the elements of a segment, where rows are few and long."""
    kept, folded, widths = reads.walk
    of = figures().reduce
    if kept.count * folded.count < 4 * of.segment or not any(map(any, folded.strides)):
        return None
    beside, few = 1, of.few_rows
    if reads.is_across:
        is_narrow = not primitive.is_by_row and folded.count * max(widths) * of.narrow_strip <= ROOM
        beside, few = (of.narrow_strip, of.few_rows // 4) if is_narrow else (of.strip, of.few_rows)
        beside = min(beside, kept.sizes[-1])
    if kept.count // beside >= few:
        return None
    first = len(primitive.sizes) - primitive.depth
    dimension = max(range(first, len(primitive.sizes)), key=lambda k: primitive.sizes[k])
    size = primitive.sizes[dimension]
    length = max(of.segment // beside // (folded.count // size), 1)
    return (dimension, length) if size >= 2 * length else None


def _plan_whole(primitive: Reduce) -> KernelProgram | None:
    """Find out along which dimension vectors lie."""
    reads = reads_of(primitive)
    nodes, (kept, folded, widths) = reads.nodes, reads.walk
    *outer, count = kept.sizes
    targets = primitive.targets
    views = len(reads.leaves) + len(targets)
    if views > VIEWS or len(outer) > OUTER_RANK:
        return None
    shape = _shape(primitive, reads)
    weight = min(1 + len(nodes) // 8, 16)
    of = figures().reduce
    length = max(of.item_bytes // (folded.count * sum(widths) * weight), 1)
    if shape.strip:
        least = of.narrow_strip
        if primitive.is_by_row:
            units = min(of.least_items, kept.count * folded.count // (2 * of.segment))
            widest = (of.far_strip, of.strip, 256)
            enough = (width for width in widest if math.prod(outer) * -(-count // width) >= units)
            least = next(enough, widest[-1])
        length = -(-max(length, least) // shape.lanes) * shape.lanes
    numbers = [word_of(node) for node in givens(nodes)]
    for leaf, view, width, row in zip(reads.leaves, reads.views, widths, kept.strides, strict=False):
        if view is not None and (leaf.op == "fetch" or leaf in shape.starts):
            numbers += [stride * width for stride in (row[-1], *view.strides)]
    numbers += dimension_words(folded.sizes, reads.strides(folded, is_kept=False), widths)
    offsets = [
        view.offset if view is not None and (leaf.op == "fetch" or leaf in shape.starts) else offset
        for leaf, view, offset in zip(reads.leaves, reads.views, kept.offsets, strict=False)
    ]
    offsets += kept.offsets[len(reads.leaves) :]
    rows = Loops(kept.sizes, tuple(reads.strides(kept, is_kept=True)), tuple(offsets))
    size = kept.count * folded.count * sum(widths) * weight
    kernel = _kernel(reads.fetched.values, shape)
    return program_of_rows(kernel, (*reads.views, *targets), widths, rows, numbers, size, length=length)


def _shape(primitive: Reduce, reads: Reads) -> ReduceShape:
    """The shape that the kernel is compiled for."""
    (kept, folded, widths), nodes, is_across = reads.walk, reads.nodes, reads.is_across
    along = kept if is_across else folded
    letters = "".join({0: "r", 1: "p"}.get(row[-1], "s") for row in along.strides)
    for v, leaf in enumerate(reads.leaves):
        if is_across and leaf.op == "load" and along.strides[v][-1] == 2:
            letters = f"{letters[:v]}e{letters[v + 1 :]}"
        if leaf.op == "fetch":
            letters = f"{letters[:v]}{'u' if letters[v] == 'p' else 'a'}{letters[v + 1 :]}"
    of = figures().rows
    most = of.vector_bytes // (max(map(width_of, nodes)) if is_across else 1)
    divides = any(node.op in ("div", "rem") and not _is_float(node) for node in nodes)
    if "s" in letters or "a" in letters or divides:
        most = min(most, of.strided_lanes)
    # Of an open size each number asks for a plan of its own as rows grow: there are few where they change no bits.
    is_rounded = any(node.op in ("fold_sum", "fold_product") and _is_float(node) for node in nodes)
    few = (8, 1) if is_open(along.sizes[-1]) and not is_rounded else (32, 16, 8, 4, 2, 1)
    lanes = next(n for n in (most, *few) if n <= most and (n == 1 or n <= along.sizes[-1]))
    # Lanes without a row are 0, which nothing may be divided by.
    masked = is_across and lanes < along.sizes[-1] < most and {*letters} <= {*"pr"} and not divides and has_lanes()
    lanes *= 2 if masked else 1
    shape = ReduceShape(
        reads.leaves,
        reads.fetched.starts,
        letters,
        reads.varies(),
        len(folded.sizes),
        lanes,
        strip=lanes if is_across else 0,
        by_row="".join("y" if primitive.has_rows(target) else "n" for target in primitive.targets),
        early="n" * len(primitive.targets),
        keep="stack",
        long=folded.count > MANY if is_across else folded.sizes[-1] > 2 * BLOCK,
        far=is_across and kept.count * folded.count * max(widths) > figures().reduce.near,
        stream=not primitive.also and _streams(reads.walk, letters),
        masked=masked,
        window=folded.sizes if is_across and len(folded.sizes) > 1 and folded.count <= figures().reduce.window else (),
    )
    if primitive.also and not is_across:
        shape = _early(primitive, reads, shape)
    passes = shape.passes(reads.fetched.values)
    early = {one for one, letter in zip(reads.fetched.values, shape.early, strict=True) if letter == "y"}
    keeps = [node for step in passes for node in step.keeps if node not in early]
    row = folded.count * max(map(width_of, keeps), default=0) * len(keeps)
    if is_across:
        shape = shape._replace(strip=_strip(shape, passes, row))
    if row * max(shape.strip, 1) <= ROOM:
        return shape
    kept_there = shape._replace(keep="target", stream=False)
    return kept_there if _target_keeps(shape, kept_there.passes(reads.fetched.values)) else shape._replace(keep="")


def _early(primitive: Reduce, reads: Reads, shape: ReduceShape) -> ReduceShape:
    """Have targets written by the first pass and read back by others, which would compute them again.

    Nothing that may lie where such a target does is read after that. 4,096 rows of 768, added up and normalised, take
    4.0 ms so, and 5.3 where each pass adds (one thread of an Arm Neoverse-N1).
    """
    values = reads.fetched.values
    first = shape.passes(values)[0]
    computed = set(walk(*first.roots, known=first.stops)) if first.folds else set()
    views = dict(zip(reads.leaves, reads.views, strict=True))
    for v, (target, value) in enumerate(zip(primitive.targets, values, strict=True)):
        if shape.by_row[v] == "y" or shape.letters[len(reads.leaves) + v] != "p" or value not in computed:
            continue
        tried = shape._replace(early=f"{shape.early[:v]}y{shape.early[v + 1 :]}")
        later = {leaf for step in tried.passes(values)[1:] for leaf in step.leaves if leaf in shape.varying}
        read = [view for leaf in later if (view := views[leaf]) is not None]
        if all((view.strides, width_of(value)) != (target.strides, view.data_type.size_in_bytes) for view in read):
            shape = tried
    return shape


def _strip(shape: ReduceShape, passes: list[Pass], row: int) -> int:
    """Rows that are folded together: fewer where there is room for what is kept of them, or they are gathered."""
    held = sum(width_of(node) for step in passes for node in (*step.folds, *step.once)) or 1
    of = figures().reduce
    most = min(of.far_strip if shape.far else of.strip, ROOM // 2 // held)  # a kernel has 64 KiB of stack
    if "s" in shape.letters:
        most = shape.lanes
    elif row and of.narrow_strip * row <= ROOM:
        most = min(most, ROOM // row)
    return max(most // shape.lanes, 1) * shape.lanes


def _target_keeps(shape: ReduceShape, passes: list[Pass]) -> bool:
    """Whether what is kept fits the target, which may be the memory of a source: none is read any more."""
    keeping = [k for k, step in enumerate(passes) if step.keeps]
    if shape.strip or shape.by_row != "n" or shape.letters[-1] != "p" or len(keeping) != 1:
        return False
    (first,), (written,) = keeping, passes[-1].roots
    is_read = any(leaf.op == "load" and leaf in shape.varying for step in passes[first + 1 :] for leaf in step.leaves)
    return len(passes[first].keeps) == 1 and passes[first].keeps[0].type is written.type and not is_read


def _is_float(node: Expr) -> bool:
    return node.type is not None and node.type.is_float


def _streams(walk_: ReduceWalk, letters: str) -> bool:
    """Whether the target is written past the cache."""
    kept, folded, widths = walk_
    size = kept.count * folded.count * widths[-1]
    return letters[-1] == "p" and any(folded.strides[-1]) and is_streamed(folded.sizes[-1] * widths[-1], size)


def _kernel(values: tuple[Expr, ...], shape: ReduceShape) -> Kernel:
    key = f"{digest(*values)} {shape[2:]}{''.join(map(digest, shape.starts.values()))}"
    # For whoever reads a record: the dimensions that are folded, and which leaves begin where an index says.
    begins = "".join("f" if leaf.op == "fetch" or leaf in shape.starts else "l" for leaf in shape.leaves)
    name = f"reduce {shape.rank} {begins or '-'} {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_across if shape.strip else make_along, values, shape))
