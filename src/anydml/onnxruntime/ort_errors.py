"""ONNX Runtime's errors by its names, which are ours as well: the message says operator, field, rule and way out.

ONNX Runtime raises a few of its refusals as Python's own errors. A class here is one of those too, so that a program
which catches ValueError, RuntimeError or TypeError catches what it did.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from anydml.arrays.view import describe
from anydml.core.errors import (
    BindingError,
    DeviceLostError,
    DmlError,
    Fault,
    IndexRangeError,
    MissingDependencyError,
    ModelError,
    ModelFileError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fail(ModelError, RuntimeError):
    """A model whose shapes or values cannot be, found when it is compiled or run."""


class InvalidArgument(BindingError, RuntimeError):
    """An array, a name or an option that does not fit what it is given for."""


class InvalidType(InvalidArgument, TypeError):
    """An argument of a type that is not taken there."""


class UnknownField(InvalidArgument, AttributeError):
    """A field that options do not have: a misspelt one."""


class NoSuchFile(ModelFileError, RuntimeError):
    """A model file that is not there."""


class NoModel(ModelFileError, RuntimeError):
    """A session without a model."""


class EngineError(DmlError, RuntimeError):
    """An engine that failed."""


class RuntimeException(DmlError, RuntimeError):
    """Memory that ran out, and anything else that is nobody's mistake."""


class InvalidProtobuf(ModelFileError, RuntimeError):
    """A file that is no ONNX model."""


class ModelLoaded(ModelFileError, RuntimeError):
    """A model that is loaded already."""


class NotImplemented(UnsupportedError):
    """Something that ONNX or ONNX Runtime has, and this version does not."""


class InvalidGraph(ModelFileError, RuntimeError):
    """A model that breaks ONNX's rules."""


class EPFail(MissingDependencyError):
    """An execution provider whose engine is not there."""


def renamed(error: DmlError) -> DmlError:
    """The same error by ONNX Runtime's name of it."""
    if type(error).__module__ == __name__:
        return error
    found = _class_for(error)(error.subject, error.faults)
    found.hresult = error.hresult  # type: ignore[misc]  # the code of our class, where the new one has another
    found.__cause__ = error.__cause__
    return found


def _class_for(error: DmlError) -> type[DmlError]:
    if isinstance(error, ModelFileError):
        # What is wrong with a file, and not with what it says, has no field.
        return InvalidGraph if error.field else InvalidProtobuf
    if isinstance(error, DeviceLostError):
        return EPFail
    if isinstance(error, (BindingError, IndexRangeError)):
        return RuntimeException if error.field == "memory" else InvalidArgument
    if isinstance(error, UnsupportedError):
        return NotImplemented
    if isinstance(error, MissingDependencyError):
        return EPFail
    return Fail


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Raise errors by ONNX Runtime's names."""
    try:
        yield
    except DmlError as error:
        raise renamed(error) from error.__cause__


def refuse(subject: str, field: str, rule: str, found: str = "", way_out: str = "") -> InvalidArgument:
    """An argument that breaks a rule."""
    return InvalidArgument(subject, Fault(field=field, rule=rule, found=found, way_out=way_out))


def refuse_type(subject: str, field: str, wanted: str, value: object, way_out: str = "") -> InvalidType:
    """An argument of a wrong type."""
    rule, found = f"{field} must be {wanted}", describe(value)
    name, library = type(value).__name__, type(value).__module__.partition(".")[0]
    if name in wanted.split():  # a program that imports both
        found, way_out = f"{library}'s", f"use anydml.onnx.{name}"
    fault = Fault(field=field, rule=rule, value=value, found=found, way_out=way_out)
    return InvalidType(subject, fault)
