"""Nodes that are one element-wise operator each, and how tensors of several shapes are made to go together."""

from __future__ import annotations

import functools
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

from anydml.api.derived import function_of
from anydml.api.signatures import parameters_of
from anydml.arrays.tensor import MAX_DIMENSIONS
from anydml.core.operator_type import function_name
from anydml.onnx.element_types import BOOL
from anydml.onnx.library import node_rules
from anydml.operators import OPERATORS
from anydml.operators.elementwise import ElementWise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.values import Value

_FIRST_WITH_NUMPY_BROADCASTING = 7


def operator_of(kind: str) -> type[ElementWise] | None:
    """The operator that a node type is: one that declares it, or else one whose function has its name."""
    several = _operators(len(OPERATORS), next(reversed(OPERATORS.values()))).get(kind.lower(), ())
    return next((cls for cls in several if not cls.optional_inputs()), None)


@functools.lru_cache(maxsize=1)
def _operators(*_state: object) -> dict[str, list[type[ElementWise]]]:
    """By a node type in lower case. Found anew where an operator came or went, which the arguments tell."""
    found: dict[str, list[type[ElementWise]]] = {}
    for cls in reversed(OPERATORS.values()):
        if ElementWise in cls.__mro__:  # issubclass would ask every class of every other: 20 ms
            assert issubclass(cls, ElementWise)  # noqa: S101 - for type checkers
            found.setdefault((cls.onnx or function_name(cls.type).replace("_", "")).lower(), []).append(cls)
    return found


@functools.cache
def is_one_to_one(cls: type[ElementWise], kind: str, version: int) -> bool:
    """Whether a node type is an operator, which has its inputs and attributes.

    It gives truths, or numbers of the last input's type.
    """
    rules = node_rules(kind, version)
    if rules is None or len(rules.inputs) != len(cls.input_names()) or not all(slot.is_single for slot in rules.inputs):
        return False
    made = rules.outputs[0]
    if made.allowed != (BOOL.name,) and made.shared != rules.inputs[-1].shared:
        return False
    old = {"consumed_inputs", *(("axis", "broadcast") if "broadcast" in rules.attributes else ())}
    names = {dict(cls.onnx_names).get(name, name) for name in rules.attributes.keys() - old}
    needed = {name for name, default in parameters_of(cls).items() if default is MISSING}
    return needed <= names <= parameters_of(cls).keys()


def one_to_one(node: BoundNode) -> list[Value]:
    """A node that is one operator: its FLOAT attributes are the operator's."""
    cls = operator_of(node.kind)
    assert cls is not None  # noqa: S101 - for type checkers: nothing else is lowered so
    kinds, names = node.rules.attributes.items(), dict(cls.onnx_names)
    options = {names.get(name, name): node.real(name) for name, kind in kinds if kind == "FLOAT"}
    is_test = node.rules.outputs[0].allowed == (BOOL.name,)
    element = BOOL if is_test else node.inputs[-1].element
    return [compute(node, function_of(cls), *operands(node), element=element, **options)]


def compute(
    node: BoundNode, function: Callable[..., Any], *values: Value, element: ElementType | None = None, **options: Any
) -> Value:
    """The result of an element-wise function for tensors that NumPy would broadcast.

    Unless `element` says so, a comparison gives truths, IF the type of what it chooses from, and others the first's.
    """
    shape = broadcast(node, values)
    kind = element
    if kind is None:
        name = getattr(function, "__name__", "")
        kind = BOOL if name.startswith("logical_") else values[name == "if_"].element
    if len(shape) > MAX_DIMENSIONS and all(value.shape == shape or value.count == 1 for value in values):
        flat = [node.tracer.reshape(value, (value.count,)) for value in values]
        return node.tracer.apply(function, flat, (max(v.count for v in flat),), element=kind, **options).reshaped(shape)
    return node.tracer.apply(function, values, shape, element=kind, **options)


def broadcast(node: BoundNode, values: Sequence[Value]) -> tuple[int, ...]:
    """The shape of tensors that NumPy would broadcast."""
    return common_shape(node, *(value.shape for value in values))


def common_shape(node: BoundNode, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's common shape of several."""
    whole = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for k, size in enumerate(shape, len(whole) - len(shape)):
            if size != 1 and whole[k] not in (1, size):
                found = " and ".join(map(str, shapes))
                node.refuse("inputs", "the inputs must have shapes that can be broadcast to one another", found=found)
            whole[k] = whole[k] if size == 1 else size
    return tuple(whole)


def operands(node: BoundNode) -> list[Value]:
    """The inputs of a node, shaped for NumPy's broadcasting, which ONNX has from opset 7 on."""
    values = node.inputs
    if node.version >= _FIRST_WITH_NUMPY_BROADCASTING or len(values) != 2:
        return values
    first, second = values
    if "broadcast" in node.rules.attributes and not node.integer("broadcast") and first.shape != second.shape:
        node.refuse("B", f"B must have the shape of A, {first.shape}, without broadcast=1", value=second.shape)
    if second.count == 1 or first.shape == second.shape:
        shape = second.shape if len(second.shape) <= len(first.shape) else ()
        return [first, node.tracer.reshape(second, shape)]
    rank, length = len(first.shape), len(second.shape)
    axis = node.axis(node.integer("axis"), rank) if node.has("axis") else rank - length
    if first.shape[max(axis, 0) : axis + length] != second.shape:
        rule = f"B must have the sizes of a part of A, {first.shape}, from axis {axis} on"
        node.refuse("B", rule, value=second.shape)
    return [first, node.tracer.reshape(second, (*second.shape, *(1,) * (rank - axis - length)))]
