"""Direct convolution in NCHW, over row blocks of the output with their halo: planned, cut into work items, and the
kernel that walks them.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.codegen.function import Function, vector_of
from anydml.engines.cpu.conv.input_lines import find_lines
from anydml.engines.cpu.conv.microkernel import DirectTile, make_direct_tile
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.gemm.blocking import CHAIN
from anydml.engines.cpu.gemm.operands import Operands
from anydml.engines.cpu.gemm.prepacked import lay_out_places
from anydml.engines.cpu.gemm.work_item import WorkItems, place_of, record_of, stack_words
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.launch.record import LINE, Layout
from anydml.engines.cpu.rows.walk import VIEWS
from anydml.engines.cpu.schedules import BATCH, BESIDE, CHANNEL, DOWN, GROUP, INPUT, PLACE, ROW
from anydml.engines.cpu.threads.scratch import workspace
from anydml.ir.contraction import match_contraction
from anydml.ir.epilogue import COLUMN, find_epilogue, is_cheap
from anydml.ir.padded_reads import match_padded_reduce

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Value
    from anydml.engines.cpu.conv.input_lines import InputLines
    from anydml.engines.cpu.gemm.prepacked import Panels
    from anydml.engines.cpu.gemm.work_item import Section
    from anydml.ir.epilogue import Epilogue
    from anydml.ir.padded_reads import Padded
    from anydml.ir.verbs import Primitive, Reduce

# Direct convolution, a row block of the output at a time. Compiled once for all.
#
# A unit copies the lines of the input that its row block reads to the scratch, which the second cache holds, with their
# padding; then tiles go over it: a panel of channels after the other, for each a part of the input's channels after the
# other, whose weights the first cache holds while all places of the row block are computed with them.


BLOCK_AT = 64
"""Of a scratch, the bytes before the row block; sums lie where other kernels have results."""
TILES = tuple(f"{name}{narrow}{low}" for name in ("tile", "last") for narrow in ("", "_narrow") for low in ("", "_low"))
"""For a window's last channels or others, for the last panel or others, for the last places of a row block or line."""
RECORD = Layout(
    "slots", "slot_count", "channels", "rows", "line", "blocks", "chunks", "panels", "count", "x_step", "x_down",
    "copy", "top", "height", "fill", "pitch", "plane", "stride", "reach", "together", "taps", "pieces",
    "places_at_once", "lines", "apart", "tile_bytes", "channel_bytes", "panel_bytes", "columns", "target_channel",
    "target_down", "x_at", "weights_at", "result_at", "rank", "fetches", "planes", "piece_on", "target_place",
    "to_step", "group_panels", "group_bytes", "group_columns", "left_on", "soon_bytes", *TILES,
)  # fmt: skip
"""After the header, and before the batch's sizes, of `count` places. The kernel `copy` brings lines of each of
`channels`, `x_step` apart: `height` of them, `x_down` apart, are there from line `top` on, and around them is `fill`.
Lines of a row block lie `pitch` apart, channels `plane`; a row of the output begins `stride` lines after the one before
and reads `reach`. Tiles take `together` channels, each with `taps` pieces. Weights of a channel have `channel_bytes`,
those of a panel `panel_bytes`, for so many `columns`. Where it `fetches`, tiles have weights fetched before the input:
at each piece `soon_bytes`.

Where the channels of a place lie side by side, there is one of `planes`, `channels` are pieces of a window, and their
table goes `piece_on` bytes on with each. Some `group_panels` read the same channels of the input, the next ones those
`group_bytes` on, for the `group_columns` after theirs; each of a group's panels begins `left_on` bytes on."""


def make_direct_walk() -> str:
    """The text of the kernel."""
    return _BlockWalk().write()


class _BlockWalk(WorkItems):
    def __init__(self) -> None:
        super().__init__(RECORD, ("x", "weights", "result"))
        self.ahead = stack_words(self.f, 4)
        """What tiles have fetched of the next unit's input: where a channel begins, the bytes of it that are done, the
        channels that are left, and the bytes of each."""

    def write(self) -> str:
        """All of it."""
        f, of, result = self.f, self.of, self.sections["result"]
        self.groups = (of.rows + of.lines - 1) // of.lines
        self.across = (of.line + of.places_at_once - 1) // of.places_at_once
        scratch = self.take_scratch(workspace().size)
        self.block, self.sums = scratch + BLOCK_AT, scratch + workspace().result_at
        with self.each() as unit:
            self._look_ahead(unit)
            self.find_bases("weights", "result")
            part, chunk = unit % of.blocks, unit // of.blocks // of.count
            group, stop = (self.groups * one // of.blocks for one in (part, part + 1))
            self.first = group * of.lines
            self.some = f.min(stop * of.lines, of.rows) - self.first
            self.to = result.base(result.views - 1) + self.first * of.target_down
            self._copy(self.sections["x"].base())
            panels = (of.panels * one // of.chunks for one in (chunk, chunk + 1))
            with f.loop(*panels) as panel, f.loop(0, of.channels, of.together) as channel:
                self._multiply(panel, channel, stop - group)
        return self.text()

    def _look_ahead(self, unit: Value) -> None:
        """Where the input of the next unit begins, which tiles have fetched meanwhile, then that of this one."""
        f, of = self.f, self.of
        after = f.min(unit + 1, self.end - 1)
        self.find_place(after // of.blocks % of.count)
        self.find_bases("x")
        group, stop = (self.groups * one // of.blocks for one in (after % of.blocks, after % of.blocks + 1))
        first = f.max(group * of.lines * of.stride - of.top, 0)
        last = f.min(stop * of.lines * of.stride - of.top + of.reach - of.stride, of.height)
        f.store(self.sections["x"].base() + first * of.x_down, self.ahead)
        f.store(0, self.ahead + 8)
        f.store(f.select(after > unit, of.planes, 0), self.ahead + 16)
        f.store((last - first) * of.x_down, self.ahead + 24)
        self.find_place(unit // of.blocks % of.count)
        self.find_bases("x")

    def _copy(self, x: Value) -> None:
        """The lines of a row block, with its halo and padding."""
        f, of = self.f, self.of
        first, total = self.first * of.stride - of.top, (self.some - 1) * of.stride + of.reach
        above = f.min(f.max(0 - first, 0), total)
        inside = f.max(f.min(of.height - first, total) - above, 0)
        source = x + (first + above) * of.x_down
        with f.loop(0, of.planes) as c:
            f.invoke(
                of.copy, source + c * of.x_step, of.x_down, of.x_step, self.block + c * of.plane, above, inside,
                total - above - inside, of.fill,
            )  # fmt: skip

    def _multiply(self, panel: Value, channel: Value, groups: Value) -> None:
        """Some channels of all places of a row block, by the weights of a panel."""
        f, of = self.f, self.of
        channels = f.min(of.together, of.channels - channel)
        steps = channels * of.taps
        b = self.sections["weights"].base() + panel * of.panel_bytes + channel * of.channel_bytes
        group, last = panel // of.group_panels, of.group_panels - 1
        own = panel - group * of.group_panels
        column = group * of.group_columns + own * of.columns
        a = self.block + channel * of.plane + group * of.group_bytes + own * of.left_on
        to = self.to + column * of.target_channel
        kind = f.select((channel + channels).eq(of.channels), 4, 0) + f.select(own.eq(last), 2, 0)
        tiles = self.words + kind * 8 + RECORD.at(TILES[0])
        whole, low = f.load("i64", tiles), f.load("i64", tiles + 8)
        with f.loop(0, groups) as y, f.loop(0, self.across) as z:
            row, at, number = y * of.lines, z * of.places_at_once, y * self.across + z
            is_low = (row + of.lines > self.some) | (at + of.places_at_once > of.line)
            fetched = self._fetched(number, steps, b, channels * of.channel_bytes)
            f.invoke(
                f.select(is_low, low, whole), a + row * of.stride * of.pitch + at * of.apart, b,
                self.sums + number * of.tile_bytes, of.pieces + channel * of.piece_on, steps,
                f.select(channel.eq(0), 1, 0), fetched, to + row * of.target_down + at * of.target_place, of.to_step,
                self.sections["result"].at, self.sections["result"].bases, column,
            )  # fmt: skip

    def _fetched(self, number: Value, steps: Value, b: Value, size: Value) -> Value:
        """What a tile has fetched: weights of the next channels, then the next unit's input, channel by channel."""
        f, of = self.f, self.of
        soon = number * steps * of.soon_bytes
        is_weights = of.fetches.ne(0) & (soon < size)
        at, done, left, whole = (f.load("i64", self.ahead + 8 * i) for i in range(4))
        is_input = (left > 0) & ~is_weights
        after = done + steps * of.soon_bytes
        is_over = after >= whole
        with f.when(is_input):
            f.store(f.select(is_over, at + of.x_step, at), self.ahead)
            f.store(f.select(is_over, 0, after), self.ahead + 8)
            f.store(left - f.cast("zext", is_over, "i64"), self.ahead + 16)
        return f.select(is_weights, b + size + soon, f.select(is_input, at + done, b))


# Row blocks of a convolution: its dimensions, the shape of its tiles, and how work is cut, whatever way pictures lie.


ROWS, PLACES = (ROW, DOWN), (PLACE, BESIDE)
"""Dimensions of the output's rows and of the places of one, each with that of its taps."""


class TileShape(NamedTuple):
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


def shape_of(operands: Operands) -> TileShape:
    """The tile that takes the least time."""
    registers, lanes = figures().gemm.registers, figures().lanes_for(operands.n)
    line, rows, found = operands.m, operands.found.sizes[ROW], []
    is_whole = operands.target.strides[ROW] == operands.target.strides[PLACE] * line
    for vectors in range(1, min(figures().conv.most_vectors, -(-operands.n // lanes)) + 1):
        most = (registers - 2 - vectors) // vectors
        across = -(-line // most)
        lines = max(min(most // line, rows), 1) if is_whole else 1
        shape = TileShape(lines, -(-line // across), vectors, lanes)
        panels, rest = divmod(-(-operands.n // lanes), vectors)
        time = panels * shape.time + (shape._replace(vectors=rest).time if rest else 0)
        found.append((across * -(-rows // lines) * time, shape))
    return min(found)[1]


class _Units(NamedTuple):
    """How work is cut."""

    blocks: int
    chunks: int
    """Parts of the channels of the output."""
    pitch: int
    """Bytes of a line of a row block."""
    plane: int
    """Bytes of a channel of it."""
    fetches: bool
    """Whether tiles have weights fetched: they are few, and do not find those in the first cache for long."""


def units_of(
    operands: Operands, shape: TileShape, lines: InputLines, pitch: int, *, planes: int, panels: int
) -> _Units | None:
    """Row blocks that the second cache has, and work for every thread; None where a scratch has no room for one.

    Each of some planes has lines `pitch` bytes apart.
    """
    sizes = operands.found.sizes
    groups, across = -(-sizes[ROW] // shape.lines), -(-operands.m // shape.places)
    count = operands.count(operands.batch)
    threads = 1 if size_of(operands) < SMALL else get_num_threads()
    wanted = 1 if threads == 1 else figures().gemm.items_per_thread * threads
    for blocks in range(min(groups, -(-wanted // count)), groups + 1):
        room, sums = figures().conv.block_bytes, figures().conv.block_sums
        if blocks >= groups:
            room, sums = workspace().result_at - BLOCK_AT, figures().gemm.result_bytes
        rows = shape.lines * -(-groups // blocks)
        # An odd number of the cache's lines: channels lie at different places of it then.
        size = ((rows - 1) * lines.down + reach_of(operands, lines)) * pitch
        plane = (-(-size // LINE) | 1) * LINE
        if (
            planes * plane <= room
            and 4 * -(-groups // blocks) * across * shape.places * shape.lines * shape.width <= sums
        ):
            fetches = -(-groups // blocks) * across <= figures().conv.fetched_tiles
            return _Units(blocks, min(panels, -(-wanted // (count * blocks))), pitch, plane, fetches)
    return None


def size_of(operands: Operands) -> int:
    """The work, in bytes moved in its time."""
    return 2 * math.prod(operands.found.sizes) // figures().gemm.flops_per_byte


def reach_of(operands: Operands, lines: InputLines) -> int:
    """The lines of a window."""
    return (operands.found.sizes[DOWN] - 1) * lines.below + 1


def line_of(operands: Operands, lines: InputLines) -> int:
    """The elements of a line of a row block: all that there are, and all that windows read."""
    sizes = operands.found.sizes
    return max(1 + (sizes[PLACE] - 1) * lines.step + (sizes[BESIDE] - 1) * lines.beside, lines.left + lines.width)


def tiles_of(
    operands: Operands,
    shape: TileShape,
    tile: DirectTile,
    epilogue: Epilogue,
    *,
    is_cut: bool,
    chain: int = 0,
    last: int,
) -> dict[str, int]:
    """The words of tiles, for sums that are `is_cut` in parts, of which the last has so many pieces."""
    sizes, lanes = operands.found.sizes, shape.lanes
    low = tile._replace(lines=sizes[ROW] % shape.lines or shape.lines, places=operands.m % shape.places or shape.places)
    vectors, tail = -(-(operands.n % shape.width or shape.width) // lanes), operands.n % lanes
    tiles = [tile, low, *(one._replace(vectors=vectors, tail=tail) for one in (tile, low))]
    runs = [one.rows if one.is_beside else one.vectors * lanes for one in tiles]
    ended = [
        one._replace(epilogue=epilogue, chain=chain, ahead=-(-run // last))
        for one, run in zip(tiles, runs, strict=True)
    ]
    plain = [tile_kernel(one._replace(tail=0)) if is_cut else 0 for one in tiles]
    return {
        "places_at_once": shape.places, "lines": shape.lines, "columns": shape.width, "apart": tile.apart,
        "tile_bytes": 4 * tile.rows * shape.width if is_cut else 0, "panel_bytes": 4 * operands.k * shape.width,
        "fetches": int(tile.fetches), "soon_bytes": LINE * tile.soon,
        **dict(zip(TILES, [*plain, *map(tile_kernel, ended)], strict=True)),
    }  # fmt: skip


def tile_kernel(tile: DirectTile) -> int:
    """The address of a tile's kernel."""
    return get_kernel(tile.name, functools.partial(make_direct_tile, tile)).address


def program_of(
    operands: Operands, lines: InputLines, units: _Units, own: Mapping[str, int], panels: Panels, weights: Section
) -> KernelProgram:
    """The program of row blocks; `own` are the words of tiles, and those by which NCHW and NHWC differ."""
    sizes, count = operands.found.sizes, operands.count(operands.batch)
    result = operands.result(is_written=False)
    sections = {"x": operands.section((), [lines.x], [0], [0]), "weights": weights, "result": result}
    words = {
        "rows": sizes[ROW], "line": operands.m, "blocks": units.blocks, "chunks": units.chunks, "count": count,
        "x_down": lines.pitch or 4 * lines.width, "top": lines.top, "height": lines.height, "fill": lines.fill,
        "pitch": units.pitch, "plane": units.plane, "stride": lines.down, "reach": reach_of(operands, lines),
        "target_down": operands.target.strides[ROW],
    }  # fmt: skip
    record = record_of(RECORD, {**words, **own}, [sizes[k] for k in operands.batch], sections)
    kernel = get_kernel("direct", make_direct_walk)
    return KernelProgram(kernel, record, units.blocks * units.chunks * count, size_of(operands), panels.layouts)


# The lines of a row block, copied with what is around them: as many stores as a line needs, and no loop for it.


COPY = "source down next to before count after fill"
"""The arguments of kernels that copy lines to a row block: they write `before` lines that are filled, `count` lines of
the source, `down` bytes apart, and `after` filled ones. Meanwhile those `next` bytes on are fetched: another plane's.
"""


class DirectLine(NamedTuple):
    """A line of a row block, in bytes."""

    size: int
    """Of the source's."""
    left: int
    """Of what is before it."""
    pitch: int
    """Of the whole line."""

    @property
    def name(self) -> str:
        """The kernel's."""
        return f"pack lines NCHW {' '.join(map(str, self))}"


def make_direct_lines(line: DirectLine) -> str:
    """The text of the kernel."""
    f = Function("kernel", COPY)
    source, down, beside, to, before, count, after, fill = f.args
    wide = _piece(line.pitch)
    filled = f.splat(f.cast("trunc", fill, "i32"), wide // 4)
    for first, lines in ((f.value(0, "i64"), before), (before + count, after)):
        with f.loop(0, lines) as i:
            here = to + (first + i) * line.pitch
            for at in _offsets(line.pitch, wide):
                f.store(filled, here + at)
    with f.loop(0, count) as i:
        here, there = to + (before + i) * line.pitch, source + i * down
        around = [range(0, line.left, wide), range(line.pitch - wide, line.left + line.size - wide, -wide)]
        for at in dict.fromkeys(min(max(at, 0), line.pitch - wide) for part in around for at in part):
            f.store(filled, here + at)
        _move(f, here + line.left, there, beside, line.size)
    return f.end()


def _move(f: Function, here: Value, there: Value, after: Value, size: int) -> None:
    if size >= figures().conv.memcpy_bytes:
        f.memcpy(here, there, size)
        return
    for at in range(0, size, LINE):
        f.prefetch(there + after + at)
    piece = _piece(size)
    found = [(at, f.load(vector_of(piece // 4, "i32"), there + at)) for at in _offsets(size, piece)]
    for at, value in found:
        f.store(value, here + at)


def _piece(size: int) -> int:
    """The most bytes that are stored at once in so many."""
    return next(piece for piece in (LINE, LINE // 2, LINE // 4, LINE // 8, 4) if piece <= size)


def _offsets(size: int, piece: int) -> list[int]:
    """Where pieces begin that cover some bytes: the last overlaps the one before."""
    return [min(at, size - piece) for at in range(0, size, piece)]


# Convolutions of planes by many channels, planned: the tile, the blocks of the output, and how weights lie.
#
# The input's lines are copied with their padding, and read as they lie: nothing is packed for the tiles. Weights are a
# constant, laid out ahead in panels of channels.


FEW = 16
"""Channels of the input below which each is a chain of its own, as in ONNX Runtime: longer ones have larger errors, of
12 channels, 3 x 3, twice as large."""


def plan_direct(primitive: Reduce, constants: frozenset[str]) -> KernelProgram | None:
    """Windows that lie in a tensor as they are; None for others than of planes, by constant weights."""
    return _plan(primitive, None, constants)


def plan_direct_padded(primitives: Sequence[Primitive], constants: frozenset[str]) -> KernelProgram | None:
    """Planes whose padding is made for a convolution alone, and that; None for others."""
    found = match_padded_reduce(primitives)
    return None if found is None else _plan(*found, constants)


def _plan(primitive: Reduce, padded: Padded | None, constants: frozenset[str]) -> KernelProgram | None:
    found = match_contraction(primitive)
    assert found is not None  # noqa: S101 - for type checkers: the condition of the route
    for one in (found, found.transposed):
        if one.columns != (CHANNEL,):
            continue
        batch = tuple(k for k in (BATCH, GROUP) if primitive.sizes[k] > 1)
        operands = Operands(primitive, one._replace(batch=batch, rows=(PLACE,), folded=(INPUT, DOWN, BESIDE)))
        epilogue, lines = (
            channel_epilogue(operands, (CHANNEL,)),
            find_lines(operands, operands.left, ROWS, PLACES, padded),
        )
        if epilogue is not None and lines is not None and _suits(operands, lines):
            return _program(operands, epilogue, lines, constants)
    return None


def channel_epilogue(operands: Operands, channels: Sequence[int]) -> Epilogue | None:
    """The value computed from sums, if it is short and has a number for each channel at most."""
    if operands.target.width != 4 or not is_cheap(operands.finish):
        return None
    longest, may_read = figures().gemm.epilogue_nodes, ("", COLUMN)
    found = find_epilogue(operands, (BATCH, ROW, PLACE), channels, longest=longest, may_read=may_read)
    return found if found is not None and len(found.leaves) < VIEWS else None


def _suits(operands: Operands, lines: InputLines) -> bool:
    """Whether windows are walked onward, and elements of a line lie side by side, there and in the target, not those of
    channels.
    """
    if operands.target.strides[PLACE] != 4:
        return False
    is_apart = operands.found.sizes[INPUT] == 1 or lines.x.strides[INPUT] >= 4 * lines.width
    return lines.is_onward(operands, ROWS, PLACES) and lines.apart == 4 and is_apart and not lines.filler


def _program(
    operands: Operands, epilogue: Epilogue, lines: InputLines, constants: frozenset[str]
) -> KernelProgram | None:
    sizes, target, channels = operands.found.sizes, operands.target, operands.found.sizes[INPUT]
    shape, steps = shape_of(operands), sizes[DOWN] * sizes[BESIDE]
    width, count = shape.width, -(-operands.n // shape.width)
    copy = DirectLine(4 * lines.width, 4 * lines.left, 4 * line_of(operands, lines))
    units = units_of(operands, shape, lines, copy.pitch, planes=channels, panels=count)
    panels = lay_out_places(operands, width, constants)
    if units is None or panels is None:
        return None
    is_few = FEW > channels > 1 == sizes[GROUP]
    parts = 1 if is_few else -(-channels // (CHAIN // steps))
    together = -(-channels // parts)
    last = (channels - (parts - 1) * together) * sizes[DOWN]
    walk = (sizes[BESIDE], lines.down * copy.pitch if shape.lines > 1 else 0, 4 * lines.step, 4 * lines.beside)
    tile = DirectTile(*shape, width, *walk, fetches=units.fetches, soon=figures().conv.prefetch_lines)
    tiles = tiles_of(operands, shape, tile, epilogue, is_cut=parts > 1, chain=sizes[DOWN] if is_few else 0, last=last)
    own = {
        "channels": channels, "panels": count, "x_step": lines.x.strides[INPUT],
        "copy": get_kernel(copy.name, functools.partial(make_direct_lines, copy)).address, "together": together,
        "taps": sizes[DOWN], "pieces": place_of((together, sizes[DOWN]), (units.plane, lines.below * copy.pitch)),
        "channel_bytes": 4 * steps * width, "target_channel": target.strides[CHANNEL], "planes": channels,
        "target_place": 4, "to_step": target.strides[CHANNEL], "group_panels": count,
    }  # fmt: skip
    return program_of(operands, lines, units, {**own, **tiles}, panels, panels.section)
