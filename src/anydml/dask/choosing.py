"""TOP_K along a cut axis: the best of each block, and the best of those."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Task, TaskRef

from anydml.dask.arrays import Chunks, Key, Layer, edges, lazy, meta_like, places
from anydml.dask.blocks import Block, run, seen
from anydml.dask.folds import Part
from anydml.operator_type import function_name
from anydml.operators.select import TopK
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.tensors import Layout, Tensor
    from anydml.operators import OperatorDesc

_AT_ONCE = 8
"""Blocks whose best are put together by one task."""


@dataclass(frozen=True)
class Best(Layer):
    """The best along an axis and their places, together."""

    desc: TopK
    layout: Layout
    chunks: Chunks
    drop: int
    asked: Asked

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """One a block, and a tree for each row of blocks: of equals the first one's come first."""
        made: dict[Key, Any] = {}
        axis, starts = self.desc.axis, edges(self.chunks[self.desc.axis])
        rest = tuple((1,) if d == axis else own for d, own in enumerate(self.chunks))
        for at in places(rest):
            refs = []
            for number in range(len(self.chunks[axis])):
                place = tuple(number if d == axis else i for d, i in enumerate(at))
                sizes = tuple(own[i] for own, i in zip(self.chunks, place, strict=True))
                key = (f"{name}-block", *place)
                block = Block(self.prefix, place)
                source = TaskRef(self.layout.key(inputs[0], place))
                shapes = self.layout.local(sizes)
                made[key] = Task(key, _best, self.desc, self.asked, shapes, starts[number], block, source)
                refs.append(TaskRef(key))
            level = 0
            while True:
                groups = [refs[i : i + _AT_ONCE] for i in range(0, len(refs), _AT_ONCE)]
                is_last = len(groups) == 1
                refs = []
                for number, group in enumerate(groups):
                    key = (name, *at[self.drop :]) if is_last else (f"{name}-{level}", *at, number)
                    drop = self.drop if is_last else 0
                    made[key] = Task(key, _best_of, self.desc, self.asked, drop, Block(self.prefix, at), *group)
                    refs.append(TaskRef(key))
                if is_last:
                    break
                level += 1
        return made


def _top(desc: TopK, asked: Asked, x: Any) -> tuple[Any, Any]:
    """The best of an array, at most as many as there are."""
    k = min(desc.k, x.shape[desc.axis])
    sizes = tuple(k if d == desc.axis else size for d, size in enumerate(x.shape))
    values, indices = (TensorDesc(output.data_type, sizes) for output in desc.outputs().values())
    own = TensorDesc(desc.input_tensor.data_type, x.shape)
    local = replace(desc, input_tensor=own, output_value_tensor=values, output_index_tensor=indices, k=k)
    found: tuple[Any, Any] = run(local, [x], asked)
    return found


def _best(desc: TopK, asked: Asked, shapes: Any, start: int, block: Block, x: Any) -> tuple[Any, Any]:
    with block:
        values, indices = _top(desc, asked, seen(x, shapes))
        return values, indices + indices.dtype.type(start)


def _best_of(desc: TopK, asked: Asked, drop: int, block: Block, *parts: tuple[Any, Any]) -> tuple[Any, Any]:
    with block:
        values, indices = (np.concatenate([part[i] for part in parts], axis=desc.axis) for i in (0, 1))
        found, at = _top(desc, asked, values)
        chosen = np.take_along_axis(indices, at.astype(np.int64), axis=desc.axis)
        return found.reshape(found.shape[drop:]), chosen.reshape(chosen.shape[drop:])


def best(desc: OperatorDesc, tensors: Mapping[str, Tensor], ranks: Mapping[str, int], asked: Asked) -> list[Any] | None:
    """The results of a TOP_K as lazy arrays; None of other operators."""
    if not isinstance(desc, TopK):
        return None
    x = tensors["InputTensor"]
    drop = len(x.sizes) - ranks["OutputValueTensor"]
    layer = Best(function_name(desc.type), desc, x.layout, x.chunks, drop, asked)
    chunks = tuple((desc.k,) if d == desc.axis else own for d, own in enumerate(x.chunks))[drop:]
    whole = lazy(layer, [x.array], chunks, meta_like(x.array, len(chunks), x.array.dtype))
    found = []
    for number, output in enumerate(desc.outputs().values()):
        meta = meta_like(x.array, len(chunks), output.data_type.dtype)
        found.append(lazy(Part(layer.prefix, number, chunks), [whole], chunks, meta))
    return found
