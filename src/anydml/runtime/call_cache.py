"""The call cache: what earlier calls found, for calls alike, which then take no closer look at their arrays.

- Key: all that a call is told by at a glance: types, sizes and strides of plain arrays (`arrays/fingerprints.py`), and
  whatever else it was given that matters; of what is bound already, addresses. Never an array: none is kept alive.
- Owner: whoever takes calls, be it the functions on arrays, a compiled graph or a model. It may lie in front of a plan
  cache (`plan_cache.py`), which then says what to `forget`.
- Lifetime: that of its owner.
- Limit: a number of calls. A full cache is emptied: each call then takes one closer look, whereas to find out which was
  used last would cost every call.
- Nothing else makes an entry invalid: what may change is part of the key, as the number of threads is.
- Threads find without a lock, by one look into a dict. At a fork there is nothing half done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from anydml.arrays import place_of
from anydml.arrays.fingerprints import as_plain, is_packed, plain_key
from anydml.arrays.nibbles import is_unpacked
from anydml.core.memory import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

Found = TypeVar("Found")


class CallCache(dict[Any, Found]):
    """What calls found, by their keys."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: Any, found: Found) -> None:
        """Let the next call of this key find it."""
        if len(self) >= self._most:
            self.clear()
        self[key] = found

    def forget(self, found: Found) -> None:
        """Let go of it."""
        for key, kept in self.copy().items():
            if kept is found:
                self.pop(key, None)


_MOST = 1024
_MOST_BYTES = 512
"""Of an array whose values count, to be compared at each call."""


class NamedCalls(Generic[Found]):
    """The call cache of whoever takes packed arrays by name: NumPy's on the host, and those of a device.

    The values of some arrays may count as well: those that sizes depend on.
    """

    def __init__(self, memory: str) -> None:
        self._on_host, self._memory = memory == HOST, memory
        self._by: tuple[tuple[str, ...], CallCache[Found]] = (), CallCache(_MOST)
        """The names of arrays whose values count, and what was found for such: read and replaced together."""

    def __len__(self) -> int:
        return len(self._by[1])

    def find(self, inputs: dict[str, Any]) -> Found | None:
        """What an earlier call on arrays like these found; None for a closer look, whatever they are."""
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

    def keep(self, inputs: dict[str, Any], found: Found, valued: Sequence[str] = ()) -> None:
        """Let the next call on arrays like these find it; on those of `valued` of the same values as well."""
        if not all(self._is_packed(x) for x in inputs.values()):
            return
        if valued and not (self._on_host and all(n in inputs and inputs[n].nbytes <= _MOST_BYTES for n in valued)):
            return
        before, known = self._by
        if before != tuple(valued):
            self._by = tuple(valued), (known := CallCache(_MOST))
        key = [(name, *plain_key(x)) for name, x in inputs.items()]
        known.keep((*key, *_values(inputs, valued)), found)

    def forget(self, found: Found) -> None:
        """Let go of it."""
        self._by[1].forget(found)

    def _is_packed(self, array: Any) -> bool:
        if type(array) is np.ndarray:
            # Numbers of 4 bits are copied at each call: what the rest of their bytes holds is not said.
            return self._on_host and bool(array.flags.c_contiguous) and not is_unpacked(array)
        if self._on_host or not _is_tensor(array):
            return False
        return place_of(array) == self._memory and is_packed(array)


def _is_tensor(array: Any) -> bool:
    """Whether it is a plain array in the memory of a device."""
    return type(array) is not np.ndarray and as_plain(array) is array


def _values(inputs: dict[str, Any], valued: Sequence[str]) -> list[bytes]:
    return [inputs[name].tobytes() for name in valued]
