"""Tensor and NamedTensors: arrays as GenAI hands them over."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import show
from anydml.onnxruntime.ort_errors import refuse, refuse_type
from anydml.onnxruntime.ort_value import on_host
from anydml.onnxruntime.type_names import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Tensor:
    """An array's copy: `Tensor(np.zeros((2, 3), np.float32))`."""

    def __init__(self, array: Any) -> None:
        if isinstance(array, Tensor):
            array = array.held
        if not isinstance(array, np.ndarray):
            raise refuse_type("Tensor", "array", "a NumPy array", array, "np.array(x) is one")
        if array.dtype.kind not in "biuf":
            raise refuse("Tensor", "array", "a tensor must be of numbers", array.dtype.name)
        self.held: np.ndarray[Any, Any] = np.array(array, array.dtype.newbyteorder("="), order="C")
        """Its elements."""

    def as_numpy(self) -> np.ndarray[Any, Any]:
        """Its elements as an array of one's own."""
        return self.held.copy()

    def shape(self) -> list[int]:
        """Its sizes."""
        return list(self.held.shape)

    def type(self) -> int:
        """ONNX's number of its type."""
        return number_of(self.held.dtype)

    def data(self) -> int:
        """The address of its first element."""
        return int(self.held.ctypes.data)

    def __repr__(self) -> str:
        return f"Tensor({self.held.dtype.name}, shape={self.shape()})"


class NamedTensors:
    """Tensors by name."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        self._check(name)
        return self._held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise refuse_type("NamedTensors", "name", "a string", name)
        self._held[name] = value if isinstance(value, Tensor) else Tensor(value)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        del self._held[name]

    def _check(self, name: str) -> None:
        if read_name("NamedTensors", "name", name) not in self._held:
            way_out = f"there are {', '.join(map(show, self._held))}" if self._held else "there is none"
            raise refuse("NamedTensors", str(name), f"there is no tensor {show(name)}", way_out=way_out)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._held

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """The names."""
        return list(self._held)

    def __repr__(self) -> str:
        return f"NamedTensors({self._held})"


# Arguments of methods


def as_array(value: Any, subject: str = "Tensor", field: str = "array") -> np.ndarray[Any, Any]:
    """A tensor, an array of any library or a list as NumPy's array."""
    if isinstance(value, Tensor):
        return value.held
    try:
        return np.asarray(on_host(value))
    except ValueError:  # lists of several lengths
        raise refuse_type(subject, field, "an array of numbers", value) from None


def read_name(subject: str, field: str, value: object) -> str:
    """A name."""
    if not isinstance(value, str):
        raise refuse_type(subject, field, "a string", value)
    return value


def read_whole(subject: str, field: str, value: Any) -> int:
    """A whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise refuse_type(subject, field, "a whole number", value) from None


def read_path(subject: str, field: str, value: str | os.PathLike[str]) -> Path:
    """A path that a file system may have."""
    path = Path(value)
    try:
        is_possible = "\0" not in str(path) and bool(os.fsencode(path))
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise refuse(subject, field, f"{field} must be a path of characters that files have", show(str(path)))
    return path
