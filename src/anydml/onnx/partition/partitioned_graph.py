"""A graph in parts: cut, run one after the other, and cut anew where a part learns that it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anydml.core.locks import make_lock
from anydml.onnx.library import kind_of, make_info
from anydml.onnx.lower.lowering_cache import Kept
from anydml.onnx.lower.node import label_of
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.partition.constants import Constants, refused_constants
from anydml.onnx.partition.host import HostPart, may_grow
from anydml.onnx.partition.part import Bound, makers
from anydml.onnx.partition.planner import Item, Place, Recut, arrange
from anydml.onnx.partition.segment import Segment
from anydml.onnx.subgraphs import has_bodies, names_read, nodes_within
from anydml.runtime.launches import in_a_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from anydml.onnx.partition.part import Part
    from anydml.onnx.partition.scope import Scope

_Plan: TypeAlias = "tuple[list[Part], list[list[str]]]"
"""Parts in the order in which they run, and after each the names that nobody reads any more."""


class Parts:
    """A model's graph or a body of control flow, run on an environment of values by name."""

    def __init__(self, graph: Any, scope: Scope, given: Iterable[str] = ()) -> None:
        """Cut a graph; `given` are initializers whose values each run gives."""
        self._graph, self._around, self._given = graph, scope, frozenset(given)
        self._nodes = list(graph.node)
        self._declared = {info.name: info for info in graph.output}
        self._cut: set[int] = set()
        self._alone: dict[int, Part] = {}
        self._made: dict[Any, Part] = {}
        """Parts by what they are made of: those that stay as they were keep their programs."""
        self._kept = Kept()
        self._lock = make_lock()
        self.gives = tuple(info.name for info in graph.output)
        own = {tensor.name for tensor in graph.initializer} - self._given
        self.inputs = tuple(info.name for info in graph.input if info.name not in own)
        """The graph's own inputs, those with a value of the model's own left out."""
        self._hosted = self._refused()
        self._arrange()
        made = {*self.inputs, *(name for node in self._nodes for name in node.output)}
        read = [name for item in self._items.values() for name in item.takes]
        constants = {*self._scope.tensors, *self._scope.folded}
        self.captures = tuple(n for n in dict.fromkeys([*read, *self.gives]) if n not in made and n not in constants)
        """The tensors that it reads of the graphs around it, constants aside."""
        self.takes = (*self.inputs, *self.captures)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._plan[0])

    def run(self, values: Mapping[str, Any]) -> list[Any]:
        """The graph's outputs, in order, of values by name; an input is the very array, and a constant a copy."""
        while True:
            plan = self._plan
            if not isinstance(found := self._run(plan, values), Recut):
                return found
            self._learn(found, plan)

    def _run(self, plan: _Plan, values: Mapping[str, Any]) -> list[Any] | Recut:
        parts, last = plan
        if len(parts) == 1 and parts[0].gives == self.gives:
            made = parts[0].run(values)
            return made if isinstance(made, Recut) else list(made)
        known = {name: values[name] for name in self.takes}
        for part, ends in zip(parts, last, strict=True):
            if isinstance(made := part.run(known), Recut):
                return made
            known.update(zip(part.gives, made, strict=True))
            for name in ends:
                del known[name]
        return [known[name] if name in known else self.constant(name) for name in self.gives]

    def bind(self, values: Mapping[str, Any], into: Mapping[str, Any], fixed: frozenset[str]) -> Bound | None:
        """The graph bound to these very arrays, as a part is; an output that is an input is the very array."""
        known, several = {name: values[name] for name in self.takes}, list[Bound]()
        for part in self:
            if (bound := part.bind(known, into, fixed)) is None:
                return None
            several.append(bound)
            known |= bound.made
            fixed -= bound.made.keys()
        for name in [name for name in self.gives if name not in known]:
            known[name] = self.constant(name)
            if name in into:
                into[name][...] = known[name]
                known[name] = into[name]
        made = {name: known[name] for name in self.gives}
        if len(several) == 1:
            return several[0]._replace(made=made)
        scratch = sum(bound.scratch for bound in several)
        return Bound(in_a_row([bound.guarded() for bound in several]), made, (known, several), scratch)

    def constant(self, name: str) -> Any:
        """An output that is a constant of the graph, as a new array."""
        found = self._constants.value(name)
        return found.copy() if isinstance(found, np.ndarray) else found.clone()

    def _learn(self, recut: Recut, plan: _Plan) -> None:
        """Cut the graph anew; each time more nodes run on the host or begin a segment, so that there is an end."""
        with self._lock:
            if recut.hosted <= self._hosted and recut.cut <= self._cut:
                if self._plan is plan:
                    raise recut.reason
                return  # another thread was told the same
            self._hosted |= recut.hosted
            self._cut |= recut.cut
            self._arrange()

    def _refused(self) -> set[int]:
        """The nodes that the device refuses to make constants by, which are constants for nobody."""
        scope = self._around.within(self._graph, self._given)
        own = [name for node in self._nodes for name in node.output if name in scope.folded]
        refused = refused_constants(scope, own, self._kept)
        return {number for number, node in enumerate(self._nodes) if not refused.isdisjoint(node.output)}

    def _arrange(self) -> None:
        """Cut the graph by what is known of its nodes."""
        hidden = [name for number in self._hosted for name in self._nodes[number].output]
        scope = self._scope = self._around.within(self._graph, self._given, hidden)
        self._constants = Constants(scope, self._kept)
        constants = {"", *scope.tensors, *scope.folded}
        items: dict[int, Item] = {}
        for number, node in enumerate(self._nodes):
            if any(name in scope.folded for name in node.output):
                continue
            place = self._place(number, node)
            takes = tuple(dict.fromkeys(name for name in names_read(node) if name not in constants))
            gives = tuple(name for name in node.output if name)
            if place is Place.HOST and may_grow(node):
                self._alone.setdefault(number, HostPart([node], takes, gives, scope))
                place = Place.ALONE
            elif place is Place.ALONE and number not in self._alone:
                self._alone[number] = makers()[kind_of(node)](node, scope)
            if place is Place.ALONE:
                takes, gives = self._alone[number].takes, self._alone[number].gives
            items[number] = Item(takes, gives, place, number in self._cut)
        self._items = items
        self._put_together(arrange(items))

    def _place(self, number: int, node: Any) -> Place:
        opset = self._around.source.opset
        if has_bodies(node) and number not in self._hosted:
            inner = nodes_within([node], label_of(node))
            if all(find_lowering(kind_of(each), opset) for each in inner):
                return Place.DEVICE  # the branch that is taken is put in place
        if kind_of(node) in makers():
            return Place.ALONE
        if number in self._hosted or find_lowering(kind_of(node), opset) is None:
            return Place.HOST
        return Place.DEVICE

    def _put_together(self, cut: list[tuple[Place, list[int]]]) -> None:
        """Make the parts: each gives what later ones and the outputs read."""
        wanted = set(self.gives)
        last: list[list[str]] = []
        parts: list[Part] = []
        for place, numbers in reversed(cut):
            items = [self._items[number] for number in numbers]
            made = {name for item in items for name in item.gives}
            takes = tuple(dict.fromkeys(name for item in items for name in item.takes if name not in made))
            gives = tuple(name for item in items for name in item.gives if name in wanted)
            if not gives:  # dead nodes
                continue
            part = self._make(place, numbers, takes, gives)
            # What nobody behind it reads is let go of, as is what it gives to nobody.
            ends = {name for name in (*takes, *part.gives) if name not in wanted}
            last.append(sorted(ends))
            wanted.update(takes)
            parts.append(part)
        self._plan = parts[::-1], last[::-1]

    def _make(self, place: Place, numbers: list[int], takes: tuple[str, ...], gives: tuple[str, ...]) -> Part:
        if place is Place.ALONE:
            return self._alone[numbers[0]]
        key = (place, tuple(numbers), takes, gives)
        if key not in self._made:
            nodes = [self._nodes[number] for number in numbers]
            if place is Place.HOST:
                self._made[key] = HostPart(nodes, takes, gives, self._scope)
            else:
                infos = [self._declared.get(name) or make_info(name) for name in gives]
                self._made[key] = Segment(nodes, takes, infos, self._scope, self._kept, numbers)
        return self._made[key]
