"""Tokenizer and TokenizerStream: text to tokens and back, by a folder's tokenizer.json, or its tokenizer.model."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anydml.core.errors import Fault, show
from anydml.genai.chat_template import ChatTemplate, need
from anydml.genai.config import FILE, Config, read_json, read_text
from anydml.genai.model import Loaded, Model
from anydml.genai.tensors import Tensor, as_array, read_whole
from anydml.onnxruntime.ort_errors import InvalidArgument, InvalidGraph, NoSuchFile, refuse, refuse_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Array = np.ndarray[Any, Any]

_TAGS = {"bot": "beginning of a tool call", "eot": "end of a tool call"}
_TAGS |= {"bor": "beginning of reasoning", "eor": "end of reasoning"}
_FALLBACKS = {
    ("qwen2", "bot"): "<tool_call>",
    ("qwen2", "eot"): "</tool_call>",
    ("qwen3", "bot"): "<tool_call>",
    ("qwen3", "eot"): "</tool_call>",
    ("qwen3", "bor"): "<think>",
    ("qwen3", "eor"): "</think>",
    ("phi3", "bot"): "<|tool_call|>",
    ("phi3", "eot"): "<|/tool_call|>",
}
"""Tags of families whose configuration may not name them."""
_PARTIAL = "\ufffd"
"""What bytes that are no whole character become."""
_MOST_PENDING = 16
"""Tokens without a whole character; one takes four bytes at most."""


class Coder(Protocol):
    """What turns text into tokens and back."""

    def encode(self, text: str, *, adds_special: bool) -> list[int]: ...  # noqa: D102 - the class says it

    def decode(self, tokens: Sequence[int], *, skips_special: bool) -> str: ...  # noqa: D102

    def find(self, token: str) -> int | None: ...  # noqa: D102


class JsonCoder:
    """A folder's tokenizer.json, or its vocab.json and merges.txt."""

    def __init__(self, folder: Path) -> None:
        library = need("tokenizers", "a tokenizer.json")
        file = folder / "tokenizer.json"
        try:
            if file.is_file():
                self.held: Any = library.Tokenizer.from_str(read_text(file))
            else:
                found = library.models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
                self.held = library.Tokenizer(found)
                self.held.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
                self.held.decoder = library.decoders.ByteLevel()
        except InvalidGraph:
            raise
        except Exception as error:
            rule = f"the file must be a tokenizer of the library tokenizers ({show(str(error))})"
            way_out = "pip install --upgrade tokenizers, which reads newer ones"
            raise InvalidGraph(str(file), Fault(field="tokenizer.json", rule=rule, way_out=way_out)) from error
        self.held.no_padding()
        self.held.no_truncation()

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """The tokens of a text."""
        found: list[int] = self.held.encode(text, add_special_tokens=adds_special).ids
        return found

    def decode(self, tokens: Sequence[int], *, skips_special: bool) -> str:
        """The text of tokens; those that there are not have none."""
        return str(self.held.decode([one for one in tokens if 0 <= one < 2**32], skip_special_tokens=skips_special))

    def find(self, token: str) -> int | None:
        """The number of a token."""
        found: int | None = self.held.token_to_id(token)
        return found


class SentencePieceCoder:
    """A folder's tokenizer.model, and the special tokens that tokenizer_config.json adds."""

    def __init__(self, folder: Path) -> None:
        library = need("sentencepiece", "a tokenizer.model")
        try:
            self._held: Any = library.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        except (OSError, RuntimeError, ValueError) as error:
            rule = f"the file must be a model of SentencePiece ({show(str(error))})"
            raise InvalidGraph(str(folder / "tokenizer.model"), Fault(field="tokenizer.model", rule=rule)) from error
        self._added: dict[str, int] = {}
        self._special = {n for n in range(self._held.vocab_size()) if self._held.is_control(n)}
        if (file := folder / "tokenizer_config.json").is_file():
            listed = read_json(file).get("added_tokens_decoder", {})
            for number, token in listed.items() if isinstance(listed, dict) else ():
                self._added[str(token["content"])] = int(number)
                if token.get("special"):
                    self._special.add(int(number))
        self._names = {number: token for token, number in self._added.items()}
        words = sorted(map(re.escape, self._added), key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(words)})") if words else None

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """The tokens of a text."""
        found: list[int] = [self._held.bos_id()] if adds_special and self._held.bos_id() >= 0 else []
        for part in self._split.split(text) if self._split else [text]:
            if part in self._added:
                found.append(self._added[part])
            elif part:
                found += self._held.encode(part, out_type=int)
        return found

    def decode(self, tokens: Sequence[int], *, skips_special: bool) -> str:
        """The text of tokens; those that there are not have none."""
        text, plain = "", list[int]()
        for token in (*tokens, None):
            if token is not None and token not in self._names and 0 <= token < self._held.vocab_size():
                if not (skips_special and token in self._special):
                    plain.append(token)
                continue
            text += self._held.decode(plain) if plain else ""
            plain = []
            if token in self._names and not (skips_special and token in self._special):
                text += self._names[token]
        return text

    def find(self, token: str) -> int | None:
        """The number of a token."""
        if token in self._added:
            return self._added[token]
        found: int = self._held.piece_to_id(token)
        return found if found != self._held.unk_id() or token == self._held.id_to_piece(found) else None


class _NoTagError(InvalidArgument, AttributeError):
    """A token that a model has not: `hasattr` finds none."""


class Tokenizer(Loaded):
    """A folder's tokenizer: `Tokenizer(model)`."""

    _instead = "share it, or make another of the model's folder"

    def __init__(self, model: Model | Config | str | os.PathLike[str]) -> None:
        if not isinstance(model, (Model, Config, str, os.PathLike)):
            raise refuse_type("Tokenizer", "model", "a Model, a Config, or the path of a folder", model)
        if isinstance(model, Model):
            self._config = model.config
        else:
            self._config = model if isinstance(model, Config) else Config(model)
        folder = self._config.tokenizer_folder
        self.coder: Coder = _coder_of(folder)
        """What does the work."""
        self._template = ChatTemplate(folder)
        self._adds_special, self._skips_special = False, True

    def update_options(self, **options: Any) -> None:
        """Set add_special_tokens, for `encode`, and skip_special_tokens, for `decode`: "true" or "false"."""
        for name, value in options.items():
            if name not in ("add_special_tokens", "skip_special_tokens"):
                way_out = "there are add_special_tokens and skip_special_tokens"
                raise refuse("Tokenizer", name, f"there is no tokenizer option {show(name)}", way_out=way_out)
            words = {"true": True, "1": True, "false": False, "0": False}
            if (word := str(value).lower()) not in words:
                raise refuse("Tokenizer", name, f"{name} must be true or false", show(value))
            if name == "add_special_tokens":
                self._adds_special = words[word]
            else:
                self._skips_special = words[word]

    # Text to tokens

    def encode(self, text: str) -> Array:
        """The tokens of a text, as an array of INT32."""
        if not isinstance(text, str):
            raise refuse_type("Tokenizer", "text", "a string", text)
        plain = text.encode("utf-8", "replace").decode()  # what no file could hold: half of a surrogate pair
        return np.array(self.coder.encode(plain, adds_special=self._adds_special), np.int32)

    def encode_batch(self, texts: Sequence[str]) -> Tensor:
        """The tokens of several texts, the shorter ones padded behind with pad_token_id."""
        if isinstance(texts, str) or not hasattr(texts, "__len__"):
            raise refuse_type("Tokenizer", "texts", "a list of strings", texts)
        if not len(texts):
            raise refuse("Tokenizer", "texts", "there must be a text at least", "none")
        several = [self.encode(text) for text in texts]
        padded = np.full((len(several), max(map(len, several))), self.pad_token_id, np.int32)
        for row, tokens in zip(padded, several, strict=True):
            row[: len(tokens)] = tokens
        return Tensor(padded)

    def to_token_id(self, token: str) -> int:
        """The number of a token by its text; -1 for what is none."""
        if not isinstance(token, str):
            raise refuse_type("Tokenizer", "token", "a string", token)
        try:
            found = self.coder.find(token)
        except UnicodeEncodeError:  # half of a surrogate pair
            found = None
        return -1 if found is None else found

    # Tokens to text

    def decode(self, tokens: Any) -> str:
        """The text of tokens."""
        return self._text(_read_tokens(tokens).reshape(-1))

    def _text(self, tokens: Array) -> str:
        return self.coder.decode(tokens.tolist(), skips_special=self._skips_special)

    def decode_batch(self, tokens: Any) -> list[str]:
        """The texts of several rows of tokens."""
        given = _read_tokens(tokens)
        if given.ndim != 2:
            raise refuse("Tokenizer", "tokens", "tokens must be of shape [rows, n]", show(list(given.shape)))
        return [self._text(row) for row in given]

    def create_stream(self) -> TokenizerStream:
        """A stream that gives the text of one token after another."""
        return TokenizerStream(self)

    # Templates

    def apply_chat_template(
        self,
        messages: Any,
        *,
        template_str: str | None = None,
        tools: Any = None,
        add_generation_prompt: bool = True,
        template_kwargs: Any = None,
    ) -> str:
        """The prompt that the folder's chat template, or another one, makes of messages, which are JSON."""
        if template_str is not None and not isinstance(template_str, str):
            raise refuse_type("Tokenizer", "template_str", "a string", template_str)
        given = messages, template_str, tools, template_kwargs
        return self._template.apply(*given, adds_prompt=bool(add_generation_prompt))

    @property
    def chat_template(self) -> str | None:
        """The folder's chat template; None where it has none."""
        return self._template.text

    # Tokens with a meaning

    @property
    def bos_token_id(self) -> int:
        """The token that begins a text."""
        return self._config.number("bos_token_id", 0)

    @property
    def eos_token_ids(self) -> Array:
        """The tokens that end one."""
        return np.array(self._config.eos_token_ids, np.int32)

    @property
    def pad_token_id(self) -> int:
        """The token that fills shorter rows."""
        return self._config.number("pad_token_id", 0)

    def _tag(self, name: str) -> int:
        section = self._config.section("model")
        if section.get(f"{name}_token_id") is not None:
            return self._config.number(f"{name}_token_id")
        fallback = _FALLBACKS.get((self._config.type, name))
        found = None if fallback is None else self.coder.find(fallback)
        if found is None:
            rule = f"this model has no token for the {_TAGS[name]}"
            way_out = f'config.overlay(\'{{"model": {{"{name}_token_id": ...}}}}\') names one'
            raise _NoTagError("Tokenizer", Fault(field=f"{name}_token_id", rule=rule, way_out=way_out))
        return found

    @property
    def bot_token_id(self) -> int:
        """The token that begins a tool call."""
        return self._tag("bot")

    @property
    def eot_token_id(self) -> int:
        """The token that ends a tool call."""
        return self._tag("eot")

    @property
    def bor_token_id(self) -> int:
        """The token that begins reasoning."""
        return self._tag("bor")

    @property
    def eor_token_id(self) -> int:
        """The token that ends reasoning."""
        return self._tag("eor")


class TokenizerStream(Loaded):
    """The text of one token after another: a character of several tokens comes with the last of them."""

    _instead = "make another by the tokenizer's create_stream()"

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not isinstance(tokenizer, Tokenizer):
            raise refuse_type("TokenizerStream", "tokenizer", "a Tokenizer", tokenizer)
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._told = 0
        """The tokens whose text was given; those before the last of these are forgotten."""

    def decode(self, token: int) -> str:
        """The text that a token adds: none while a character is not whole."""
        self._tokens.append(read_whole("TokenizerStream", "token", token))
        before = self._tokenizer.decode(self._tokens[: self._told])
        text = self._tokenizer.decode(self._tokens)
        is_partial = text.endswith(_PARTIAL) and len(self._tokens) - self._told < _MOST_PENDING
        if len(text) <= len(before) or is_partial:
            return ""
        # What was told last stays, as the text of a token may depend on the one before it.
        self._tokens = self._tokens[self._told :]
        self._told = len(self._tokens)
        return text[len(before) :]

    def flush(self) -> str:
        """What is left of a character that never became whole."""
        before = self._tokenizer.decode(self._tokens[: self._told])
        text = self._tokenizer.decode(self._tokens)
        self._tokens, self._told = [], 0
        return text[len(before) :]


def _coder_of(folder: Path) -> Coder:
    if (folder / "tokenizer.json").is_file() or (folder / "vocab.json").is_file():
        return JsonCoder(folder)
    if (folder / "tokenizer.model").is_file():
        return SentencePieceCoder(folder)
    rule = f"folder {show(str(folder))} must have a tokenizer.json, or a tokenizer.model"
    way_out = "copy it from the model that the folder was made of"
    raise NoSuchFile(str(folder / FILE), [Fault(field="tokenizer.json", rule=rule, way_out=way_out)])


def _read_tokens(tokens: Any) -> Array:
    given = np.asarray(as_array(tokens, "Tokenizer", "tokens"))
    if given.size and given.dtype.kind not in "iu":
        raise refuse_type("Tokenizer", "tokens", "an array of whole numbers", tokens)
    if given.size and int(given.min()) < 0:
        raise refuse("Tokenizer", "tokens", "tokens must be 0 or more", str(int(given.min())))
    return given.astype(np.int64)
