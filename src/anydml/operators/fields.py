"""The kinds of field a description has. An annotation names the kind; everything else about the field follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from anydml.enums import AxisDirection, IndexMode
from anydml.errors import Fault, show
from anydml.parse import INT32_MAX, UINT32_MAX, read_bool, read_enum, read_int, read_ints
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable


def dml_name(name: str) -> str:
    """DirectML's name of a field: `input_window_offsets` is `InputWindowOffsets`."""
    return "".join(word.capitalize() for word in name.split("_"))


@dataclass(frozen=True, slots=True, eq=False)
class FieldType:
    """How a field is called in DirectML's tables, and how its value is read."""

    kind: str
    """`input`, `output`, `attribute`, or `addition` for what DirectML does not have."""
    type: str
    read: Callable[[Any, str, list[Fault]], Any]


def _read_tensor(value: object, field: str, faults: list[Fault]) -> Any:
    if not isinstance(value, TensorDesc):
        rule = f"{field} must be a TensorDesc"
        way_out = "describe an array with TensorDesc.of(array)"
        faults.append(Fault(field=field, rule=rule, value=value, found=show(value), way_out=way_out))
    return value


def _read_uint_array(value: object, field: str, faults: list[Fault]) -> tuple[int, ...]:
    return read_ints(value, field, faults, 0, UINT32_MAX)


def _read_size_array(value: object, field: str, faults: list[Fault]) -> tuple[int, ...]:
    """A size of 0 is left to the operator's rules, which are reported together; a negative one is none at all."""
    below: list[Fault] = []
    values = read_ints(value, field, below, 0, UINT32_MAX)
    faults += [replace(f, rule=f.rule.replace("at least 0", "at least 1")) for f in below]
    return values


def _read_int_array(value: object, field: str, faults: list[Fault]) -> tuple[int, ...]:
    return read_ints(value, field, faults, -INT32_MAX - 1, INT32_MAX)


def _read_direction(value: object, field: str, faults: list[Fault]) -> AxisDirection:
    return read_enum(AxisDirection, value, field, faults, AxisDirection.INCREASING)


def _read_index_mode(value: object, field: str, faults: list[Fault]) -> IndexMode:
    return read_enum(IndexMode, value, field, faults, IndexMode.RAISE)


Input: TypeAlias = Annotated[TensorDesc, "input"]
Output: TypeAlias = Annotated[TensorDesc, "output"]
Uint: TypeAlias = Annotated[int, "UINT"]
UintArray: TypeAlias = Annotated[Sequence[int], "UINT_ARRAY"]
SizeArray: TypeAlias = Annotated[Sequence[int], "UINT_ARRAY of at least 1"]
IntArray: TypeAlias = Annotated[Sequence[int], "INT_ARRAY"]
# Read as members; typed so that a caller may write the string.
Direction: TypeAlias = Annotated[AxisDirection | str, "DML_AXIS_DIRECTION"]
OutsideIndex: TypeAlias = Annotated[IndexMode | str, "IndexMode"]

FIELD_TYPES: dict[Any, FieldType] = {
    Input: FieldType("input", "TENSOR_DESC", _read_tensor),
    Output: FieldType("output", "TENSOR_DESC", _read_tensor),
    Uint: FieldType("attribute", "UINT", read_int),
    UintArray: FieldType("attribute", "UINT_ARRAY", _read_uint_array),
    SizeArray: FieldType("attribute", "UINT_ARRAY", _read_size_array),
    IntArray: FieldType("attribute", "INT_ARRAY", _read_int_array),
    bool: FieldType("attribute", "UINT", read_bool),
    Direction: FieldType("attribute", "UINT", _read_direction),
    OutsideIndex: FieldType("addition", "", _read_index_mode),
}
