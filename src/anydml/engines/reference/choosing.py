"""Scatters and orders in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from anydml.ir.verbs import Scatter, Sort

Array = np.ndarray[Any, Any]


def scatter(primitive: Scatter, base: Array, indices: Array, updates: Array, target: Array) -> None:
    """Write all tuples at once, of which NumPy leaves the last of equal ones; bits are moved."""
    batch, sizes = primitive.batch_rank, target.shape[primitive.indexed]
    bits, indices = f"u{target.dtype.itemsize}", np.array(indices)  # read once: another thread may write to them
    target = target.view(bits)
    updates = np.array(updates.view(bits))
    np.copyto(target, base.view(bits))
    found = [np.where(i < 0, i + size, i) for i, size in zip(np.moveaxis(indices, -1, 0), sizes, strict=True)]
    inside = np.all([(i >= 0) & (i < size) for i, size in zip(found, sizes, strict=True)], axis=0)
    batches = np.nonzero(inside)[:batch]
    target[(*batches, *(i[inside].astype(np.int64) for i in found))] = updates[inside]


def sort(primitive: Sort, source: Array, target: Array) -> None:
    """Sort keys that rise with the order, in which equal elements stay in theirs."""
    axis, count = primitive.axis, target.shape[primitive.axis]
    with np.errstate(invalid="ignore"):  # a NaN that signals
        keys = source.astype(np.float64) if source.dtype.kind == "f" else source
    if primitive.largest:  # turned round, the last of equals is the first
        order = source.shape[axis] - 1 - np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis, kind="stable")
    np.copyto(target, np.take(order, range(count), axis), casting="unsafe")
