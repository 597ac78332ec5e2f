"""Contractions of bytes, planned: how dot instructions take them, and what zero points add."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.kernels.matrices import LINE
from anydml.engines.cpu.kernels.mend import make_mend
from anydml.engines.cpu.kernels.octets import FOUR, Octets, make_octets
from anydml.engines.cpu.kernels.totals import make_total
from anydml.engines.cpu.programs.sides import NOWHERE, byte_less_zero
from anydml.engines.cpu.tiles import has_dots, has_matrices, multiplies_bytes
from anydml.enums import DataType
from anydml.ir.expressions import const

if TYPE_CHECKING:
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.kernels.tile import Tile
    from anydml.engines.cpu.programs.contracted import Section
    from anydml.engines.cpu.programs.sides import Sides
    from anydml.ir.expressions import Expr


class OctetPlan(NamedTuple):
    """A product of bytes."""

    factors: tuple[tuple[Section, Kernel], ...]
    """With what packs each."""
    zeros: tuple[Section, ...]
    """Of both zero points; empty where there is nothing to mend."""
    mends: int
    """0 where there is nothing to mend; 1 where columns have one zero point, else 2."""
    kernels: tuple[int, ...]
    """That add up each factor's bytes, and that mend sums."""
    right: Expr
    """The load of the right factor."""
    flips: bool
    """Whether its bytes are multiplied with the other sign."""
    is_turned: bool
    """Whether the left factor is signed and the right one is not, as they lie."""
    filled: int
    """Of the steps of a panel there is a multiple: past the end lies 0."""


def _folded(value: Expr) -> Expr:
    """A difference of constants as one."""
    if value.op == "sub" and all(arg.op == "const" for arg in value.args):
        return const(value.args[0].value - value.args[1].value, value.type)
    return value


def _is_none(zero: Expr) -> bool:
    """Whether a zero point is 0."""
    return zero.op == "const" and not zero.value


def plan_octets(sides: Sides, tile: Tile) -> OctetPlan | None:
    """How bytes less their zero points are multiplied by dot instructions; None where they are not, or cannot be."""
    found = [byte_less_zero(value) for value in (sides.left, sides.right)]
    if sides.kind != "i32" or None in found or not multiplies_bytes(tile.lanes):
        return None
    columns = tile.vectors * tile.lanes
    # Panels of a constant are the same for any number of rows, whichever tile those take.
    filled = LINE if has_matrices() else FOUR
    factors, zeros, totals = [], [], []
    # Sums with which nothing is to be done are of bytes as they lie, an x86 multiplies those of either sign.
    kinds = [part[0].type if part is not None and _is_none(part[1]) else None for part in found]
    is_turned = not IS_ARM and kinds == [DataType.INT8, DataType.UINT8]
    for part, is_left, across, panel, pitch in (
        (found[0], True, sides.rows, tile.rows, tile.pitch),
        (found[1], False, sides.columns, columns, columns),
    ):
        assert part is not None  # noqa: S101 - for type checkers
        leaf, zero = part
        if sides.folded and any(lie.along(sides.folded) for lie in sides.lies(zero)):
            return None
        lie = sides.lie(leaf)
        step, on = lie.along(sides.folded), lie.along(across)
        lies = "p" if on == 1 else "t" if step == 1 else "s"
        if sides.windows is not None and not is_left:
            lies, (on, step) = "w", sides.tables()
        # An Arm takes signed bytes, an x86 unsigned ones on the left.
        flips = (leaf.type is DataType.UINT8) != (is_left and not IS_ARM) and not is_turned
        shape = Octets(
            lies, flips, panel, pitch, tile.lanes, IS_ARM, is_left, has_dots(tile.lanes), is_turned and is_left, filled,
            is_left and tile.kind == "matrices",
        )  # fmt: skip
        pack = get_kernel(f"octets {shape.name}", functools.partial(make_octets, shape))
        factors.append((sides.section((), [lie], [step], [on]), pack))
        totals.append(get_kernel(f"total {shape.name}", functools.partial(make_total, shape)).address)
        offset = 0 if not flips else 128 if leaf.type is DataType.UINT8 else -128
        zeros.append((zero - offset, across))
    kernels = (*totals, get_kernel("mend", make_mend).address)
    if all(_is_none(_folded(value)) for value, _ in zeros):
        return OctetPlan(tuple(factors), (), 0, kernels, leaf, flips, is_turned, filled)
    sections = tuple(sides.mapped(value, across, (), NOWHERE, 4) for value, across in zeros)
    is_one = not any(lie.strides[k] for lie in sides.lies(zero) for k in sides.columns)
    return OctetPlan(tuple(factors), sections, 1 if is_one else 2, kernels, leaf, flips, is_turned, filled)
