"""`anydml chat`, `serve` and `bench`, and the server's answers to clients."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

pytest.importorskip("onnx", reason="models are made with it")
pytest.importorskip("tokenizers", reason="a tokenizer.json needs it")

import anydml.genai as og
from anydml.cli.app import app
from anydml.genai.chat import Conversation
from anydml.genai.openai_requests import Stops
from genai_folders import ROOM, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "open sesame"
HELLO = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("genai") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> og.Model:
    return og.Model(str(folder))


def run(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, list(arguments), **options)


# The terminal


def test_chat_answers_lines(folder: Path) -> None:
    found = run("chat", str(folder), "--max-tokens", "3", input="hi\n/help\n/clear\n\nho\n/exit\nno\n")
    assert found.exit_code == 0, found.output
    figures = [line for line in found.stdout.splitlines() if line.startswith("[")]
    assert len(figures) == 2
    assert "/clear begins anew" in found.stdout
    assert "tokens/s" in figures[0]
    long = run("chat", str(folder), "--max-length", "12", "--quiet", input="x" * 40)
    assert "at most max_length = 12 tokens" in long.stdout


def test_an_interrupted_answer_stays_said_and_the_next_goes_on(model: og.Model) -> None:
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=ROOM)
    conversation = Conversation(model, og.Tokenizer(model), params, "be kind", limit=6)
    written: list[str] = []

    def write(text: str) -> None:
        written.append(text)
        if len(written) == 2:
            raise KeyboardInterrupt

    stopped = conversation.ask("hi", write)
    assert stopped.is_stopped
    assert stopped.text == "".join(written)
    again = conversation.ask("and", written.append)
    assert not again.is_stopped
    assert [message["role"] for message in conversation.messages] == ["system", *("user", "assistant") * 2]
    fresh = Conversation(model, og.Tokenizer(model), params, "be kind", limit=6)
    fresh.messages = conversation.messages[:3]
    assert fresh.ask("and", lambda _: None).text == again.text, "what was taken in before is as good"


def test_bench_tells_figures(folder: Path) -> None:
    found = run("bench", str(folder), "--prompt", "5", "--tokens", "4", "--runs", "1", "--json")
    data = json.loads(found.stdout)
    assert (data["prompt_tokens"], data["tokens"], data["device"]) == (5, 4, "cpu")
    assert data["decode_tokens_per_second"] > 0
    told = run("bench", str(folder), "--prompt", "5", "--tokens", "3", "--runs", "1", "--batch", "2")
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["llama", "prefill", "decode", "memory"]
    wrong = run("bench", str(folder), "--prompt", "90")
    assert wrong.exit_code == 1
    assert "must be at most 64 together" in wrong.stderr


def test_what_a_command_lacks_is_told(folder: Path) -> None:
    gone = run("chat", str(folder / "gone"))
    assert gone.exit_code == 2
    assert "there is no file" in gone.stderr
    pytest.importorskip("uvicorn", reason="a server is its")
    open_to_all = run("serve", str(folder), "--host", "0.0.0.0", "--port", "0", env={"ANYDML_KEY": ""})  # noqa: S104 - refused
    assert open_to_all.exit_code == 3
    assert "which others reach, needs a key" in open_to_all.stderr


# The server


@pytest.fixture(scope="module")
def address(model: og.Model) -> Iterator[str]:
    uvicorn = pytest.importorskip("uvicorn", reason="a server is its")
    pytest.importorskip("starlette", reason="a server is its")
    from anydml.genai.batching import Batcher
    from anydml.genai.server import Service, listen

    batcher = Batcher(model, 2, 8, 40)
    listening = listen("127.0.0.1", 0)
    application = Service(model, "tiny", KEY, batcher, is_local=True).application()
    server = uvicorn.Server(uvicorn.Config(application, ws="none", lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)
    batcher.close()
    listening.close()


def ask(address: str, path: str, body: Any = None, key: str = KEY, raw: bytes | None = None) -> tuple[int, Any]:
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Authorization": f"Bearer {key}"})  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - likewise
            text = answer.read().decode()
            return answer.status, json.loads(text) if not text.startswith("data:") else text
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def chat(address: str, **fields: Any) -> tuple[int, Any]:
    given = {"model": "tiny", "messages": HELLO, "max_tokens": 6, "temperature": 0, **fields}
    return ask(address, "/v1/chat/completions", given)


def test_answers_whole_and_streamed_are_the_same(address: str) -> None:
    assert ask(address, "/v1/models")[1]["data"][0]["id"] == "tiny"
    assert ask(address, "/v1/models/tiny")[0] == 200
    status, whole = chat(address)
    assert status == 200
    (choice,) = whole["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in ("length", "stop")
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]
    text = chat(address, stream=True, stream_options={"include_usage": True})[1]
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    pieces = [json.loads(event) for event in events[:-1]]
    assert pieces[-1]["usage"] == whole["usage"]
    deltas = [piece["choices"][0]["delta"].get("content", "") for piece in pieces if piece["choices"]]
    assert "".join(deltas) == choice["message"]["content"]
    plain = ask(address, "/v1/completions", {"prompt": "abc", "max_tokens": 4, "seed": 3})[1]
    assert plain["object"] == "text_completion"
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["p", "q"]}}}
    if pytest.importorskip("llguidance", reason="guidance is its"):
        guided = chat(address, response_format=schema, max_tokens=20)[1]["choices"][0]
        assert json.loads(guided["message"]["content"]) in ("p", "q")


def test_several_clients_get_what_each_gets_alone(address: str) -> None:
    alone = [chat(address, messages=[{"role": "user", "content": "a" * n}])[1]["choices"] for n in range(4)]
    together: dict[int, Any] = {}

    def work(n: int) -> None:
        together[n] = chat(address, messages=[{"role": "user", "content": "a" * n}])[1]["choices"]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[n] for n in range(4)] == alone


def test_who_goes_away_is_worked_for_no_more(address: str) -> None:
    body = json.dumps({"messages": HELLO, "stream": True, "max_tokens": 30}).encode()
    headers = {"Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{address}/v1/chat/completions", body, headers)  # noqa: S310 - our own
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - likewise
        answer.readline()
    deadline, idle = time.monotonic() + 30, {"status": "ok", "active": 0, "waiting": 0}
    while (told := ask(address, "/health")[1]) != idle and time.monotonic() < deadline:
        time.sleep(0.05)  # it may wait for its turn yet
    assert told == idle


WRONG: list[tuple[int, str, dict[str, Any]]] = [
    (404, "there is no model 'x'; there is 'tiny'", {"model": "x"}),
    (400, "messages must be a list", {"messages": []}),
    (400, "messages[0] must be an object with a role", {"messages": [{}]}),
    (400, "this model takes no pictures", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    (400, "must be an object with a type", {"messages": [{"role": "user", "content": ["hi"]}]}),
    (400, "text must be a string", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
    (400, "n is not there", {"n": 2}),
    (400, "temperature must be a number from 0 to 2", {"temperature": 3}),
    (400, "max_tokens must be a whole number from 1 on", {"max_tokens": 0}),
    (400, "stop must be up to 16 strings", {"stop": [""]}),
    (400, "there is no parameter 'temprature'; did you mean temperature", {"temprature": 1}),
    (400, "prompt and answer may have 40 together", {"messages": [{"role": "user", "content": "x" * 50}]}),
    (400, "response_format.type must be", {"response_format": {"type": "xml"}}),
    (400, "stream must be true or false", {"stream": "yes"}),
    (400, "calls are not forced", {"tool_choice": "required"}),
]


@pytest.mark.parametrize(("status", "told", "fields"), WRONG, ids=[told[:30] for _, told, _ in WRONG])
def test_what_is_asked_wrongly_is_told(address: str, status: int, told: str, fields: dict[str, Any]) -> None:
    found, answer = chat(address, **fields)
    assert found == status
    assert told in answer["error"]["message"]


def test_the_server_keeps_its_limits(address: str) -> None:
    assert ask(address, "/v1/models", key="wrong")[0] == 401
    assert ask(address, "/v1/chat/completions", key="")[0] in (401, 405)
    assert ask(address, "/v1/chat/completions", raw=b"{")[1]["error"]["message"] == "the request must be JSON"
    status, told = ask(address, "/v1/chat/completions", raw=b" " * (4 * 2**20 + 1))
    assert (status, "at most 4194304 bytes" in told["error"]["message"]) == (413, True)
    assert ask(address, "/v1/nothing")[0] == 404


def test_without_a_key_pages_of_others_are_refused(model: og.Model) -> None:
    pytest.importorskip("starlette", reason="a server is its")
    from starlette.requests import Request

    from anydml.genai.batching import Batcher
    from anydml.genai.openai_requests import Wrong
    from anydml.genai.server import Service

    batcher = Batcher(model, 1, 1, 8)
    service = Service(model, "tiny", None, batcher, is_local=True)

    def check(**headers: str) -> None:
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        service._check(Request({"type": "http", "headers": pairs}))

    check(host="127.0.0.1:8000")
    check(host="localhost:8000", origin="http://localhost:3000")
    for wrong in ({"host": "evil.example:8000"}, {"host": "localhost", "origin": "https://evil.example"}):
        with pytest.raises(Wrong, match="this machine alone"):
            check(**wrong)
    batcher.close()


def test_text_ends_before_a_stop() -> None:
    stops = Stops(["END", "\n\n"])
    assert [stops.feed(text) for text in ("ab", "cE", "N", "x", "y\n", "\nz")] == ["ab", "c", "", "ENx", "y", ""]
    assert stops.is_over
    kept = Stops(["END"])
    assert kept.feed("aEN") + kept.flush() == "aEN"
