"""Compiled graphs over blocks, and models of any kind: sent to each worker once, and compiled once by it."""

from __future__ import annotations

import hashlib
import pickle
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef

from anydml.core.errors import DescriptionError, Fault
from anydml.core.late_imports import import_alone
from anydml.dask.arrays import Chunks, Key, Layer, lazy, meta_like, places
from anydml.dask.blocks import Block, device_of
from anydml.dask.folds import Part
from anydml.runtime.call_cache import CallCache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.dask.blocks import Asked
    from anydml.runtime.graph import CompiledGraph

_compiled: CallCache[Any] = CallCache(16)
"""The models that this process has compiled, by token."""
_compiling = threading.Lock()
SUBJECT = "anydml.dask"


@dataclass(frozen=True)
class Ran(Layer):
    """The blocks of a model's results, all of them at a place together."""

    token: str
    """The token that tells the model from others."""
    payload: bytes = field(repr=False)
    """The model itself, in a task of its own: it goes to each worker once."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    grid: tuple[int, ...]
    keyed: tuple[tuple[int, ...], ...]
    """By input, the dimensions of the grid that key its blocks, -1 for one of one block."""
    asked: Asked

    def tasks(self, name: str, inputs: Sequence[str]) -> dict[Key, Any]:
        """One a block, and one for the model."""
        whole = f"{name}-model"
        made: dict[Key, Any] = {(whole,): DataNode((whole,), self.payload)}
        for at in places(tuple((1,) * count for count in self.grid)):
            refs = [
                TaskRef((source, *(at[k] if k >= 0 else 0 for k in keys)))
                for source, keys in zip(inputs, self.keyed, strict=True)
            ]
            block = Block(self.prefix, at)
            key = (name, *at)
            made[key] = Task(
                key, _run, TaskRef((whole,)), self.token, self.inputs, self.outputs, self.asked, block, *refs
            )
        return made


def _run(
    payload: bytes, token: str, inputs: Sequence[str], outputs: Sequence[str], asked: Asked, block: Block, *blocks: Any
) -> Any:
    with block:
        model = _find(token, payload, asked, blocks[0])
        found = model(dict(zip(inputs, blocks, strict=True)))
        results = tuple(found[name] for name in outputs)
        return results[0] if len(results) == 1 else results


def _find(token: str, payload: bytes, asked: Asked, block: Any) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """A model that is compiled: by this call where no other has done so in this process."""
    device = device_of(asked, block)
    key = f"{token} on {device.name}"
    with _compiling:
        if key not in _compiled:
            kind, content = pickle.loads(payload)  # noqa: S301 - as Dask itself sends tasks
            if kind == "onnx":
                import_alone("anydml.onnx.model")
                from anydml.onnx.model import load

                _compiled.keep(key, load(content, device=device).run)
            else:
                _compiled.keep(key, _by_name(device.compile_graph(content)))
        found: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _compiled[key]
    return found


def _by_name(graph: CompiledGraph) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    def run(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        found = graph(*(np.ascontiguousarray(inputs[name]) for name in graph.inputs))
        several = found if isinstance(found, (list, tuple)) else (found,)
        return dict(zip(graph.outputs, several, strict=True))

    return run


def lazies(layer: Ran, arrays: Sequence[Any], kinds: Sequence[tuple[Chunks, Any]]) -> Any:
    """The results, of these blocks and types: one, or a list of several."""
    grid = tuple((1,) * count for count in layer.grid)
    if len(kinds) == 1:
        ((chunks, dtype),) = kinds
        return lazy(layer, arrays, chunks, meta_like(arrays[0], len(chunks), dtype))
    whole = lazy(layer, arrays, grid, meta_like(arrays[0], len(grid), arrays[0].dtype))
    return [
        lazy(Part(layer.prefix, number, grid), [whole], chunks, meta_like(arrays[0], len(chunks), dtype))
        for number, (chunks, dtype) in enumerate(kinds)
    ]


def map_blocks(model: CompiledGraph, *arrays: Any) -> Any:
    """A compiled graph on every block: as many arrays as it has inputs, in blocks of the sizes that it was built for.

    The result is a lazy array, or a list where the graph has several outputs. Blocks of the arrays are taken at the
    same places; the graph is sent to each worker once, with its constants, and compiled there once.
    """
    if len(arrays) != len(model.inputs):
        rule = f"there must be an array for each input: {', '.join(model.inputs)}"
        raise DescriptionError(SUBJECT, Fault(field="arrays", rule=rule, value=len(arrays), found=str(len(arrays))))
    faults, grids = [], []
    for x, (name, desc) in zip(arrays, model.inputs.items(), strict=True):
        found = x.chunks if isinstance(x, da.Array) else ()
        if found != tuple((size,) * len(own) for size, own in zip(desc.sizes, found, strict=False)) or not found:
            rule = f"{name} must be a dask array in blocks of {desc.sizes}, for which the graph was built"
            way_out = f"pass x.rechunk({desc.sizes}), of an array whose sizes are multiples of those"
            faults.append(Fault(field=name, rule=rule, found=str(found), way_out=way_out))
        grids.append(tuple(map(len, found)))
    longest = max(grids, key=len)
    faults += [
        Fault(field=name, rule=f"{name} must have as many blocks as the others, {longest}", found=str(grid))
        for name, grid in zip(model.inputs, grids, strict=True)
        if not faults and grid != longest[: len(grid)]
    ]
    outputs = [tuple(desc.sizes) for desc in model.outputs.values()]
    if not faults and any(any(count > 1 for count in longest[len(sizes) :]) for sizes in outputs):
        rule = f"the blocks must lie along the {min(map(len, outputs))} dimensions that the outputs have"
        faults.append(Fault(field="arrays", rule=rule, found=str(longest)))
    if faults:
        raise DescriptionError(SUBJECT, faults)
    payload = pickle.dumps(("graph", model.desc))
    token = hashlib.sha256(repr(model.desc).encode() + payload).hexdigest()
    asked = (model.device.name, str(model.device.feature_level))
    rank = max(len(longest), 1) if not outputs else min(len(longest), *map(len, outputs))
    keyed = tuple(tuple(k if k < rank else -1 for k in range(len(grid))) for grid in grids)
    layer = Ran("map_blocks", token, payload, tuple(model.inputs), tuple(model.outputs), longest[:rank], keyed, asked)
    kinds = []
    for sizes, desc in zip(outputs, model.outputs.values(), strict=True):
        counts = (*longest[:rank], *(1,) * (len(sizes) - rank))
        kinds.append((tuple((size,) * count for size, count in zip(sizes, counts, strict=True)), desc.data_type.dtype))
    return lazies(layer, list(arrays), kinds)
