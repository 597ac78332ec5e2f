"""Running sums and products, planned: tiles along the axis by lines across it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import triton.language as tl

from anydml.engines.common.program import Program
from anydml.engines.common.routes import Route, always, choose
from anydml.engines.common.tiles import MOST_ALIGNED, alignment_of, ceil_power, fastest_first, over
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel
from anydml.engines.cuda.move.look_back_kernel import HEADER
from anydml.engines.cuda.move.scan_kernel import CHUNK, scan_row, scan_tiles
from anydml.engines.cuda.scratch import NO_TALLIES, NO_WORDS, DeviceWords
from anydml.ir.loops import Loops, loops_of, simplify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.core.enums import DataType
    from anydml.engines.cuda.device import Figures
    from anydml.ir.verbs import Scan


MOST_IN_ROW = 4
"""Bytes of an element of which a thread can hold 16, and its float64 or int64, in registers."""
LONG_ROW = 8 if IS_INTERPRETED else 256
"""Elements from which on a row that is walked from its end has a program of its own."""
ROW_CHUNKS, ROW_GROUP = (2, 2) if IS_INTERPRETED else (256, 128)
"""Chunks in half a part of a row that many programs share, and the parts of it that hand on together."""
FEW_TILES = 2 if IS_INTERPRETED else 8
"""Tiles that a program walks alone even where there are not programs enough for the device."""


class ScanTile(NamedTuple):
    """How a scan is cut up."""

    along: int
    across: int
    pieces: int
    """Of the columns in a tile, one a warp."""
    steps: int
    """Tiles in a part, which a program walks."""
    group: int
    """Parts that hand on together; 0 where one part is the whole axis."""
    warps: int
    stages: int = 1
    """Tiles on their way into shared memory; 1 where the next one is, into registers."""


def is_shared_row(shape: ScanTile, is_run: bool, width: int) -> bool:
    """Rows of neighbours so few and so long that many programs share each, of at most 4 bytes an element."""
    return bool(shape.group) and is_run and width <= MOST_IN_ROW


def is_handed_on(shape: ScanTile, *_: object) -> bool:
    """Lines so few and so long that several programs share each."""
    return bool(shape.group)


ROWS = Route("rows with look-back", is_shared_row)
WAYS = (ROWS, Route("tiles with look-back", is_handed_on), Route("tiles", always))
"""How lines are shared out, in the order in which it is asked for."""


@dataclass(frozen=True, slots=True)
class ScanProgram(Program):
    """A running sum or product, planned."""

    primitive: Scan
    kernel: Kernel
    offsets: tuple[int, ...]
    """In bytes: in the source, in the target, and in the tallies that are handed on."""
    words: int
    """The number of words that the tiles of a chain hand on."""

    @classmethod
    def plan(cls, primitive: Scan, figures: Figures) -> ScanProgram:
        """Choose the tile by where the axis lies, and compile the kernel."""
        source, target, axis = primitive.source, primitive.target, primitive.axis
        data_type = source.data_type
        width, length = data_type.size_in_bytes, source.sizes[axis]
        steps = (source.strides[axis], target.strides[axis])
        others = loops_of(source, *primitive.targets).pick([k for k in range(len(source.sizes)) if k != axis])
        if primitive.reverse:
            others = _moved(others, (length - 1) * steps[0], (length - 1) * steps[1])
            steps = (-steps[0], -steps[1])
        if length == 1:
            steps = (1, 1)
        # A float64's exponent has nowhere to go: what leaves its range has left it.
        is_apart = data_type.is_float and width < 8 and primitive.function == "product"
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
        shape = tile_of(length, across, outer.count, width, is_rows, is_reverse, is_apart, figures)
        if choose(WAYS, shape, is_rows and is_unit, width) is ROWS:
            return cls._plan_row(primitive, lines, length, is_reverse, figures)
        parts, blocks = -(-length // (shape.along * shape.pieces * shape.steps)), -(-across // shape.across)
        chains, groups = blocks * outer.count, -(-parts // max(shape.group, 1))
        sizes, sources, targets, tallies = fastest_first(outer.sizes, *_with_tallies(outer).strides)
        aligned = [
            (*rows, step) for rows, step in zip((sources, targets), line_steps if is_rows else steps, strict=True)
        ]
        # A thread moves 16 bytes of a row; of columns as many as leave each thread columns of its own.
        widest = MOST_ALIGNED if is_rows else max(shape.across // 32, 1)
        source_align, target_align, count_align = (
            min(alignment_of(strides), widest) if is_unit else 1
            for strides in (*aligned, (length if is_rows else across,))
        )
        constants = {
            "ACCUMULATOR": tl.float64 if data_type.is_float else tl.int64, "PRODUCT": primitive.function == "product",
            "APART": is_apart, "EXCLUSIVE": primitive.exclusive, "REVERSE": is_reverse, "ROWS": is_rows,
            "UNIT": is_unit, "NEAR": shape.along * shape.pieces * max(map(abs, steps)) < 2**31,
            "SOURCE_ALIGN": source_align, "TARGET_ALIGN": target_align, "COUNT_ALIGN": count_align,
            "ALONG": shape.along, "ACROSS": shape.across, "PIECES": shape.pieces,
            "FULL": length % (shape.along * shape.pieces * shape.steps) == 0 and across % shape.across == 0,
            "ONCE": shape.steps == 1, "STAGES": shape.stages, "GROUP": shape.group, **_ends_of(primitive),
        }  # fmt: skip
        (s0, s1), (t0, t1) = (
            over(pair, align)
            for pair, align in zip(zip(steps, line_steps, strict=True), (source_align, target_align), strict=True)
        )
        sources, targets = over(sources, source_align), over(targets, target_align)
        numbers = (
            length, s0, t0, across, s1, t1, blocks, chains, shape.steps, parts, groups, sizes, sources, targets,
            _with_tallies(lines).strides[2][-1] if lines.sizes else 0, tallies,
        )  # fmt: skip
        kinds = _kinds(data_type)
        kernel = Kernel(scan_tiles, kinds, numbers, constants, chains * parts, shape.warps, figures)
        kernel.prepare()
        words = HEADER.value + chains * groups * (shape.group + 1) * 2 * shape.across
        return cls(primitive, kernel, _offsets(primitive, lines), words)

    @classmethod
    def _plan_row(cls, primitive: Scan, lines: Loops, length: int, is_reverse: bool, figures: Figures) -> ScanProgram:
        """For rows so few and so long that many programs share each."""
        data_type = primitive.source.data_type
        part = 2 * ROW_CHUNKS * CHUNK.value
        chains, parts = lines.count, -(-length // part)
        groups = -(-parts // ROW_GROUP)
        sizes, sources, targets, tallies = fastest_first(lines.sizes, *_with_tallies(lines).strides)
        source_align, target_align, count_align = map(alignment_of, (sources, targets, (length,)))
        constants = {
            "ACCUMULATOR": tl.float64 if data_type.is_float else tl.int64, "PRODUCT": primitive.function == "product",
            "EXCLUSIVE": primitive.exclusive, "REVERSE": is_reverse, "SOURCE_ALIGN": source_align,
            "TARGET_ALIGN": target_align, "COUNT_ALIGN": count_align, "CHUNKS": ROW_CHUNKS,
            "FULL": length % part == 0, "GROUP": ROW_GROUP, **_ends_of(primitive),
        }  # fmt: skip
        numbers = (
            length, chains, parts, groups, sizes, over(sources, source_align), over(targets, target_align), tallies,
        )  # fmt: skip
        kinds = _kinds(data_type)
        kernel = Kernel(scan_row, kinds, numbers, constants, chains * parts, 8, figures, 64)
        kernel.prepare()
        words = HEADER.value + chains * groups * (ROW_GROUP + 1) * 2
        return cls(primitive, kernel, _offsets(primitive, lines), words)

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in; tiles that hand on get words of their own."""
        source = places[self.primitive.source.tensor] + self.offsets[0]
        target = places[self.primitive.target.tensor] + self.offsets[1]
        ends = [
            NO_TALLIES if view is None else places[view.tensor] + self.offsets[2]
            for view in (self.primitive.before, self.primitive.after)
        ]
        if not self.kernel.constants["GROUP"]:
            return self.kernel.launch((source, target, NO_WORDS, *ends))
        words = DeviceWords(self.words, self.kernel.figures.index)
        start = self.kernel.launch((source, target, words.address, *ends))
        return words.around([start], "scan")


def _kinds(data_type: DataType) -> tuple[str, ...]:
    """Of the source, the target, the words, and the tallies before and after."""
    bits = 8 * data_type.size_in_bytes
    kind = f"fp{bits}" if data_type.is_float else f"u{bits}"
    tally = "fp64" if data_type.is_float else kind
    return kind, kind, "i64", tally, tally


def _ends_of(primitive: Scan) -> dict[str, bool]:
    """Which tallies there are."""
    return {"BEFORE": primitive.before is not None, "AFTER": primitive.after is not None}


def _with_tallies(loops: Loops) -> Loops:
    """The same with strides of 0 for tallies that are not there."""
    strides = loops.strides if len(loops.strides) > 2 else (*loops.strides, (0,) * len(loops.sizes))
    return Loops(loops.sizes, strides, loops.offsets)


def _offsets(primitive: Scan, loops: Loops) -> tuple[int, ...]:
    views = (primitive.source, *primitive.targets)
    return tuple(offset * view.data_type.size_in_bytes for offset, view in zip(loops.offsets, views, strict=True))


def _moved(loops: Loops, *steps: int) -> Loops:
    moved = zip(loops.offsets, (*steps, 0), strict=False)  # tallies stay where they are
    return Loops(loops.sizes, loops.strides, tuple(offset + step for offset, step in moved))


def tile_of(
    length: int, across: int, outer: int, width: int, is_rows: bool, is_reverse: bool, is_apart: bool, figures: Figures
) -> ScanTile:
    """The shapes that did best on a H200: programs of few warps and few registers, and many of them."""
    if IS_INTERPRETED:
        return _small_shape(length, across, is_rows, is_reverse, is_apart)
    wide = 8 * figures.multiprocessors if is_rows else 3 * figures.multiprocessors // 2
    if is_rows:
        along = min(ceil_power(length), 1024)
        lines = 1 if is_reverse else min(ceil_power(across), 1024 // along)
        pieces, warps = 1, 2 if along * lines == 1024 else 1
    else:
        lines = min(ceil_power(across), max(256 // width, 32))
        along = min(ceil_power(length), (8 if width < 4 else 16) if lines >= 32 else 2048 // lines)
        is_many = -(-across // lines) * outer >= 6 * figures.multiprocessors
        pieces = min(ceil_power(-(-length // along)), 8 if width < 4 else 4 if is_many else 2)
        if lines < 32 or is_apart:
            pieces = 1
        warps = pieces if lines >= 32 else 2
    tiles, chains = -(-length // (along * pieces)), -(-across // lines) * outer
    if tiles == 1:
        return ScanTile(along, lines, pieces, 1, 0, warps)
    if is_apart or tiles <= FEW_TILES:
        return ScanTile(along, lines, pieces, tiles, 0, warps)
    if not is_rows and (staged := _staged_shape(length, across, outer, width, figures)):
        return staged
    if chains >= wide:
        return ScanTile(along, lines, pieces, tiles, 0, warps)
    if is_rows:
        return ScanTile(2048, 1, 1, 4, 256, 4) if is_reverse else ScanTile(4096, 1, 1, 4, 256, 8)
    if lines < 32:
        return ScanTile(4096 // lines, lines, 1, 1, 128, 4)
    # A group of 4 MiB or more: its last part hands on in about the time that takes to read.
    return ScanTile(32, 32, 8, 1, max(4, ceil_power(64 // (-(-across // 32) * outer))), 8)


def _staged_shape(length: int, across: int, outer: int, width: int, figures: Figures) -> ScanTile | None:
    """For columns so few that no more than a few programs have a multiprocessor: each with more on its way.

    Columns of float16 are better so however many there are.
    """
    lines = 256 // width
    programs = -(-across // lines) * outer / figures.multiprocessors
    if 2 * across <= lines:
        return None
    if width == 4 and 1.5 <= programs < 3.5:
        return ScanTile(16, lines, 4, -(-length // 64), 0, 4, stages=3)
    if width == 2 and programs >= 1.5:
        return ScanTile(8, lines, 4, -(-length // 32), 0, 4, stages=4)
    if width == 2 and programs >= 0.75:
        return ScanTile(8, lines // 2, 8, -(-length // 64), 0, 8, stages=4)
    return None


def _small_shape(length: int, across: int, is_rows: bool, is_reverse: bool, is_apart: bool) -> ScanTile:
    """Shapes so small that small tensors have several tiles, parts and groups."""
    if is_rows:
        along, pieces = min(ceil_power(length), 16), 1
        lines = 1 if is_reverse else min(ceil_power(across), 16 // along)
    else:
        along, lines, pieces = min(ceil_power(length), 4), min(ceil_power(across), 8), 1 if is_apart else 2
    tiles = -(-length // (along * pieces))
    if tiles <= FEW_TILES or is_apart:
        return ScanTile(along, lines, pieces, tiles, 0, 1, stages=1 if is_rows else tiles)
    return ScanTile(along, lines, pieces, 1 if tiles % 2 else 2, 2, 1)
