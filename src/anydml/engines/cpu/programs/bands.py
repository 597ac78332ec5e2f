"""Convolutions of planes by many channels, planned: the tile, the bands of the output, and how weights lie.

The input's lines are copied with their padding, and read as they lie: nothing is packed for the tiles. Weights are a
constant, laid out ahead in panels of channels.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import has_feature, reads_pixels
from anydml.engines.cpu.kernels import HEADER, LINE
from anydml.engines.cpu.kernels.band_lines import BandLine, make_band_lines
from anydml.engines.cpu.kernels.band_tile import BandTile
from anydml.engines.cpu.kernels.bands import TILES, WORDS, make_bands
from anydml.engines.cpu.kernels.endings import COLUMN, FOLD, Ending
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.tile import CHAIN
from anydml.engines.cpu.programs import band_units
from anydml.engines.cpu.programs.band_units import (
    BATCH,
    BESIDE,
    CHANNEL,
    DOWN,
    GROUP,
    INPUT,
    LEAST_LANES,
    LEAST_PLACES,
    OFTEN,
    PLACE,
    ROW,
    Bands,
    shape_of,
    size_of,
    units_of,
)
from anydml.engines.cpu.programs.contracted import ContractProgram, place_of
from anydml.engines.cpu.programs.endings import CHEAP, SHORT
from anydml.engines.cpu.programs.frames import match_frame
from anydml.engines.cpu.programs.panels import lay_out_places
from anydml.enums import DataType
from anydml.ir.patterns import Contraction, match_contraction
from anydml.ir.trees import walk
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.programs.band_units import Shape
    from anydml.engines.cpu.programs.frames import Frame
    from anydml.engines.cpu.programs.sides import Lie
    from anydml.ir.verbs import Primitive

FEW = 16
"""Channels of the input below which each is a chain of its own, as in ONNX Runtime: longer ones have larger errors, of
12 channels, 3 x 3, twice as large."""


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
    reach: int
    """Lines of a window."""


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
        sides = Bands(primitive, Contraction(found.fold, x, weights, *own))
        ending, lines = _ending(sides), _lines(sides, frame)
        if ending is not None and lines is not None:
            return _program(sides, ending, lines, constants)
    return None


def _ending(sides: Bands) -> Ending | None:
    """The value computed from sums, if it is short and has a number for each channel at most."""
    leaves, lies = sides.leaves(sides.finish)
    nodes, target = list(walk(sides.finish)), sides.target
    is_ours = target.width == 4 and target.strides[PLACE] == 4 and len(leaves) < VIEWS and len(nodes) <= SHORT
    if not is_ours or any(node.op not in CHEAP for node in nodes):
        return None
    moves = []
    for leaf, lie in zip(leaves, lies, strict=True):
        along = lie.strides[CHANNEL]
        is_fixed = not any(lie.strides[k] for k in (BATCH, ROW, PLACE))
        if leaf is not sides.sum and not (is_fixed and along in (0, lie.width)):
            return None
        moves.append(FOLD if leaf is sides.sum else COLUMN if along else "")
    return Ending(sides.finish, sides.sum, tuple(leaves), tuple(moves))


def _lines(sides: Bands, frame: Frame | None) -> _Lines | None:
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


def _reach(sides: Bands, *ways: int) -> int:
    """The bytes that all windows read along some dimensions."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    return 4 + sum((sizes[k] - 1) * x.strides[k] for k in ways)


def _program(sides: Bands, ending: Ending, lines: _Lines, constants: frozenset[str]) -> ContractProgram | None:
    sizes, target, x = sides.found.sizes, sides.target, sides.lie(sides.left)
    own, steps = 16 if has_feature("avx512vl") else 8, sizes[DOWN] * sizes[BESIDE]
    lanes = own if sides.n > LEAST_LANES else LEAST_LANES
    if sides.n % lanes or not 1 < steps <= CHAIN or sides.m < LEAST_PLACES:
        return None
    shape = shape_of(sides, lanes)
    width, count = shape.width, -(-sides.n // shape.width)
    units = units_of(sides, shape, lines.stride, lines.reach, lines.pitch, planes=sizes[INPUT], panels=count)
    panels = lay_out_places(sides, width, constants)
    if units is None or panels is None:
        return None
    is_few = FEW > sizes[INPUT] > 1 == sizes[GROUP]
    parts = 1 if is_few else -(-sizes[INPUT] // (CHAIN // steps))
    together = -(-sizes[INPUT] // parts)
    tiles = _tiles(sides, shape, lines, is_fetched=-(-units.rows // shape.lines) * -(-sides.m // shape.places) <= OFTEN)
    last = (sizes[INPUT] - (parts - 1) * together) * sizes[DOWN]
    chain = sizes[DOWN] if is_few else 0
    ended = [tile._replace(ending=ending, chain=chain, ahead=-(-tile.vectors * lanes // last)) for tile in tiles]
    kernels = [
        *([0] * len(tiles) if parts == 1 else map(band_units.tile_kernel, tiles)),
        *map(band_units.tile_kernel, ended),
    ]
    copy = BandLine(lines.size, lines.left, lines.pitch)
    sections = (sides.section((), [lines.x], [0], [0]), panels.section, sides.result(is_written=False))
    at = [HEADER + len(WORDS) + len(sides.batch)]
    for section in sections:
        at.append(at[-1] + len(section.words) + len(section.tensors))
    count = sides.count(sides.batch)
    words = {
        "channels": sizes[INPUT], "rows": sizes[ROW], "line": sides.m, "bands": units.bands, "chunks": units.chunks,
        "panels": -(-sides.n // width), "count": count, "x_step": lines.x_step, "x_down": lines.x_down,
        "copy": get_kernel(copy.name, functools.partial(make_band_lines, copy)).address, "top": lines.top,
        "height": lines.height, "fill": lines.fill, "pitch": lines.pitch, "plane": units.plane,
        "stride": lines.stride, "reach": lines.reach, "together": together, "taps": sizes[DOWN],
        "pieces": place_of((together, sizes[DOWN]), (units.plane, lines.below * lines.pitch)),
        "places_at_once": shape.places, "lines": shape.lines, "apart": x.strides[PLACE],
        "tile_bytes": 4 * shape.lines * shape.places * width if parts > 1 else 0, "channel_bytes": 4 * steps * width,
        "panel_bytes": 4 * sides.k * width, "columns": width, "target_channel": target.strides[CHANNEL],
        "target_down": target.strides[ROW], "x_at": at[0], "weights_at": at[1], "result_at": at[2],
        "rank": len(sides.batch), "fetches": int(tiles[0].fetches), "planes": sizes[INPUT], "piece_on": 0,
        "target_place": 4, "to_step": target.strides[CHANNEL], "group_panels": -(-sides.n // width), "group_bytes": 0,
        "group_columns": 0, "left_on": 0, "soon_bytes": LINE * tiles[0].soon,
        **dict(zip(TILES, kernels, strict=True)),
    }  # fmt: skip
    fixed = (*(words[name] for name in WORDS[2:]), *(sizes[k] for k in sides.batch))
    kernel, number = get_kernel("bands", make_bands), units.bands * units.chunks * count
    return ContractProgram(kernel, fixed, sections, number, size_of(sides), panels.layouts)


def _tiles(sides: Bands, shape: Shape, lines: _Lines, *, is_fetched: bool) -> list[BandTile]:
    """In the order of the kernel's: for a panel or the last, and for a line's places or the last."""
    x, sizes = sides.lie(sides.left), sides.found.sizes
    down = lines.stride * lines.pitch if shape.lines > 1 else 0
    walk = (sizes[BESIDE], down, x.strides[PLACE], x.strides[BESIDE])
    tile = BandTile(*shape, shape.width, *walk, fetches=is_fetched)
    low = tile._replace(lines=sizes[ROW] % shape.lines or shape.lines, places=sides.m % shape.places or shape.places)
    narrow = (sides.n % shape.width or shape.width) // shape.lanes
    return [each._replace(vectors=vectors) for vectors in (shape.vectors, narrow) for each in (tile, low)]
