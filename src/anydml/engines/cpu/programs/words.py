"""The words that all kernels have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.ir.plan import Loops
    from anydml.ir.views import View

STREAM_FROM = 32 * 1024 * 1024
"""Bytes of output from which on it is written past the cache."""

LINE = 64


def outer_words(loops: Loops, width: int, dimensions: int) -> list[int]:
    """The words of outer dimensions: size, then the stride of each view in bytes."""
    words = []
    for k in range(dimensions):
        words += [loops.sizes[k], *(row[k] * width for row in loops.strides)]
    return words


def keeps_lines(target: View) -> bool:
    """Whether every row lies alike in the cache's lines: what is aligned in one is in all."""
    width = target.data_type.size_in_bytes
    return all(s == 1 or s * width % LINE == 0 for n, s in zip(target.sizes, target.strides, strict=True) if n > 1)
