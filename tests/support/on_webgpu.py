"""Verbs carried out by the webgpu engine and by the reference, on the same bytes."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from agreement import assert_near, assert_same
from anydml.core.enums import DataType
from anydml.engines.reference import ReferenceEngine
from anydml.engines.webgpu import WebGpuEngine
from anydml.ir.views import View
from drawing import random_values

if TYPE_CHECKING:
    from random import Random

    from anydml.ir.verbs import Primitive

    Array = np.ndarray[Any, Any]

FRAME = 64
"""Elements around what views reach, which nobody may write."""
TYPES = (
    DataType.FLOAT32, DataType.FLOAT16, DataType.UINT8, DataType.INT8, DataType.INT16, DataType.INT32,
    DataType.UINT32, DataType.INT64, DataType.UINT64,
)  # fmt: skip


@functools.cache
def webgpu() -> WebGpuEngine:
    """The engine, whose device all tests share."""
    return WebGpuEngine()


def carried_out(verb: Primitive, arrays: dict[str, Array], offset: int = 0) -> dict[str, Array]:
    """What the memory of each tensor is afterwards; tensors begin so many bytes after a multiple of 256."""
    engine = webgpu()
    memory = engine._memory
    buffers = {name: engine.reserve(array.nbytes + 256) for name, array in arrays.items()}
    places = {name: buffer.address + offset for name, buffer in buffers.items()}
    for name, array in arrays.items():
        memory.write(places[name], array.view(np.uint8).reshape(-1))
    engine.compile(verb).bind(places)()
    return {name: memory.read(places[name], array.nbytes).view(array.dtype) for name, array in arrays.items()}


def agree(
    verb: Primitive, arrays: dict[str, Array], *, offset: int = 0, near: bool = False, error: float = 0.0
) -> dict[str, Array]:
    """Compare all memory, bit for bit, or within a step of its type; what the reference has."""
    wanted = {name: array.copy() for name, array in arrays.items()}
    ReferenceEngine().compile(verb).bind({name: array.ctypes.data for name, array in wanted.items()})()
    got = carried_out(verb, arrays, offset)
    for name, array in wanted.items():
        if near and array.dtype.kind == "f":
            assert_near(got[name], array, error, (name, verb))
        else:
            assert_same(got[name], array, (name, verb))
    return wanted


def packed(tensor: str, of: DataType, sizes: tuple[int, ...], offset: int = 0) -> View:
    """A view without gaps."""
    return View(tensor, of, sizes, tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes))), offset)


def laid_out(random: Random, tensor: str, of: DataType, sizes: tuple[int, ...], *, repeats: bool = False) -> View:
    """Dimensions in any order, with gaps, backwards, and of what is read alone some that repeat."""
    order = list(range(len(sizes)))
    if random.random() < 0.3:
        random.shuffle(order)
    strides, step = [0] * len(sizes), 1
    offset = random.choice((0, 0, 0, 1, 3, 4, 8))
    if random.random() < 0.15:
        step = random.choice((2, 3, 4))
    for k in reversed(order):
        if repeats and random.random() < 0.2:
            continue
        strides[k] = step
        if random.random() < 0.1:
            strides[k] = -step
            offset += (sizes[k] - 1) * step
        step *= sizes[k]
        if random.random() < 0.2:
            step += random.choice((1, 2, 4))
    return View(tensor, of, sizes, tuple(strides), offset)


def contents(random: Random, *views: View, style: str = "normal") -> dict[str, Array]:
    """Numbers for all that views reach, and beyond."""
    found: dict[str, Array] = {}
    for view in views:
        last = view.offset + sum(max(s, 0) * (n - 1) for n, s in zip(view.sizes, view.strides, strict=True))
        values = random_values(view.data_type, last + 1 + FRAME, style, random.getrandbits(32))
        if view.tensor not in found or values.size > found[view.tensor].size:
            found[view.tensor] = values
    return found
