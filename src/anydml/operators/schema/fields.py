"""The kinds of field a description has. An annotation names the kind; everything else about the field follows."""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DataType,
    DepthSpaceOrder,
    IndexMode,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
)
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.parse import INT32_MAX, UINT32_MAX, read_bool, read_enum, read_int, read_ints
from anydml.ir.verbs import Exact

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable


# Numbers: DML_SCALAR_UNION, read by the type that stands beside it, and DML_SCALE_BIAS


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ScaleBias(Exact):
    """DML_SCALE_BIAS: x·scale + bias. Both are FLOAT, and are rounded to it."""

    scale: float = 1.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        for name in ("scale", "bias"):
            number = read_number(getattr(self, name), name.capitalize(), faults)
            object.__setattr__(self, name, as_type(number, DataType.FLOAT32))
        if faults:
            raise DescriptionError("ScaleBias", faults)


def read_scale_bias(value: object, field: str, faults: list[Fault]) -> ScaleBias | None:
    """Read a scale and a bias: a ScaleBias, a pair of numbers, or None."""
    if value is None or isinstance(value, ScaleBias):
        return value
    if isinstance(value, (list, tuple)) and len(value) == 2:
        found: list[Fault] = []
        pair = [
            read_number(part, f"{field}.{name}", found) for part, name in zip(value, ("Scale", "Bias"), strict=True)
        ]
        faults += found
        return None if found else ScaleBias(*pair)
    rule = f"{field} must be a ScaleBias, a pair of numbers, or None"
    faults.append(Fault(field=field, rule=rule, value=value, found=show(value)))
    return None


def read_number(value: Any, field: str, faults: list[Fault]) -> int | float:
    """Read a number, whole or not; a boolean is none."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)):
            raise TypeError
        if isinstance(value, numbers.Integral) or (hasattr(value, "__index__") and not hasattr(value, "__len__")):
            return operator.index(value)
        return float(value)
    except Exception:  # noqa: BLE001 - a hostile __index__ or __float__ may raise anything
        faults.append(Fault(field=field, rule=f"{field} must be a number", value=value, found=show(value)))
        return 0


def read_float(value: Any, field: str, faults: list[Fault]) -> float:
    """Read a FLOAT, and round it to one."""
    return float(as_type(read_number(value, field, faults), DataType.FLOAT32))


def read_floats(value: Any, field: str, faults: list[Fault]) -> tuple[float, ...]:
    """Read a list of FLOAT; a number alone is a list of one."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(read_float(item, f"{field}[{i}]", faults) for i, item in enumerate(items))


def as_type(number: float, data_type: DataType) -> int | float:
    """A number as a type has it: a float rounded to it, or the integer."""
    if not data_type.is_float:
        return int(number)
    try:
        with np.errstate(all="ignore"):
            return float(data_type.dtype.type(number))
    except OverflowError:  # an integer past every float
        return float("inf") if number > 0 else float("-inf")


def saturated(number: float, data_type: DataType) -> int | float:
    """A number as a type has it, an integer type too: without its fraction, at the nearer end, and 0 for NaN."""
    if data_type.is_float:
        return as_type(number, data_type)
    limits = np.iinfo(data_type.dtype)
    if number != number:
        return 0
    return int(min(max(number, int(limits.min)), int(limits.max)))


# Kinds


_UPPER = {"roi": "ROI"}
"""The words that DirectML has in capitals."""


@functools.lru_cache(1024)  # asked 30 times for a node of a model, which were a tenth of its compiling
def dml_name(name: str) -> str:
    """DirectML's name of a field: `input_window_offsets` is `InputWindowOffsets`."""
    return "".join(_UPPER.get(word, word.capitalize()) for word in name.split("_"))


def bare_name(field: str) -> str:
    """The field that a tensor is of: `InputTensors` for `InputTensors[2]`."""
    return field.partition("[")[0]


@dataclass(frozen=True, slots=True, eq=False)
class FieldType:
    """How a field is called in DirectML's tables, and how its value is read."""

    kind: str
    """`input`, `output`, `attribute`, or `extension` for a field that DirectML does not have."""
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


def _read_int(value: object, field: str, faults: list[Fault]) -> int:
    return read_int(value, field, faults, -INT32_MAX - 1, INT32_MAX)


def _read_optional_tensor(value: object, field: str, faults: list[Fault]) -> Any:
    return None if value is None else _read_tensor(value, field, faults)


def _read_size_2d(value: object, field: str, faults: list[Fault]) -> tuple[int, ...]:
    """A width and a height."""
    sizes = read_ints(value, field, faults, 0, UINT32_MAX)
    if len(sizes) != 2 and not faults:
        rule = f"{field} must be a width and a height"
        faults.append(Fault(field=field, rule=rule, value=value, found=show(value)))
    return sizes


def _member_of(cls: type[enum.Enum]) -> Callable[[object, str, list[Fault]], Any]:
    """A reader of an enumeration's members, whose stand-in is the first."""
    return lambda value, field, faults: read_enum(cls, value, field, faults, next(iter(cls)))


def _read_transform(value: object, field: str, faults: list[Fault]) -> MatrixTransform:
    """A matrix is transposed, or not: Python's True and False say so too."""
    return MatrixTransform(int(value)) if isinstance(value, bool) else _TRANSFORMS(value, field, faults)


_TRANSFORMS = _member_of(MatrixTransform)

Input: TypeAlias = Annotated[TensorDesc, "input"]
Output: TypeAlias = Annotated[TensorDesc, "output"]
OptionalInput: TypeAlias = Annotated[TensorDesc | None, "input"]
OptionalOutput: TypeAlias = Annotated[TensorDesc | None, "output"]
Inputs: TypeAlias = Annotated[Sequence[TensorDesc], "inputs"]
Outputs: TypeAlias = Annotated[Sequence[TensorDesc], "outputs"]
Uint: TypeAlias = Annotated[int, "UINT"]
Int: TypeAlias = Annotated[int, "INT"]
UintArray: TypeAlias = Annotated[Sequence[int], "UINT_ARRAY"]
SizeArray: TypeAlias = Annotated[Sequence[int], "UINT_ARRAY of at least 1"]
PerDimension: TypeAlias = Annotated[Sequence[int] | int, "UINT_ARRAY of a window"]
"""A number for each dimension that a window has; one alone is for all."""
IntArray: TypeAlias = Annotated[Sequence[int], "INT_ARRAY"]
Float: TypeAlias = Annotated[float, "FLOAT"]
FloatArray: TypeAlias = Annotated[Sequence[float], "FLOAT_ARRAY"]
Size2D: TypeAlias = Annotated[Sequence[int], "SIZE_2D"]
"""The width, then the height."""
# Read as members; typed so that a caller may write the string.
Direction: TypeAlias = Annotated[AxisDirection | str, "DML_AXIS_DIRECTION"]
ValueType: TypeAlias = Annotated[DataType | str, "DML_TENSOR_DATA_TYPE"]
Convolving: TypeAlias = Annotated[ConvolutionMode | str, "DML_CONVOLUTION_MODE"]
ConvolvingWay: TypeAlias = Annotated[ConvolutionDirection | str, "DML_CONVOLUTION_DIRECTION"]
Infinity: TypeAlias = Annotated[IsInfinityMode | str, "DML_IS_INFINITY_MODE"]
Rounding: TypeAlias = Annotated[RoundingMode | str, "DML_ROUNDING_MODE"]
Transform: TypeAlias = Annotated[MatrixTransform | bool | str, "DML_MATRIX_TRANSFORM"]
Quantization: TypeAlias = Annotated[QuantizationType | str, "DML_QUANTIZATION_TYPE"]
Generator: TypeAlias = Annotated[RandomGeneratorType | str, "DML_RANDOM_GENERATOR_TYPE"]
Recurrence: TypeAlias = Annotated[RecurrentNetworkDirection | str, "DML_RECURRENT_NETWORK_DIRECTION"]
Reduction: TypeAlias = Annotated[ReduceFunction | str, "DML_REDUCE_FUNCTION"]
Edges: TypeAlias = Annotated[PaddingMode | str, "DML_PADDING_MODE"]
Interpolation: TypeAlias = Annotated[InterpolationMode | str, "DML_INTERPOLATION_MODE"]
AttentionMask: TypeAlias = Annotated[MultiheadAttentionMaskType | str, "DML_MULTIHEAD_ATTENTION_MASK_TYPE"]
DepthOrder: TypeAlias = Annotated[DepthSpaceOrder | str, "DML_DEPTH_SPACE_ORDER"]
Scalar: TypeAlias = Annotated[int | float, "DML_SCALAR_UNION"]
OptionalScaleBias: TypeAlias = Annotated[ScaleBias | None, "DML_SCALE_BIAS"]
WithFloat64: TypeAlias = Annotated[bool, "allow_float64"]
"""Whether FLOAT64 is taken, which DirectML has not for the operator at any level."""
OutsideIndex: TypeAlias = Annotated[IndexMode | str, "IndexMode"]

FIELD_TYPES: dict[Any, FieldType] = {
    Input: FieldType("input", "TENSOR_DESC", _read_tensor),
    Output: FieldType("output", "TENSOR_DESC", _read_tensor),
    OptionalInput: FieldType("input", "TENSOR_DESC", _read_optional_tensor),
    OptionalOutput: FieldType("output", "TENSOR_DESC", _read_optional_tensor),
    Inputs: FieldType("input", "TENSOR_DESC_ARRAY", _read_tensors),
    Outputs: FieldType("output", "TENSOR_DESC_ARRAY", _read_tensors),
    Uint: FieldType("attribute", "UINT", read_int),
    Int: FieldType("attribute", "INT", _read_int),
    UintArray: FieldType("attribute", "UINT_ARRAY", _read_uint_array),
    SizeArray: FieldType("attribute", "UINT_ARRAY", _read_size_array),
    PerDimension: FieldType("attribute", "UINT_ARRAY", _read_uint_array),
    IntArray: FieldType("attribute", "INT_ARRAY", _read_int_array),
    Float: FieldType("attribute", "FLOAT", read_float),
    FloatArray: FieldType("attribute", "FLOAT_ARRAY", read_floats),
    Size2D: FieldType("attribute", "SIZE_2D", _read_size_2d),
    bool: FieldType("attribute", "UINT", read_bool),
    Direction: FieldType("attribute", "UINT", _member_of(AxisDirection)),
    ValueType: FieldType("attribute", "UINT", _member_of(DataType)),
    Convolving: FieldType("attribute", "UINT", _member_of(ConvolutionMode)),
    ConvolvingWay: FieldType("attribute", "UINT", _member_of(ConvolutionDirection)),
    Infinity: FieldType("attribute", "UINT", _member_of(IsInfinityMode)),
    Rounding: FieldType("attribute", "UINT", _member_of(RoundingMode)),
    Transform: FieldType("attribute", "UINT", _read_transform),
    Quantization: FieldType("attribute", "UINT", _member_of(QuantizationType)),
    Generator: FieldType("attribute", "UINT", _member_of(RandomGeneratorType)),
    Recurrence: FieldType("attribute", "UINT", _member_of(RecurrentNetworkDirection)),
    Reduction: FieldType("attribute", "UINT", _member_of(ReduceFunction)),
    Edges: FieldType("attribute", "UINT", _member_of(PaddingMode)),
    Interpolation: FieldType("attribute", "UINT", _member_of(InterpolationMode)),
    AttentionMask: FieldType("attribute", "UINT", _member_of(MultiheadAttentionMaskType)),
    DepthOrder: FieldType("attribute", "UINT", _member_of(DepthSpaceOrder)),
    Scalar: FieldType("attribute", "SCALAR_UNION", read_number),
    OptionalScaleBias: FieldType("attribute", "SCALE_BIAS", read_scale_bias),
    WithFloat64: FieldType("extension", "", read_bool),
    OutsideIndex: FieldType("extension", "", _member_of(IndexMode)),
}
"""By the annotation. The kind of a fused activation is entered by `fused`."""
