"""The half of an operator: the list of them, a form, and what comes of it."""

from __future__ import annotations

import functools
import html
from typing import TYPE_CHECKING, Any

from anydml.api.unknown import words_of
from anydml.core.enum_parsing import squeeze
from anydml.core.errors import DescriptionError, DmlError, Fault
from anydml.core.operator_type import function_name
from anydml.explain import explain
from anydml.explain.html import bare_fragment
from anydml.explore import page
from anydml.explore.answer import answers_of, is_small, recording_of
from anydml.explore.form import (
    LEVEL_KEY,
    command_line,
    contents_of,
    controls_of,
    groups_of,
    levels,
    link,
    place,
    read_command,
    read_form,
    read_state,
)
from anydml.operators import OPERATORS, find_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.explain import Picture
    from anydml.explore.form import Reading, State
    from anydml.operators import OperatorDesc

__all__ = ["answers", "link", "look", "read_command", "standalone"]


@functools.cache
def list_operators() -> list[dict[str, str]]:
    """Every operator, by family."""
    return [
        {
            "name": kind.name.lower(),
            "family": cls.__module__.rpartition(".")[2].replace("_", " "),
            "says": cls.own_words().partition("\n")[0],
            "words": _spelt(words_of(function_name(kind))),
        }
        for kind, cls in sorted(OPERATORS.items(), key=lambda item: item[1].__module__)
    ]


def _spelt(words: str) -> str:
    """Names with and without their underscores: PyTorch has `layer_norm` and `LayerNorm`."""
    return " ".join(dict.fromkeys(one for word in words.split() for one in (word, squeeze(word))))


def describe_form(cls: type[OperatorDesc]) -> dict[str, Any]:
    """The form of an operator, and its example."""
    groups = [
        {
            "name": group.name,
            "role": group.role,
            "is_optional": group.is_optional,
            "controls": [control.as_data() for control in group.controls],
        }
        for group in groups_of(cls)
    ]
    return {
        "name": cls.type.name.lower(),
        "title": cls.type.name,
        "says": [" ".join(part.split()) for part in cls.own_words().split("\n\n")],
        "since": str(cls.introduced()),
        "levels": levels(),
        "level_key": LEVEL_KEY,
        "groups": groups,
        "example": read_command(cls, ()),
    }


def look(cls: type[OperatorDesc], state: State, own: OperatorDesc | None = None) -> dict[str, Any]:
    """The result of a form: its faults, or the picture, the answer and the lowest level.

    `own` is an operator of a model, which it is of as long as the form says what that does.
    """
    reading = read_form(cls, state)
    is_own = isinstance(own, cls) and contents_of(own) == state
    if is_own:
        reading.desc = own  # with strides, which no form has
    found: dict[str, Any] = {
        "command": command_line(cls, state),
        "link": link(cls, state),
        "level": str(reading.level),
        "lowest": None,
        "picture": None,
        "answers": [],
        "follows": {},
        "is_own": is_own,
    }
    if reading.desc is not None:
        lowest = reading.desc.check(reading.level).lowest_level
        found["lowest"] = None if lowest is None else str(lowest)
    if reading.desc is not None and not reading.faults:
        found |= _drawn(cls, reading, reading.desc)
    found["faults"] = [told.as_data() for told in reading.faults]
    return found


def _drawn(cls: type[OperatorDesc], reading: Reading, desc: OperatorDesc) -> dict[str, Any]:
    try:
        picture = explain(desc, *reading.arrays, feature_level=reading.level)
        return {
            "picture": bare_fragment(picture),
            "answers": answers_of(desc, reading.arrays),
            "follows": _followed(cls, desc, picture),
        }
    except DmlError as error:  # data that does not fit, or an index outside its dimension
        reading.faults += place(controls_of(cls), error.faults, "Data")
        return {}


def _followed(cls: type[OperatorDesc], desc: OperatorDesc, picture: Picture) -> dict[str, str]:
    """The value of each control that nobody filled in: sizes and types of tensors, and fields."""
    found = {}
    tensors, fields = desc.tensors(), dict(picture.fields)
    for key, control in controls_of(cls).items():
        name, _, part = control.field.partition(".")
        if name in tensors and part in ("Sizes", "DataType"):
            tensor = tensors[name]
            found[key] = ",".join(map(str, tensor.sizes)) if part == "Sizes" else tensor.data_type.name
        elif not part and name in fields:
            found[key] = fields[name].strip("{}")
    return found


def _record(cls: type[OperatorDesc], state: State) -> dict[str, Any]:
    """The recording of a form."""
    reading = read_form(cls, state)
    if reading.desc is None or reading.faults or not is_small(reading.desc):
        rule = "the form must be valid, and its tensors small enough to be written out"
        raise DescriptionError("anydml explore", Fault(field="state", rule=rule))
    return recording_of(reading.desc, reading.arrays)


def answers(desc_of: Callable[[str], OperatorDesc | None] = lambda _of: None) -> dict[str, Callable[[Any], Any]]:
    """The questions that the page's half asks, by name: JSON in, JSON out; `desc_of` finds an operator of a model."""

    def ask(answer: Callable[[type[OperatorDesc], Any], Any]) -> Callable[[Any], Any]:
        return lambda asked: answer(_operator(asked), asked.get("state"))

    def look_at(asked: Any) -> Any:
        cls, of = _operator(asked), asked.get("of")
        return look(cls, read_state(cls, asked.get("state")), desc_of(of) if isinstance(of, str) else None)

    return {
        "operators": lambda _given: list_operators(),
        "form": ask(lambda cls, _state: describe_form(cls)),
        "look": look_at,
        "record": ask(lambda cls, state: _record(cls, read_state(cls, state))),
    }


def _operator(asked: Any) -> type[OperatorDesc]:
    if not isinstance(asked, dict) or not isinstance(asked.get("operator"), str):
        raise DescriptionError("anydml explore", Fault(field="operator", rule="operator must be a name"))
    return find_operator(asked["operator"])


def standalone(cls: type[OperatorDesc], state: State) -> tuple[str, str, Sequence[str], Sequence[str], Any]:
    """The title, body, styles, scripts and data of a page in one file."""
    found = look(cls, state)
    if found["faults"]:
        faults = [Fault(field=told["field"], rule=told["text"]) for told in found["faults"]]
        raise DescriptionError(cls.type.name, faults)
    answers = "".join(
        f"<figure><figcaption>{one['name']}</figcaption><pre tabindex=0>{html.escape(one['text'])}</pre></figure>"
        for one in found["answers"]
    )
    verdict = f'<p id="verdict" class="good">Valid from feature level {found["lowest"]} on</p>'
    result = page.result(found["picture"], f"<h2>Answer</h2>{answers}" if answers else "")
    command = f"<h2>Command line</h2><pre tabindex=0>{html.escape(found['command'])}</pre>"
    body = f'<main id="operator" class="alone">{verdict}<div id="result">{result}{command}</div></main>'
    styles = ["colours.css", "page.css", "picture.css", "operator.css"]
    return f"{cls.type.name} · anydml explore", body, styles, ["picture.js", "stepper.js"], None
