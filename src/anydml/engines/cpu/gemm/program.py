"""The records of GEMM, convolution and attention kernels: fields, sections of factors and results, and tables."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.kernel import Address
from anydml.engines.cpu.launch.record import Pointer, Record
from anydml.engines.cpu.threads.scratch import get_scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.engines.cpu.gemm.operands import StridedOperand
    from anydml.engines.cpu.launch.record import Layout


Section = Record
"""What a kernel knows of a factor or of the result: the address of a row's kernel, how many views and numbers there
are, the views' addresses, their steps, the numbers, the views' strides across, and those of each dimension of the
batch."""


def section_of(
    kernel: int, views: Sequence[StridedOperand], steps: Sequence[int], numbers: Sequence[int], across: Sequence[int],
    batch: Iterable[int],
) -> Section:  # fmt: skip
    """A section; `batch` are the dimensions of the batch."""
    strides = [view.strides[k] if view.strides else 0 for k in batch for view in views]
    pointers = [Pointer(view.tensor, view.offset) for view in views]
    return Record.of((kernel, len(views), len(numbers)), pointers, steps, numbers, across, strides)


def record_of(
    layout: Layout, fields: Mapping[str, int], batch: Sequence[int], sections: Mapping[str, Section]
) -> Record:
    """A record of fields, the sizes of the batch, and sections, of which `NAME_at` is told: the words they begin at."""
    at, places = layout.end + len(batch), dict[str, int]()
    for name, section in sections.items():
        places[f"{name}_at"] = at
        at += len(section.words)
    scratch = get_scratch()
    own = {"slots": scratch.address, "slot_count": scratch.number, "rank": len(batch), **places}
    return Record.of(layout.write({**own, **fields}), batch, *sections.values())


@functools.cache  # a kernel may read a table as long as its program is bound somewhere
def distances(sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The distance from the first of each element, in the order of the dimensions."""
    found = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return found


def place_of(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Address:
    """Where a table of distances lies."""
    return Address.of(distances(sizes, strides).ctypes.data, place_of, sizes, strides)


@functools.cache  # as above
def pieces(
    sizes: tuple[int, ...], strides: tuple[int, ...], length: int, chain: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A table of runs of memory, of which none is longer than a chain, and whether sums are put down after each."""
    found: list[tuple[int, int, int]] = []
    run = 0
    for far in distances(sizes, strides).tolist():
        for first in range(0, length, chain):
            steps = min(chain, length - first)
            if run + steps > chain:
                found[-1] = (*found[-1][:2], 1)
                run = 0
            run += steps
            found.append((far + 4 * first, steps, 0))
    return np.array([len(found), *(number for piece in found for number in piece)], np.int64)


def place_of_pieces(sizes: tuple[int, ...], strides: tuple[int, ...], length: int, chain: int) -> Address:
    """Where a table of pieces lies."""
    where = pieces(sizes, strides, length, chain).ctypes.data
    return Address.of(where, place_of_pieces, sizes, strides, length, chain)
