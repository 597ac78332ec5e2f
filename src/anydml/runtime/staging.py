"""Staging: tensors that do not lie where a device works are copied there before a dispatch, and back after it.

A device whose memory no library knows takes the host's arrays so, and arrays of its own that begin where no program may
be bound to. The memory that stands for them is kept with the binding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.device_memory import memories
from anydml.core.memory import HOST, numpy_view, span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.memory import Buffer
    from anydml.graph.recipe import Step
    from anydml.runtime.binding import Bound

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]
    Reserve = Callable[[int], Buffer]

_BYTES = np.dtype(np.uint8)
_ROOM = 16
"""Bytes to whose multiples staged memory is rounded up: programs may read the words that the last elements are in."""


def is_elsewhere(bound: Bound, memory: str) -> bool:
    """Whether what is bound for a device of this memory is staged."""
    return bound.memory.device != memory or bound.address % memories[memory].alignment != 0


def _span(desc: TensorDesc) -> tuple[int, int]:
    """The bytes that a tensor lies in, from its first element on."""
    return desc.data_type.byte_range(*span(desc.sizes, desc.element_strides))


class _Region:
    """Bytes that lie elsewhere, and the device's memory that stands for them."""

    __slots__ = ("_below", "_first", "_memory", "_place", "_size", "address", "buffer")

    def __init__(self, bound: Bound, desc: TensorDesc, memory: str, reserve: Reserve) -> None:
        self._place, self._first, self._memory = bound.memory.device, bound.address, memories[memory]
        self._below, above = _span(desc)
        self._size = above - self._below
        alignment = max(self._memory.alignment, desc.guaranteed_base_offset_alignment)
        self.buffer = reserve(-(-self._size // _ROOM) * _ROOM + alignment)
        start = self.buffer.address - self._below
        self.address = start + -start % alignment
        """Of the first element, which programs are bound to."""

    def look(self) -> Bytes:
        """The bytes where they lie: the host's own, or a copy of a device's."""
        if self._place == HOST:
            return numpy_view(self._first + self._below, (self._size,), (1,), _BYTES)
        return memories[self._place].read(self._first + self._below, self._size)

    def bring(self) -> None:
        """Copy them to the device."""
        self._memory.write(self.address + self._below, self.look())

    def take_back(self, desc: TensorDesc) -> None:
        """Copy the elements of a tensor there from the device; what lies between them stays."""
        found = self._memory.read(self.address + self._below, self._size)
        is_whole = desc.data_type.is_half_byte or desc.extent == desc.element_count
        target = found if is_whole and self._place != HOST else self.look()
        if is_whole:
            np.copyto(target, found)
        else:
            np.copyto(self._elements(desc, target), self._elements(desc, found))
        if self._place != HOST:
            memories[self._place].write(self._first + self._below, target)

    def _elements(self, desc: TensorDesc, data: Bytes) -> np.ndarray[Any, Any]:
        """The elements in the bytes, as so many bits, whatever they are."""
        width = desc.data_type.size_in_bytes
        steps = [stride * width for stride in desc.element_strides]
        return np.ndarray(desc.sizes, f"u{width}", data, -self._below, steps)


def kept_of(steps: Iterable[Step], names: Mapping[str, str]) -> frozenset[str]:
    """The outputs that steps read before they write them, a cache that goes on from what it has: names by field."""
    read: set[str] = set()
    written: set[str] = set()
    for step in steps:
        read |= {view.tensor for view in step.primitive.reads} - written
        written |= {view.tensor for view in step.primitive.targets}
    return frozenset(field for field, name in names.items() if name in read)


class Staging:
    """The tensors of a binding that are staged: very memory that several of them are bound to is so once.

    Outputs are brought to the device where they are `kept`: what is not written goes on from what they hold.
    """

    def __init__(
        self,
        bound: Iterable[Bound],
        tensors: Mapping[str, TensorDesc],
        outputs: Collection[str],
        memory: str,
        reserve: Reserve,
        kept: Collection[str] = (),
    ) -> None:
        self.places: dict[str, int] = {}
        """By field, the addresses of first elements on the device."""
        self.buffers: dict[str, Buffer] = {}
        """By field, the memory that stands for a tensor."""
        regions: dict[tuple[object, ...], _Region] = {}
        self._brought: dict[_Region, None] = {}
        self._written: list[tuple[_Region, TensorDesc]] = []
        for one in bound:
            desc = tensors[one.field]
            key = (one.memory.device, one.address, _span(desc))
            if (region := regions.get(key)) is None:
                region = regions[key] = _Region(one, desc, memory, reserve)
            self.places[one.field], self.buffers[one.field] = region.address, region.buffer
            if one.field in outputs:
                self._written.append((region, desc))
            is_read = one.field not in outputs or one.field in kept
            if is_read or desc.data_type.is_half_byte:  # two elements share a byte
                self._brought[region] = None

    def bring(self) -> None:
        """Copy what is read to the device."""
        for region in self._brought:
            region.bring()

    def around(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """A launch between the copies there and back."""

        def run() -> None:
            self.bring()
            launch()
            for region, desc in self._written:
                region.take_back(desc)

        return run

    def moved(self, bound: Bound) -> Bound:
        """What was bound, as it is on the device."""
        buffer = self.buffers[bound.field]
        return replace(bound, memory=buffer, offset=self.places[bound.field] - buffer.address)
