"""Convolutions, planned: how factors are brought, by which tiles they are multiplied, and what comes of each sum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.cuda.emit import bits_of, bounded
from anydml.engines.cuda.emit_window import Ranks, emit_window, names_of
from anydml.engines.cuda.kernels.windows import Window
from anydml.engines.cuda.launch import ALIGNMENT, IS_INTERPRETED, Block, Kernel
from anydml.engines.cuda.programs.prepared import Prepared
from anydml.engines.cuda.programs.shapes import alignment_of, kind_of, over, step_of
from anydml.engines.cuda.programs.taps import MOST
from anydml.engines.cuda.programs.window_layout import lay_out
from anydml.engines.cuda.programs.window_shapes import LEAST, shape_of
from anydml.engines.cuda.programs.window_walk import walk_of
from anydml.ir.expressions import Expr
from anydml.ir.numerics import expand
from anydml.ir.trees import walk as walk_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cuda.emit_window import Way
    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.engines.cuda.programs.prepared import Bases
    from anydml.engines.cuda.programs.window_shapes import Shape
    from anydml.engines.cuda.programs.window_walk import Walked, WindowWalk
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View

FEW = 32
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
    if walk.groups > 1 and columns * walk.run < FEW and terms <= MOST:
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
    is_few = walk.run < LEAST or any(inner in axis.steps for axis in limits)
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
    count = -(-terms // shape.depth) if is_few else blocks * walk.count(walk.taps)
    fixed: Numbers = (
        (rows, columns, channels, count, terms, high),
        tuple(sizes[k] for k in walk.rows),
        over(left_rows, left_align), tuple_of(left_taps, left_align), over(left_more, left_align),
        tuple_of(right_taps, right_align), over(right_more, right_align),
        *bounds, *numbers, *map(bits_of, made.given),
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
    bases += [(view.tensor, view.offset * view.data_type.size_in_bytes) for view in (*views, target)]
    return kernel, tuple(bases)


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
