"""From a form's text to a description: every control that cannot be read is told, then every rule that is broken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.describe import describe
from anydml.cli.types import LEVEL
from anydml.cli.values import DATA
from anydml.enums import FeatureLevel
from anydml.errors import DescriptionError, DmlError, Fault, show
from anydml.explore.state import LEVEL_KEY, controls_of
from anydml.operators.fields import bare_name
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anydml.explore.form import Control
    from anydml.explore.state import State
    from anydml.operators import OperatorDesc

_OPTION = re.compile(r"--[a-z][a-z0-9-]*")
_MISSING = "must be given"
_PARTS = {"DataType": "DataType", "Data": "Data"}
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
        return option.default is True if text is None else text == "true"
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
    wanted = _PARTS.get(part, usual)
    return next((one.key for one in own if one.field.endswith(f".{wanted}")), own[0].key if own else "")
