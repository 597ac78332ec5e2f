"""Reduces of any expression, planned: a kernel for each tree, and for how its views' rows lie."""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM, has_lanes
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.across import make_across
from anydml.engines.cpu.kernels.along import BLOCK, make_along
from anydml.engines.cpu.kernels.reduce import ROOM, VECTOR, width_of
from anydml.engines.cpu.kernels.reduce_shape import Shape
from anydml.engines.cpu.kernels.row import givens
from anydml.engines.cpu.kernels.rows import FIXED, OUTER_RANK, VIEWS, make_rows
from anydml.engines.cpu.programs.cut import CutProgram, cut
from anydml.engines.cpu.programs.map import LONG_ROW, digest, plan_map, word_of
from anydml.engines.cpu.programs.mapped import MapProgram
from anydml.engines.cpu.programs.reads import reads_of
from anydml.engines.cpu.programs.words import STREAM_FROM
from anydml.ir.trees import walk
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.kernels.passes import Pass
    from anydml.engines.cpu.programs.reads import Reads, Walk
    from anydml.engines.protocol import Program
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce

UNIT = 64 * 1024
"""Bytes of rows that one unit of work goes through, if there are several."""
STRIP = 1024
"""Rows that are folded together where vectors lie across them."""
FAR_STRIP = 4096
"""Those whose elements come from far: they are read as they lie. 2048 x 4096 take 2.0 ms so, and 3.6 by 1024 (one
thread of an Arm Neoverse-N1)."""
NARROW = 64
"""Such rows that one unit has at least, with values for their elements."""
WIDTHS, UNITS = (FAR_STRIP, STRIP, 256), 8
"""Those with a value for each: as many as leave so many units, or one for every two segments."""
SEGMENT = 64 * 1024
"""Elements of a segment of rows that are cut."""
WINDOW = 25
"""Elements of a window that are folded at once."""
NEAR = 1024 * 1024
"""Bytes of a source that caches hold which are near."""
FEW = 32
"""Rows, or strips of them, from which on they are not cut."""
MANY = 256
"""Elements of rows past which FLOAT32 is added up in float64, where vectors lie across the rows: a softmax along 8,192
elements is 3 units of its last digit off, and 40 in FLOAT32."""


def plan_reduce(primitive: Reduce) -> Program | None:
    """Cut rows that are too few for many threads and too long for one; plan them whole otherwise."""
    if found := _segments(primitive, reads_of(primitive)):
        parts = cut(primitive, *found)
        planned = tuple(plan_map(part) if isinstance(part, Map) else _plan_whole(part) for part in parts)
        steps = tuple(filter(None, planned))
        if len(steps) == len(planned):
            return CutProgram.of(parts, steps)
    return _plan_whole(primitive)


def _segments(primitive: Reduce, reads: Reads) -> tuple[int, int] | None:
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
    reads = reads_of(primitive)
    nodes, (kept, folded, widths) = reads.nodes, reads.walk
    *outer, count = kept.sizes
    targets = primitive.targets
    views = len(reads.leaves) + len(targets)
    if views > VIEWS or len(outer) > OUTER_RANK:
        return None
    shape = _shape(primitive, reads)
    weight = min(1 + len(nodes) // 8, 16)
    length = max(UNIT // (folded.count * sum(widths) * weight), 1)
    if shape.strip:
        least = NARROW
        if primitive.is_by_row:
            units = min(UNITS, kept.count * folded.count // (2 * SEGMENT))
            enough = (width for width in WIDTHS if math.prod(outer) * -(-count // width) >= units)
            least = next(enough, WIDTHS[-1])
        length = -(-max(length, least) // shape.lanes) * shape.lanes
    numbers = [word_of(node) for node in givens(nodes)]
    for leaf, view, width, row in zip(reads.leaves, reads.views, widths, kept.strides, strict=False):
        if view is not None and (leaf.op == "fetch" or leaf in shape.starts):
            numbers += [stride * width for stride in (row[-1], *view.strides)]
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
    offsets += kept.offsets[len(reads.leaves) :]
    return MapProgram(
        _kernel(reads.fetched.values, shape),
        tuple("" if view is None else view.tensor for view in (*reads.views, *targets)),
        tuple(offset * width for offset, width in zip(offsets, widths, strict=True)),
        (views, before, count, math.prod(outer), length, len(outer)),
        (*(row[-1] * width for row, width in zip(by_row, widths, strict=True)), *numbers, *table),
        math.prod(outer) * -(-count // length),
        kept.count * folded.count * sum(widths) * weight,
    )


def _shape(primitive: Reduce, reads: Reads) -> Shape:
    """The shape that the kernel is compiled for."""
    (kept, folded, widths), nodes, is_across = reads.walk, reads.nodes, reads.is_across
    along = kept if is_across else folded
    letters = "".join({0: "r", 1: "p"}.get(row[-1], "s") for row in along.strides)
    for v, leaf in enumerate(reads.leaves):
        if is_across and leaf.op == "load" and along.strides[v][-1] == 2:
            letters = f"{letters[:v]}d{letters[v + 1 :]}"
        if leaf.op == "fetch":
            letters = f"{letters[:v]}{'u' if letters[v] == 'p' else 'a'}{letters[v + 1 :]}"
    most = VECTOR // (max(map(width_of, nodes)) if is_across else 1)
    divides = any(node.op in ("div", "rem") and not _is_float(node) for node in nodes)
    if "s" in letters or "a" in letters or divides:
        most = min(most, 16)
    lanes = 1
    while 2 * lanes <= min(most, along.sizes[-1]):
        lanes *= 2
    # Lanes without a row are 0, which nothing may be divided by.
    masked = is_across and lanes < along.sizes[-1] < most and {*letters} <= {*"pr"} and not divides and has_lanes()
    lanes *= 2 if masked else 1
    shape = Shape(
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
        far=is_across and kept.count * folded.count * max(widths) > NEAR,
        stream=not primitive.also and _streams(reads.walk, letters),
        masked=masked,
        window=folded.sizes if is_across and len(folded.sizes) > 1 and folded.count <= WINDOW else (),
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


def _early(primitive: Reduce, reads: Reads, shape: Shape) -> Shape:
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


def _strip(shape: Shape, passes: list[Pass], row: int) -> int:
    """Rows that are folded together: fewer where there is room for what is kept of them, or they are gathered."""
    held = sum(width_of(node) for step in passes for node in (*step.folds, *step.once)) or 1
    most = min(FAR_STRIP if shape.far else STRIP, ROOM // 2 // held)  # a kernel has 64 KiB of stack
    if "s" in shape.letters:
        most = shape.lanes
    elif row and NARROW * row <= ROOM:
        most = min(most, ROOM // row)
    return max(most // shape.lanes, 1) * shape.lanes


def _target_keeps(shape: Shape, passes: list[Pass]) -> bool:
    """Whether what is kept fits the target, which may be the memory of a source: none is read any more."""
    keeping = [k for k, step in enumerate(passes) if step.keeps]
    if shape.strip or shape.by_row != "n" or shape.letters[-1] != "p" or len(keeping) != 1:
        return False
    (first,), (written,) = keeping, passes[-1].roots
    is_read = any(leaf.op == "load" and leaf in shape.varying for step in passes[first + 1 :] for leaf in step.leaves)
    return len(passes[first].keeps) == 1 and passes[first].keeps[0].type is written.type and not is_read


def _is_float(node: Expr) -> bool:
    return node.type is not None and node.type.is_float


def _streams(walk_: Walk, letters: str) -> bool:
    """Whether the target is written past the cache."""
    kept, folded, widths = walk_
    along = folded if any(folded.strides[-1]) else kept
    is_run = letters[-1] == "p" and along.sizes[-1] * widths[-1] >= LONG_ROW
    return IS_ARM and is_run and any(folded.strides[-1]) and kept.count * folded.count * widths[-1] >= STREAM_FROM


def _kernel(values: tuple[Expr, ...], shape: Shape) -> Kernel:
    key = f"{digest(*values)} {shape[2:]}{''.join(map(digest, shape.starts.values()))}"
    # For whoever reads a record: the dimensions that are folded, and which leaves begin where an index says.
    begins = "".join("f" if leaf.op == "fetch" or leaf in shape.starts else "l" for leaf in shape.leaves)
    name = f"reduce {shape.rank} {begins or '-'} {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_across if shape.strip else make_along, values, shape))
