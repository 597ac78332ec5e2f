"""The argument record: 64-bit words that Python writes and a kernel reads.

A kernel is `kernel(words, begin, end)`: it does the work items begin .. end of what the words at an address describe,
and returns a status. It validates nothing and allocates nothing. The meaning of the words stands with each kernel; the
first `HEADER` of them belong to whoever calls: the number of work items, what is returned for the status 0 and for any
other, the kernel's address, and the bytes that all of it moves. A kernel uses less than 64 KiB of stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.ir.loops import Loops
    from anydml.ir.views import View


HEADER = 5
LINE = 64
"""Bytes of a line of the cache."""


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
