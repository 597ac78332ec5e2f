"""The form of an operator: the options of `anydml explain`, by tensor and field, with the choices that there are."""

from __future__ import annotations

import enum
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.cli.options import ALONG, is_optional, options_of
from anydml.enums import DataType, FeatureLevel
from anydml.operators.fields import FIELD_TYPES, dml_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

    from anydml.operators import OperatorDesc
    from anydml.operators.fields import FieldType

_PARTS = {"sizes": "Sizes", "type": "DataType", "data": "Data"}
_HINTS = {"sizes": "1,1,4,4", "data": "made up, or such as [[1,2],[3,4]]", "type": ""}


_EXAMPLES = {
    "n,n,…": "0,1",
    "x,x,…": "0.5,1",
    "number": "1",
    "scale,bias": "2,0.5",
    "activation": "relu",
    "activation,…": "tanh",
}
"""Of what is typed in, by the type of its option."""


@dataclass(frozen=True, slots=True)
class Control:
    """One thing to fill in: an option, by the shortest of its names."""

    option: click.Option
    field: str
    """DirectML's name, as faults have it: `InputTensor.Sizes`, `Axis`."""
    label: str
    choices: tuple[tuple[str, str], ...] = ()
    """The choices, and their spelling."""
    hint: str = ""

    @property
    def key(self) -> str:
        """Its name in links and questions, short but no letter alone: `sizes`, `trans-a`."""
        names = sorted((name.lstrip("-") for name in self.option.opts), key=len)
        return next((name for name in names if len(name) > 2), names[-1])

    def as_data(self) -> dict[str, Any]:
        """The control for a page."""
        kind = "flag" if self.option.is_flag else "choice" if self.choices else "text"
        return {
            "key": self.key,
            "field": self.field,
            "label": self.label,
            "kind": "lines" if self.option.multiple else kind,
            "choices": self.choices,
            "help": self.option.help or "",
            "hint": self.hint,
            "default": self.option.is_flag and self.option.default is True,
            "is_required": self.option.required,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """The controls of a tensor, or of all attributes."""

    name: str
    role: str
    """`input`, `output` or `attribute`."""
    is_optional: bool
    controls: tuple[Control, ...]


def groups_of(cls: type[OperatorDesc]) -> list[Group]:
    """The form of an operator: its inputs, its attributes, then its outputs, which mostly follow."""
    options = options_of(cls)
    found = [_tensor(cls, name, "input", options) for name in cls.input_names()]
    attributes = tuple(_attributes(cls, options))
    if attributes:
        found.append(Group("Fields", "attribute", False, attributes))
    return found + [_tensor(cls, name, "output", options) for name in cls.output_names()]


def _tensor(cls: type[OperatorDesc], name: str, role: str, options: list[click.Option]) -> Group:
    controls = []
    for option in options:
        own = str(option.name)
        part = "along" if own == ALONG else own.removeprefix(f"{name}_")
        is_along = part == "along" and role == "output"
        if is_along:
            controls.append(Control(option, dml_name(name), "Sizes along the axis", hint="3,2,1"))
        elif own == f"{name}_{part}" and part in _PARTS:
            choices = tuple(_types(cls, name)) if part == "type" else ()
            controls.append(Control(option, f"{dml_name(name)}.{_PARTS[part]}", _PARTS[part], choices, _HINTS[part]))
    may_go = is_optional(cls, name) if role == "input" else name in cls.optional_outputs()
    return Group(dml_name(name), role, may_go, tuple(controls))


def _types(cls: type[OperatorDesc], name: str) -> Iterator[tuple[str, str]]:
    """The types that a tensor takes at any level, and from which level on where that is not the operator's first."""
    field = dml_name(name)
    for kind in DataType:
        first = cls.support.first_with(field, data_type=kind)
        if first is not None:
            later = f", from {first}" if first > cls.introduced() else ""
            yield kind.name.lower(), f"{kind.name}{later}"


def _attributes(cls: type[OperatorDesc], options: list[click.Option]) -> Iterator[Control]:
    by_name = {option.name: option for option in options}
    for name, kind in cls.field_types().items():
        if kind.kind not in ("input", "output"):
            option = by_name[name]
            choices = tuple((member.name.lower(), member.name) for member in _members(kind))
            hint = "" if option.is_flag or choices else _such_as(option)
            yield Control(option, dml_name(name), dml_name(name), choices, hint)


def _such_as(option: click.Option) -> str:
    example = _EXAMPLES.get(option.type.name)
    return "" if example is None else f"such as {example}"


def _members(kind: FieldType) -> list[enum.Enum]:
    """The members of the enumeration that a field is of, as its annotation says."""
    annotation = next((one for one, own in FIELD_TYPES.items() if own is kind), None)
    inner = typing.get_args(annotation)[:1]
    for one in typing.get_args(inner[0]) if inner else ():
        if isinstance(one, type) and issubclass(one, enum.Enum):
            return list(one)
    return []


def levels() -> list[tuple[str, str]]:
    """The feature levels, highest first."""
    return [(str(level), level.dml_name) for level in reversed(FeatureLevel)]
