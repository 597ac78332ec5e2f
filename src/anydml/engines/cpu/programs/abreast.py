"""Products with 4-bit weights on CPUs without dot instructions, planned: a lane for each column.

With 16 lanes FLOAT32 takes 8 instructions for 128 weights and a row, bytes 5, and integers of three bytes, which CPUs
with dot instructions multiply, 36 of 8 lanes.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import SMALL
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.abreast import (
    FIELDS,
    MOST_PANELS,
    MOST_RESULTS,
    MOST_ROWS,
    bytes_of_panel,
    make_unit,
)
from anydml.engines.cpu.kernels.abreast_rows import Turned, make_floats, make_octets, make_turned
from anydml.engines.cpu.kernels.abreast_sums import STEPS, Abreast, make_abreast
from anydml.engines.cpu.kernels.digits import PORTION
from anydml.engines.cpu.programs.contracted import ContractProgram
from anydml.engines.cpu.tiles import has_dots
from anydml.engines.threads import get_num_threads
from anydml.enums import DataType
from anydml.ir.expressions import coordinate, fetch, given, minimum
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.programs.contracted import Section
    from anydml.engines.cpu.programs.sides import Sides

BITS = 4
"""Of a weight."""
TURNS = 2
"""Units of columns for each thread."""


def lanes_abreast(bits: int) -> int:
    """Columns of a panel of weights of some bits; 0 where they are multiplied otherwise."""
    return _lanes() if bits == BITS else 0


def _lanes() -> int:
    if IS_ARM or not has_feature("avx2") or has_dots(8):
        return 0
    return 16 if has_feature("avx512f") and has_feature("avx512bw") else 8


def lay_out_abreast(view: View, name: str, columns: int, on: int, length: int, lanes: int) -> Map:
    """How words of 8 weights are laid out for panels. Columns lie `on` bytes apart, and have so many weights.

    The last column stands for those that the last panel has too many.
    """
    sizes = (-(-columns // lanes), length // STEPS, lanes, 4)
    target = View(name, view.data_type, sizes, tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes))))
    if columns % lanes == 0:
        return copy_of(replace(view, sizes=sizes, strides=(lanes * on, 4, on, 1)), target)
    column = minimum(coordinate(0) * lanes + coordinate(2), given(columns - 1, DataType.INT64))
    source = replace(view, sizes=(columns, length // STEPS, 4), strides=(on, 4, 1))
    return Map((source,), target, fetch(0, view.data_type, [column, coordinate(1), coordinate(3)]))


def plan_abreast(
    sides: Sides, shape: Abreast, sections: tuple[Section, ...], layouts: Mapping[str, Map]
) -> ContractProgram:
    """The program; the sections are those of the rows, the weights and the result."""
    lanes, portions, panels = shape.lanes, sides.k // PORTION, -(-sides.n // shape.lanes)
    height = min(sides.m, MOST_ROWS // (4 * sides.k))
    some, wide = _tile(height, shape)
    height = height if height == sides.m else height - height % some
    wide = min(wide, panels, MOST_PANELS // bytes_of_panel(portions, lanes))
    batch, row_units = sides.count(sides.batch), -(-sides.m // height)
    size = sides.n * sides.k // 2 * sides.m * batch
    wanted = 1 if size < SMALL else -(-TURNS * get_num_threads() // (batch * row_units))
    least = -(-2 * panels * lanes * 4 * height // MOST_RESULTS)  # twice, as one unit may have a panel more
    units = min(max(wanted, least), panels // wide)
    row_of = (
        get_kernel("abreast octets", make_octets) if shape.is_rounded else get_kernel("abreast floats", make_floats)
    )
    kernels = [
        get_kernel(one.name, functools.partial(make_abreast, one)).address
        for one in (shape._replace(rows=rows, panels=wide) for rows in (some, sides.m % some or some))
    ]
    kinds = ("f32", *(("s8" if shape.is_signed else "u8",) if shape.has_zeros else ()))
    turns = [
        get_kernel(one.name, functools.partial(make_turned, one)).address for one in (Turned(lanes, k) for k in kinds)
    ]
    places = [HEADER + len(FIELDS) + len(sides.batch)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    fixed = (
        sides.m, sides.n, portions, row_units, units, height, some, wide, lanes, row_of.address, *kernels,
        turns[0], turns[1] if shape.has_zeros else 0, *places[:3], len(sides.batch), int(shape.is_rounded),
        int(bool(layouts)), *(sides.found.sizes[k] for k in sides.batch),
    )  # fmt: skip
    number = batch * row_units * units
    return ContractProgram(get_kernel("abreast", make_unit), fixed, sections, number, size, layouts)


def _tile(rows: int, shape: Abreast) -> tuple[int, int]:
    """The rows of a tile and its panels, whose sums have room in the registers; tiles are about alike.

    4096 x 4096 takes 0.30 ms a row by tiles of 4 x 4, 5 x 4, 6 x 2, 8 x 2 or 12 x 2, and 0.41 by 4 x 2, whose sums wait
    for one another (one thread, 16 lanes).
    """
    most, few = (8, 4 if shape.has_zeros else 5) if shape.lanes == 16 else (4, 1)
    some = -(-rows // -(-rows // most))
    return some, 4 if some <= few else 2
