"""The fields of every operator as DirectML's reference lists them: the judge of the classes' annotations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FIELDS: dict[str, list[str]] = json.loads(Path(__file__).with_name("reference_fields.json").read_text())
"""By operator, a line a field: `Axis: attribute UINT`."""


@dataclass(frozen=True, slots=True)
class FieldFact:
    """A field as the reference lists it."""

    name: str
    kind: str
    """`input`, `output` or `attribute`."""
    type: str
    """As DirectML's schema names it: `TENSOR_DESC`, `UINT_ARRAY`."""
    enum: str
    """The enumeration that a number belongs to, where it does."""
    is_optional: bool


def fields_of(operator: str) -> list[FieldFact]:
    """The fields of an operator, by its name, in DirectML's order."""
    found = []
    for line in FIELDS[operator]:
        name, rest = line.split(": ")
        role, type_name, *more = rest.split()
        enum = next((word for word in more if word != "optional"), "")
        found.append(FieldFact(name, role, type_name, enum, "optional" in more))
    return found
