"""When a device comes to marks between dispatches, by its own clock: what profiles of passes are made of."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from anydml.engines.webgpu.memory import Memory

FEATURE = "timestamp-query-inside-passes"
MOST = 4096
"""Marks of a query set, as WebGPU allows."""
_STAMP = 8
"""Bytes."""
_QUERY_RESOLVE, _COPY_SRC = 0x200, 0x4


class Mark:
    """A place in the table of dispatches: the device writes its time when all before it is done."""

    __slots__ = ("index", "queries")

    packed = b""
    """It is no dispatch."""

    def __init__(self, queries: Any, index: int) -> None:
        self.queries, self.index = queries, index


class Timestamps:
    """Marks of one device, from `begin` on; their sets are kept for the next."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._count, self._sets = memory, 0, list[Any]()
        gpu = memory.gpu
        self._seconds = float(gpu.lib.wgpuQueueGetTimestampPeriod(gpu.queue)) * 1e-9
        self._resolved = memory.own_buffer(MOST * _STAMP, _QUERY_RESOLVE | _COPY_SRC)
        self._found = np.zeros(0)

    def begin(self) -> None:
        """Wait for the device, and forget earlier marks."""
        self._memory.wait()
        self._count = 0

    def mark(self) -> int:
        """Set a mark after all that was dispatched; its number."""
        at, index = divmod(self._count, MOST)
        if at == len(self._sets):
            self._sets.append(self._new_set())
        queue = self._memory.queue
        queue.is_timed = True
        queue.waiting.append(Mark(self._sets[at], index))
        self._count += 1
        return self._count - 1

    def end(self) -> None:
        """Wait for the device, and read when it came to each mark."""
        found = []
        for at, queries in enumerate(self._sets):
            many = min(self._count - at * MOST, MOST)
            if many > 0:
                resolve = functools.partial(self._resolve, queries, many)
                found.append(self._memory.read_after(resolve, self._resolved, many * _STAMP).view(np.uint64))
        stamps = np.concatenate(found)
        self._found = (stamps - stamps[0]).astype(np.float64) * self._seconds

    def since_first(self, mark: int) -> float:
        """Seconds from the first mark to another, once they were read."""
        return float(self._found[mark])

    def _resolve(self, queries: Any, count: int, encoder: Any) -> None:
        resolve = self._memory.gpu.lib.wgpuCommandEncoderResolveQuerySet
        resolve(encoder, queries, 0, count, self._resolved, 0)

    def _new_set(self) -> Any:
        gpu = self._memory.gpu
        descriptor = gpu.ffi.new("WGPUQuerySetDescriptor *")
        descriptor.type, descriptor.count = gpu.lib.WGPUQueryType_Timestamp, MOST
        made = gpu.checked.wgpuDeviceCreateQuerySet(gpu.handle, descriptor)
        return gpu.ffi.gc(made, gpu.lib.wgpuQuerySetRelease)
