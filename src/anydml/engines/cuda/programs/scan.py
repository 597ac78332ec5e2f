"""Running sums and products, planned: tiles along the axis by lines across it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import triton.language as tl

from anydml.engines.cuda.kernels.scan import HEADER, scan_tiles
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.shapes import MOST_ALIGNED, alignment_of, ceil_power, fastest_first, over, warps_for
from anydml.engines.cuda.scratch import NO_WORDS, device_words
from anydml.plan import Loops, loops_of, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cuda.figures import Figures
    from anydml.primitives import Scan

ROW_TILE = 16 if IS_INTERPRETED else 1024
LONG_ROW = 8 if IS_INTERPRETED else 256
COLUMN_TILE = 4 if IS_INTERPRETED else 32
COLUMN_LINES = 8 if IS_INTERPRETED else 64
SEGMENT_TILES = 2 if IS_INTERPRETED else 4
"""Tiles that a program walks where a line takes several: small enough that all programs' stay in the L2 cache."""


class Shape(NamedTuple):
    """How a scan is cut up."""

    along: int
    across: int
    steps: int
    """Tiles that a program walks."""
    group: int
    """Programs that hand on together; 0 where one program has the whole axis."""
    is_deep: bool
    """Whether groups are of groups."""
    warps: int


@dataclass(frozen=True, slots=True)
class ScanProgram:
    """A running sum or product, planned."""

    primitive: Scan
    kernel: Kernel
    offsets: tuple[int, int]
    words: int
    """What the tiles of a chain hand on takes so many."""

    @classmethod
    def plan(cls, primitive: Scan, figures: Figures) -> ScanProgram:
        """Choose the tile by where the axis lies, and compile the kernel."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        data_type = source.data_type
        width, length = data_type.size_in_bytes, source.sizes[axis]
        steps = (source.strides[axis], target.strides[axis])
        others = loops_of(source, target).pick([k for k in range(len(source.sizes)) if k != axis])
        if primitive.reverse:
            others = _moved(others, (length - 1) * steps[0], (length - 1) * steps[1])
            steps = (-steps[0], -steps[1])
        if length == 1:
            steps = (1, 1)
        is_apart = data_type.is_float and primitive.function == "product"
        # Rows from their lowest address on, a program a row; short ones are lines like any other.
        if is_reverse := steps == (-1, -1) and length >= LONG_ROW and not is_apart:
            others = _moved(others, 1 - length, 1 - length)
            steps = (1, 1)
        lines = simplify(others, 1)
        across, line_steps = 1, (0, 0)
        if lines.sizes:
            across, line_steps = lines.sizes[-1], (lines.strides[0][-1], lines.strides[1][-1])
        is_rows = steps == (1, 1) or (line_steps != (1, 1) and abs(steps[1]) <= abs(line_steps[1]))
        is_unit = (steps if is_rows else line_steps) == (1, 1)
        outer = lines.pick(range(len(lines.sizes) - 1))
        shape = shape_of(length, across, outer.count, is_rows, is_reverse, is_apart, figures)
        programs, blocks = -(-length // (shape.along * shape.steps)), -(-across // shape.across)
        chains = blocks * outer.count
        groups = -(-programs // max(shape.group ** (1 + shape.is_deep), 1))
        sizes, sources, targets = fastest_first(outer.sizes, *outer.strides)
        aligned = [(*rows, step) for rows, step in zip((sources, targets), line_steps if is_rows else steps, strict=True)]
        # A thread moves 16 bytes of a row; of columns as many as leave each thread columns of its own.
        widest = MOST_ALIGNED if is_rows else max(shape.across // (32 * shape.warps), 1)
        source_align, target_align, count_align = (
            min(alignment_of(strides), widest) if is_unit else 1
            for strides in (*aligned, (length if is_rows else across,))
        )
        constants = {
            "ACCUMULATOR": tl.float64 if data_type.is_float else tl.int64,
            "PRODUCT": primitive.function == "product",
            "APART": is_apart,
            "EXCLUSIVE": primitive.exclusive,
            "REVERSE": is_reverse,
            "ROWS": is_rows,
            "UNIT": is_unit,
            "SOURCE_ALIGN": source_align,
            "TARGET_ALIGN": target_align,
            "COUNT_ALIGN": count_align,
            "ALONG": shape.along,
            "ACROSS": shape.across,
            "FULL": length % (shape.along * shape.steps) == 0 and across % shape.across == 0,
            "ONCE": shape.steps == 1,
            "GROUP": shape.group,
            "DEEP": shape.is_deep,
        }
        (s0, s1), (t0, t1) = (
            over(pair, align)
            for pair, align in zip(zip(steps, line_steps, strict=True), (source_align, target_align), strict=True)
        )
        sources, targets = over(sources, source_align), over(targets, target_align)
        numbers = (length, s0, t0, across, s1, t1, blocks, chains, shape.steps, programs, groups, sizes, sources, targets)
        kind = {2: "fp16", 4: "fp32"}[width] if data_type.is_float else f"u{8 * width}"
        kernel = Kernel(scan_tiles, (kind, kind, "i64"), numbers, constants, chains * programs, shape.warps, figures)
        kernel.prepare()
        slots = chains * groups * shape.group * (1 + shape.group * shape.is_deep)
        words = HEADER.value + slots * 2 * shape.across
        return cls(primitive, kernel, (lines.offsets[0] * width, lines.offsets[1] * width), words)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; tiles that hand on get words of their own."""
        source = places[self.primitive.source.tensor] + self.offsets[0]
        target = places[self.primitive.target.tensor] + self.offsets[1]
        if not self.kernel.constants["GROUP"]:
            return self.kernel.launch((source, target, NO_WORDS))
        words, kept = device_words(self.words, self.kernel.figures.index)
        start = self.kernel.launch((source, target, words))

        def dispatch(_kept: object = kept) -> None:
            start()

        return dispatch


def _moved(loops: Loops, *steps: int) -> Loops:
    return Loops(loops.sizes, loops.strides, tuple(o + s for o, s in zip(loops.offsets, steps, strict=True)))


def shape_of(
    length: int, across: int, outer: int, is_rows: bool, is_reverse: bool, is_apart: bool, figures: Figures
) -> Shape:
    """Tiles that leave every multiprocessor several to work on."""
    if is_rows:
        along = min(ceil_power(length), ROW_TILE)
        lines = 1 if is_reverse else min(ceil_power(across), ROW_TILE // along)
    else:
        lines = min(ceil_power(across), COLUMN_LINES)
        along = min(ceil_power(length), COLUMN_TILE)
    tiles, chains = -(-length // along), -(-across // lines) * outer
    if tiles == 1:
        return Shape(along, lines, 1, 0, False, 1)
    if is_apart or chains >= (8 if is_rows else 3) * figures.multiprocessors:
        return Shape(along, lines, tiles, 0, False, 1)
    steps = min(tiles, SEGMENT_TILES)
    programs = -(-tiles // steps)
    group = 2 if IS_INTERPRETED else 16
    return Shape(along, lines, steps, group, programs > group * group, 1)
