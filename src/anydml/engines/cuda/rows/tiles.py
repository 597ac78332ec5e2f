"""Tiles: walks of views together, cut over two dimensions, and strides and types as kernels know them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cuda.launch import ALIGNMENT
from anydml.engines.cuda.rows.tiles_kernel import Reach, Tile
from anydml.ir.loops import Loops

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.engines.cuda.device import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.enums import DataType

# Shared parts of the plans: powers of two, and strides and types as kernels know them.


MOST_ALIGNED = 16
"""Elements: a thread moves 16 bytes at most."""

FULL = 0.9
"""The part of tiles' columns that wide tiles must fill, or narrower ones are taken."""


def ceil_power(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(number - 1, 0).bit_length()


def floor_power(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (number.bit_length() - 1)


def alignment_of(strides: Iterable[int]) -> int:
    """The largest power of two, up to 16, that divides all strides."""
    common = math.gcd(MOST_ALIGNED, *strides)
    return common & -common


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


def kind_of(data_type: DataType) -> str:
    """A type as Triton names it."""
    letters = "fp" if data_type.is_float else "i" if data_type.is_signed else "u"
    return f"{letters}{8 * data_type.size_in_bytes}"


# Walks of views together, cut into tiles over two dimensions.


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
    loops: Loops, width: int, figures: Figures, *, is_scattered: bool = False, together: int = MOST_ALIGNED
) -> Tiles:
    """Cut the walk from the first view to the last, whose elements are up to `width` bytes wide.

    `is_scattered` where neighbours in the target may come from anywhere, whatever the first view's strides are;
    `together` are the most elements that a thread is to read at once.
    """
    cut = _cut(loops, (0,))
    n0, n1 = cut.counts(loops)
    most = max(figures.tile // max(width, 4), 16)
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
        inner_align=alignment_of((n0,)) if is_wide else 1,
        middle_align=alignment_of((n1,)) if cut.is_transposed and is_wide else 1,
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


def walk_of(loops: Loops, widths: Sequence[int], figures: Figures, *, is_heavy: bool = False) -> Walk:
    """Cut the walk of views that are read, and one that is written, the last.

    `widths` are bytes of an element, 0 of a coordinate. A heavy computation has more elements a thread.
    """
    *read, target = range(len(widths))
    sources = [view for view in read if widths[view]]
    cut = _cut(loops, sources)
    most = max(figures.tile // max(*widths, 4), 16)
    shape = _shape(cut, loops, most)
    if is_flat := _is_small(loops, math.prod(shape)):
        cut, shape = Cut(None, None, tuple(range(len(loops.sizes)))[::-1]), (min(most, 1024), 1)
    (n0, n1), (inner, middle) = (loops.count, 1) if is_flat else cut.counts(loops), shape
    steps = [cut.steps(row) for row in loops.strides]
    others = [cut.others(row) for row in loops.strides]
    # As in `tiles_of`, and every view as many elements at once as the target: see `ScaleProgram`.
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
        inner_align=alignment_of((n0,)) if is_wide else 1,
        middle_align=alignment_of((n1,)) if cut.is_transposed and is_wide else 1,
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
    return max(math.gcd(*(n * width for n in (loops.sizes[-1], *steps)), WIDEST), width)


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
