"""Arrays for a model's inputs: from files, or made up from a seed."""

from __future__ import annotations

import math
import re
import shlex
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import (
    BindingError,
    DynamicSizesError,
    Fault,
    ModelFileError,
    UnsupportedError,
    printable,
    show,
)
from anydml.core.files import word_reason
from anydml.core.limits import default_max_memory
from anydml.core.memory import word_bytes
from anydml.onnx.element_types import ForeignType
from anydml.onnx.lower.trace import trace_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.onnx.checks import TensorInfo
    from anydml.onnx.ir import Node
    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.read import Source
    from anydml.runtime.device import Device

Array = np.ndarray[Any, Any]
_REACH = 100
"""Made-up whole numbers lie this far from 0 at most."""
_MOVING = re.compile(
    "Cast(Like)?|Concat|Expand|Flatten|Gather|Identity|Reshape|Slice|Split|(Uns|S)queeze|Tile|Transpose"
)
_PIECE = 2**20
"""Elements that are made up at a time, being of 64 bits at first."""


def read_arrays(path: str | Path) -> dict[str, Array]:
    """The arrays of an .npz file by their names, or the one of an .npy file, which has none."""
    subject = printable(str(path))
    try:
        with Path(path).open("rb") as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return {"": _plain(np.load(file, allow_pickle=False), subject)}
            file.seek(0)
            with np.load(file, allow_pickle=False) as several:
                return {name: _plain(several[name], subject) for name in several.files}
    except ModelFileError:
        raise
    except Exception as error:
        rule = f"the file must be a NumPy array, .npy or .npz ({show(error)})"
        if isinstance(error, OSError) and error.strerror:
            rule = f"the file cannot be read ({word_reason(error)})"
        raise ModelFileError(subject, Fault(field="", rule=rule)) from error


def _plain(array: Any, subject: str) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype.hasobject or array.dtype.kind not in "fiub":
        found = show(str(getattr(array, "dtype", type(array))))
        raise ModelFileError(subject, Fault(field="", rule="the array must be of numbers", found=found))
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def make_up(
    inputs: Mapping[str, TensorInfo],
    shapes: Mapping[str, tuple[int, ...]],
    indices: Mapping[str, int],
    seed: int,
    max_memory: int | None = None,
) -> dict[str, Array]:
    """An array for each input, the same for the same seed: floats from -1 to 1, whole numbers from -100 to 100.

    Inputs among `indices` are 0 or 1, or 0 alone where they index a single element.
    """
    left = default_max_memory() if max_memory is None else max_memory
    most = "half of the memory that is free" if max_memory is None else word_bytes(max_memory)
    made = {}
    for name, info in inputs.items():
        if isinstance(info.element, ForeignType):
            rule = f"input '{printable(name)}' must be given: there are no random values of {info.element.name}"
            raise UnsupportedError(
                "inputs", Fault(field=name, rule=rule, value=name, way_out=_way_to_give(name), is_slip=True)
            )
        # Each input has numbers of its own, whatever others there are.
        chance = np.random.default_rng([seed, *name.encode()])
        shape, dtype = shapes[name], info.element.dtype
        left -= math.prod(shape) * dtype.itemsize
        try:
            if left < 0:
                raise MemoryError(f"more than {most}")
            made[name] = np.empty(shape, dtype)
        except (MemoryError, ValueError) as error:
            why = printable(str(error))
            rule = f"input '{printable(name)}' of shape {shape} could not be filled with random values ({why})"
            raise BindingError("inputs", Fault(field=name, rule=rule, value=shape)) from error
        low, high = (0, indices.get(name, 2)) if info.element.is_bool or name in indices else (-_REACH, _REACH + 1)
        if info.element.is_half:
            low, high = max(low, info.element.limits[0]), min(high, info.element.limits[1] + 1)
        low = low if info.data_type.is_signed else 0
        if not info.data_type.is_float and name.endswith("mask"):  # all that there is: what it hides nobody can guess
            made[name][...] = 1
            continue
        flat = made[name].reshape(-1)
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE]
            is_float = info.data_type.is_float
            piece[...] = chance.uniform(-1, 1, piece.size) if is_float else chance.integers(low, high, piece.size)
    return made


def index_limits(
    inputs: Iterable[str], source: Source, shapes: Mapping[str, tuple[int, ...]], device: Device, kept: Kept
) -> dict[str, int]:
    """Those of a model's inputs that are indices, bounds, axes or sizes, and numbers that they are to lie below."""
    origins = _origins(source.model.graph.node)
    names = _index_names(source.model.graph.node)
    found = dict.fromkeys(set().union(*(origins.get(name, {name}) for name in names)) & set(inputs), 2)
    if not found:
        return found
    for record in trace_all(source, shapes, {}, device, kept=kept).records:
        indexed = [desc for desc in record.operators if {"InputTensor", "IndicesTensor"} <= desc.tensors().keys()]
        size = min(map(_least_size, indexed), default=2)
        taken = set().union(*(origins.get(name, {name}) for name in record.node.input[1:]))
        found |= {name: min(found[name], size) for name in found.keys() & taken}
    return found


def _least_size(desc: Any) -> int:
    """The size of the smallest dimension that an operator's indices are of."""
    sizes: tuple[int, ...] = desc.input_tensor.sizes
    axis: int | None = getattr(desc, "axis", None)
    if axis is not None:
        return max(sizes[axis], 1)
    first = len(sizes) - getattr(desc, "input_dimension_count", len(sizes)) + getattr(desc, "batch_dimension_count", 0)
    last = first + int(desc.indices_tensor.sizes[-1])
    return max(min(sizes[int(first) : int(last)], default=1), 1)


def _index_names(nodes: Iterable[Node]) -> set[str]:
    """Inputs of nodes that are indices, bounds, axes or sizes, and not data."""
    found: set[str] = set()
    for node in nodes:
        if node.op_type not in ("CastLike", "Concat"):
            found.update(node.input[0 if node.op_type in ("ConstantOfShape", "Range") else 1 :])
    return found


def _origins(nodes: Iterable[Node]) -> dict[str, set[str]]:
    """The tensors that each result of a node that only moves or casts has its numbers from."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if _MOVING.fullmatch(node.op_type):
            moved = node.input if node.op_type == "Concat" else node.input[:1]
            found |= dict.fromkeys(node.output, set().union(*(found.get(name, {name}) for name in moved)))
    return found


def refuse_made_up(subject: str, names: Iterable[str]) -> DynamicSizesError:
    """That numbers out of the air are no shapes."""
    faults = [
        Fault(
            field=name,
            rule=f"input '{printable(name)}' must be given: shapes depend on its values",
            value=name,
            way_out=_way_to_give(name),
        )
        for name in sorted(names)
    ]
    return DynamicSizesError(subject, faults)


def _way_to_give(*names: str) -> str:
    options = " ".join(f"--input {shlex.quote(f'{printable(name)}=…')}" for name in names)
    verb, arrays = ("takes", "an array by its name") if len(names) == 1 else ("each takes", "arrays by their names")
    return f"{options} {verb} a number, a list such as [2,3] or a file; in Python {arrays}"


def word_needed(names: Sequence[str]) -> str:
    """How to give the values that shapes depend on."""
    several = ", ".join(f"'{printable(name)}'" for name in names)
    return f"shapes depend on the values of {several}: {_way_to_give(*names)}"
