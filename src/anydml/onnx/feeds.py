"""Arrays for a model's inputs: from files, or made up from a seed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import Fault, ModelFileError, UnsupportedError, printable, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anydml.onnx.graphs import TensorInfo

Array = np.ndarray[Any, Any]
_REACH = 100
"""Made-up whole numbers lie this far from 0 at most."""


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
        reason = error.strerror if isinstance(error, OSError) and error.strerror else show(error)
        rule = f"the file must be a NumPy array, .npy or .npz ({reason})"
        raise ModelFileError(subject, Fault(field="", rule=rule)) from error


def _plain(array: Any, subject: str) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype.hasobject or array.dtype.kind not in "fiub":
        found = show(str(getattr(array, "dtype", type(array))))
        raise ModelFileError(subject, Fault(field="", rule="the array must be of numbers", found=found))
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def make_up(
    inputs: Mapping[str, TensorInfo], shapes: Mapping[str, tuple[int, ...]], indices: Iterable[str], seed: int
) -> dict[str, Array]:
    """An array for each input, the same for the same seed: floats from -1 to 1, whole numbers from -100 to 100.

    Inputs among `indices` are 0 or 1, which most tensors have an element for.
    """
    small = set(indices)
    made = {}
    for name, info in inputs.items():
        # Each input has numbers of its own, whatever others there are.
        chance = np.random.default_rng([seed, *name.encode()])
        shape, dtype = shapes[name], info.element.dtype
        if info.element.is_bool:
            made[name] = chance.integers(0, 2, shape).astype(np.bool_)
        elif info.data_type.is_float:
            made[name] = chance.uniform(-1, 1, shape).astype(dtype)
        else:
            low = 0 if name in small or not info.data_type.is_signed else -_REACH
            made[name] = chance.integers(low, 2 if name in small else _REACH + 1, shape).astype(dtype)
    return made


def refuse_made_up(subject: str, names: Iterable[str]) -> UnsupportedError:
    """That numbers out of the air are no shapes."""
    faults = [
        Fault(field=name, rule=f"input '{printable(name)}' must be given: shapes hang on its values", value=name)
        for name in sorted(names)
    ]
    return UnsupportedError(subject, faults)
