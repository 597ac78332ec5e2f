"""Products of a few rows with weights of few bits, planned: the weights are read as they lie."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cuda.emit import bits_of, bounded
from anydml.engines.cuda.emit_weights import WeightsForm, emit_weights
from anydml.engines.cuda.launch import ALIGNMENT, IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.nibbles import has_nibbles, nibbles_kernel
from anydml.engines.cuda.programs.reduce import ReduceProgram
from anydml.engines.cuda.programs.shapes import ceil_power, kind_of
from anydml.ir.numerics import expand
from anydml.ir.plan import Loops, simplify
from anydml.ir.trees import rewrite, walk
from anydml.ir.weights import match_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.launch import Numbers
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Reduce
    from anydml.ir.views import View
    from anydml.ir.weights import Weights

WORD = 4
"""Bytes."""
MOST_ROWS, MOST_MULTIPLIED = 8, 16
"""Of a program, each with sums of its own: where threads multiply one by one, and where tensor cores do."""


COLUMNS = 4 if IS_INTERPRETED else 8
"""Of a program."""


def _cut(rows: int, words: int) -> tuple[int, int]:
    """Of a column, the words that threads read side by side, and how many each reads before it computes.

    1, 2, 4 and 8 rows by 4096^2 of 4 bits take 7.8, 9.2, 14.8 and 24.2 us on a H200 with FLOAT32, and 7.8, 9.1, 12.7
    and 20.7 us with FLOAT16.
    """
    threads = 8 if IS_INTERPRETED else 128 if rows <= 2 else 64
    tile = min(ceil_power(words), threads)
    return tile, min(-(-words // tile), 4 if rows == 1 else 2 if 2 < rows <= 4 else 1)


class Step(NamedTuple):
    """The compiler's knowledge of a step: the columns, and the words of each."""

    columns: int
    units: int
    block: int
    """Words that share a scale."""


@dataclass(frozen=True, slots=True)
class WeightsProgram:
    """A product, planned."""

    kernel: Kernel | None
    """None of more rows than threads multiply one by one."""
    bases: tuple[tuple[str, int], ...]
    """By pointer the tensor, the weights' first, and the offset of the first element in it, in bytes."""
    primitive: Reduce
    figures: Figures
    fast: Kernel | None = None
    """On tensor cores."""
    wide: tuple[int, ...] = ()
    """The pointers that must be multiples of 16 bytes for it."""

    @classmethod
    def plan(cls, primitive: Reduce, figures: Figures) -> WeightsProgram | None:
        """For weights of whole columns along the sum; None for others."""
        primitive = replace(primitive, value=rewrite(expand(primitive.value), bounded))
        found, value = match_weights(primitive), primitive.value
        if found is None or primitive.checks or not all(primitive.sizes):
            return None
        planned = _form(primitive, found)
        if planned is None:
            return None
        form, lefts, rests, loops, units, block = planned
        if any(node.op in ("coordinate", "fetch") for node in walk(value, known=(found.fold,))):
            return None
        given = [node for node in walk(value) if node.op == "given"]
        rows, columns = loops
        leaves = [node for node in (found.right.byte, found.right.scale, found.right.zero) if node is not None]
        leaves = [node for node in leaves if node.op == "load"]
        views = [primitive.sources[int(node.value)] for node in (*leaves, *lefts, *rests)] + [primitive.target]
        first = len(primitive.sizes) - primitive.depth
        strides: list[tuple[int, ...]] = []
        for k, view in enumerate(views):
            row, column, along = sum(rows.strides[k]), sum(columns.strides[k]), sum(view.strides[first : first + 1])
            if k == 0:
                strides.append((column // WORD, 1))
            elif k < len(leaves):
                strides.append((column, along))
            else:
                strides.append((row, along) if k < len(leaves) + len(lefts) else (row, column))
        numbers: Numbers = (columns.count, units, *strides, *map(bits_of, given))
        kinds = ["i32", *(kind_of(view.data_type) for view in views[1:])]
        kernel = None
        if form.rows <= MOST_ROWS:
            made, (tile, _) = emit_weights(value, found, lefts, rests, form), _cut(form.rows, units)
            warps, programs = max(tile // 32, 1), -(-columns.count // COLUMNS)
            constants = {"TILE": Step(COLUMNS, tile, block)}
            kernel = Kernel(made, tuple(kinds), numbers, constants, programs, warps, figures, fuses=False)
        offsets = columns.offsets
        bases = [(v.tensor, offset * v.data_type.size_in_bytes) for v, offset in zip(views, offsets, strict=True)]
        fast = None
        if len(lefts) == 1 and has_nibbles(found, form, lefts[0], strides, figures):
            fast = nibbles_kernel(primitive, found, form, (lefts[0], rests), numbers, kinds, block, figures)
        best = fast or kernel
        if best is not None:
            best.prepare()
        return cls(kernel, tuple(bases), primitive, figures, fast, (0, 1, len(leaves)))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; weights that do not begin with a word are taken apart as for any product."""
        addresses = [places[tensor] + offset for tensor, offset in self.bases]
        if self.fast is not None and not any(addresses[k] % ALIGNMENT for k in self.wide):
            return self.fast.launch(addresses)
        if addresses[0] % WORD:
            return ReduceProgram.plan(self.primitive, self.figures).bind(places)
        if self.kernel is not None:
            return self.kernel.launch(addresses)
        halves = _halves(self.primitive)
        plans = [self.plan(half, self.figures) or ReduceProgram.plan(half, self.figures) for half in halves]
        starts = [program.bind(places) for program in plans]

        def start() -> None:
            for one in starts:
                one()

        return start


def _halves(primitive: Reduce) -> list[Reduce]:
    """The same of a part of the rows, and of the others."""
    found = match_weights(primitive)
    assert found is not None  # noqa: S101 - for type checkers: it was planned
    weights = primitive.sources[int(found.right.byte.value)]
    rows = [k for k in range(len(primitive.sizes) - primitive.depth) if weights.strides[k] == 0]
    longest = max(rows, key=lambda k: primitive.sizes[k])
    middle = primitive.sizes[longest] // 2

    def part(view: View, start: int, size: int) -> View:
        sizes = (*view.sizes[:longest], size, *view.sizes[longest + 1 :])
        return replace(view, sizes=sizes, offset=view.offset + start * view.strides[longest])

    made = []
    for start, size in ((0, middle), (middle, primitive.sizes[longest] - middle)):
        sources = tuple(part(view, start, size) for view in primitive.sources)
        made.append(replace(primitive, sources=sources, target=part(primitive.target, start, size)))
    return made


def _form(
    primitive: Reduce, found: Weights
) -> tuple[WeightsForm, list[Expr], list[Expr], tuple[Loops, Loops], int, int] | None:
    """The form of the kernel, the loads of the left factor and of the rest, the walks, units, units a block."""
    right, sizes, depth = found.right, primitive.sizes, primitive.depth
    kept = len(sizes) - depth
    is_paired = right.data_type.is_half_byte
    blocks, *inner = sizes[kept:]
    length = math.prod(inner)
    each = 2 * WORD if is_paired else WORD
    if depth != 2 + is_paired or length % each or (is_paired and (inner[1] != 2 or right.half != len(sizes) - 1)):
        return None

    def along(node: Expr) -> tuple[int, ...]:
        return primitive.sources[int(node.value)].strides[kept:]

    whole = (length // 2, 1, 0) if is_paired else (length, 1)
    loads = [node for node in (right.scale, right.zero) if node is not None and node.op == "load"]
    first = int(blocks == 1)
    if along(right.byte)[first:] != whole[first:] or any(any(along(node)[1:]) for node in loads):
        return None
    nodes = list(walk(found.left))
    lefts = [node for node in nodes if node.op == "load"]
    if not lefts or any(node.op in ("coordinate", "fetch") for node in nodes):
        return None
    by_element = (length, 2, 1) if is_paired else (length, 1)
    is_by_block = [not any(along(node)[1:]) for node in lefts]
    if any(not by and along(node)[first:] != by_element[first:] for node, by in zip(lefts, is_by_block, strict=True)):
        return None
    rests = [node for node in walk(primitive.value, known=(found.fold,)) if node.op == "load"]
    views = [primitive.sources[int(node.value)] for node in (right.byte, *loads, *lefts, *rests)] + [primitive.target]
    loops = _walks(views, sizes[:kept], 1 + len(loads), len(lefts))
    if loops is None or loops[0].count > MOST_MULTIPLIED or sum(loops[1].strides[0]) % WORD:
        return None
    zero = 0.0 if right.zero is None or right.zero.op == "load" else float(right.zero.value)
    flip = 0
    if right.data_type.is_signed:  # -8 to 7 is 0 to 15 less 8
        flip, zero = (-0x77777778, zero + 8) if is_paired else (-0x7F7F7F80, zero + 128)
        if right.has_zeros:
            return None
    units = blocks * length // each
    rows = loops[0].count
    tile, times = _cut(rows, units)
    bits = 4 if is_paired else 8
    form = WeightsForm(rows, bits, flip, zero, times, units % (times * tile) == 0, tuple(is_by_block))
    return form, lefts, rests, loops, units, length // each


def _walks(views: list[View], sizes: tuple[int, ...], own: int, lefts: int) -> tuple[Loops, Loops] | None:
    """The walk of all views by row and by column, one dimension each; None where there are more."""
    wide = [k for k, size in enumerate(sizes) if size > 1]
    columns = [k for k in wide if any(view.strides[k] for view in views[:own])]
    rows = [k for k in wide if k not in columns]
    if any(view.strides[k] for view in views[own : own + lefts] for k in columns):
        return None
    offsets = tuple(view.offset for view in views)
    made = []
    for group, lead in ((rows, own), (columns, 0)):
        strides = tuple(tuple(view.strides[k] for k in group) for view in views)
        loops = simplify(Loops(tuple(sizes[k] for k in group), strides, offsets), lead)
        if len(loops.sizes) > 1:
            return None
        offsets = loops.offsets
        made.append(loops)
    return made[0], made[1]
