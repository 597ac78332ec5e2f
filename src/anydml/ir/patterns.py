"""Maps of a kind that engines and graphs know better ways for, made and recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from anydml.enums import DataType
from anydml.ir.expressions import given, load
from anydml.ir.verbs import Map

if TYPE_CHECKING:
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View


class Scaled(NamedTuple):
    """target[i] = source[i]·scale + bias, computed in FLOAT64; with a scale of 1 and a bias of 0 a conversion alone."""

    source: View
    target: View
    scale: float
    bias: float

    @property
    def is_conversion(self) -> bool:
        """Whether numbers are converted alone."""
        return self.scale == 1.0 and self.bias == 0.0


def copy_of(source: View, target: View) -> Map:
    """target[i] = source[i]: bits are moved."""
    return Map((source,), target, load(0, source.data_type))


def is_copy(primitive: Primitive) -> TypeGuard[Map]:
    """Whether bits are moved from one view to another."""
    return isinstance(primitive, Map) and len(primitive.sources) == 1 and primitive.value.op == "load"


def scaled(source: View, target: View, scale: float = 1.0, bias: float = 0.0) -> Map:
    """target[i] = source[i]·scale + bias, made a number of the target's type; without a scale it is converted alone."""
    number = load(0, source.data_type)
    if scale != 1.0 or bias != 0.0:
        wide = number.to(DataType.FLOAT64)
        number = wide * given(scale, DataType.FLOAT64) + given(bias, DataType.FLOAT64)
    return Map((source,), target, number.to(target.data_type))


def match_scaled(primitive: Map) -> Scaled | None:
    """The scale and the bias of what `scaled` makes; None for other maps."""
    if len(primitive.sources) != 1:
        return None
    node, numbers = primitive.value, []
    if node.op == "cast":
        (node,) = node.args
    if node.op == "load":
        return Scaled(primitive.source, primitive.target, 1.0, 0.0)
    for op in ("add", "mul"):
        if node.op != op or node.type is not DataType.FLOAT64 or node.args[1].op != "given":
            return None
        numbers.append(float(node.args[1].value))
        node = node.args[0]
    if node.op == "cast":
        (node,) = node.args
    bias, scale = numbers
    return Scaled(primitive.source, primitive.target, scale, bias) if node.op == "load" else None
