"""A model's results in float64: where anydml and ONNX Runtime disagree, the nearer one to these is right.

onnx's reference evaluator computes them, node by node in NumPy, of a model whose floats are all float64.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.late_imports import import_alone
from anydml.onnx.protobuf import ELEMENT_NUMBERS, model_message, onnx
from anydml.onnx.tools.extract import cut, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.onnx.ir import Model

    Array = np.ndarray[Any, Any]

_FLOATS = tuple(ELEMENT_NUMBERS[name] for name in ("FLOAT", "FLOAT16", "BFLOAT16"))
_DOUBLE = ELEMENT_NUMBERS["DOUBLE"]
_TYPES = ("to", "dtype")
"""Attributes that say what type a node makes."""


def run_in_float64(model: Model, inputs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Array] | None:
    """These results; None where the evaluator lacks a node type, or something else stops it."""
    part = cut(model, needed(model.graph.node, names), list(names), {})
    given = {info.name: _widened(np.asarray(inputs[info.name])) for info in part.graph.input if info.name in inputs}
    message = model_message(part)
    import_alone("onnx.reference")
    try:
        _widen(message.graph)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = onnx.reference.ReferenceEvaluator(message).run(list(names), given)
    except Exception:  # noqa: BLE001 - of a node type that it has not; it raises whatever NumPy does
        return None
    made = {name: np.asarray(array) for name, array in zip(names, found, strict=True)}
    return made if all(array.dtype.kind in "fiub" for array in made.values()) else None


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def _widen(graph: Any) -> None:
    """Make float64 of a graph's floats, and of those of its bodies."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in _FLOATS:
            info.type.tensor_type.elem_type = _DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _TYPES and attribute.i in _FLOATS:
                attribute.i = _DOUBLE
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _widen(body)


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type in _FLOATS:
        name = tensor.name
        tensor.CopyFrom(onnx.numpy_helper.from_array(_widened(onnx.numpy_helper.to_array(tensor)), name))
