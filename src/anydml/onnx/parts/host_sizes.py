"""Sizes of what nodes on the host will give, before somebody else allocates it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# Node types whose result may be of any size, whatever they read


Array = np.ndarray[Any, Any]


def _product(sizes: Any) -> int:
    return math.prod(max(int(size), 0) for size in np.asarray(sizes).reshape(-1))


def _expanded(arrays: Sequence[Array]) -> int:
    to = [int(size) for size in arrays[1].reshape(-1)]
    shape = (1,) * (len(to) - arrays[0].ndim) + arrays[0].shape
    return _product([max(a, b) for a, b in zip(shape, (1,) * (len(shape) - len(to)) + tuple(to), strict=True)])


def _padded(arrays: Sequence[Array]) -> int:
    count, axes = len(arrays[1]) // 2, list(range(arrays[0].ndim))
    if len(arrays) > 3:
        axes = [int(axis) % arrays[0].ndim for axis in arrays[3].reshape(-1)]
    sizes = list(arrays[0].shape)
    for i, axis in zip(range(count), axes, strict=False):
        sizes[axis] += int(arrays[1][i]) + int(arrays[1][count + i])
    return _product(sizes)


def _resized(arrays: Sequence[Array]) -> int:
    *_, last = arrays
    scaled = _product(np.ceil(np.asarray(last, np.float64) * arrays[0].shape)) if len(last) == arrays[0].ndim else 0
    return _product(last) if last.dtype.kind == "i" else scaled


_COUNTS: dict[str, Callable[[Sequence[Array]], int]] = {
    "ConstantOfShape": lambda arrays: _product(arrays[0]),
    "Expand": _expanded,
    "MelWeightMatrix": lambda arrays: int(arrays[0].item()) * (int(arrays[1].item()) // 2 + 1),
    "OneHot": lambda arrays: arrays[0].size * int(arrays[1].item()),
    "Pad": _padded,
    "Range": lambda arrays: math.ceil((arrays[1].item() - arrays[0].item()) / arrays[2].item()),
    "Resize": _resized,
    "Tile": lambda arrays: _product(np.asarray(arrays[0].shape, object) * [int(n) for n in arrays[1]]),
    "Upsample": _resized,
}
"""By node type, the elements that it makes of its inputs."""


def may_grow(node: Any) -> bool:
    """Whether a node is looked at before it runs, for which it has a part of its own."""
    return node.op_type in _COUNTS


def grown_size(node: Any, inputs: Sequence[Any]) -> int:
    """The bytes that a node will make, at least; 0 where its inputs are at fault, which whoever runs it says."""
    arrays = [each for each in inputs if isinstance(each, np.ndarray)]
    try:
        count = _COUNTS[node.op_type](arrays)
    except Exception:  # noqa: BLE001 - inputs of any kind, of which nothing is known
        return 0
    return max(count, 0) * arrays[0].itemsize


# Sizes that shapes alone say


Shape: TypeAlias = tuple[int, ...]
_TRUTHS = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor")
_NUMBERS = (
    "Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu",
    "Pow", "Sub", "Sum", "Where",
)  # fmt: skip
_ALIKE = (
    "Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid",
    "Sign", "Sin", "Softmax", "Sqrt", "Tanh",
)  # fmt: skip


def _matmul(_node: Any, a: Shape, b: Shape) -> Shape:
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns)


def _gathered(node: Any, data: Shape, indices: Shape) -> Shape:
    axis = next((int(one.i) for one in node.attribute if one.name == "axis"), 0) % len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


_RULES: dict[str, Callable[..., Shape]] = {
    **dict.fromkeys((*_TRUTHS, *_NUMBERS), lambda _node, *shapes: np.broadcast_shapes(*shapes)),
    **dict.fromkeys(_ALIKE, lambda _node, shape: shape),
    "Gather": _gathered,
    "MatMul": _matmul,
}
"""By node type, the shape of the first output."""


def foreseen(nodes: Sequence[Any], inputs: Mapping[str, tuple[Shape, int]]) -> tuple[str, int]:
    """The name and the bytes, at least, of the largest result; `inputs` have shapes and the bytes of an element."""
    known, largest = dict(inputs), ("", 0)
    for node in nodes:
        names = [name for name in node.input if name]
        rule = _RULES.get(node.op_type) if not node.domain else None
        if rule is None or not all(name in known for name in names):
            continue
        try:
            shape = rule(node, *(known[name][0] for name in names))
        except (ValueError, IndexError, TypeError, ZeroDivisionError):  # which whoever runs it says
            continue
        width = 1 if node.op_type in _TRUTHS else known[names[-1]][1]
        known[node.output[0]] = shape, width
        largest = max(largest, (node.output[0], math.prod(shape) * width), key=lambda one: one[1])
    return largest
