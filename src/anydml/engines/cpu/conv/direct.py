"""Direct convolution in NCHW, over row blocks of the output with their halo: planned, cut into work items, and the
kernel that walks them.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Steps
from anydml.engines.cpu.conv.microkernel import DirectTile, make_direct_tile
from anydml.engines.cpu.conv.padded_input import match_padded_input
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import has_feature
from anydml.engines.cpu.gemm.blocking import CHAIN
from anydml.engines.cpu.gemm.epilogue import SHORT
from anydml.engines.cpu.gemm.operands import Operands
from anydml.engines.cpu.gemm.prepacked import lay_out_places
from anydml.engines.cpu.gemm.work_item import DECLARED, find_place, make_bases, place_of, record_of, take_scratch
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import LINE, Layout
from anydml.engines.cpu.rows.walk import VIEWS
from anydml.engines.cpu.schedules import BATCH, BESIDE, CHANNEL, DOWN, GROUP, INPUT, LEAST_LANES, PLACE, ROW
from anydml.engines.cpu.threads.scratch import workspace
from anydml.ir.contraction import match_contraction
from anydml.ir.epilogue import COLUMN, find_epilogue, is_cheap
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.conv.padded_input import PaddedInput
    from anydml.ir.contraction import StridedOperand
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.verbs import Primitive

# Direct convolution, a row block of the output (a "band" below) at a time. Compiled once for all.
#
# A unit copies the lines of the input that its band reads to the scratch, which the second cache holds, with their
# padding; then tiles go over it: a panel of channels after the other, for each a part of the input's channels after the
# other, whose weights the first cache holds while all places of the band are computed with them.


BAND_AT = 64
"""Of a scratch, the bytes before the band; sums lie where other kernels have results."""
TILES = tuple(f"{name}{narrow}{low}" for name in ("tile", "last") for narrow in ("", "_narrow") for low in ("", "_low"))
"""For a window's last channels or others, for the last panel or others, for the last places of a band or line."""
RECORD = Layout(
    "slots", "slot_count", "channels", "rows", "line", "bands", "chunks", "panels", "count", "x_step", "x_down",
    "copy", "top", "height", "fill", "pitch", "plane", "stride", "reach", "together", "taps", "pieces",
    "places_at_once", "lines", "apart", "tile_bytes", "channel_bytes", "panel_bytes", "columns", "target_channel",
    "target_down", "x_at", "weights_at", "result_at", "rank", "fetches", "planes", "piece_on", "target_place",
    "to_step", "group_panels", "group_bytes", "group_columns", "left_on", "soon_bytes", *TILES,
)  # fmt: skip
"""After the header, and before the batch's sizes, of `count` places. The kernel `copy` brings lines of each of
`channels`, `x_step` apart: `height` of them, `x_down` apart, are there from line `top` on, and around them is `fill`.
Lines of a band lie `pitch` apart, channels `plane`; a row of the output begins `stride` lines after the one before, and
reads `reach`. Tiles take `together` channels, each with `taps` pieces. Weights of a channel have `channel_bytes`, those
of a panel `panel_bytes`, for so many `columns`. Where it `fetches`, tiles have weights fetched before the input: at
each piece `soon_bytes`.

Where the channels of a place lie side by side, there is one of `planes`, `channels` are pieces of a window, and their
table goes `piece_on` bytes on with each. Some `group_panels` read the same channels of the input, the next ones those
`group_bytes` on, for the `group_columns` after theirs; each of a group's panels begins `left_on` bytes on."""


def make_direct_conv() -> str:
    """The text of the kernel."""
    text = Steps()
    RECORD.load(text)
    for name in ("x", "weights", "result"):
        text.let(name, f"words + {name}_at * 8")
        text.room(f"{name}_bases", VIEWS)
    text.room("places", VIEWS)
    text.room("ahead", 4)
    text.read("views", "result + 8")
    text.let("pieces_down", "stride * pitch")
    text.let("groups", "(rows + lines - 1) // lines")
    text.let("across", "(line + places_at_once - 1) // places_at_once")
    take_scratch(text, workspace().size)
    text.let("band", f"scratch + {BAND_AT}")
    text.let("sums", f"scratch + {workspace().result_at}")
    with text.loop("unit", "begin", "end"):
        _look_ahead(text)
        text.let("part", "unit % bands")
        text.let("chunk", "unit // bands // count")
        for name in ("weights", "result"):
            text.invoke("@bases", name, "rank", "places + 8", f"{name}_bases")
        text.read("x_base", "x_bases")
        text.read("weights_base", "weights_bases")
        text.read("target", "result_bases + views * 8 - 8")
        text.let("group", "(groups * part) // bands")
        text.let("group_stop", "(groups * (part + 1)) // bands")
        text.let("first", "group * lines")
        text.let("some", "min(group_stop * lines, rows) - first")
        _copy(text)
        panels = [f"(panels * (chunk + {k})) // chunks" for k in (0, 1)]
        with text.loop("panel", *panels), text.loop("ch", 0, "channels", "together"):
            _multiply(text)
    text.add("store atomic i64 0, ptr %slot.ptr release, align 8", "ret i64 0")
    return "\n".join([make_bases(), text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)"), DECLARED])


def _look_ahead(text: Steps) -> None:
    """Where the input of the next unit begins, which tiles have fetched meanwhile, then that of this one."""
    with text.loop("way", 0, 2):
        text.let("asked", "min(unit + 1 - way, end - 1)")
        find_place(text, "asked // bands % count", RECORD.end)
        text.invoke("@bases", "x", "rank", "places + 8", "x_bases")
        with text.when("way == 0"):
            text.read("next_base", "x_bases")
            text.let("next_part", "asked % bands")
            text.let("next_line", "max((groups * next_part) // bands * lines * stride - top, 0)")
            text.let("next_stop", "(groups * (next_part + 1)) // bands * lines * stride - top + reach - stride")
            text.put("ahead", "next_base + next_line * x_down")
            text.put("ahead + 8", 0)
            text.put("ahead + 16", "planes if asked > unit else 0")
            text.put("ahead + 24", "(min(next_stop, height) - next_line) * x_down")


def _fetch_ahead(text: Steps) -> None:
    """The lines that a tile fetches: weights of the next channels, then the next unit's input, channel by channel."""
    text.let("soon", "(y * across + z) * steps * soon_bytes")
    text.let("is_weights", "1 if fetches and soon < b_bytes else 0")
    for i, name in enumerate(("begin_a", "on_a", "left_a", "size_a")):
        text.read(name, f"ahead + {8 * i}")
    text.let("is_input", "1 if left_a > 0 and is_weights == 0 else 0")
    text.let("to_a", "on_a + steps * soon_bytes")
    text.let("is_done", "1 if to_a >= size_a else 0")
    with text.when("is_input"):
        text.put("ahead", "begin_a + x_step if is_done else begin_a")
        text.put("ahead + 8", "0 if is_done else to_a")
        text.put("ahead + 16", "left_a - is_done")
    text.let("fetched", "b + b_bytes + soon if is_weights else begin_a + on_a if is_input else b")


def _copy(text: Steps) -> None:
    """The lines of a band, with what is around them."""
    text.let("line_first", "first * stride - top")
    text.let("total", "(some - 1) * stride + reach")
    text.let("above", "min(max(0 - line_first, 0), total)")
    text.let("inside", "max(min(height - line_first, total) - above, 0)")
    text.let("source", "x_base + (line_first + above) * x_down")
    with text.loop("c", 0, "planes"):
        text.invoke(
            "copy", "source + c * x_step", "x_down", "x_step", "band + c * plane", "above", "inside",
            "total - above - inside", "fill",
        )  # fmt: skip


def _multiply(text: Steps) -> None:
    """Some channels of all places of a band, by the weights of a panel."""
    text.let("here_channels", "min(together, channels - ch)")
    text.let("steps", "here_channels * taps")
    text.let("is_last", "1 if ch + here_channels == channels else 0")
    text.let("b", "weights_base + panel * panel_bytes + ch * channel_bytes")
    text.let("b_bytes", "here_channels * channel_bytes")
    text.let("set", "panel // group_panels")
    text.let("panel_of", "panel - set * group_panels")
    text.let("column", "set * group_columns + panel_of * columns")
    text.let("a_first", "band + ch * plane + set * group_bytes + panel_of * left_on")
    text.let("to_first", "target + column * target_channel + first * target_down")
    text.let("kind", "(4 if is_last else 0) + (2 if panel_of == group_panels - 1 else 0)")
    text.let("tiles", f"words + {RECORD.at(TILES[0])} + kind * 8")
    text.read("whole", "tiles")
    text.read("low", "tiles + 8")
    with text.loop("y", 0, "group_stop - group"), text.loop("z", 0, "across"):
        text.let("row", "y * lines")
        text.let("at", "z * places_at_once")
        text.let("is_low", "1 if row + lines > some or at + places_at_once > line else 0")
        _fetch_ahead(text)
        text.let("chosen", "low if is_low else whole")
        text.invoke(
            "chosen", "a_first + row * pieces_down + at * apart", "b", "sums + (y * across + z) * tile_bytes",
            "pieces + ch * piece_on", "steps", "1 if ch == 0 else 0", "fetched",
            "to_first + row * target_down + at * target_place", "to_step", "result", "result_bases", "column",
        )  # fmt: skip


# Row blocks of a convolution: its dimensions, the shape of its tiles, and how work is cut, whatever way pictures lie.


MOST_VECTORS = 4


class Shape(NamedTuple):
    """Of tiles: whole lines of the output, or places of one, by vectors of channels."""

    lines: int
    places: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Channels."""
        return self.vectors * self.lanes

    @property
    def time(self) -> float:
        """Cycles of a step."""
        rows = self.lines * self.places
        of = figures().conv
        return max(rows * self.vectors, of.latency, of.loads * (rows + self.vectors)) / 2 + of.overhead


def shape_of(sides: Operands, lanes: int) -> Shape:
    """The tile that takes the least time."""
    registers = 32 if has_feature("avx512vl") else 16
    line, rows, found = sides.m, sides.found.sizes[ROW], []
    is_whole = sides.target.strides[ROW] == sides.target.strides[PLACE] * line
    for vectors in range(1, min(MOST_VECTORS, -(-sides.n // lanes)) + 1):
        most = (registers - 2 - vectors) // vectors
        across = -(-line // most)
        lines = max(min(most // line, rows), 1) if is_whole else 1
        shape = Shape(lines, -(-line // across), vectors, lanes)
        panels, rest = divmod(-(-sides.n // lanes), vectors)
        time = panels * shape.time + (shape._replace(vectors=rest).time if rest else 0)
        found.append((across * -(-rows // lines) * time, shape))
    return min(found)[1]


class _Units(NamedTuple):
    """How work is cut."""

    bands: int
    chunks: int
    """Parts of the channels of the output."""
    rows: int
    """Of a band at most."""
    plane: int
    """Bytes of a channel of a band."""


def units_of(
    sides: Operands, shape: Shape, stride: int, reach: int, pitch: int, *, planes: int, panels: int
) -> _Units | None:
    """Row blocks that the second cache has, and work for every thread; None where a scratch has no room for a band.

    Each of some planes has lines `pitch` bytes apart: windows begin `stride` lines apart, and have `reach`.
    """
    sizes = sides.found.sizes
    groups, across = -(-sizes[ROW] // shape.lines), -(-sides.m // shape.places)
    count = sides.count(sides.batch)
    threads = 1 if size_of(sides) < SMALL else get_num_threads()
    wanted = 1 if threads == 1 else figures().gemm.items_per_thread * threads
    for bands in range(min(groups, -(-wanted // count)), groups + 1):
        room, sums = figures().conv.band_bytes, figures().conv.band_sums
        if bands >= groups:
            room, sums = workspace().result_at - BAND_AT, figures().gemm.result_bytes
        rows = shape.lines * -(-groups // bands)
        # An odd number of the cache's lines: channels lie at different places of it then.
        size = ((rows - 1) * stride + reach) * pitch
        plane = (-(-size // LINE) | 1) * LINE
        if (
            planes * plane <= room
            and 4 * -(-groups // bands) * across * shape.places * shape.lines * shape.width <= sums
        ):
            return _Units(bands, min(panels, -(-wanted // (count * bands))), rows, plane)
    return None


def size_of(sides: Operands) -> int:
    """The work, in bytes moved in its time."""
    return 2 * math.prod(sides.found.sizes) // figures().gemm.flops_per_byte


def tile_kernel(tile: DirectTile) -> int:
    """The address of a tile's kernel."""
    return get_kernel(tile.name, functools.partial(make_direct_tile, tile)).address


# The lines of a band of a plane, copied with what is around them: as many stores as a line needs, and no loop for it.
#
# `kernel(source, down, next, to, before, count, after, fill)` writes `before` lines that are filled, `count` lines of
# the source, `down` bytes apart, and `after` filled ones. Meanwhile the lines `next` bytes on are fetched: another
# plane's.


class DirectLine(NamedTuple):
    """A line of a band, in bytes."""

    size: int
    """Of the source's."""
    left: int
    """Of what is before it."""
    pitch: int
    """Of the whole line."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"pack lines of a band {' '.join(map(str, self))}"


def make_direct_lines(line: DirectLine) -> str:
    """The text of the kernel."""
    text = Steps()
    wide = _piece(line.pitch)
    kind = f"<{wide // 4} x i32>"
    filled = text.spread(text.new("trunc i64 %fill to i32"), "i32", wide // 4)

    def put(place: str, offset: int) -> None:
        text.add(f"store {kind} {filled}, ptr {text.place(f'{place} + {offset}')}, align 4")

    for name, first, count in (("above", "0", "before"), ("below", "before + count", "after")):
        with text.loop(name, 0, count):
            text.let(f"{name}_to", f"to + ({first} + {name}) * {line.pitch}")
            for offset in _offsets(0, line.pitch, wide):
                put(f"{name}_to", offset)
    with text.loop("i", 0, "count"):
        text.let("here", f"to + (before + i) * {line.pitch}")
        text.let("there", "source + i * down")
        right = line.left + line.size
        around = [range(0, line.left, wide), range(line.pitch - wide, right - wide, -wide)]
        for offset in dict.fromkeys(min(max(at, 0), line.pitch - wide) for part in around for at in part):
            put("here", offset)
        _move(text, line)
    text.add("ret void")
    names = ("source", "down", "next", "to", "before", "count", "after", "fill")
    return text.define(f"void @kernel({', '.join(f'i64 %{name}' for name in names)})")


def _piece(size: int) -> int:
    """The most bytes that are stored at once in so many."""
    return next(piece for piece in (LINE, LINE // 2, LINE // 4, LINE // 8, 4) if piece <= size)


def _offsets(start: int, stop: int, piece: int) -> list[int]:
    """Where pieces begin that cover some bytes: the last overlaps the one before."""
    return [min(at, stop - piece) for at in range(start, stop, piece)]


def _move(text: Steps, line: DirectLine) -> None:
    if line.size >= figures().conv.memcpy_bytes:
        to, source = text.place(f"here + {line.left}"), text.place("there")
        text.declared["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] = None
        text.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {line.size}, i1 false)")
        return
    for offset in range(0, line.size, LINE):
        text.fetch(text.place(f"there + next + {offset}"))
    piece = _piece(line.size)
    kind = f"<{piece // 4} x i32>"
    offsets = _offsets(0, line.size, piece)
    found = [text.new(f"load {kind}, ptr {text.place(f'there + {at}')}, align 4") for at in offsets]
    for at, value in zip(offsets, found, strict=True):
        text.add(f"store {kind} {value}, ptr {text.place(f'here + {line.left + at}')}, align 4")


# Convolutions of planes by many channels, planned: the tile, the bands of the output, and how weights lie.
#
# The input's lines are copied with their padding, and read as they lie: nothing is packed for the tiles. Weights are a
# constant, laid out ahead in panels of channels.


FEW = 16
"""Channels of the input below which each is a chain of its own, as in ONNX Runtime: longer ones have larger errors, of
12 channels, 3 x 3, twice as large."""


class _Lines(NamedTuple):
    """The input's lines, in bytes: how they are copied to a band, and how windows walk over that."""

    x: StridedOperand
    """Along the batch."""
    x_step: int
    x_down: int
    size: int
    left: int
    top: int
    height: int
    fill: int
    pitch: int
    stride: int
    """Lines from a row of the output to the next."""
    below: int
    """Lines from a row of taps to the next."""
    reach: int
    """Lines of a window."""


def plan_direct(primitive: Reduce, constants: frozenset[str]) -> KernelProgram | None:
    """Windows that lie in a tensor as they are; None for others than of planes, by constant weights."""
    return _plan(primitive, None, constants)


def plan_direct_padded(primitives: Sequence[Primitive], constants: frozenset[str]) -> KernelProgram | None:
    """Planes whose padding is made for a convolution alone, and that; None for others."""
    *maps, last = primitives
    frame = match_padded_input(maps)
    return None if frame is None or not isinstance(last, Reduce) else _plan(last, frame, constants)


def _plan(primitive: Reduce, frame: PaddedInput | None, constants: frozenset[str]) -> KernelProgram | None:
    found = match_contraction(primitive)
    assert found is not None  # noqa: S101 - for type checkers: the condition of the route
    for one in (found, found.transposed):
        if one.columns != (CHANNEL,):
            continue
        batch = tuple(k for k in (BATCH, GROUP) if primitive.sizes[k] > 1)
        sides = Operands(primitive, one._replace(batch=batch, rows=(PLACE,), folded=(INPUT, DOWN, BESIDE)))
        epilogue, lines = _epilogue(sides), _lines(sides, frame)
        if epilogue is not None and lines is not None:
            return _program(sides, epilogue, lines, constants)
    return None


def _epilogue(sides: Operands) -> Epilogue | None:
    """The value computed from sums, if it is short and has a number for each channel at most."""
    target = sides.target
    if target.width != 4 or target.strides[PLACE] != 4 or not is_cheap(sides.finish):
        return None
    found = find_epilogue(sides, (BATCH, ROW, PLACE), (CHANNEL,), longest=SHORT, may_read=("", COLUMN))
    return found if found is not None and len(found.leaves) < VIEWS else None


def _lines(sides: Operands, frame: PaddedInput | None) -> _Lines | None:
    """How lines lie; None where windows are walked backward or reach out of a plane, or channels lie otherwise."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    ways = (ROW, PLACE, DOWN, BESIDE)
    if any(x.strides[k] <= 0 for k in ways if sizes[k] > 1):
        return None
    down, below = x.strides[ROW], x.strides[DOWN]
    last = _reach(sides, PLACE, BESIDE)
    if sizes[INPUT] > 1 and x.strides[INPUT] < last:  # channels lie side by side
        return None
    if frame is None:
        line = math.gcd(down, below) or last
        height = (_reach(sides, ROW, DOWN) - 4) // line + 1
        reach = (sizes[DOWN] - 1) * (below // line) + 1
        return _Lines(x, x.strides[INPUT], line, last, 0, 0, height, 0, last, down // line, below // line, reach)
    line, others = 4 * frame.line, [view for k, view in enumerate(sides.primitive.sources) if k != sides.left.value]
    bound, inner = frame.lie(x, sides.batch), frame.inner
    is_ours = x.tensor == frame.name and not x.offset and all(view.tensor != frame.name for view in others)
    is_ours = is_ours and not (down % line or below % line) and last <= line and x.width == 4 and frame.element is None
    channel = 4 * frame.strides[1] if sizes[INPUT] > 1 else 0
    height = (_reach(sides, ROW, DOWN) - 4) // line + 1
    if not is_ours or bound is None or x.strides[INPUT] != channel or height > (frame.height or height):
        return None
    size, left = 4 * inner.sizes[3], 4 * frame.left
    pitch = max(last, left + size)
    return _Lines(
        bound, 4 * inner.strides[1], 4 * inner.strides[2], size, left, frame.top, inner.sizes[2], frame.number, pitch,
        down // line, below // line, (sizes[DOWN] - 1) * (below // line) + 1,
    )  # fmt: skip


def _reach(sides: Operands, *ways: int) -> int:
    """The bytes that all windows read along some dimensions."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    return 4 + sum((sizes[k] - 1) * x.strides[k] for k in ways)


def _program(sides: Operands, epilogue: Epilogue, lines: _Lines, constants: frozenset[str]) -> KernelProgram | None:
    sizes, target, x = sides.found.sizes, sides.target, sides.lie(sides.left)
    own, steps = 16 if has_feature("avx512vl") else 8, sizes[DOWN] * sizes[BESIDE]
    lanes = own if sides.n > LEAST_LANES else LEAST_LANES
    shape = shape_of(sides, lanes)
    width, count = shape.width, -(-sides.n // shape.width)
    units = units_of(sides, shape, lines.stride, lines.reach, lines.pitch, planes=sizes[INPUT], panels=count)
    panels = lay_out_places(sides, width, constants)
    if units is None or panels is None:
        return None
    is_few = FEW > sizes[INPUT] > 1 == sizes[GROUP]
    parts = 1 if is_few else -(-sizes[INPUT] // (CHAIN // steps))
    together = -(-sizes[INPUT] // parts)
    is_fetched = -(-units.rows // shape.lines) * -(-sides.m // shape.places) <= figures().conv.fetched_tiles
    tiles = _tiles(sides, shape, lines, is_fetched=is_fetched)
    last = (sizes[INPUT] - (parts - 1) * together) * sizes[DOWN]
    chain = sizes[DOWN] if is_few else 0
    ended = [tile._replace(epilogue=epilogue, chain=chain, ahead=-(-tile.vectors * lanes // last)) for tile in tiles]
    kernels = [
        *([0] * len(tiles) if parts == 1 else map(tile_kernel, tiles)),
        *map(tile_kernel, ended),
    ]
    copy = DirectLine(lines.size, lines.left, lines.pitch)
    x_section, result = sides.section((), [lines.x], [0], [0]), sides.result(is_written=False)
    sections = {"x": x_section, "weights": panels.section, "result": result}
    count = sides.count(sides.batch)
    words = {
        "channels": sizes[INPUT], "rows": sizes[ROW], "line": sides.m, "bands": units.bands, "chunks": units.chunks,
        "panels": -(-sides.n // width), "count": count, "x_step": lines.x_step, "x_down": lines.x_down,
        "copy": get_kernel(copy.name, functools.partial(make_direct_lines, copy)).address, "top": lines.top,
        "height": lines.height, "fill": lines.fill, "pitch": lines.pitch, "plane": units.plane,
        "stride": lines.stride, "reach": lines.reach, "together": together, "taps": sizes[DOWN],
        "pieces": place_of((together, sizes[DOWN]), (units.plane, lines.below * lines.pitch)),
        "places_at_once": shape.places, "lines": shape.lines, "apart": x.strides[PLACE],
        "tile_bytes": 4 * shape.lines * shape.places * width if parts > 1 else 0, "channel_bytes": 4 * steps * width,
        "panel_bytes": 4 * sides.k * width, "columns": width, "target_channel": target.strides[CHANNEL],
        "target_down": target.strides[ROW], "fetches": int(tiles[0].fetches), "planes": sizes[INPUT], "piece_on": 0,
        "target_place": 4, "to_step": target.strides[CHANNEL], "group_panels": -(-sides.n // width), "group_bytes": 0,
        "group_columns": 0, "left_on": 0, "soon_bytes": LINE * tiles[0].soon,
        **dict(zip(TILES, kernels, strict=True)),
    }  # fmt: skip
    record = record_of(RECORD, words, [sizes[k] for k in sides.batch], sections)
    kernel, number = get_kernel("bands", make_direct_conv), units.bands * units.chunks * count
    return KernelProgram(kernel, record, number, size_of(sides), panels.layouts)


def _tiles(sides: Operands, shape: Shape, lines: _Lines, *, is_fetched: bool) -> list[DirectTile]:
    """In the order of the kernel's: for a panel or the last, and for a line's places or the last."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    down = lines.stride * lines.pitch if shape.lines > 1 else 0
    walk = (sizes[BESIDE], down, x.strides[PLACE], x.strides[BESIDE])
    tile = DirectTile(*shape, shape.width, *walk, fetches=is_fetched)
    low = tile._replace(lines=sizes[ROW] % shape.lines or shape.lines, places=sides.m % shape.places or shape.places)
    narrow = (sides.n % shape.width or shape.width) // shape.lanes
    return [each._replace(vectors=vectors) for vectors in (shape.vectors, narrow) for each in (tile, low)]
