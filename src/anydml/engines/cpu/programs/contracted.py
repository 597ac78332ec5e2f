"""Contractions as they are bound: what a plan on disk has of them, apart from how they are planned."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.call import make_dispatch
from anydml.engines.cpu.kernel import Address
from anydml.engines.cpu.scratch import get_scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.engines.cpu.kernel import Kernel
    from anydml.ir.verbs import Map, Reduce


@dataclass(frozen=True, slots=True)
class Section:
    """The words of a factor or of the result, with the places of addresses in them."""

    words: tuple[int, ...]
    tensors: tuple[tuple[str, int], ...]
    """Of each view, with its offset in bytes."""

    def bind(self, places: Mapping[str, int]) -> tuple[int, ...]:
        """The words with the addresses."""
        addresses = [places[tensor] + offset if tensor else offset for tensor, offset in self.tensors]
        return (*self.words[:3], *addresses, *self.words[3:])


@dataclass(frozen=True, slots=True)
class ContractProgram:
    """A contraction, planned."""

    kernel: Kernel
    fixed: tuple[int, ...]
    """After the scratch, and before the sections."""
    sections: tuple[Section, ...]
    units: int
    size: int
    """In bytes: what threads share work out by."""
    layouts: Mapping[str, Map | Reduce] = field(default_factory=dict)
    """Constants that are laid out ahead, as the engine's protocol has it."""

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        words = [*get_scratch(), *self.fixed]
        for section in self.sections:
            words += section.bind(places)
        return make_dispatch(self.kernel, words, self.units, self.size)


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
