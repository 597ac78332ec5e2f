"""Keys for random numbers whose node has no seed: chance's own, until somebody sets a seed for all of them."""

from __future__ import annotations

import os
import random

_draw = os.urandom


def draw_key() -> bytes:
    """A key of 8 bytes, another one at each call."""
    return _draw(8)


def set_seed(seed: int) -> None:
    """Let nodes without a seed, of models that are compiled from now on, draw the same numbers at each start."""
    global _draw
    _draw = random.Random(seed).randbytes  # noqa: S311 - numbers that can be had again are what it is for
