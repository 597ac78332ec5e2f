"""DirectML's enumerations, with DirectML's names and values, and the spellings people type.

Calling an enumeration reads any of them: `DataType("float32")`, `DataType(np.float32)`, `DataType(1)`,
`FeatureLevel("DML_FEATURE_LEVEL_5_0")`, `FeatureLevel("5_0")`, `TensorFlags("OWNED_BY_DML")`.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar

import numpy as np

from anydml.errors import DescriptionError, Fault, show
from anydml.locks import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterable

E = TypeVar("E", bound=enum.Enum)


def _no_member(cls: type[enum.Enum], value: object, choices: Iterable[str], way_out: str = "") -> DescriptionError:
    rule = f"must be one of {', '.join(choices)}"
    fault = Fault(field=cls.__name__, rule=rule, value=value, found=show(value), way_out=way_out)
    return DescriptionError(cls.__name__, fault)


def read_name(cls: type[E], value: object, prefix: str) -> E | None:
    """Find a member by its name: with or without DirectML's prefix, in any case."""
    if not isinstance(value, str):
        return None
    return cls.__members__.get(value.strip().upper().removeprefix(prefix))


class SpelledType(enum.EnumMeta):
    """Lets `_missing_` refuse what the look-up itself would trip over, or take for an int that it merely equals."""

    def __call__(cls, value: Any, *args: Any, **options: Any) -> Any:
        """Read a spelling."""
        try:
            hash(value)
            strange = isinstance(value, (bool, float, np.generic))
        except Exception:  # noqa: BLE001 - a list, an array, or a hostile __hash__
            strange = True
        missing: Any = cls
        return missing._missing_(value) if strange else super().__call__(value, *args, **options)


class Spelled(enum.IntEnum, metaclass=SpelledType):
    """An enumeration that reads spellings, in `_missing_`."""

    if TYPE_CHECKING:

        def __new__(cls, value: Any) -> Self:
            """Take any of the spellings."""


NOT_BUILT = {
    name: f"DirectML has {name} from feature level 6_3 on, and this version does not yet" for name in ("INT4", "UINT4")
}
"""By the names of DirectML's other data types, why they are refused."""


class DataType(Spelled):
    """DML_TENSOR_DATA_TYPE: the eleven types a tensor of this package may have."""

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

    @classmethod
    def _missing_(cls, value: object) -> DataType:
        member = read_name(cls, value, "DML_TENSOR_DATA_TYPE_")
        number_or_array = (int, float, np.generic, np.ndarray, type(None))  # np.dtype() has ideas of its own on these
        if member is None and isinstance(value, str):
            name = value.strip().upper().removeprefix("DML_TENSOR_DATA_TYPE_")
            if way_out := NOT_BUILT.get(name):
                raise _no_member(cls, value, cls.__members__, way_out)
        if member is None and not isinstance(value, number_or_array):
            member = cls._of_dtype(value)
        if member is None:
            raise _no_member(cls, value, cls.__members__)
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
            raise _no_member(cls, value, cls.__members__, "DirectML has no booleans: view the array as uint8")
        if not dtype.isnative:
            raise _no_member(
                cls,
                value,
                cls.__members__,
                "the byte order is not this machine's: convert with x.astype(...)",
            )
        return cls.__members__.get(dtype.name.upper())

    @property
    def dml_name(self) -> str:
        """DirectML's own constant: `DML_TENSOR_DATA_TYPE_FLOAT32`."""
        return f"DML_TENSOR_DATA_TYPE_{self.name}"

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The same type in NumPy."""
        return np.dtype(self.name.lower())

    @cached_property
    def size_in_bytes(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

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
        raise _no_member(cls, value, (str(level) for level in cls))

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
}


class Option(Spelled):
    """A field's enumeration, such as DML_AXIS_DIRECTION: it reads names with DirectML's prefix and without."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        if (member := read_name(cls, value, cls._prefix())) is None:
            raise _no_member(cls, value, cls.__members__)
        return member

    @classmethod
    def _prefix(cls) -> str:
        return f"DML_{re.sub('(?<=[a-z])(?=[A-Z])', '_', cls.__name__).upper()}_"

    @property
    def dml_name(self) -> str:
        """DirectML's own constant: `DML_AXIS_DIRECTION_INCREASING`."""
        return self._prefix() + self.name


class AxisDirection(Option):
    """DML_AXIS_DIRECTION: the way an operator walks along its axis."""

    INCREASING = 0
    DECREASING = 1


class IsInfinityMode(Option):
    """DML_IS_INFINITY_MODE: which infinities are looked for."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class MatrixTransform(Option):
    """DML_MATRIX_TRANSFORM: what a product does with a matrix first."""

    NONE = 0
    TRANSPOSE = 1


class QuantizationType(Option):
    """DML_QUANTIZATION_TYPE: the tensors that say how numbers were quantised."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


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


class Feature(Spelled):
    """DML_FEATURE: what `Device.check_feature_support` can be asked."""

    TENSOR_DATA_TYPE_SUPPORT = 0
    FEATURE_LEVELS = 1

    @classmethod
    def _missing_(cls, value: object) -> Feature:
        if (member := read_name(cls, value, "DML_FEATURE_")) is None:
            raise _no_member(cls, value, cls.__members__)
        return member


class IndexMode(enum.Enum, metaclass=SpelledType):
    """What a gather does with an index outside its dimension. An addition to DirectML's fields."""

    RAISE = "raise"
    """Refuse it: the error names the first offending tuple, and nothing is written."""
    CLAMP = "clamp"
    """Add the size to a negative index of a signed type, then take the nearest element."""

    @classmethod
    def _missing_(cls, value: object) -> IndexMode:
        if (member := read_name(cls, value, "")) is None:
            raise _no_member(cls, value, (repr(mode.value) for mode in cls))
        return member


class _Flags(enum.IntFlag, boundary=enum.STRICT, metaclass=SpelledType):
    """Flags that also read the names: one, or several with | between them."""

    if TYPE_CHECKING:

        def __new__(cls, value: Any) -> Self:
            """Take any of the spellings."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        flags = [name for name in cls.__members__ if name != "NONE"]
        if isinstance(value, str):
            members = [read_name(cls, part, cls._prefix()) for part in value.split("|")]
            if None not in members:
                return functools.reduce(lambda a, b: a | b, (member for member in members if member is not None))
        elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            try:
                return super()._missing_(value)
            except ValueError:
                pass
        raise _no_member(cls, value, ["NONE", *flags])

    @classmethod
    def _prefix(cls) -> str:
        raise NotImplementedError  # each enumeration of flags names its own


class TensorFlags(_Flags):
    """DML_TENSOR_FLAGS: options of a tensor description."""

    NONE = 0
    OWNED_BY_DML = 0x1
    """The data is copied when the operator is initialized, and is not bound when it runs. Inputs only."""

    @classmethod
    def _prefix(cls) -> str:
        return "DML_TENSOR_FLAG_"


class ExecutionFlags(_Flags):
    """DML_EXECUTION_FLAGS: options of a compilation."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 0x1
    """A permission that no engine here makes use of: sums of FLOAT16 stay exact."""
    DISABLE_META_COMMANDS = 0x2
    """Has no effect here: there are no meta commands."""
    DESCRIPTORS_VOLATILE = 0x4
    """Bindings may be set or changed between the recording of a dispatch and its execution."""

    @classmethod
    def _prefix(cls) -> str:
        return "DML_EXECUTION_FLAG_"
