"""The kinds of field a description has. An annotation names the kind; everything else about the field follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from anydml.enums import AxisDirection, DataType, IndexMode
from anydml.errors import Fault, show
from anydml.operators.scalars import ScaleBias, read_number, read_scale_bias
from anydml.parse import INT32_MAX, UINT32_MAX, read_bool, read_enum, read_int, read_ints
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable


def dml_name(name: str) -> str:
    """DirectML's name of a field: `input_window_offsets` is `InputWindowOffsets`."""
    return "".join(word.capitalize() for word in name.split("_"))


def bare_name(field: str) -> str:
    """The field that a tensor is of: `InputTensors` for `InputTensors[2]`."""
    return field.partition("[")[0]


@dataclass(frozen=True, slots=True, eq=False)
class FieldType:
    """How a field is called in DirectML's tables, and how its value is read."""

    kind: str
    """`input`, `output`, `attribute`, or `addition` for what DirectML does not have."""
    type: str
    read: Callable[[Any, str, list[Fault]], Any]

    @property
    def is_tensor_array(self) -> bool:
        """Whether it holds several tensors."""
        return self.type == "TENSOR_DESC_ARRAY"


def _read_tensor(value: object, field: str, faults: list[Fault]) -> Any:
    if not isinstance(value, TensorDesc):
        rule = f"{field} must be a TensorDesc"
        way_out = "describe an array with TensorDesc.of(array)"
        faults.append(Fault(field=field, rule=rule, value=value, found=show(value), way_out=way_out))
    return value


def _read_tensors(value: object, field: str, faults: list[Fault]) -> Any:
    if isinstance(value, TensorDesc) or not isinstance(value, (list, tuple)):
        rule = f"{field} must be a list of TensorDesc"
        faults.append(Fault(field=field, rule=rule, value=value, found=show(value)))
        return ()
    if not value:
        faults.append(Fault(field=field, rule=f"{field} must have at least one tensor", value=value, found="none"))
    return tuple(_read_tensor(item, f"{field}[{i}]", faults) for i, item in enumerate(value))


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


def _read_data_type(value: object, field: str, faults: list[Fault]) -> DataType:
    return read_enum(DataType, value, field, faults, DataType.FLOAT32)


def _read_index_mode(value: object, field: str, faults: list[Fault]) -> IndexMode:
    return read_enum(IndexMode, value, field, faults, IndexMode.RAISE)


Input: TypeAlias = Annotated[TensorDesc, "input"]
Output: TypeAlias = Annotated[TensorDesc, "output"]
Inputs: TypeAlias = Annotated[Sequence[TensorDesc], "inputs"]
Outputs: TypeAlias = Annotated[Sequence[TensorDesc], "outputs"]
Uint: TypeAlias = Annotated[int, "UINT"]
UintArray: TypeAlias = Annotated[Sequence[int], "UINT_ARRAY"]
SizeArray: TypeAlias = Annotated[Sequence[int], "UINT_ARRAY of at least 1"]
IntArray: TypeAlias = Annotated[Sequence[int], "INT_ARRAY"]
# Read as members; typed so that a caller may write the string.
Direction: TypeAlias = Annotated[AxisDirection | str, "DML_AXIS_DIRECTION"]
ValueType: TypeAlias = Annotated[DataType | str, "DML_TENSOR_DATA_TYPE"]
Scalar: TypeAlias = Annotated[int | float, "DML_SCALAR_UNION"]
OptionalScaleBias: TypeAlias = Annotated[ScaleBias | None, "DML_SCALE_BIAS"]
WithFloat64: TypeAlias = Annotated[bool, "allow_float64"]
"""Whether FLOAT64 is taken, which DirectML has not for the operator at any level."""
OutsideIndex: TypeAlias = Annotated[IndexMode | str, "IndexMode"]

FIELD_TYPES: dict[Any, FieldType] = {
    Input: FieldType("input", "TENSOR_DESC", _read_tensor),
    Output: FieldType("output", "TENSOR_DESC", _read_tensor),
    Inputs: FieldType("input", "TENSOR_DESC_ARRAY", _read_tensors),
    Outputs: FieldType("output", "TENSOR_DESC_ARRAY", _read_tensors),
    Uint: FieldType("attribute", "UINT", read_int),
    UintArray: FieldType("attribute", "UINT_ARRAY", _read_uint_array),
    SizeArray: FieldType("attribute", "UINT_ARRAY", _read_size_array),
    IntArray: FieldType("attribute", "INT_ARRAY", _read_int_array),
    bool: FieldType("attribute", "UINT", read_bool),
    Direction: FieldType("attribute", "UINT", _read_direction),
    ValueType: FieldType("attribute", "UINT", _read_data_type),
    Scalar: FieldType("attribute", "SCALAR_UNION", read_number),
    OptionalScaleBias: FieldType("attribute", "SCALE_BIAS", read_scale_bias),
    WithFloat64: FieldType("addition", "", read_bool),
    OutsideIndex: FieldType("addition", "", _read_index_mode),
}
