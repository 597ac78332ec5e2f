"""Requests that are decoded together get the tokens that each gets alone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are made with it")

import anydml.genai as og
from anydml.genai.batching import Batcher, Full, Request
from genai_folders import BYTES, decoder, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anydml.onnxruntime import IOBinding

PROMPTS = [[10, 20, 30], [11], [50, 60, 70, 80, 90], [1, 2], [10, 20, 30]]
LENGTHS = [12, 9, 11, 14, 7]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> og.Model:
    return og.Model(str(make_folder(tmp_path_factory.mktemp("genai"), decoder(positions=True))))


@pytest.fixture
def batcher(model: og.Model) -> Iterator[Batcher]:
    made = Batcher(model, rows=3, queue=5, length=16)
    yield made
    made.close()


def params(model: og.Model, **options: Any) -> og.GeneratorParams:
    made = og.GeneratorParams(model)
    made.set_search_options(**options)
    return made


class Waiter:
    """Waits until a request has ended."""

    def __init__(self, model: og.Model, tokens: list[int], **options: Any) -> None:
        self.ended = threading.Event()
        self.request = Request(model, np.array(tokens), params(model, **options), self._tell)

    def _tell(self, request: Request) -> None:
        if request.is_done:
            self.ended.set()

    def wait(self) -> list[int]:
        assert self.ended.wait(60)
        found: list[int] = self.request.search.sequence(0).tolist()
        return found


def alone(model: og.Model, tokens: list[int], **options: Any) -> list[int]:
    generator = og.Generator(model, params(model, **options))
    generator.append_tokens(tokens)
    while not generator.is_done():
        generator.generate_next_token()
    found: list[int] = generator.get_sequence(0).tolist()
    return found


def test_requests_come_and_go_as_they_like(model: og.Model, batcher: Batcher) -> None:
    options = [{"max_length": length} for length in LENGTHS]
    options[3] |= {"do_sample": True, "top_k": 9, "random_seed": 5}
    waiters = [Waiter(model, tokens, **own) for tokens, own in zip(PROMPTS, options, strict=True)]
    for waiter in waiters:
        batcher.submit(waiter.request)
    for waiter, tokens, own in zip(waiters, PROMPTS, options, strict=True):
        assert waiter.wait() == alone(model, tokens, **own)
    assert batcher.rows == 3


def test_a_model_with_masks_takes_requests_in_turn(model: og.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "knows_lengths", False)
    made = Batcher(model, rows=3, queue=5, length=16)
    waiters = [Waiter(model, tokens, max_length=8) for tokens in PROMPTS[:2]]
    for waiter in waiters:
        made.submit(waiter.request)
    assert [waiter.wait() for waiter in waiters] == [alone(model, tokens, max_length=8) for tokens in PROMPTS[:2]]
    assert made.rows == 1
    made.close()


def test_a_full_queue_and_a_cancelled_request(model: og.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    may_run = threading.Event()
    plain = model.session.run_with_iobinding

    def run(binding: IOBinding, *given: Any) -> None:
        may_run.wait(60)
        plain(binding, *given)

    monkeypatch.setattr(model.session, "run_with_iobinding", run)
    made = Batcher(model, rows=2, queue=1, length=16)
    first = Waiter(model, [1, 2, 3], max_length=12)
    made.submit(first.request)
    while made.waiting:
        pass
    second = Waiter(model, [4, 5], max_length=12)
    made.submit(second.request)
    with pytest.raises(Full):
        made.submit(Waiter(model, [4, 5], max_length=12).request)
    second.request.cancel()
    may_run.set()
    assert len(first.wait()) > 3
    assert second.wait() == [4, 5]
    made.close()
    with pytest.raises(Full):
        made.submit(first.request)


def test_what_fails_is_told_and_the_next_request_is_answered(
    model: og.Model, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> None:
        raise ValueError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(model.session, "run_with_iobinding", run)
        failed = Waiter(model, [1, 2], max_length=6)
        batcher.submit(failed.request)
        failed.wait()
        assert "no memory" in str(failed.request.error)
    again = Waiter(model, [1, 2], max_length=6)
    batcher.submit(again.request)
    assert again.wait() == alone(model, [1, 2], max_length=6)
    with pytest.raises(RuntimeError, match="the prompt must have fewer than max_length = 6 tokens"):
        Waiter(model, [BYTES] * 6, max_length=6)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["window", "states", "axes"])
def test_windows_and_states_of_several_clients_stay_apart(tmp_path: Path, kind: str) -> None:
    made = decoder(window=5) if kind == "window" else decoder(states=kind == "states", axes=kind == "axes")
    model = og.Model(str(make_folder(tmp_path, made)))
    batcher = Batcher(model, rows=3, queue=5, length=40)
    waiters = [Waiter(model, tokens, max_length=34 - i) for i, tokens in enumerate(PROMPTS)]
    for waiter in waiters:
        batcher.submit(waiter.request)
    found = [waiter.wait() for waiter in waiters]
    batcher.close()
    assert [waiter.request.error for waiter in waiters] == [None] * len(waiters)
    for i, tokens in enumerate(PROMPTS):
        generator = og.Generator(model, params(model, max_length=34 - i))
        generator.append_tokens(tokens)
        while not generator.is_done():
            generator.generate_next_token()
        assert found[i] == generator.get_sequence(0).tolist()
