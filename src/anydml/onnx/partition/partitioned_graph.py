"""A graph run in parts: stages as the planner has them, and planned anew where a part has news for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.locks import make_lock
from anydml.onnx.ir import ValueInfo
from anydml.onnx.lower.lowering_cache import Kept
from anydml.onnx.partition.constants import Constants
from anydml.onnx.partition.host import HostPart
from anydml.onnx.partition.part import Bound, Recut, makers
from anydml.onnx.partition.planner import Place, Planner
from anydml.onnx.partition.segment import Segment
from anydml.runtime.launches import in_a_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    from anydml.onnx.ir import Graph
    from anydml.onnx.partition.part import Part
    from anydml.onnx.partition.planner import Plan, Stage
    from anydml.onnx.partition.scope import Scope

    _Parts: TypeAlias = list[tuple[Part, tuple[str, ...]]]
    """Parts in the order in which they run, each with the names that nobody reads any more after it."""


class Parts:
    """A model's graph or a body of control flow, run on an environment of values by name."""

    def __init__(self, graph: Graph, scope: Scope, given: Iterable[str] = ()) -> None:
        """`given` are initializers whose values each run gives."""
        given = frozenset(given)
        self._declared = {info.name: info for info in graph.output}
        self._made: dict[Stage, Part] = {}
        """Those of stages that stay as they were keep their programs."""
        self._kept = Kept()
        self._lock = make_lock()
        self._planner = Planner(graph, scope, given, self._kept)
        plan = self._follow()
        self.gives = tuple(info.name for info in graph.output)
        own = graph.constants - given
        self.inputs = tuple(info.name for info in graph.input if info.name not in own)
        """The graph's own inputs, those with a value of the model's own left out."""
        made = {*self.inputs, *(name for node in graph.node for name in node.output)}
        names = dict.fromkeys([*plan.reads, *self.gives])
        self.captures = tuple(name for name in names if name not in made and not self._constants.has(name))
        """The tensors that it reads of the graphs around it, constants aside."""
        self.takes = (*self.inputs, *self.captures)

    def __iter__(self) -> Iterator[Part]:
        return (part for part, _ in self._parts)

    def run(self, values: Mapping[str, Any]) -> list[Any]:
        """The graph's outputs, in order, of values by name; an input is the very array, and a constant a copy."""
        while True:
            parts = self._parts
            if not isinstance(found := self._run(parts, values), Recut):
                return found
            self._learn(found, parts)

    def _run(self, parts: _Parts, values: Mapping[str, Any]) -> list[Any] | Recut:
        if len(parts) == 1 and (only := parts[0][0]).gives == self.gives:
            made = only.run(values)
            return made if isinstance(made, Recut) else list(made)
        known = {name: values[name] for name in self.takes}
        for part, ends in parts:
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
        return found.copy() if hasattr(found, "copy") else found.clone()

    def _learn(self, recut: Recut, parts: _Parts) -> None:
        """Plan anew by a part's news."""
        with self._lock:
            if self._planner.learn(recut):
                self._follow()
            elif self._parts is parts:
                raise recut.reason
            # Else another thread had the same news.

    def _follow(self) -> Plan:
        """Make the parts of what the planner has now."""
        plan = self._planner.plan()
        self._constants = Constants(plan.scope, self._kept)
        parts = [self._part(stage, plan.scope) for stage in plan.stages]
        self._parts: _Parts = list(zip(parts, plan.ends, strict=True))
        return plan

    def _part(self, stage: Stage, scope: Scope) -> Part:
        if stage not in self._made:
            nodes = [self._planner.nodes[number] for number in stage.nodes]
            if stage.place is Place.FLOW:
                self._made[stage] = makers()[nodes[0].kind](nodes[0], scope)
            elif stage.place is Place.DEVICE:
                outputs = [self._declared.get(name) or ValueInfo(name) for name in stage.gives]
                self._made[stage] = Segment(nodes, stage.takes, outputs, scope, self._kept, stage.nodes)
            else:
                self._made[stage] = HostPart(nodes, stage.takes, stage.gives, scope)
        return self._made[stage]
