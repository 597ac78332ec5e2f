"""The page of an operator, from its class: fields, levels and types, rules, formula, picture and example."""

from __future__ import annotations

import dataclasses
import enum
import html
import inspect
from typing import TYPE_CHECKING

from anydml.core.enums import FeatureLevel
from anydml.core.package_data import read_json
from anydml.operators.schema.facts import write_counts, write_types
from anydml.operators.schema.fields import dml_name
from anydml.operators.schema.meanings import choices_of, meaning_of
from scripts.pages.drawing import command_of, frame_picture
from scripts.pages.running import example_of, function_of
from scripts.pages.wording import formula, is_left_open, sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.operators.schema.facts import LevelSupport
    from scripts.pages.families import Operator

_WIDEST = 88
"""Letters in a line of code."""
_LAST_OF_SDK = FeatureLevel("5_0")
_DROPPED = ("Affine", "ParametricSoftplus", "ScaledTanh", "SimplifiedLayerNormalization")
"""Node types of ONNX's own domain that it has not, or no longer."""
_MOST_CHOICES = 12
"""Data types are more, and the levels' table has those that are taken."""


def names_of(cls: Operator) -> dict[str, list[str]]:
    """The names of an operator in ONNX and WebNN, and other words that people look for it by."""
    known = read_json(__file__, "names.json").get(cls.type.name, {})
    return {key: known.get(key, "").split() for key in ("onnx", "webnn", "words")}


def operator_page(cls: Operator) -> str:
    """The whole page."""
    sections = (_head(cls), _example(cls), _picture(cls), _fields(cls), _levels(cls), _rules(cls), _elsewhere(cls))
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _head(cls: Operator) -> Iterator[str]:
    yield f"# {cls.type.name}\n"
    yield f"`dml.{cls.__name__}` · `dml.{function_of(cls).__name__}` · from feature level {cls.introduced()}"
    for paragraph in sentences(cls):
        if told := [one for one in paragraph if not is_left_open(one)]:
            yield f"\n{escape(' '.join(told))}"
    if text := formula(cls):
        yield f"\n## Formula\n\n```text\n{text}\n```"
    if left_open := [one for paragraph in sentences(cls) for one in paragraph if is_left_open(one)]:
        yield '\n!!! info "Where DirectML\'s documents are silent"\n'
        yield f"    {escape(' '.join(left_open))}"


def _example(cls: Operator) -> Iterator[str]:
    found, function = example_of(cls), function_of(cls)
    parameters = map(_parameter, inspect.signature(function).parameters.values())
    yield f"## Example\n\n```python\n{_call(function.__name__, list(parameters))}\n```\n"
    yield f"```python\nimport numpy as np\nimport anydml as dml\n\n{found.code}\n```\n"
    yield f'```text title="Output"\n{found.output}\n```'


def _call(name: str, parameters: list[str]) -> str:
    """A call in lines that need no scrolling."""
    whole = f"dml.{name}({', '.join(parameters)})"
    indent = " " * 4
    return whole if len(whole) <= _WIDEST else f"dml.{name}(\n{indent}{f',{chr(10)}{indent}'.join(parameters)},\n)"


def _parameter(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={repr(default.name.lower()) if isinstance(default, enum.Enum) else repr(default)}"


def _picture(cls: Operator) -> Iterator[str]:
    yield f"## Picture\n\n{frame_picture(cls)}\n"
    yield f"```sh\n{command_of(cls)}\n```\n"
    yield "`--html FILE` writes a page on which pointing at an element shows the elements that it comes from."


def _fields(cls: Operator) -> Iterator[str]:
    yield "## Fields\n"
    yield "The second name is the one in Python.\n"
    yield "| field | kind | meaning |\n| --- | --- | --- |"
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    for name, kind in cls.field_types().items():
        text, default = meaning_of(cls, name), defaults[name]
        choices = choices_of(cls, name)
        if 0 < len(choices) <= _MOST_CHOICES:
            text += f" One of {', '.join(choices)}."
        if default is None:
            text += " May be left out."
        elif default is not dataclasses.MISSING:
            text += f" {default.name if isinstance(default, enum.Enum) else default} by default."
        yield f"| `{dml_name(name)}`<br>`{name}` | {kind.kind}<br>{kind.type} | {escape(text)} |"


def _levels(cls: Operator) -> Iterator[str]:
    yield "## Feature levels and types\n"
    yield "A row holds from its level upward, until a higher one replaces it.\n"
    yield "| from level | tensors | dimensions | data types |\n| --- | --- | --- | --- |"
    for row in sorted(cls.support, key=lambda row: (row.functions, row.level)):
        level = f"{row.level}, {', '.join(row.functions)}" if row.functions else str(row.level)
        for tensors, counts, types in _alike(row):
            yield f"| {level} | {tensors} | {counts} | {types} |"
            level = ""


def _alike(row: LevelSupport) -> Iterator[tuple[str, str, str]]:
    """The tensors of a row that take the same, together."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, tensor in row.tensors.items():
        taken = write_counts(tensor.dimension_counts), write_types(tensor.data_types)
        found.setdefault(taken, []).append(f"{name} (required)" if name in row.required else name)
    for (counts, types), names in found.items():
        yield ("all" if len(found) == 1 and len(names) > 1 else ", ".join(names)), counts, types


def _rules(cls: Operator) -> Iterator[str]:
    yield "## Rules\n"
    yield " ".join(inspect.cleandoc(method.__doc__ or "") for method in (cls.rules, cls.output_rules))
    yield (
        "\nAn output may have the very memory of an input: the operator runs in place."
        if cls.in_place
        else ("\nAn output has memory of its own: the operator does not run in place.")
    )


def _elsewhere(cls: Operator) -> Iterator[str]:
    names = names_of(cls)
    yield "## Elsewhere\n"
    yield f"- DirectML: [DML_{cls.type.name}_OPERATOR_DESC]({reference_of(cls)})"
    yield f"- ONNX: {', '.join(map(link_to_node, names['onnx'])) or 'no node type of its own'}"
    yield f"- WebNN: {', '.join(f'`{name}`' for name in names['webnn']) or 'no method of its own'}"
    if names["words"]:
        yield f"- Also found by: {html.escape(', '.join(names['words']))}"


def reference_of(cls: Operator) -> str:
    """Microsoft's page: operators up to level 5_0 are in the Windows SDK's header, later ones in DirectML's package."""
    place = "win32/api/directml" if cls.introduced() <= _LAST_OF_SDK else "ai/directml/api"
    return f"https://learn.microsoft.com/windows/{place}/ns-directml-dml_{cls.type.name.lower()}_operator_desc"


def link_to_node(name: str) -> str:
    """An ONNX node type with its page: ONNX's, ONNX Runtime's for its own, none for what both have dropped."""
    if name in _DROPPED:
        return f"`{name}`"
    own = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#"
    page = f"{own}{name.lower()}" if "." in name else f"https://onnx.ai/onnx/operators/onnx__{name}.html"
    return f"[{name}]({page})"


def escape(text: str) -> str:
    """Text in which nothing is markup, also in a table."""
    for letter in "\\*|[]{}":
        text = text.replace(letter, f"\\{letter}")
    return html.escape(text, quote=False)
