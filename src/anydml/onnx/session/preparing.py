"""A model as a session's options change it before it is compiled: sizes bound, and initializers replaced."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.errors import ModelFileError, printable, show
from anydml.onnx.library import ModelProto, tensor_of
from anydml.onnx.reading import read_model
from anydml.onnx.session.ort_errors import NoSuchFile, refuse, refuse_type
from anydml.onnx.session.type_names import dtype_of

if TYPE_CHECKING:
    from anydml.onnx.reading import Source
    from anydml.onnx.session.options import SessionOptions
    from anydml.onnx.session.ort_value import OrtValue


def prepare(given: Any, options: SessionOptions) -> Source:
    """Read a model, and change it as the options say; write it where they ask for it."""
    if not isinstance(given, (str, os.PathLike, bytes, bytearray, memoryview, ModelProto)):
        raise refuse_type("InferenceSession", "path_or_bytes", "a path, the bytes of a model, or a ModelProto", given)
    try:
        source = read_model(given, is_kept=True)
    except ModelFileError as error:
        if isinstance(given, (str, os.PathLike)) and not Path(given).exists():
            raise NoSuchFile(error.subject, error.faults) from None
        raise
    graph = source.proto.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            size = options.size_names.get(dim.dim_param, options.denotations.get(dim.denotation))
            if size is not None and not dim.HasField("dim_value"):
                dim.dim_value = size
    for tensor in graph.initializer:
        if (value := options.initializers.get(tensor.name)) is not None:
            _replace(tensor, value)
    source = replace(source, raw={name: raw for name, raw in source.raw.items() if name not in options.initializers})
    if options.optimized_model_filepath:
        _write(source, options.optimized_model_filepath)
    return source


def _replace(tensor: Any, value: OrtValue) -> None:
    array, dtype = value.numpy(), dtype_of(tensor.data_type)
    if array.dtype != dtype or array.shape != tuple(tensor.dims):
        rule = f"initializer '{printable(tensor.name)}' must be of {dtype.name} and shape {tuple(tensor.dims)}"
        raise refuse("SessionOptions", tensor.name, rule, f"{array.dtype.name} of {array.shape}")
    tensor.CopyFrom(tensor_of(array, tensor.name))


def _write(source: Source, path: str) -> None:
    """Write the model with its sizes bound and its functions resolved: ONNX has no form for what it is compiled to."""
    try:
        Path(path).write_bytes(source.whole.SerializeToString())
    except (OSError, ValueError) as error:
        rule = f"optimized_model_filepath could not be written ({show(error)})"
        raise refuse("SessionOptions", "optimized_model_filepath", rule) from error
