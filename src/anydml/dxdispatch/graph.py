"""A model's dispatches as one graph: an edge from the dispatch that last wrote a resource to whoever reads it.

`anydml explain MODEL.json --graph` draws it, and says what one graph would save.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from anydml.core.enums import FeatureLevel
from anydml.core.errors import Fault, UnsupportedError, show
from anydml.core.memory import layout_of, numpy_view, share_elements
from anydml.dxdispatch.bind import by_slot, byte_offset
from anydml.dxdispatch.check import check_model
from anydml.dxdispatch.model import Dispatch
from anydml.explain import explain_desc, recipes_of
from anydml.graph.check import byte_span
from anydml.graph.description import GraphDesc
from anydml.graph.nodes import InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.graph.recipe import free_name
from anydml.graph.wiring import agree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import LevelName
    from anydml.dxdispatch.model import Binding, Dispatchable, Model
    from anydml.explain import GraphPicture
    from anydml.runtime.device import Device
    from anydml.runtime.schedules import Schedules


MOST_DISPATCHES = 2_000
"""That become a graph: what a compiler does with its nodes takes more time than in proportion to their number."""
_VALID = "the model is valid, but no graph can carry it"
_SOMEWHERE = 4096
"""An address for questions about overlap, which look at no bytes."""


def graph_of(model: Model, feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest()) -> GraphDesc:  # noqa: B008 - a constant
    """The graph for `Device.compile_graph` instead of the model's dispatches, each of which is a node.

    Inputs are the resources that are read before a dispatch has written them, and outputs those that a command prints
    or writes to a file after a dispatch has written them, or that no later dispatch reads. What is read from several
    places of a resource is several inputs. A model that is at fault is an error; so is a valid one that is no graph, an
    `UnsupportedError`: it has no dispatch or very many, or reads what edges cannot carry, such as a resource that two
    dispatches wrote a part of each.
    """
    check_model(model, FeatureLevel(feature_level)).raise_faults()
    count = sum(isinstance(command, Dispatch) for command in model.commands)
    if not count:
        rule = f"{_VALID}: there must be a dispatch to make a graph of"
        raise UnsupportedError(model.file, Fault(field="commands", rule=rule))
    if count > MOST_DISPATCHES:
        rule = f"the model is valid, but has too many dispatches for a graph: there must be at most {MOST_DISPATCHES}"
        way_out = "leave the dispatches apart, or make several models of it"
        fault = Fault(field="commands", rule=rule, value=count, found=str(count), way_out=way_out)
        raise UnsupportedError(model.file, fault)
    return _Reader(model).read()


class _Memory(NamedTuple):
    """A tensor in a resource."""

    resource: str
    offset: int
    """Of its first element, in bytes."""
    desc: TensorDesc
    first: int
    """Of its bytes in the resource, gaps and all."""
    end: int
    """Past the last of them."""

    @property
    def name(self) -> str:
        """The name of an input or an output of this memory."""
        return f"{self.resource} from byte {self.offset}" if self.offset else self.resource

    def overlaps(self, other: _Memory) -> bool:
        """Whether an element of both is the same memory; gaps do not count."""
        if self.resource != other.resource or self.end <= other.first or other.end <= self.first:
            return False
        a, b = (
            numpy_view(_SOMEWHERE + m.offset, m.desc.sizes, m.desc.element_strides, m.desc.data_type.dtype)
            for m in (self, other)
        )
        return share_elements(a, b)

    def lies_like(self, other: _Memory) -> bool:
        """Whether both have the same elements, of whatever type, in the same places."""
        widths = self.desc.data_type.size_in_bytes, other.desc.data_type.size_in_bytes
        a, b = (layout_of(m.desc.sizes, m.desc.element_strides) for m in (self, other))
        return (self.resource, self.offset, a) == (other.resource, other.offset, b) and widths[0] == widths[1]

    def covers(self, other: _Memory) -> bool:
        """Whether every element of the other is written where this is written."""
        if self.resource != other.resource or other.first < self.first or self.end < other.end:
            return False
        return self.desc.extent == self.desc.element_count or self.lies_like(other)


@dataclass(slots=True, eq=False)
class _Write:
    """The result of a dispatch in a resource."""

    node: int
    slot: int
    memory: _Memory
    binding: Binding
    is_read: bool = False
    is_replaced: bool = False
    """Whether all of it was written again."""
    is_output: bool = False


@dataclass(slots=True)
class _Input:
    """An input of the graph, and which nodes read it in which description."""

    memory: _Memory
    readers: list[tuple[int, int, TensorDesc]] = field(default_factory=list)

    @property
    def desc(self) -> TensorDesc:
        """The description that reaches furthest, of which the others are parts."""
        return max((desc for _, _, desc in self.readers), key=lambda desc: byte_span(desc)[1])


class _Reader:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes: list[OperatorNode] = []
        self._writes: list[_Write] = []
        self._there: dict[str, list[_Write]] = {}
        """By resource: what was written there, and not replaced since."""
        self._inputs: dict[tuple[str, int, bool], _Input] = {}
        self._edges: list[IntermediateEdge] = []
        self._outputs: list[_Write] = []

    def read(self) -> GraphDesc:
        """Follow the commands."""
        for command in self._model.commands:
            if isinstance(command, Dispatch):
                self._dispatch(command, self._model.dispatchables[command.dispatchable])
            else:
                self._give_out(self._there.get(command.resource, []))
        self._give_out([w for w in self._writes if not w.is_read and not w.is_replaced])
        inputs = list(self._inputs.values())
        taken: set[str] = set()
        names_in = [_unique(taken, given.memory.name) for given in inputs]
        names_out = [
            _unique(taken, write.memory.name, f" after {self._nodes[write.node].name}") for write in self._outputs
        ]
        return GraphDesc(
            len(inputs),
            len(self._outputs),
            self._nodes,
            list(_input_edges(inputs, names_in)),
            [
                OutputEdge(w.node, w.slot, k, name)
                for k, (w, name) in enumerate(zip(self._outputs, names_out, strict=True))
            ],
            self._edges,
            [given.desc for given in inputs],
            [write.memory.desc for write in self._outputs],
        )

    def _give_out(self, writes: list[_Write]) -> None:
        for write in writes:
            if write.is_output:
                continue
            there = self._there[write.memory.resource]
            for other in there[there.index(write) + 1 :]:
                if other.memory.overlaps(write.memory):
                    names = [show(self._nodes[one.node].name, 60) for one in (other, write)]
                    rule = (
                        f"{show(write.memory.resource, 60)} must be what one dispatch wrote to be an output of a graph"
                    )
                    found = f"{names[0]} wrote over some of what {names[1]} wrote"
                    self._refuse(self._nodes[other.node], "", other.binding, rule, found)
            write.is_output = True
            self._outputs.append(write)

    def _dispatch(self, command: Dispatch, dispatchable: Dispatchable) -> None:
        if dispatchable.desc is None:  # and nothing is at fault
            rule, place = f"{_VALID}: each dispatchable must be an operator", command.node.place
            raise UnsupportedError(self._model.file, Fault(field="dispatchable", rule=rule, place=place))
        node, number = OperatorNode(dispatchable.desc, dispatchable.name), len(self._nodes)
        given = by_slot(dispatchable.desc, dispatchable.bindings, initialises=True)
        given |= by_slot(dispatchable.desc, command.bindings, initialises=False)
        for slot, (name, desc) in node.inputs.items():
            self._feed(node, number, slot, self._memory(given[name], desc), given[name])
        self._nodes.append(node)
        for slot, (name, desc) in node.outputs.items():
            binding = given[name]
            memory = self._memory(binding, desc)
            there = self._there.get(binding.resource, [])
            for write in there:
                write.is_replaced = memory.covers(write.memory)
            new = _Write(number, slot, memory, binding)
            self._there[binding.resource] = [*(write for write in there if not write.is_replaced), new]
            self._writes.append(new)

    def _memory(self, binding: Binding, desc: TensorDesc) -> _Memory:
        offset, (low, high) = byte_offset(binding, self._model.resources), byte_span(desc)
        return _Memory(binding.resource, offset, desc, offset + low, offset + high)

    def _feed(self, node: OperatorNode, number: int, slot: int, memory: _Memory, binding: Binding) -> None:
        """Find where an input is from: a dispatch, or the resource's first values, which an owned tensor has always."""
        is_owned = memory.desc.is_owned_by_dml
        there = [] if is_owned else self._there.get(memory.resource, [])
        met = [write for write in there if write.memory.overlaps(memory)]
        if not met:
            key = (memory.resource, memory.offset, is_owned)
            self._inputs.setdefault(key, _Input(memory)).readers.append((number, slot, memory.desc))
            return
        write = met[-1]
        writer, name = show(self._nodes[write.node].name, 60), node.inputs[slot][0]
        rule = f"{name} must be what one dispatch wrote, from its first element on, to be an edge of a graph"
        if not write.memory.covers(memory):
            rest = f"{show(self._nodes[met[-2].node].name, 60)} wrote" if len(met) > 1 else "no dispatch wrote"
            self._refuse(node, name, binding, rule, f"{writer} wrote some, and {rest} some of it")
        if write.memory.offset != memory.offset:
            found = f"byte {memory.offset} of what {writer} wrote from byte {write.memory.offset} on"
            self._refuse(node, name, binding, rule, found)
        write.is_read = True
        is_marked = not agree(write.memory.desc, memory.desc)
        self._edges.append(IntermediateEdge(write.node, write.slot, number, slot, "", is_marked))

    def _refuse(self, node: OperatorNode, name: str, binding: Binding, rule: str, found: str) -> NoReturn:
        way_out = "give each result a resource of its own, or leave the dispatches apart"
        rule, place = f"{_VALID}: {rule}", binding.node.place
        fault = Fault(field=name, rule=rule, found=found, way_out=way_out, place=place, subject=node.kind)
        raise UnsupportedError(self._model.file, fault)


def _unique(taken: set[str], name: str, more: str = "") -> str:
    """A name that nothing else has: a resource may be an input, and an output once or several times."""
    name = free_name(name if name not in taken else name + more, taken)
    taken.add(name)
    return name


def _input_edges(inputs: list[_Input], names: list[str]) -> Iterator[InputEdge]:
    for k, (given, name) in enumerate(zip(inputs, names, strict=True)):
        whole = given.desc
        for number, slot, desc in given.readers:
            yield InputEdge(k, number, slot, name, not agree(whole, desc))


# What the command line shows of it


def draw_graph(model: Model, level: FeatureLevel, disabled: Collection[str] = ()) -> GraphPicture:
    """A picture of a model whose dispatches are compiled as one graph, with some passes disabled."""
    desc = graph_of(model, level)
    desc.validate(level)
    return explain_desc(desc, recipes_of(desc, disabled), title=f"{Path(model.file).name} as one graph")


def graph_schedules(model: Model, device: Device, disabled: Collection[str] = ()) -> Schedules:
    """The routes of a model whose dispatches are compiled as one graph on a device."""
    return device.compile_graph(graph_of(model, device.feature_level), disable_passes=disabled).schedules
