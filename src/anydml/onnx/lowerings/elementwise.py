"""Nodes that are one element-wise operator each, and how tensors of several shapes are made to go together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.onnx.tracer import MOST_DIMENSIONS
from anydml.onnx.types import BOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.types import ElementType
    from anydml.onnx.values import Value

_LIKE_NAMED = (
    "Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish LeakyRelu Log"
    " Relu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu"
)
_OTHERWISE_NAMED = {
    "And": "logical_and",
    "BitwiseAnd": "bit_and",
    "BitwiseNot": "bit_not",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
    "Div": "divide",
    "Equal": "logical_equals",
    "Greater": "logical_greater_than",
    "GreaterOrEqual": "logical_greater_than_or_equal",
    "IsNaN": "is_nan",
    "Less": "logical_less_than",
    "LessOrEqual": "logical_less_than_or_equal",
    "Mul": "multiply",
    "Neg": "negate",
    "Not": "logical_not",
    "Or": "logical_or",
    "PRelu": "parameterized_relu",
    "Reciprocal": "recip",
    "Selu": "scaled_elu",
    "Sub": "subtract",
    "Where": "if_",
    "Xor": "logical_xor",
}
FUNCTIONS: Mapping[str, str] = {
    **{kind: re.sub("(?<=[a-z])(?=[A-Z])", "_", kind).lower() for kind in _LIKE_NAMED.split()},
    **_OTHERWISE_NAMED,
}
"""By node type, the function that it is."""
_OPTIONS = {"lambd": "threshold", "Swish.alpha": "sigmoid_input_scale"}
"""By an attribute, the function's name of it where that is another."""
_NUMBERS = {"HardSwish": {"alpha": 1 / 6, "beta": 0.5}, "Softplus": {"steepness": 1.0}}
"""What the function takes and the node type has fixed."""
_FIRST_WITH_NUMPY_BROADCASTING = 7


def one_to_one(node: Node) -> list[Value]:
    """A node that is one operator: its FLOAT attributes are the operator's."""
    options = {
        _OPTIONS.get(name, _OPTIONS.get(f"{node.kind}.{name}", name)): node.real(name)
        for name, kind in node.rules.attributes.items()
        if kind == "FLOAT"
    }
    options.update(_NUMBERS.get(node.kind, {}))
    is_test = node.rules.outputs[0].allowed == (BOOL.name,)
    element = BOOL if is_test else node.inputs[-1].element
    return [compute(node, getattr(dml, FUNCTIONS[node.kind]), *operands(node), element=element, **options)]


def compute(
    node: Node, function: Callable[..., Any], *values: Value, element: ElementType | None = None, **options: Any
) -> Value:
    """What an element-wise function makes of tensors that NumPy would broadcast: of the first one's type by default."""
    shape = broadcast(node, values)
    kind = values[0].element if element is None else element
    if len(shape) > MOST_DIMENSIONS and all(value.shape == shape or value.count == 1 for value in values):
        flat = [node.tracer.reshape(value, (value.count,)) for value in values]
        return node.tracer.apply(function, flat, (max(v.count for v in flat),), element=kind, **options).reshaped(shape)
    return node.tracer.apply(function, values, shape, element=kind, **options)


def broadcast(node: Node, values: Sequence[Value]) -> tuple[int, ...]:
    """The shape of tensors that NumPy would broadcast."""
    shapes = [value.shape for value in values]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        found = " and ".join(map(str, shapes))
        node.refuse("inputs", "the inputs must have shapes that can be broadcast to one another", found=found)


def operands(node: Node) -> list[Value]:
    """The inputs of a node, shaped for NumPy's broadcasting, which ONNX has from opset 7 on."""
    values = node.inputs
    if node.version >= _FIRST_WITH_NUMPY_BROADCASTING or len(values) != 2:
        return values
    first, second = values
    if "broadcast" in node.rules.attributes and not node.integer("broadcast") and first.shape != second.shape:
        rule = f"B must have the shape of A, {first.shape}, without broadcast=1"
        node.refuse("B", rule, value=second.shape, found=str(second.shape))
    if second.count == 1 or first.shape == second.shape:
        shape = second.shape if len(second.shape) <= len(first.shape) else ()
        return [first, node.tracer.reshape(second, shape)]
    rank, length = len(first.shape), len(second.shape)
    axis = node.axis(node.integer("axis"), rank) if node.has("axis") else rank - length
    if first.shape[max(axis, 0) : axis + length] != second.shape:
        rule = f"B must have the sizes of a part of A, {first.shape}, from axis {axis} on"
        node.refuse("B", rule, value=second.shape, found=str(second.shape))
    return [first, node.tracer.reshape(second, (*second.shape, *(1,) * (rank - axis - length)))]
