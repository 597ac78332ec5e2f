"""The example of an operator's function, run: the page has the output that came, and it is the one that is promised."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import anydml as dml
from anydml.core.operator_type import function_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.pages.families import Operator


class Example(NamedTuple):
    """Code to type, and the output that it gives."""

    code: str
    output: str


def function_of(cls: Operator) -> Callable[..., object]:
    """The function of an operator."""
    found: Callable[..., object] = getattr(dml, function_name(cls.type))
    return found


def example_of(cls: Operator) -> Example:
    """The example in the function's docstring, with `dml.` before the function, and its output."""
    function = function_of(cls)
    told, *_ = doctest.DocTestParser().get_examples(inspect.getdoc(function) or "")
    code, promised = told.source.strip(), told.want
    code = re.sub(rf"(?<![\w.]){function.__name__}\(", f"dml.{function.__name__}(", code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, cls.__name__, "single"), {"np": np, "dml": dml})  # noqa: S102 - of this project
    output = printed.getvalue()
    if output != promised:
        message = f"{code}\ngives\n{output}\nwhere its docstring has\n{promised}"
        raise ValueError(message)
    return Example(code, output.rstrip("\n"))
