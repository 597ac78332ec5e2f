"""Verbs whose views are whole tensors, dimension by dimension: they can be run on blocks of those, and staged."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.arrays.tensor import TensorDesc
from anydml.core.memory import packed_strides
from anydml.dask.blocks import Block, run_block
from anydml.dask.fused import Fused
from anydml.dask.verbs import Verbs
from anydml.ir.trees import fetched, moved, walk
from anydml.ir.verbs import Computation, Reduce, Write
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.core.operator_type import OperatorType
    from anydml.dask.arrays import Chunks
    from anydml.dask.blocks import Asked
    from anydml.dask.tensors import Layout

Dims: TypeAlias = tuple[int | None, ...]
"""By dimension of a tensor, that of the walk that runs along it; None for one of size 1."""


def dims_of(view: View, sizes: Sequence[int], strides: Sequence[int]) -> Dims | None:
    """How a walk runs along the dimensions of a tensor; None where that is not one by one and whole."""
    found: list[int | None] = [None] * len(sizes)
    for k, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True)):
        if size == 1 or not stride:
            continue
        d = next((d for d, own in enumerate(strides) if own == stride and sizes[d] == size), None)
        if d is None or found[d] is not None:
            return None
        found[d] = k
    is_whole = all(size == 1 or k is not None for size, k in zip(sizes, found, strict=True))
    return tuple(found) if is_whole and not view.offset else None


def is_plain(verb: object) -> bool:
    """Whether a verb computes from the elements at its own place alone, in rows or not."""
    return isinstance(verb, Computation) and not verb.checks and not fetched(*verb.values)


@dataclass(frozen=True)
class Walked(Fused):
    """The blocks of what a verb computes, each from the blocks at its place of the walk."""

    kind: OperatorType
    verb: Computation
    sources: tuple[tuple[Layout, Dims], ...]
    """By source, how its blocks stand in the dimensions of its tensor, and how the walk runs along them."""
    targets: tuple[Dims, ...]
    chunks: Chunks
    """Of the walk."""
    drop: int
    """The leading dimensions of the targets that were added."""
    asked: Asked

    @property
    def _walked(self) -> Dims:
        """By dimension of the result, that of the walk."""
        return self.targets[0][self.drop :]

    @property
    def grid(self) -> tuple[int, ...]:
        """The blocks of the walk, in the dimensions of the targets."""
        return tuple(1 if k is None else len(self.chunks[k]) for k in self._walked)

    def along(self) -> list[list[int | None]]:
        """Dimensions that are walked in step meet."""
        found = []
        for layout, dims in self.sources:
            walked = {axis: k for axis, k in zip(layout.axes, dims, strict=True) if axis is not None and k is not None}
            cut = {axis: k for axis, k in walked.items() if len(self.chunks[k]) > 1}
            found.append([self._walked.index(cut[axis]) if axis in cut else None for axis in range(layout.rank)])
        return found

    def at(self, place: Sequence[int], known: dict[Any, Any]) -> Callable[..., Any]:
        """The verb of a block, run."""
        numbers = {k: i for k, i in zip(self._walked, place, strict=True) if k is not None}
        walked = [(own, numbers.get(k, 0)) for k, own in enumerate(self.chunks)]
        sizes = tuple(own[i] for own, i in walked)
        uses_place = any(node.op == "coordinate" for value in self.verb.values for node in walk(value))
        first = tuple(sum(own[:i]) for own, i in walked) if uses_place else ()
        if (sizes, first) not in known:
            known[sizes, first] = self.local(sizes, first)
        desc = known[sizes, first]
        shapes = [
            layout.local(tensor.sizes) for (layout, _), tensor in zip(self.sources, desc.inputs().values(), strict=True)
        ]
        drops = (self.drop,) * len(self.targets)
        return functools.partial(run_block, desc, self.asked, shapes, drops, Block(self.prefix, place))

    def local(self, sizes: Sequence[int], first: Sequence[int]) -> Verbs:
        """The verb for a block of the walk: of these sizes, from a place on where that is asked for."""
        verb, given, made = self.verb, {}, {}
        sources, targets = [], []
        for i, ((_, dims), view) in enumerate(zip(self.sources, verb.sources, strict=True)):
            own = tuple(1 if k is None else sizes[k] for k in dims)
            name = f"{view.tensor} {i}" if view.tensor in given else view.tensor
            given[name] = TensorDesc(view.data_type, own)
            sources.append(_view(name, view, sizes, dims, own))
        for i, (dims, view) in enumerate(zip(self.targets, verb.targets, strict=True)):
            kept = [1 if size == 1 else own for size, own in zip(view.sizes, sizes, strict=True)]
            own = tuple(1 if k is None else kept[k] for k in dims)
            made[f"target{i}"] = TensorDesc(view.data_type, own)
            targets.append(_view(f"target{i}", view, kept, dims, own))
        values = [moved(value, [(start, 1) for start in first]) for value in verb.values] if first else verb.values
        also = tuple(Write(*pair) for pair in zip(targets[1:], values[1:], strict=True))
        local = replace(verb, sources=tuple(sources), target=targets[0], value=values[0], also=also)
        if isinstance(local, Reduce):
            local = replace(local, rows=tuple(sizes[len(sizes) - local.depth :]))
        return Verbs(self.kind, given, made, (local,))  # type: ignore[call-arg]  # its own fields


def _view(name: str, view: View, sizes: Sequence[int], dims: Dims, own: Sequence[int]) -> View:
    """A packed tensor of a block as the walk runs along it."""
    strides = [0] * len(sizes)
    for k, stride, size in zip(dims, packed_strides(own), own, strict=True):
        if k is not None and size > 1:
            strides[k] = stride
    shown = tuple(1 if whole == 1 else size for whole, size in zip(view.sizes, sizes, strict=True))
    return View(name, view.data_type, shown, tuple(strides))
