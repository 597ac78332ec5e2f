"""The form of an operator: the options of `anydml explain`, by tensor and field, with the choices that there are.

Its contents are text by control, read from a command line or a question and written as either. From them comes a
description: every control that cannot be read is told, then every rule that is broken.
"""

from __future__ import annotations

import enum
import json
import re
import shlex
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

import click

from anydml.arrays.tensor import TensorDesc
from anydml.cli.describe import describe
from anydml.cli.explain_examples import example_of
from anydml.cli.options import ALONG, is_optional, options_of, read_truth, spell_flags
from anydml.cli.types import LEVEL
from anydml.cli.values import DATA
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import DescriptionError, DmlError, Fault, show
from anydml.explore.answer import MOST_ELEMENTS
from anydml.operators.fused import FusedActivation
from anydml.operators.schema.fields import FIELD_TYPES, bare_name, dml_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anydml.operators import OperatorDesc
    from anydml.operators.schema.fields import FieldType


# Controls


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


# Contents


State: TypeAlias = "dict[str, str | list[str]]"
"""By the controls' keys; what is not said is not there."""
LEVEL_KEY = "feature-level"
_TRUE, _FALSE = "true", "false"
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of characters, which JSON has and no text."""


def controls_of(cls: type[OperatorDesc]) -> dict[str, Control]:
    """Every control of an operator's form, by its key."""
    return {control.key: control for group in groups_of(cls) for control in group.controls}


def read_command(cls: type[OperatorDesc], words: Sequence[str], parent: click.Context | None = None) -> State:
    """The texts of a command line, not yet read as values; where there are none, the operator's example."""
    words = words or shlex.split(example_of(cls))
    controls = controls_of(cls)
    level = click.Option([f"--{LEVEL_KEY}"], type=LEVEL)
    command = click.Command(cls.type.name.lower(), params=[*(one.option for one in controls.values()), level])
    context = click.Context(command, parent, info_name=command.name)
    given, left, _ = command.make_parser(context).parse_args(spell_flags(command.params, words))
    if left:
        raise click.UsageError(f"Got unexpected extra argument ({left[0]})", context)
    by_name = {control.option.name: control for control in controls.values()}
    found: State = {}
    for name, value in given.items():
        control = by_name.get(name)
        key = LEVEL_KEY if control is None else control.key
        if control is not None and control.option.is_flag:
            found[key] = _TRUE if value else _FALSE
        else:
            lines = [_typed_in(control, str(one)) for one in (value if isinstance(value, (list, tuple)) else [value])]
            found[key] = lines if isinstance(value, (list, tuple)) else lines[0]
    return found


def _typed_in(control: Control | None, text: str) -> str:
    """A file's values as somebody would type them in: a page reads no files."""
    if control is None or control.option.type is not DATA or not text.endswith(".npy"):
        return text
    array = DATA.convert(text, control.option, None)
    if array.size > MOST_ELEMENTS:
        raise click.UsageError(f"{text} has {array.size} values, and a page takes {MOST_ELEMENTS} at most.")
    return json.dumps(array.tolist())


def read_state(cls: type[OperatorDesc], given: Any) -> State:
    """The texts of a question; others than a control's are refused, and empty ones left out."""
    controls = controls_of(cls)
    found: State = {}
    for key, value in given.items() if isinstance(given, dict) else ():
        lines = value if isinstance(value, list) else [value]
        if key != LEVEL_KEY and key not in controls:
            rule = f"{show(key, 40)} is no option of {cls.type.name}"
            raise DescriptionError(cls.type.name, Fault(field="", rule=rule))
        if not all(isinstance(line, str) and not _SURROGATES.search(line) for line in lines):
            raise DescriptionError(cls.type.name, Fault(field="", rule=f"{key} must be text"))
        kept = [line.strip() for line in lines if line.strip()]
        if kept:
            is_several = key in controls and controls[key].option.multiple
            found[key] = kept if is_several else kept[0]
    return found


def _words(cls: type[OperatorDesc], state: State) -> Iterator[str]:
    controls = controls_of(cls)
    for key, value in state.items():
        control = controls.get(key)
        if control is not None and control.option.is_flag:
            default = control.option.default is True
            if (value == _TRUE) != default:
                yield f"--{'no-' if default else ''}{key}"
            continue
        for one in value if isinstance(value, list) else [value]:
            yield from ([f"--{key}={one}"] if one.startswith("-") else [f"--{key}", one])


def command_line(cls: type[OperatorDesc], state: State) -> str:
    """The command that shows the same picture."""
    return shlex.join(["anydml", "explain", cls.type.name.lower(), *_words(cls, state)])


def link(cls: type[OperatorDesc], state: State) -> str:
    """The part of an address after #; without a question mark it stands for the operator's example."""
    return f"operator/{cls.type.name.lower()}?{urlencode(state, doseq=True, safe=',[]-')}"


def contents_of(desc: OperatorDesc) -> State:
    """The contents that say a description, but for strides of its tensors."""
    tensors = {bare_name(name): tensor for name, tensor in desc.tensors().items()}
    found: State = {}
    outputs = {bare_name(name) for name in desc.outputs()}
    is_along = any(control.option.name == ALONG for control in controls_of(type(desc)).values())
    for key, control in controls_of(type(desc)).items():
        name, _, part = control.field.partition(".")
        own = [tensor for full, tensor in desc.tensors().items() if bare_name(full) == name]
        if part == "Data" or (part == "Sizes" and is_along and name in outputs):
            continue
        if control.option.name == ALONG:
            found[key] = _listed(one.sizes[desc.axis] for one in own)  # type: ignore[attr-defined]  # of a split
        elif part in ("Sizes", "DataType") and own:
            told = [_listed(one.sizes) if part == "Sizes" else one.data_type.name.lower() for one in own]
            found[key] = told if control.option.multiple else told[0]
        elif not part and control.option.name in desc.field_types() and name not in tensors:
            value = getattr(desc, str(control.option.name))
            if value is not None and (control.option.is_flag or value is not False):
                found[key] = _told(value)
    return found


def _activation(value: FusedActivation) -> dict[str, Any]:
    fields = {dml_name(name): getattr(value.desc, name) for name in value.desc.field_types()}
    return {"Type": value.desc.type.name} | {
        name: number for name, number in fields.items() if isinstance(number, (int, float))
    }


def _listed(several: Iterable[Any]) -> str:
    return ",".join(map(_told, several))


def _told(value: Any) -> str:
    """A field's value as a command line says it."""
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, FusedActivation):
        return json.dumps(_activation(value))
    if isinstance(value, (tuple, list)):
        is_fused = any(isinstance(one, FusedActivation) for one in value)
        return json.dumps(list(map(_activation, value))) if is_fused else _listed(value)
    scale, bias = getattr(value, "scale", None), getattr(value, "bias", None)
    return str(value) if scale is None else f"{scale!r},{bias!r}"


# From contents to a description


_OPTION = re.compile(r"--[a-z][a-z0-9-]*")
_MISSING = "must be given"
_OWN_CONTROLS = {"DataType": "DataType", "Data": "Data"}
"""Of a tensor's fields those with a control of their own; the others are told at its sizes."""

_TYPED = {
    "scale,bias": "two numbers such as 2,0.5",
    "activation": "the name of an activation such as relu",
    "activation,…": "names of activations such as sigmoid,tanh",
}
"""Readers of typed text, by the type of its option."""


@dataclass(frozen=True, slots=True)
class Told:
    """A fault, and the control that it is shown at: none, where it is of the whole description."""

    key: str
    fault: Fault

    def as_data(self) -> dict[str, str]:
        """The fault for a page."""
        level = "" if self.fault.level is None else str(self.fault.level)
        return {"key": self.key, "field": self.fault.field, "text": str(self.fault), "level": level}


@dataclass(slots=True)
class Reading:
    """The values of a form."""

    level: FeatureLevel
    faults: list[Told]
    desc: OperatorDesc | None = None
    arrays: Sequence[Any] = ()


def read_form(cls: type[OperatorDesc], state: State) -> Reading:
    """Read a form, and check its description at the level that it says."""
    controls = controls_of(cls)
    found = Reading(FeatureLevel.highest(), [])
    try:
        found.level = LEVEL.convert(state.get(LEVEL_KEY, FeatureLevel.highest()), None, None)
    except click.UsageError as error:
        found.faults.append(Told(LEVEL_KEY, Fault(field="FeatureLevel", rule=error.message)))
    given = {}
    for key, control in controls.items():
        try:
            given[str(control.option.name)] = _value(control, state.get(key))
        except click.UsageError as error:
            found.faults.append(
                Told(key, Fault(field=control.field, rule=_rule(control, error.message, state.get(key))))
            )
        except DmlError as error:
            found.faults += [Told(key, fault) for fault in error.faults]
    if found.faults:
        return found
    try:
        found.desc, found.arrays = describe(cls, given)
    except click.UsageError as error:
        found.faults.append(_usage(controls, error))
    except DmlError as error:
        found.faults += place(controls, error.faults)
    else:
        found.faults += place(controls, found.desc.check(found.level).faults)
    return found


def _rule(control: Control, message: str, text: str | list[str] | None) -> str:
    """A command line's message, as a page says it: no files, no types of Python, and the field once."""
    if control.option.type is DATA and "nor a .npy file" in message:
        message = "must be numbers such as [[1,2],[3,4]], in rows of one length"
        return f"{control.field} {message}; got {show(text, 60)}"
    kind = _TYPED.get(control.option.type.name)
    if kind is not None and " or None;" in message:
        return f"{control.field} must be {kind}; got {show(text, 60)}"
    if message.startswith(control.field):
        return message
    return f"{control.field}{' ' if message == _MISSING else ': '}{message}"


def _value(control: Control, text: str | list[str] | None) -> Any:
    """The value of a control; None, or nothing of several, where it is empty."""
    option = control.option
    if option.is_flag:
        return option.default is True if text is None else read_truth(text, option)
    if option.multiple:
        lines = [] if text is None else text
        return tuple(_one(control, line, f"[{i}]") for i, line in enumerate(lines))
    if text is None and option.required:
        raise click.UsageError(_MISSING)
    return None if text is None else _one(control, str(text), "")


def _one(control: Control, text: str, place: str) -> Any:
    if control.option.type is DATA and text.endswith(".npy"):
        raise click.UsageError("a page reads no files: give the values themselves")
    found = control.option.type.convert(text, control.option, None)
    tensor, _, part = control.field.partition(".")
    if part == "Sizes":
        try:
            TensorDesc("uint8", found)
        except DescriptionError as error:
            raise error.within("", f"{tensor}{place}.") from None
    return found


def _usage(controls: Mapping[str, Control], error: click.UsageError) -> Told:
    """A message that speaks of options, told of the fields that they are."""
    options = {name: control for control in controls.values() for name in control.option.opts}
    hint = getattr(error, "param_hint", None)
    named = [options[name] for name in _OPTION.findall(f"{hint or ''} {error.message}") if name in options]
    text = _OPTION.sub(lambda match: options[match[0]].field if match[0] in options else match[0], error.message)
    field = named[0].field if named else ""
    return Told(named[0].key if named else "", Fault(field=field, rule=text if field in text else f"{field}: {text}"))


def place(controls: Mapping[str, Control], faults: Iterable[Fault], usual: str = "Sizes") -> Iterator[Told]:
    """Find the control of each fault's field; `usual` is that of a tensor as a whole."""
    for fault in faults:
        yield Told(_key(controls, fault.field, usual), fault)


def _key(controls: Mapping[str, Control], field: str, usual: str) -> str:
    tensor, _, part = field.partition(".")
    bare, part = bare_name(tensor), bare_name(part)
    own = [control for control in controls.values() if control.field.partition(".")[0] == bare]
    wanted = _OWN_CONTROLS.get(part, usual)
    return next((one.key for one in own if one.field.endswith(f".{wanted}")), own[0].key if own else "")
