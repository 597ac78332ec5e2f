"""Arguments as pybind11 reads them, and what is raised for those that it refuses."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from anydml.arrays.view import describe
from anydml.core.errors import DescriptionError, Fault

T = TypeVar("T")
REQUIRED: Any = object()
"""The default of arguments without one that follow arguments with one: pybind11 has such."""


class ArgumentError(DescriptionError, TypeError):
    """An argument of a type, or of a value, that a function of PyDirectML does not take. pybind11 raises TypeError."""


def refuse(subject: str, field: str, rule: str, value: object, way_out: str = "") -> NoReturn:
    """Say what an argument must be."""
    fault = Fault(field=field, rule=f"{field} must be {rule}", value=value, found=describe(value), way_out=way_out)
    raise ArgumentError(subject, fault)


def an(subject: str, field: str, cls: type[T], value: object) -> T:
    """An argument that must be of a class."""
    if not isinstance(value, cls):
        article = "an" if cls.__name__[0] in "AEIOU" else "a"
        refuse(subject, field, f"{article} {cls.__name__}", value)
    return value


def several(subject: str, field: str, cls: type[T], values: Any) -> list[T]:
    """An argument that must be a list of a class."""
    if not isinstance(values, (list, tuple)):
        refuse(subject, field, f"a list of {cls.__name__}", values)
    return [an(subject, f"{field}[{i}]", cls, value) for i, value in enumerate(values)]


def made_elsewhere(cls: type, way_out: str) -> NoReturn:
    """Say that a class has no constructor."""
    rule = f"{cls.__name__} has no constructor"
    raise ArgumentError(cls.__name__, Fault(field=cls.__name__, rule=rule, way_out=way_out))


def as_argument_error(error: DescriptionError) -> ArgumentError:
    """The same faults as those of arguments."""
    return ArgumentError(error.subject, error.faults)


def complete(function: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function, where none is missing."""
    faults = [Fault(field=name, rule=f"{name} must be given") for name, value in given.items() if value is REQUIRED]
    if faults:
        raise ArgumentError(function, faults)
    return given


def without_empty(given: dict[str, Any], *required: str) -> dict[str, Any]:
    """The arguments but for empty lists, which stand for the operator's defaults where it has any."""
    return {name: x for name, x in given.items() if name in required or not isinstance(x, (list, tuple)) or x}
