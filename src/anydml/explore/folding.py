"""Groups of a graph's nodes that fold: those of a scope, by their names, and blocks that repeat one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from anydml.explore.drawing import GraphNode, ModelGraph

_MOST_PERIOD = 2_000
"""Members of a block that is looked for."""
_LEAST_TIMES, _LEAST_PLAIN, _LEAST_SAVED = 2, 3, 6
"""How often a block is there at least; of nodes without a scope, its nodes, and those that folding hides: five types in
random order have the same three twice in a row once in 125 places, and the same six once in 15,625."""
_NEARLY_ALL = 0.9
"""Of the nodes: a scope of so many says nothing."""
_DEEPEST = 40
"""Repetitions that are looked for beside one another."""


@dataclass(slots=True, eq=False)
class Group:
    """Nodes that may be shown as one box."""

    title: str
    members: list[Member] = field(default_factory=list)
    """By the first node of each, in the graph's order."""
    count: int = 1
    """How often the same block is in it, one after the other."""

    def nodes(self) -> list[int]:
        """Every node within."""
        found: list[int] = []
        waiting: list[Member] = [self]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Group):
                waiting += one.members
            else:
                found.append(one)
        return sorted(found)


Member: TypeAlias = "int | Group"


def fold(graph: ModelGraph) -> Group:
    """The graph as a group without a title, of groups and nodes."""
    root = Group("")
    paths, order = _paths(graph), _order(graph)
    for number in order:
        _within(root, paths[number]).members.append(number)
    _simplify(root, graph, {number: place for place, number in enumerate(order)})
    marks = _Marks(graph)
    waiting = [root]
    while waiting:
        group = waiting.pop()
        before = group.members
        group.members = _repeat(before, marks, is_all=bool(group.title))
        waiting += [one for one in group.members if isinstance(one, Group)]
    return root


def _order(graph: ModelGraph) -> list[int]:
    """The nodes in their order, those that read of no other (constants) where they are first read."""
    made = {slot.tensor: number for number, node in enumerate(graph.nodes) for slot in node.outputs}
    feeders = [
        {made[slot.tensor] for slot in node.inputs if slot.tensor in made} - {k} for k, node in enumerate(graph.nodes)
    ]
    found: dict[int, None] = {}
    for number, node in enumerate(graph.nodes):
        if feeders[number] or node.end:
            found.update(dict.fromkeys(one for one in sorted(feeders[number]) if not feeders[one]))
            found[number] = None
    return [*found, *(number for number in range(len(graph.nodes)) if number not in found)]


# Scopes


def _paths(graph: ModelGraph) -> list[list[str]]:
    """By node, the scopes that its name says: `/layers.0/attention/MatMul` lies in two."""
    names = ["" if node.end else node.name for node in graph.nodes]
    separator = "/" if any("/" in name for name in names) else "."
    return [[part for part in name.split(separator) if part][:-1] for name in names]


def _within(root: Group, path: Sequence[str]) -> Group:
    """The group of a path, made where it is not there yet; one that was left is entered again."""
    for part in path:
        inner = next((one for one in reversed(root.members) if isinstance(one, Group) and one.title == part), None)
        if inner is None:
            inner = Group(part)
            root.members.append(inner)
        root = inner
    return root


def _simplify(root: Group, graph: ModelGraph, places: Mapping[int, int]) -> None:
    """Leave out scopes of one type of node, those that have nothing but another, and one of nearly everything."""
    order = [root]
    for group in order:
        order += [one for one in group.members if isinstance(one, Group)]
    for group in reversed(order):
        kept: list[Member] = []
        for one in group.members:
            if not isinstance(one, Group) or len({_kind(graph, member) for member in one.members}) > 1:
                kept.append(one)
                continue
            if len(one.members) == 1 and isinstance(one.members[0], Group):
                one.members[0].title = f"{one.title}/{one.members[0].title}"
            kept += one.members
        group.members = kept
    while (whole := max(root.members, key=_size, default=0)) and _size(whole) > _NEARLY_ALL * sum(
        not node.end for node in graph.nodes
    ):
        root.members = [one for one in root.members if one is not whole] + (
            whole.members if isinstance(whole, Group) else []
        )
    for group in order:
        group.members.sort(key=lambda one: _first(one, places))


def _size(one: Member) -> int:
    return len(one.nodes()) if isinstance(one, Group) else 0


def _first(one: Member, places: Mapping[int, int]) -> int:
    return min(places[node] for node in one.nodes()) if isinstance(one, Group) else places[one]


def _kind(graph: ModelGraph, one: Member) -> object:
    return one if isinstance(one, Group) else graph.nodes[one].kind


# Repetition


class _Marks:
    """Numbers that are equal for what is equal: nodes by type, attributes and weights' shapes, and groups of those."""

    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self._numbers: dict[Hashable, int] = {}
        self._nodes = [self._number(k if node.end else self._of_node(node)) for k, node in enumerate(graph.nodes)]

    def of(self, one: Member) -> int:
        """The number of a node or a group."""
        if isinstance(one, Group):
            return self._number(tuple(self._nodes[k] for k in one.nodes()))
        return self._nodes[one]

    def is_block(self, members: Sequence[Member], times: int) -> bool:
        """Whether a block that is there so often is worth a box: it has a scope, or nodes of several types."""
        if any(isinstance(one, Group) for one in members):
            return True
        several = len({self.of(one) for one in members}) > 1 and len({_kind(self._graph, one) for one in members}) > 1
        return len(members) >= _LEAST_PLAIN and len(members) * (times - 1) >= _LEAST_SAVED and several

    def name(self, several: Sequence[Member]) -> str:
        """A block without a scope, by the types of its first nodes."""
        kinds = [one.title if isinstance(one, Group) else self._graph.nodes[one].kind for one in several]
        return ", ".join(kinds[:3]) + (" …" if len(kinds) > 3 else "")

    def _of_node(self, node: GraphNode) -> Hashable:
        weights = tuple(self._graph.types.get(slot.tensor, "") if slot.is_weight else None for slot in node.inputs)
        return node.kind, tuple(node.attributes), weights, len(node.outputs)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _repeat(members: list[Member], marks: _Marks, *, is_all: bool, depth: int = 0) -> list[Member]:
    """The members, blocks that repeat one after the other in groups of their own; `is_all` where they are a group's."""
    best = _best(members, marks) if depth < _DEEPEST else None
    if best is None:
        return members
    start, period, count = best
    end = start + period * count
    blocks = _blocks(members[start:end], period, marks)
    if is_all and count * period == len(members):
        return blocks
    before = _repeat(members[:start], marks, is_all=False, depth=depth + 1)
    after = _repeat(members[end:], marks, is_all=False, depth=depth + 1)
    return [*before, Group(_span(blocks), blocks, count), *after]


def _best(members: Sequence[Member], marks: _Marks) -> tuple[int, int, int] | None:
    """Where the repetition of most members begins, the members of its block, and how often that is there."""
    numbers = np.array([marks.of(one) for one in members], np.int64)
    count, found, most = len(numbers), None, 0
    for period in range(1, min(count // 2, _MOST_PERIOD) + 1):
        is_same = np.concatenate(([False], numbers[period:] == numbers[:-period], [False]))
        edges = np.flatnonzero(is_same[1:] != is_same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (end - start) // period + 1
            if (
                times >= _LEAST_TIMES
                and times * period > most
                and marks.is_block(members[start : start + period], times)
            ):
                found, most = (start, period, times), times * period
    return found


def _blocks(members: Sequence[Member], period: int, marks: _Marks) -> list[Member]:
    """The repetitions, each a group; what repeats within one is a group in it."""
    if period == 1:
        return list(members)
    found: list[Member] = []
    for start in range(0, len(members), period):
        own = list(members[start : start + period])
        found.append(Group(f"#{start // period + 1} {marks.name(own)}", own))
    return found


def _span(blocks: Sequence[Member]) -> str:
    """The names of blocks, from the first to the last."""
    first, last = (one.title if isinstance(one, Group) else "" for one in (blocks[0], blocks[-1]))
    return first.removeprefix("#1 ") if first.startswith("#1 ") else f"{first} … {last}"
