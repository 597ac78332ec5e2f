"""Protobuf's messages of models, and the IR that is made of them and they of it.

A model is converted once, while it is read. The messages of nodes and graphs are made where somebody else is to run
them: ONNX Runtime, onnx's evaluator, and whoever is given a part of a model as a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import Fault, MissingDependencyError, ModelFileError, UnsupportedError
from anydml.onnx.external_data import ExternalData, Piece
from anydml.onnx.ir import (
    Attribute,
    Function,
    Graph,
    Model,
    Node,
    SparseTensor,
    Tensor,
    ValueInfo,
    ValueType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from anydml.onnx.ir import Elements

try:
    import onnx as onnx  # which library.py has from here
    import onnx.helper
    import onnx.numpy_helper
except ImportError as error:
    _fault = Fault(field="onnx", rule="reading ONNX models needs onnx", way_out="pip install 'anydml[onnx]'")
    raise MissingDependencyError("anydml.onnx", _fault) from error

ModelProto: Any = onnx.ModelProto
ELEMENT_NUMBERS: Mapping[str, int] = dict(onnx.TensorProto.DataType.items())
"""ONNX's numbers of element types, by their names."""
ELEMENT_NAMES: Mapping[int, str] = {number: name for name, number in ELEMENT_NUMBERS.items()}

MOST_DEEP = 24
"""Graphs within one another; a parser of protobufs takes 33, and functions that are put in place may add to those."""
_MOST_EACH = 100_000
"""Nodes, inputs, outputs and initializers of a graph."""
_DOMAINS = ("", "ai.onnx")
"""Of ONNX's own operators: two names of one domain."""
_KINDS: Mapping[int, str] = {number: name for name, number in onnx.AttributeProto.AttributeType.items()}
_NUMBERS: Mapping[str, int] = {name: number for number, name in _KINDS.items()}
_FIELDS: Mapping[str, str] = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "GRAPH": "g",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
    "TENSORS": "tensors",
    "GRAPHS": "graphs",
    "SPARSE_TENSOR": "sparse_tensor",
    "SPARSE_TENSORS": "sparse_tensors",
    "TYPE_PROTO": "tp",
    "TYPE_PROTOS": "type_protos",
}
"""By the type of an attribute, the field that holds its value."""
_LISTS: Mapping[str, Any] = {
    "float_data": np.float32,
    "double_data": np.float64,
    "int32_data": np.int32,
    "int64_data": np.int64,
    "uint64_data": np.uint64,
}
"""The fields that hold a tensor's elements one by one."""
_LIST_OF: Mapping[int, str] = {
    number: onnx.helper.tensor_dtype_to_field(number) for name, number in ELEMENT_NUMBERS.items() if number
}
"""By ONNX's number of an element type, its field."""


def own_domain(domain: str) -> str:
    """A domain by its one name, which is nothing for ONNX's own."""
    return "" if domain in _DOMAINS else domain


# From messages


def read_model(message: Any, name: str, pieces: Mapping[int, Piece] | None = None) -> Model:
    """The model of a message; `pieces` are what was left in its file, by the numbers of its initializers from 1 on."""
    reader = Reader(name)
    graph = reader.graph(message.graph, 0, pieces or {})
    return Model(
        graph,
        reader.opsets(message.opset_import),
        tuple(map(reader.function, message.functions)),
        message.ir_version,
        _shown(message.producer_name),
        _shown(message.producer_version),
        _shown(message.domain),
        message.model_version,
        _shown(message.doc_string),
        {_shown(entry.key): _shown(entry.value) for entry in message.metadata_props},
    )


def parse_model(data: bytes, name: str) -> Model:
    """The model of a message's bytes, which are our own."""
    return read_model(ModelProto.FromString(data), name)


def _shown(text: str | bytes) -> str:
    """A text that nothing is found by."""
    return text if isinstance(text, str) else text.decode(errors="replace")


class Reader:
    """Makes the IR of messages, of a model of that name in errors."""

    def __init__(self, name: str = "model") -> None:
        self._name = name
        self._types: dict[bytes, ValueType] = {}
        """By their bytes: a model declares few that differ, of many values."""
        self._values: dict[str, Callable[[Any, int], Any]] = {
            "FLOAT": lambda message, _: message.f,
            "INT": lambda message, _: message.i,
            "STRING": lambda message, _: message.s,
            "TENSOR": lambda message, _: self.tensor(message.t),
            "GRAPH": lambda message, depth: self.graph(message.g, depth + 1),
            "FLOATS": lambda message, _: tuple(message.floats),
            "INTS": lambda message, _: tuple(message.ints),
            "STRINGS": lambda message, _: tuple(message.strings),
            "TENSORS": lambda message, _: tuple(map(self.tensor, message.tensors)),
            "GRAPHS": lambda message, depth: tuple(self.graph(each, depth + 1) for each in message.graphs),
            "SPARSE_TENSOR": lambda message, _: self._sparse(message.sparse_tensor),
            "SPARSE_TENSORS": lambda message, _: tuple(map(self._sparse, message.sparse_tensors)),
            "TYPE_PROTO": lambda message, _: self._type(message.tp),
            "TYPE_PROTOS": lambda message, _: tuple(map(self._type, message.type_protos)),
        }

    def graph(self, message: Any, depth: int = 0, pieces: Mapping[int, Piece] | None = None) -> Graph:
        """A graph that so many others lie around."""
        if depth > MOST_DEEP:
            raise too_deep(self._name)
        for what in ("node", "input", "output", "initializer"):
            if (count := len(getattr(message, what))) > _MOST_EACH:
                rule = f"the graph must have at most {_MOST_EACH} {what}s"
                raise UnsupportedError(self._name, Fault(field=what, rule=rule, value=count, found=str(count)))
        left = pieces or {}
        return Graph(
            self.nodes(message.node, depth),
            tuple(map(self._info, message.input)),
            tuple(map(self._info, message.output)),
            tuple(self.tensor(each, left.get(i)) for i, each in enumerate(message.initializer, 1)),
            tuple(map(self._sparse, message.sparse_initializer)),
            tuple(map(self._info, message.value_info)),
            _shown(message.name),
            _shown(message.doc_string),
        )

    def nodes(self, messages: Iterable[Any], depth: int = 0) -> tuple[Node, ...]:
        """The nodes of a graph that so many others lie around."""
        found = []
        for message in messages:
            name, kind, domain, overload = message.name, message.op_type, message.domain, message.overload
            inputs, outputs = tuple(message.input), tuple(message.output)
            self._check(name, kind, domain, overload, *inputs, *outputs)
            several = message.attribute
            attributes = tuple([self.attribute(each, depth) for each in several]) if several else ()
            found.append(Node(kind, inputs, outputs, attributes, name, own_domain(domain), overload))
        return tuple(found)

    def attribute(self, message: Any, depth: int = 0) -> Attribute:
        """An attribute of a node in a graph that so many others lie around."""
        kind, name, refers = _KINDS[message.type], message.name, message.ref_attr_name
        self._check(name, refers)
        read = self._values.get(kind)
        return Attribute(name, kind, None if read is None or refers else read(message, depth), refers)

    def function(self, message: Any) -> Function:
        """A function."""
        names = tuple(message.attribute)
        self._check(message.name, message.domain, message.overload, *message.input, *message.output, *names)
        inputs, outputs = (tuple(map(ValueInfo, names)) for names in (message.input, message.output))
        graph = Graph(self.nodes(message.node), inputs, outputs, name=message.name)
        defaults = tuple(map(self.attribute, message.attribute_proto))
        opsets = {own_domain(entry.domain): int(entry.version) for entry in message.opset_import}
        self._check(*opsets)
        return Function(own_domain(message.domain), graph, opsets, message.overload, names, defaults)

    def opsets(self, entries: Any) -> dict[str, int]:
        """The opset of each domain."""
        self._check(*(entry.domain for entry in entries))
        pairs = [(own_domain(entry.domain), int(entry.version)) for entry in entries]
        if len(found := dict(pairs)) < len(set(pairs)):  # the same one twice is what scikit-learn's converter writes
            rule = "opset_import must give each domain one opset"
            raise ModelFileError(self._name, Fault(field="opset_import", rule=rule))
        return found

    def tensor(self, message: Any, piece: Piece | None = None) -> Tensor:
        """A tensor, whose bytes may have been left in their file."""
        name, number = message.name, message.data_type
        self._check(name)
        data: Elements
        if message.data_location == onnx.TensorProto.EXTERNAL:
            data = ExternalData({entry.key: entry.value for entry in message.external_data})
            self._check(*data.entries.keys(), *data.entries.values())
        elif piece is not None:
            data = piece
        elif message.HasField("raw_data"):
            data = message.raw_data
        else:
            field = _LIST_OF.get(number, "")
            several = getattr(message, field) if field else ()
            data = tuple(several)
            if (dtype := _LISTS.get(field)) is not None:
                data = np.array(several, dtype)
                data.flags.writeable = False
        return Tensor(name, number, tuple(message.dims), data, message.HasField("segment"))

    def _sparse(self, message: Any) -> SparseTensor:
        return SparseTensor(self.tensor(message.values), self.tensor(message.indices), tuple(message.dims))

    def _info(self, message: Any) -> ValueInfo:
        name, declared = message.name, message.type
        self._check(name)
        if (found := self._types.get(key := declared.SerializeToString())) is None:
            found = self._types[key] = self._type(declared)
        return ValueInfo(name, found)

    def _type(self, message: Any) -> ValueType:
        kind = (message.WhichOneof("value") or "").removesuffix("_type")
        if kind in ("tensor", "sparse_tensor"):
            own = message.tensor_type if kind == "tensor" else message.sparse_tensor_type
            if not own.HasField("shape"):
                return ValueType(kind, own.elem_type)
            sizes = own.shape.dim
            shape = tuple(
                [
                    n if each.HasField("dim_value") and (n := each.dim_value) >= 0 else each.dim_param or None
                    for each in sizes
                ]
            )
            denotations = tuple([each.denotation for each in sizes])
            self._check(*(size for size in shape if size and not isinstance(size, int)), *denotations)
            return ValueType(kind, own.elem_type, shape, denotations if any(denotations) else ())
        if kind == "map":
            return ValueType(kind, message.map_type.key_type, inner=self._type(message.map_type.value_type))
        if kind in ("sequence", "optional"):
            return ValueType(kind, inner=self._type(getattr(message, f"{kind}_type").elem_type))
        return ValueType(kind)

    def _check(self, *names: Any) -> None:
        """Names are texts: protobuf gives bytes where they are no UTF-8."""
        try:
            "".join(names)
        except TypeError:
            raise ModelFileError(self._name, Fault(field="", rule="the model's names must be UTF-8")) from None


def too_deep(name: str) -> UnsupportedError:
    """The error of a model whose graphs lie too deep within one another."""
    rule = f"graphs must lie within one another at most {MOST_DEEP} deep"
    return UnsupportedError(name, Fault(field="graph", rule=rule, value=MOST_DEEP + 1))


# To messages


def model_message(model: Model) -> Any:
    """A model as a message, with the bytes of tensors that lie in its file."""
    found = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=_opset_messages(model.opset_import),
        functions=map(_function_message, model.functions),
    )
    _set(found, model, "producer_name", "producer_version", "domain", "model_version", "doc_string")
    _fill_graph(found.graph, model.graph)
    for key, value in model.metadata_props.items():
        found.metadata_props.add(key=key, value=value)
    return found


def _set(found: Any, given: Any, *names: str) -> None:
    """Set the fields of these names that are not empty."""
    for name in names:
        if value := getattr(given, name):
            setattr(found, name, value)


def _opset_messages(opsets: Mapping[str, int]) -> list[Any]:
    return [onnx.helper.make_opsetid(*entry) for entry in opsets.items()]


def _function_message(function: Function) -> Any:
    graph = function.graph
    found = onnx.FunctionProto(
        name=graph.name,
        domain=function.domain,
        input=[info.name for info in graph.input],
        output=[info.name for info in graph.output],
        node=map(node_message, graph.node),
        attribute=function.attribute,
        attribute_proto=map(_attribute_message, function.defaults),
        opset_import=_opset_messages(function.opset_import),
    )
    _set(found, function, "overload")
    return found


def _fill_graph(found: Any, graph: Graph) -> None:
    _set(found, graph, "name", "doc_string")
    for node in graph.node:
        _fill_node(found.node.add(), node)
    several = ((found.input, graph.input), (found.output, graph.output), (found.value_info, graph.value_info))
    for messages, infos in several:
        for info in infos:
            message = messages.add(name=info.name)
            if info.type.kind:
                _fill_type(message.type, info.type)
    for tensor in graph.initializer:
        _fill_tensor(found.initializer.add(), tensor)
    for sparse in graph.sparse_initializer:
        _fill_sparse(found.sparse_initializer.add(), sparse)


def node_message(node: Node) -> Any:
    """A node as a message."""
    found = onnx.NodeProto()
    _fill_node(found, node)
    return found


def _fill_node(found: Any, node: Node) -> None:
    found.op_type = node.op_type
    found.input.extend(node.input)
    found.output.extend(node.output)
    _set(found, node, "name", "domain", "overload")
    for each in node.attribute:
        _fill_attribute(found.attribute.add(), each)


def _attribute_message(attribute: Attribute) -> Any:
    found = onnx.AttributeProto()
    _fill_attribute(found, attribute)
    return found


def _fill_attribute(found: Any, attribute: Attribute) -> None:
    found.name, found.type = attribute.name, _NUMBERS[attribute.kind]
    if attribute.refers:
        found.ref_attr_name = attribute.refers
    if attribute.value is None:
        return
    field, fill = _FIELDS[attribute.kind], _FILLS.get(attribute.kind.removesuffix("S"))
    if fill is None:
        setattr(found, field, attribute.value) if len(field) == 1 else getattr(found, field).extend(attribute.value)
    elif isinstance(attribute.value, tuple):
        for each in attribute.value:
            fill(getattr(found, field).add(), each)
    else:
        fill(getattr(found, field), attribute.value)


def tensor_message(tensor: Tensor) -> Any:
    """A tensor as a message."""
    found = onnx.TensorProto()
    _fill_tensor(found, tensor)
    return found


def _fill_tensor(found: Any, tensor: Tensor) -> None:
    _set(found, tensor, "name")
    found.data_type = tensor.data_type
    found.dims.extend(tensor.dims)
    data = tensor.data
    if isinstance(data, ExternalData):
        found.data_location = onnx.TensorProto.EXTERNAL
        for key, value in data.entries.items():
            found.external_data.add(key=key, value=value)
    elif isinstance(data, (bytes, Piece)):
        found.raw_data = data if isinstance(data, bytes) else data.read().tobytes()
    elif len(data):
        getattr(found, _LIST_OF[tensor.data_type]).extend(data)


def _fill_sparse(found: Any, sparse: SparseTensor) -> None:
    _fill_tensor(found.values, sparse.values)
    _fill_tensor(found.indices, sparse.indices)
    found.dims.extend(sparse.dims)


def _fill_type(found: Any, given: ValueType) -> None:
    own = getattr(found, f"{given.kind}_type")
    own.SetInParent()
    if given.kind in ("tensor", "sparse_tensor"):
        own.elem_type = given.element
        if given.shape is not None:
            own.shape.SetInParent()
        for i, size in enumerate(given.shape or ()):
            dim = own.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            elif size is not None:
                dim.dim_param = size
            if given.denotations:
                dim.denotation = given.denotations[i]
    elif given.inner is not None:
        if given.kind == "map":
            own.key_type = given.element
        _fill_type(own.value_type if given.kind == "map" else own.elem_type, given.inner)


_FILLS: Mapping[str, Callable[[Any, Any], None]] = {
    "TENSOR": _fill_tensor,
    "GRAPH": _fill_graph,
    "SPARSE_TENSOR": _fill_sparse,
    "TYPE_PROTO": _fill_type,
}
"""By the type of an attribute, what fills a message of its value."""


# Arrays


def tensor_of(array: np.ndarray[Any, Any], name: str) -> Tensor:
    """An array as a tensor."""
    return Reader().tensor(onnx.numpy_helper.from_array(array, name))


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """A tensor as an array, of whatever type: texts as objects."""
    found: np.ndarray[Any, Any] = onnx.numpy_helper.to_array(tensor_message(tensor))
    return found
