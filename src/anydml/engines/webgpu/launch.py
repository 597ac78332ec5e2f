"""Kernels and programs: a kernel's text with its bindings and numbers, bound to memory, and dispatched by the queue."""

from __future__ import annotations

import ctypes
import itertools
import struct
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anydml.core.device_memory import memories
from anydml.core.memory import word_bytes
from anydml.engines.common.program import Program
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.queue import MOST, ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.webgpu.device import Gpu
    from anydml.engines.webgpu.memory import Memory
    from anydml.engines.webgpu.queue import Queue

GRANULE = 256
"""Bytes: buffers have sizes of multiples, and offsets of bindings are aligned to it at most."""
LANES = 256
"""Invocations of a workgroup."""
QUAD = 16
"""Bytes that an invocation moves at once, where it can: bindings end after a multiple."""
MOST_GROUPS = 65535
"""Workgroups of one dimension."""
MOST_KNOWN = 64
"""Numbers of a kernel that are kept for the next binding."""


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
    rereads: bool = False
    """Whether it reads elements again and again, which devices do faster from buffers that it does not write."""
    ready: weakref.WeakKeyDictionary[Gpu, dict[tuple[bool, ...], Ready]] = field(
        default_factory=weakref.WeakKeyDictionary, compare=False, repr=False
    )
    """By device, and by which bindings are only read, what it has there."""

    def dispatch(self, memory: Memory, places: Mapping[str, int]) -> Callable[[], None]:
        """A function that dispatches it, given the address of each tensor's first element."""
        return memory.dispatch(self, places)

    def on(self, gpu: Gpu, reads: tuple[bool, ...], words: int) -> Ready:
        """What it has on a device, where some bindings are of buffers that it only reads."""
        known = self.ready.setdefault(gpu, {})
        if (found := known.get(reads)) is None:
            found = known[reads] = Ready(self, gpu, reads, words)
        return found


class Bindable(Protocol):
    """A kernel, or several of which one is taken when it is known where tensors lie."""

    def dispatch(self, memory: Memory, places: Mapping[str, int]) -> Callable[[], None]:
        """A function that dispatches it, given the address of each tensor's first element."""


class Row:
    """A kernel bound to memory: a row of the queue's table, and what that names."""

    __slots__ = ("_kept", "packed")

    def __init__(self, kernel: Kernel, memory: Memory, places: Mapping[str, int]) -> None:
        gpu = memory.gpu
        entries, words = [], [0]
        for binding in kernel.bindings:
            base, block, offset = memory.find(places[binding.tensor] + binding.first)
            if offset % WORD:
                raise AssertionError(f"{binding.tensor} begins within a word")
            aligned = offset // gpu.offset_alignment * gpu.offset_alignment
            size = -(-(offset - aligned + binding.size) // QUAD) * QUAD
            if size > gpu.largest_binding:
                raise MemoryError(
                    f"a kernel reads or writes {word_bytes(binding.size)} of one tensor: "
                    f"{gpu.info} binds {word_bytes(gpu.largest_binding)} at most"
                )
            words.append((offset - aligned) // WORD)
            entries.append((base, block.handle, aligned, size))
        words += kernel.numbers
        written = {
            entry[0]
            for entry, binding in zip(entries, kernel.bindings, strict=True)
            if binding.is_written or not kernel.rereads
        }
        ready = kernel.on(gpu, tuple([base not in written for base, *_ in entries]), len(words))
        numbers = ready.numbers(memory, words)
        if numbers.entry is not None:
            entries.append(numbers.entry)
        group, handle = gpu.bind_group(ready.pipeline, entries)
        self._kept = group, numbers
        self.packed = ROW.pack(ready.pipeline.handle, handle, numbers.address, numbers.size, *kernel.groups, 0)


class Numbers:
    """The words of N where kernels find them: on the host, or where immediates have no room for them on the device."""

    __slots__ = ("_kept", "address", "entry", "size")

    def __init__(self, data: bytes, memory: Memory, *, is_immediate: bool) -> None:
        self.address = self.size = 0
        self.entry: tuple[int, Any, int, int] | None = None
        self._kept: Any = None
        if is_immediate:
            self._kept = ctypes.create_string_buffer(data, len(data))
            self.address, self.size = ctypes.addressof(self._kept), len(data)
        else:
            self._kept = memory.reserve(len(data))
            memory.write(self._kept.address, np.frombuffer(data, np.uint8))
            base, block, offset = memory.find(self._kept.address)
            self.entry = base, block.handle, offset, -(-len(data) // GRANULE) * GRANULE


class Ready:
    """What a kernel has on a device, wherever its tensors lie."""

    __slots__ = ("_format", "_is_immediate", "_known", "pipeline")

    def __init__(self, kernel: Kernel, gpu: Gpu, reads: tuple[bool, ...], words: int) -> None:
        self._is_immediate = words <= gpu.immediate_words
        text = kernel.text.replace("{NUMBERS}", numbers_text(len(kernel.bindings), words, self._is_immediate))
        for k in itertools.compress(range(len(reads)), reads):
            text = text.replace(f"<storage, read_write> t{k}:", f"<storage, read> t{k}:")
        immediates = words if self._is_immediate else 0
        self.pipeline = gpu.pipeline(text, reads, immediates, has_uniform=not self._is_immediate)
        self._format = struct.Struct(f"{words}I")
        self._known: dict[bytes, Numbers] = {}
        """By their bytes: most tensors begin where a buffer does, and the words are the same again."""

    def numbers(self, memory: Memory, words: Sequence[int]) -> Numbers:
        """The words of N."""
        data = self._format.pack(*[word & 0xFFFFFFFF for word in words])
        if (found := self._known.get(data)) is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[data] = Numbers(data, memory, is_immediate=self._is_immediate)
        return found


class Launch:
    """Rows that are appended to the table as one, with whatever has to live as long."""

    __slots__ = ("_extend", "_kept", "_waiting", "queue", "rows")

    def __init__(self, queue: Queue, rows: tuple[Row, ...], kept: object = None) -> None:
        self.rows, self._kept, self.queue, self._waiting = rows, kept, queue, queue.waiting
        self._extend = queue.waiting.extend

    def __call__(self) -> None:
        """Append them: a list does it at once, whichever threads append."""
        self._extend(self.rows)
        if len(self._waiting) >= MOST:
            self.queue.submit()


def joined(launches: Sequence[Callable[[], Any]], kept: object = None) -> Callable[[], Any]:
    """Launches as one, which keeps something alive: of one block of rows, unless one of them does something else."""
    if len(launches) == 1 and kept is None:
        return launches[0]
    rows = [one for one in launches if type(one) is Launch]
    if rows and len(rows) == len(launches):
        return Launch(rows[0].queue, tuple(row for one in rows for row in one.rows), (kept, rows))

    def run(_kept: object = kept) -> None:
        for launch in launches:
            launch()

    return run


def numbers_text(bindings: int, words: int, is_immediate: bool) -> str:
    """The declaration of the numbers: immediates, or where those have no room a uniform buffer after the bindings."""
    names = ["zero", *(f"b{k}" for k in range(bindings)), *(f"n{k}" for k in range(words - bindings - 1))]
    fields = ", ".join(f"{name}: u32" for name in names)
    where = "var<immediate> N" if is_immediate else f"@group(0) @binding({bindings}) var<uniform> N"
    return f"struct Numbers {{ {fields} }}\n{where}: Numbers;\n"


@dataclass(frozen=True, slots=True)
class Parts(Program):
    """A verb in parts, one after the other."""

    programs: tuple[Program, ...]

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Bind each."""
        return joined([program.bind(places) for program in self.programs])


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
        scratch, whole = None, dict(places)
        if self.scratch:
            scratch = memory.scratch(sum(-(-size // GRANULE) * GRANULE for size in self.scratch.values()))
            at = scratch.address
            for name, size in self.scratch.items():
                whole[name] = at
                at += -(-size // GRANULE) * GRANULE
        return joined([kernel.dispatch(memory, whole) for kernel in self.kernels], scratch)
