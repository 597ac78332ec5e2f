"""The meaning of each field of a description, in a sentence, and the choices of those that have some.

`meanings.json` has a line a field. Where operators mean different things by it, a line names them after the field, by
patterns such as `GATHER_ND*`: of the lines that match an operator the last one holds.
"""

from __future__ import annotations

import enum
import fnmatch
import functools
import typing
from typing import TYPE_CHECKING

from anydml.core.package_data import read_json
from anydml.operators.schema.fields import dml_name

if TYPE_CHECKING:
    from anydml.operators.schema.records import OperatorDesc


@functools.cache
def lines() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """By field, the patterns of operators, none for all of them, and what the field means there."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for key, meaning in read_json(__file__, "meanings.json").items():
        field, *patterns = key.split()
        found.setdefault(field, []).append((tuple(patterns), meaning))
    return found


def meaning_of(cls: type[OperatorDesc], name: str) -> str:
    """A sentence on a field of an operator, by its name in Python; "" for one that is not known."""
    operator = cls.type.name
    matching = [
        meaning
        for patterns, meaning in lines().get(dml_name(name), ())
        if not patterns or any(fnmatch.fnmatchcase(operator, pattern) for pattern in patterns)
    ]
    return matching[-1] if matching else ""


def choices_of(cls: type[OperatorDesc], name: str) -> list[str]:
    """The names that a field takes, where it is of an enumeration."""
    if name in cls.choices:
        return [choice.name for choice in cls.choices[name]]
    hint = typing.get_type_hints(cls)[name]
    members = [kind for kind in typing.get_args(hint) or [hint] if isinstance(kind, enum.EnumMeta)]
    return [member.name for kind in members for member in typing.cast("type[enum.Enum]", kind)]
