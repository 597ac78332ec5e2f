"""A session's words on its model: inputs and outputs, and who made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anydml.onnx.protobuf import ELEMENT_NUMBERS
from anydml.onnxruntime.type_names import tensor_type, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.onnx.checks import TensorInfo
    from anydml.onnx.ir import Model, Size, ValueInfo


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


def describe_value(info: ValueInfo, known: Mapping[str, TensorInfo]) -> NodeArg:
    """An input or an output as it is declared; type and sizes that the model leaves out, as they were found."""
    declared, found, kind = info.type.shape, known.get(info.name), type_of(info.type)
    if found is None or (kind and declared is not None):
        return NodeArg(info.name, kind, list(declared or ()))
    return NodeArg(info.name, kind or tensor_type(ELEMENT_NUMBERS[found.element_type]), list(found.shape or ()))


def describe_model(model: Model) -> ModelMetadata:
    """A model's words on itself."""
    return ModelMetadata(
        model.producer_name,
        model.graph.name,
        model.domain,
        model.doc_string,
        model.graph.doc_string,
        model.model_version,
        dict(model.metadata_props),
    )
