"""ONNX models over blocks along one axis, which are batches."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da

from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.parse import read_int
from anydml.dask.models import SUBJECT, Ran, lazies
from anydml.dask.tensors import as_tensor
from anydml.onnx.model import load
from anydml.onnx.read import read_model
from anydml.runtime.device import Device, device_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.dask.arrays import Chunks
    from anydml.onnx.model import Model
    from anydml.onnx.read import Given, Source


def run_model(model: Given, inputs: Any, batch_axis: int = 0, *, device: Device | str | None = None) -> Any:
    """An ONNX model on every block along one axis of a dask array: its outputs as a lazy array, or a list of several.

    `model` is a path, the bytes of a file or a ModelProto. `inputs` is an array for a model of one input, or arrays by
    name; those that are not Dask's are given whole with every block. Blocks lie along `batch_axis` alone, and the sizes
    of the outputs along it go with them. The model is sent to each worker once, and compiled there once; one whose
    weights lie in other files is read by its path, which every worker must see.
    """
    source = read_model(model, is_kept=True)
    known = load(source)
    given = dict(inputs) if isinstance(inputs, dict) else {next(iter(known.inputs), ""): inputs}
    _raise(_misnamed(known, given))
    arrays = {name: as_tensor(x, SUBJECT, name).array for name, x in given.items()}
    cut = {name: x for name, x in arrays.items() if isinstance(given[name], da.Array)}
    _raise([*_unfit(known, arrays), *_cut_elsewhere(cut, batch_axis)])
    first = next(iter(cut.values()))
    batches = first.chunks[batch_axis % first.ndim]
    shapes = {name: tuple(own[0] for own in x.chunks) for name, x in arrays.items()}
    outputs = load(source, shapes=shapes).outputs
    kinds = [(_chunks(name, info.shape, batch_axis, batches), info.data_type.dtype) for name, info in outputs.items()]
    payload = pickle.dumps(("onnx", _sent(model, source)))
    asked = None
    if device is not None:
        found = device if isinstance(device, Device) else device_named(device)
        asked = (found.name, str(found.feature_level))
    grid = kinds[0][0]
    at = batch_axis % len(grid)
    keyed = [
        tuple(at if name in cut and axis == batch_axis % x.ndim else -1 for axis in range(x.ndim))
        for name, x in arrays.items()
    ]
    layer = Ran(
        "run_model",
        hashlib.sha256(payload).hexdigest(),
        payload,
        tuple(arrays),
        tuple(outputs),
        tuple(len(own) for own in grid),
        tuple(keyed),
        asked,
    )
    return lazies(layer, list(arrays.values()), kinds)


def _raise(faults: Sequence[Fault]) -> None:
    if faults:
        raise DescriptionError(SUBJECT, faults)


def _misnamed(known: Model, given: Mapping[str, Any]) -> list[Fault]:
    takes = ", ".join(map(repr, known.inputs))
    unknown = [name for name in given if name not in known.inputs]
    missing = [name for name, info in known.inputs.items() if name not in given and not info.is_optional]
    return [
        *(Fault(field="inputs", rule=f"inputs must be the model's: {takes}", found=show(name)) for name in unknown),
        *(Fault(field="inputs", rule=f"inputs must have an array for {name!r}") for name in missing),
    ]


def _unfit(known: Model, arrays: Mapping[str, Any]) -> Iterator[Fault]:
    """Of another type than the model's, or empty."""
    for name, x in arrays.items():
        wanted = known.inputs[name].data_type.dtype
        if x.dtype != wanted:
            rule, way_out = f"{name} must be of {wanted}, the model's type", f"pass x.astype({wanted.name!r})"
            yield Fault(field=name, rule=rule, found=str(x.dtype), way_out=way_out)
        if any(0 in own for own in x.chunks):
            yield Fault(field=name, rule=f"{name} must have elements in every block", found=str(x.chunks))


def _cut_elsewhere(cut: Mapping[str, Any], batch_axis: int) -> Iterator[Fault]:
    if not cut:
        yield Fault(field="inputs", rule="inputs must have a dask array", way_out="anydml.onnx runs others")
    for name, x in cut.items():
        faults: list[Fault] = []
        read_int(batch_axis, "batch_axis", faults, -x.ndim, x.ndim - 1)
        if faults:
            yield from faults
            return
        axes = [axis for axis, own in enumerate(x.chunks) if len(own) > 1 and axis != batch_axis % x.ndim]
        if axes:
            rule, way_out = (
                f"{name} must be cut along axis {batch_axis} alone",
                f"pass x.rechunk({dict.fromkeys(axes, -1)})",
            )
            yield Fault(field=name, rule=rule, found=str(x.chunks), way_out=way_out)


def _chunks(name: str, shape: Any, batch_axis: int, batches: Sequence[int]) -> Chunks:
    """The blocks of an output: along the batches as those of the inputs, or as many times as large."""
    sizes = tuple(shape or ())
    at = batch_axis % len(sizes) if sizes else 0
    if not sizes or any(not isinstance(size, int) for size in sizes) or sizes[at] % batches[0]:
        rule = f"the output {name} must go with the batches, along axis {batch_axis}"
        raise DescriptionError(SUBJECT, Fault(field=name, rule=rule, found=str(shape)))
    scale = sizes[at] // batches[0]
    return tuple(tuple(b * scale for b in batches) if d == at else (size,) for d, size in enumerate(sizes))


def _sent(model: Any, source: Source) -> str | bytes:
    """The bytes that workers read the model from; its path where its weights lie beside it."""
    if isinstance(model, (str, os.PathLike)):
        path = Path(os.fspath(model)).resolve()
        return str(path) if any(tensor.is_external for tensor in source.model.graph.initializer) else path.read_bytes()
    return bytes(model) if not hasattr(model, "SerializeToString") else model.SerializeToString(deterministic=True)
