"""GEMM and convolution programs as they are bound: all that a plan on disk needs of them, apart from planning."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.engines.cpu.kernel import Address
from anydml.engines.cpu.launch.call import Template
from anydml.engines.cpu.threads.scratch import get_scratch
from anydml.locks import cached_property

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Map, Reduce


class Section(NamedTuple):
    """The words of a factor or of the result, with the places of addresses in them."""

    words: tuple[int, ...]
    tensors: tuple[tuple[str, int], ...]
    """Of each view, with its offset in bytes."""

    def with_places(self) -> tuple[int, ...]:
        """The words with a place for each address: where that is of no tensor, an offset of the kernel's own."""
        return (*self.words[:3], *(0 if tensor else offset for tensor, offset in self.tensors), *self.words[3:])


class _Gemm(NamedTuple):
    kernel: Kernel
    fixed: tuple[int, ...]
    """After the scratch, and before the sections."""
    sections: tuple[Section, ...]
    units: int
    size: int
    """In bytes: what threads share work out by."""
    layouts: Mapping[str, Map | Reduce] = MappingProxyType({})
    """Constants that are laid out ahead, as the engine's protocol has it."""


class GemmProgram(_Gemm):
    """A contraction, planned."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self[:-1], dict(self.layouts))

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        return self._template.bind(places)

    def direct(self, tensors: Sequence[str]) -> Callable[..., Any] | None:
        """As the engine's protocol has it."""
        return self._template.direct(tensors)

    @cached_property
    def _template(self) -> Template:
        words, places = [*get_scratch(), *self.fixed], {}
        for section in self.sections:
            for number, (tensor, offset) in enumerate(section.tensors):
                if tensor:
                    places[len(words) + 3 + number] = (tensor, offset)
            words += section.with_places()
        return Template(self.kernel, words, places, self.units, self.size)


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
