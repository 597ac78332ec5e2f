"""Programs and parts found again at once: by the names, types and layouts of arrays that need no closer look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from anydml.arrays.fingerprints import as_plain, plain_key
from anydml.arrays.nibbles import is_unpacked
from anydml.core.memory import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

Found = TypeVar("Found")
"""A program, or the parts of a model."""
_MOST = 1024
_MOST_BYTES = 512
"""Of an input whose values a program depends on, to be compared at each run."""


class Recall(Generic[Found]):
    """The programs that packed arrays were run by: NumPy's on the host, PyTorch's in the memory of a GPU."""

    def __init__(self, memory: str) -> None:
        self._on_host, self._memory = memory == HOST, memory
        self._by: tuple[tuple[str, ...], dict[Any, Found]] = (), {}
        """The inputs whose values programs depend on, and the programs: read and replaced together."""

    def __len__(self) -> int:
        return len(self._by[1])

    def find(self, inputs: dict[str, Any]) -> Found | None:
        """The program of an earlier run on arrays like these; None for a closer look, whatever they are."""
        valued, known = self._by
        if not known:  # as of a model in parts
            return None
        try:
            if self._on_host:  # in one expression: it is half of what a small model takes
                key = [(name, x.dtype, x.shape, x.strides) for name, x in inputs.items() if type(x) is np.ndarray]
            else:
                key = [(name, *plain_key(x)) for name, x in inputs.items() if _is_tensor(x)]
            if len(key) != len(inputs):
                return None
            return known.get((*key, *_values(inputs, valued)) if valued else tuple(key))
        except Exception:  # noqa: BLE001 - names that no key has, hostile ones, are told by the closer look
            return None

    def keep(self, inputs: dict[str, Any], program: Found, valued: Sequence[str] = ()) -> None:
        """Let the next run on arrays like these find the program; those of `valued` of the same values as well."""
        if not all(self._is_packed(x) for x in inputs.values()):
            return
        if valued and not (self._on_host and all(n in inputs and inputs[n].nbytes <= _MOST_BYTES for n in valued)):
            return
        before, known = self._by
        if before != tuple(valued) or len(known) >= _MOST:
            known = {}
        key = [(name, *plain_key(x)) for name, x in inputs.items()]
        self._by = tuple(valued), {**known, (*key, *_values(inputs, valued)): program}

    def forget(self, program: Found) -> None:
        """Let go of a program."""
        valued, known = self._by
        self._by = valued, {key: kept for key, kept in known.items() if kept is not program}

    def _is_packed(self, array: Any) -> bool:
        if type(array) is np.ndarray:
            # Numbers of 4 bits are copied at each run: what the rest of their bytes holds is not said.
            return self._on_host and bool(array.flags.c_contiguous) and not is_unpacked(array)
        if self._on_host or not _is_tensor(array):
            return False
        return f"cuda:{array.get_device()}" == self._memory and bool(array.is_contiguous())


def _is_tensor(array: Any) -> bool:
    """Whether it is a plain tensor of PyTorch's in the memory of a GPU."""
    return type(array) is not np.ndarray and as_plain(array) is array


def _values(inputs: dict[str, Any], valued: Sequence[str]) -> list[bytes]:
    return [inputs[name].tobytes() for name in valued]
