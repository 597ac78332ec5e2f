"""The contents of a form, as text by control: read from a command line or a question, and written as either."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

import click

from anydml.cli.explain_examples import example_of
from anydml.cli.types import LEVEL
from anydml.cli.values import DATA
from anydml.errors import DescriptionError, Fault, show
from anydml.explore.answer import MOST_ELEMENTS
from anydml.explore.form import groups_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anydml.explore.form import Control
    from anydml.operators import OperatorDesc

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
    given, left, _ = command.make_parser(context).parse_args(list(words))
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
