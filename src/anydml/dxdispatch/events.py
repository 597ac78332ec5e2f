"""Events while a model runs, as listeners are told of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from anydml.core.enums import DataType
    from anydml.dxdispatch.timing import Samples
    from anydml.runtime.device import Device


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Started:
    """The model runs on a device."""

    device: Device


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Initialised:
    """A dispatchable was compiled and initialised."""

    name: str
    milliseconds: float


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Commanded:
    """A command is about to run, or has run."""

    number: int
    text: str
    """The command in words: `dispatch 'add'`."""
    is_done: bool


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Progress:
    """A dispatch is still at it."""

    name: str
    iterations: int
    seconds: float


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Dispatched:
    """A dispatch command is done."""

    name: str
    samples: Samples


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Printed:
    """A resource is to be shown: its values as they are now, and their types where they are of several."""

    name: str
    values: np.ndarray[Any, Any] = field(repr=False)
    verbose: bool
    types: tuple[DataType, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Written:
    """A resource was written to a file, which is in its place: files are put there once all commands are done."""

    name: str
    path: Path
    text: str


Event: TypeAlias = Started | Initialised | Commanded | Progress | Dispatched | Printed | Written
