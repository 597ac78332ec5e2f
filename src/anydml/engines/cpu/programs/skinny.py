"""Contractions of a few rows, planned: which kernel reads the right factor as it lies."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.kernels.bringing import DOTS, STRIP
from anydml.engines.cpu.kernels.dots import SHORT, make_dots
from anydml.engines.cpu.kernels.rare import find_rare
from anydml.engines.cpu.kernels.room import RIGHT
from anydml.engines.cpu.kernels.row import givens
from anydml.engines.cpu.kernels.skinny import WIDE, Skinny, make_strip
from anydml.engines.cpu.programs.map import row_letter, word_of
from anydml.engines.cpu.programs.sides import NOWHERE, SKINNY
from anydml.engines.cpu.programs.units import threads_for
from anydml.ir.trees import walk, write

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.tile import Tile
    from anydml.engines.cpu.programs.contracted import Section
    from anydml.engines.cpu.programs.sides import Sides

CELL = 4
"""Bytes of a factor's element that tiles read where it lies."""
FEW = 4
"""Rows for which dot products of a small factor take less time than tiles, which have it packed: 12 of 1 x 129 x 64
take 0.029 ms in place of 0.036, with a factor that is scaled 0.036 in place of 0.135 (one thread of a Neoverse-N1)."""
LEAST = 512
"""Elements of a small factor from which on that is so."""
LARGE = 16 * 1024
"""Elements of a factor from which on it is read once."""
MOST = {16: 14}
"""Rows that are read once, by lanes, where there are more of them: 9 x 768 x 768 takes 150 us so, and 235 packed, 14 x
4096 x 4096 9.1 ms, and 12.8; transposed a half to eight tenths (one thread)."""
NEARBY = 160 * 1024
"""Elements of a factor that an x86's second cache has: tiles of few rows read it where it lies, with the columns of a
few steps to come fetched. 5 x 256 x 256 takes 5.3 us so, and 11 by strips; 12 x 384 x 384 31 us, and 55 packed (one
thread, 16 lanes)."""
NEARBY_PANELS = 2
"""And the most panels of rows that do."""


def is_nearby(sides: Sides, tile: Tile) -> bool:
    """Whether tiles read the right factor where it lies, in the second cache."""
    if tile.by_lane or sides.m > NEARBY_PANELS * tile.rows or sides.n * sides.k > NEARBY or sides.windows is not None:
        return False
    if sides.right.op != "load":
        return False
    lie = sides.lie(sides.right)
    return lie.width == lie.along(sides.columns) == CELL


def plan_skinny(sides: Sides, tile: Tile) -> tuple[Section, int] | None:
    """The section of a right factor that is read once, for a few rows; None where it lies neither way."""
    nodes = list(walk(sides.right))
    leaves = tuple(node for node in nodes if node.op in ("load", "coordinate"))
    is_across = sides.is_across(sides.right, sides.columns)
    is_computed = any(node.op not in ("load", "cast") for node in nodes)
    most = SKINNY if is_computed else MOST.get(tile.lanes, SKINNY)
    is_early = is_computed or (not is_across and sides.m <= FEW)
    is_small = sides.n * sides.k < (LEAST if is_early else LARGE) or is_nearby(sides, tile)
    if sides.m > most or is_small or find_rare(nodes):
        return None
    inner, outer = (sides.columns, sides.folded) if is_across else (sides.folded, sides.columns)
    lies = [sides.lie(node) for node in leaves]
    letters = "".join(row_letter(2 if lie.along(inner) % lie.width else lie.along(inner) // lie.width) for lie in lies)
    if "p" not in letters or (not is_across and sides.m * (sides.k + 2 * WIDE) * 4 > RIGHT):
        return None
    is_short = not is_across and sides.k <= SHORT
    is_cut = tile.by_lane and threads_for(sides) > 1
    shape = Skinny(sides.m, tile.lanes, tile.pitch, tile.by_lane, is_short, is_cut, leaves, letters)
    family, make = ("strip", make_strip) if is_across else ("dots", make_dots)
    key = f"{write(sides.right, numbers=False)} {shape[:6]} {letters}"
    name = f"{family} {hashlib.sha256(key.encode()).hexdigest()[:32]}"
    kernel = get_kernel(name, functools.partial(make, sides.right, shape))
    numbers = [word_of(node) for node in givens(nodes)]
    steps, across = [lie.along(inner) for lie in lies], [lie.along(outer) for lie in lies]
    section = sides.section((kernel.address, *numbers), [*lies, NOWHERE], [*steps, 4], [*across, 0])
    return section, STRIP if is_across else DOTS
