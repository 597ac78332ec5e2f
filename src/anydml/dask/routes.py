"""Gathers and scatters whose source is cut: indices go to the blocks that they point into.

Everything is told in the dimensions of the verb: batches, then the dimensions that tuples choose from, then the rest.
A block of indices is sorted by the block of the source that each tuple points into; each block of the source is read
by one task, for all blocks of indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import IndexRangeError
from anydml.core.memory import packed_strides
from anydml.dask.walked import dims_of
from anydml.ir.verbs import IndexFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.dask.arrays import Chunks
    from anydml.dask.tensors import Layout, Tensor
    from anydml.dask.walked import Dims
    from anydml.ir.views import View
    from anydml.operators import OperatorDesc

Array = Any


@dataclass(frozen=True)
class Shown:
    """A tensor in the dimensions of a view."""

    layout: Layout
    dims: Dims
    """By dimension of the tensor, the view's."""
    rank: int
    """Of the view."""
    chunks: Chunks
    """By dimension of the view."""

    @classmethod
    def of(cls, x: Tensor, view: View) -> Shown | None:
        """None where the view is not the whole tensor, dimension by dimension."""
        dims = dims_of(view, x.sizes, packed_strides(x.sizes))
        if dims is None:
            return None
        own: list[tuple[int, ...]] = [(1,)] * len(view.sizes)
        for d, k in enumerate(dims):
            if k is not None:
                own[k] = x.chunks[d]
        return cls(x.layout, dims, len(view.sizes), tuple(own))

    def key(self, name: str, at: Sequence[int]) -> tuple[Any, ...]:
        """The key of the block at a place in the dimensions of the view."""
        return self.layout.key(name, [0 if k is None else at[k] for k in self.dims])

    def seen(self, block: Array) -> Array:
        """A block in the dimensions of the view."""
        kept = [(k, d) for d, k in enumerate(self.dims) if k is not None]
        axes = [axis for _, d in sorted(kept) if (axis := self.layout.axes[d]) is not None]
        others = [axis for axis in range(block.ndim) if axis not in axes]
        block = block.transpose([*others, *axes])
        sizes = [1] * self.rank
        for (k, d), size in zip(sorted(kept), block.shape[len(others) :], strict=True):
            del d
            sizes[k] = size
        return block.reshape(sizes)

    def back(self, block: Array, drop: int) -> Array:
        """A block of the view as one of the tensor, without the dimensions that were added."""
        kept = [k for k in self.dims if k is not None]
        others = [k for k in range(self.rank) if k not in kept]
        block = block.transpose([*others, *kept])
        sizes = iter(block.shape[len(others) :])
        return block.reshape([1 if k is None else next(sizes) for k in self.dims][drop:])


@dataclass(frozen=True)
class Tuples:
    """The source of tuples: the edges of the source's blocks, dimension by dimension."""

    edges: tuple[tuple[int, ...], ...]
    """First those of batches that indices vary along, then those of the dimensions that are indexed."""
    batch: int
    """The number of the former."""
    first: int
    """The number of the verb's first indexed dimension, as a fault names it."""

    @property
    def counts(self) -> tuple[int, ...]:
        """The blocks along each dimension."""
        return tuple(len(own) - 1 for own in self.edges)


@dataclass(frozen=True)
class Route:
    """One block of indices: which tuples go to which block of the source, and the order that they had."""

    order: Array
    """The numbers of the tuples, sorted by the block that each points into."""
    tuples: Array
    """In that order, within their blocks."""
    starts: Array
    """Where those of each block begin."""

    def has(self, first: int, end: int) -> bool:
        """Whether a tuple points into one of some blocks of the source."""
        return bool(self.starts[first] < self.starts[end])

    def of(self, first: int, end: int) -> tuple[Array, Array]:
        """The tuples of some blocks of the source, and their numbers."""
        part = slice(int(self.starts[first]), int(self.starts[end]))
        return self.tuples[part], self.order[part]


def route(
    indices: Array, starts: Sequence[int], varying: Sequence[int], to: Tuples, clamp: bool, desc: OperatorDesc
) -> Route:
    """Sort the tuples of a block of indices, in the dimensions of the view: `starts` is where it begins in the whole.

    An index outside its dimension is an error that names its place in the whole.
    """
    size = indices.shape[-1]
    host = indices.get() if hasattr(indices, "get") else indices  # CuPy's
    flat = np.asarray(host).reshape(-1, size)
    columns: list[Array] = []
    for k in varying:
        shape = [1] * (indices.ndim - 1)
        shape[k] = indices.shape[k]
        along = np.arange(starts[k], starts[k] + indices.shape[k]).reshape(shape)
        columns.append(np.broadcast_to(along, indices.shape[:-1]).reshape(-1))
    for k in range(size):
        limit, column = to.edges[to.batch + k][-1], flat[:, k]
        outside = column >= limit
        if column.dtype.kind == "i":
            outside |= column < -limit
        if outside.any():
            if not clamp:
                _raise_outside(flat, outside, k, indices.shape, starts, limit, to, desc)
            column = np.clip(column, -limit, limit - 1) if column.dtype.kind == "i" else np.minimum(column, limit - 1)
        column = column.astype(np.int64)
        columns.append(np.where(column < 0, column + limit, column))
    block = np.zeros(len(flat), np.int64)
    local = np.empty((len(flat), len(columns)), np.int64)
    for k, (column, own) in enumerate(zip(columns, to.edges, strict=True)):
        at = np.searchsorted(own, column, side="right") - 1
        local[:, k] = column - np.asarray(own)[at]
        block = block * (len(own) - 1) + at
    order = np.argsort(block, kind="stable")
    bounds = np.searchsorted(block[order], np.arange(math.prod(to.counts) + 1))
    return Route(order, local[order], bounds)


def _raise_outside(
    flat: Array,
    outside: Array,
    k: int,
    shape: Sequence[int],
    starts: Sequence[int],
    limit: int,
    to: Tuples,
    desc: OperatorDesc,
) -> None:
    number = int(np.argmax(outside))
    within = np.unravel_index(number, tuple(shape[:-1])) if len(shape) > 1 else ()
    position = tuple(int(a) + b for a, b in zip(within, starts, strict=False))
    fault = IndexFault(position, tuple(map(int, flat[number])), to.first + k, limit)
    raise IndexRangeError(desc.type.name, desc.word_index_fault(fault))
