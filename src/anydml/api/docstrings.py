"""Docstrings of functions: what an operator's class says, then arguments, results and an example, from its facts."""

from __future__ import annotations

import functools
import inspect
import re
from typing import TYPE_CHECKING

from anydml.api.describing import argument_name
from anydml.api.signatures import RENAMED, choices_of, exact_name, signature_of
from anydml.core.operator_type import OperatorType, function_name
from anydml.core.package_data import read_json
from anydml.core.results import result_name
from anydml.operators import OPERATORS
from anydml.operators.reductions import Folding
from anydml.operators.schema.meanings import by_name, last_match, meaning_of, say, wrap, write_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from anydml.operators import OperatorDesc

_LIBRARY = "An array of the library of those that are given; of expressions, an expression."
_MADE = "An array, on a GPU PyTorch's; an expression where a graph is given."


def document(*family: type[OperatorDesc]) -> str:
    """The docstring of a derived function: the operator's name, what its class says of it, and its arguments."""
    cls = family[-1]
    call, result = _examples().get(function_name(family[0].type), ("", ""))
    arguments = {name: _meaning(family, name) for name in signature_of(*family).parameters}
    parts = [
        _head(cls),
        " ".join(_notes(family)),
        write_arguments(arguments),
        _returns(family[0]),
        _see_also([cls], _relatives(family)),
        f">>> {call}\n{result}" if call else "",
    ]
    return "\n\n".join(filter(None, parts))


def _head(cls: type[OperatorDesc]) -> str:
    text = cls.own_words()
    word = text.partition(" ")[0]
    text = text[:1].lower() + text[1:] if word.isalpha() and word[1:].islower() else text
    return f"{cls.type.name}: {text}"


def _notes(family: tuple[type[OperatorDesc], ...]) -> list[str]:
    """What holds of all functions of a kind, and what is called otherwise elsewhere."""
    cls = family[-1]
    notes = []
    if len(cls.input_names()) > 1 and cls.broadcasts:
        notes.append(
            "Sizes broadcast as NumPy's do, and numbers or lists of them take the type of an array beside them."
        )
    elif len(cls.input_names()) > 1 and issubclass(cls, Folding):
        notes.append("The other arrays repeat along `x` as NumPy's do.")
    if cls.in_place:
        notes.append("`out=x` works in place." if len(cls.input_names()) == 1 else "`out` may be an input.")
    if len(family) > 1:
        exact = [function_name(one.type) for one in family[1:]]
        older = exact_name(family[0])
        exact += [older] if older != function_name(family[0].type) else []
        told = f"`{exact[0]}` is" if len(exact) == 1 else f"{' and '.join(f'`{name}`' for name in exact)} are each"
        notes.append(f"A level that lacks it has an older operator compute it; {told} exactly one operator.")
    if others := [name for name, known in RENAMED.items() if known == function_name(cls.type)]:
        notes.append(f"Elsewhere it is called {', '.join(f'`{name}`' for name in others)}, which stand for it here.")
    return notes


def _meaning(family: tuple[type[OperatorDesc], ...], name: str) -> str:
    """What an argument of a derived function means: an input, an attribute, or an output to ask for."""
    cls = family[-1]
    inputs = {argument_name(field): field for field in cls.input_names()}
    outputs = {argument_name(field): field for field in cls.optional_outputs()}
    if name in inputs:
        return say(cls, inputs[name])
    if name in outputs and name in choices_of(family):
        return f"Whether to give `{result_name(outputs[name])}`: {meaning_of(cls, outputs[name])}"
    field = "axes" if name == "axis" and name not in cls.field_types() else name
    if field not in cls.field_types():
        return last_match(_arguments()[field], function_name(cls.type))
    way = ' A name, such as "relu", or `FusedActivation("elu", alpha=0.5)`.'
    return say(cls, field) + way * (field == "fused_activation")


def _returns(cls: type[OperatorDesc], library: str = _LIBRARY) -> str:
    outputs = cls.output_names()
    if any(cls.field_types()[name].is_tensor_array for name in outputs):
        return f"Returns:\n    A tuple of arrays. {meaning_of(cls, outputs[0])}"
    if len(outputs) == 1:
        return f"Returns:\n    {meaning_of(cls, outputs[0])} {library}"
    asked = cls.optional_outputs()
    unless = {name: f" None without `{argument_name(name)}`." * (name in asked) for name in outputs}
    told = {result_name(name): f"{meaning_of(cls, name)}{unless[name]}" for name in outputs}
    return write_arguments({"A named tuple": f"{', '.join(told)}.", **told}, "Returns")


def _relatives(family: tuple[type[OperatorDesc], ...]) -> list[str]:
    """Other versions, and the gradient of a function or what it is the gradient of."""
    own = {function_name(cls.type) for cls in family}
    stem = re.sub(r"(_training)?(_grad)?\d*$", "", function_name(family[0].type))
    functions = [function_name(kind) for kind in OPERATORS]
    return [one for one in functions if re.fullmatch(rf"{stem}(_training)?(_grad)?\d*", one) and one not in own]


def _see_also(classes: Sequence[type[OperatorDesc]], functions: Sequence[str]) -> str:
    found = [f"`{cls.__name__}`, the operator's description" for cls in classes]
    found += [f"`{name}`" for name in functions]
    return wrap(f"See also: {'; '.join(found)}.") if found else ""


def complete(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is written, with its arguments and results in its docstring, before the example."""
    name, text = function.__name__, inspect.cleandoc(function.__doc__ or "")
    cls = next((cls for kind, cls in OPERATORS.items() if function_name(kind) == name), None)
    arguments = {key: _said_of_written(name, cls, key) for key in inspect.signature(function).parameters}
    before, mark, example = text.partition("\n\n>>> ")
    kinds = re.findall(r"\b[A-Z][A-Z0-9_]+\b", before.partition("\n\n")[0])
    members = OperatorType.__members__
    found = [OPERATORS[members[kind]] for kind in kinds if kind in members and members[kind] in OPERATORS]
    see_also = _see_also(found, []) if cls else _see_also([], [function_name(one.type) for one in found])
    library = _MADE if "graph" in arguments else _LIBRARY
    returns = f"Returns:\n    {library}" if cls is None else _returns(cls, library)
    function.__doc__ = "\n\n".join(filter(None, [before, write_arguments(arguments), returns, see_also]))
    function.__doc__ += mark + example
    return function


def _said_of_written(name: str, cls: type[OperatorDesc] | None, key: str) -> str:
    """What an argument means: by the function's own name for it, or as the operator's field."""
    own = last_match(_arguments().get(key, ()), name)
    field = "input_tensor" if key == "x" else key
    fields: Mapping[str, Any] = {} if cls is None else cls.field_types()
    known = next((one for one in (field, f"{field}_tensor") if one in fields), None)
    return own if cls is None or known is None else say(cls, known)


@functools.cache
def _arguments() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """What arguments mean that are no field of an operator's."""
    return by_name(__file__, "arguments.json")


@functools.cache
def _examples() -> dict[str, tuple[str, str]]:
    """A call of each function and its result, as `scripts/examples.py` finds them."""
    found: dict[str, tuple[str, str]] = read_json(__file__, "examples.json")
    return found
