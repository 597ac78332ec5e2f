"""Boxes picked by their scores, as networks of detection end: a kernel for each row of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.call import make_dispatch
from anydml.engines.cpu.kernels.suppress import make_suppress
from anydml.engines.cpu.tiles import tile_for
from anydml.memory import numpy_address

Array = np.ndarray[Any, Any]


def suppress(sides: Array, scores: Array, most: int, overlap: np.float32) -> list[Array]:
    """The places of each row of scores that are picked, in their order.

    `sides` are, for each set of boxes, the lowest x and y, the highest x and y and the areas of all places; the rows of
    `scores` are as many for each set. A place whose score is -inf is never picked.
    """
    sets, _, count = sides.shape
    rows = len(scores)
    most = min(most, count)
    lanes = tile_for("f32", 1).lanes
    places = (count // lanes + 1) * lanes  # one more at least, whose box overlaps none
    boxes = np.empty((sets, 5, places), np.float32)
    boxes[:, :2], boxes[:, 2:4], boxes[:, 4] = np.inf, -np.inf, 0
    boxes[:, :, :count] = sides
    left = np.full((rows, places), -np.inf, np.float32)
    left[:, :count] = scores
    picked, counts = np.empty((rows, most), np.int64), np.empty(rows, np.int64)
    kernel = get_kernel(f"suppress {lanes}", lambda: make_suppress(lanes))
    words = (*map(numpy_address, (boxes, left, picked, counts)), places, count, most, rows // sets)
    make_dispatch(kernel, (*words, int(np.float32(overlap).view(np.int32))), rows, most * left.nbytes)()
    return [row[:n] for row, n in zip(picked, counts.tolist(), strict=True)]
