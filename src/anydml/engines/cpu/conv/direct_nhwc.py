"""Direct convolution in NHWC with padding, over row blocks of the output with their halo."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.conv import direct
from anydml.engines.cpu.conv.direct import RECORD, TILES, make_direct_conv
from anydml.engines.cpu.conv.microkernel import DirectTile
from anydml.engines.cpu.conv.padded_input import match_padded_input
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_feature
from anydml.engines.cpu.gemm.blocking import CHAIN
from anydml.engines.cpu.gemm.epilogue import SHORT
from anydml.engines.cpu.gemm.operands import Operands
from anydml.engines.cpu.gemm.prepacked import lay_out_places
from anydml.engines.cpu.gemm.work_item import place_of, record_of
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import LINE
from anydml.engines.cpu.rows.walk import VIEWS
from anydml.engines.cpu.schedules import BATCH, BESIDE, CHANNEL, DOWN, GROUP, INPUT, LEAST_LANES, PLACE, ROW
from anydml.ir.contraction import StridedOperand, match_contraction
from anydml.ir.epilogue import COLUMN, find_epilogue, is_cheap
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.conv.padded_input import PaddedInput
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.verbs import Primitive

# The lines of a band of a picture whose channels lie side by side, copied with the places around them.
#
# `kernel(source, down, next, to, before, count, after, fill)` writes `before` lines that are filled, `count` lines of
# the source, `down` bytes apart, and `after` filled ones; `next` has no meaning here.


class NhwcLine(NamedTuple):
    """A line of a band."""

    size: int
    """Bytes of a place."""
    apart: int
    """Bytes from one place to the next, in the source."""
    pitch: int
    """The same in the band."""
    places: int
    """Of the source's line."""
    left: int
    """Places before those."""
    width: int
    """Places of the whole line."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"pack lines of pixels {' '.join(map(str, self))}"


def make_nhwc_lines(line: NhwcLine) -> str:
    """The text of the kernel."""
    text, whole = Steps(), line.width * line.pitch
    piece = next(size for size in (LINE, LINE // 2, LINE // 4, LINE // 8, 4) if line.pitch % size == 0)
    kind = f"<{piece // 4} x i32>"
    filled = text.spread(text.new("trunc i64 %fill to i32"), "i32", piece // 4)

    def fill(name: str, first: str, size: int) -> None:
        if size:
            with text.loop(name, 0, size, piece):
                text.add(f"store {kind} {filled}, ptr {text.place(f'{first} + {name}')}, align 4")

    for name, first, count in (("above", "0", "before"), ("below", "before + count", "after")):
        with text.loop(name, 0, count):
            fill(f"{name}_at", f"to + ({first} + {name}) * {whole}", whole)
    text.declared["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] = None
    with text.loop("i", 0, "count"):
        text.let("here", f"to + (before + i) * {whole}")
        text.let("there", "source + i * down")
        fill("left", "here", line.left * line.pitch)
        past = line.left + line.places
        fill("right", f"here + {past * line.pitch}", (line.width - past) * line.pitch)
        text.let("inner", f"here + {line.left * line.pitch}")
        is_run = line.size == line.apart == line.pitch
        size = line.places * line.size if is_run else line.size
        with text.loop("p", 0, 1 if is_run else line.places):
            to, source = text.place(f"inner + p * {line.pitch}"), text.place(f"there + p * {line.apart}")
            text.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")
    text.add("ret void")
    names = ("source", "down", "next", "to", "before", "count", "after", "fill")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


# Convolutions of pictures with padding, whose channels lie side by side, planned: bands as those of planes have.
#
# A unit copies the lines that a band of the output reads, all channels of them, with the places around them; tiles read
# them as they lie. Filters are for all channels, for a group of them, or for each channel by itself.


LONGEST = 32
"""The same where no number up to that divides a run of steps."""
LEAST_PIECE = 3
"""Steps of a piece at least, where there are as many."""


class _Picture(NamedTuple):
    """How a picture lies in a band, and how windows walk over it: in bytes, or in lines."""

    copy: NhwcLine
    line: int
    """Bytes of a line."""
    stride: int
    """Lines from a row of the output to the next."""
    below: int
    """Lines from a row of taps to the next."""
    reach: int
    """Lines of a window."""
    apart: int
    """Bytes from a place's window to the next."""
    beside: int
    """Bytes from a tap to the next."""


def plan_direct_nhwc(primitives: Sequence[Primitive], constants: frozenset[str]) -> KernelProgram | None:
    """Pictures whose padding is made for a convolution alone, and that; None for others."""
    *maps, last = primitives
    frame = match_padded_input(maps, is_beside=True)
    found = match_contraction(last) if isinstance(last, Reduce) else None
    if frame is None or found is None or not isinstance(last, Reduce):
        return None
    for one in (found, found.transposed):
        is_each = last.sizes[CHANNEL] == last.sizes[INPUT] == 1 < last.sizes[GROUP]
        columns = (GROUP,) if is_each else (CHANNEL,)
        batch = (BATCH,) if last.sizes[BATCH] > 1 else ()
        own = one._replace(batch=batch, rows=(PLACE,), columns=columns, folded=(DOWN, BESIDE, INPUT))
        sides = Operands(last, own)
        epilogue, picture = _epilogue(sides), _picture(sides, frame)
        if epilogue is not None and picture is not None and _has_filters(sides, is_each=is_each):
            return _program(sides, epilogue, picture, frame, constants, is_each=is_each)
    return None


def _has_filters(sides: Operands, *, is_each: bool) -> bool:
    """Whether the weights are filters, those of each group its own: its panels follow those of the one before."""
    strides, is_grouped = sides.lie(sides.right).strides, not is_each and sides.found.sizes[GROUP] > 1
    return not any(strides[k] for k in (BATCH, ROW, PLACE)) and not (is_grouped and not strides[GROUP])


def _epilogue(sides: Operands) -> Epilogue | None:
    """The value computed from sums, if it is short and has a number for each channel at most."""
    columns = (GROUP, CHANNEL)  # channels lie side by side, those of a group after those of the group before
    if sides.target.width != 4 or not sides.is_packed(sides.target, columns) or not is_cheap(sides.finish):
        return None
    found = find_epilogue(sides, (BATCH, ROW, PLACE), columns, longest=SHORT, may_read=("", COLUMN))
    return found if found is not None and len(found.leaves) < VIEWS else None


def _picture(sides: Operands, frame: PaddedInput) -> _Picture | None:
    """How places lie; None where windows are walked backward, or reach out of a picture."""
    x, sizes, inner = sides.lie(sides.left), sides.found.sizes, frame.inner
    if any(x.strides[k] <= 0 for k in (ROW, PLACE, DOWN, BESIDE) if sizes[k] > 1):
        return None
    line, plane = 4 * frame.line, 4 * frame.strides[1]
    steps = [x.strides[k] if sizes[k] > 1 else 0 for k in (ROW, PLACE, DOWN, BESIDE)]
    down, apart, below, beside = steps
    others = [view for k, view in enumerate(sides.primitive.sources) if k != sides.left.value]
    is_ours = x.tensor == frame.name and not x.offset and all(view.tensor != frame.name for view in others)
    is_ours = is_ours and not (down % line or below % line) and x.width == 4 and frame.element is None
    is_ours = is_ours and (sizes[INPUT] == 1 or x.strides[INPUT] == plane)
    is_ours = is_ours and (sizes[GROUP] == 1 or x.strides[GROUP] == sizes[INPUT] * plane)
    is_ours = is_ours and (sizes[CHANNEL] == 1 or not x.strides[CHANNEL])
    is_ours = is_ours and sizes[GROUP] * sizes[INPUT] == inner.sizes[1]
    width = ((sizes[PLACE] - 1) * apart + (sizes[BESIDE] - 1) * beside) // 4 + 1
    height = ((sizes[ROW] - 1) * down + (sizes[DOWN] - 1) * below) // line + 1
    if not is_ours or frame.lie(x, sides.batch) is None or width > frame.line or height > (frame.height or height):
        return None
    size = 4 * inner.sizes[1]
    # Places that would share lines of the first cache lie a line further apart.
    pitch = size + LINE if size % figures().conv.crowded == 0 else size
    width = max(width, frame.left + inner.sizes[3])
    copy = NhwcLine(size, 4 * inner.strides[3], pitch, inner.sizes[3], frame.left, width)
    reach = (sizes[DOWN] - 1) * (below // line) + 1
    return _Picture(copy, width * pitch, down // line, below // line, reach, apart // 4 * pitch, beside // 4 * pitch)


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


def _walk(sides: Operands, picture: _Picture, *, is_each: bool) -> _Walk | None:
    sizes, down = sides.found.sizes, picture.below * picture.line
    if is_each:
        return _Walk((sizes[DOWN],), (down,), sizes[BESIDE], picture.beside)
    channels = sizes[INPUT]
    is_whole = sizes[BESIDE] == 1 or picture.beside == 4 * channels
    run = channels * sizes[BESIDE] if is_whole else channels
    steps = max((k for k in range(1, figures().conv.piece + 1) if run % k == 0), default=1)
    if steps < min(LEAST_PIECE, run):
        steps = max(k for k in range(1, LONGEST + 1) if run % k == 0)
    if steps < min(LEAST_PIECE, run):
        return None
    if is_whole:
        return _Walk((sizes[DOWN], run // steps), (down, 4 * steps), steps, 4)
    return _Walk((sizes[DOWN], sizes[BESIDE], run // steps), (down, picture.beside, 4 * steps), steps, 4)


def _program(
    sides: Operands,
    epilogue: Epilogue,
    picture: _Picture,
    frame: PaddedInput,
    constants: frozenset[str],
    *,
    is_each: bool,
) -> KernelProgram | None:
    sizes, target, x = sides.found.sizes, sides.target, sides.lie(sides.left)
    own = 16 if has_feature("avx512vl") else 8
    lanes = own if sides.n > LEAST_LANES else LEAST_LANES
    walk = _walk(sides, picture, is_each=is_each)
    if walk is None or (is_each and sides.k > CHAIN):
        return None
    shape = direct.shape_of(sides, lanes)
    width = shape.width
    per_group, groups = -(-sides.n // width), 1 if is_each else sizes[GROUP]
    units = direct.units_of(
        sides, shape, picture.stride, picture.reach, picture.line, planes=1, panels=per_group * groups
    )
    grouped = Operands(sides.primitive, sides.found._replace(batch=(*sides.batch, *(() if is_each else (GROUP,)))))
    panels = lay_out_places(grouped if sizes[GROUP] > 1 else sides, width, constants)
    if units is None or panels is None:
        return None
    parts = -(-walk.pieces // max(CHAIN // walk.steps, 1))
    together = -(-walk.pieces // parts)
    last = walk.pieces - (parts - 1) * together
    is_fetched = -(-units.rows // shape.lines) * -(-sides.m // shape.places) <= figures().conv.fetched_tiles
    down = picture.stride * picture.line if shape.lines > 1 else 0
    tile = DirectTile(
        *shape, width, walk.steps, down, picture.apart, walk.beside, fetches=is_fetched and not is_each,
        soon=figures().conv.nhwc_prefetch_lines, is_beside=True, is_each=is_each,
    )  # fmt: skip
    low = tile._replace(lines=sizes[ROW] % shape.lines or shape.lines, places=sides.m % shape.places or shape.places)
    narrow, tail = -(-(sides.n % width or width) // lanes), sides.n % lanes
    tiles = [
        each._replace(vectors=vectors, tail=rest)
        for vectors, rest in ((shape.vectors, 0), (narrow, tail))
        for each in (tile, low)
    ]
    plain = [0] * len(tiles) if parts == 1 else [direct.tile_kernel(one._replace(tail=0)) for one in tiles]
    ended = [direct.tile_kernel(one._replace(epilogue=epilogue, ahead=-(-one.rows // last))) for one in tiles]
    bound = frame.lie(x, sides.batch)
    weights = sides.section(
        (), [StridedOperand(panels.section.relocations[0].tensor, 0, (0,) * len(sizes), 4)], [0], [0]
    )
    x_section, result = sides.section((), [bound or x], [0], [0]), sides.result(is_written=False)
    sections = {"x": x_section, "weights": weights, "result": result}
    count = sides.count(sides.batch)
    words = {
        "channels": walk.pieces, "rows": sizes[ROW], "line": sides.m, "bands": units.bands, "chunks": units.chunks,
        "panels": per_group * groups, "count": count, "x_step": 0, "x_down": 4 * frame.inner.strides[2],
        "copy": get_kernel(picture.copy.name, functools.partial(make_nhwc_lines, picture.copy)).address,
        "top": frame.top, "height": frame.inner.sizes[2], "fill": frame.number, "pitch": picture.line, "plane": 0,
        "stride": picture.stride, "reach": picture.reach, "together": together, "taps": 1,
        "pieces": place_of(walk.sizes, walk.strides), "places_at_once": shape.places, "lines": shape.lines,
        "apart": picture.apart, "tile_bytes": 4 * shape.lines * shape.places * width if parts > 1 else 0,
        "channel_bytes": 4 * walk.steps * width, "panel_bytes": 4 * sides.k * width, "columns": width,
        "target_channel": 4, "target_down": target.strides[ROW], "fetches": int(tile.fetches), "planes": 1,
        "piece_on": 8, "target_place": target.strides[PLACE], "to_step": target.strides[PLACE],
        "group_panels": per_group, "group_bytes": 4 * sizes[INPUT], "group_columns": sides.n,
        "left_on": 4 * width if is_each else 0, "soon_bytes": LINE * tile.soon,
        **dict(zip(TILES, [*plain, *ended], strict=True)),
    }  # fmt: skip
    record = record_of(RECORD, words, [sizes[k] for k in sides.batch], sections)
    number = units.bands * units.chunks * count
    kernel = get_kernel("bands", make_direct_conv)
    return KernelProgram(kernel, record, number, direct.size_of(sides), panels.layouts)
