"""Facts of DirectML's reference on its 177 operators, as data: fields, feature levels, types and dimension counts.

`facts.json` has a line a field, such as `Axis: attribute UINT`, and a line a level, such as `"InputTensor": "1-8; f32
f16"`: the dimension counts, then the types, then what the sizes are called where the documents name them. A level's
line holds from that level upward until a higher one replaces it; `required` names tensors that are optional later.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType, FeatureLevel
from anydml.core.package_data import read_json
from anydml.operators.tables import LevelSupport, SupportTable, TensorSupport

if TYPE_CHECKING:
    from collections.abc import Collection

    from anydml.core.operator_type import OperatorType

_NO_TENSORS = ("level", "functions", "required")
_LETTERS = {"f": "FLOAT", "i": "INT", "u": "UINT"}


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


@functools.cache
def _facts() -> dict[str, Any]:
    found: dict[str, Any] = read_json(__file__, "facts.json")
    return found


def fields_of(kind: OperatorType) -> list[FieldFact]:
    """The fields of an operator, in DirectML's order."""
    found = []
    for line in _facts()[kind.name]["fields"]:
        name, rest = line.split(": ")
        role, type_name, *more = rest.split()
        enum = next((word for word in more if word != "optional"), "")
        found.append(FieldFact(name, role, type_name, enum, "optional" in more))
    return found


def runs_in_place(kind: OperatorType) -> bool:
    """Whether the output may be bound to the very memory of the input."""
    found: bool = _facts()[kind.name]["in_place"]
    return found


def takers_of(data_type: DataType) -> list[str]:
    """The operators that take a type in any tensor at any level."""
    word = f"{data_type.name[0].lower()}{data_type.name.lstrip('FLOATUIN')}"
    return [
        name
        for name, fact in _facts().items()
        if any(
            word in text.split("; ")[1].split() for line in fact["support"] for text in line.values() if "; " in text
        )
    ]


def support_of(kind: OperatorType, others: Collection[DataType] = ()) -> SupportTable:
    """The tensors that an operator takes at each level; `others` are types that it takes besides, at every one."""
    rows = []
    for line in _facts()[kind.name]["support"]:
        tensors = {name: _read(text, tuple(others)) for name, text in line.items() if name not in _NO_TENSORS}
        functions, required = (tuple(line.get(key, "").split()) for key in ("functions", "required"))
        rows.append(LevelSupport(FeatureLevel(line["level"]), tensors, functions, required))
    return SupportTable(tuple(rows))


@functools.cache
def _read(text: str, others: tuple[DataType, ...]) -> TensorSupport:
    counts, types = text.split("; ")[:2]
    first, _, last = counts.partition("-")
    listed = tuple(range(int(first), int(last) + 1)) if last else tuple(map(int, counts.split()))
    named = (_LETTERS[word[0]] + word[1:] for word in types.split())
    return TensorSupport(listed, frozenset((*(DataType[name] for name in named), *others)))
