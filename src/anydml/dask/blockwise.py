"""Operators on blocks that know nothing of one another: each block of the results from one block of every input.

Which dimensions of an operator's tensors may be cut together is found from the verbs that it is made of. A verb walks
its views in step, so a dimension of the walk ties a dimension of each view to the others. What is tied may be cut
together where every verb walks it whole and in step, folds nothing along it, and asks for no coordinate.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dask._task_spec import Task, TaskRef

from anydml.arrays.tensor import TensorDesc
from anydml.core.operator_type import function_name
from anydml.dask.arrays import Chunks, Key, Layer, common, edges, lazy, meta_like, places
from anydml.dask.blocks import Block, part_of, run_block
from anydml.dask.fused import Fused
from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Map, Reduce, Repeat, Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.dask.tensors import Layout, Tensor
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View
    from anydml.operators import OperatorDesc


# Dimensions that may be cut together


Node: TypeAlias = tuple[str, int]
"""A dimension of a tensor, or of the walk of a verb; of memory between verbs a stride stands for its dimension."""
Group: TypeAlias = dict[str, int]
"""By tensor, the dimension that is cut together with those of the others."""


class _Ties:
    """Nodes that are tied to one another, and those that may not be cut."""

    def __init__(self) -> None:
        self._above: dict[Node, Node] = {}
        self._whole: set[Node] = set()
        self.sizes: dict[Node, int] = {}
        """Of dimensions of memory between verbs, as the first of its views has them."""

    def find(self, node: Node) -> Node:
        while (above := self._above.setdefault(node, node)) != node:
            node = above
        return node

    def tie(self, a: Node, b: Node) -> None:
        self._above[self.find(a)] = self.find(b)

    def keep_whole(self, node: Node) -> None:
        self.find(node)
        self._whole.add(node)

    def groups(self) -> Iterator[list[Node]]:
        """The groups of nodes that may be cut."""
        whole = {self.find(node) for node in self._whole}
        found: dict[Node, list[Node]] = {}
        for node in list(self._above):
            found.setdefault(self.find(node), []).append(node)
        return (nodes for root, nodes in found.items() if root not in whole)


@dataclass(frozen=True)
class _Lying:
    """A tensor's dimensions with more than one element: their numbers, strides and sizes."""

    name: str
    dims: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, name: str, desc: TensorDesc) -> _Lying:
        found = zip(range(len(desc.sizes)), desc.element_strides, desc.sizes, strict=True)
        return cls(name, tuple((d, stride, size) for d, stride, size in found if size > 1))

    def touched(self, stride: int, size: int) -> list[int]:
        """The dimensions along which a walk of some steps moves."""
        step, reach = abs(stride), abs(stride) * (size - 1)
        return [d for d, own, count in self.dims if reach >= own and step % (own * count)]


def _view_ties(ties: _Ties, view: View, walked: Sequence[Node | None], tensors: dict[str, _Lying]) -> None:
    """Tie the dimensions of a view to those of a walk; None for one that is fetched from at computed places."""
    lying = tensors.get(view.tensor)
    steps = list(zip(view.sizes, view.strides, walked, strict=True))
    if lying is None:  # memory between verbs, where a stride stands for a dimension
        for size, stride, node in steps:
            if size > 1 and stride:
                own = (view.tensor, stride)
                if node is not None:
                    ties.tie(node, own)
                if node is None or view.offset // stride % size or ties.sizes.setdefault(own, size) != size:
                    ties.keep_whole(own)
        return
    seen = set()
    for size, stride, node in steps:
        if size == 1 or not stride:
            continue
        whole = [
            d for d, own, count in lying.dims if own == stride and count == size and not view.offset // own % count
        ]
        touched = whole or lying.touched(stride, size)
        for d in touched:
            own_node = (view.tensor, d)
            if node is not None:
                ties.tie(node, own_node)
            if not whole or node is None or d in seen:
                ties.keep_whole(own_node)
            seen.add(d)
    for d, _, _ in lying.dims:
        if d not in seen:  # read at one place along it
            ties.keep_whole((view.tensor, d))


def _coordinates(values: Sequence[Expr]) -> Iterator[int]:
    """The dimensions of the walk whose coordinates are computed with: to fetch at them is none of that."""
    for value in values:
        if value.op == "coordinate":
            yield int(value.value)
    for node in walk(*values):
        if node.op != "fetch":
            yield from (int(arg.value) for arg in node.args if arg.op == "coordinate")


def _verb_ties(ties: _Ties, number: int, verb: Primitive, tensors: dict[str, _Lying]) -> None:
    walked: list[Node | None] = [(f"walk {number}", k) for k in range(len(verb.sizes))]
    from_fetch = fetched(*verb.values)
    for place, view in enumerate(verb.sources):
        if place not in from_fetch:
            _view_ties(ties, view, walked, tensors)
    for node in walk(*verb.values):
        if node.op == "fetch":
            view = verb.sources[int(node.value)]
            at = [
                walked[int(index.value)] if index.op == "coordinate" and verb.sizes[int(index.value)] == size else None
                for index, size in zip(node.args, view.sizes, strict=True)
            ]
            _view_ties(ties, view, at, tensors)
    for target in verb.targets:
        kept = [node if size > 1 else None for node, size in zip(walked, target.sizes, strict=True)]
        _view_ties(ties, target, kept, tensors)
    rank = len(verb.sizes)
    folded = [*range(rank - verb.depth, rank), *([verb.axis] if isinstance(verb, Scan) else [])]
    for k in (*folded, *_coordinates(verb.values)):
        ties.keep_whole((f"walk {number}", k))


def plain_verbs(desc: OperatorDesc) -> list[Primitive] | None:
    """The verbs of an operator as maps, reduces and scans; None where there are others."""
    found: list[Primitive] = []
    for verb in desc.told():
        found += verb.steps if isinstance(verb, Repeat) else (verb,)
    return found if all(isinstance(verb, (Map, Reduce, Scan)) for verb in found) else None


def independent(desc: OperatorDesc) -> list[Group]:
    """The dimensions of packed tensors that may be cut together; each group has one of an output."""
    verbs = plain_verbs(desc)
    if verbs is None:
        return []
    ties = _Ties()
    tensors = {name: _Lying.of(name, tensor) for name, tensor in desc.tensors().items()}
    for number, verb in enumerate(verbs):
        _verb_ties(ties, number, verb, tensors)
    found = []
    for nodes in ties.groups():
        names = [name for name, _ in nodes]
        bound = {name: d for name, d in nodes if name in tensors}
        is_single = len({*names}) == len(names)
        if is_single and any(name in bound for name in desc.outputs()):
            found.append(bound)
    return found


# Blocks by blocks


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
