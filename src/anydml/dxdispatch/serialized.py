"""Serialized graphs of DirectML's: a flatbuffer with nodes, and beside it a file for each constant that has a name."""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.shared import SharedData
from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, DmlError, Fault, ModelFileError, show
from anydml.core.files import open_plain, read_plain
from anydml.dxdispatch.flatbuffers import Struct, Union, read_flat
from anydml.graph.description import GraphDesc
from anydml.graph.nodes import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.graph.wiring import agree, input_descs, output_descs, slot_names
from anydml.operators import FusedActivation, find_operator
from anydml.operators.fused import attributes_of, find_activation
from anydml.operators.schema.fields import dml_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anydml.core.files import Files
    from anydml.graph.nodes import Node
    from anydml.operators import OperatorDesc

_ATTRIBUTES = Union(
    ("Activation", "ActivationArray", "UInt32", "UInt64", "Int32", "Float32", "UIntArray", "IntArray", "FloatArray",
     "ScaleBias", "Size2D", "ScalarUnionData", "Bool")
)  # fmt: skip
_SCALARS = Union(
    ("ByteArray", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float32", "Float64")
)
SCHEMA: dict[str, Struct | dict[str, str | Union]] = {
    "DmlGraphDesc": {"nodes": "[DmlGraphNode]", "graphInputNames": "[string]", "graphOutputNames": "[string]"},
    "DmlGraphNode": {
        "desc": Union(("OperatorNodeDesc", "ConstantNodeDesc")),
        "name": "string",
        "inputNames": "[string]",
        "outputNames": "[string]",
    },
    "OperatorNodeDesc": {
        "type": "string",
        "inputs": "[DmlBufferTensorDesc]",
        "outputs": "[DmlBufferTensorDesc]",
        "attributes": "[AttributeDesc]",
    },
    "ConstantNodeDesc": {"data": Union(("ConstantName", "ConstantRawData"))},
    "ConstantName": {"name": "string"},
    "ConstantRawData": {"data": "[uint8]"},
    "DmlBufferTensorDesc": {
        "dataType": "string",
        "sizes": "[uint32]",
        "strides": "[uint32]",
        "totalTensorSizeInBytes": "uint64",
    },
    "AttributeDesc": {"name": "string", "val": _ATTRIBUTES},
    "Activation": {"type": "string", "attributes": "[AttributeDesc]"},
    "ActivationArray": {"data": "[Activation]"},
    "UIntArray": {"data": "[uint32]"},
    "IntArray": {"data": "[int32]"},
    "FloatArray": {"data": "[float]"},
    "ScalarUnionData": {"data": _SCALARS},
    "ByteArray": Struct("8s"),
    "ScaleBias": Struct("ff"),
    "Size2D": Struct("II"),
    "Bool": Struct("?"),
    **dict(zip(_SCALARS.members[1:], map(Struct, "bBhHiIqQfd"), strict=True)),
}
"""The tables of DirectML's graphs, in the order of their fields."""
LARGEST = 2**28
"""Bytes of a graph file: what it describes takes far more memory."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphProgram:
    """A graph as a dispatchable: bound by the names of its inputs and outputs."""

    graph: GraphDesc = field(repr=False)
    name: str
    """The name in errors."""
    in_place: bool = False

    def shares(self) -> dict[str, str]:
        """No output has an input's memory."""
        return {}

    def inputs(self) -> dict[str, TensorDesc]:
        """The inputs by name."""
        return _known(slot_names(self.graph)[0], input_descs(self.graph))

    def outputs(self) -> dict[str, TensorDesc]:
        """The outputs by name."""
        return _known(slot_names(self.graph)[1], output_descs(self.graph))

    def tensors(self) -> dict[str, TensorDesc]:
        """Both."""
        return {**self.inputs(), **self.outputs()}

    @property
    def size_in_bytes(self) -> int:
        """The bytes of its constants."""
        return sum(len(node.data) for node in self.graph.nodes if isinstance(node, ConstantNode))


def _known(names: Sequence[str], descs: Sequence[TensorDesc | None]) -> dict[str, TensorDesc]:
    return {name: desc for name, desc in zip(names, descs, strict=True) if desc is not None}


def read_graph(path: Path, text: str, files: Files) -> GraphProgram:
    """Read a graph's file; constants are read from theirs when the graph is compiled."""
    found = read_flat(read_plain(path, LARGEST), "DmlGraphDesc", SCHEMA)
    return GraphProgram(_Builder(found, PurePosixPath(text.replace("\\", "/")).parent, files).build(), "graph")


class _Builder:
    def __init__(self, found: Mapping[str, Any], folder: PurePosixPath, files: Files) -> None:
        self._found, self._folder, self._files = found, folder, files
        self._made: dict[str, tuple[int, int]] = {}
        """By the name of an edge, the node and the output that it is of."""

    def build(self) -> GraphDesc:
        names = [[str(name) for name in self._found[key] or ()] for key in ("graphInputNames", "graphOutputNames")]
        into, out_of = ({name: i for i, name in enumerate(several) if name} for several in names)
        nodes: list[Node] = []
        fed: list[InputEdge] = []
        edges: list[IntermediateEdge] = []
        given: list[OutputEdge] = []
        for number, node in enumerate(self._found["nodes"] or ()):
            label = f"nodes[{number}] {show(node['name'] or '', 60)}"
            for slot, name in enumerate(node["inputNames"] or ()):
                if name in into:
                    fed.append(InputEdge(into[name], number, slot, name))
                elif name in self._made:
                    edges.append(IntermediateEdge(*self._made[name], number, slot, name))
                elif name:
                    rule = f"{label}: there must be an input, or a node before it, that gives {show(name, 60)}"
                    raise ModelFileError("graph", Fault(field=name, rule=rule))
            for slot, name in enumerate(node["outputNames"] or ()):
                self._made[name] = number, slot
                if name in out_of:
                    given.append(OutputEdge(number, slot, out_of[name], name))
            try:
                nodes.append(self._node(node))
            except DmlError as error:
                subject = f"{error.subject}: " if error.subject not in ("files", "graph") else ""
                raise error.within("graph", f"{label}: {subject}") from None
        marked = [replace(edge, reinterpret=True) if self._differs(nodes, edge) else edge for edge in edges]
        return GraphDesc(len(names[0]), len(names[1]), nodes, fed, given, marked, input_names=names[0])

    def _differs(self, nodes: Sequence[Node], edge: IntermediateEdge) -> bool:
        """Whether a node reads as much memory as another writes in a description of its own, which DirectML allows."""
        outputs, inputs = nodes[edge.from_node_index].outputs, nodes[edge.to_node_index].inputs
        source = outputs[edge.from_node_output_index][1] if edge.from_node_output_index in outputs else None
        fed = inputs[edge.to_node_input_index][1] if edge.to_node_input_index in inputs else None
        if source is None or fed is None or agree(source, fed):
            return False
        return source.total_tensor_size_in_bytes == fed.total_tensor_size_in_bytes

    def _node(self, node: Mapping[str, Any]) -> Node:
        name: str = node["name"] or ""
        kind, desc = _chosen(node["desc"])
        if kind == "OperatorNodeDesc":
            return OperatorNode(_operator(desc, node["inputNames"] or [], node["outputNames"] or []), name)
        what, constant = _chosen(desc.get("data"))
        if what == "ConstantRawData":
            return ConstantNode(constant["data"] or b"", name)
        if what != "ConstantName" or not constant["name"]:
            raise ModelFileError("graph", Fault(field="desc", rule="the node must be an operator or a constant"))
        return ConstantNode(self._file(f"{constant['name']}.bin"), name)

    def _file(self, name: str) -> SharedData:
        """The bytes of a file beside the graph's."""
        text = str(self._folder / name)
        path = self._files.find_source(text)
        with open_plain(path, text) as file:
            size = os.fstat(file.fileno()).st_size
        return SharedData(size, lambda: np.frombuffer(read_plain(path, size), np.uint8))


def _chosen(union: Any) -> tuple[str, dict[str, Any]]:
    """The member of a union, and its fields."""
    found: tuple[str, dict[str, Any]] = union or ("", {})
    return found


def _operator(desc: Mapping[str, Any], names_in: Sequence[str], names_out: Sequence[str]) -> OperatorDesc:
    cls = find_operator(desc["type"] or "")
    values: dict[str, Any] = {}
    for fields, names, tensors in (
        (cls.input_names(), names_in, desc["inputs"] or []),
        (cls.output_names(), names_out, desc["outputs"] or []),
    ):
        left, given = iter(names), iter(tensors)
        for name in fields:
            if cls.field_types()[name].is_tensor_array:
                values[name] = [_tensor(tensor) for tensor in given]
            elif next(left, ""):
                values[name] = _tensor(next(given, None))
            else:
                values[name] = None
    values |= _attributes(cls, desc["attributes"] or [])
    faults = [
        Fault(field=dml_name(name), rule=f"{dml_name(name)} must be given")
        for name, default in attributes_of(cls).items()
        if default is MISSING and name not in values
    ]
    if faults:
        raise DescriptionError(cls.type.name, faults)
    return cls(**values)


def _tensor(found: Mapping[str, Any] | None) -> TensorDesc:
    if found is None:
        raise ModelFileError("graph", Fault(field="", rule="there must be a description for each tensor with a name"))
    size, strides = found["totalTensorSizeInBytes"], found["strides"]
    return TensorDesc(
        found["dataType"] or "", found["sizes"] or [], strides=strides or None, total_tensor_size_in_bytes=size or None
    )


def _attributes(cls: type[OperatorDesc], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The attributes by the names of fields; numbers of elements are those of the lists."""
    names = {dml_name(name): name for name, kind in cls.field_types().items() if kind.kind == "attribute"}
    given = dict(_values(found))
    types = [value for name, value in given.items() if name.endswith("DataType")]
    return {
        names[name]: _scalar(value, types) if isinstance(value, bytes) else value
        for name, value in given.items()
        if name in names
    }


def _values(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for attribute in found:
        if attribute["val"] is None:
            continue
        kind, value = attribute["val"]
        if kind == "ScalarUnionData":
            kind, value = value["data"] or ("", None)
        if kind == "Activation":
            yield attribute["name"] or "", _activation(value)
        elif kind == "ActivationArray":
            yield attribute["name"] or "", [_activation(one) for one in value["data"] or []]
        elif isinstance(value, tuple):
            yield attribute["name"] or "", value if len(value) > 1 else value[0]
        elif value is not None:
            yield attribute["name"] or "", value["data"] or []


def _activation(found: Mapping[str, Any]) -> FusedActivation:
    cls = find_activation(found["type"] or "")
    return FusedActivation(cls, **_attributes(cls, found["attributes"] or []))


def _scalar(data: bytes, types: Sequence[Any]) -> float:
    """A number of a DML_SCALAR_UNION, whose type another attribute says."""
    kind = DataType(types[0]) if types else DataType.FLOAT32
    found: float = np.frombuffer(data, kind.dtype, 1)[0].item()
    return found
