"""Requests of several clients, decoded together: each joins and leaves whenever it comes and ends.

A model whose attention knows the length of each sequence (GroupQueryAttention) takes a step for all at once, each in a
row of one cache; another takes them in turn.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import DmlError, Fault, show
from anydml.genai.decoder import Decoder
from anydml.genai.guidance import Guide
from anydml.genai.search import Search
from anydml.onnxruntime.ort_errors import Fail, refuse, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.genai.generator import GeneratorParams
    from anydml.genai.model import Model

    Array = np.ndarray[Any, Any]

_IDLE = 0.5
"""Seconds between looks of a thread that waits whether it is to end."""


class Request:
    """A prompt, how to go on with it, and who is told of each token."""

    def __init__(
        self,
        model: Model,
        tokens: Array,
        params: GeneratorParams,
        tell: Callable[[Request], object],
        pictures: Mapping[str, Any] | None = None,
    ) -> None:
        options = params.options
        options.check(model.context_length, model.vocab_size)
        if options.rows != 1:
            raise refuse("Request", "batch_size", "a request has one sequence", str(options.rows))
        if len(tokens) >= options.max_length:
            rule = f"the prompt must have fewer than max_length = {options.max_length} tokens"
            way_out = f"the model's context_length is {model.context_length}; shorten the prompt"
            raise refuse("Request", "messages", rule, str(len(tokens)), way_out)
        self.search = Search(options, model.config.eos_token_ids, model.config.number("pad_token_id", 0))
        self.search.append(np.asarray(tokens, np.int32)[None])
        self.prompt_length = len(tokens)
        self.pictures = pictures
        """What the model's vision model takes for it."""
        self.guide = None if params.guidance is None else Guide(model, params.guidance, options)
        self.decoder: Decoder | None = None
        """Its own cache, before it has a row."""
        self.told = 0
        """The tokens that were told."""
        self.error: BaseException | None = None
        self.is_cancelled = False
        self.times: list[float] = []
        self._tell = tell

    @property
    def is_done(self) -> bool:
        """Whether no token follows."""
        return self.error is not None or self.is_cancelled or self.search.is_done

    @property
    def has_ended(self) -> bool:
        """Whether its last token is one that ends a sequence."""
        return self.search.has_ended

    def new_tokens(self) -> list[int]:
        """The tokens since this was last asked."""
        first = self.prompt_length + self.told
        found: list[int] = self.search.tokens[0, first : self.search.length].tolist()
        self.told += len(found)
        return found

    def cancel(self) -> None:
        """Let it end at the next step."""
        self.is_cancelled = True

    def choose(self, logits: Array) -> None:
        """Choose its next token, [1, vocab_size] being the logits."""
        if self.guide is not None:
            self.guide.mask(logits)
        self.search.choose(logits)
        if self.guide is not None:
            self.guide.take(self.search.next_tokens)
        self.times.append(time.perf_counter())
        self.tell()

    def fail(self, error: BaseException) -> None:
        """End with an error, and tell."""
        if not isinstance(error, DmlError):
            error = Fail("Batcher", Fault(field="", rule=f"the step failed ({show(error)})"))
        self.error = error
        self.tell()

    def tell(self) -> None:
        """Tell that there is a token, or an end."""
        self._tell(self)


class Batcher:
    """A model that several requests share: `submit` puts one in the queue, and a thread works on them."""

    def __init__(self, model: Model, rows: int, queue: int, length: int) -> None:
        """`rows` at once and `queue` waiting at most, of `length` tokens each, prompt and answer together."""
        if "encoder" in model.parts:
            rule = f"a model of type {show(model.type)} takes sound, and no requests of text"
            way_out = "a program gives it some: generator.set_inputs(processor(prompt, audios=audios))"
            raise refuse("Batcher", "model", rule, way_out=way_out)
        is_shared = model.knows_lengths and not model.parts
        self.model, self.rows, self.length = model, rows if is_shared else 1, length
        self._queue: deque[Request] = deque()
        self._most = queue
        self._active: list[Request] = []
        self._shared: Decoder | None = None
        self._wakes = threading.Condition()
        self._is_ending = False
        self._thread = threading.Thread(target=self._work, name="anydml-genai", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The requests that have no row yet."""
        return len(self._queue)

    @property
    def active(self) -> int:
        """The requests that are worked on."""
        return len(self._active)

    def submit(self, request: Request) -> None:
        """Put a request in the queue, where there is room."""
        with self._wakes:
            if self._is_ending or len(self._queue) >= self._most:
                raise Full
            self._queue.append(request)
            self._wakes.notify()

    def close(self) -> None:
        """End what is worked on, and the thread."""
        with self._wakes:
            self._is_ending = True
            for request in (*self._queue, *self._active):
                request.cancel()
            self._wakes.notify()
        self._thread.join(timeout=30)

    # The thread

    def _work(self) -> None:
        while True:
            with self._wakes:
                while not self._queue and not self._active and not self._is_ending:
                    self._wakes.wait(_IDLE)
                if self._is_ending:
                    for request in (*self._queue, *self._active):
                        request.tell()
                    return
                arriving = self._queue.popleft() if self._queue and len(self._active) < self.rows else None
            try:
                if arriving is not None:
                    self._admit(arriving)
                self._step()
            except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        for request in self._active:
            request.fail(error)
        self._active, self._shared = [], None

    def _admit(self, request: Request) -> None:
        """Take a prompt in: into a cache of its own, and then into a row of the one that all share."""
        if request.is_cancelled:
            request.tell()
            return
        length = request.search.options.max_length
        try:
            own = Decoder(self.model, 1, 1, length, is_shared=self.model.knows_lengths)
            with told():
                if own.embedder is not None and request.pictures:
                    own.embedder.take(request.pictures)
                logits = own.run(request.search.tokens[:, : request.search.length])
            request.choose(logits)
            if request.is_done:
                return
            if self.rows > 1:
                if self._shared is None:
                    self._shared = Decoder(self.model, self.rows, 1, self.length, is_shared=True)
                self._shared.copy_row(own, len(self._active))
            else:
                request.decoder = own
        except BaseException as error:  # noqa: BLE001 - likewise
            request.fail(error)
            return
        self._active.append(request)

    def _step(self) -> None:
        """One more token for each."""
        for row in reversed(range(len(self._active))):
            if self._active[row].is_done:
                ended, last = self._active[row], len(self._active) - 1
                if self._shared is not None and row != last:
                    self._shared.copy_row(self._shared, row, last)
                self._active[row] = self._active[last]
                self._active.pop()
                if ended.is_cancelled:
                    ended.tell()
        if not self._active:
            return
        with told():
            if self._shared is None:
                (request,) = self._active
                assert request.decoder is not None  # noqa: S101 - for type checkers: it was given one
                logits = request.decoder.run(request.search.next_tokens[:, None])
            else:
                tokens = np.concatenate([request.search.next_tokens[:, None] for request in self._active])
                lengths = np.array([request.search.length - 1 for request in self._active])
                logits = self._shared.run_rows(tokens, lengths)
        for row, request in enumerate(list(self._active)):
            try:
                request.choose(logits[row : row + 1])
            except DmlError as error:
                request.fail(error)


class Full(Exception):  # noqa: N818 - queue.Full has no suffix either
    """The queue has no room."""
