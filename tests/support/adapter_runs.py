"""Verbs on a webgpu device, and by the reference engine: memory in, memory out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference import ReferenceEngine
from anydml.engines.webgpu import WebGpuEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.ir.verbs import Primitive

Array = np.ndarray[Any, Any]


@functools.cache
def engine() -> WebGpuEngine:
    """That of the first adapter."""
    return WebGpuEngine()


def route(verb: Primitive) -> str:
    """The row of the decision table that a verb is carried out by."""
    return engine().route([verb], frozenset()).name


def run(verb: Primitive, arrays: Mapping[str, Array], first: int = 0) -> Array:
    """The memory of a verb's target after it was run, all tensors lying so many bytes after a buffer's start."""
    gpu = engine()
    buffers = {name: gpu.reserve(array.nbytes + first) for name, array in arrays.items()}
    for name, array in arrays.items():
        gpu._memory.write(buffers[name].address + first, array.view(np.uint8).reshape(-1))
    gpu.compile(verb).bind({name: buffer.address + first for name, buffer in buffers.items()})()
    array = arrays[verb.target.tensor]
    found: Array = gpu._memory.read(buffers[verb.target.tensor].address + first, array.nbytes).view(array.dtype)
    return found


def wanted(verb: Primitive, arrays: Mapping[str, Array]) -> Array:
    """The same by the reference engine."""
    own = {name: array.copy() for name, array in arrays.items()}
    ReferenceEngine().compile(verb).bind({name: array.ctypes.data for name, array in own.items()})()
    return own[verb.target.tensor]


def agree(verb: Primitive, arrays: Mapping[str, Array], rtol: float, first: int = 0) -> None:
    """Answers are alike, as far as a part of the largest one."""
    found, expected = run(verb, arrays, first), wanted(verb, arrays)
    assert (np.isnan(found) == np.isnan(expected)).all()
    with np.errstate(invalid="ignore"):
        far = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    far[np.isnan(expected) | (found == expected)] = 0
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    assert far.max(initial=0) <= rtol * finite.max(initial=0), (np.argmax(far), far.max(), finite.max(initial=0))
