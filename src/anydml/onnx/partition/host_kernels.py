"""Kernels for nodes that run alone on the host, where ONNX Runtime takes longer or cannot: a call of its takes 12 us.

Each gives None for what is somebody else's to look at, faulty inputs among it. Of a million elements NonZero takes ONNX
Runtime two to four times as long, Compress twice and Unique, which has trees there, five times. NonMaxSuppression of 80
classes of 2,100 boxes takes 5.1 ms there; StringNormalizer needs a locale there, which containers lack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anydml.core.late_imports import import_alone
from anydml.onnx.protobuf import array_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.onnx.ir import Model, Node

    Array = np.ndarray[Any, Any]
    Made: TypeAlias = Array | dict[str, Array] | None
    """The only output, or outputs by name."""
    Kernel: TypeAlias = Callable[..., Made]


def find_kernel(model: Model) -> Callable[[Mapping[str, Any]], tuple[Array, ...] | None] | None:
    """A function that runs a model of one node, and constants of it; None where there is none."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    if len(nodes) != 1 or (make := _KERNELS.get(nodes[0].kind)) is None:
        return None
    (node,) = nodes
    if (kernel := make(node)) is None:
        return None
    constants = {tensor.name: array_of(tensor) for tensor in model.graph.initializer}
    for other in model.graph.node:
        if other is not node and (tensor := other.value("value")) is not None:
            constants[other.output[0]] = array_of(tensor)
    names, gives = list(node.input), [info.name for info in model.graph.output]

    def run(given: Mapping[str, Any]) -> tuple[Array, ...] | None:
        known = {**constants, **given} if constants else given
        inputs: list[Any] = []
        for name in names:
            one = known.get(name) if name else None
            if name and type(one) is not np.ndarray:
                return None
            inputs.append(one)
        found = kernel(*inputs)
        if found is None:
            return None
        return tuple([found[name] for name in gives]) if isinstance(found, dict) else (found,)

    return run


# Places and parts of data


_FEW = 2**9
"""Elements up to which NumPy finds places in less time than truths are made, and places divided."""


def _non_zero(_: Node) -> Kernel:
    def run(data: Array) -> Made:
        if not data.ndim or data.dtype == object:
            return None
        if data.size <= _FEW:
            return np.array(data.nonzero(), np.int64)
        (left,) = (data if data.dtype == bool else data != 0).reshape(-1).nonzero()
        if data.ndim == 1:
            return left.reshape(1, -1)
        found = np.empty((data.ndim, left.size), np.int64)
        for k in range(data.ndim - 1, 0, -1):
            above = left // data.shape[k]
            np.subtract(left, above * data.shape[k], out=found[k])
            left = above
        found[0] = left
        return found

    return run


def _compress(node: Node) -> Kernel:
    axis = node.value("axis")

    def run(data: Array, condition: Array) -> Made:
        if condition.ndim != 1 or condition.dtype != bool or not data.ndim:
            return None
        if axis is not None and not -data.ndim <= axis < data.ndim:
            return None
        if len(condition) > (data.size if axis is None else data.shape[axis]):
            return None
        return data.take(condition.nonzero()[0], axis)

    return run


def _unique(node: Node) -> Kernel | None:
    axis, is_sorted = node.value("axis"), node.value("sorted", 1)
    outputs = list(node.output) + [""] * (4 - len(node.output))
    if is_sorted not in (0, 1) or len(node.output) > 4:
        return None

    def run(data: Array) -> Made:
        if data.dtype.kind not in "fiub" or (axis is not None and (data.ndim != 1 or axis not in (-1, 0))):
            return None
        flat = data.reshape(-1)
        if data.dtype.kind == "f" and np.isnan(flat).any():
            return None
        if len(node.output) == 1 and is_sorted:
            ordered = np.sort(flat)
            return np.asarray(ordered[_is_first(ordered)])
        order = flat.argsort(kind="stable")
        ordered = flat[order]
        starts = _is_first(ordered).nonzero()[0]
        first = order[starts]  # of equal elements the first, as the order is stable
        ranks = None if is_sorted else first.argsort(kind="stable")
        made = {outputs[1]: first if ranks is None else first[ranks]}
        values = flat[made[outputs[1]]]
        if len(node.output) == 1:
            return np.asarray(values)
        made[outputs[0]] = values
        if outputs[2]:
            numbers = np.zeros(flat.size, np.int64)
            numbers[starts[1:]] = 1
            np.cumsum(numbers, out=numbers)
            if ranks is not None:
                places = np.empty_like(ranks)
                places[ranks] = np.arange(len(ranks))
                numbers = places[numbers]
            made[outputs[2]] = inverse = np.empty(flat.size, np.int64)
            inverse[order] = numbers
        if outputs[3]:
            counts = np.diff(starts, append=flat.size)
            made[outputs[3]] = counts if ranks is None else counts[ranks]
        return made

    return run


def _is_first(ordered: Array) -> Array:
    """Whether each of ordered elements is another than the one before it."""
    found = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=found[1:])
    return found


_LARGE_MATRIX = 32
"""Rows from which ONNX Runtime's determinants take less time."""


def _det(_: Node) -> Kernel:
    def run(data: Array) -> Made:
        if data.dtype.char not in "fd" or data.ndim < 2 or data.shape[-1] != data.shape[-2]:
            return None
        if data.shape[-1] >= _LARGE_MATRIX:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(np.linalg.det(data))

    return run


# StringNormalizer, by Unicode's upper and lower case, which is that of English locales


def _string_normalizer(node: Node) -> Kernel | None:
    texts = (node.value("case_change_action", b"NONE"), node.value("locale", b"en_US"))
    action, locale = (text.decode(errors="replace") for text in texts)
    is_exact, words = bool(node.value("is_case_sensitive", 0)), node.value("stopwords", ())
    if action not in _CASES or not locale.startswith(("en_", "C.", "POSIX")):
        return None
    change = _CASES[action]
    compare = _CASES["NONE" if is_exact else "UPPER" if action == "UPPER" else "LOWER"]
    removed = {compare(bytes(word).decode(errors="replace")) for word in words}

    def run(data: Array) -> Made:
        if data.ndim not in (1, 2) or (data.ndim == 2 and len(data) != 1):
            return None
        left = [change(word) for word in map(str, data.reshape(-1)) if compare(word) not in removed]
        return np.array(left or [""], object).reshape((1,) * (data.ndim - 1) + (-1,))

    return run


_CASES: dict[str, Callable[[str], str]] = {
    "NONE": str,
    # Letter by letter, as C's towlower: one whose other case is two letters stays as it is.
    "LOWER": lambda word: "".join(low if len(low := letter.lower()) == 1 else letter for letter in word),
    "UPPER": lambda word: "".join(up if len(up := letter.upper()) == 1 else letter for letter in word),
}


# NonMaxSuppression: networks of detection end with it


_MOST = 2**26
"""Scores, and places picked, at most."""


def _non_max_suppression(node: Node) -> Kernel | None:
    centred = node.value("center_point_box", 0)
    if centred not in (0, 1):
        return None

    def run(boxes: Array, scores: Array, *numbers: Array | None) -> Made:
        return _suppressed(boxes, scores, *numbers, *[None] * (3 - len(numbers)), is_centred=bool(centred))

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


_KERNELS: Mapping[str, Callable[[Node], Kernel | None]] = {
    "Compress": _compress,
    "Det": _det,
    "NonMaxSuppression": _non_max_suppression,
    "NonZero": _non_zero,
    "StringNormalizer": _string_normalizer,
    "Unique": _unique,
}
