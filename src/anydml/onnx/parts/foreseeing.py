"""The sizes that nodes on the host will give, as far as shapes alone say it: before somebody else allocates them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


def _product(_node: Any, a: Shape, b: Shape) -> Shape:
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns)


def _gathered(node: Any, data: Shape, indices: Shape) -> Shape:
    axis = next((int(one.i) for one in node.attribute if one.name == "axis"), 0) % len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


_RULES: dict[str, Callable[..., Shape]] = {
    **dict.fromkeys((*_TRUTHS, *_NUMBERS), lambda _node, *shapes: np.broadcast_shapes(*shapes)),
    **dict.fromkeys(_ALIKE, lambda _node, shape: shape),
    "Gather": _gathered,
    "MatMul": _product,
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
