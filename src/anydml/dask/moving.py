"""Operators that move whole blocks or parts of them, and compute nothing: Dask's own indexing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da

from anydml.operators.join import Join, Split
from anydml.operators.manipulation import Tile
from anydml.operators.slice import Slice, Slice1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.dask.tensors import Tensor
    from anydml.operators import OperatorDesc


def _part(x: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> Any:
    """The elements start + step·i of each dimension, for i below a size."""
    index = [slice(None)] * x.array.ndim
    for axis, start, step, size in zip(x.axes, starts, steps, sizes, strict=True):
        if axis is not None:
            last = start + step * (size - 1)
            stop = last + (1 if step > 0 else -1)
            index[axis] = slice(start, None if stop < 0 else stop, step)
    return x.array[tuple(index)]


def _slice(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    return [_part(tensors[0], desc.offsets, desc.strides, desc.sizes)]


def _slice1(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    windows = zip(desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, strict=True)
    starts = [offset + (size - 1 if stride < 0 else 0) for offset, size, stride in windows]
    return [_part(tensors[0], starts, desc.input_window_strides, desc.output_tensor.sizes)]


def _join(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    axis = tensors[0].axes[desc.axis]
    return [da.concatenate([x.array for x in tensors], axis=0 if axis is None else axis)]


def _split(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    (x,), found, first = tensors, [], 0
    for output in desc.output_tensors:
        starts = [first if d == desc.axis else 0 for d in range(len(x.sizes))]
        found.append(_part(x, starts, (1,) * len(starts), output.sizes))
        first += output.sizes[desc.axis]
    return found


def _tile(desc: Any, tensors: Sequence[Tensor]) -> list[Any]:
    (x,) = tensors
    array = x.array
    for axis, repeat in zip(x.axes, desc.repeats, strict=True):
        if repeat > 1 and axis is not None:
            array = da.concatenate([array] * repeat, axis=axis)
    return [array]


_RULES: dict[type[OperatorDesc], Callable[[Any, Sequence[Tensor]], list[Any]]] = {
    Join: _join,
    Slice: _slice,
    Slice1: _slice1,
    Split: _split,
    Tile: _tile,
}


def moved_blocks(desc: OperatorDesc, tensors: Mapping[str, Tensor]) -> list[Any] | None:
    """The results of an operator that Dask's indexing carries out; None of others."""
    rule = _RULES.get(type(desc))
    has_added = any(axis is None for x in tensors.values() for axis in x.axes) and isinstance(desc, Join)
    return None if rule is None or has_added else rule(desc, list(tensors.values()))
