"""The memory of a device: buffers at made-up addresses, so that tensors, arenas and offsets are numbers as elsewhere.

An address is found by bisection as a buffer and an offset. Buffers that are let go of are kept for the next of their
size: a new one costs 20 ms a GiB, since WebGPU has it cleared.
"""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.device_memory import memories, on_loss
from anydml.core.errors import DeviceLostError, show
from anydml.core.locks import make_lock
from anydml.core.memory import Buffer, word_bytes
from anydml.engines.webgpu import timestamps
from anydml.engines.webgpu.device import WORD, open_gpu
from anydml.engines.webgpu.launch import GRANULE, Launch, Row
from anydml.engines.webgpu.queue import Queue
from anydml.engines.webgpu.timestamps import Timestamps
from anydml.engines.webgpu.transfer import Transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.core.device_memory import Bytes
    from anydml.engines.webgpu.launch import Kernel

USAGE = 0x4 | 0x8 | 0x40 | 0x80
"""COPY_SRC, COPY_DST, UNIFORM, STORAGE."""
GAP = 1 << 20
"""Addresses between buffers, so that nothing past the end of one is another's."""
MOST_FREE = 256 * 1024 * 1024
"""Bytes of buffers that are kept for the next ones, beside as many as were in use at once."""


_regions = itertools.count(1)
"""Of addresses: the next device of a name knows those of a lost one by theirs."""


class Block(NamedTuple):
    """A buffer."""

    handle: Any
    size: int


class _Lease:
    """The owner of a buffer: it goes back when nobody has this any more."""

    __slots__ = ("__weakref__", "_left", "base")

    def __init__(self, base: int, left: collections.deque[int]) -> None:
        self.base, self._left = base, left

    def __del__(self) -> None:
        self._left.append(self.base)


class Memory:
    """The memory of one device."""

    alignment = WORD
    is_recording = False
    """Whether nothing runs that is dispatched: see `recording.py`."""

    def __init__(self, index: int) -> None:
        self.name = f"webgpu:{index}"
        self.gpu = open_gpu(index)
        self.queue = Queue(self.gpu)
        self._next = next(_regions) << 48
        self._bases: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._free: dict[int, list[int]] = {}
        """By size, a heap of the addresses of buffers that nobody has: a run gets those of the one before, as bound."""
        self._free_sizes: dict[int, int] = {}
        """The size of each of them, in the order in which they came free."""
        self._free_bytes = self._used = self._most_used = 0
        self._left: collections.deque[int] = collections.deque()
        """Bases whose owners have gone, wherever a collection found them."""
        self._scratch: Callable[[], Any] = lambda: None
        self._scratch_size = 0
        self._transfers = Transfers(self.gpu, self.queue, self._create)
        memories[self.name] = self

    # Buffers

    def reserve(self, size: int) -> Buffer:
        """New memory, until its owner goes."""
        whole = max(-(-size // GRANULE), 1) * GRANULE
        if whole > self.gpu.largest_buffer:
            most = word_bytes(self.gpu.largest_buffer)
            raise MemoryError(f"{word_bytes(size)} in one piece: {self.gpu.info} has {most} at most")
        self.gpu.check()
        with self.gpu.lock:
            if self._left:
                self._collect()
            if known := self._free.get(whole):
                base = heapq.heappop(known)
                self._free_bytes -= self._free_sizes.pop(base)
            else:
                block = Block(self._create(whole, USAGE), whole)
                base = self._next
                self._next += -(-(whole + GAP) // GAP) * GAP
                self._blocks[base] = block
                self._bases.append(base)  # they rise
            self._used += whole
            self._most_used = max(self._used, self._most_used)
        return Buffer(base, size, True, _Lease(base, self._left), self.name)

    def scratch(self, size: int) -> Buffer:
        """Memory that is used within one launch alone: launches come one after the other, and share it."""
        with self.gpu.lock:
            known = self._scratch()
            if known is None or self._scratch_size < size:
                found = self.reserve(size)
                self._scratch, self._scratch_size = weakref.ref(found.owner), size
                return found
        return Buffer(known.base, size, True, known, self.name)

    def _create(self, size: int, usage: int) -> Any:
        gpu = self.gpu
        gpu.check()
        descriptor = gpu.ffi.new("WGPUBufferDescriptor *")
        descriptor.size, descriptor.usage = size, usage
        try:
            handle = gpu.checked.wgpuDeviceCreateBuffer(gpu.handle, descriptor)
        except DeviceLostError:
            raise
        except Exception:  # noqa: BLE001 - of whatever kind a driver says that memory ran out
            handle = self._create_after_all(descriptor)
        return gpu.ffi.gc(handle, gpu.lib.wgpuBufferRelease)

    def _create_after_all(self, descriptor: Any) -> Any:
        """The same once the memory of buffers that nobody has is given back."""
        gpu, kept = self.gpu, self._free_bytes
        self._keep(0)
        self.wait()  # the device gives memory back once it is done with it
        try:
            return gpu.checked.wgpuDeviceCreateBuffer(gpu.handle, descriptor)
        except DeviceLostError:
            raise
        except Exception as error:
            held = sum(block.size for block in self._blocks.values())
            rule = f"{gpu.info} has no {word_bytes(descriptor.size)} more: {word_bytes(held)} are held in {self.name}"
            freed = f", after {word_bytes(kept)} were given back" if kept else ""
            raise MemoryError(f"{rule}{freed} ({show(error)})") from error

    def _collect(self) -> None:
        while self._left:
            base = self._left.popleft()
            size = self._free_sizes[base] = self._blocks[base].size
            heapq.heappush(self._free.setdefault(size, []), base)
            self._used -= size
            self._free_bytes += size
            self._keep(self._most_used - self._used + MOST_FREE)

    def _keep(self, most: int) -> None:
        """Of the buffers that nobody has, so many bytes: those go that were not asked for since longest."""
        while self._free_sizes and self._free_bytes > most:
            base, size = next(iter(self._free_sizes.items()))
            del self._free_sizes[base]
            self._free[size].remove(base)
            heapq.heapify(self._free[size])
            self._free_bytes -= size
            self._destroy(base)

    def _destroy(self, base: int) -> None:
        """Give the memory of a buffer back, whoever still names it; its address never comes again."""
        self.queue.submit()
        del self._bases[bisect.bisect_left(self._bases, base)]
        self.gpu.lib.wgpuBufferDestroy(self._blocks.pop(base).handle)

    def find(self, address: int) -> tuple[int, Block, int]:
        """The address and the buffer that an address is in, and the offset in it."""
        at = bisect.bisect_right(self._bases, address)
        if not at:  # it lay in a device that was lost
            raise self.gpu.lost()
        base = self._bases[at - 1]
        return base, self._blocks[base], address - base

    def dispatch(self, kernel: Kernel, places: Mapping[str, int]) -> Callable[[], None]:
        """A function that dispatches a kernel on tensors at addresses."""
        return Launch(self.queue, (Row(kernel, self, places),))

    # Copies

    def write(self, address: int, data: Bytes) -> None:
        """Copy host bytes to an address; words that are written in part keep the rest."""
        size = data.size
        if not size:
            return
        self.gpu.check()
        _, block, offset = self.find(address)
        data = np.ascontiguousarray(data)
        if before := offset % WORD:
            count = min(WORD - before, size)
            self._write_part(address - before, before, data[:count])
            data, offset = data[count:], offset + count
        if after := data.size % WORD:
            self._write_part(address + size - after, 0, data[-after:])
            data = data[:-after]
        if data.size:
            with self.gpu.lock:
                self._transfers.write(block.handle, offset, data)

    def _write_part(self, word: int, at: int, data: Bytes) -> None:
        """A part of the word at an address."""
        whole = self.read(word, WORD)
        whole[at : at + data.size] = data
        self.write(word, whole)

    def read(self, address: int, size: int) -> Bytes:
        """Bytes from an address on, once all is done."""
        if not size:
            return np.empty(0, np.uint8)
        self.gpu.check()
        _, block, offset = self.find(address)
        before = offset % WORD
        with self.gpu.lock:
            found = self._transfers.read(block.handle, offset - before, -(-(before + size) // WORD) * WORD)
        return found[before : before + size]

    def begin_read(self, address: int) -> Any:
        """Have the word at an address copied to the host; `end_read` waits for it, and not for what comes after."""
        _, block, offset = self.find(address)
        with self.gpu.lock:
            return self._transfers.begin(block.handle, offset)

    def end_read(self, read: Any) -> Bytes:
        """The word; it must be asked for."""
        self.gpu.check()
        with self.gpu.lock:
            return self._transfers.end(read)

    def timestamps(self) -> Timestamps | None:
        """Marks between dispatches; None where the device has no clock for them."""
        return Timestamps(self) if timestamps.FEATURE in self.gpu.features else None

    def own_buffer(self, size: int, usage: int) -> Any:
        """A buffer that no tensor lies in."""
        with self.gpu.lock:
            return self._create(size, usage)

    def read_after(self, do: Callable[[Any], None], handle: Any, size: int) -> Bytes:
        """What a buffer of one's own has after something that an encoder does."""
        with self.gpu.lock:
            self.queue.submit(do)
            return self._transfers.read(handle, 0, size)

    def wait(self) -> None:
        """Wait until all work is done."""
        gpu = self.gpu
        gpu.check()
        with gpu.lock:
            self.queue.submit()
            gpu.lib.wgpuDevicePoll(gpu.handle, True, gpu.ffi.NULL)


_making = make_lock()


def memory_of(index: int) -> Memory:
    """The memory of an adapter's device: one for all engines of a process, since addresses are numbers in it."""
    with _making:  # threads may ask at once, and a cache would make each its own
        return _memory_at(index)


@functools.cache
def _memory_at(index: int) -> Memory:
    return Memory(index)


on_loss.append(_memory_at.cache_clear)
