"""The reference engine: the primitives in plain NumPy, a few lines each. Never fast, and the oracle for every other."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference.evaluate import evaluate
from anydml.engines.reference.reducing import reduce
from anydml.ir.patterns import is_copy
from anydml.ir.verbs import IndexedCopy, IndexFault, Map, Reduce, Reverse, Scan, views_of
from anydml.memory import HOST, numpy_view, reserve_host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

Array = np.ndarray[Any, Any]


class ReferenceEngine:
    """Plain NumPy."""

    name = "reference"
    memory = HOST
    reserve = staticmethod(reserve_host)

    def compile(self, primitive: Primitive) -> ReferenceProgram:
        """Nothing to plan."""
        return ReferenceProgram(primitive)


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """A primitive, to be bound."""

    primitive: Primitive

    def bind(self, places: Mapping[str, int]) -> Callable[[], None]:
        """Make the NumPy views; a dispatch works on them."""
        arrays = [_array(view, places[view.tensor]) for view in views_of(self.primitive)]
        return functools.partial(_VERBS[type(self.primitive)], self.primitive, *arrays)


def _array(view: View, place: int) -> Array:
    first = place + view.offset * view.data_type.size_in_bytes
    return numpy_view(first, view.sizes, view.strides, view.data_type.dtype)


def _bits(array: Array) -> Array:
    """The same elements as unsigned integers, so that a copy moves every bit of a NaN."""
    return array.view(f"u{array.dtype.itemsize}")


def copy(source: Array, target: Array) -> None:
    """Move every element."""
    np.copyto(_bits(target), _bits(source))


def gather(primitive: IndexedCopy, source: Array, indices: Array, target: Array) -> None:
    """Look every tuple up, batch by batch."""
    coordinates = resolve(primitive, indices)
    for batch in np.ndindex(indices.shape[: primitive.batch_rank]):
        chosen = tuple(coordinate[batch] for coordinate in coordinates)
        np.copyto(_bits(target)[(*batch, ...)], _bits(source)[batch][chosen])


def resolve(primitive: IndexedCopy, indices: Array) -> list[Array]:
    """Turn the coordinates of every tuple into ones of 0 .. size - 1, or find the first tuple that has none.

    They are compared in their own type: an unsigned one has no negatives, and 2^64 - 1 must not turn into -1. They are
    read once: another thread may write to them.
    """
    sizes, indices = primitive.indexed_sizes, np.array(indices)
    columns = [indices[..., k] for k in range(len(sizes))]
    signed = indices.dtype.kind == "i"
    above = [index >= size for index, size in zip(columns, sizes, strict=True)]
    below = [(index < -size) & signed for index, size in zip(columns, sizes, strict=True)]
    outside = np.stack([a | b for a, b in zip(above, below, strict=True)], axis=-1)
    if outside.any() and not primitive.clamp:
        *position, k = (int(p) for p in np.argwhere(outside)[0])
        found = tuple(int(i) for i in indices[tuple(position)])
        raise IndexFault(tuple(position), found, primitive.batch_rank + k, sizes[k])
    return [
        np.where(a, size - 1, np.where(b, 0, index.astype(np.int64) + size * ((index < 0) & signed)))
        for index, size, a, b in zip(columns, sizes, above, below, strict=True)
    ]


def scan(primitive: Scan, source: Array, target: Array) -> None:
    """Add up or multiply along the axis, floats in float64; rounding happens once, in the write."""
    if primitive.reverse:
        source, target = np.flip(source, primitive.axis), np.flip(target, primitive.axis)
    accumulate = np.cumsum if primitive.function == "sum" else np.cumprod
    accumulator = np.float64 if source.dtype.kind == "f" else source.dtype
    with np.errstate(all="ignore"):
        tally = accumulate(source, axis=primitive.axis, dtype=accumulator)
        if primitive.exclusive:
            start = np.full_like(np.take(tally, [0], primitive.axis), 0 if primitive.function == "sum" else 1)
            tally = np.concatenate([start, np.delete(tally, -1, primitive.axis)], primitive.axis)
        np.copyto(target, tally, casting="same_kind")


def compute(primitive: Map, *arrays: Array) -> None:
    """Evaluate the expression for every element, all of them before one is written."""
    *sources, target = arrays
    if is_copy(primitive):
        copy(sources[0], target)
        return
    np.copyto(target, evaluate(primitive.value, sources, target.shape))


def reverse(primitive: Reverse, source: Array, lengths: Array, target: Array) -> None:
    """Turn round as much of each line as its length says."""
    size = source.shape[primitive.axis]
    along = np.arange(size).reshape([size if k == primitive.axis else 1 for k in range(source.ndim)])
    counts = np.minimum(lengths, size).astype(np.int64)
    order = np.where(along < counts, counts - 1 - along, along)
    np.copyto(_bits(target), np.take_along_axis(_bits(source), order, primitive.axis))


_VERBS: dict[type[Primitive], Callable[..., None]] = {
    Map: compute,
    Reduce: reduce,
    IndexedCopy: gather,
    Scan: scan,
    Reverse: reverse,
}
