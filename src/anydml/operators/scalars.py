"""Numbers in descriptions: DML_SCALAR_UNION, read by the type that stands beside it, and DML_SCALE_BIAS."""

from __future__ import annotations

import numbers
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, show
from anydml.ir.verbs import Exact

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def type_faults(number: float, data_type: DataType, field: str, *, is_step: bool = False) -> Iterator[Fault]:
    """Check that a type has a number: an integer type has whole ones of its range, a float type every one.

    A step may go down where the type has no sign: the documents count 10, 8, 6 in UINT8.
    """
    if data_type.is_float:
        return
    limits = np.iinfo(data_type.dtype)
    low = -int(limits.max) if is_step else int(limits.min)
    if isinstance(number, float) and not number.is_integer():
        rule = f"{field} must be a whole number, being of {data_type.name}"
        yield Fault(field=field, rule=rule, value=number, found=show(number))
    elif not low <= number <= limits.max:
        rule = f"{field} must lie in {low} .. {limits.max}, being of {data_type.name}"
        yield Fault(field=field, rule=rule, value=number, found=show(number))
