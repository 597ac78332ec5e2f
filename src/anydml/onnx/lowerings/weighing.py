"""The parts that elements have in those between them, as matrices: nearest, linear and cubic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """The wishes of a Resize."""

    mode: str
    nearest: str
    is_wide: bool = False
    """Whether more elements go into one where there are fewer of them: antialiasing."""
    is_inside: bool = False
    """Whether what lies past the ends has no part; else the last element goes on."""
    coefficient: float = -0.75
    """Of the cubic."""


def weights(asked: Filter, size: int, positions: Array, scale: float) -> Array:
    """The part of each element of a dimension in those at some positions: {positions, size}."""
    if asked.mode == "nearest":
        shift = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(asked.nearest, 0.0)
        is_up = asked.nearest in ("ceil", "round_prefer_floor")
        whole = (np.ceil if is_up else np.floor)(positions + shift)
        found = np.zeros((len(positions), size))
        found[np.arange(len(positions)), np.clip(whole, 0, size - 1).astype(int)] = 1
        return found
    stretch = max(1 / scale, 1.0) if asked.is_wide else 1.0
    reach = int(np.ceil((2 if asked.mode == "cubic" else 1) * stretch)) + 1
    found = np.zeros((len(positions), size))
    rows = np.arange(len(positions))
    low = np.floor(positions).astype(int)
    for k in range(-reach, reach + 1):
        places = low + k
        away = np.abs(places - positions) / stretch
        part = _cubic(away, asked.coefficient) if asked.mode == "cubic" else np.clip(1 - away, 0, None)
        if asked.is_inside:
            part = np.where((places >= 0) & (places < size), part, 0)
        np.add.at(found, (rows, np.clip(places, 0, size - 1)), part)
    return np.asarray(found / found.sum(1, keepdims=True))


def _cubic(away: Array, a: float) -> Array:
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = a * (((away - 5) * away + 8) * away - 4)
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))
