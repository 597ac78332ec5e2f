"""`anydml chat`: a conversation in the terminal, whose answers come token by token."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import DmlError, show
from anydml.core.memory import word_bytes
from anydml.genai.generator import Generator, GeneratorParams
from anydml.genai.media import Images
from anydml.onnx.program import peak_of_process
from anydml.onnxruntime.ort_errors import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from anydml.genai.model import Model
    from anydml.genai.tensors import NamedTensors
    from anydml.genai.tokenizer import Tokenizer

HELP = "/image PATH shows a picture, /clear begins anew, /exit or Ctrl-D ends, Ctrl-C stops an answer"


@dataclass
class Answer:
    """What became of a question."""

    text: str = ""
    prompt: int = 0
    """The tokens that were taken in for it."""
    tokens: int = 0
    first: float = 0.0
    """Seconds to the first token."""
    seconds: float = 0.0
    """From the first token to the last."""
    is_stopped: bool = False
    """Whether somebody interrupted it."""

    def told(self) -> str:
        """In a line."""
        rate = f"{(self.tokens - 1) / self.seconds:.1f} tokens/s" if self.tokens > 1 and self.seconds else "-"
        memory = peak_of_process()
        parts = [f"{self.prompt} tokens in", f"first after {self.first:.2f} s", f"{self.tokens} out, {rate}"]
        parts += [word_bytes(memory)] if memory is not None else []
        return f"[{', '.join(parts)}{', stopped' if self.is_stopped else ''}]"


@dataclass
class Conversation:
    """Messages, and a generator that has taken in as many of their tokens as are the same."""

    model: Model
    tokenizer: Tokenizer
    params: GeneratorParams
    system: str | None = None
    limit: int | None = None
    """The most tokens of an answer."""
    messages: list[dict[str, Any]] = field(default_factory=list)

    pictures: list[bytes] = field(default_factory=list)
    """Files of the pictures that were shown, the last `_shown` of them for the next question."""

    def __post_init__(self) -> None:
        self._generator = Generator(self.model, self.params)
        has_pictures = "vision" in self.model.parts
        self._processor = self.model.create_multimodal_processor() if has_pictures else None
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.messages = [] if self.system is None else [{"role": "system", "content": self.system}]
        self.pictures, self._shown = [], 0

    def show(self, path: str) -> None:
        """Show a picture before the next question."""
        if self._processor is None:
            rule = f"this model, of type {show(self.model.type)}, takes no pictures"
            raise refuse("chat", "image", rule, way_out="ask in words, or take a folder with a vision model")
        self.pictures += Images.open(path).held
        self._shown += 1

    def ask(self, question: str, write: Callable[[str], object]) -> Answer:
        """Put a question; the answer is written as it comes. What was said before Ctrl-C stays said.

        A question that cannot be answered is taken back, and its pictures with it.
        """
        answer, shown = Answer(), self._shown
        before = len(self.pictures) - shown
        if self._processor is not None:
            question = "".join(map(self._processor.mark, range(before + 1, len(self.pictures) + 1))) + question
        self.messages.append({"role": "user", "content": question})
        self._shown, begun = 0, time.perf_counter()
        try:
            answer.prompt = self._take_in(*self._prompt(), shown=shown)
            for text in self._texts(answer, begun):
                answer.text += text
                write(text)
        except KeyboardInterrupt:
            answer.is_stopped = True
        except DmlError:
            del self.messages[-1], self.pictures[before:]
            raise
        self.messages.append({"role": "assistant", "content": answer.text})
        return answer

    def _prompt(self) -> tuple[np.ndarray[Any, Any], NamedTensors | None]:
        """The tokens of all messages, and what the model is given of the pictures in them."""
        if self.tokenizer.chat_template is None:  # a model that goes on with text
            text = "".join(str(message["content"]) for message in self.messages)
        else:
            text = self.tokenizer.apply_chat_template(self.messages)
        if self._processor is None or not self.pictures:
            return self.tokenizer.encode(text), None
        given = self._processor(text, images=Images.open_bytes(*self.pictures))
        return given["input_ids"].held[0], given

    def _take_in(self, tokens: np.ndarray[Any, Any], given: NamedTensors | None, *, shown: int) -> int:
        """Go back to where the tokens begin to differ from those that were taken in, and on from there.

        With a new picture all of them are given again.
        """
        if given is not None and shown:
            self._generator = Generator(self.model, self.params)
            self._generator.set_inputs(given)
            return len(tokens)
        own = self._generator.get_sequence(0)
        shorter = min(len(own), len(tokens) - 1)
        same = own[:shorter] == tokens[:shorter]
        common = int(np.argmin(same)) if not same.all() else shorter
        try:
            self._generator.rewind_to(common)
        except DmlError:  # a model with states of fixed size
            self._generator, common = Generator(self.model, self.params), 0
            if given is not None:
                self._generator.set_inputs(given)
                return len(tokens)
        self._generator.append_tokens(tokens[common:])
        return len(tokens) - common

    def _texts(self, answer: Answer, begun: float) -> Iterator[str]:
        generator, stream = self._generator, self.tokenizer.create_stream()
        ends = set(self.model.config.eos_token_ids)
        first = begun
        while not generator.is_done() and (self.limit is None or answer.tokens < self.limit):
            generator.generate_next_token()
            now = time.perf_counter()
            if not answer.tokens:
                first, answer.first = now, now - begun
            answer.tokens += 1
            answer.seconds = now - first
            token = int(generator.get_next_tokens()[0])
            if token not in ends and (text := stream.decode(token)):
                yield text
        yield stream.flush()


def converse(conversation: Conversation, lines: Iterable[str], say: Callable[[str], object], *, tells: bool) -> None:
    """Answer questions, one line each, until there are no more."""
    for line in lines:
        question = line.strip()
        if not question:
            continue
        if question in ("/exit", "/quit"):
            return
        if question == "/clear":
            conversation.clear()
            continue
        if question.split()[0] == "/image":
            _show(conversation, question.removeprefix("/image").strip(), say)
            continue
        if question.startswith("/"):
            say(f"{HELP}\n")
            continue
        try:
            answer = conversation.ask(question, say)
        except DmlError as error:
            say(f"{error}\n{HELP}\n")
            continue
        say("\n")
        if tells:
            say(f"{answer.told()}\n")


def _show(conversation: Conversation, path: str, say: Callable[[str], object]) -> None:
    """Show the picture of a line."""
    if not path:
        say("/image must be followed by the path of a picture\n")
        return
    try:
        conversation.show(str(Path(path).expanduser()))
    except DmlError as error:
        say(f"{error}\n")


def read_lines(prompt: str) -> Iterator[str]:
    """What somebody types; Ctrl-C gives up a line, Ctrl-D ends."""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return
        except KeyboardInterrupt:
            print()  # noqa: T201 - the line that was given up
