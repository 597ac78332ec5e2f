"""The work of a worker on blocks: it runs a description on them, and says which block failed."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.api.broadcasting import without_truths
from anydml.arrays import device_of as device_at
from anydml.arrays.tensor import TensorDesc
from anydml.core.errors import IndexRangeError
from anydml.core.memory import HOST
from anydml.ir.verbs import IndexFault
from anydml.runtime.buffer_pool import SpareMemory
from anydml.runtime.device import Device, device_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.operators import OperatorDesc

Asked = tuple[str, str] | None
"""The name and the feature level of a device; None for the one that blocks lie on."""
Seen = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape that a block is given, and the one that it is repeated to."""


_LARGE = 2**17
"""Bytes from which on workers get memory from the system for every block: Dask has them give it back at once."""
_MEMORY = SpareMemory(64, 2**27)
"""At most 128 MiB, Dask's own size of a block."""


@functools.cache
def _device(name: str, level: str) -> Device:
    return Device(name, feature_level=level)


def device_of(asked: Asked, block: Any) -> Device:
    """The device that was asked for, or the one that a block lies on."""
    if asked is not None:
        return _device(*asked)
    return device_named(device_at(block))


def seen(block: Any, shapes: Seen) -> Any:
    """A block in the dimensions of a description."""
    block = without_truths(block)
    own, whole = shapes
    if not hasattr(block, "reshape"):
        block = np.asarray(block)
    if block.shape != own:
        block = block.reshape(own)
    return block if own == whole else np.broadcast_to(block, whole)


def described(desc: OperatorDesc, arrays: Sequence[Any]) -> OperatorDesc:
    """A description of packed tensors as arrays lie."""
    layouts = {}
    for field, array in zip(desc.inputs(), arrays, strict=True):
        steps = tuple(step // array.dtype.itemsize for step in array.strides)
        if not array.flags.c_contiguous and array.size > 1:
            layouts[field] = TensorDesc(
                desc.inputs()[field].data_type, array.shape, strides=steps, signed_strides=min(steps) < 0
            )
    return desc.with_tensors(lambda field, tensor: layouts.get(field, tensor)) if layouts else desc


def beside(array: Any, other: Any) -> Any:
    """An array of the host's in the memory of another."""
    return array if isinstance(other, np.ndarray) else np.asarray(array, like=other)


def run(desc: OperatorDesc, arrays: Sequence[Any], asked: Asked) -> Any:
    """Run a description on arrays of its dimensions, where those of a GPU lie: one result, or a tuple of several."""
    other = next((array for array in arrays if not isinstance(array, np.ndarray)), arrays[0])
    arrays = [beside(array, other) for array in arrays]
    device = device_of(asked, arrays[0])
    compiled = device.compile_cached(described(desc, arrays))
    if compiled.memory != HOST or any(kind.is_half_byte for kind, *_ in compiled.results):
        return compiled(*arrays)
    results = [empty(sizes, kind.dtype) for kind, sizes, _ in compiled.results]
    return compiled.bind(*arrays, out=results if len(results) > 1 else results[0]).dispatch()


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Host memory for a block: unused memory of earlier blocks, where there is some of that size."""
    size = math.prod(shape) * dtype.itemsize
    return _MEMORY.make(shape, dtype, size) if size >= _LARGE else np.empty(shape, dtype)


def empty_like(block: Any, shape: Sequence[int]) -> Any:
    """Memory for a block of the type of another, where that lies."""
    return empty(shape, block.dtype) if type(block) is np.ndarray else np.empty_like(block, shape=tuple(shape))


def run_block(
    desc: OperatorDesc, asked: Asked, shapes: Sequence[Seen], drops: Sequence[int], block: Block, *blocks: Any
) -> Any:
    """The results of one block, without the dimensions that were added: an array, or a tuple of several."""
    with block:
        arrays = [seen(one, shape) for one, shape in zip(blocks, shapes, strict=True)]
        found = run(desc, arrays, asked)
        results = found if isinstance(found, (list, tuple)) else [found]
        kept = [one.reshape(one.shape[drop:]) if drop else one for one, drop in zip(results, drops, strict=True)]
        return kept[0] if len(kept) == 1 else tuple(kept)


def part_of(parts: Sequence[Any], number: int) -> Any:
    """One of several results that a task gives together."""
    return parts[number]


class Block:
    """The block that a task computes: errors within it say which, and name indices by their place in the whole."""

    def __init__(
        self, operator: str, at: Sequence[int], whole: OperatorDesc | None = None, first: Sequence[int] = ()
    ) -> None:
        self.operator, self.at, self.whole, self.first = operator, tuple(at), whole, tuple(first)

    def __repr__(self) -> str:
        return f"Block({self.operator!r}, {self.at!r}, {self.whole!r}, {self.first!r})"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        where = f"in block {self.at} of {self.operator}"
        if isinstance(error, IndexRangeError) and (found := _fault_of(error)) is not None and self.whole is not None:
            starts = (*self.first, *(0,) * len(found.position))
            position = tuple(a + b for a, b in zip(found.position, starts, strict=False))
            moved = IndexFault(position, found.indices, found.dimension, found.size, found.node)
            raised = IndexRangeError(error.subject, self.whole.word_index_fault(moved))
            raised.add_note(where)
            raise raised from None
        if not any(where in note for note in getattr(error, "__notes__", ())):
            error.add_note(where)


def _fault_of(error: BaseException) -> IndexFault | None:
    """The index that an error is about."""
    for cause in (error.__cause__, error.__context__):
        if isinstance(cause, IndexFault):
            return cause
    return None
