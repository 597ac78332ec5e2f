"""The meaning of each field of a description, in a sentence, and the choices of those that have some.

`meanings.json` has a line a field. Where operators mean different things by it, a line names them after the field, by
patterns such as `GATHER_ND*`: of the lines that match an operator the last one holds.
"""

from __future__ import annotations

import enum
import fnmatch
import functools
import textwrap
import typing
from typing import TYPE_CHECKING

from anydml.core.enums import FeatureLevel
from anydml.core.operator_type import function_name
from anydml.core.package_data import read_json
from anydml.operators.schema.fields import FIELD_TYPES, FieldType, dml_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.operators.schema.records import OperatorDesc

_MOST_CHOICES = 12
"""Data types, the one enumeration with more, are not listed."""
_WIDTH = 110


def by_name(file: str, name: str) -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """A file of meanings: by name, the patterns of those that it is meant for, none for all, and the meaning there."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for key, meaning in read_json(file, name).items():
        field, *patterns = key.split()
        found.setdefault(field, []).append((tuple(patterns), meaning))
    return found


def last_match(known: Sequence[tuple[tuple[str, ...], str]], subject: str) -> str:
    """Of several meanings the last one that is for a subject; "" for none."""
    matching = [
        meaning
        for patterns, meaning in known
        if not patterns or any(fnmatch.fnmatchcase(subject, pattern) for pattern in patterns)
    ]
    return matching[-1] if matching else ""


@functools.cache
def lines() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """By field, the patterns of operators, none for all of them, and what the field means there."""
    return by_name(__file__, "meanings.json")


def meaning_of(cls: type[OperatorDesc], name: str) -> str:
    """A sentence on a field of an operator, by its name in Python; "" for one that is not known."""
    return last_match(lines().get(dml_name(name), ()), cls.type.name)


def choices_of(cls: type[OperatorDesc], name: str) -> list[str]:
    """The names that a field takes, where it is of an enumeration."""
    if name in cls.choices:
        return [choice.name for choice in cls.choices[name]]
    return _members(cls.field_types()[name])


@functools.cache
def _members(kind: FieldType) -> list[str]:
    hints = [typing.get_args(hint)[0] for hint, one in FIELD_TYPES.items() if one is kind and typing.get_args(hint)]
    enumerations = [one for hint in hints for one in typing.get_args(hint) if isinstance(one, enum.EnumMeta)]
    return [member.name for one in enumerations for member in typing.cast("type[enum.Enum]", one)]


# Docstrings


def say(cls: type[OperatorDesc], name: str) -> str:
    """A field's meaning, with the types and the dimensions of a tensor, or the names that it takes."""
    kind, found = cls.field_types()[name], meaning_of(cls, name)
    if kind.kind in ("input", "output"):
        return f"{found} {cls.support.row_at(FeatureLevel.highest()).tensors[dml_name(name)]}."
    choices = choices_of(cls, name)
    return f"{found} One of {', '.join(choices)}." if 0 < len(choices) <= _MOST_CHOICES else found


def write_arguments(arguments: Mapping[str, str], title: str = "Args") -> str:
    """A section of a docstring: names and what they mean."""
    return "\n".join([f"{title}:", *(wrap(f"    {name}: {meaning}") for name, meaning in arguments.items())])


def wrap(line: str) -> str:
    """A line as several, where it is long."""
    if len(line) <= _WIDTH:  # most are, and the look at where words end takes 30 us
        return line
    return textwrap.fill(line, _WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False)


@functools.cache
def write_docstring(cls: type[OperatorDesc]) -> str:
    """A description's docstring: its class's words, then its fields."""
    function, level = function_name(cls.type), cls.introduced()
    name = f"DML_{cls.type.name}_OPERATOR_DESC, from feature level {level} on."
    others = f"See also: `{function}`, its function on arrays; `support`, its types at each level."
    fields = write_arguments({key: say(cls, key) for key in cls.field_types()})
    return "\n\n".join(filter(None, [cls.own_words(), name, fields, others]))
