"""Which dimensions of an operator's tensors may be cut together: found from the verbs that it is made of.

A verb walks its views in step, so a dimension of the walk ties a dimension of each view to the others. What is tied
may be cut together where every verb walks it whole and in step, folds nothing along it, and asks for no coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Map, Reduce, Repeat, Scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View
    from anydml.operators import OperatorDesc
    from anydml.tensor import TensorDesc

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
