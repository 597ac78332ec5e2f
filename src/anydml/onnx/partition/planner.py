"""The planner: which nodes of a graph run together and where, in which order, and what passes between them.

A node that has a lowering is compiled with its neighbours; one without, or of types that DirectML lacks, runs on the
host; control flow and sequences are stages by themselves. A node that reads constants alone is in no stage: whoever
reads it folds it.

A first plan goes by node types alone. What a stage meets with when it runs is news of its nodes (`Recut`): one that
DirectML refuses goes to the host from then on, and one that needs the value of something computed begins a stage, which
has that value at hand. Each piece of news makes more nodes the host's or cuts once more, so that there is an end.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from anydml.onnx.ir import nodes_within
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.partition.constants import refused_constants
from anydml.onnx.partition.host import may_grow
from anydml.onnx.partition.part import makers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.partition.part import Recut
    from anydml.onnx.partition.scope import Scope


class Place(Enum):
    """Where nodes run."""

    DEVICE = "device"
    HOST = "host"
    CHECKED = "checked"
    """On the host, one by itself: its result may be of any size, which is looked at first."""
    FLOW = "flow"
    """Control flow or a sequence: a stage of its own."""


@dataclass(frozen=True, slots=True)
class Item:
    """A node to be put into a stage."""

    takes: Sequence[str]
    """Names that it reads, constants aside."""
    gives: Sequence[str]
    place: Place
    begins: bool = False
    """Whether what it reads must have been computed before its stage begins."""


class Stage(NamedTuple):
    """Nodes that run together."""

    place: Place
    nodes: tuple[int, ...]
    """Their numbers in the graph."""
    takes: tuple[str, ...]
    """What it reads of earlier stages and of the graph's inputs."""
    gives: tuple[str, ...]
    """What later stages and the graph's outputs read."""


class Plan(NamedTuple):
    """Stages in the order in which they run."""

    scope: Scope
    """With the constants that stages read."""
    stages: tuple[Stage, ...]
    ends: tuple[tuple[str, ...], ...]
    """After each stage, the names that nobody reads any more."""
    reads: tuple[str, ...]
    """All that nodes read, constants aside."""


class Planner:
    """A graph's nodes, and all that is known of where they can run."""

    def __init__(self, graph: Graph, around: Scope, given: frozenset[str], kept: Kept) -> None:
        """`given` are initializers whose values each run gives."""
        self.nodes = list(graph.node)
        self._graph, self._around, self._given = graph, around, given
        self._outputs = [info.name for info in graph.output]
        scope = around.within(graph, given)
        own = [name for node in self.nodes for name in node.output if name in scope.folded]
        refused = refused_constants(scope, own, kept)
        self._hosted = {number for number, node in enumerate(self.nodes) if not refused.isdisjoint(node.output)}
        self._cut: set[int] = set()

    def learn(self, recut: Recut) -> bool:
        """Whether what a part says is news, by which the next plan goes."""
        if recut.hosted <= self._hosted and recut.cut <= self._cut:
            return False
        self._hosted |= recut.hosted
        self._cut |= recut.cut
        return True

    def plan(self) -> Plan:
        """The stages, by what is known now; those of nodes whose results nobody reads are left out."""
        hidden = [name for number in self._hosted for name in self.nodes[number].output]
        scope = self._around.within(self._graph, self._given, hidden)
        items = self._items(scope)
        wanted = set(self._outputs)
        stages: list[Stage] = []
        ends: list[tuple[str, ...]] = []
        for place, numbers in reversed(arrange(items)):
            several = [items[number] for number in numbers]
            made = {name for item in several for name in item.gives}
            takes = tuple(dict.fromkeys(name for item in several for name in item.takes if name not in made))
            gives = tuple(name for item in several for name in item.gives if place is Place.FLOW or name in wanted)
            if wanted.isdisjoint(gives):
                continue
            ends.append(tuple(sorted({*takes, *gives} - wanted)))
            wanted.update(takes)
            stages.append(Stage(place, tuple(numbers), takes, gives))
        reads = dict.fromkeys(name for item in items.values() for name in item.takes)
        return Plan(scope, tuple(stages[::-1]), tuple(ends[::-1]), tuple(reads))

    def _items(self, scope: Scope) -> dict[int, Item]:
        constants = {"", *scope.tensors, *scope.folded}
        found: dict[int, Item] = {}
        for number, node in enumerate(self.nodes):
            if any(name in scope.folded for name in node.output):
                continue
            takes = tuple(dict.fromkeys(name for name in node.reads if name not in constants))
            gives = tuple(node.makes)
            found[number] = Item(takes, gives, self._place(number, node), number in self._cut)
        return found

    def _place(self, number: int, node: Node) -> Place:
        opset, kind = self._around.source.opset, node.kind
        if (
            node.bodies
            and number not in self._hosted
            and all(find_lowering(each.kind, opset) for each in nodes_within([node]))
        ):
            return Place.DEVICE  # the branch that is taken is put in place
        if kind in makers():
            return Place.FLOW
        if number in self._hosted or find_lowering(kind, opset) is None:
            return Place.CHECKED if may_grow(node) else Place.HOST
        return Place.DEVICE


# The order of nodes, of which as many as can be run together


_BY_ITSELF = (Place.FLOW, Place.CHECKED)


def arrange(items: Mapping[int, Item]) -> list[tuple[Place, list[int]]]:
    """Stages as numbers of nodes, in an order in which they can run: the shorter of two, by who begins."""
    return min((_arrange(items, first) for first in (Place.DEVICE, Place.HOST)), key=len)


def _arrange(items: Mapping[int, Item], first: Place) -> list[tuple[Place, list[int]]]:
    """Take turns, each as long as it can be: whatever can run on the device, whatever can on the host, and so on."""
    makers_of = {name: number for number, item in items.items() for name in item.gives}
    needed = {number: {makers_of[name] for name in item.takes if name in makers_of} for number, item in items.items()}
    readers = defaultdict(list)
    for number, before in needed.items():
        for other in before:
            readers[other].append(number)
    left = {number: len(before) for number, before in needed.items()}
    ready: dict[Place, list[int]] = {place: [] for place in Place}
    for number in items:
        if not left[number]:
            heapq.heappush(ready[items[number].place], number)

    def release(number: int, later: dict[Place, list[int]]) -> None:
        """Count down what waits for a node; one that begins a stage is ready after the present one."""
        for reader in readers.get(number, ()):
            left[reader] -= 1
            if not left[reader]:
                item = items[reader]
                heapq.heappush((later if item.begins else ready)[item.place], reader)

    found: list[tuple[Place, list[int]]] = []
    turn = first
    while any(ready.values()):
        if alone := [place for place in _BY_ITSELF if ready[place]]:
            place = min(alone, key=lambda each: ready[each][0])
            number = heapq.heappop(ready[place])
            release(number, ready)
            found.append((place, [number]))
            continue
        later: dict[Place, list[int]] = {place: [] for place in Place}
        stage = []
        while ready[turn]:
            number = heapq.heappop(ready[turn])
            stage.append(number)
            release(number, later)
        for place, several in later.items():
            for number in several:
                heapq.heappush(ready[place], number)
        if stage:
            found.append((turn, sorted(stage)))
        turn = Place.HOST if turn is Place.DEVICE else Place.DEVICE
    return found
