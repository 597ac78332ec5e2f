"""Strided copies, planned: tiles over two dimensions, of words as wide as the layout allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.kernels.copy import copy_flat, copy_tiles
from anydml.engines.cuda.launch import Kernel
from anydml.engines.cuda.programs.shapes import (
    alignment_of,
    ceil_power,
    fastest_first,
    floor_power,
    over,
    step_of,
    warps_for,
)
from anydml.plan import Loops, loops_of, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.primitives import StridedCopy

WIDEST = 8
"""Bytes of the widest word that elements are moved in together."""
SMALL_TILE = 512
"""Elements below which a tile is not worth a program, and elements are counted one by one."""


@dataclass(frozen=True, slots=True)
class CopyProgram:
    """A strided copy, planned."""

    primitive: StridedCopy
    loops: Loops
    width: int
    figures: Figures
    kernels: dict[int, Kernel] = field(default_factory=dict, repr=False)
    """By the width of their words, made when they are first asked for."""

    @classmethod
    def plan(cls, primitive: StridedCopy, figures: Figures) -> CopyProgram:
        """Simplify, and compile the kernel for memory that is aligned."""
        loops = simplify(loops_of(primitive.source, primitive.target), 1)
        program = cls(primitive, loops, primitive.source.data_type.size_in_bytes, figures)
        program.kernel(program.widest()).prepare()
        return program

    def widest(self) -> int:
        """The widest word that rows are made of, in bytes: their length and every step are multiples of it."""
        inner = [row[-1] for row in self.loops.strides] if self.loops.sizes else []
        if inner not in ([1, 1], [-1, 1]):
            return self.width
        steps = [step for row in self.loops.strides for step in row[:-1]]
        common = math.gcd(*(n * self.width for n in (self.loops.sizes[-1], *steps)), WIDEST)
        return max(common, self.width)

    def kernel(self, word: int) -> Kernel:
        """The kernel that moves words of so many bytes."""
        if word not in self.kernels:
            self.kernels[word] = _tiles(_in_words(self.loops, word // self.width), word, self.width, self.figures)
        return self.kernels[word]

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in, and move words as wide as they allow."""
        source, target = (
            places[view.tensor] + offset * self.width
            for view, offset in zip((self.primitive.source, self.primitive.target), self.loops.offsets, strict=True)
        )
        word = self.widest()
        back = bool(self.loops.sizes) and self.loops.strides[0][-1] == -1
        while word > self.width and ((source - (word - self.width) * back) % word or target % word):
            word //= 2
        return self.kernel(word).launch((source - (word - self.width) * back, target))


def _in_words(loops: Loops, count: int) -> Loops:
    """The same walk over words of `count` elements."""
    if count == 1:
        return loops
    sizes = (*loops.sizes[:-1], loops.sizes[-1] // count)
    strides = tuple((*(step // count for step in row[:-1]), row[-1]) for row in loops.strides)
    return Loops(sizes, strides, loops.offsets)


def _tiles(loops: Loops, word: int, width: int, figures: Figures) -> Kernel:
    rank = len(loops.sizes)
    dims = list(range(rank))
    inner = dims.pop() if dims else None
    middle = None
    is_transposed = False
    if dims and inner is not None:
        middle = dims[-1]
        if abs(loops.strides[0][inner]) > 1:
            unit = [k for k in dims if abs(loops.strides[0][k]) == 1]
            middle, is_transposed = (unit[-1], True) if unit else (middle, False)
        dims.remove(middle)
    (n0, s0, t0), (n1, s1, t1) = (_dimension(loops, k) for k in (inner, middle))
    most = max(figures.tile // max(word, 4), 16)
    if is_transposed:  # squares, which both sides are wide enough of
        most *= 2
    side = floor_power(math.isqrt(most))
    inner_tile = min(ceil_power(n0), side if is_transposed else most)
    middle_tile = min(ceil_power(n1), most // inner_tile)
    pointers = (f"u{8 * word}",) * 2
    if rank > 2 and inner_tile * middle_tile < SMALL_TILE <= loops.count:
        sizes, sources, targets = fastest_first(loops.sizes, *loops.strides)
        block = min(most, 1024)
        constants: dict[str, Any] = {"LONG": loops.count >= 2**31 - block, "BLOCK": block}
        numbers: tuple[Any, ...] = (loops.count, sizes, sources, targets)
        return Kernel(
            copy_flat, pointers, numbers, constants, -(-loops.count // block), warps_for(block, 8), figures
        )  # fmt: skip
    outer = loops.pick(dims)
    sizes, sources, targets = fastest_first(outer.sizes, *outer.strides)
    blocks = (-(-n0 // inner_tile), -(-n1 // middle_tile))
    source_align = alignment_of((*sources, *(s for s in (s0, s1) if step_of(s) == 2)))
    is_wide = is_transposed or step_of(s0) in (0, 1)
    target_align = alignment_of((*targets, t1, *(t for t in (t0,) if step_of(t) == 2))) if is_wide else 1
    constants = {
        "SOURCE_MIDDLE_STEP": step_of(s1),
        "SOURCE_STEP": step_of(s0),
        "TARGET_STEP": step_of(t0),
        "SOURCE_ALIGN": source_align,
        "TARGET_ALIGN": target_align,
        # Where both sides are contiguous a thread moves 16 bytes; elsewhere neighbours do better one by one.
        "INNER_ALIGN": alignment_of((n0,)) if is_wide else 1,
        "MIDDLE_ALIGN": alignment_of((n1,)) if is_transposed else 1,
        "TURN": width if s0 == -1 else word,
        "INNER": inner_tile,
        "MIDDLE": middle_tile,
    }
    s0, s1 = over((s0, s1), source_align)
    t0, t1 = over((t0, t1), target_align)
    numbers = (
        *(n0, s0, t0, n1, s1, t1, *blocks, sizes),
        *(over(sources, source_align), over(targets, target_align)),
    )
    programs = math.prod(blocks) * outer.count
    return Kernel(copy_tiles, pointers, numbers, constants, programs, warps_for(inner_tile * middle_tile, 4), figures)


def _dimension(loops: Loops, k: int | None) -> tuple[int, int, int]:
    return (1, 0, 0) if k is None else (loops.sizes[k], loops.strides[0][k], loops.strides[1][k])
