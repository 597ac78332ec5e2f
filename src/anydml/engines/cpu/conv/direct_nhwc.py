"""Direct convolution in NHWC with padding, over row blocks of the output with their halo."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function
from anydml.engines.cpu.conv import direct
from anydml.engines.cpu.conv.direct import PLACES, ROWS
from anydml.engines.cpu.conv.input_lines import find_lines
from anydml.engines.cpu.conv.microkernel import DirectTile
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import CHAIN
from anydml.engines.cpu.gemm.operands import Operands
from anydml.engines.cpu.gemm.prepacked import lay_out_places
from anydml.engines.cpu.gemm.work_item import place_of
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.schedules import BATCH, BESIDE, CHANNEL, DOWN, GROUP, INPUT, PLACE, ROW
from anydml.ir.contraction import StridedOperand, match_contraction
from anydml.ir.padded_reads import match_padded_reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.conv.input_lines import InputLines
    from anydml.engines.cpu.launch.program import KernelProgram
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.verbs import Primitive

# The lines of a row block of a picture whose channels lie side by side, copied with the places around them.


class NhwcLine(NamedTuple):
    """A line of a row block."""

    size: int
    """Bytes of a place."""
    apart: int
    """Bytes from one place to the next, in the source."""
    pitch: int
    """The same in the row block."""
    places: int
    """Of the source's line."""
    left: int
    """Places before those."""
    width: int
    """Places of the whole line."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"pack lines NHWC {' '.join(map(str, self))}"


def make_nhwc_lines(line: NhwcLine) -> str:
    """The text of the kernel, one of those that copy lines as `conv/direct.py` has it."""
    f, whole = Function("kernel", direct.COPY), line.width * line.pitch
    source, down, _, to, before, count, after, number = f.args
    piece = next(size for size in (LINE, LINE // 2, LINE // 4, LINE // 8, 4) if line.pitch % size == 0)
    filled = f.splat(f.cast("trunc", number, "i32"), piece // 4)

    def fill(first: Value, size: int) -> None:
        if size:
            with f.loop(0, size, piece) as at:
                f.store(filled, first + at)

    for first, lines in ((f.value(0, "i64"), before), (before + count, after)):
        with f.loop(0, lines) as i:
            fill(to + (first + i) * whole, whole)
    left, past = line.left * line.pitch, (line.left + line.places) * line.pitch
    is_run = line.size == line.apart == line.pitch
    with f.loop(0, count) as i:
        here, there = to + (before + i) * whole, source + i * down
        fill(here, left)
        fill(here + past, whole - past)
        with f.loop(0, 1 if is_run else line.places) as p:
            size = line.places * line.size if is_run else line.size
            f.memcpy(here + left + p * line.pitch, there + p * line.apart, size)
    return f.end()


# Convolutions of pictures with padding, whose channels lie side by side, planned: row blocks as those of planes have.
#
# A unit copies the lines that a row block of the output reads, all channels of them, with the places around them; tiles
# read them as they lie. Filters are for all channels, for a group of them, or for each channel by itself.


def plan_direct_nhwc(primitives: Sequence[Primitive], constants: frozenset[str]) -> KernelProgram | None:
    """Pictures whose padding is made for a convolution alone, and that; None for others."""
    last, padded = match_padded_reduce(primitives) or (None, None)
    found = match_contraction(last) if last is not None else None
    if last is None or found is None:
        return None
    for one in (found, found.transposed):
        is_each = last.sizes[CHANNEL] == last.sizes[INPUT] == 1 < last.sizes[GROUP]
        columns = (GROUP,) if is_each else (CHANNEL,)
        batch = (BATCH,) if last.sizes[BATCH] > 1 else ()
        own = one._replace(batch=batch, rows=(PLACE,), columns=columns, folded=(DOWN, BESIDE, INPUT))
        operands = Operands(last, own)
        # Channels lie side by side, those of a group after those of the group before.
        epilogue = direct.channel_epilogue(operands, (GROUP, CHANNEL))
        lines = find_lines(operands, operands.left, ROWS, PLACES, padded)
        if epilogue is None or lines is None or not _are_beside(operands, lines):
            continue
        if _has_filters(operands, is_each=is_each):
            return _program(operands, epilogue, lines, constants, is_each=is_each)
    return None


def _are_beside(operands: Operands, lines: InputLines) -> bool:
    """Whether all channels of a place lie side by side, there and in the target, and windows are walked onward."""
    sizes, strides = operands.found.sizes, lines.x.strides
    count = sizes[GROUP] * sizes[INPUT]
    is_ours = (sizes[INPUT] == 1 or strides[INPUT] == 4) and (sizes[GROUP] == 1 or strides[GROUP] == 4 * sizes[INPUT])
    is_ours = is_ours and 1 < count <= lines.apart // 4 and not strides[CHANNEL] and not lines.filler
    is_ours = is_ours and operands.is_packed(operands.target, (GROUP, CHANNEL))
    return is_ours and lines.is_onward(operands, ROWS, PLACES)


def _has_filters(operands: Operands, *, is_each: bool) -> bool:
    """Whether the weights are filters, those of each group its own: its panels follow those of the one before."""
    strides, is_grouped = operands.strided(operands.right).strides, not is_each and operands.found.sizes[GROUP] > 1
    return not any(strides[k] for k in (BATCH, ROW, PLACE)) and not (is_grouped and not strides[GROUP])


class _Walk(NamedTuple):
    """The pieces of a window, and the steps of each."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    steps: int
    beside: int
    """Bytes from a step to the next."""

    @property
    def pieces(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)


def _walk(operands: Operands, lines: InputLines, copy: NhwcLine, *, is_each: bool) -> _Walk | None:
    sizes, down, beside = operands.found.sizes, lines.below * copy.width * copy.pitch, lines.beside * copy.pitch
    if is_each:
        return _Walk((sizes[DOWN],), (down,), sizes[BESIDE], beside)
    channels = sizes[INPUT]
    is_whole = sizes[BESIDE] == 1 or beside == 4 * channels
    run = channels * sizes[BESIDE] if is_whole else channels
    of = figures().conv
    steps = max((k for k in range(1, of.piece + 1) if run % k == 0), default=1)
    if steps < min(of.least_piece, run):
        steps = max(k for k in range(1, of.longest_piece + 1) if run % k == 0)
    if steps < min(of.least_piece, run):
        return None
    if is_whole:
        return _Walk((sizes[DOWN], run // steps), (down, 4 * steps), steps, 4)
    return _Walk((sizes[DOWN], sizes[BESIDE], run // steps), (down, beside, 4 * steps), steps, 4)


def _program(
    operands: Operands, epilogue: Epilogue, lines: InputLines, constants: frozenset[str], *, is_each: bool
) -> KernelProgram | None:
    sizes, target = operands.found.sizes, operands.target
    size = 4 * sizes[GROUP] * sizes[INPUT]
    # Places that would share lines of the first cache lie a line further apart.
    pitch = size + LINE if size % figures().conv.crowded == 0 else size
    copy = NhwcLine(size, lines.apart, pitch, lines.width, lines.left, direct.line_of(operands, lines))
    walk = _walk(operands, lines, copy, is_each=is_each)
    if walk is None or (is_each and operands.k > CHAIN):
        return None
    shape = direct.shape_of(operands)
    width, line = shape.width, copy.width * pitch
    per_group, groups = -(-operands.n // width), 1 if is_each else sizes[GROUP]
    units = direct.units_of(operands, shape, lines, line, planes=1, panels=per_group * groups)
    grouped = Operands(
        operands.primitive, operands.found._replace(batch=(*operands.batch, *(() if is_each else (GROUP,))))
    )
    panels = lay_out_places(grouped if sizes[GROUP] > 1 else operands, width, constants)
    if units is None or panels is None:
        return None
    parts = -(-walk.pieces // max(CHAIN // walk.steps, 1))
    together = -(-walk.pieces // parts)
    tile = DirectTile(
        *shape, width, walk.steps, lines.down * line if shape.lines > 1 else 0, lines.step * pitch, walk.beside,
        fetches=units.fetches and not is_each, soon=figures().conv.prefetch_lines_nhwc, is_beside=True, is_each=is_each,
    )  # fmt: skip
    last = walk.pieces - (parts - 1) * together
    tiles = direct.tiles_of(operands, shape, tile, epilogue, is_cut=parts > 1, last=last)
    all_panels = StridedOperand(panels.section.relocations[0].tensor, 0, (0,) * len(sizes), 4)
    own = {
        "channels": walk.pieces, "panels": per_group * groups, "plane": 0,
        "copy": get_kernel(copy.name, functools.partial(make_nhwc_lines, copy)).address, "together": together,
        "taps": 1, "pieces": place_of(walk.sizes, walk.strides), "channel_bytes": 4 * walk.steps * width,
        "target_channel": 4, "planes": 1, "piece_on": 8, "target_place": target.strides[PLACE],
        "to_step": target.strides[PLACE], "group_panels": per_group, "group_bytes": 4 * sizes[INPUT],
        "group_columns": operands.n, "left_on": 4 * width if is_each else 0,
    }  # fmt: skip
    return direct.program_of(
        operands, lines, units, {**own, **tiles}, panels, operands.section((), [all_panels], [0], [0])
    )
