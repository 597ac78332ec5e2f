"""Lazy arrays of blocks that tasks compute: dask arrays in both settings of `array.query-planning`."""

from __future__ import annotations

import abc
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.blockwise import Blockwise as DaskBlockwise
from dask.graph_manipulation import clone

from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Key: TypeAlias = tuple[Any, ...]
Chunks: TypeAlias = tuple[tuple[int, ...], ...]
"""The sizes of the blocks along each dimension."""
_KEPT = 2**28
"""Bytes of an array whose blocks stay in memory between two passes over them."""


@dataclass(frozen=True)
class Layer(abc.ABC):
    """The tasks of one lazy array, apart from the names of the arrays that it reads."""

    prefix: str
    """The first part of the array's name, which its tasks have too: the function's."""

    @abc.abstractmethod
    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """A task for every block, keyed by the array's name and the block's place, and those that it needs between."""

    def graph(self, name: str, inputs: Sequence[str]) -> Mapping[Key, Any]:
        """The tasks, in a form that Dask may fuse with those of other arrays."""
        return self.tasks(name, inputs)

    def __dask_tokenize__(self) -> str:
        return repr(self)  # parts write themselves in full: a description its fields, a verb its expressions


def lazy(layer: Layer, inputs: Sequence[Any], chunks: Chunks, meta: Any) -> Any:
    """The dask array of a layer's blocks."""
    if da.array_expr_enabled():
        import_alone("dask._collections")
        from dask._collections import new_collection

        import_alone("anydml.dask.planned")
        from anydml.dask.planned import Blocks

        return new_collection(Blocks(layer, chunks, meta, *(x.expr for x in inputs)))
    import_alone("dask.highlevelgraph")
    from dask.highlevelgraph import HighLevelGraph

    name = f"{layer.prefix}-{tokenize(layer, chunks, *inputs)}"
    tasks = layer.graph(name, [x.name for x in inputs])
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=list(inputs))
    return da.Array(graph, name, chunks, meta=meta)


def reads_of(array: Any) -> Mapping[Key, Any]:
    """The tasks that read the blocks of an array from a store; none where they are computed, or few."""
    if array.nbytes <= _KEPT or da.array_expr_enabled():
        return {}
    layers = dict(array.dask.layers)
    own = layers.pop(array.name, None)
    is_read = isinstance(own, DaskBlockwise) and all(len(layer) == 1 for layer in layers.values())
    return own if is_read else {}


def read_anew(array: Any, times: int) -> Any:
    """The same array, whose blocks are read from a store another time; as it is where they are computed, or few.

    Blocks that several passes need would wait in memory between them. Dask spills those that are computed.
    """
    return clone(array, seed=f"anydml {times}", assume_layers=True) if times and reads_of(array) else array


def meta_like(array: Any, rank: int, dtype: Any) -> Any:
    """An empty array of the library that another's blocks are of."""
    return meta_from_array(array._meta, ndim=rank, dtype=np.dtype(dtype))  # noqa: SLF001 - Dask has no other name for it


def is_known(array: Any) -> bool:
    """Whether the sizes of all blocks are known."""
    return not any(math.isnan(size) for sizes in array.chunks for size in sizes)


def edges(sizes: Sequence[int]) -> list[int]:
    """Where the blocks along a dimension start, and where the last one ends."""
    return [0, *itertools.accumulate(sizes)]


def places(chunks: Chunks) -> Iterator[tuple[int, ...]]:
    """The places of all blocks, the last dimension running fastest."""
    return itertools.product(*(range(len(sizes)) for sizes in chunks))


def common(several: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Blocks along a dimension that end wherever one of several arrays' blocks ends."""
    ends = sorted({end for sizes in several for end in edges(sizes)})
    return tuple(b - a for a, b in itertools.pairwise(ends))


def rechunked(array: Any, chunks: dict[int, tuple[int, ...]]) -> Any:
    """The same array in other blocks along some axes; as it is where they are its own."""
    wanted = {axis: sizes for axis, sizes in chunks.items() if array.chunks[axis] != tuple(sizes)}
    return array.rechunk(wanted) if wanted else array
