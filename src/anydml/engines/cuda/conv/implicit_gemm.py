"""Convolution as implicit GEMM: operand modes and layouts (NHWC, few channels together with their line), tile shapes by
size (the best of an H200), and what is computed of each sum.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.common.tiles import ALIGNMENT, alignment_of, ceil_power, over, step_of
from anydml.engines.cuda.codegen.expressions import bounded
from anydml.engines.cuda.conv.implicit_gemm_emit import Ranks, emit_window, names_of
from anydml.engines.cuda.conv.implicit_gemm_kernel import Window
from anydml.engines.cuda.launch import IS_INTERPRETED, Bases, Block, Kernel, bases_of, kind_of
from anydml.engines.cuda.prepared import Prepared
from anydml.engines.cuda.schedules import MOST_TAPS
from anydml.enums import DataType
from anydml.ir.expressions import Expr, const, coordinate
from anydml.ir.numerics import expand
from anydml.ir.padded_reads import reach
from anydml.ir.patterns import copy_of
from anydml.ir.trees import walk as walk_nodes
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.ir.windows import Walked, walk_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.common.tiles import Numbers
    from anydml.engines.cuda.conv.implicit_gemm_emit import Way
    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Reduce
    from anydml.ir.windows import Axis, WindowWalk

# How the factors of a convolution are laid out first: channels beside one another, and few of them with their line.
#
# A copy into another order takes a few microseconds, and without it every element is read by itself. Of a picture with
# three channels a line of taps is one run of terms: with a fourth channel of zeros it is read 8 bytes at once.


PLACES, WEIGHTS = "windows by channel", "weights by tap"
"""Layouts made anew: in memory of the program's own, or for weights that never change ahead."""
FEW_CHANNELS = 16
"""Channels below which a line of taps is one run."""
LEAST_CHANNELS = 4
"""Channels of such a run, some of them zeros."""


def lay_out(walk: WindowWalk) -> tuple[WindowWalk, list[Map]]:
    """The walk over factors laid out anew, where they had better be, with what lays them out."""
    channels = walk.channels
    if channels is None:
        return walk, []
    if walk.run < FEW_CHANNELS:
        return _in_runs(walk, channels) or (walk, [])
    left, right = walk.left, walk.right
    made: list[Map] = []
    if left.axes[channels].stride != 1:
        order = sorted(range(len(left.axes)), key=lambda k: (k == channels, -abs(left.axes[k].stride)))
        left = left.packed(PLACES, order)
        made.append(copy_of(walk.left.view, left.view))
    if right.stride(walk.inner) != 1:
        right = right.packed(WEIGHTS, _order(walk))
        made.append(copy_of(walk.right.view, right.view))
    return replace(walk, left=left, right=right), made


def _order(walk: WindowWalk) -> list[int]:
    """The axes of weights: by group, channel of the result and tap, the channels last."""
    every = [*walk.found.batch, *walk.found.columns, *walk.taps[::-1], walk.inner]

    def rank(axis: int) -> int:
        return min((every.index(k) for k in walk.right.axes[axis].steps), default=-1)

    return sorted(range(len(walk.right.axes)), key=rank)


def _in_runs(walk: WindowWalk, channels: int) -> tuple[WindowWalk, list[Map]] | None:
    """A line of taps as one run of terms; None where the taps of a line do not follow one another."""
    own = [k for k, axis in enumerate(walk.left.axes) if walk.taps and walk.taps[0] in axis.steps]
    if walk.found.batch or len(own) != 1 or walk.left.axes[own[0]].steps[walk.taps[0]] != 1:
        return None
    tap, width = walk.taps[0], ceil_power(max(walk.run, LEAST_CHANNELS))
    last = (own[0], channels)
    others = [k for k in range(len(walk.left.axes)) if k not in last]
    order = [*sorted(others, key=lambda k: -abs(walk.left.axes[k].stride)), *last]
    left, lines = _roomy(walk, walk.left, order, PLACES, width)
    every = _order(walk)
    right, weights = _roomy(walk, walk.right, every, WEIGHTS, width)
    if set(walk.right.axes[every[-1]].steps) != {walk.inner} or tap not in walk.right.axes[every[-2]].steps:
        return None
    run = width * walk.found.sizes[tap]
    return replace(walk, left=left, right=right, taps=walk.taps[1:], run=run), [lines, weights]


def _roomy(walk: WindowWalk, of: Walked, order: Sequence[int], name: str, width: int) -> tuple[Walked, Map]:
    """A factor in memory of its own, with zeros where indices lie outside, and so many channels."""
    axes: list[Axis] = []
    firsts: list[int] = []
    for axis in of.axes:
        reaches = [(walk.found.sizes[k] - 1) * step for k, step in axis.steps.items()]
        low, high = (axis.first + sum(limit(far, 0) for far in reaches) for limit in (min, max))
        size = width if walk.inner in axis.steps else high - low + 1
        axes.append(axis._replace(size=size, first=axis.first - low, is_limited=False))
        firsts.append(low)
    packed = Walked("", of.kind, 0, tuple(axes)).packed(name, order)
    indices: list[Expr] = []
    limits: list[int | None] = []
    for k, axis in enumerate(of.axes):
        place, low = coordinate(order.index(k)), firsts[k]
        indices.append(place + low if low else place)
        limits.append(None if low >= 0 and low + axes[k].size <= axis.size else axis.size)
    value = reach(0, of.kind, indices, limits, const(0, DataType(of.kind)))
    sizes = tuple(axes[k].size for k in order)
    strides = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    return packed, Map((of.view,), View(name, of.kind, sizes, strides), value)


# How convolutions are cut into tiles: what did best on a H200.


class Shape(NamedTuple):
    """A tile's places, channels and terms, and what of a multiprocessor it takes."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    time: float = 1.0
    """Of one tile by itself: in us, of 256 channels by 3 x 3 taps."""
    more: float = 1.0
    """The part of that which a second tile on the same multiprocessor takes."""
    precision: str = "ieee"
    has_blocks: bool = False
    """Whether it is quicker where the hardware reads blocks of weights by itself."""
    beside: int = 0
    """Places beside those, with sums of their own."""

    @property
    def high(self) -> int:
        """All places."""
        return self.rows + self.beside


HALF = (
    Shape(64, 128, 128, 8, 3, 15.5, 1.35, has_blocks=True, beside=32),
    Shape(128, 128, 128, 8, 3, 19.1, 1.0, has_blocks=True),
    Shape(128, 128, 64, 8, 3, 21.0, 0.7, has_blocks=True),
    Shape(128, 64, 64, 4, 3, 13.0, 0.92),
    Shape(64, 64, 64, 4, 4, 8.8, 0.73),
    Shape(64, 64, 128, 4, 4, 8.4, 1.17),
    Shape(64, 32, 128, 4, 4, 7.6, 0.8),
    Shape(16, 64, 128, 4, 4, 7.3, 0.8, has_blocks=True),
)
"""32 pictures of 64 channels, 56 x 56, by 3 x 3 taps: 25.2 us with 4 warps, 27.0 with 8; cuDNN 25.6. Of 256 channels,
14 x 14: 18.8 us in tiles of 96 places, of which there are 132, and 20.6 in those of 128; cuDNN 17.0. The latter by 64
terms at once take 1.4 us more, and without blocks 0.8; 128 channels of 28 x 28 first take 27.0 in two rounds of the
former, and 25.0 otherwise."""
SINGLE = (
    Shape(128, 64, 32, 4, 3, 113.0, 0.78, "tf32x3"),
    Shape(64, 64, 32, 4, 4, 70.0, 0.56, "tf32x3"),
    Shape(64, 32, 32, 4, 4, 47.8, 0.6, "tf32x3"),
    Shape(16, 64, 32, 4, 4, 33.6, 0.65, "tf32x3"),
)
"""The same in FLOAT32: 105 us, with 128 columns at once 142; cuDNN 239."""
TINY = Shape(16, 16, 16, 1, 1)
"""The shape for the interpreter."""
K_STEP = 16
"""Terms at once: what the hardware multiplies."""


def shape_of(
    rows: int, columns: int, terms: int, groups: int, kind: DataType, figures: Figures, *, has_parts: bool
) -> Shape:
    """The cut that takes the least time, as far as whole rounds of tiles over all multiprocessors tell.

    `terms` are those of a tap, or all where they are walked together. With `has_parts` tiles may have places beside,
    where they fill the terms.
    """
    if IS_INTERPRETED:
        is_half = kind is DataType.FLOAT16
        beside = TINY.rows if is_half and has_parts and terms % TINY.depth == 0 else 0
        return TINY._replace(precision="ieee" if is_half else "tf32x3", beside=beside)

    def time(shape: Shape) -> float:
        tiles = -(-rows // shape.high) * -(-columns // shape.columns) * groups
        rounds = -(-tiles // figures.multiprocessors)
        depth = _depth(shape, terms)
        return shape.time * (1 + shape.more * (rounds - 1)) * (-(-terms // depth) * depth)

    shapes = HALF if kind is DataType.FLOAT16 else SINGLE
    fit = (shape for shape in shapes if not shape.beside or (has_parts and terms % _depth(shape, terms) == 0))
    best = min(fit, key=time)
    return best._replace(depth=_depth(best, terms))


def _depth(shape: Shape, terms: int) -> int:
    """The terms at once, where there are few."""
    depth = shape.depth
    while depth > K_STEP and terms <= depth // 2:
        depth //= 2
    return depth


# Convolutions, planned: how factors are brought, by which tiles they are multiplied, and what comes of each sum.


FEW_PRODUCTS = 32
"""Products of a place and a tap below which taps are walked together: a tile of the hardware's would be empty."""
ARCHITECTURE = 90
"""From which on the hardware reads blocks by itself."""
SHORT = 64
"""Places of one line below which products of matrices leave places to this."""


class WindowProgram(Prepared):
    """A convolution, planned."""

    __slots__ = ()

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures, constants: frozenset[str]) -> WindowProgram | None:
        """For sums over windows, of FLOAT32 and FLOAT16; None for others, and for what is a product of matrices."""
        primitive = replace(primitive, value=expand(primitive.value))
        walk = walk_of(primitive)
        if walk is None or not _is_ours(walk):
            return None
        primitive = replace(primitive, value=_bounded(primitive.value, walk.found.fold))
        walk, laid_out = lay_out(walk)
        kernel, bases = _kernel(primitive, walk, figures, has_blocks=True)
        is_read_so = any(isinstance(pointer, Block) for pointer in kernel.pointers)
        otherwise = (lambda: _kernel(primitive, walk, figures)[0]) if is_read_so else None
        return cls.of(kernel, bases, laid_out, primitive.sources, constants, otherwise)


def _is_ours(walk: WindowWalk) -> bool:
    """Whether it is no product of matrices: windows overlap, reach outside, or lie apart, a few places to a line."""
    left, sizes = walk.left, walk.found.sizes
    _, columns, terms = walk.shape
    if walk.groups > 1 and columns * walk.run < FEW_PRODUCTS and terms <= MOST_TAPS:
        return False
    if left.limits or walk.taps:
        return True
    run = sizes[walk.rows[0]]
    for fast, slow in zip(walk.rows, walk.rows[1:], strict=False):
        if left.stride(slow) != left.stride(fast) * sizes[fast]:
            return run < SHORT
        run *= sizes[slow]
    return False


def _bounded(value: Expr, fold: Expr) -> Expr:
    """A tree with what the hardware has one instruction for, but within the sum."""
    made = {fold: fold}
    for node in walk_nodes(value, known=(fold,)):
        made[node] = bounded(Expr(node.op, node.type, tuple(made[arg] for arg in node.args), node.value))
    return made[value]


def _block(walk: WindowWalk, shape: Shape, figures: Figures) -> Block | None:
    """The right factor as lines of terms, of which the hardware reads blocks by itself; None where it is none."""
    right, width = walk.right, walk.kind.size_in_bytes
    _, columns, terms = walk.shape
    stride = right.stride(walk.found.columns[0]) if walk.found.columns else 0
    apart = right.stride(walk.found.batch[0]) if walk.found.batch else 0
    if IS_INTERPRETED or figures.target.arch < ARCHITECTURE or walk.run % shape.depth or right.stride(walk.inner) != 1:
        return None
    run = walk.run
    for tap in walk.taps:
        if right.stride(tap) != run and walk.found.sizes[tap] > 1:
            return None
        run *= walk.found.sizes[tap]
    if stride < terms or stride * width % ALIGNMENT or apart % stride or apart < 0:
        return None
    lines = apart // stride * (walk.groups - 1) + columns
    return Block(kind_of(walk.kind), (lines, terms), stride, (shape.columns, shape.depth))


def _kernel(primitive: Reduce, walk: WindowWalk, figures: Figures, *, has_blocks: bool = False) -> tuple[Kernel, Bases]:
    found, left, right = walk.found, walk.left, walk.right
    sizes, inner = found.sizes, walk.inner
    column, group = (of[0] if of else None for of in (found.columns, found.batch))
    limits = left.limits
    is_few = walk.run < K_STEP or any(inner in axis.steps for axis in limits)
    rows, columns, terms = walk.shape
    channels = walk.run
    loads = [node for node in walk_nodes(primitive.value, known=(found.fold,)) if node.op == "load"]
    common = rows, columns, terms if is_few else channels, walk.groups, walk.kind, figures
    # ResNet-50 with a batch of 32, whose sums have biases added, took 1.35 ms with parts and 1.33 without on a H200.
    shape = shape_of(*common, has_parts=not is_few and not loads)
    if shape.beside and not IS_INTERPRETED and (not has_blocks or _block(walk, shape, figures) is None):
        shape = shape_of(*common, has_parts=False)
    target = primitive.target
    is_turned = column is not None and abs(target.strides[column]) != 1 and abs(target.strides[walk.rows[0]]) == 1
    ranks = Ranks(len(walk.rows), len(walk.taps), len(limits))
    names = names_of(walk.rows, found.columns, found.batch)
    views = [primitive.sources[int(node.value)] for node in loads]
    lines = [_line(view, walk) for view in (*views, target)]
    block = _block(walk, shape, figures) if has_blocks and shape.has_blocks and not is_few else None
    way: Way = "terms" if is_few else "taps"
    made = emit_window(
        primitive.value, found.fold, way, ranks, names, lines, is_turned, block is not None, shape.beside > 0
    )

    def along(of: Walked, dimension: int | None) -> int:
        return 0 if dimension is None else of.stride(dimension)

    def tuple_of(strides: Sequence[int], align: int) -> tuple[int, ...]:
        return over(strides, align) or (0,)

    left_rows, left_taps = ([left.stride(k) for k in of] for of in (walk.rows, walk.taps))
    left_more = [left.stride(inner), along(left, group)]
    right_taps = [right.stride(k) for k in walk.taps]
    right_more = [right.stride(inner), along(right, column), along(right, group)]
    left_step, right_step, right_inner = step_of(left_more[0]), step_of(right_more[1]), step_of(right_more[0])
    steps_matter = not is_few
    left_align = alignment_of([*left_rows, *left_taps, *(left_more if left_step == 2 or is_few else left_more[1:])])
    known = {0} if right_inner != 2 and steps_matter else set[int]()
    known |= {1} if right_step != 2 else set()
    right_align = alignment_of([*right_taps, *(stride for k, stride in enumerate(right_more) if k not in known)])
    if block is not None:
        right_more, right_align = [0, 0, right_more[2] // block.stride], 1
    aligns, steps, numbers = [left_align, right_align], [left_step, right_step], list[tuple[int, ...]]()
    for view in (*views, target):
        own = [view.strides[k] for k in walk.rows]
        more = [view.strides[k] if k is not None else 0 for k in (column, group)]
        step = step_of(more[0])
        aligns.append(1 if lines[len(aligns) - 2] > 1 else alignment_of([*own, *(more if step == 2 else more[1:])]))
        steps.append(step)
        numbers += [over(own, aligns[-1]), over(more, aligns[-1])]
    bounds = []
    for axis in limits:
        bounds += [
            tuple(axis.steps.get(k, 0) for k in walk.rows),
            tuple(axis.steps.get(k, 0) for k in walk.taps) or (0,),
            (axis.first, axis.steps.get(inner, 0), axis.size),
        ]
    blocks = -(-channels // shape.depth)
    tile = Window(
        rows=shape.rows,
        columns=shape.columns,
        depth=shape.depth,
        blocks=blocks,
        taps=tuple(sizes[k] for k in walk.taps),
        precision=shape.precision,
        aligns=tuple(aligns),
        steps=tuple(steps),
        inner=right_inner,
        align=alignment_of((channels,)),
        wide=min(alignment_of((columns,)), shape.columns),
        high=min(alignment_of((rows,)), shape.rows),
        is_even=channels % shape.depth == 0,
        is_filled=columns % shape.columns == 0,
        is_long=max(left.reach, right.reach, *(_reach(view.sizes, view.strides) for view in (*views, target))) >= 2**31,
        beside=shape.beside,
    )
    high = -(-rows // shape.high)
    count = -(-terms // shape.depth) if is_few else blocks * found.count(walk.taps)
    fixed: Numbers = (
        (rows, columns, channels, count, terms, high),
        tuple(sizes[k] for k in walk.rows),
        over(left_rows, left_align), tuple_of(left_taps, left_align), over(left_more, left_align),
        tuple_of(right_taps, right_align), over(right_more, right_align),
        *bounds, *numbers, *made.numbers,
    )  # fmt: skip
    programs = high * -(-columns // shape.columns) * walk.groups
    pointers: list[str | Block] = [kind_of(walk.kind), block or kind_of(walk.kind)]
    pointers += [kind_of(view.data_type) for view in (*views, target)]
    kernel = Kernel(
        made.function, tuple(pointers), fixed, {"TILE": tile}, programs, shape.warps, figures, fuses=False,
        stages=shape.stages,
    )  # fmt: skip
    width = walk.kind.size_in_bytes
    bases = [(left.tensor, left.start * width), (right.tensor, right.start * width)]
    return kernel, (*bases, *bases_of((*views, target), [view.offset for view in (*views, target)]))


def _line(view: View, walk: WindowWalk) -> int:
    """How many places lie beside one another wherever a multiple of as many begins."""
    count = 1
    for k in walk.rows:
        if view.strides[k] != count:
            break
        count *= walk.found.sizes[k]
    strides = [view.strides[k] for k in (*walk.rows, *walk.found.columns, *walk.found.batch)]
    return alignment_of((count, *(stride for stride in strides if abs(stride) >= count))) if count > 1 else 1


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return sum(abs(stride) * size for size, stride in zip(sizes, strides, strict=True))
