"""Copies between the host and a device: through a ring of staging buffers, by several threads where there is much.

wgpu's own way down makes a staging buffer at each call and fills it with one thread: 4.5 GB/s. A ring that is kept
takes 9 with one thread, and 20 to 25 with eight (H200).
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.memory import word_bytes
from anydml.engines.common.threads import get_num_threads
from anydml.engines.webgpu.device import WORD

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.core.device_memory import Bytes
    from anydml.engines.webgpu.device import Gpu
    from anydml.engines.webgpu.queue import Queue

CHUNK = 16 * 1024 * 1024
"""Bytes of a staging buffer of the ring."""
SMALL = 1024 * 1024
"""Bytes up to which one buffer, or wgpu's own way down, does, and one thread copies."""
SLOTS = 3
"""Staging buffers of a ring: one is copied by the host, one by the device, and one is on its way."""
MOST_THREADS = 8
_COPY_SRC, _COPY_DST = 0x4, 0x8
_LEAST = 256
"""Bytes of a staging buffer for a word."""


@functools.cache
def _pool() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(MOST_THREADS, "anydml copies")


def copy(target: Bytes, source: Bytes) -> None:
    """Copy bytes on the host, which releases Python's lock, with several threads where they are many."""
    count = min(get_num_threads(), MOST_THREADS, -(-source.size // SMALL))
    if count < 2:
        np.copyto(target, source)
        return
    step = -(-source.size // count // 4096) * 4096
    cuts = range(0, source.size, step)
    list(_pool().map(np.copyto, [target[at : at + step] for at in cuts], [source[at : at + step] for at in cuts]))


class _Slot:
    """A staging buffer: whether it is mapped, and what the device does with it until then."""

    __slots__ = ("handle", "index", "status")

    def __init__(self, handle: Any) -> None:
        self.handle, self.index = handle, 0
        self.status: int | None = None
        """Of its mapping; None while that is on its way."""


_pending: dict[int, _Slot] = {}
"""By the number of a mapping."""
_numbers = itertools.count(1)


@functools.cache
def _told(ffi: Any) -> Any:
    """What is told of mappings: one for all, and for ever, since a device that is lost tells of them when it goes."""

    def tell(status: int, _message: object, number: Any, _nothing: object) -> None:
        _pending.pop(int(ffi.cast("uintptr_t", number))).status = status

    return ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", tell)


class Transfers:
    """The staging buffers of one device. The device's lock is held by whoever calls."""

    def __init__(self, gpu: Gpu, queue: Queue, create: Callable[[int, int], Any], chunk: int = CHUNK) -> None:
        self._gpu, self._queue, self._create, self._chunk = gpu, queue, create, chunk
        self._slots: dict[str, list[_Slot]] = {}
        self._words: list[_Slot] = []
        """Staging buffers of a word, that nobody waits for."""
        self._info = gpu.ffi.new("WGPUBufferMapCallbackInfo *")
        self._info.mode, self._info.callback = gpu.lib.WGPUCallbackMode_AllowProcessEvents, _told(gpu.ffi)
        self._index = gpu.ffi.new("WGPUSubmissionIndex *")

    def _ring(self, kind: str, size: int, count: int) -> list[_Slot]:
        """So many staging buffers of a kind, each of so many bytes."""
        slots = self._slots.setdefault(kind, [])
        lib = self._gpu.lib
        while len(slots) < count:
            mode = lib.WGPUMapMode_Write if kind == "write" else lib.WGPUMapMode_Read
            slots.append(_Slot(self._create(size, mode | (_COPY_SRC if kind == "write" else _COPY_DST))))
        return slots

    def _map(self, slot: _Slot, mode: int, size: int) -> None:
        slot.status = None
        number = next(_numbers)
        _pending[number], self._info.userdata1 = slot, self._gpu.ffi.cast("void *", number)
        self._gpu.lib.wgpuBufferMapAsync(slot.handle, mode, 0, size, self._info[0])

    def _mapped(self, slot: _Slot, size: int) -> Bytes:
        """The bytes of a staging buffer, once the device is done with it."""
        gpu, lib, ffi = self._gpu, self._gpu.lib, self._gpu.ffi
        self._index[0] = slot.index
        while slot.status is None:
            lib.wgpuDevicePoll(gpu.handle, True, self._index if slot.index else ffi.NULL)
        if slot.status != lib.WGPUMapAsyncStatus_Success:
            self._slots.clear()
            if not gpu.is_alive():
                raise gpu.lost()
            raise MemoryError(f"{word_bytes(size)} could not be copied between the host and {gpu.info}")
        return np.frombuffer(ffi.buffer(lib.wgpuBufferGetMappedRange(slot.handle, 0, size), size), np.uint8)

    def _copy(self, *given: Any) -> int:
        """Have the device copy bytes from one buffer to another, after all that was dispatched."""
        copy_bytes = self._gpu.lib.wgpuCommandEncoderCopyBufferToBuffer
        return self._queue.submit(lambda encoder: copy_bytes(encoder, *given))

    def read(self, handle: Any, offset: int, size: int) -> Bytes:
        """Bytes of a buffer, in whole words, once all is done."""
        lib = self._gpu.lib
        kind, chunk = ("little", min(SMALL, self._chunk)) if size <= SMALL else ("read", self._chunk)
        found = np.empty(size, np.uint8)
        cuts = range(0, size, chunk)
        slots = self._ring(kind, chunk, min(len(cuts), SLOTS))

        def start(k: int) -> None:
            slot, many = slots[k % SLOTS], min(chunk, size - cuts[k])
            slot.index = self._copy(handle, offset + cuts[k], slot.handle, 0, many)
            self._map(slot, lib.WGPUMapMode_Read, many)

        for k in range(min(len(cuts), SLOTS)):
            start(k)
        for k, at in enumerate(cuts):
            slot = slots[k % SLOTS]
            part = found[at : at + chunk]
            copy(part, self._mapped(slot, part.size))
            lib.wgpuBufferUnmap(slot.handle)
            if k + SLOTS < len(cuts):
                start(k + SLOTS)
        return found

    def begin(self, handle: Any, offset: int) -> _Slot:
        """Have a word of a buffer copied to the host, with all that was dispatched before."""
        slot = (
            self._words.pop()
            if self._words
            else _Slot(self._create(_LEAST, self._gpu.lib.WGPUMapMode_Read | _COPY_DST))
        )
        slot.index = self._copy(handle, offset, slot.handle, 0, WORD)
        self._map(slot, self._gpu.lib.WGPUMapMode_Read, WORD)
        return slot

    def end(self, slot: _Slot) -> Bytes:
        """The word, once it is there; what was dispatched since is on its way."""
        self._queue.submit()
        found = self._mapped(slot, WORD).copy()
        self._gpu.lib.wgpuBufferUnmap(slot.handle)
        self._words.append(slot)
        return found

    def write(self, handle: Any, offset: int, data: Bytes) -> None:
        """Write bytes to a buffer, in whole words, after all that was dispatched."""
        gpu, chunk = self._gpu, self._chunk
        if data.size <= SMALL and data.size <= chunk:
            self._queue.submit()
            source = gpu.ffi.cast("void *", data.ctypes.data)
            gpu.checked.wgpuQueueWriteBuffer(gpu.queue, handle, offset, source, data.size)
            return
        slots = self._ring("write", chunk, SLOTS)
        for k, at in enumerate(range(0, data.size, chunk)):
            slot, part = slots[k % SLOTS], data[at : at + chunk]
            self._map(slot, gpu.lib.WGPUMapMode_Write, chunk)  # and not before: none may be on its way at exit
            copy(self._mapped(slot, chunk)[: part.size], part)
            gpu.lib.wgpuBufferUnmap(slot.handle)
            slot.index = self._copy(slot.handle, 0, handle, offset + at, part.size)
