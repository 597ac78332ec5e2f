"""A DxDispatch model for the page: its dispatches as a graph, and what may be asked of them."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import FeatureLevel
from anydml.core.errors import Fault, ModelError, show
from anydml.core.limits import MemoryLimit
from anydml.core.memory import word_bytes
from anydml.dxdispatch import Dispatch, Dispatched, Timing, load_model
from anydml.dxdispatch.graph import draw_graph
from anydml.dxdispatch.model import WriteFile
from anydml.explore import categories
from anydml.explore.drawing import GraphNode, ModelGraph, Slot, tell
from anydml.explore.statistics import digest_of, statistics_of, word_milliseconds
from anydml.operators.schema.fields import bare_name, dml_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from anydml.cli.onnx_inputs import Given
    from anydml.dxdispatch import Dispatchable, Model
    from anydml.explore.jobs import Say
    from anydml.operators import OperatorDesc

_RUNS = 5
"""Of a profile, after a first that does not count."""


class DispatchWork:
    """A DxDispatch model, and what may be asked of it."""

    kind = "DxDispatch"

    def __init__(self, path: Path, given: Given, engine: str | None, level: FeatureLevel | None) -> None:
        self._path, self._given, self._engine = path, given, engine
        self._level = level or FeatureLevel.highest()
        self._model = self._load()
        self._commands: list[int] = []
        """By node, the number of its command; -1 for an input."""
        self.graphs = [self._graph()]

    def _load(self) -> Model:
        return load_model(self._path, max_memory=self._given.max_memory, shapes=self._given.shapes() or None)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The page's words on the model as a whole."""
        model = self._model
        counts = f"{len(model.dispatchables)} dispatchables, {len(model.resources)} resources"
        return [("format", "DxDispatch"), ("has", counts), ("file", word_bytes(self._path.stat().st_size))]

    @property
    def jobs(self) -> dict[str, Callable[[Say], Any]]:
        """The jobs of the page."""
        return {"check": self._check, "passes": self._passes, "profile": self._profile}

    def sizes(self) -> list[dict[str, Any]]:
        """No size is open: dispatches are of sizes that are known."""
        return []

    def descs(self, place: str) -> Sequence[OperatorDesc]:
        """The operator of a dispatch."""
        found = next((one for key, one in self._dispatches(self._model) if key == place), None)
        desc = None if found is None else self._model.dispatchables[found.dispatchable].desc
        return () if desc is None else (desc,)

    def digest(self, name: str) -> str:
        """What tells a resource's first values from others."""
        values = self._model.resources[name].first_values() if name in self._model.resources else None
        return "" if values is None else digest_of(values)

    def weight(self, name: str) -> dict[str, Any]:
        """The figures of a resource's first values."""
        resource = self._model.resources.get(name)
        if resource is None:
            raise ModelError("explore", Fault(field=tell(name), rule="there is no such resource"))
        limit = MemoryLimit(self._given.max_memory, "explore")
        limit.check(resource.values_size, f"resource {show(name, 60)}", "explore")
        values = resource.first_values()
        if values is None:
            raise ModelError("explore", Fault(field=tell(name), rule="its first values are not known"))
        return {"bytes": resource.values_size, **statistics_of(values)}

    # The graph

    def _graph(self) -> ModelGraph:
        model, found = self._model, ModelGraph(self._path.name)
        written: set[str] = set()
        for number, command in enumerate(model.commands):
            if isinstance(command, Dispatch):
                if command.dispatchable in model.dispatchables:
                    node = self._node(command, model.dispatchables[command.dispatchable], written)
                    written |= {slot.tensor for slot in node.outputs}
                    found.nodes.append(node)
                    self._commands.append(number)
                continue
            is_file = isinstance(command, WriteFile)
            name = command.path if isinstance(command, WriteFile) else command.resource
            shown = GraphNode("Write file" if is_file else "Print", name, [Slot("", command.resource)], end="output")
            found.nodes.append(shown)
            self._commands.append(number)
        for name, resource in model.resources.items():
            if resource.data_type is not None:
                count = "" if resource.size_in_bytes is None else f", {word_bytes(resource.size_in_bytes)}"
                found.types[name] = f"{resource.data_type.name.lower()}{count}"
        return found

    def _node(self, command: Dispatch, one: Dispatchable, written: set[str]) -> GraphNode:
        kind = one.operator.name if one.operator is not None else "not an operator"
        if one.program is not None:
            kind = type(one.program).__name__.removesuffix("Program").upper()
        node = GraphNode(kind, one.name, label=one.name, shown=one.name)
        outputs = set() if one.desc is None else {bare_name(name) for name in one.desc.outputs()}
        if one.desc is None:
            outputs = {name for name in command.bindings if "output" in name.lower()}
        else:
            node.attributes = list(_attributes(one.desc))
            node.category = categories.of_operators([type(one.desc)])
        for bindings in (one.bindings, command.bindings):
            for name, several in bindings.items():
                for binding in several:
                    is_out = name in outputs
                    is_weight = not is_out and binding.resource not in written
                    (node.outputs if is_out else node.inputs).append(Slot(name, binding.resource, is_weight))
        return node

    # Work

    def _check(self, say: Say) -> dict[str, Any]:
        say("checking every dispatchable")
        model = self._load()
        report = model.check(self._level)
        lowest = {one.name: one.lowest_level for one in report.dispatchables}
        nodes: dict[str, Any] = {}
        for place, command in self._dispatches(model):
            one = model.dispatchables[command.dispatchable]
            parts = [one.node.place.path, command.node.place.path]
            told = [
                str(finding)
                for finding in report.faults
                if finding.fault.place is not None and any(_is_within(finding.fault.place.path, part) for part in parts)
            ]
            level = lowest.get(one.name)
            nodes[place] = {"level": str(level)} if level is not None else {}
            if told:
                nodes[place] |= {"state": "refused", "note": "\n".join(told[:8])}
        says = "nothing is wrong" if report else f"{len(report.faults)} faults"
        says = f"{says}; it takes {word_bytes(report.memory_in_bytes)}"
        return {"nodes": nodes, "types": {}, "says": says, "faults": [str(one) for one in report.faults[:20]]}

    def _dispatches(self, model: Model) -> Iterator[tuple[str, Dispatch]]:
        for k, number in enumerate(self._commands):
            command = model.commands[number]
            if isinstance(command, Dispatch):
                yield f"0.{k}", command

    def _find(self, names: Iterable[str]) -> list[str]:
        """The dispatches of nodes' names: the one that is `a` at its first dispatch is `a #2` at the next."""
        wanted = set(names)
        bare = {name.rpartition(" #")[0] or name for name in wanted} | wanted
        return [place for place, command in self._dispatches(self._model) if command.dispatchable in bare]

    def _passes(self, say: Say) -> dict[str, Any]:
        say("compiling the dispatches as one graph")
        picture = draw_graph(self._load(), self._level)
        passes = [
            {"does": one.does, "bytes": one.bytes_moved, "nodes": self._find(one.nodes), "once": is_once}
            for is_once, several in ((False, picture.after), (True, picture.once))
            for one in several
        ]
        return {"passes": passes, "says": f"as one graph, {picture.summary}"}

    def _profile(self, say: Say) -> dict[str, Any]:
        say(f"running its dispatches {_RUNS} times; no file is written")
        model = self._load()
        model.check(self._level).raise_faults()
        model = replace(model, commands=tuple(one for one in model.commands if isinstance(one, Dispatch)))
        times: list[float] = []

        def listen(event: object) -> None:
            if isinstance(event, Dispatched) and event.samples.hot is not None:
                times.append(event.samples.hot.median)

        model.run(self._engine, feature_level=self._level, timing=Timing(iterations=_RUNS + 1), on_event=listen)
        passes = [
            {"nodes": [place], "ms": each, "bytes": _bytes(model.dispatchables[command.dispatchable]), "calls": 1}
            for (place, command), each in zip(self._dispatches(self._model), times, strict=False)
        ]
        return {
            "passes": passes,
            "ms": sum(times),
            "says": f"{word_milliseconds(sum(times))}, the dispatches' medians together",
        }


def _bytes(dispatchable: Dispatchable) -> int:
    """The bytes of its tensors, which it reads and writes."""
    desc = dispatchable.desc
    tensors = [] if desc is None else [*desc.inputs().values(), *desc.outputs().values()]
    return sum(tensor.total_tensor_size_in_bytes for tensor in tensors)


def _is_within(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


def _attributes(desc: OperatorDesc) -> Iterator[tuple[str, str]]:
    for name in desc.field_types():
        value = getattr(desc, name)
        several = value if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(one, TensorDesc) for one in several):
            yield from ((dml_name(name), _tensor(one)) for one in several if one is not None)
        elif value is not None:
            yield dml_name(name), ", ".join(_word(one) for one in several)


def _tensor(desc: TensorDesc) -> str:
    """A tensor as DirectML writes one; strides where it has its own."""
    sizes, strides = (",".join(map(str, each)) for each in (desc.sizes, desc.strides or ()))
    return f"{desc.data_type.name} {{{sizes}}}" + (f", strides {{{strides}}}" if strides else "")


def _word(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    kind = getattr(type(value), "type", None)
    return kind.name if kind is not None else str(value)
