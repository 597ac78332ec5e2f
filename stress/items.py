"""Items by number: the same seed and number give the same work, whoever does it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from stress import arithmetic, doors, models, odd, plant

if TYPE_CHECKING:
    from collections.abc import Callable

    from stress.work import Work

_DOORS: dict[str, Callable[[random.Random], Work]] = {
    "small": doors.small,
    "broken": doors.spoilt,
    "function": doors.function,
    "backwards": doors.backwards,
    "compiled": doors.compiled,
    "bound": doors.bound,
    "objects": doors.objects,
    "model": doors.model,
    "graph": doors.graph,
    "arithmetic": arithmetic.arithmetic,
    "odd": odd.odd,
}
_ONNX = {"onnx": models.onnx_model, "session": models.session} if models.IS_THERE else {}
DOORS = {**_DOORS, **_ONNX}
PLAIN = tuple(name for name in DOORS if name != "odd")
"""Doors whose items take no more than they should, whatever is wrong with anydml."""
LEAN = ("small", "function", "compiled", "objects")
"""Doors that start no thread and write no file."""


def door_of(seed: int, number: int) -> str:
    """The door of an item, which is cheap to know."""
    return random.Random(f"door {seed} {number}").choice(tuple(DOORS))  # noqa: S311 - test data


def make(seed: int, number: int) -> Work:
    """The work of an item."""
    rng = random.Random(f"item {seed} {number}")  # noqa: S311 - test data
    return plant.plant(DOORS[door_of(seed, number)](rng), number)
