"""`anydml chat`: a conversation in the terminal, whose answers come token by token."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import DmlError
from anydml.core.memory import word_bytes
from anydml.genai.generator import Generator, GeneratorParams
from anydml.onnx.program import peak_of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from anydml.genai.model import Model
    from anydml.genai.tokenizer import Tokenizer

HELP = "/clear begins anew, /exit or Ctrl-D ends, Ctrl-C stops an answer"


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

    def __post_init__(self) -> None:
        self._generator = Generator(self.model, self.params)
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.messages = [] if self.system is None else [{"role": "system", "content": self.system}]

    def ask(self, question: str, write: Callable[[str], object]) -> Answer:
        """Put a question; the answer is written as it comes. What was said before Ctrl-C stays said."""
        answer = Answer()
        self.messages.append({"role": "user", "content": question})
        begun = time.perf_counter()
        try:
            answer.prompt = self._take_in(self._prompt())
            for text in self._texts(answer, begun):
                answer.text += text
                write(text)
        except KeyboardInterrupt:
            answer.is_stopped = True
        except DmlError:
            del self.messages[-1]
            raise
        self.messages.append({"role": "assistant", "content": answer.text})
        return answer

    def _prompt(self) -> np.ndarray[Any, Any]:
        if self.tokenizer.chat_template is None:  # a model that goes on with text
            return self.tokenizer.encode("".join(str(message["content"]) for message in self.messages))
        return self.tokenizer.encode(self.tokenizer.apply_chat_template(self.messages))

    def _take_in(self, tokens: np.ndarray[Any, Any]) -> int:
        """Go back to where the tokens begin to differ from those that were taken in, and on from there."""
        own = self._generator.get_sequence(0)
        shorter = min(len(own), len(tokens) - 1)
        same = own[:shorter] == tokens[:shorter]
        common = int(np.argmin(same)) if not same.all() else shorter
        try:
            self._generator.rewind_to(common)
        except DmlError:  # a model with states of fixed size
            self._generator, common = Generator(self.model, self.params), 0
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


def read_lines(prompt: str) -> Iterator[str]:
    """What somebody types; Ctrl-C gives up a line, Ctrl-D ends."""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return
        except KeyboardInterrupt:
            print()  # noqa: T201 - the line that was given up
