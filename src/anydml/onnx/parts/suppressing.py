"""NonMaxSuppression on the host, by a kernel: networks of detection end with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.alone import import_alone
from anydml.onnx.parts.finding import only_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array = np.ndarray[Any, Any]

_MOST = 2**26
"""Scores, and places picked, at most."""


def suppressor(model: Any, decode: Callable[[Any], Array]) -> Callable[[Mapping[str, Any]], Array | None] | None:
    """A function that runs a model of this node and constants, which `decode` makes arrays of; None for others.

    It gives None for inputs that somebody else is to look at.
    """
    if (found := only_node(model, "NonMaxSuppression", decode)) is None:
        return None
    node, constants = found
    (centred,) = [one.i for one in node.attribute if one.name == "center_point_box"] or [0]
    if centred not in (0, 1):
        return None

    def run(given: Mapping[str, Any]) -> Array | None:
        known = {**constants, **given}
        inputs: list[Any] = [known.get(name) for name in node.input]
        if any(name and value is None for name, value in zip(node.input, inputs, strict=True)):
            return None
        return _suppressed(*inputs, *[None] * (5 - len(inputs)), is_centred=bool(centred))

    return run


def _suppressed(
    boxes: Array, scores: Array, most: Array | None, overlap: Array | None, least: Array | None, *, is_centred: bool
) -> Array | None:
    numbers = [one for one in (most, overlap, least) if one is not None]
    are_three = boxes.ndim == scores.ndim == 3 and boxes.shape == (scores.shape[0], scores.shape[2], 4)
    if (
        not are_three
        or boxes.dtype != np.float32
        or scores.dtype != np.float32
        or any(one.size != 1 for one in numbers)
    ):
        return None
    count = 0 if most is None else min(int(most.item()), boxes.shape[1])
    is_ours = scores.size < _MOST and scores.shape[1] * scores.shape[0] * max(count, 0) < _MOST
    if not (is_ours and np.isfinite(boxes).all() and np.isfinite(scores).all()):
        return None
    batch, classes, places = scores.shape
    if count <= 0 or not scores.size:
        return np.empty((0, 3), np.int64)
    import_alone("anydml.engines.cpu.move.nms")
    from anydml.engines.cpu.move.nms import suppress  # with what compiles kernels, which few models need on a GPU

    left = scores if least is None else np.where(scores > np.float32(least.item()), scores, np.float32(-np.inf))
    part = np.float32(0 if overlap is None else overlap.item())
    if not 0 <= part <= 1:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # boxes past FLOAT32 overlap none, as in ONNX Runtime
        sides = _sides(boxes, is_centred=is_centred)
    found = suppress(sides, left.reshape(-1, places), count, part)
    rows = np.repeat(np.arange(batch * classes), [len(row) for row in found])
    return np.stack([rows // classes, rows % classes, np.concatenate(found)], 1)


def _sides(boxes: Array, *, is_centred: bool) -> Array:
    """The lowest x and y, the highest, and the area of each box: those are given by two corners, or centre and size."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        half = b / 2
        low, high = a - half, a + half
    else:
        low, high = np.minimum(a, b), np.maximum(a, b)
    size = high - low
    area = size[..., 0] * size[..., 1]
    return np.stack([low[..., 0], low[..., 1], high[..., 0], high[..., 1], area], 1)
