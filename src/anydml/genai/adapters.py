"""Adapters: parameters of .onnx_adapter files, which take the place of a model's own while a generator runs."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import Fault, ModelFileError, show
from anydml.core.files import read_plain
from anydml.core.locks import make_lock
from anydml.dxdispatch.flatbuffers import read_flat
from anydml.genai.model import Loaded, Model
from anydml.genai.tensors import read_name, read_path
from anydml.onnxruntime.ort_errors import InvalidGraph, NoSuchFile, refuse, refuse_type, told
from anydml.onnxruntime.type_names import dtype_of

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.dxdispatch.flatbuffers import Schema
    from anydml.genai.generator import Generator

_IDENTIFIER = b"TORT"
_SCHEMA: Schema = {
    "Adapter": {
        "format_version": "int32",
        "adapter_version": "int32",
        "model_version": "int32",
        "parameters": "[Parameter]",
    },
    "Parameter": {"name": "string", "dims": "[int64]", "data_type": "int32", "raw_data": "[uint8]"},
}
_LARGEST = 2**31


def read_adapter(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The parameters of an adapter's file, by name."""
    subject = str(path)
    try:
        data = read_plain(path, _LARGEST)
    except ModelFileError as error:
        if path.exists():
            raise
        fault = Fault(field="", rule=f"there is no file {show(subject)}", way_out="give the path of an adapter")
        raise NoSuchFile("Adapters", [fault]) from error
    if data[4:8] != _IDENTIFIER:
        raise _wrong(subject, "it begins otherwise")
    try:
        found = read_flat(data, "Adapter", _SCHEMA)
    except ModelFileError as error:
        raise _wrong(subject, error.faults[0].rule.rpartition(": ")[2]) from error
    return dict(_read_parameter(one, subject) for one in found["parameters"] or [])


def _read_parameter(given: dict[str, Any], subject: str) -> tuple[str, np.ndarray[Any, Any]]:
    name, shape = given["name"], given["dims"] or []
    if not name or given["data_type"] is None:
        raise _wrong(subject, "a parameter must have a name and a type")
    dtype, data = dtype_of(given["data_type"]), given["raw_data"] or b""
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise _wrong(subject, f"parameter {show(name)} of shape {shape} must have as many bytes", str(len(data)))
    return name, np.frombuffer(data, dtype).reshape(shape)


def _wrong(subject: str, rule: str, found: str = "") -> InvalidGraph:
    fault = Fault(field="adapter", rule=f"the file must be an adapter of ONNX Runtime: {rule}", found=found)
    return InvalidGraph(subject, fault)


class Adapters(Loaded):
    """A model's adapters by name: `adapters.load("travel.onnx_adapter", "travel")`."""

    _instead = "share them, or load their files for another model"

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise refuse_type("Adapters", "model", "a Model", model)
        self._model = model
        self._held: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
        self._users: dict[str, weakref.WeakSet[Generator]] = {}
        self._lock = make_lock()

    def load(self, adapter_file_path: str, adapter_name: str) -> None:
        """Read an adapter's file, under a name."""
        for field, value in (("adapter_file_path", adapter_file_path), ("adapter_name", adapter_name)):
            read_name("Adapters", field, value)
        with told():
            found = read_adapter(read_path("Adapters", "adapter_file_path", adapter_file_path))
        for name, array in found.items():
            self._check(name, array)
        with self._lock:
            if adapter_name in self._held:
                rule = f"adapter {show(adapter_name)} is loaded already"
                raise refuse("Adapters", "adapter_name", rule, way_out="unload it first, or load by another name")
            self._held[adapter_name], self._users[adapter_name] = found, weakref.WeakSet()

    def _check(self, name: str, array: np.ndarray[Any, Any]) -> None:
        session = self._model.session
        known = {arg.name: arg for arg in (*session.get_inputs(), *session.get_overridable_initializers())}
        if name not in known:
            rule = f"the adapter has parameter {show(name)}, and the model no input or initializer of that name"
            raise refuse("Adapters", name, rule, way_out="export the model with the adapter's parameters as inputs")
        shape = list(known[name].shape or [])
        fits = len(shape) == array.ndim and all(
            not isinstance(size, int) or size == own for size, own in zip(shape, array.shape, strict=True)
        )
        if not fits:
            rule = f"parameter {show(name)} must be of shape {shape}, as the model has it"
            raise refuse("Adapters", name, rule, str(list(array.shape)))

    def unload(self, adapter_name: str) -> None:
        """Forget an adapter that no generator uses."""
        with self._lock:
            self._find(adapter_name)
            if len(self._users[adapter_name]):
                rule = f"adapter {show(adapter_name)} is in use by a generator"
                raise refuse("Adapters", "adapter_name", rule, way_out="let go of the generator first")
            del self._held[adapter_name], self._users[adapter_name]

    def parameters(self, adapter_name: str, user: Generator) -> dict[str, np.ndarray[Any, Any]]:
        """An adapter's parameters, for a generator, which counts as its user from now on."""
        with self._lock:
            found = self._find(adapter_name)
            self._users[adapter_name].add(user)
            return found

    def _find(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        if read_name("Adapters", "adapter_name", name) not in self._held:
            way_out = f"there are {', '.join(map(show, self._held))}" if self._held else "load one first"
            raise refuse("Adapters", "adapter_name", f"there is no adapter {show(name)}", way_out=way_out)
        return self._held[name]
