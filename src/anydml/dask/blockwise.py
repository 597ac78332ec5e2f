"""Operators on blocks that know nothing of one another: each block of the results from one block of every input."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask._task_spec import Task, TaskRef

from anydml.dask.arrays import Chunks, Key, Layer, common, edges, lazy, meta_like, places
from anydml.dask.blocks import Block, part_of, run_block
from anydml.dask.fused import Fused
from anydml.operator_type import function_name
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.independent import Group
    from anydml.dask.tensors import Layout, Tensor
    from anydml.operators import OperatorDesc

INDICES = "IndicesTensor"


@dataclass(frozen=True)
class Blockwise(Fused):
    """The blocks of an operator's results, all of them at a place together."""

    desc: OperatorDesc
    layouts: Mapping[str, Layout]
    groups: tuple[Group, ...]
    sizes: Chunks
    """By group, the sizes of its blocks."""
    keyed: tuple[int, ...]
    """The groups whose places key a block, -1 for a dimension of one block."""
    drops: tuple[int, ...]
    """By result, the leading dimensions that were added."""
    asked: Asked

    def cuts(self, field: str) -> dict[int, int]:
        """By dimension of a tensor that is cut, the number of its group."""
        return {group[field]: g for g, group in enumerate(self.groups) if field in group}

    @property
    def grid(self) -> tuple[int, ...]:
        """The blocks along each dimension that keys a block."""
        return tuple(len(self.sizes[g]) if g >= 0 else 1 for g in self.keyed)

    def along(self) -> list[list[int | None]]:
        """Dimensions of a group meet."""
        found = []
        for field, x in self.layouts.items():
            cuts = self.cuts(field)
            groups = {axis: cuts[d] for d, axis in enumerate(x.axes) if axis is not None and d in cuts}
            found.append([self.keyed.index(groups[axis]) if axis in groups else None for axis in range(x.rank)])
        return found

    def at(self, place: Sequence[int], known: dict[Any, Any]) -> Callable[..., Any]:
        """The description of a block, run."""
        numbers = dict(zip(self.keyed, place, strict=True))
        sizes = tuple(own[numbers[g]] for g, own in enumerate(self.sizes))
        if sizes not in known:
            known[sizes] = self.local(sizes)
        desc = known[sizes]
        local = desc.inputs()
        shapes = [x.local(local[field].sizes) for field, x in self.layouts.items()]
        block = Block(self.prefix, place, *self._indexed(numbers))
        return functools.partial(run_block, desc, self.asked, shapes, self.drops, block)

    def _indexed(self, at: Mapping[int, int]) -> tuple[Any, ...]:
        """For operators that take indices, the whole description and where a block of the indices starts."""
        if INDICES not in self.layouts:
            return ()
        cuts = self.cuts(INDICES)
        rank = len(self.layouts[INDICES].axes)
        return self.desc, [edges(self.sizes[cuts[d]])[at[cuts[d]]] if d in cuts else 0 for d in range(rank)]

    def local(self, sizes: Sequence[int]) -> OperatorDesc:
        """The description of a block: with its sizes, given by group."""

        def change(field: str, tensor: TensorDesc) -> TensorDesc:
            cuts = self.cuts(field)
            own = tuple(sizes[cuts[d]] if d in cuts else size for d, size in enumerate(tensor.sizes))
            return TensorDesc(tensor.data_type, own)

        return self.desc.with_tensors(change)


@dataclass(frozen=True)
class Picked(Layer):
    """One of several results, whose blocks come together."""

    number: int
    keyed: tuple[int, ...]
    """By dimension of the result, the group that it is of, -1 for one that is not cut."""
    grid: Chunks

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """One a block; where several hold the same result, it is the first one's."""
        made: dict[Key, Any] = {}
        others = [g for g in range(len(self.grid)) if g not in self.keyed]
        for at in places(self.grid):
            if not any(at[g] for g in others):
                key = (name, *(at[g] if g >= 0 else 0 for g in self.keyed))
                made[key] = Task(key, part_of, TaskRef((inputs[0], *at)), self.number)
        return made


def blockwise(
    desc: OperatorDesc,
    tensors: Mapping[str, Tensor],
    groups: Sequence[Group],
    ranks: Mapping[str, int],
    asked: Asked,
) -> list[Any] | None:
    """The results as lazy arrays, where blocks of the operator are valid descriptions; None elsewhere."""
    cut = [{field: d for field, d in group.items() if field in tensors and tensors[field].axes[d] is not None}
           for group in groups]  # fmt: skip
    used = [g for g, own in enumerate(cut) if any(len(tensors[field].chunks[d]) > 1 for field, d in own.items())]
    sizes = tuple(common([tensors[field].chunks[d] for field, d in cut[g].items()]) for g in used)
    chosen = tuple(groups[g] for g in used)
    fitted = {
        field: x.rechunked({group[field]: own for group, own in zip(chosen, sizes, strict=True) if field in group})
        for field, x in tensors.items()
    }
    outputs = desc.outputs()
    drops = {field: len(output.sizes) - ranks[field] for field, output in outputs.items()}
    keyed = {
        field: tuple(
            next((g for g, group in enumerate(chosen) if group.get(field) == d), -1)
            for d in range(drops[field], len(output.sizes))
        )
        for field, output in outputs.items()
    }
    is_one = len(outputs) == 1
    keys = next(iter(keyed.values())) if is_one else tuple(range(len(sizes)))
    layouts = {field: x.layout for field, x in fitted.items()}
    layer = Blockwise(function_name(desc.type), desc, layouts, chosen, sizes, keys, tuple(drops.values()), asked)
    if any(layer.local([own[0] for own in sizes]).own_faults()):
        return None
    arrays = [x.array for x in fitted.values()]
    found = []
    whole = None if is_one else lazy(layer, arrays, sizes, meta_like(arrays[0], len(sizes), arrays[0].dtype))
    for number, (field, output) in enumerate(outputs.items()):
        shape = output.sizes[drops[field] :]
        chunks = tuple(sizes[g] if g >= 0 else (size,) for g, size in zip(keyed[field], shape, strict=True))
        meta = meta_like(arrays[0], len(chunks), output.data_type.dtype)
        if whole is None:
            found.append(lazy(layer, arrays, chunks, meta))
        else:
            found.append(lazy(Picked(layer.prefix, number, keyed[field], sizes), [whole], chunks, meta))
    return found
