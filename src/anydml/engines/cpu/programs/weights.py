"""Products with weights of few bits, planned: how rows become digits, and which columns a unit has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anydml.engines.cpu.build import IS_ARM, get_kernel, has_feature, has_fma, has_rounding
from anydml.engines.cpu.call import SMALL
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.digits import PORTION, TOGETHER, Digits, make_digits
from anydml.engines.cpu.kernels.plainly import make_plain
from anydml.engines.cpu.kernels.quantised import MOST_ROWS, Quantised, make_quantised
from anydml.engines.cpu.kernels.rows import VIEWS
from anydml.engines.cpu.kernels.weights import (
    MOST_BYTES,
    MOST_ELEMENTS,
    MOST_RESULTS,
    WORDS,
    bytes_of,
    make_weights,
)
from anydml.engines.cpu.programs.contract import ContractProgram
from anydml.engines.cpu.programs.sides import NOWHERE, Sides
from anydml.engines.threads import get_num_threads
from anydml.ir.patterns import Contraction
from anydml.ir.trees import fetched
from anydml.ir.weights import match_weights

if TYPE_CHECKING:
    from anydml.engines.cpu.programs.sides import Section
    from anydml.ir.verbs import Reduce
    from anydml.ir.weights import Dequantised

ROWS = 8
"""Rows of a unit at most: their sums are in registers."""
TURNS = 2
"""Units of columns for each thread."""


def plan_weights(primitive: Reduce) -> ContractProgram | None:
    """Integer products of a few rows with weights as they lie; None where they lie otherwise."""
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
    both = (found.left, found.left)
    sides = Sides(
        primitive, Contraction(found.fold, *both, sizes, (), rows, columns, tuple(k for k in wide if k >= kept))
    )
    shape = _shape(primitive, right, sides.k)
    several = [len(sides.lies(value)) for value in (sides.left, sides.finish)]
    is_one = len(columns) == 1 and sides.columns == columns and not sides.batch and not sides.unmerged
    if shape is None or not is_one or not several[0] or max(several) >= VIEWS:
        return None
    shared, shape = shape
    portions, height = sides.k // PORTION, min(sides.m, ROWS)
    if sides.k > MOST_ELEMENTS or bytes_of(portions, height) > MOST_BYTES:
        return None
    lies = [sides.lie(leaf) for leaf in leaves]
    weights = sides.section((), lies, [shared] * len(lies), [lie.along(columns) for lie in lies])
    left = sides.mapped(sides.left, sides.folded, sides.rows, NOWHERE, 4)
    return _program(sides, shape, (left, weights, sides.result()), height)


def _shape(primitive: Reduce, right: Dequantised, count: int) -> tuple[int, Quantised] | None:
    """The portions that share a scale, and what the kernels are written for; None where weights lie otherwise."""
    byte, *scales = (
        primitive.sources[int(leaf.value)].strides[-primitive.depth :]
        for leaf in (right.byte, right.scale, right.zero)
        if leaf is not None and leaf.op == "load"
    )
    is_paired = right.data_type.is_half_byte
    blocks, *inner = primitive.sizes[-primitive.depth :]
    wanted = (inner[0], 1, 0) if is_paired else (inner[0], 1)
    is_half = not is_paired or right.half == len(primitive.sizes) - 1
    block = count // blocks
    shared = block // PORTION
    is_even = shared in (1, 2) or shared % TOGETHER == 0 or blocks == 1
    if len(wanted) != primitive.depth or not is_half or block % PORTION or not is_even or inner[1:] != [2] * is_paired:
        return None
    by_block = {1 if blocks > 1 else 0}
    if tuple(byte[1:]) != wanted[1:] or (blocks > 1 and byte[0] != wanted[0]):
        return None
    # A scale for each block, or one for a whole column; zero points likewise.
    if any(any(steps[1:]) or (blocks > 1 and steps[0] not in (0, 1)) for steps in scales):
        return None
    if len({steps[0] for steps in scales if blocks > 1}) > 1 or by_block is None:
        return None
    if blocks > 1 and scales[0][0] == 0:
        shared = count // PORTION
    zero = 0 if right.zero is None or right.zero.op == "load" else int(right.zero.value)
    shape = Quantised(
        rows=0, lanes=_lanes(), bits=4 if is_paired else 8,
        is_signed=right.data_type.is_signed, has_zeros=len(scales) > 1, zero=0, shared=min(shared, TOGETHER),
        dots=_has_dots(), is_arm=IS_ARM,
    )  # fmt: skip
    return shared, shape._replace(zero=0 if shape.has_zeros else zero + shape.raised)


def _lanes() -> int:
    return 8 if not IS_ARM and has_feature("avx2") else 4


def _has_dots() -> bool:
    if IS_ARM:
        return has_feature("dotprod")
    return has_feature("avxvnni") or (has_feature("avx512vnni") and has_feature("avx512vl"))


def _program(sides: Sides, shape: Quantised, sections: tuple[Section, ...], height: int) -> ContractProgram:
    # 32 sums of 4-bit weights have room for 31 bits: weights less 8 are at most 8, and less another zero point 15.
    is_even = shape.bits == 8 or (shape.zero == 8 and not shape.has_zeros)
    digits = Digits(
        23 if is_even else 22, shape.bits == 4, 1 if shape.bits == 8 or shape.has_zeros else shape.zero
    )
    some = min(height, MOST_ROWS)
    kernels = [
        get_kernel(f"quantised {one.name}", functools.partial(make_quantised, one)).address
        for one in (shape._replace(rows=rows) for rows in (some, sides.m % some or some))
    ]
    plain = get_kernel(f"plainly {shape.name}", functools.partial(make_plain, shape)).address
    size = sides.n * sides.k * shape.bits // 8 * sides.m
    wanted = 1 if size <= SMALL else TURNS * get_num_threads()
    units = min(max(wanted, -(-sides.n * height // MOST_RESULTS)), sides.n)
    places = [HEADER + len(WORDS)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    fixed = (
        sides.m, sides.n, sides.k // PORTION, units, height, some,
        get_kernel(digits.name, functools.partial(make_digits, digits)).address, *kernels, plain, *places[:3],
    )  # fmt: skip
    return ContractProgram(get_kernel("weights", make_weights), fixed, sections, units * -(-sides.m // height), size)
