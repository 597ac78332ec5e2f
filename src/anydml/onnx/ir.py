"""A model as everything here sees it: graphs, nodes, attributes and tensors, which nobody changes.

`protobuf.py` makes it of messages, once, while a file is read, and messages of it for those who need them. Fields have
ONNX's own names. Graphs within nodes and functions are graphs like a model's; equal is what is the same object.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from anydml.core.errors import printable
from anydml.onnx.external_data import ExternalData, Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

LARGE: Final = 65_536
"""Bytes of an initializer from which on it is told apart by its name, and may stay in its file."""
Size: TypeAlias = int | str | None
"""A size, the name of an open one, or None for an open one without a name."""
Elements: TypeAlias = "bytes | Piece | ExternalData | np.ndarray[Any, Any] | tuple[bytes, ...]"
"""A tensor's: its bytes, where they lie, numbers of the type of the field that had them, or texts."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a model; nothing of it has been believed yet: `tensors.py` decodes it."""

    name: str
    data_type: int
    """ONNX's number of the elements' type."""
    dims: tuple[int, ...]
    data: Elements
    is_segment: bool = False
    """Whether it says that it is a part of a tensor."""

    @property
    def is_external(self) -> bool:
        """Whether its elements lie in another file."""
        return isinstance(self.data, ExternalData)

    @property
    def size(self) -> int:
        """The bytes that it has."""
        data = self.data
        if isinstance(data, np.ndarray):
            return data.nbytes
        return sum(map(len, data)) if isinstance(data, tuple) else 0 if isinstance(data, ExternalData) else len(data)

    @property
    def is_large(self) -> bool:
        """Whether it is an initializer that is told apart by its name, not by its elements."""
        return self.is_external or self.size >= LARGE

    def parts(self, *, is_whole: bool = True) -> Iterator[bytes]:
        """All that it is told by, for digests; unless it `is_whole`, a large one's elements are not."""
        data = self.data
        yield repr((self.name, self.data_type, self.dims, self.is_segment, self.size)).encode()
        if isinstance(data, ExternalData):
            yield repr(data.entries).encode()
        elif not isinstance(data, Piece) and (is_whole or self.size < LARGE):
            yield repr(data).encode() if isinstance(data, tuple) else bytes(data)


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A tensor of which a model has the elements that are not zero."""

    values: Tensor
    indices: Tensor
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type as a model declares it."""

    kind: str = ""
    """tensor, sparse_tensor, sequence, optional, map or opaque; nothing where the model does not say."""
    element: int = 0
    """ONNX's number of the type of a tensor's elements, or of a map's keys."""
    shape: tuple[Size, ...] | None = None
    denotations: tuple[str, ...] = ()
    """The meanings of the sizes, where the model has any."""
    inner: ValueType | None = None
    """Of what a sequence, an optional value or a map has."""


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A declaration: of an input, an output, or a value between nodes."""

    name: str
    type: ValueType = ValueType()


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """An attribute of a node: a number, a text, a tensor, a graph, or a tuple of them."""

    name: str
    kind: str
    """ONNX's name of its type: `INT`, `FLOATS`, `GRAPH`."""
    value: Any
    refers: str = ""
    """In a function, the attribute of the call that it stands for."""

    def parts(self) -> Iterator[bytes]:
        """All that it is told by, for digests."""
        several = self.value if isinstance(self.value, tuple) else (self.value,)
        if not any(isinstance(each, (Tensor, SparseTensor, Graph)) for each in several):
            yield repr((self.name, self.kind, self.refers, self.value)).encode()
            return
        yield repr((self.name, self.kind, self.refers, len(several))).encode()
        for each in several:
            if isinstance(each, SparseTensor):
                yield repr(each.dims).encode()
                yield from (*each.values.parts(), *each.indices.parts())
            else:
                yield from each.parts()


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of a graph."""

    op_type: str
    input: tuple[str, ...]
    """Names; an empty one stands for what is left out."""
    output: tuple[str, ...]
    attribute: tuple[Attribute, ...] = ()
    name: str = ""
    domain: str = ""
    """Of its type: nothing for ONNX's own operators."""
    overload: str = ""

    @property
    def kind(self) -> str:
        """Its type, with the domain where that is not ONNX's own."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def label(self) -> str:
        """Errors' name for it: its own name, else its first output's."""
        kind = printable(self.kind)
        if self.name:
            return f"node '{printable(self.name)}' ({kind})"
        return f"node of '{printable(self.output[0] if self.output else '')}' ({kind})"

    def value(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; the default where it has none of that name."""
        return next((each.value for each in reversed(self.attribute) if each.name == name), default)

    @property
    def bodies(self) -> list[tuple[str, Graph]]:
        """The graphs that it has as attributes, by the attributes' names: the branches of an If, the body of a Loop."""
        found: list[tuple[str, Graph]] = []
        for each in self.attribute:
            if each.kind == "GRAPH":
                found.append((each.name, each.value))
            elif each.kind == "GRAPHS":
                found += [(each.name, graph) for graph in each.value]
        return found

    @property
    def reads(self) -> list[str]:
        """The names that it reads, those that its bodies read of the graphs around them included."""
        found = [name for name in self.input if name]
        bodies = self.bodies if self.attribute else ()
        return [*found, *sorted(set().union(*(graph.captures for _, graph in bodies)))] if bodies else found

    @property
    def makes(self) -> list[str]:
        """The names that it makes."""
        return [name for name in self.output if name]

    def parts(self) -> Iterator[bytes]:
        """All that it is told by, for digests."""
        own = (self.op_type, self.domain, self.overload, self.name, self.input, self.output, len(self.attribute))
        yield repr(own).encode()
        for each in self.attribute:
            yield from each.parts()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in order: of a model, of a function, or within a node."""

    node: Sequence[Node] = ()
    input: Sequence[ValueInfo] = ()
    output: Sequence[ValueInfo] = ()
    initializer: Sequence[Tensor] = ()
    sparse_initializer: Sequence[SparseTensor] = ()
    value_info: Sequence[ValueInfo] = ()
    name: str = ""
    doc_string: str = ""

    @property
    def constants(self) -> set[str]:
        """The names of its initializers."""
        return {tensor.name for tensor in self.initializer}

    @property
    def captures(self) -> set[str]:
        """The names of the graphs around it that it reads, or that the graphs within it read."""
        own = {*(info.name for info in self.input), *self.constants}
        found: set[str] = set()
        for node in self.node:
            found.update(name for name in node.reads if name not in own)
            own.update(node.output)
        return found | {info.name for info in self.output if info.name not in own}

    def parts(self, *, is_whole: bool = True) -> Iterator[bytes]:
        """All that it is told by, for digests; unless it `is_whole`, large initializers are told by their sizes."""
        yield repr((len(self.node), self.input, self.output, len(self.initializer))).encode()
        for node in self.node:
            yield from node.parts()
        for tensor in self.initializer:
            yield from tensor.parts(is_whole=is_whole)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A node type as other nodes: a model's own, or ONNX's."""

    domain: str
    graph: Graph
    """By the function's name, with inputs and outputs of no types."""
    opset_import: Mapping[str, int]
    overload: str = ""
    attribute: tuple[str, ...] = ()
    """The names of those that a call gives."""
    defaults: tuple[Attribute, ...] = ()
    """Those that a call may leave out, with their values then."""

    @property
    def key(self) -> tuple[str, str, str]:
        """By which calls find it: its domain, name and overload."""
        return self.domain, self.graph.name, self.overload

    def parts(self) -> Iterator[bytes]:
        """All that it is told by, for digests."""
        yield repr((self.key, self.opset_import, self.attribute, len(self.defaults))).encode()
        for each in self.defaults:
            yield from each.parts()
        yield from self.graph.parts()


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A graph, and what its nodes' types are of."""

    graph: Graph
    opset_import: Mapping[str, int]
    """By domain, the opset."""
    functions: Sequence[Function] = ()
    ir_version: int = 0
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    metadata_props: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> Iterator[bytes]:
        """All that its programs are told by, for digests: but for the elements of large initializers."""
        yield repr(sorted(self.opset_import.items())).encode()
        yield from self.graph.parts(is_whole=False)


def make_attribute(name: str, value: Any) -> Attribute:
    """An attribute of a number, a text, a tensor or a graph, or of several numbers or texts."""
    if isinstance(value, (list, tuple)):
        several = [_held(each) for each in value]
        return Attribute(name, f"{several[0][0] if several else 'INT'}S", tuple(each for _, each in several))
    return Attribute(name, *_held(value))


def _held(value: Any) -> tuple[str, Any]:
    """ONNX's name of a value's type, and the value as an attribute has it: a number in FLOAT32."""
    if isinstance(value, (int, np.integer)):
        return "INT", int(value)
    if isinstance(value, (float, np.floating)):
        return "FLOAT", float(np.float32(value))
    if isinstance(value, (str, bytes)):
        return "STRING", value.encode() if isinstance(value, str) else value
    return "TENSOR" if isinstance(value, Tensor) else "GRAPH", value


def make_node(kind: str, inputs: Iterable[str], outputs: Iterable[str], **attributes: Any) -> Node:
    """A node of ONNX's own."""
    own = tuple(make_attribute(name, value) for name, value in attributes.items())
    return Node(kind, tuple(inputs), tuple(outputs), own)


def graphs_within(nodes: Iterable[Node]) -> Iterator[Graph]:
    """Every graph within nodes, however deep."""
    pending = [graph for node in nodes if node.attribute for _, graph in node.bodies]
    while pending:
        graph = pending.pop()
        yield graph
        pending.extend(inner for node in graph.node if node.attribute for _, inner in node.bodies)


def nodes_within(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and every node of the graphs within them."""
    several = list(nodes)
    yield from several
    for graph in graphs_within(several):
        yield from graph.node


def with_bodies(node: Node, change: Callable[[Graph], Graph], names: Collection[str] | None = None) -> Node:
    """A node with other graphs in the place of those that it has, be it in attributes of some names alone."""
    if not node.attribute or not node.bodies:
        return node
    return replace(node, attribute=tuple(_with_graphs(each, change, names) for each in node.attribute))


def _with_graphs(attribute: Attribute, change: Callable[[Graph], Graph], names: Collection[str] | None) -> Attribute:
    if attribute.kind not in ("GRAPH", "GRAPHS") or (names is not None and attribute.name not in names):
        return attribute
    value = attribute.value
    return replace(attribute, value=change(value) if attribute.kind == "GRAPH" else tuple(map(change, value)))
