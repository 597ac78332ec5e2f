"""A device whose memory no library knows: host bytes at addresses of its own, on which the reference engine works."""

from __future__ import annotations

import bisect
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.memory import Buffer
from anydml.engines.common.engine import Engine
from anydml.engines.common.program import Program
from anydml.engines.reference import ReferenceEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.ir.verbs import Primitive

FIRST = 1 << 44
ALIGNMENT = 16


class Block:
    """Reserved memory: what its buffer's owner is."""

    def __init__(self, size: int) -> None:
        self.data = np.full(size, 0xCD, np.uint8)


class DoubleMemory:
    """Bytes at addresses that are not the host's. What is gone, or lies between blocks, is neither read nor bound."""

    alignment = ALIGNMENT

    def __init__(self, name: str) -> None:
        self.name = name
        self._starts: list[int] = []
        self._blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
        self._next = FIRST
        self.copied: list[tuple[str, int]] = []
        """The copies to and from it, in order, by their bytes."""
        self.waited = 0

    def reserve(self, size: int) -> Buffer:
        assert size > 0, "an empty tensor needs no memory"
        block, start = Block(size), self._next
        self._next += -(-size // 256) * 256 + 4096
        self._starts.append(start)
        self._blocks[start] = block
        return Buffer(start, size, True, block, self.name)

    def find(self, address: int, size: int = 1) -> np.ndarray[Any, Any]:
        """The host's bytes of an address, to the end of their block."""
        place = bisect.bisect_right(self._starts, address) - 1
        assert place >= 0, f"{address:#x} was never reserved"
        start = self._starts[place]
        block = self._blocks.get(start)
        assert block is not None, f"the memory at {address:#x} is gone"
        assert address + size <= start + block.data.size, f"{size} bytes at {address:#x} pass the end of their block"
        return block.data[address - start :]

    def write(self, address: int, data: np.ndarray[Any, Any]) -> None:
        assert data.dtype == np.uint8
        assert data.ndim == 1
        assert data.flags.c_contiguous
        self.copied.append(("write", data.size))
        self.find(address, data.size)[: data.size] = data

    def read(self, address: int, size: int) -> np.ndarray[Any, Any]:
        self.copied.append(("read", size))
        return self.find(address, size)[:size].copy()

    def wait(self) -> None:
        self.waited += 1

    def timestamps(self) -> None:
        """It has no clock."""


class DoubleProgram(Program):
    """A program of the reference engine's."""

    def __init__(self, program: Program, memory: DoubleMemory) -> None:
        self._program, self._memory = program, memory

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        for name, address in places.items():
            assert address % ALIGNMENT == 0, f"{name} is bound to {address:#x}"

        def run() -> Any:
            there = {name: self._memory.find(address).ctypes.data for name, address in places.items()}
            return self._program.bind(there)()

        return run


class DoubleEngine(Engine):
    """The reference engine's programs, over such memory."""

    name = "webgpu"

    def __init__(self, index: int = 0) -> None:
        self.memory = f"webgpu:{index}"
        self.own = DoubleMemory(self.memory)
        self._reference = ReferenceEngine()

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Program:
        return DoubleProgram(self._reference.compile(primitive, constants), self.own)

    def reserve(self, size: int) -> Buffer:
        return self.own.reserve(size)
