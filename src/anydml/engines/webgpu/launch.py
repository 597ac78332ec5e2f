"""Kernels and programs: a kernel's text with its bindings and numbers, bound to memory, and dispatched by the queue."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anydml.core.device_memory import memories
from anydml.engines.common.program import Program
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.queue import ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.webgpu.memory import Memory

GRANULE = 256
"""Bytes: buffers have sizes of multiples, and offsets of bindings are aligned to it at most."""
LANES = 256
"""Invocations of a workgroup."""
QUAD = 16
"""Bytes that an invocation moves at once, where it can: bindings end after a multiple."""
MOST_GROUPS = 65535
"""Workgroups of one dimension."""


def groups_of(units: int) -> tuple[int, int, int]:
    """Workgroups for so many units, in two dimensions where one has too few; a kernel guards those past the end."""
    if units <= MOST_GROUPS:
        return max(units, 1), 1, 1
    rows = -(-units // MOST_GROUPS)
    return -(-units // rows), rows, 1


@dataclass(frozen=True, slots=True)
class Binding:
    """The part of a tensor that a kernel reads or writes, in whole words from its lowest one on."""

    tensor: str
    first: int
    """Bytes from the tensor's own first element, a multiple of 4."""
    size: int
    """Bytes, a multiple of 4."""
    is_written: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel with everything fixed but where its tensors lie."""

    text: str
    """WGSL, where {NUMBERS} stands for the declaration of the numbers."""
    bindings: tuple[Binding, ...]
    numbers: tuple[int, ...]
    """The words of N after `zero` and the base of each binding, in the order in which the text names them."""
    groups: tuple[int, int, int]

    def dispatch(self, memory: Memory, places: Mapping[str, int]) -> Callable[[], None]:
        """A function that dispatches it, given the address of each tensor's first element."""
        return memory.dispatch(self, places)


class Bindable(Protocol):
    """A kernel, or several of which one is taken when it is known where tensors lie."""

    def dispatch(self, memory: Memory, places: Mapping[str, int]) -> Callable[[], None]:
        """A function that dispatches it, given the address of each tensor's first element."""


class Dispatch:
    """A kernel bound to memory: a row of the queue's table, and what that names."""

    __slots__ = ("_append", "_group", "_numbers", "_row")

    def __init__(self, kernel: Kernel, memory: Memory, places: Mapping[str, int]) -> None:
        gpu = memory.gpu
        entries, bases = [], []
        for binding in kernel.bindings:
            block, offset = memory.find(places[binding.tensor] + binding.first)
            aligned = offset // gpu.offset_alignment * gpu.offset_alignment
            size = -(-(offset - aligned + binding.size) // QUAD) * QUAD
            if size > gpu.largest_binding:
                raise MemoryError(
                    f"a kernel reads or writes {binding.size} bytes of one tensor: "
                    f"{gpu.info} binds {gpu.largest_binding} at most"
                )
            bases.append((offset - aligned) // WORD)
            entries.append((block.handle, aligned, size))
        words = (0, *bases, *kernel.numbers)
        data = struct.pack(f"{len(words)}I", *(word & 0xFFFFFFFF for word in words))
        is_immediate = len(words) <= gpu.immediate_words
        text = kernel.text.replace("{NUMBERS}", numbers_text(len(kernel.bindings), len(words), is_immediate))
        pipeline = gpu.pipeline(text, len(entries), len(words) if is_immediate else 0, has_uniform=not is_immediate)
        kept: list[Any] = [pipeline]
        if not is_immediate:
            numbers = memory.reserve(len(data))
            memory.write(numbers.address, np.frombuffer(data, np.uint8))
            block, offset = memory.find(numbers.address)
            entries.append((block.handle, offset, -(-len(data) // GRANULE) * GRANULE))
            kept.append(numbers)
        self._group = gpu.bind_group(pipeline, entries)
        immediates = ctypes.create_string_buffer(data, len(data))
        self._numbers = (immediates, kept)
        group = int(gpu.ffi.cast("uintptr_t", self._group))
        size = len(data) if is_immediate else 0
        self._row = ROW.pack(pipeline.handle, group, ctypes.addressof(immediates), size, *kernel.groups, 0)
        self._append = memory.queue.append

    def __call__(self) -> None:
        """Append it to the table."""
        self._append(self._row, self)


def numbers_text(bindings: int, words: int, is_immediate: bool) -> str:
    """The declaration of the numbers: immediates, or where those have no room a uniform buffer after the bindings."""
    names = ["zero", *(f"b{k}" for k in range(bindings)), *(f"n{k}" for k in range(words - bindings - 1))]
    fields = ", ".join(f"{name}: u32" for name in names)
    where = "var<immediate> N" if is_immediate else f"@group(0) @binding({bindings}) var<uniform> N"
    return f"struct Numbers {{ {fields} }}\n{where}: Numbers;\n"


@dataclass(frozen=True, slots=True)
class KernelProgram(Program):
    """A verb that is a row of kernels, with scratch memory between them."""

    kernels: tuple[Bindable, ...]
    memory: str
    scratch: Mapping[str, int]
    """By name, bytes."""

    @classmethod
    def of(cls, memory: str, *kernels: Bindable, scratch: Mapping[str, int] | None = None) -> KernelProgram:
        """Of kernels in order."""
        return cls(kernels, memory, scratch or {})

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        memory: Any = memories[self.memory]
        own = {name: memory.reserve(size) for name, size in self.scratch.items()}
        whole = {**places, **{name: buffer.address for name, buffer in own.items()}}
        launches = [kernel.dispatch(memory, whole) for kernel in self.kernels]
        if len(launches) == 1 and not own:
            return launches[0]

        def run(_kept: object = own) -> None:
            for launch in launches:
                launch()

        return run
