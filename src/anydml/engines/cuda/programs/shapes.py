"""Shared parts of the plans: powers of two, and strides and types as kernels know them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.enums import DataType

MOST_ALIGNED = 16
"""Elements: a thread moves 16 bytes at most."""

FULL = 0.9
"""The part of tiles' columns that wide tiles must fill, or narrower ones are taken."""


def ceil_power(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(number - 1, 0).bit_length()


def floor_power(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (number.bit_length() - 1)


def alignment_of(strides: Iterable[int]) -> int:
    """The largest power of two, up to 16, that divides all strides."""
    common = math.gcd(MOST_ALIGNED, *strides)
    return common & -common


def over(strides: Iterable[int], alignment: int) -> tuple[int, ...]:
    """Strides as kernels take them, divided by their alignment."""
    return tuple(stride // alignment for stride in strides)


def step_of(stride: int) -> int:
    """A stride that the compiler is to know; 2 stands for any other."""
    return stride if stride in (0, 1, -1) else 2


def fastest_first(sizes: Sequence[int], *strides: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Dimensions as kernels count them: the fastest first, and at least one."""
    if not sizes:
        return ((1,), *((0,) for _ in strides))
    return tuple(sizes[::-1]), *(tuple(row[::-1]) for row in strides)


def warps_for(elements: int, each: int = 16) -> int:
    """As many warps as have `each` elements for a thread, 1 to 8."""
    return min(max(floor_power(max(elements // (32 * each), 1)), 1), 8)


def columns_for(count: int, most: int) -> int:
    """The columns of a tile, a power of two: the widest up to `most` that leave less than a tenth of tiles empty."""
    widest = min(ceil_power(count), most)
    several = [max(widest >> k, 1) for k in range(3)]
    return next((n for n in several if count > FULL * (-(-count // n) * n)), widest)


def kind_of(data_type: DataType) -> str:
    """A type as Triton names it."""
    letters = "fp" if data_type.is_float else "i" if data_type.is_signed else "u"
    return f"{letters}{8 * data_type.size_in_bytes}"
