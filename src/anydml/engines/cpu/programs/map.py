"""Maps of any expression, planned: a kernel for each tree, and for how its views' innermost rows lie."""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.kernels import HEADER, LINE
from anydml.engines.cpu.kernels.map import make_map
from anydml.engines.cpu.kernels.row import ANYWHERE, EVERY, Shape, body_of, givens, moving
from anydml.engines.cpu.kernels.rows import FIXED, OUTER_RANK, VIEWS, make_rows
from anydml.engines.cpu.programs.fetching import fetch_steps
from anydml.engines.cpu.programs.mapped import MapProgram
from anydml.engines.cpu.programs.words import STREAM_FROM
from anydml.enums import DataType
from anydml.ir.expressions import coordinate, number_of
from anydml.ir.plan import Loops, simplify
from anydml.ir.trees import walk, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.ir.views import View

SEGMENT = 128 * 1024
"""Bytes of a row, the target's or a source's, that one unit of work goes through."""
ACROSS = 256
"""Elements of a row that one unit goes through where a view lies across the rows: as many lines of the cache."""
AHEAD, MOST_AHEAD = 4096, 16
"""Bytes of rows to fetch that are asked for ahead, and rows at most: 16,384 rows of 1 KiB, fetched and added to, take
4.6 ms so, 5.9 with 1024 bytes and 12.6 without (one thread of an Arm Neoverse-N1)."""
FAR = 128 * 1024
"""Bytes of a source from which on its rows are asked for ahead."""
SOON, SOON_FROM = 2048, 2 * 1024 * 1024
"""Bytes ahead that lines to be written are fetched, and bytes of output from which on they are: in a second cache of
1 MiB it gains nothing."""
VECTOR = 64
"""Bytes of a vector of the widest type in a tree."""
FLOATS = [t for t in DataType if t.is_float]
MOST_WOVEN = 8
"""Targets that are written as one at most: each takes a vector, and half of a shuffle for every other."""
SHORT = 8
"""Elements of a row below which another dimension is walked along, where that has more: 500 rows of 3 sums take 5 us so
and 14 by the row, of 8 either way 10, and of 60 bytes 60 and 12."""
MOST_MOVES = 96
"""Lanes of all strided views together: each is moved for itself, and takes 1 ms to compile."""
FEW = 4
"""Lanes that vectors of short rows have at least."""
LONG_ROW = 256
"""Bytes of a row from which on it is written past the cache, where the output is large."""


def plan_map(primitive: Map) -> MapProgram | None:
    """Let each load, coordinate and fetch be a view, and walk them together for the first target's memory."""
    values, targets = primitive.values, primitive.targets
    nodes = list(walk(*values))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate", "fetch"))
    sources = [None if leaf.op == "coordinate" else primitive.sources[int(leaf.value)] for leaf in leaves]
    views = (*sources, *targets)
    widths = [1 if view is None else view.data_type.size_in_bytes for view in views]
    loops = _lengthen(simplify(_loops(leaves, sources, targets), len(leaves)), min(VECTOR // widest_of(nodes), SHORT))
    *outer, count = loops.sizes or (1,)
    if len(views) > VIEWS or len(outer) > OUTER_RANK:
        return None
    steps = [row[-1] for row in loops.strides] if loops.sizes else [1] * len(views)
    fetches = fetch_steps(nodes, dict(zip(leaves, steps, strict=False)), primitive.sources)
    along = [fetches.get(leaf, step) for leaf, step in zip(leaves, steps, strict=False)]
    letters, number = _letters(leaves, along, sources), math.prod(outer)
    woven = _woven(loops, targets)
    rows = "".join((*letters, *("w" if woven > 1 else row_letter(step) for step in steps[len(leaves) :])))
    is_across, weight = bool(outer) and "s" in rows, min(1 + len(nodes) // 8, 16)
    length = ACROSS if is_across else max(SEGMENT // max(widths) // weight // VECTOR, 1) * VECTOR
    body = body_of(values, leaves, rows)
    lanes = lanes_of(body, widest_of(body), rows, count if outer else VECTOR)
    soon = _soon(loops, targets, rows[len(leaves) :], woven)
    numbers = [*(word_of(node) for node in givens(nodes)), *soon]
    for leaf, source, width in zip(leaves, sources, widths, strict=False):
        if leaf.op == "fetch" and source is not None:
            numbers += [(fetches[leaf] or 0) * width, *(stride * width for stride in source.strides)]
    shape = Shape(leaves, rows, lanes, len(targets) == 1 and _streams(loops, widths[-1]), woven=woven, soon=bool(soon))
    if outer and len(views) < VIEWS and _comes_from_far(shape, sources):
        # The number of a row is one view more, by which those ahead are known to be there.
        first = len(leaves)
        numbers += _words_ahead(loops, widths, first)
        place = (*[0] * (len(outer) - 1), 1, 0)
        loops = Loops(
            loops.sizes,
            (*loops.strides[:first], place, *loops.strides[first:]),
            (*loops.offsets[:first], 0, *loops.offsets[first:]),
        )
        views, widths[first:first], steps[first:first] = (*sources, None, *targets), [1], [0]
        shape = shape._replace(leaves=(*leaves, coordinate(-1)), rows=f"{rows[:first]}r{rows[first:]}", ahead=True)
    table = [
        word
        for k, size in enumerate(outer)
        for word in (size, *(row[k] * width for row, width in zip(loops.strides, widths, strict=True)))
    ]
    get_kernel("rows", make_rows)
    return MapProgram(
        row_kernel(values, shape),
        tuple("" if view is None else view.tensor for view in views),
        tuple(offset * width for offset, width in zip(loops.offsets, widths, strict=True)),
        (len(views), HEADER + FIXED + 2 * len(views) + len(numbers), count, number, length, len(outer)),
        (*(step * width for step, width in zip(steps, widths, strict=True)), *numbers, *table),
        number * -(-count // length) if all(primitive.sizes) else 0,
        loops.count * sum(widths) * weight,
        widths[-1] if shape.stream and not outer else 0,
    )


def _woven(loops: Loops, targets: Sequence[View]) -> int:
    """How many targets, one after the other, have their elements in turn; 1 where they lie otherwise.

    Enlarged images do, and random numbers: 1M words of counters take 2.5 ms in place of 2.7.
    """
    strides, offsets = loops.strides[-len(targets) :], loops.offsets[-len(targets) :]
    number = strides[0][-1] if loops.sizes else 1
    if not 2 <= number <= MOST_WOVEN or len(targets) % number or any(row != strides[0] for row in strides):
        return 1
    for k, (one, offset) in enumerate(zip(targets, offsets, strict=True)):
        first = k - k % number
        if offset != offsets[first] + k % number or one.data_type is not targets[0].data_type:
            return 1
        if one.tensor != targets[first].tensor:
            return 1
    return int(number)


def _soon(loops: Loops, targets: Sequence[View], letters: str, woven: int) -> list[int]:
    """How many bytes ahead lines are fetched for each target, or for several in turn; none where they are not.

    A short row's end does not tell where the next row begins, and that is fetched. An image enlarged by 2.5 to 20 MB
    takes 2.5 ms so, and 4.9 without; long rows take 0.85 to 1.0 of their time (one thread of a Xeon).
    """
    strides, widths = loops.strides[-len(targets) :], [target.data_type.size_in_bytes for target in targets]
    if IS_ARM or "s" in letters or not loops.sizes or loops.count * sum(widths) < SOON_FROM:
        return []
    is_long = len(loops.sizes) == 1 or loops.sizes[-1] * widths[0] * woven > 2 * SOON
    return [SOON if is_long else row[-2] * width for row, width in list(zip(strides, widths, strict=True))[::woven]]


def _comes_from_far(shape: Shape, sources: Sequence[View | None]) -> bool:
    """Whether rows are fetched from more than the cache holds."""
    leaves = zip(shape.leaves, shape.rows, sources, strict=False)
    found = [source for leaf, row, source in leaves if leaf.op == "fetch" and row == "p" and source is not None]
    return any(math.prod(source.sizes) * source.data_type.size_in_bytes >= FAR for source in found)


def _words_ahead(loops: Loops, widths: Sequence[int], sources: int) -> list[int]:
    """How many rows there are, how many ahead is asked for, how many lines of each; each source's stride onward."""
    size = loops.sizes[-1] * widths[-1]
    strides = (row[-2] * width for row, width in zip(loops.strides[:sources], widths, strict=False))
    return [loops.sizes[-2], max(min(AHEAD // size, MOST_AHEAD), 1), min(-(-size // LINE), AHEAD // LINE), *strides, 1]


def _loops(leaves: tuple[Expr, ...], sources: list[View | None], targets: Sequence[View]) -> Loops:
    """The walk over all views; a coordinate's elements lie one on for each step in its dimension.

    What is fetched from stays where it is.
    """
    rank = len(targets[0].sizes)
    strides = [
        tuple(int(k == leaf.value) for k in range(rank))
        if view is None
        else (0,) * rank
        if leaf.op == "fetch"
        else view.strides
        for leaf, view in zip(leaves, sources, strict=True)
    ]
    offsets = [0 if view is None else view.offset for view in sources]
    last, ends = [target.strides for target in targets], [target.offset for target in targets]
    return Loops(targets[0].sizes, (*strides, *last), (*offsets, *ends))


def _letters(leaves: Sequence[Expr], along: Sequence[int | None], sources: Sequence[View | None]) -> list[str]:
    """How the rows of leaves lie; of fetches from anywhere, whether that is along a packed dimension."""
    letters: dict[Expr, str] = {}
    every: dict[int | None, str] = {step: letter for letter, step in EVERY.items()}
    for leaf, step, source in zip(leaves, along, sources, strict=True):
        letters[leaf] = every.get(step, row_letter(step)) if leaf.op == "load" else row_letter(step)
        if step is None and source is not None:
            moved = moving(leaf, letters)
            letters[leaf] = "g" if [source.strides[k] for k in moved] == [1] else "a"
    return [letters[leaf] for leaf in leaves]


def row_letter(step: int | None) -> str:
    """How a view's row lies, as kernels name it."""
    return {None: "a", 0: "r", 1: "p"}.get(step, "s")


def widest_of(nodes: Sequence[Expr]) -> int:
    """Bytes of the widest type that is computed with."""
    return max(1 if node.type is None else node.type.size_in_bytes for node in nodes)


def lanes_of(nodes: Iterable[Expr], widest: int, rows: str, count: int) -> int:
    """The lanes of vectors: fewer where each is read, written or divided for itself, or rows are short."""
    by_lane = not {"s", *ANYWHERE}.isdisjoint(rows) or any(
        node.op in ("div", "rem") and node.type not in FLOATS for node in nodes
    )
    lanes = min(VECTOR // widest, 16) if by_lane else VECTOR // widest
    while lanes > FEW and (lanes > count or lanes * rows.count("s") > MOST_MOVES):
        lanes //= 2
    return lanes


def _lengthen(loops: Loops, least: int) -> Loops:
    """Walk along a dimension of so many elements at least where the innermost has fewer."""
    last = len(loops.sizes) - 1
    long = [k for k in range(last) if loops.sizes[k] >= least > loops.sizes[-1]]
    return loops.pick([k for k in range(last + 1) if k != long[-1]] + long[-1:]) if long else loops


def _streams(loops: Loops, width: int) -> bool:
    """Whether the target is written past the cache."""
    is_run = bool(loops.sizes) and loops.strides[-1][-1] == 1 and loops.sizes[-1] * width >= LONG_ROW
    return IS_ARM and is_run and loops.count * width >= STREAM_FROM


def word_of(node: Expr) -> int:
    """A number's bits, in the low bytes of a word."""
    bits = number_of(node).tobytes().ljust(8, b"\0")
    return int.from_bytes(bits, "little", signed=True)


def row_kernel(values: Sequence[Expr], shape: Shape) -> Kernel:
    """The kernel that computes a row, with a value for each target."""
    key = f"{digest(*values)} {shape.rows} {shape.lanes} {shape.stream} {shape.ahead} {shape.woven} {shape.soon}"
    name = f"map {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    return get_kernel(name, functools.partial(make_map, values, shape))


@functools.lru_cache(maxsize=256)
def digest(*values: Expr) -> str:
    """The identity of trees, without the numbers that the user chose."""
    return hashlib.sha256(write(*values, numbers=False).encode()).hexdigest()
