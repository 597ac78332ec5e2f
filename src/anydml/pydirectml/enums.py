"""PyDirectML's enumerations as pybind11 makes them: with `name`, `value` and `int()`, and exported to the module.

`enums.pyi`, which `python -m scripts.write_stub` writes, has them for type checkers.
"""

from __future__ import annotations

import enum

from anydml.core import enums as own
from anydml.core.operator_type import OperatorType as _AllTypes


class Enumeration(enum.Enum):
    """A member is a number only where one is asked for."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


class Arithmetic(enum.IntEnum):
    """One whose members compute as numbers do: `py::arithmetic`."""

    __str__ = enum.Enum.__str__


def _members(*names: str) -> dict[str, int]:
    return {name: value for value, name in enumerate(names)}


_LAST_TYPE, _LAST_OPERATOR = own.DataType.INT64, _AllTypes.RESAMPLE  # of those that PyDirectML knows
_TABLE: dict[str, dict[str, int]] = {
    "TensorDataType": {"UNKNOWN": 0, **{t.name: t.value for t in own.DataType if t <= _LAST_TYPE}},
    "TensorFlags": {name: flag.value for name, flag in own.TensorFlags.__members__.items()},
    "MatrixTransform": {name: option.value for name, option in own.MatrixTransform.__members__.items()},
    "RecurrentNetworkDirection": _members("FORWARD", "BACKWARD", "BIDIRECTIONAL"),
    "OutputOptions": _members("Both", "Sequence", "Single"),
    "ConvolutionMode": _members("CONVOLUTION", "CROSS_CORRELATION"),
    "ConvolutionDirection": _members("FORWARD", "BACKWARD"),
    "InterpolationMode": _members("NEAREST_NEIGHBOR", "LINEAR"),
    "PaddingMode": _members("CONSTANT", "EDGE", "REFLECTION"),
    "ExecutionFlags": {name: flag.value for name, flag in own.ExecutionFlags.__members__.items()},
    "OperatorType": {kind.name: kind.value for kind in _AllTypes if kind <= _LAST_OPERATOR},
}
_ARITHMETIC, _NOT_EXPORTED = ("OutputOptions", "ExecutionFlags"), ("OutputOptions",)

ENUMS: dict[str, type[enum.Enum]] = {
    name: (Arithmetic if name in _ARITHMETIC else Enumeration)(name, members, module="anydml.pydirectml")  # type: ignore[misc, arg-type]  # enum's way to make one of a table
    for name, members in _TABLE.items()
}
for _cls in ENUMS.values():
    _cls.__doc__ = f"PyDirectML's {_cls.__name__}: {', '.join(_cls.__members__)}."
EXPORTS: dict[str, enum.Enum] = {
    key: member for name, cls in ENUMS.items() if name not in _NOT_EXPORTED for key, member in cls.__members__.items()
}
"""The members that the module has as well. Of two of one name it has the later: `NONE` is of ExecutionFlags."""
globals().update(EXPORTS, **ENUMS)
__all__ = [*ENUMS, *EXPORTS]
