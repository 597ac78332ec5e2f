"""The functions: DirectML's operators on arrays of any library, with NumPy's habits.

Ranks are the arrays' own, negative axes count from the end, the result is a new array of the caller's library unless
`out` is given, and `device` says where and at which feature level to run: where the first array lies, if not given.
Given expressions of a graph, a function adds a node to it and gives an expression.

Every operator has a function. Those that do more than its description says are written; the others are derived from
the class when they are first asked for. DirectML has no booleans: comparisons give uint8, or write to an `out` of
booleans, and an array of booleans is read as uint8.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from anydml.api import (
    overloads,  # noqa: F401 - Python's operators on expressions
    written,
)
from anydml.api.derived import function_of, newest_function_of, renamed_function, worded  # noqa: F401 - of these names
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import function_name
from anydml.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.operators import OperatorDesc

_AS_WRITTEN = tuple(
    one
    for name, one in vars(written).items()
    if name[0] != "_" and isinstance(one, FunctionType) and one.__module__ == written.__name__
)
globals().update({one.__name__: one for one in _AS_WRITTEN})
WRITTEN = tuple(map(worded, _AS_WRITTEN))


def derived_classes() -> dict[str, type[OperatorDesc]]:
    """The operators whose functions are derived, by the functions' names."""
    own = {function.__name__ for function in WRITTEN}
    names = {function_name(kind): cls for kind, cls in OPERATORS.items()}
    return {name: cls for name, cls in names.items() if name not in own}


def function_names() -> list[str]:
    """The names of all functions."""
    return sorted([*derived_classes(), *(function.__name__ for function in WRITTEN)])


def exact_classes() -> dict[str, type[OperatorDesc]]:
    """The operators by their whole names, `activation_softmax`: a function of that name is of exactly that operator."""
    names = {cls.type.name.lower(): cls for cls in derived_classes().values()}
    return {name: cls for name, cls in names.items() if name != function_name(cls.type)}


def __getattr__(name: str) -> Callable[..., Any]:
    if not name.startswith("_") and (cls := derived_classes().get(name)) is not None:
        return newest_function_of(cls)
    if not name.startswith("_") and (cls := exact_classes().get(name)) is not None:
        return function_of(cls)
    import_alone("anydml.api.unknown")
    from anydml.api.unknown import word_unknown  # for errors alone

    raise AttributeError(word_unknown(name, dict.fromkeys(function_names())), name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *function_names()})
