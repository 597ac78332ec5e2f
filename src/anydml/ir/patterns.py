"""Maps of a kind that engines and graphs know better ways for, made and recognised: copies, fills, scales, lookups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from anydml.core.enums import DataType
from anydml.ir.expressions import const, coordinate, fetch, given, load
from anydml.ir.trees import walk
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

    @property
    def moves_bits(self) -> bool:
        """Whether every bit stays as it is: to the same type, and between integers of one width."""
        source, target = self.source.data_type, self.target.data_type
        is_alike = source.size_in_bytes == target.size_in_bytes and source.is_float == target.is_float
        return self.is_conversion and is_alike


class Filled(NamedTuple):
    """target[i] = start + n·delta, where n counts the elements in the coordinates' order, the last running fastest.

    FLOAT types compute in FLOAT64, a product and then a sum, each rounded for itself, and round once more when an
    element is written; integers wrap. A delta of 0 leaves `start` as it is, -0.0 and NaN included.
    """

    target: View
    start: int | float
    """A number of the target's type: an int for an integer type, a float otherwise."""
    delta: int | float


def copy_of(source: View, target: View) -> Map:
    """target[i] = source[i]: bits are moved."""
    return Map((source,), target, load(0, source.data_type))


def is_copy(primitive: Primitive) -> TypeGuard[Map]:
    """Whether bits are moved from one view to another."""
    return is_plain(primitive) and len(primitive.sources) == 1 and primitive.value.op == "load"


def is_plain(primitive: Primitive) -> TypeGuard[Map]:
    """Whether it is a map that checks nothing, of one target."""
    return isinstance(primitive, Map) and not primitive.checks and not primitive.also


def filled(target: View, start: float, delta: float = 0) -> Map:
    """target[i] = start + n·delta for the element of number n."""
    kind = target.data_type
    if not delta:
        return Map((), target, given(start, kind))
    number, count = const(0, DataType.INT64), 1
    for k in reversed(range(len(target.sizes))):
        number = coordinate(k) * count + number if target.sizes[k] > 1 else number
        count *= target.sizes[k]
    wide = DataType.FLOAT64 if kind.is_float else kind
    return Map((), target, (number.to(wide) * given(delta, wide) + given(start, wide)).to(kind))


def match_filled(primitive: Map) -> Filled | None:
    """The start and the delta of what `filled` makes; None for other maps."""
    if primitive.sources or not is_plain(primitive):
        return None
    numbers = [node.value for node in walk(primitive.value) if node.op == "given"]
    if not 1 <= len(numbers) <= 2:
        return None
    delta, start = numbers[0], numbers[-1]  # which are one node where they are equal
    for step in (delta, 0):
        if filled(primitive.target, start, step).value is primitive.value:
            return Filled(primitive.target, start, step)
    return None


def scaled(source: View, target: View, scale: float = 1.0, bias: float = 0.0) -> Map:
    """target[i] = source[i]·scale + bias, made a number of the target's type; without a scale it is converted alone."""
    number = load(0, source.data_type)
    if scale != 1.0 or bias != 0.0:
        wide = number.to(DataType.FLOAT64)
        number = wide * given(scale, DataType.FLOAT64) + given(bias, DataType.FLOAT64)
    return Map((source,), target, number.to(target.data_type))


def match_scaled(primitive: Map) -> Scaled | None:
    """The scale and the bias of what `scaled` makes; None for other maps."""
    if len(primitive.sources) != 1 or not is_plain(primitive):
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


BYTE_VALUES = 256
"""Values of a byte: the elements of a table by it."""


class Lookup(NamedTuple):
    """A byte for each element, and the table that it is looked up in."""

    byte: View
    table: View


def looked_up(byte: View, table: View, target: View) -> Map:
    """The entry of a table for each byte, by its bits."""
    place = load(0, byte.data_type).bits(DataType.UINT8).to(DataType.INT64)
    return Map((byte, table), target, fetch(1, target.data_type, [place]))


def match_lookup(primitive: Map) -> Lookup | None:
    """The parts of a map that `looked_up` makes; None for another."""
    if primitive.value.op != "fetch" or len(primitive.sources) != 2 or primitive.also or primitive.checks:
        return None
    byte, table = primitive.sources
    is_table = table.sizes == (BYTE_VALUES,) and table.strides == (1,)
    return Lookup(byte, table) if is_table and looked_up(byte, table, primitive.target) == primitive else None
