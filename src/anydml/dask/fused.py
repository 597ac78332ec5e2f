"""Layers with one task a block, of one block of each input: Dask makes one task of them and of their neighbours."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask.blockwise import BlockwiseDep
from dask.blockwise import blockwise as dask_blockwise

from anydml.dask.arrays import Key, Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Fused(Layer):
    """Blocks that are each made from the block of every input that lies at the same place, or from its only one."""

    @property
    @abc.abstractmethod
    def grid(self) -> tuple[int, ...]:
        """The number of blocks along each dimension of the result."""

    @abc.abstractmethod
    def along(self) -> Sequence[Sequence[int | None]]:
        """By input and axis, the dimension of the result whose blocks meet the input's; None along one block."""

    @abc.abstractmethod
    def at(self, place: Sequence[int], known: dict[Any, Any]) -> Callable[..., Any]:
        """The function that makes a block of the inputs'; `known` is shared by those of all places."""

    def graph(self, name: str, inputs: Sequence[str]) -> Mapping[Key, Any]:
        """A layer that Dask can fuse."""
        result = tuple(range(len(self.grid)))
        pairs: list[Any] = []
        counts = {}
        for number, (source, axes) in enumerate(zip(inputs, self.along(), strict=True)):
            counts[source] = tuple(1 if d is None else self.grid[d] for d in axes)
            free = iter([d for d in result if d not in axes])  # along one block any dimension will do
            indices = [next(free, None) if d is None else d for d in axes]
            pairs += [source, [f"{number} {axis}" if d is None else str(d) for axis, d in enumerate(indices)]]
        places = tuple(map(str, result))
        added = {d: 1 for d in places if not any(d in indices for indices in pairs[1::2])}
        functions = _Functions(name, self)
        return dask_blockwise(_call, name, places, functions, places, *pairs, numblocks=counts, new_axes=added)  # type: ignore[no-any-return]  # Dask has no types

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """One a block."""
        return dict(self.graph(name, inputs))


class _Functions(BlockwiseDep):  # type: ignore[misc]  # Dask has no types
    """By place, the function that makes a block."""

    produces_tasks = False

    def __init__(self, name: str, layer: Fused) -> None:
        self.name, self.layer, self.numblocks = name, layer, layer.grid
        self._known: dict[Any, Any] = {}

    def __getitem__(self, place: tuple[int, ...]) -> Callable[..., Any]:
        return self.layer.at(place, self._known)

    def __dask_tokenize__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _Functions, (self.name, self.layer)


def _call(function: Callable[..., Any], *blocks: Any) -> Any:
    return function(*map(_only, blocks))


def _only(block: Any) -> Any:
    """A block as it is; Dask puts those along dimensions that the result lacks in lists."""
    while isinstance(block, list):
        (block,) = block
    return block
