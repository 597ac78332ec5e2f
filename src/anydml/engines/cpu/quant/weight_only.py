"""Weight-only quantisation: products of few rows with 4- and 8-bit weights, planned. Rows are rounded to integers of
three int8 digits, with a power of two for each portion, and columns cut into work items.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.features import IS_ARM, has_feature, has_fma, has_rounding
from anydml.engines.cpu.gemm.operands import NOWHERE, MergedOperands
from anydml.engines.cpu.gemm.program import GemmProgram
from anydml.engines.cpu.gemm.tile_shapes import has_dots
from anydml.engines.cpu.launch.call import SMALL
from anydml.engines.cpu.launch.record import HEADER
from anydml.engines.cpu.quant.column_per_lane import ColumnPerLane, lanes_abreast, lay_out_abreast, plan_column_per_lane
from anydml.engines.cpu.quant.weight_only_kernel import (
    MOST_ROWS,
    PORTION,
    TOGETHER,
    WORDS,
    Digits,
    Quantised,
    bytes_of,
    make_digits,
    make_plain,
    make_quantised,
    make_rounded,
    make_weights,
)
from anydml.engines.cpu.rows.walk import OUTER_RANK, VIEWS
from anydml.ir.blocked_weights import has_way, match_weights
from anydml.ir.contraction import Contraction, StridedOperand
from anydml.ir.patterns import copy_of
from anydml.ir.trees import fetched
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.engines.cpu.gemm.operands import Operands
    from anydml.engines.cpu.gemm.program import Section
    from anydml.ir.blocked_weights import Dequantised
    from anydml.ir.verbs import Map, Reduce


ROWS = 8
"""Rows of a unit at most: their sums are in registers."""
TURNS = 2
"""Units of columns for each thread."""


def plan_weight_only(primitive: Reduce) -> GemmProgram | None:
    """Integer products of a few rows with weights as they lie; None where they lie otherwise."""
    return _plan(primitive, frozenset())


def plan_weight_only_prepacked(primitive: Reduce, constants: frozenset[str]) -> GemmProgram | None:
    """The same bits, from weights that are constants, whose words are laid out ahead; None for others."""
    return _plan(primitive, constants) if constants else None


def _plan(primitive: Reduce, constants: frozenset[str]) -> GemmProgram | None:
    found = match_weights(primitive)
    if found is None or not (has_rounding() and has_fma()) or not all(primitive.sizes) or fetched(primitive.value):
        return None
    right, sizes, kept = found.right, primitive.sizes, len(primitive.sizes) - primitive.depth
    leaves = [leaf for leaf in (right.byte, right.scale, right.zero) if leaf is not None and leaf.op == "load"]
    views = [primitive.sources[int(leaf.value)] for leaf in leaves]
    wide = [k for k, size in enumerate(sizes) if size > 1]
    columns = tuple(k for k in wide if k < kept and any(view.strides[k] for view in views))
    rows = tuple(k for k in wide if k < kept and k not in columns)
    # The weights' own views lie otherwise along the sum: the left factor stands for both.
    rounded = found.rounded
    left_of = found.left if rounded is None else rounded.byte
    both = (left_of, left_of)
    sides = MergedOperands(
        primitive, Contraction(found.fold, *both, sizes, (), rows, columns, tuple(k for k in wide if k >= kept))
    )
    planned = _shape(primitive, right)
    several = [len(sides.lies(value)) for value in (sides.left, sides.finish)]
    is_ours = set(sides.columns) <= set(columns) and not sides.unmerged and len(sides.batch) <= OUTER_RANK
    if planned is None or not (is_ours and sides.columns) or not several[0] or max(several) >= VIEWS:
        return None
    shared, shape = planned
    if rounded is not None:
        shape = shape._replace(places=1)
    lies = [sides.lie(leaf) for leaf in leaves]
    lanes = lanes_abreast(shape.bits)
    layouts: dict[str, Map] = {}
    if constants:
        column = sides.columns[-1]
        is_batched = len(sides.columns) > 1 or any(views[0].strides[k] for k in sides.batch)
        laid_out = None if is_batched else lay_out_words(primitive, views[0], column, sides.k, shape.bits)
        if laid_out is None or views[0].tensor not in constants:
            return None
        name, on = laid_out.target.tensor, 0 if lanes else laid_out.target.strides[0]
        lies[0] = StridedOperand(name, 0, tuple(on if k == sides.columns[-1] else 0 for k in range(len(sizes))), 1)
        layouts, shape = {name: laid_out}, shape._replace(is_laid_out=True)
    weights = sides.section((), lies, [shared] * len(lies), [lie.along(sides.columns) for lie in lies])
    if rounded is None:
        left = sides.mapped(sides.left, sides.folded, sides.rows, NOWHERE, 4)
    else:
        pair = [sides.lie(rounded.byte), sides.lie(rounded.scale)]
        strides = primitive.sources[int(rounded.scale.value)].strides[-primitive.depth :]
        if pair[0].along(sides.folded) != 1 or not _is_by_block(strides, sizes[kept]):
            return None
        left = sides.section((), pair, [1, 0], [lie.along(sides.rows) for lie in pair])
    sections = (left, weights, sides.result())
    if not lanes:
        return _program(sides, shape, sections, layouts)
    zero = 0 if shape.has_zeros else shape.zero - shape.raised
    abreast = ColumnPerLane(0, 0, lanes, shape.is_signed, shape.has_zeros, zero, rounded is not None)
    return plan_column_per_lane(sides, abreast, sections, layouts)


def _is_by_block(strides: tuple[int, ...], blocks: int) -> bool:
    """Whether there is one for each block along the sum, side by side; that of a single block has no stride."""
    return not any(strides[1:]) and (blocks == 1 or strides[0] == 1)


def lay_out_words(primitive: Reduce, view: View, column: int, length: int, bits: int) -> Map | None:
    """How the words of weights are laid out, for `TOGETHER` portions or for panels; None where some are left over."""
    tensors, lanes = [one.tensor for one in primitive.sources], lanes_abreast(bits)
    if tensors.count(view.tensor) > 1:
        return None
    name = f"{view.tensor} in words"
    while name in (*tensors, primitive.target.tensor):
        name += " more"
    if lanes:
        return lay_out_abreast(view, name, primitive.sizes[column], view.strides[column], length, lanes)
    if length % (PORTION * TOGETHER):
        return None
    width = PORTION * bits // 8
    sizes = (primitive.sizes[column], length // (PORTION * TOGETHER), width // 4, TOGETHER, 4)
    source = replace(view, sizes=sizes, strides=(view.strides[column], TOGETHER * width, 4, width, 1))
    strides = tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))
    return copy_of(source, View(name, view.data_type, sizes, strides))


def _shape(primitive: Reduce, right: Dequantised) -> tuple[int, Quantised] | None:
    """The portions that share a scale, and what the kernels are written for; None where weights lie otherwise."""
    depth, is_paired = primitive.depth, right.data_type.is_half_byte
    blocks, *inner = primitive.sizes[-depth:]
    byte, *scales = (
        primitive.sources[int(leaf.value)].strides[-depth:]
        for leaf in (right.byte, right.scale, right.zero)
        if leaf is not None and leaf.op == "load"
    )
    is_half = not is_paired or (inner[1:] == [2] and right.half == len(primitive.sizes) - 1)
    if depth != 2 + is_paired or not is_half or not has_way(math.prod(inner), blocks):
        return None
    first = int(blocks == 1)  # which has no stride
    if byte[first:] != (inner[0], 1, 0)[first:depth] or not all(_is_by_block(x, blocks) for x in scales):
        return None
    shared = math.prod(inner) // PORTION
    zero = 0 if right.zero is None or right.zero.op == "load" else int(right.zero.value)
    shape = Quantised(
        rows=0, lanes=_lanes(), bits=4 if is_paired else 8, is_signed=right.data_type.is_signed,
        has_zeros=len(scales) > 1, zero=0, shared=min(shared, TOGETHER), dots=has_dots(_lanes()), is_arm=IS_ARM,
    )  # fmt: skip
    return shared, shape._replace(zero=0 if shape.has_zeros else zero + shape.raised)


def _lanes() -> int:
    return 8 if not IS_ARM and has_feature("avx2") else 4


def _program(
    sides: Operands, shape: Quantised, sections: tuple[Section, ...], layouts: Mapping[str, Map]
) -> GemmProgram:
    portions = sides.k // PORTION
    height = min(sides.m, ROWS if bytes_of(portions, min(sides.m, ROWS)) <= figures().gemm.right_bytes else MOST_ROWS)
    # 32 sums of 4-bit weights have room for 31 bits: weights less 8 are at most 8, and less another zero point 15.
    is_even = shape.bits == 8 or (shape.zero == 8 and not shape.has_zeros)
    digits = Digits(23 if is_even else 22, shape.bits == 4, 1 if shape.bits == 8 or shape.has_zeros else -shape.zero)
    is_rounded = shape.places == 1
    digits_of = (
        get_kernel(f"rounded {digits.name}", functools.partial(make_rounded, digits))
        if is_rounded
        else get_kernel(digits.name, functools.partial(make_digits, digits))
    )
    some = min(height, MOST_ROWS)
    kernels = [
        get_kernel(f"quantised {one.name}", functools.partial(make_quantised, one)).address
        for one in (shape._replace(rows=rows) for rows in (some, sides.m % some or some))
    ]
    plain = get_kernel(f"plainly {shape.name}", functools.partial(make_plain, shape)).address
    batch, row_units = sides.count(sides.batch), -(-sides.m // height)
    size = sides.n * sides.k * shape.bits // 8 * sides.m * batch
    wanted = 1 if size < SMALL else -(-TURNS * get_num_threads() // (batch * row_units))
    units = min(max(wanted, -(-sides.n * height // (figures().gemm.result_bytes // 4))), sides.n)
    places = [HEADER + len(WORDS) + len(sides.batch)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    fixed = (
        sides.m, sides.n, portions, row_units, units, height, some,
        digits_of.address, *kernels, plain, *places[:3],
        len(sides.batch), int(is_rounded), *(sides.found.sizes[k] for k in sides.batch),
    )  # fmt: skip
    number = batch * row_units * units
    return GemmProgram(get_kernel("weights", make_weights), fixed, sections, number, size, layouts)
