"""Chat templates: Jinja text of a folder, which makes a prompt of messages. It runs in a sandbox."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any, NoReturn

from anydml.core.errors import Fault, MissingDependencyError, printable, show
from anydml.core.late_imports import import_alone
from anydml.genai.config import read_json, read_text
from anydml.onnxruntime.ort_errors import InvalidArgument, refuse, refuse_type, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token")
_LONGEST = 2**24
"""Characters of a prompt."""


def need(module: str, what: str) -> Any:
    """A package of the extra; an error that says how to install it where it is not there."""
    try:
        return import_alone(module)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(module.partition(".")[0]):
            raise
        way_out = "pip install 'anydml[genai]'"
        fault = Fault(field=module, rule=f"{what} needs {module.partition('.')[0]}", way_out=way_out)
        raise renamed(MissingDependencyError("anydml.genai", fault)) from error


class ChatTemplate:
    """A folder's template, and the special tokens that it may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled: dict[str, Callable[..., str]] = {}
        self._settings: Mapping[str, Any] = {}
        if (file := folder / "tokenizer_config.json").is_file():
            settings = read_json(file)
            self._settings = settings if isinstance(settings, dict) else {}

    @property
    def text(self) -> str | None:
        """The template; None where the folder has none."""
        if (file := self._folder / "chat_template.jinja").is_file():
            return read_text(file)
        found = self._settings.get("chat_template")
        if found is None and (file := self._folder / "chat_template.json").is_file():
            found = read_json(file).get("chat_template")
        if isinstance(found, list):  # several, by name
            named = {str(one.get("name")): one.get("template") for one in found if isinstance(one, dict)}
            found = named.get("default", next(iter(named.values()), None))
        return found if isinstance(found, str) else None

    def apply(self, messages: Any, template: str | None, tools: Any, options: Any, *, adds_prompt: bool) -> str:
        """The prompt of messages, JSON or what it means."""
        said = _read("messages", messages)
        if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
            raise refuse_type("Tokenizer", "messages", "a list of objects with role and content", said)
        given = template or self.text
        if not given:
            rule = f"folder {show(str(self._folder))} has no chat template"
            way_out = "give one as template_str, or encode a prompt of your own"
            raise refuse("Tokenizer", "template_str", rule, way_out=way_out)
        words = {name: self._settings.get(name) for name in _SPECIAL}
        values: dict[str, Any] = {name: _word(word) for name, word in words.items() if word}
        more = _read("template_kwargs", options) if options else {}
        if not isinstance(more, dict):
            raise refuse_type("Tokenizer", "template_kwargs", "an object", more)
        listed = _read("tools", tools) if tools else None
        values |= {"messages": said, "tools": listed, "add_generation_prompt": adds_prompt, **more}
        return self._render(given, values)

    def _render(self, text: str, values: Mapping[str, Any]) -> str:
        jinja = need("jinja2", "a chat template")
        try:
            if text not in self._compiled:
                self._compiled = {text: _compile(text)}
            made: str = self._compiled[text](**values)
        except jinja.TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f" in line {line}" if line else ""
            rule = f"the chat template does not take these messages{where} ({printable(str(error))})"
            raise refuse("Tokenizer", "template_str", rule) from error
        except InvalidArgument:
            raise
        except Exception as error:
            rule = f"the chat template could not be applied ({printable(show(error))})"
            raise refuse("Tokenizer", "template_str", rule) from error
        if len(made) > _LONGEST:
            raise refuse("Tokenizer", "messages", f"the prompt must have at most {_LONGEST} characters", str(len(made)))
        return made


def _compile(text: str) -> Callable[..., str]:
    sandbox = need("jinja2.sandbox", "a chat template")
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().astimezone().strftime(form)
    found: Callable[..., str] = environment.from_string(text).render
    return found


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **others: Any) -> str:
    """As models were taught: without Jinja's escapes of HTML."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, **others)


def _refuse(message: object) -> NoReturn:
    raise refuse("Tokenizer", "messages", f"the chat template refuses these messages ({printable(str(message))})")


def _read(field: str, given: Any) -> Any:
    if isinstance(given, (list, dict)):
        return given
    if not isinstance(given, str):
        raise refuse_type("Tokenizer", field, "JSON text", given)
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise refuse("Tokenizer", field, f"{field} must be JSON ({error})", show(given)) from None


def _word(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token)
