"""The figures of a GPU that kernels are shaped by: architecture, multiprocessors, bytes of a tile."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from triton.backends.compiler import GPUTarget

from anydml.engines.cuda.launch import IS_INTERPRETED


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a device that the plans need."""

    index: int
    target: Any
    """Triton's name of the architecture."""
    multiprocessors: int
    tile: int
    """Bytes of a tile of a copy: a few for each thread in flight."""


@functools.cache
def figures_of(index: int) -> Figures:
    """Ask the driver; an interpreted device is a small one, so that small shapes make several tiles."""
    if IS_INTERPRETED:
        return Figures(index, None, 2, 256)
    found = torch.cuda.get_device_properties(index)
    capability = found.major * 10 + found.minor
    return Figures(index, GPUTarget("cuda", capability, 32), found.multi_processor_count, 8 * 1024)
