"""Tiles: walks of views together, cut over two dimensions for the programs of a GPU, and what a kernel's compiler is to
know of strides, sizes and alignment. Planners of maps and moves cut by it, whatever language their kernels are in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydml.core.symbolic_sizes import OpenSize, gcd, is_open
from anydml.ir.loops import Loops, simplify
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View


Numbers: TypeAlias = "tuple[int | tuple[int, ...], ...]"
"""The arguments of a kernel besides addresses."""
ALIGNMENT = 16
"""Bytes that a thread moves at once, where addresses allow it."""
MOST_ALIGNED = 16
"""Elements: a thread moves 16 bytes at most."""

FULL = 0.9
"""The part of tiles' columns that wide tiles must fill, or narrower ones are taken."""


def ceil_power(number: int) -> int:
    """The smallest power of two that is not smaller."""
    if not is_open(number):
        return 1 << max(number - 1, 0).bit_length()
    power = 1
    while power < number:  # of an open size this is all that is found
        power *= 2
    return power


def floor_power(number: int) -> int:
    """The largest power of two that is not larger."""
    found = ceil_power(number)
    return found if found == number else found // 2


def alignment_of(strides: Iterable[int]) -> int:
    """The largest power of two, up to 16, that divides all strides."""
    common: int = gcd(MOST_ALIGNED, *strides)
    return common & -common


def divisor_of(size: int) -> int:
    """The same of one size; of an open one that is given nothing is known, or each length had a kernel by its own."""
    number: object = size
    if type(number) is OpenSize and number.number < number.tape.given:
        return 1
    return alignment_of((size,))


def over(strides: Iterable[int], alignment: int) -> tuple[int, ...]:
    """Strides as kernels take them, divided by their alignment."""
    return tuple(stride // alignment for stride in strides)


def step_of(stride: int) -> int:
    """A stride that the compiler is to know; 2 stands for any other."""
    return stride if stride in (0, 1, -1) else 2


def fastest_first(sizes: Sequence[int], *strides: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Dimensions as kernels count them: the fastest first, and at least one."""
    if not sizes:
        return ((1,), *((0,) for _ in strides))
    return tuple(sizes[::-1]), *(tuple(row[::-1]) for row in strides)


def warps_for(elements: int, each: int = 16) -> int:
    """As many warps as have `each` elements for a thread, 1 to 8."""
    return min(max(floor_power(max(elements // (32 * each), 1)), 1), 8)


def columns_for(count: int, most: int) -> int:
    """The columns of a tile, a power of two: the widest up to `most` that leave less than a tenth of tiles empty."""
    widest = min(ceil_power(count), most)
    several = [max(widest >> k, 1) for k in range(3)]
    return next((n for n in several if count > FULL * (-(-count // n) * n)), widest)


# Walks of views together, cut into tiles over two dimensions.


class Tile(NamedTuple):
    """The compiler's knowledge of a walk. Steps are strides of 1, 0 or -1, and 2 for any other."""

    inner: int
    """Columns of a tile."""
    middle: int = 1
    """Rows of a tile."""
    is_flat: bool = False
    """Whether elements go by their running number, for shapes whose inner dimensions are too small for a tile."""
    is_long: bool = False
    """Whether that number may pass 31 bits."""
    levels: int = 3
    """1 where there is a row alone, 2 where there are rows alone: a division less for each, of 30 instructions."""
    source_step: int = 2
    source_middle_step: int = 2
    target_step: int = 2
    source_align: int = 1
    target_align: int = 1
    inner_align: int = 1
    middle_align: int = 1


class Reach(NamedTuple):
    """The compiler's knowledge of one view of a walk."""

    step: int = 2
    middle_step: int = 2
    align: int = 1


SMALL_TILE = 512
"""Elements below which a tile is not worth a program, and elements are counted one by one."""
WIDEST = 8
"""Bytes of the widest word that elements are moved in together."""


class Cut(NamedTuple):
    """The dimensions that a tile lies over, and the others, the fastest first."""

    inner: int | None
    middle: int | None
    outer: tuple[int, ...]
    is_transposed: bool = False
    """Whether a source is contiguous along the middle dimension, and the target along the inner."""

    def counts(self, loops: Loops) -> tuple[int, int]:
        """The sizes of a tile's two dimensions."""
        n0, n1 = (1 if k is None else loops.sizes[k] for k in (self.inner, self.middle))
        return n0, n1

    def steps(self, row: Sequence[int]) -> tuple[int, int]:
        """The strides of a row for a tile's two dimensions."""
        return 0 if self.inner is None else row[self.inner], 0 if self.middle is None else row[self.middle]

    def others(self, row: Sequence[int]) -> tuple[int, ...]:
        """The strides of a row for the dimensions outside a tile; kernels want one at least."""
        return tuple(row[k] for k in self.outer) or (0,)


@dataclass(frozen=True, slots=True)
class Tiles:
    """A walk as kernels take it."""

    cut: Cut
    tile: Tile
    numbers: Numbers
    programs: int
    warps: int


def tiles_of(
    loops: Loops, width: int, tile_bytes: int, *, is_scattered: bool = False, together: int = MOST_ALIGNED
) -> Tiles:
    """Cut the walk from the first view to the last, whose elements are up to `width` bytes wide.

    `is_scattered` where neighbours in the target may come from anywhere, whatever the first view's strides are;
    `together` are the most elements that a thread is to read at once.
    """
    cut = _cut(loops, (0,))
    n0, n1 = cut.counts(loops)
    most = max(tile_bytes // max(width, 4), 16)
    inner, middle = _shape(cut, loops, most)
    if _is_small(loops, inner * middle):
        return _flat(loops, min(most, 1024))
    sources, targets = loops.strides[0], loops.strides[-1]
    (s0, s1), (t0, t1) = cut.steps(sources), cut.steps(targets)
    outer_sources, outer_targets = cut.others(sources), cut.others(targets)
    source_align = min(alignment_of((*outer_sources, *(s for s in (s0, s1) if step_of(s) == 2))), together)
    # Where both sides are contiguous a thread moves 16 bytes; elsewhere neighbours do better one by one.
    is_wide = not is_scattered and (cut.is_transposed or step_of(s0) in (0, 1))
    target_align = alignment_of((*outer_targets, t1, *(t for t in (t0,) if step_of(t) == 2))) if is_wide else 1
    tile = Tile(
        inner=inner,
        middle=middle,
        source_step=step_of(s0),
        source_middle_step=step_of(s1),
        target_step=step_of(t0),
        source_align=source_align,
        target_align=target_align,
        inner_align=divisor_of(n0) if is_wide else 1,
        middle_align=divisor_of(n1) if cut.is_transposed and is_wide else 1,
    )
    s0, s1 = over((s0, s1), source_align)
    t0, t1 = over((t0, t1), target_align)
    blocks = (-(-n0 // inner), -(-n1 // middle))
    sizes = tuple(loops.sizes[k] for k in cut.outer)
    strides = (over(outer_sources, source_align), over(outer_targets, target_align))
    numbers = ((n0, s0, t0), (n1, s1, t1), blocks, sizes or (1,), *strides)
    return Tiles(cut, tile, numbers, math.prod(blocks) * math.prod(sizes), warps_for(inner * middle, 4))


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk of any number of views as generated kernels take it."""

    tile: Tile
    reaches: tuple[Reach, ...]
    """By view."""
    numbers: Numbers
    """The sizes of a tile's two dimensions, its blocks, the other sizes; by view both steps and the other strides."""
    programs: int
    warps: int


def walk_of(loops: Loops, widths: Sequence[int], tile_bytes: int, *, is_heavy: bool = False) -> Walk:
    """Cut the walk of views that are read, and one that is written, the last.

    `widths` are bytes of an element, 0 of a coordinate. A heavy computation has more elements a thread.
    """
    *read, target = range(len(widths))
    sources = [view for view in read if widths[view]]
    cut = _cut(loops, sources)
    most = max(tile_bytes // max(*widths, 4), 16)
    shape = _shape(cut, loops, most)
    if is_flat := _is_small(loops, math.prod(shape)):
        cut, shape = Cut(None, None, tuple(range(len(loops.sizes)))[::-1]), (min(most, 1024), 1)
    (n0, n1), (inner, middle) = (loops.count, 1) if is_flat else cut.counts(loops), shape
    steps = [cut.steps(row) for row in loops.strides]
    others = [cut.others(row) for row in loops.strides]
    # As in `tiles_of`, and every view as many elements at once as the target: more would go through shared memory.
    is_wide = not is_flat and (cut.is_transposed or all(step_of(steps[view][0]) in (0, 1) for view in sources))
    aligns = []
    for view, width in enumerate(widths):
        unknown = [step for step in steps[view] if step_of(step) == 2]
        together = ALIGNMENT // widths[target] if width < widths[target] else MOST_ALIGNED
        first = () if width else (loops.offsets[view],)  # of a coordinate, which may be an index
        aligns.append(min(alignment_of((*others[view], *unknown, *first)), together) if is_wide else 1)
    # What is added to a pointer for the other dimensions, be it 0, is what tells the compiler of `together`.
    is_mixed = any(0 < width < widths[target] for width in widths)
    tile = Tile(
        inner=inner,
        middle=middle,
        is_flat=is_flat,
        levels=3 if cut.outer or is_mixed else 1 if cut.middle is None else 2,
        is_long=is_flat and loops.count >= 2**31 - inner,
        inner_align=divisor_of(n0) if is_wide else 1,
        middle_align=divisor_of(n1) if cut.is_transposed and is_wide else 1,
    )
    views = list(zip(steps, others, aligns, strict=True))
    reaches = tuple(Reach(step_of(s0), step_of(s1), align) for (s0, s1), _, align in views)
    blocks = (-(-n0 // inner), -(-n1 // middle))
    sizes = cut.others(loops.sizes) if cut.outer else (1,)
    rows = [over(row, align) for pair, other, align in views for row in (pair, other)]
    programs = math.prod(blocks) * (1 if is_flat else math.prod(sizes))
    warps = warps_for(inner * middle, 16 if is_heavy else 8 if is_flat else 4)
    return Walk(tile, reaches, ((n0, n1), blocks, sizes, *rows), programs, warps)


def _cut(loops: Loops, sources: Sequence[int]) -> Cut:
    dims = list(range(len(loops.sizes)))
    if not dims:
        return Cut(None, None, ())
    inner = dims.pop()
    if not dims:
        return Cut(inner, None, ())
    strided = [loops.strides[source] for source in sources if abs(loops.strides[source][inner]) > 1]
    unit = [k for k in dims if any(abs(row[k]) == 1 for row in strided)]
    middle = unit[-1] if unit else dims[-1]
    dims.remove(middle)
    return Cut(inner, middle, tuple(dims[::-1]), bool(unit))


def _shape(cut: Cut, loops: Loops, most: int) -> tuple[int, int]:
    """The columns and rows of a tile of at most so many elements, or of twice as many where it is a square."""
    n0, n1 = cut.counts(loops)
    if cut.is_transposed:  # squares, which both sides are wide enough of
        most *= 2
    inner = min(ceil_power(n0), floor_power(math.isqrt(most)) if cut.is_transposed else most)
    return inner, min(ceil_power(n1), most // inner)


def _is_small(loops: Loops, elements: int) -> bool:
    """Whether a tile is so small, for want of long dimensions, that elements are counted one by one."""
    return len(loops.sizes) > 2 and elements < SMALL_TILE <= loops.count


def _flat(loops: Loops, block: int) -> Tiles:
    cut = Cut(None, None, tuple(range(len(loops.sizes)))[::-1])
    tile = Tile(inner=block, is_flat=True, is_long=loops.count >= 2**31 - block)
    programs = -(-loops.count // block)
    rows = (loops.sizes, loops.strides[0], loops.strides[-1])
    numbers = ((loops.count, 0, 0), (1, 0, 0), (programs, 1), *(cut.others(row) for row in rows))
    return Tiles(cut, tile, numbers, programs, warps_for(block, 8))


def widest_word(loops: Loops, width: int, *views: int) -> int:
    """The widest word that the rows of some views are made of, in bytes: their length and every step are multiples."""
    rows = [loops.strides[view] for view in views]
    if not loops.sizes or any(abs(row[-1]) != 1 for row in rows):
        return width
    steps = [step for row in rows for step in row[:-1]]
    common: int = gcd(*(n * width for n in (loops.sizes[-1], *steps)), WIDEST)
    return max(common, width)


def in_words(loops: Loops, count: int, *views: int) -> Loops:
    """The same walk over words of `count` elements of some views; the others' do not change within a word."""
    if count == 1:
        return loops
    sizes = (*loops.sizes[:-1], loops.sizes[-1] // count)
    strides = tuple(
        (*(step // count for step in row[:-1]), row[-1]) if view in views else row
        for view, row in enumerate(loops.strides)
    )
    return Loops(sizes, strides, loops.offsets)


# Rows and what lies along them, walked each for itself: reduces.


def leaves_of(*values: Expr) -> list[list[Expr]]:
    """The loads, the coordinates and the user's numbers of trees."""
    nodes = list(walk(*values))
    return [[node for node in nodes if node.op == op] for op in ("load", "coordinate", "given")]


@dataclass(frozen=True, slots=True)
class RowWalk:
    """A reduce's views, walked together: the rows' places, then those along a row."""

    rows: Loops
    along: Loops
    views: tuple[View, ...]
    """The views that are read, by load, and the targets."""
    leaves: tuple[Expr, ...]
    """The loads and the coordinates."""

    @property
    def loads(self) -> int:
        """How many of the views are read."""
        return sum(leaf.op == "load" for leaf in self.leaves)

    @property
    def is_across(self) -> bool:
        """Whether the neighbours in memory are of different rows: columns."""
        along, rows = ([row[-1] if row else 0 for row in of.strides[: self.loads]] for of in (self.along, self.rows))
        return any(abs(step) == 1 for step in rows) and not any(abs(step) == 1 for step in along)

    def spans(self, leaf: Expr) -> tuple[bool, bool]:
        """Whether a leaf varies from row to row, and along a row."""
        view = self.leaves.index(leaf)
        return any(self.rows.strides[view]), any(self.along.strides[view])


def row_walk_of(primitive: Reduce, values: Sequence[Expr]) -> RowWalk:
    """Simplify the rows and what is along them, each for itself; the largest source leads."""
    loads, coordinates, _ = leaves_of(*values)
    read = [primitive.sources[int(node.value)] for node in loads]
    sizes, kept = primitive.sizes, len(primitive.sizes) - primitive.depth
    targets = primitive.targets
    none = (0,) * primitive.depth
    written = [(*t.strides[:kept], *none) if primitive.has_rows(t) else t.strides for t in targets]
    # A coordinate is a view of its own numbers: 0 at first, 1 a step along its dimension, 0 along the others.
    counted = [tuple(int(k == node.value) for k in range(len(sizes))) for node in coordinates]
    strides = (*(view.strides for view in read), *counted, *written)
    offsets = (*(view.offset for view in read), *(0 for _ in counted), *(target.offset for target in targets))
    lead = max(range(len(read)), key=lambda v: _elements(read[v]), default=len(strides) - len(targets))
    along = simplify(Loops(sizes[kept:], tuple(row[kept:] for row in strides), offsets), lead)
    rows = simplify(Loops(sizes[:kept], tuple(row[:kept] for row in strides), along.offsets), lead)
    return RowWalk(rows, along, (*read, *targets), (*loads, *coordinates))


def _elements(view: View) -> int:
    return math.prod(size for size, stride in zip(view.sizes, view.strides, strict=True) if stride)
