"""Contractions of bytes, planned: how dot instructions take them, and what zero points add."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.kernels.fourfold import FOUR, SIGNED_PAIR, UNSIGNED_PAIR
from anydml.engines.cpu.kernels.matrices import LINE
from anydml.engines.cpu.kernels.mend import make_mend
from anydml.engines.cpu.kernels.octet_vectors import Octets
from anydml.engines.cpu.kernels.octets import make_octets
from anydml.engines.cpu.kernels.pack import GROUP
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
    small: Octets | None
    """How the left factor is packed for a tile of small bytes; None where there is none."""
    zeros: tuple[Section, ...]
    """Of both zero points; empty where there is nothing to mend."""
    mends: int
    """0 where there is nothing to mend; 1 where columns have one zero point, else 2."""
    kernels: tuple[int, ...]
    """That add up each factor's bytes, and that mend sums."""
    left: Expr
    """The load of the left factor."""
    right: Expr
    """The load of the right factor."""
    flips: bool
    """Whether its bytes are multiplied with the other sign."""
    is_turned: bool
    """Whether the left factor is signed and the right one is not."""
    filled: int
    """Of the steps of a panel there is a multiple: past the end lies 0."""

    def most(self, *, is_left: bool) -> int:
        """The most that two neighbours of a factor may add up to, so that they are small."""
        return SIGNED_PAIR if is_left == self.is_turned else UNSIGNED_PAIR

    def small_kernels(self) -> tuple[int, int]:
        """That pack the left factor for a tile of small bytes, and that add those up."""
        return (0, 0) if self.small is None else (_pack(self.small).address, _total(self.small))


def _pack(shape: Octets) -> Kernel:
    return get_kernel(f"octets {shape.name}", functools.partial(make_octets, shape))


def _total(shape: Octets) -> int:
    return get_kernel(f"total {shape.name}", functools.partial(make_total, shape)).address


def _folded(value: Expr) -> Expr:
    """A difference of constants as one."""
    if value.op == "sub" and all(arg.op == "const" for arg in value.args):
        return const(value.args[0].value - value.args[1].value, value.type)
    return value


def _is_none(zero: Expr) -> bool:
    """Whether a zero point is 0."""
    return zero.op == "const" and not zero.value


def plan_octets(sides: Sides, tile: Tile, constants: frozenset[str] = frozenset()) -> OctetPlan | None:
    """How bytes less their zero points are multiplied by fours; None where they are not, or cannot be."""
    found = [byte_less_zero(value) for value in (sides.left, sides.right)]
    if sides.kind != "i32" or None in found or not multiplies_bytes(tile.lanes):
        return None
    columns = tile.vectors * tile.lanes
    # Panels of a constant are the same for any number of rows, whichever tile those take.
    filled = LINE if has_matrices() else FOUR
    factors, zeros, totals, leaves = [], [], [], []
    small = None
    # An x86 multiplies an unsigned byte by a signed one, on either side. Constants stay signed, for they may be small,
    # and so does the other factor of windows, whose sums are taken.
    kinds = [part[0].type for part in found if part is not None]
    is_turned = not IS_ARM and kinds[0] is DataType.INT8
    is_turned = is_turned and (
        kinds[1] is DataType.UINT8
        or sides.windows is not None
        or any(lie.tensor in constants for part in found[:1] if part for lie in sides.lies(part[0]))
    )
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
        is_signed = IS_ARM or is_left == is_turned
        flips = (leaf.type is DataType.INT8) != is_signed
        is_lined = is_left and tile.kind == "matrices"
        is_wide = is_left and not (is_lined or has_dots(tile.lanes))
        shape = Octets(
            lies, flips, panel, pitch, tile.lanes, IS_ARM, has_dots(tile.lanes), is_wide, is_signed, filled, is_lined
        )
        factors.append((sides.section((), [lie], [step], [on]), _pack(shape)))
        totals.append(_total(shape))
        if is_wide and tile.lanes > GROUP:
            small = shape._replace(is_wide=False)
        leaves.append(leaf)
        offset = 0 if not flips else 128 if leaf.type is DataType.UINT8 else -128
        zeros.append((zero - offset, across))
    kernels = (*totals, get_kernel("mend", make_mend).address)
    if all(_is_none(_folded(value)) for value, _ in zeros):
        return OctetPlan(tuple(factors), small, (), 0, kernels, leaves[0], leaf, flips, is_turned, filled)
    sections = tuple(sides.mapped(value, across, (), NOWHERE, 4) for value, across in zeros)
    is_one = not any(lie.strides[k] for lie in sides.lies(zero) for k in sides.columns)
    mends = 1 if is_one else 2
    return OctetPlan(tuple(factors), small, sections, mends, kernels, leaves[0], leaf, flips, is_turned, filled)
