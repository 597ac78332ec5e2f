"""Memory that kernels work in beside what they are given: blocks for the whole process, more than threads.

A block's first word says whether somebody is in it; kernels take one for a turn, and give it back. In a block those of
GEMM, convolution and attention keep packed operands, sums and results, as its `Workspace` says.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import NamedTuple

import numpy as np

from anydml.core.memory import keep_for_ever
from anydml.engines.common.cores import count_cores
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.kernel import Address

PAGE = 4096
PANEL = 64
"""The most rows or columns of a tile."""
RIGHT_AT = 64
"""The right block, after the scratch's lock."""


class Workspace(NamedTuple):
    """Bytes of a scratch at which parts begin, and all of them."""

    left_at: int
    """The left panel."""
    stage_at: int
    """A factor's rows."""
    result_at: int
    totals_at: int
    """Zero-point compensation."""
    sums_at: int
    """Sums of a contraction: what lies before is not a contraction's alone."""
    size: int


@functools.cache
def workspace() -> Workspace:
    """The layout by the cache blocking of this CPU's family."""
    of = figures().gemm
    left_at = RIGHT_AT + of.right_bytes + 4 * of.k_block * PANEL
    stage_at = left_at + 4 * of.k_block * PANEL
    result_at = stage_at + 4 * PANEL * (max(of.n_block, of.k_block) + PANEL)
    totals_at = result_at + of.result_bytes
    sums_at = totals_at + 4 * 4 * (of.small_m_columns + 2 * PANEL) + 4096
    return Workspace(left_at, stage_at, result_at, totals_at, sums_at, sums_at + of.sum_bytes)


class Scratch(NamedTuple):
    """Where the blocks lie; a plan on disk has not these words, but how to find another process's."""

    address: Address
    number: Address


def _find(field: str) -> Address:
    found: Address = getattr(get_scratch(), field)
    return found


@functools.cache
def get_scratch() -> Scratch:
    """The blocks, twice as many as threads or more: nothing is written to those that nobody takes."""
    size, of = workspace().size, figures().threads
    count = min(max(2 * count_cores(), 2 * get_num_threads(), of.blocks), of.most_blocks)
    memory = np.zeros(count * size + PAGE, np.uint8)
    address = -(-memory.ctypes.data // PAGE) * PAGE
    keep_for_ever(memory)

    def free() -> None:  # who was in a block is not in a child
        for i in range(count):
            ctypes.c_int64.from_address(address + i * size).value = 0

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=free)
    return Scratch(Address.of(address, _find, "address"), Address.of(count, _find, "number"))
