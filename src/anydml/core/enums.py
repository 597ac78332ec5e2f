"""DirectML's enumerations and flags, with DirectML's names and values, and the spellings people type.

Calling an enumeration reads any of them: `DataType("float32")`, `DataType(np.float32)`, `FeatureLevel("5_0")`.
"""

from __future__ import annotations

import enum
from typing import Any, Literal, TypeAlias

import numpy as np

from anydml.core.enum_parsing import Flags, Option, Spelled, SpelledType, no_member, read_name
from anydml.core.locks import cached_property


class DataType(Spelled):
    """DML_TENSOR_DATA_TYPE: the types that a tensor may have.

    Of UINT4 and INT4 two elements share a byte, the first in its low half.
    """

    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @classmethod
    def _missing_(cls, value: object) -> DataType:
        member = read_name(cls, value, "DML_TENSOR_DATA_TYPE_")
        number_or_array = (int, float, np.generic, np.ndarray, type(None))  # np.dtype() has ideas of its own on these
        if member is None and not isinstance(value, number_or_array):
            member = cls._of_dtype(value)
        if member is None:
            raise no_member(cls, value, cls.__members__)
        return member

    @classmethod
    def _of_dtype(cls, value: Any) -> DataType | None:
        # A torch.dtype writes itself as `torch.float32`; np.dtype reads the rest: types, strings, dtypes.
        spelling = str(value).rpartition(".")[2] if type(value).__name__ == "dtype" else value
        try:
            dtype = np.dtype(spelling)
        except Exception:  # noqa: BLE001 - np.dtype() raises whatever the object's own `dtype` attribute raises
            return None
        if dtype == np.bool_:
            raise no_member(cls, value, cls.__members__, "DirectML has no booleans: view the array as uint8")
        if not dtype.isnative:
            way_out = f"the byte order is not this machine's: pass x.astype({dtype.name!r})"
            raise no_member(cls, value, cls.__members__, way_out)
        return cls.__members__.get(dtype.name.upper())

    @property
    def dml_name(self) -> str:
        """DirectML's own constant: `DML_TENSOR_DATA_TYPE_FLOAT32`."""
        return f"DML_TENSOR_DATA_TYPE_{self.name}"

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The same type in NumPy; of UINT4 and INT4, which it lacks, the bytes that they share."""
        return np.dtype(np.uint8) if self.is_half_byte else np.dtype(self.name.lower())

    @cached_property
    def number_dtype(self) -> np.dtype[Any]:
        """NumPy's type of one number."""
        return np.dtype(np.int8) if self is DataType.INT4 else self.dtype

    @cached_property
    def size_in_bytes(self) -> int:
        """The bytes of one element; of UINT4 and INT4 the one that two share."""
        return self.dtype.itemsize

    @cached_property
    def is_half_byte(self) -> bool:
        """Whether two elements share a byte."""
        return self in (DataType.UINT4, DataType.INT4)

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The least and the largest number of an integer type."""
        if self.is_half_byte:
            return (-8, 7) if self.is_signed else (0, 15)
        if self.is_float:
            raise AttributeError(f"{self.name} is no integer type, and has no limits; see numpy.finfo")
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)

    def bytes_of(self, count: int) -> int:
        """The bytes of so many elements in a row."""
        return (count + 1) // 2 if self.is_half_byte else count * self.size_in_bytes

    def byte_range(self, below: int, above: int) -> tuple[int, int]:
        """The bytes of elements from one to another, both counted from the first, which begins a byte."""
        if self.is_half_byte:
            return below // 2, above // 2 + 1
        return below * self.size_in_bytes, (above + 1) * self.size_in_bytes

    @property
    def is_signed(self) -> bool:
        """Whether it is an integer type with a sign."""
        return self.name.startswith("INT")

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.name.startswith("FLOAT")

    @property
    def introduced(self) -> FeatureLevel:
        """The lowest feature level at which any tensor of any documented operator may have it."""
        return _TYPE_INTRODUCED.get(self, FeatureLevel.LEVEL_1_0)


NUMPY_TYPES = tuple(kind for kind in DataType if not kind.is_half_byte)
"""The types that NumPy has too: all but UINT4 and INT4."""


class FeatureLevel(Spelled):
    """DML_FEATURE_LEVEL: what a device can do. Each level has everything that is in the levels below it."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    @classmethod
    def _missing_(cls, value: object) -> FeatureLevel:
        if isinstance(value, str):
            name = value.strip().upper().removeprefix("DML_FEATURE_").removeprefix("LEVEL_").replace(".", "_")
            if (member := cls.__members__.get(f"LEVEL_{name}")) is not None:
                return member
        raise no_member(cls, value, (str(level) for level in cls))

    @classmethod
    def highest(cls) -> FeatureLevel:
        """The highest level there is."""
        return max(cls)

    @property
    def dml_name(self) -> str:
        """DirectML's own constant: `DML_FEATURE_LEVEL_5_0`."""
        return f"DML_FEATURE_{self.name}"

    def __str__(self) -> str:
        return self.name.removeprefix("LEVEL_")


LevelName: TypeAlias = Literal[
    "1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"
]  # fmt: skip
"""The usual spellings of the levels, for editors to offer: others are read as well, such as `5.0`."""
_TYPE_INTRODUCED = {
    DataType.INT64: FeatureLevel.LEVEL_3_0,
    DataType.UINT64: FeatureLevel.LEVEL_3_0,
    DataType.FLOAT64: FeatureLevel.LEVEL_4_1,
    DataType.UINT4: FeatureLevel.LEVEL_6_3,
    DataType.INT4: FeatureLevel.LEVEL_6_3,
}


class AxisDirection(Option):
    """DML_AXIS_DIRECTION: the way an operator walks along its axis."""

    INCREASING = 0
    DECREASING = 1


class ConvolutionMode(Option):
    """DML_CONVOLUTION_MODE: whether a filter is turned around before it is laid over the input."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1
    """It is not."""


class ConvolutionDirection(Option):
    """DML_CONVOLUTION_DIRECTION: whether sizes shrink by the strides, or grow by them."""

    FORWARD = 0
    BACKWARD = 1
    """The gradient of a forward convolution with respect to its input: a transposed convolution."""


class IsInfinityMode(Option):
    """DML_IS_INFINITY_MODE: which infinities are looked for."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class MatrixTransform(Option):
    """DML_MATRIX_TRANSFORM: what a product does with a matrix first."""

    NONE = 0
    TRANSPOSE = 1


class DepthSpaceOrder(Option):
    """DML_DEPTH_SPACE_ORDER: what the channels of a block are numbered by, the slowest first."""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class InterpolationMode(Option):
    """DML_INTERPOLATION_MODE: what stands between two elements."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class MultiheadAttentionMaskType(Option):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE: how a mask says which keys a query does not look at."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    """The number of keys, for each of the batch."""
    KEY_SEQUENCE_END_START = 2
    """The key after the last, for each of the batch, then the first."""
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    """The number of keys, then where queries start and the last ones end, then the same of keys."""
    BOOLEAN = 4
    """A number for each query and key: 0 for those that are not looked at."""


class PaddingMode(Option):
    """DML_PADDING_MODE: what stands around a tensor."""

    CONSTANT = 0
    EDGE = 1
    """The nearest element."""
    REFLECTION = 2
    """The elements in turn from the edge inward, without the edge itself."""
    SYMMETRIC = 3
    """The same with the edge."""
    WRAP = 4
    """The elements from the other end on."""


class RecurrentNetworkDirection(Option):
    """DML_RECURRENT_NETWORK_DIRECTION: from which end a recurrent network goes through its steps."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2
    """From both, each with weights of its own."""


class QuantizationType(Option):
    """DML_QUANTIZATION_TYPE: the tensors that say how numbers were quantised."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


class RandomGeneratorType(Option):
    """DML_RANDOM_GENERATOR_TYPE: how random numbers are made."""

    PHILOX_4X32_10 = 0
    """By ten rounds of products of 32 bits, four numbers of each counter."""


class RoundingMode(Option):
    """DML_ROUNDING_MODE: what becomes of a fraction."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    """It is cut off."""
    TOWARD_INFINITY = 2
    """Halves are rounded away from zero, and other fractions to the nearest."""


class ReduceFunction(Option):
    """DML_REDUCE_FUNCTION: what a row is made."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class Feature(Option):
    """DML_FEATURE: what `Device.check_feature_support` can be asked."""

    TENSOR_DATA_TYPE_SUPPORT = 0
    FEATURE_LEVELS = 1


class IndexMode(enum.Enum, metaclass=SpelledType):
    """How a gather treats an index outside its dimension. An extension of DirectML's fields."""

    RAISE = "raise"
    """Refuse it: the error names the first offending tuple, and nothing is written."""
    CLAMP = "clamp"
    """Add the size to a negative index of a signed type, then take the nearest element."""

    @classmethod
    def _missing_(cls, value: object) -> IndexMode:
        if (member := read_name(cls, value, "")) is None:
            raise no_member(cls, value, (repr(mode.value) for mode in cls))
        return member


class TensorFlags(Flags):
    """DML_TENSOR_FLAGS: options of a tensor description."""

    NONE = 0
    OWNED_BY_DML = 0x1
    """The data is copied when the operator is initialized, and is not bound when it runs. Inputs only."""


class ExecutionFlags(Flags):
    """DML_EXECUTION_FLAGS: options of a compilation."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 0x1
    """A permission that no engine here makes use of: sums of FLOAT16 stay exact."""
    DISABLE_META_COMMANDS = 0x2
    """Has no effect here: there are no meta commands."""
    DESCRIPTORS_VOLATILE = 0x4
    """Bindings may be set or changed between the recording of a dispatch and its execution."""
