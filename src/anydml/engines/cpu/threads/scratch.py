"""Memory that kernels work in beside what they are given: blocks for the whole process, more than threads.

A block's first word says whether somebody is in it; kernels take one for a turn, and give it back.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import NamedTuple

import numpy as np

from anydml.engines.common.cores import count_cores
from anydml.engines.common.threads import get_num_threads
from anydml.engines.cpu.gemm.workspace import workspace
from anydml.engines.cpu.kernel import Address
from anydml.memory import keep_for_ever

PAGE = 4096
LEAST, MOST = 32, 256
"""Blocks at least and at most: whoever finds none waits for another's turn to end, and keeps a core busy. Sixteen of
Python's threads on two cores took a product 1.8 times as long with four blocks as one after the other."""


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
    size = workspace().size
    count = min(max(2 * count_cores(), 2 * get_num_threads(), LEAST), MOST)
    memory = np.zeros(count * size + PAGE, np.uint8)
    address = -(-memory.ctypes.data // PAGE) * PAGE
    keep_for_ever(memory)

    def free() -> None:  # who was in a block is not in a child
        for i in range(count):
            ctypes.c_int64.from_address(address + i * size).value = 0

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=free)
    return Scratch(Address.of(address, _find, "address"), Address.of(count, _find, "number"))
