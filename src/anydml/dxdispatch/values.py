"""The first values of a resource, which fill memory that is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anydml.core.errors import Fault, ModelFileError
from anydml.core.files import open_plain

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.core.enums import DataType

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_CHUNK = 1 << 16


class Values(Protocol):
    """The first contents of a resource."""

    @property
    def size_in_bytes(self) -> int:
        """The bytes of them all."""

    def fill(self, target: Bytes) -> None:
        """Write them into memory of their size."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Values written out in the model; `types` where they are of several."""

    data: Bytes = field(repr=False)
    types: tuple[DataType, ...] = ()

    @property
    def size_in_bytes(self) -> int:
        """The bytes of them all."""
        return self.data.size

    def fill(self, target: Bytes) -> None:
        """Copy them."""
        target[:] = self.data


@dataclass(frozen=True, slots=True)
class Constant:
    """One value again and again."""

    value: np.generic
    count: int

    @property
    def size_in_bytes(self) -> int:
        """The bytes of them all."""
        return self.count * self.value.dtype.itemsize

    def fill(self, target: Bytes) -> None:
        """Repeat it."""
        target.view(self.value.dtype)[:] = self.value


@dataclass(frozen=True, slots=True)
class Sequence:
    """Values a step apart."""

    start: np.generic
    delta: np.generic
    count: int

    @property
    def size_in_bytes(self) -> int:
        """The bytes of them all."""
        return self.count * self.start.dtype.itemsize

    def fill(self, target: Bytes) -> None:
        """Add the step again and again in the values' own type, as DxDispatch does: each sum is rounded, or wraps."""
        values = target.view(self.start.dtype)
        steps = np.full(min(self.count, _CHUNK), self.delta)
        steps[0] = self.start
        with np.errstate(all="ignore"):
            for at in range(0, self.count, _CHUNK):
                part = values[at : at + _CHUNK]
                np.add.accumulate(steps[: part.size], out=part)
                steps[0] = part[-1] + self.delta


@dataclass(frozen=True, slots=True)
class FromFile:
    """The bytes of a file from some place on."""

    path: Path
    start: int
    size_in_bytes: int
    swapped: int = 0
    """The bytes of an element that are in the other order; 0 where they need no turning."""

    def fill(self, target: Bytes) -> None:
        """Read them."""
        with open_plain(self.path, self.path.name) as file:
            file.seek(self.start)
            if file.readinto(target.data) != self.size_in_bytes:
                fault = Fault(field="", rule="the file became shorter while it was read")
                raise ModelFileError(self.path.name, fault)
        if self.swapped:
            target.view(f"u{self.swapped}").byteswap(inplace=True)
