"""Requests in OpenAI's form: what their fields mean for a generator, and which are refused."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.core.enum_parsing import suggest
from anydml.core.errors import show
from anydml.genai.generator import GeneratorParams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.genai.model import Model
    from anydml.genai.tokenizer import Tokenizer

_SAMPLING = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0)}
_LACKING = {"n": 1, "logprobs": False, "top_logprobs": 0, "logit_bias": {}, "presence_penalty": 0, "echo": False}
_LACKING |= {"frequency_penalty": 0, "best_of": 1, "suffix": "", "functions": [], "modalities": ["text"], "audio": {}}
"""Fields that change an answer in a way that is not there, and the value that does not."""
_PASSED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"}
_PASSED |= {"reasoning_effort", "verbosity", "prediction"}
_READ = {
    "model",
    "messages",
    "prompt",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "stop",
    "seed",
}
_READ |= {"seed", "tools", "tool_choice", "response_format", "top_k", "repetition_penalty", *_SAMPLING}
_COMPACT = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
"""For llguidance: no more blanks than these, of which a small model may write no end."""
_MOST_STOPS = 16


class Wrong(Exception):  # noqa: N818 - a request, not an error of the server's
    """A request that is refused: OpenAI's status, code and field, and a message."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def told(self) -> dict[str, Any]:
        """As OpenAI's server tells it."""
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 500: "server_error"}
        kind = kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass
class Asked:
    """What a request asks for."""

    prompts: list[str]
    params: GeneratorParams
    limit: int | None
    """The most tokens of an answer."""
    pictures: list[bytes] = field(default_factory=list)
    """Files, in the order in which the prompt has places for them."""
    stops: list[str] = field(default_factory=list)
    streams: bool = False
    tells_usage: bool = False


def read(
    body: Any,
    model: Model,
    tokenizer: Tokenizer,
    own_name: str,
    *,
    is_chat: bool,
    mark: Callable[[int], str] | None = None,
) -> Asked:
    """A request's fields. `mark` says what stands for a picture, where the model takes any."""
    if not isinstance(body, dict):
        raise Wrong("the request must be a JSON object")
    for name, value in body.items():
        if name in _LACKING and value is not None and value != _LACKING[name]:
            raise Wrong(f"{name} is not there: leave it out, or set it to {_LACKING[name]!r}", name)
        if name not in _READ | _PASSED | _LACKING.keys():
            raise Wrong(f"there is no parameter {show(name)}; {suggest(name, _READ)}".removesuffix("; "), name)
    named = body.get("model", own_name)
    if named != own_name:
        raise Wrong(f"there is no model {show(named)}; there is {show(own_name)}", "model", 404, "model_not_found")
    params = GeneratorParams(model)
    limit = _number(body, "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens", 1)
    pictures = Pictures(mark)
    asked = Asked(_prompts(body, tokenizer, pictures, is_chat=is_chat), params, limit, pictures.held)
    asked.stops = _strings(body.get("stop"), "stop") if body.get("stop") is not None else []
    if len(asked.stops) > _MOST_STOPS or not all(asked.stops):
        raise Wrong(f"stop must be up to {_MOST_STOPS} strings, none of them empty", "stop")
    asked.streams = _flag(body, "stream")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Wrong("stream_options must be an object", "stream_options")
    asked.tells_usage = _flag(options, "include_usage")
    _set_search(body, params)
    _set_guidance(body.get("response_format"), params)
    return asked


def _set_search(body: Mapping[str, Any], params: GeneratorParams) -> None:
    options: dict[str, Any] = {"batch_size": 1, "num_beams": 1, "num_return_sequences": 1}
    for name, (least, most) in _SAMPLING.items():
        if (value := body.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
                raise Wrong(f"{name} must be a number from {least:g} to {most:g}", name)
            options[name], options["do_sample"] = float(value), True
    if (seed := _number(body, "seed")) is not None:
        options["random_seed"] = seed % 2**31
    if (top_k := _number(body, "top_k", 0)) is not None:
        options["top_k"] = min(top_k, params.get_search_options()["top_k"] if top_k < 0 else 2**31 - 1)
        options["do_sample"] = True
    if (penalty := body.get("repetition_penalty")) is not None:
        if isinstance(penalty, bool) or not isinstance(penalty, (int, float)) or penalty <= 0:
            raise Wrong("repetition_penalty must be a number above 0", "repetition_penalty")
        options["repetition_penalty"] = float(penalty)
    params.set_search_options(**options)


def _set_guidance(given: Any, params: GeneratorParams) -> None:
    if given is None:
        return
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "json_object":
        params.set_guidance("json_schema", json.dumps({"type": "object", **_COMPACT}))
    elif kind == "json_schema":
        schema = given.get("json_schema")
        schema = schema.get("schema") if isinstance(schema, dict) else None
        if not isinstance(schema, dict):
            raise Wrong("response_format.json_schema.schema must be an object", "response_format")
        params.set_guidance("json_schema", json.dumps({**_COMPACT, **schema}))
    elif kind != "text":
        raise Wrong("response_format.type must be text, json_object or json_schema", "response_format")


class Pictures:
    """The pictures of a request."""

    def __init__(self, mark: Callable[[int], str] | None) -> None:
        self._mark = mark
        self.held: list[bytes] = []
        """Files."""

    def take(self, part: Mapping[str, Any], where: str) -> str:
        """What stands in the prompt for a part of a message that is no text."""
        kind = part.get("type")
        if kind != "image_url" or self._mark is None:
            rule = "of text, or image_url" if self._mark is not None else "of text: this model takes no pictures"
            raise Wrong(f"{where} must be {rule}; it is {show(kind)}", where)
        given = part.get("image_url")
        url = given.get("url") if isinstance(given, dict) else given
        head, _, coded = url.partition(",") if isinstance(url, str) else ("", "", "")
        if not head.startswith("data:image/") or not head.endswith(";base64"):
            message = f"{where}.image_url.url must be data:image/...;base64,...: nothing is fetched from elsewhere"
            raise Wrong(message, where)
        try:
            held = base64.b64decode(coded, validate=True)
        except ValueError:
            held = b""
        if not held:
            raise Wrong(f"{where}.image_url.url must hold a file in base64", where)
        self.held.append(held)
        return self._mark(len(self.held))


def _prompts(body: Mapping[str, Any], tokenizer: Tokenizer, pictures: Pictures, *, is_chat: bool) -> list[str]:
    if not is_chat:
        if body.get("prompt") is None:
            raise Wrong("prompt must be given", "prompt")
        found = _strings(body["prompt"], "prompt")
        if len(found) != 1:
            raise Wrong("prompt must be one string", "prompt")
        return found
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Wrong("messages must be a list with a message at least", "messages")
    plain = [_plain(message, place, pictures) for place, message in enumerate(messages)]
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise Wrong("tools must be a list", "tools")
    choice = body.get("tool_choice", "auto")
    if choice not in ("auto", "none"):
        raise Wrong("tool_choice must be auto or none: calls are not forced", "tool_choice")
    return [tokenizer.apply_chat_template(plain, tools=tools if choice == "auto" else None)]


def _plain(message: Any, place: int, pictures: Pictures) -> dict[str, Any]:
    """A message whose content is a string, as templates expect."""
    where = f"messages[{place}]"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Wrong(f"{where} must be an object with a role", where)
    content = message.get("content")
    if isinstance(content, list):
        texts = []
        for number, part in enumerate(content):
            own = f"{where}.content[{number}]"
            if not isinstance(part, dict):
                raise Wrong(f"{own} must be an object with a type", own)
            text = part.get("text") if part.get("type") == "text" else pictures.take(part, own)
            if not isinstance(text, str):
                raise Wrong(f"{own}.text must be a string", own)
            texts.append(text)
        content = "".join(texts)
    elif content is not None and not isinstance(content, str):
        raise Wrong(f"{where}.content must be a string, or a list of parts", where)
    return {**message, "content": content or ""}


def _strings(given: Any, name: str) -> list[str]:
    found = [given] if isinstance(given, str) else given
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Wrong(f"{name} must be a string, or a list of strings", name)
    return found


def _number(body: Mapping[str, Any], name: str, least: int | None = None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise Wrong(f"{name} must be a whole number{'' if least is None else f' from {least} on'}", name)
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise Wrong(f"{name} must be true or false", name)
    return bool(value)


class Stops:
    """Text that ends before the first of several strings; what may be the beginning of one is kept back."""

    def __init__(self, stops: list[str]) -> None:
        self._stops = stops
        self._kept = ""
        self.is_over = False
        """Whether one of them came."""

    def feed(self, text: str) -> str:
        """Further text; gives as much as may be told."""
        text = self._kept + text
        ends = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if ends:
            self.is_over, self._kept = True, ""
            return text[: min(ends)]
        longest = max((self._beginning(text, stop) for stop in self._stops), default=0)
        self._kept = text[len(text) - longest :]
        return text[: len(text) - longest]

    @staticmethod
    def _beginning(text: str, stop: str) -> int:
        """The characters at a text's end that a string begins with."""
        return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)

    def flush(self) -> str:
        """What was kept back, when no more follows."""
        found, self._kept = self._kept, ""
        return found
