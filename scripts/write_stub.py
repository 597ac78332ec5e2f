"""Write `src/anydml/__init__.pyi`: what is public, with the types of the functions that are derived from classes.

And `src/anydml/explain/callable.pyi`: the module `anydml.explain`, which is callable; and
`src/anydml/pydirectml/enums.pyi`: PyDirectML's enumerations, which are made of tables.

python -m scripts.write_stub
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import types
from collections.abc import Sequence
from dataclasses import MISSING
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import anydml
from anydml.api.derived import aliases_of
from anydml.api.describing import argument_name
from anydml.api.docstrings import document
from anydml.api.functions import WRITTEN, derived_classes, exact_classes
from anydml.api.numpy_names import FAMILIAR
from anydml.api.signatures import RENAMED, arguments_of, family_of, parameters_of
from anydml.core.enums import AxisDirection, DataType, IndexMode
from anydml.core.operator_type import function_name
from anydml.core.results import result_name
from anydml.operators import OPERATORS, OperatorDesc, ScaleBias
from anydml.operators.fused import FusedActivation
from anydml.operators.schema.fields import dml_name
from anydml.operators.schema.records import Computed
from anydml.pydirectml import enums
from scripts.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

STUB = Path(anydml.__file__).with_suffix(".pyi")
EXAMPLES = STUB.parent / "api" / "examples.json"
EXPLAIN_STUB = STUB.parent / "explain" / "callable.pyi"
ENUMS_STUB = STUB.parent / "pydirectml" / "enums.pyi"
HEAD = '''# mypy: disable-error-code="overload-overlap"
# Numbers alone are arrays, and with an expression belong to its graph.
"""The names of `import anydml`. Written by `python -m scripts.write_stub`."""

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from anydml.runtime.device import DeviceName
'''
TYPES = """
class _HasShape(Protocol):
    @property
    def shape(self) -> Any: ...

_S = TypeVar("_S", bound=np.generic)
_A = TypeVar("_A", bound=_HasShape)
_R = TypeVar("_R")
_Q = TypeVar("_Q")
_Number = float | np.number[Any] | np.bool_
_Plain = _Number | Sequence[Any]
_Device = Device | DeviceName | str
_Activation = FusedActivation | type[OperatorDesc] | OperatorType | str
_ScaleBias = ScaleBias | tuple[float, float]
_DataType = DataType | type[Any] | np.dtype[Any] | str"""
NAMES = {"AxisDirection | str": "_AxisDirection", "IndexMode | str": "_IndexMode",
         "DataType | str | type | Any": "_DataType"}  # fmt: skip
"""Types of the written functions as the stub has them."""
FAMILIAR_NAMES = {"Axis": "int | Sequence[int] | None", "Place": "_Device | None"}
"""Likewise of the thin functions."""
ALIASES: dict[Any, str] = {ScaleBias: "_ScaleBias", FusedActivation: "_Activation", DataType: "_DataType"}


def written(hint: Any) -> str:
    """A type as a stub has it: an enumeration as one of its members or their names."""
    if get_origin(hint) is Annotated:
        return written(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        is_spelled = any(isinstance(part, type) and issubclass(part, enum.Enum) for part in get_args(hint))
        return " | ".join(written(part) for part in get_args(hint) if not (part is str and is_spelled))
    if get_origin(hint) is Sequence:
        return f"Sequence[{written(get_args(hint)[0])}]"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ALIASES.get(hint) or f"_{hint.__name__}"
    return "None" if hint is type(None) else ALIASES.get(hint) or str(hint.__name__)


def spellings() -> list[str]:
    """The enumerations of attributes, each a member or the name of one."""
    found: dict[str, type[enum.Enum]] = {"AxisDirection": AxisDirection, "IndexMode": IndexMode}
    for cls in derived_classes().values():
        hints = get_type_hints(cls)
        for name in parameters_of(cls):
            for part in get_args(hints.get(name)):
                if isinstance(part, type) and issubclass(part, enum.Enum) and part not in ALIASES:
                    found[part.__name__] = part
    names = {key: [*part.__members__, *map(str.lower, part.__members__)] for key, part in found.items()}
    return [f"_{key} = {key} | Literal[{', '.join(map(repr, names[key]))}]" for key in sorted(names)]


def parameters(family: tuple[type[OperatorDesc], ...], tensors: dict[str, str]) -> str:
    """The parameters of a function, given the types of the inputs by their names."""
    hints = get_type_hints(family[-1], include_extras=True)
    optional = set(map(argument_name, family[-1].optional_outputs()))
    parts = []
    for name, default in arguments_of(*family).items():
        own = "axes" if name == "axis" and name not in hints else name
        hint = tensors.get(name) or ("bool" if name in optional else written(hints.get(own, Sequence[int])))
        if own == "axes":
            hint = f"int | {hint}"
        if default is None and "None" not in hint:
            hint += " | None"
        parts.append(f"{name}: {hint}" if default is MISSING else f"{name}: {hint} = ...")
    return ", ".join(parts)


def results_class(cls: type[OperatorDesc]) -> str:
    """The class of several results: those of the first one's types, of other types, and those that may be None."""
    names = cls.output_names()
    kinds = {name: [row.tensors[dml_name(name)].data_types for row in cls.support] for name in names}
    lines = [f"class _{cls.__name__}Results(NamedTuple, Generic[_R, _Q]):"]
    for name in names:
        kind = "Any" if name in cls.optional_outputs() else "_R" if kinds[name] == kinds[names[0]] else "_Q"
        lines.append(
            f"    {result_name(name)}: {kind}{'  # type: ignore[assignment]' * hasattr(tuple, result_name(name))}"
        )
    return "\n".join(lines)


def declare(name: str, *family: type[OperatorDesc]) -> str:
    """The overloads of a function: NumPy's arrays, other libraries', a graph's expressions, and what has no type."""
    outputs, cls = family[0].output_names(), family[-1]
    inputs = {dml_name(field): argument_name(field) for field in cls.input_names()}
    alike = cls.typed_alike() if issubclass(cls, Computed) else {}
    output = dml_name(cls.output_names()[0])
    like = alike.get(output, output)
    shares = like in inputs and inputs[like] not in map(argument_name, cls.optional_inputs())
    kept = {field: shares and alike.get(field, field) == like for field in inputs}
    arrays = {field: "NDArray[_S]" if kept[field] else "NDArray[Any]" for field in inputs}
    made = cls.result_type if issubclass(cls, Computed) else DataType.UINT8
    result = "NDArray[_S]" if shares else f"NDArray[np.{made.name.lower()}]" if made else "NDArray[Any]"
    plain = " | _Plain" if len(inputs) > 1 else ""
    both, nothing = "device: _Device | None = None", "out: None = None, device: None = None"
    cases: tuple[tuple[dict[str, str], str, str, str, str], ...] = (
        (arrays, " | _Plain", result, "NDArray[Any]", f"out: {{}} | None = None, {both}"),
        (dict.fromkeys(inputs, "_A"), " | _Plain", "_A", "_A", f"out: {{}} | None = None, {both}"),
        (dict.fromkeys(inputs, "Expression"), plain, "Expression", "Expression", nothing),
        (dict.fromkeys(inputs, "Any"), "", "Any", "Any", f"out: Any = None, {both}"),
    )
    lines: list[str] = []
    for own, others, one, other, options in cases:
        tensors = {argument: own[field] + others for field, argument in inputs.items()}
        several = len(outputs) > 1
        returned = f"_{cls.__name__}Results[{one}, {other}]" if several else one
        out = f"Sequence[{other}] | {one}" if several else one
        text = f"def {name}({parameters(family, tensors)}, *, {options.format(out)}) -> {returned}:"
        said = f'\n    """{document(*family).splitlines()[0]}"""'
        lines += ["@overload", f"{text} ..." if lines else text + said]
    return "\n".join(lines)


def declare_written(function: Callable[..., Any]) -> str:
    """The overloads of a function that is written: its own types, but those of arrays and of names."""
    given = inspect.signature(function).parameters.values()
    first = next(iter(given)).name
    plural = {"tensors": "Sequence[{}]"}.get(first, "{}")
    many = "tuple[{}, ...]" if function.__name__ == "split" else "{}"
    kept = "NDArray[Any]" if function.__name__ == "cast" else "NDArray[_S]"
    cases = [
        ("NDArray[_S]", kept, "_Device | None"),
        ("_A", "_A", "_Device | None"),
        ("Expression", "Expression", "None"),
        ("Any", "Any", "_Device | None"),
    ]
    lines: list[str] = []
    if first not in ("x", "tensors"):  # without inputs: a graph says that an expression is meant
        cases = [("array", "Any", "_Device | None"), ("Graph", "Expression", "None")]
    for array, result, device in cases:
        parts: list[str] = []
        is_named = False
        for one in given:
            hint = NAMES.get(str(one.annotation), str(one.annotation))
            if one.name == first and first in ("x", "tensors"):
                hint = plural.format(array) + (" | _Plain" if array == "NDArray[_S]" and first == "x" else "")
            elif one.name in ("indices", "sequence_lengths"):
                hint = "Expression | _Plain" if array == "Expression" else "Any"
            elif one.name == "device":
                hint = device
            elif one.name == "graph":
                hint = "Graph" if array == "Graph" else "None"
            elif one.name == "out":
                hint = "None" if device == "None" else "Any"
            if one.kind is one.KEYWORD_ONLY and not is_named:
                parts, is_named = [*parts, "*"], True
            parts.append(f"{one.name}: {hint}" + ("" if one.default is one.empty or hint == "Graph" else " = ..."))
        text = f"def {function.__name__}({', '.join(parts)}) -> {many.format(result)}:"
        said = f'\n    """{(function.__doc__ or "").splitlines()[0]}"""'
        lines += ["@overload", f"{text} ..." if lines else text + said]
    return "\n".join(lines)


def declare_familiar(function: Any) -> str:
    """A thin function with other names of its arguments, of which a type checker would not know."""
    own = inspect.signature(function)
    aliases = [
        own.parameters[name].replace(name=other, kind=inspect.Parameter.KEYWORD_ONLY, default=...)
        for other, name in aliases_of(inspect.unwrap(function)).items()
    ]
    parts: list[str] = []
    is_named = False
    for one in (*own.parameters.values(), *aliases):
        if one.kind is one.KEYWORD_ONLY and not is_named:
            parts, is_named = [*parts, "*"], True
        hint = FAMILIAR_NAMES.get(one.annotation, one.annotation)
        parts.append(f"{one.name}: {hint}" + ("" if one.default is one.empty else " = ..."))
    said = f'"""{(function.__doc__ or "").splitlines()[0]}"""'
    return f"def {function.__name__}({', '.join(parts)}) -> {own.return_annotation}:\n    {said}"


def imports() -> list[str]:
    """The imports of `__init__.py`, the operators' classes and the written functions, by their modules."""
    found = []
    for node in ast.parse(Path(anydml.__file__).read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found += [(node.module, alias.name) for alias in node.names if not (alias.asname or "").startswith("_")]
    found += [(cls.__module__, cls.__name__) for cls in OPERATORS.values()]
    found += [("anydml.api.numpy_names", one.__name__) for one in FAMILIAR if not aliases_of(inspect.unwrap(one))]
    modules: dict[str, list[str]] = {}
    for module, name in found:
        modules.setdefault(str(module), []).append(name)
    return [
        f"from {module} import " + ", ".join(f"{name} as {name}" for name in sorted(names))
        for module, names in sorted(modules.items())
    ]


def explain_stub() -> str:
    """`anydml.explain`, a module and a function, as a class: type checkers take its calls, and the types in it.

    A call gives a Picture, in the form of a class that inherits it. It has a file of its own, so that the site's reader
    of stubs does not take it for the module.
    """
    module = import_module("anydml.explain")
    classes = [name for name in module.__all__ if isinstance(getattr(module, name), type)]
    functions = [name for name in module.__all__ if isinstance(getattr(module, name), types.FunctionType)]
    used = ("Limits", "Picture", *functions)
    given = inspect.signature(module.explain).parameters.values()
    parts = [f"{'*' * (one.kind is one.VAR_POSITIONAL)}{one.name}: {one.annotation}" for one in given]
    options = [part if one.default is one.empty else f"{part} = ..." for part, one in zip(parts, given, strict=True)]
    return "\n".join(
        [
            "# Written by `python -m scripts.write_stub`.",
            "from collections.abc import Callable",
            "from anydml.core.enums import FeatureLevel, LevelName",
            f"from anydml.explain import {', '.join(f'{name} as _{name}' for name in used)}",
            "from anydml.operators import OperatorDesc",
            "",
            "class explain(_Picture):",
            f"    from anydml.explain import {', '.join(f'{name} as {name}' for name in classes)}",
            *(f"    {name} = staticmethod(_{name})" for name in functions),
            f"    def __init__(self, {', '.join(options)}) -> None: ...".replace(": Limits", ": _Limits"),
            "",
        ]
    )


def stub() -> str:
    """The whole text."""
    several = [cls for cls in derived_classes().values() if len(cls.output_names()) > 1]
    functions = [results_class(cls) for cls in several]
    functions += [declare(name, *family_of(cls)) for name, cls in sorted(derived_classes().items())]
    exact = exact_classes()
    functions += [declare(name, cls) for name, cls in exact.items() if len(family_of(cls)) > 1]
    renamed = RENAMED | {name: function_name(cls.type) for name, cls in exact.items() if len(family_of(cls)) == 1}
    functions += [declare_written(function) for function in WRITTEN]
    functions += [declare_familiar(one) for one in FAMILIAR if aliases_of(inspect.unwrap(one))]
    modules = [name for name in dir(anydml) if name not in anydml.__all__ and not name.startswith("_")]
    return "\n".join(
        [
            HEAD,
            *(f"from anydml import {name} as {name}" for name in modules if name != "explain"),
            "from anydml.explain.callable import explain as explain",
            *imports(),
            TYPES,
            *spellings(),
            "",
            "__version__: str",
            f"__all__ = {anydml.__all__!r}",
            "",
            *functions,
            *(f"{name} = {known}" for name, known in renamed.items()),
            "",
        ]
    )


def json_examples() -> str:
    """The examples, a line each."""
    lines = [f"{json.dumps(name)}: {json.dumps(example)}" for name, example in examples().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def enums_stub() -> str:
    """PyDirectML's enumerations, and the members that its module has."""
    lines = ["# Written by `python -m scripts.write_stub`.", "import enum"]
    for name, cls in enums.ENUMS.items():
        is_number = issubclass(cls, int)
        lines.append(f"class {name}(enum.{'IntEnum' if is_number else 'Enum'}):")
        lines += [f"    {key} = {member.value}" for key, member in cls.__members__.items()]
        lines += [] if is_number else [f"    def {method}(self) -> int: ..." for method in ("__int__", "__index__")]
    lines += ["ENUMS: dict[str, type[enum.Enum]]", "EXPORTS: dict[str, enum.Enum]"]
    lines += [f"{key} = {type(member).__name__}.{key}" for key, member in enums.EXPORTS.items()]
    return "\n".join([*lines, f"__all__ = {enums.__all__!r}", ""])


if __name__ == "__main__":
    STUB.write_text(stub())
    ENUMS_STUB.write_text(enums_stub())
    EXPLAIN_STUB.write_text(explain_stub())
    EXAMPLES.write_text(json_examples())
