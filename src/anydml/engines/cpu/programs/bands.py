"""Convolutions of planes by many channels, planned: the tile, the bands of the output, and how weights lie.

The input's lines are copied with their padding, and read as they lie: nothing is packed for the tiles. Weights are a
constant, laid out ahead in panels of channels.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel, has_feature, reads_pixels
from anydml.engines.cpu.kernels import HEADER, LINE
from anydml.engines.cpu.kernels.band_tile import BandTile, make_band_tile
from anydml.engines.cpu.kernels.bands import BAND_AT, TILES, WORDS, make_bands
from anydml.engines.cpu.kernels.endings import COLUMN, FOLD, Ending
from anydml.engines.cpu.kernels.room import RESULT, RESULT_AT
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.tile import CHAIN
from anydml.engines.cpu.programs.contracted import ContractProgram, place_of
from anydml.engines.cpu.programs.endings import CHEAP, SHORT
from anydml.engines.cpu.programs.frames import match_frame
from anydml.engines.cpu.programs.panels import lay_out_places
from anydml.engines.cpu.programs.sides import Sides
from anydml.engines.cpu.programs.units import FLOPS, TURNS
from anydml.engines.cpu.call import SMALL
from anydml.engines.threads import get_num_threads
from anydml.enums import DataType
from anydml.ir.patterns import Contraction, match_contraction
from anydml.ir.trees import walk
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.programs.frames import Frame
    from anydml.engines.cpu.programs.sides import Lie
    from anydml.ir.verbs import Primitive

BATCH, GROUP, CHANNEL, ROW, PLACE, INPUT, DOWN, BESIDE = range(8)
"""The dimensions of a convolution of planes, as its operator writes it: what is kept, then what is summed."""
BAND = 256 * 1024
"""Bytes of a band that has several lines: the second cache has it, and sums."""
ROOM = RESULT_AT - BAND_AT
"""Bytes of a band that a scratch has room for."""
SUMS = 128 * 1024
"""Bytes of sums of a band that has several lines."""
LEAST_PLACES = 4
"""Places of a line from which on it is worth a tile."""
LATENCY = 8
"""Vectors that are added to at once at least: each waits four cycles for the one before, and there are two units."""
OVERHEAD = 0.5
"""Cycles of each step of a tile beside its products, that of its call and of its ending included."""
MOST_VECTORS = 4


class _Bands(Sides):
    """Rows are the places of a line, columns the channels of the output."""

    def _sort(self, *, has_lines: bool) -> None:  # noqa: ARG002 - of others
        found = self.found
        self.windows, self.unmerged = None, ()
        self.rows, self.columns, self.batch, self.folded = found.rows, found.columns, found.batch, found.folded
        self.m, self.n, self.k = map(self.count, (self.rows, self.columns, self.folded))


class _Lines(NamedTuple):
    """The input's lines, in bytes: how they are copied to a band, and how windows walk over that."""

    x: Lie
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


def plan_bands(primitive: Reduce, constants: frozenset[str]) -> ContractProgram | None:
    """Windows that lie in a tensor as they are; None for others than of planes, by constant weights."""
    return _plan(primitive, None, constants)


def plan_padded_bands(primitives: Sequence[Primitive], constants: frozenset[str]) -> ContractProgram | None:
    """Planes whose padding is made for a convolution alone, and that; None for others."""
    *maps, last = primitives
    frame = match_frame(maps)
    if frame is None or not isinstance(last, Reduce) or last.checks or frame.inner.tensor in constants:
        return None
    return _plan(last, frame, constants)


def _plan(primitive: Reduce, frame: Frame | None, constants: frozenset[str]) -> ContractProgram | None:
    found = match_contraction(primitive) if primitive.depth == 3 and len(primitive.sizes) == 8 else None
    if not reads_pixels() or found is None or found.fold.type is not DataType.FLOAT32 or not all(primitive.sizes):
        return None
    for x, weights, columns in ((found.left, found.right, found.columns), (found.right, found.left, found.rows)):
        if x.op != "load" or weights.op != "load" or columns != (CHANNEL,):
            continue
        batch = tuple(k for k in (BATCH, GROUP) if primitive.sizes[k] > 1)
        own = (found.sizes, batch, (PLACE,), (CHANNEL,), (INPUT, DOWN, BESIDE))
        sides = _Bands(primitive, Contraction(found.fold, x, weights, *own))
        ending, lines = _ending(sides), _lines(sides, frame)
        if ending is not None and lines is not None:
            return _program(sides, ending, lines, constants)
    return None


def _ending(sides: _Bands) -> Ending | None:
    """What is computed from sums, if that is short and has a number for each channel at most."""
    leaves, lies = sides.leaves(sides.finish)
    nodes, target = list(walk(sides.finish)), sides.target
    is_ours = target.width == 4 and target.strides[PLACE] == 4 and len(leaves) < VIEWS and len(nodes) <= SHORT
    if not is_ours or any(node.op not in CHEAP for node in nodes):
        return None
    moves = [FOLD if leaf is sides.sum else COLUMN if lie.strides[CHANNEL] else "" for leaf, lie in zip(leaves, lies)]
    for leaf, lie in zip(leaves, lies, strict=True):
        along = lie.strides[CHANNEL]
        is_fixed = not any(lie.strides[k] for k in (BATCH, ROW, PLACE))
        if leaf is not sides.sum and not (is_fixed and along in (0, lie.width)):
            return None
    return Ending(sides.finish, sides.sum, tuple(leaves), tuple(moves))


def _lines(sides: _Bands, frame: Frame | None) -> _Lines | None:
    """How lines lie; None where windows are walked backward, or reach out of a plane."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    ways = (ROW, PLACE, DOWN, BESIDE)
    if any(x.strides[k] <= 0 for k in ways if sizes[k] > 1):
        return None
    down, below = x.strides[ROW], x.strides[DOWN]
    last = _reach(sides, PLACE, BESIDE)
    if frame is None:
        line = math.gcd(down, below) or last
        height = (_reach(sides, ROW, DOWN) - 4) // line + 1
        return _Lines(x, x.strides[INPUT], line, last, 0, 0, height, 0, last, down // line, below // line)
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
        down // line, below // line,
    )  # fmt: skip


def _reach(sides: _Bands, *ways: int) -> int:
    """The bytes that all windows read along some dimensions."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    return 4 + sum((sizes[k] - 1) * x.strides[k] for k in ways)


def _shape(sides: _Bands, lanes: int, *, is_whole: bool) -> tuple[int, int, int]:
    """Lines, places of a line, and vectors of the tile that takes the least time."""
    registers = 32 if has_feature("avx512vl") else 16
    line, rows = sides.m, sides.found.sizes[ROW]
    found = []
    for vectors in range(1, min(MOST_VECTORS, sides.n // lanes) + 1):
        most = (registers - 2 - vectors) // vectors
        across = -(-line // most)
        places = -(-line // across)
        lines = max(min(most // line, rows), 1) if is_whole else 1
        tiles = across * -(-rows // lines) * -(-sides.n // (lanes * vectors))
        sums = lines * places * vectors
        cycles = max(sums, LATENCY, lines * places + vectors) / 2 + OVERHEAD
        found.append((tiles * cycles, (lines, places, vectors)))
    return min(found)[1]


def _program(
    sides: _Bands, ending: Ending, lines: _Lines, constants: frozenset[str]
) -> ContractProgram | None:
    sizes, target, x = sides.found.sizes, sides.target, sides.lie(sides.left)
    own = 16 if has_feature("avx512vl") else 8
    lanes = own if sides.n % own == 0 else 8
    steps = sizes[DOWN] * sizes[BESIDE]
    is_ours = sides.n % lanes == 0 and (sides.n % own == 0 or sides.n < own) and 1 < steps <= CHAIN
    if not is_ours or sides.m < LEAST_PLACES:
        return None
    is_whole = target.strides[ROW] == 4 * sides.m
    at_once, places, vectors = _shape(sides, lanes, is_whole=is_whole)
    width = vectors * lanes
    panels = lay_out_places(sides, width, constants)
    if panels is None:
        return None
    # Units
    parts = -(-sizes[INPUT] // (CHAIN // steps))
    together = -(-sizes[INPUT] // parts)
    groups, across = -(-sizes[ROW] // at_once), -(-sides.m // places)
    tile_bytes = 4 * at_once * places * width
    fewest = next((n for n in range(1, groups + 1) if _fits(sides, lines, at_once * -(-groups // n), across * tile_bytes * -(-groups // n))), groups)
    most = at_once * -(-groups // fewest)
    column_panels, count = -(-sides.n // width), sides.count(sides.batch)
    size = 2 * math.prod(sizes) // FLOPS
    threads = 1 if size < SMALL else get_num_threads()
    wanted = 1 if threads == 1 else TURNS * threads
    bands = min(groups, max(fewest, -(-wanted // count)))
    chunks = min(column_panels, max(1, -(-wanted // (count * bands))))
    reach = (sizes[DOWN] - 1) * lines.below + 1
    plane = _plane(lines, most, reach)
    if sizes[INPUT] * plane > ROOM or -(-most // at_once) * across * tile_bytes > RESULT:
        return None
    # Tiles
    tile = BandTile(
        at_once, places, vectors, lanes, width, sizes[BESIDE], lines.stride * lines.pitch, x.strides[PLACE],
        x.strides[BESIDE],
    )  # fmt: skip
    low = tile._replace(lines=sizes[ROW] % at_once or at_once, places=sides.m % places or places)
    narrow = (sides.n % width or width) // lanes
    shapes = [shape._replace(vectors=some) for some in (vectors, narrow) for shape in (tile, low)]
    last = sizes[INPUT] - (parts - 1) * together
    ended = [s._replace(ending=ending, ahead=-(-s.vectors * lanes // (last * sizes[DOWN]))) for s in shapes]
    tiles = [0] * 4 if parts == 1 else [_kernel(shape) for shape in shapes]
    sections = (
        sides.section((), [lines.x], [0], [0]), panels.section, sides.result(is_written=False),
    )  # fmt: skip
    at = [HEADER + len(WORDS) + len(sides.batch)]
    for section in sections:
        at.append(at[-1] + len(section.words) + len(section.tensors))
    words = {
        "channels": sizes[INPUT], "rows": sizes[ROW], "line": sides.m, "bands": bands, "chunks": chunks,
        "panels": column_panels, "count": count, "x_step": lines.x_step, "x_down": lines.x_down, "size": lines.size,
        "left": lines.left, "top": lines.top, "height": lines.height, "fill": lines.fill, "pitch": lines.pitch,
        "plane": plane, "stride": lines.stride, "reach": reach, "together": together, "taps": sizes[DOWN],
        "pieces": place_of((together, sizes[DOWN]), (plane, lines.below * lines.pitch)), "places_at_once": places,
        "lines": at_once, "apart": x.strides[PLACE], "tile_bytes": tile_bytes, "channel_bytes": 4 * steps * width,
        "panel_bytes": 4 * steps * width * sizes[INPUT], "columns": width, "target_channel": target.strides[CHANNEL],
        "target_down": target.strides[ROW], "x_at": at[0], "weights_at": at[1], "result_at": at[2],
        "rank": len(sides.batch), **dict(zip(TILES, [*tiles, *map(_kernel, ended)], strict=True)),
    }  # fmt: skip
    fixed = (*(words[name] for name in WORDS[2:]), *(sizes[k] for k in sides.batch))
    kernel = get_kernel("bands", make_bands)
    return ContractProgram(kernel, fixed, sections, bands * chunks * count, size, panels.layouts)


def _plane(lines: _Lines, rows: int, reach: int) -> int:
    """The bytes of a channel of a band: an odd number of the cache's lines, whose places differ then."""
    size = ((rows - 1) * lines.stride + reach) * lines.pitch
    return (-(-size // LINE) | 1) * LINE


def _fits(sides: _Bands, lines: _Lines, rows: int, sums: int) -> bool:
    sizes = sides.found.sizes
    reach = (sizes[DOWN] - 1) * lines.below + 1
    return sizes[INPUT] * _plane(lines, rows, reach) <= BAND and sums <= SUMS


def _kernel(tile: BandTile) -> int:
    return get_kernel(tile.name, functools.partial(make_band_tile, tile)).address
