"""Bands of a convolution: its dimensions, the shape of its tiles, and how work is cut, whatever way pictures lie."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import SMALL
from anydml.engines.cpu.features import has_feature
from anydml.engines.cpu.kernels import LINE
from anydml.engines.cpu.kernels.band_tile import BandTile, make_band_tile
from anydml.engines.cpu.kernels.bands import BAND_AT
from anydml.engines.cpu.kernels.room import RESULT, RESULT_AT
from anydml.engines.cpu.programs.sides import Sides
from anydml.engines.cpu.programs.units import FLOPS, TURNS
from anydml.engines.threads import get_num_threads

BATCH, GROUP, CHANNEL, ROW, PLACE, INPUT, DOWN, BESIDE = range(8)
"""The dimensions of a convolution of planes, as its operator writes it: what is kept, then what is summed."""
BAND = 256 * 1024
"""Bytes of a band that has several lines: the second cache has it, and sums."""
ROOM = RESULT_AT - BAND_AT
"""Bytes of a band that a scratch has room for."""
SUMS = 128 * 1024
"""Bytes of sums of a band that has several lines."""
LEAST_LANES = 8
"""Channels that fill a vector at least."""
LEAST_PLACES = 4
"""Places of a line from which on it is worth a tile."""
LATENCY = 8
"""Vectors that are added to at once at least: each waits four cycles for the one before, and there are two units."""
LOADS = 1.2
"""Loads of a step that take as long as products: two take a cycle, but they come in pairs seldom."""
OVERHEAD = 0.5
"""Cycles of each step of a tile beside its products, that of its call and of its ending included."""
MOST_VECTORS = 4
OFTEN = 16
"""Tiles of a band up to which weights are fetched: more of them find those in the first cache for long."""


class Bands(Sides):
    """Rows are the places of a line, columns the channels of the output."""

    def _sort(self, *, has_lines: bool) -> None:  # noqa: ARG002 - the class above has it
        found = self.found
        self.windows, self.unmerged = None, ()
        self.rows, self.columns, self.batch, self.folded = found.rows, found.columns, found.batch, found.folded
        self.m, self.n, self.k = map(self.count, (self.rows, self.columns, self.folded))


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
        return max(rows * self.vectors, LATENCY, LOADS * (rows + self.vectors)) / 2 + OVERHEAD


def shape_of(sides: Bands, lanes: int) -> Shape:
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
    sides: Bands, shape: Shape, stride: int, reach: int, pitch: int, *, planes: int, panels: int
) -> _Units | None:
    """Bands that the second cache has, and work for every thread; None where a scratch has no room for a band.

    Each of some planes has lines `pitch` bytes apart: windows begin `stride` lines apart, and have `reach`.
    """
    sizes = sides.found.sizes
    groups, across = -(-sizes[ROW] // shape.lines), -(-sides.m // shape.places)
    count = sides.count(sides.batch)
    threads = 1 if size_of(sides) < SMALL else get_num_threads()
    wanted = 1 if threads == 1 else TURNS * threads
    for bands in range(min(groups, -(-wanted // count)), groups + 1):
        room, sums = (BAND, SUMS) if bands < groups else (ROOM, RESULT)
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


def size_of(sides: Bands) -> int:
    """The work, in bytes moved in its time."""
    return 2 * math.prod(sides.found.sizes) // FLOPS


def tile_kernel(tile: BandTile) -> int:
    """The address of a tile's kernel."""
    return get_kernel(tile.name, functools.partial(make_band_tile, tile)).address
