"""A session's words on its model: inputs and outputs, and who made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.onnx.checks import shape_of
from anydml.onnx.library import TensorProto
from anydml.onnxruntime.type_names import tensor_type, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.onnx.checks import Size, TensorInfo


@dataclass(frozen=True)
class NodeArg:
    """An input or an output: its name, its type, `tensor(float)`, and its sizes, open ones by name or None."""

    name: str
    type: str
    shape: list[Size]


@dataclass(frozen=True)
class ModelMetadata:
    """A model's words on itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def describe_value(info: Any, known: Mapping[str, TensorInfo]) -> NodeArg:
    """An input or an output as it is declared; type and sizes that the model leaves out, as they were found."""
    declared, found, kind = shape_of(info), known.get(info.name), type_of(info.type)
    if found is None or (kind and declared is not None):
        return NodeArg(info.name, kind, list(declared or ()))
    return NodeArg(
        info.name, kind or tensor_type(TensorProto.DataType.Value(found.element_type)), list(found.shape or ())
    )


def describe_model(proto: Any) -> ModelMetadata:
    """A model's words on itself."""
    return ModelMetadata(
        proto.producer_name,
        proto.graph.name,
        proto.domain,
        proto.doc_string,
        proto.graph.doc_string,
        int(proto.model_version),
        {entry.key: entry.value for entry in proto.metadata_props},
    )
