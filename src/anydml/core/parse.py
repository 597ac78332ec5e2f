"""Readers of field values: each returns the parsed value, or adds a fault and returns a stand-in.

One call reads one field, so that every field of a description can be read before any fault is reported.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeVar

from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.symbolic_sizes import OpenSize

if TYPE_CHECKING:
    import enum

UINT32_MAX = 2**32 - 1
INT32_MAX = 2**31 - 1
UINT64_MAX = 2**64 - 1
# A longer list is no list of dimensions; it is not walked through.
_LONGEST_LIST = 64

E = TypeVar("E", bound="enum.Enum")


def read_int(
    value: object, field: str, faults: list[Fault], low: int = 0, high: int = UINT32_MAX, way_out: str = ""
) -> int:
    """Read a whole number of a range; booleans and floats are not whole numbers."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number: Any = value if type(value) is OpenSize else operator.index(value)  # type: ignore[arg-type]  # asked here
    except Exception:  # noqa: BLE001 - a hostile __index__ may raise anything
        faults.append(Fault(field=field, rule=f"{field} must be a whole number", value=value, found=show(value)))
        return low
    if low <= number <= high:
        return number  # type: ignore[no-any-return]  # which is an int, or as good as one
    rule = f"{field} must lie in {low} .. {high}"
    if high >= INT32_MAX:  # the end of a type's range, which nobody has in mind
        rule = f"{field} must be at least {low}" if number < low else f"{field} must be at most {high}"
    way_out = way_out if number < low else ""
    faults.append(Fault(field=field, rule=rule, value=value, found=show(number), way_out=way_out))
    return int(min(max(number, low), high))


def read_ints(
    value: object,
    field: str,
    faults: list[Fault],
    low: int = 0,
    high: int = UINT32_MAX,
    way_out: str = "",
    most: int = _LONGEST_LIST,
) -> tuple[int, ...]:
    """Read a list of whole numbers; a number alone is a list of one, as NumPy has it. `way_out` is for those below."""
    if isinstance(value, tuple) and all(type(item) is int and low <= item <= high for item in value):
        return value
    try:
        items = _items(value, most)
    except Exception:  # noqa: BLE001 - a hostile sequence may raise anything
        items = None
    if items is None:
        what = "one for each dimension" if most == _LONGEST_LIST else f"{most} at most"
        rule = f"{field} must be a list of whole numbers, {what}"
        faults.append(Fault(field=field, rule=rule, value=value, found=show(value)))
        return ()
    return tuple(read_int(item, f"{field}[{i}]", faults, low, high, way_out) for i, item in enumerate(items))


def _items(value: Any, most: int) -> list[object] | None:
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)):
        return None
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):
        return [value]
    return list(value) if 0 <= len(value) <= most else None


def read_bool(value: object, field: str, faults: list[Fault]) -> bool:
    """Read a truth value: a boolean, or DirectML's 0 and 1."""
    if isinstance(value, bool):
        return value
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # what is no whole number raises
        if number in (0, 1):
            return bool(number)
    except Exception:  # noqa: BLE001 - as above
        if type(value).__name__ in ("bool", "bool_"):  # NumPy's, which is no index
            return bool(value)
    faults.append(Fault(field=field, rule=f"{field} must be True or False", value=value, found=show(value)))
    return False


def read_enum(cls: type[E], value: object, field: str, faults: list[Fault], stand_in: E) -> E:
    """Read a member of an enumeration in any of its spellings."""
    if isinstance(value, cls):
        return value
    try:
        return cls(value)
    except DescriptionError as error:
        fault = error.faults[0]
        faults.append(
            Fault(
                field=field,
                rule=f"{field} {fault.rule}",
                value=value,
                found=fault.found,
                way_out=fault.way_out,
            )
        )
    except Exception:  # noqa: BLE001 - an unhashable or hostile value
        faults.append(Fault(field=field, rule=f"{field} must be a {cls.__name__}", value=value, found=show(value)))
    return stand_in
