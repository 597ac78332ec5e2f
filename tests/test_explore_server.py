"""The server of `anydml explore`: who may ask it, and how much."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.explore.guard import Guard

HAS_SERVER = all(importlib.util.find_spec(name) is not None for name in ("starlette", "uvicorn"))
needs_server = pytest.mark.skipif(not HAS_SERVER, reason="needs requirements/explore.txt")
TOKEN, PORT = "token-of-a-test", 8000
HERE = f"127.0.0.1:{PORT}"
KEPT = f"anydml-explore-{PORT}={TOKEN}"


@pytest.fixture(scope="module")
def application() -> Guard:
    from anydml.explore.server import application

    return application(None, TOKEN, PORT)


class Answer:
    """What the server said."""

    def __init__(self, messages: list[Any]) -> None:
        self.status: int = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        self.body = b"".join(message.get("body", b"") for message in messages[1:])

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def ask(application: Guard) -> Callable[..., Answer]:
    """Ask as a browser would that has the token, unless told otherwise."""

    def asking(path: str, body: Any = None, chunks: int = 1, **changed: str | None) -> Answer:
        given: Mapping[str, str | None] = {"host": HERE, "cookie": KEPT, "content-type": "application/json"} | changed
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items() if v is not None]
        name, _, query = path.partition("?")
        scope = {
            "type": "http", "method": "GET" if body is None else "POST", "path": name, "raw_path": name.encode(),
            "query_string": query.encode(), "headers": headers, "scheme": "http", "server": ("127.0.0.1", PORT),
        }  # fmt: skip
        parts = [{"type": "http.request", "body": content, "more_body": k < chunks - 1} for k in range(chunks)]
        sent: list[Any] = []

        async def receive() -> Any:
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(application(scope, receive, send))
        return Answer(sent)

    return asking


@needs_server
def test_the_token_opens_the_page_and_leaves_the_address(ask: Callable[..., Answer]) -> None:
    answer = ask(f"/?token={TOKEN}", cookie=None)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    kept = answer.headers["set-cookie"].lower()
    assert "httponly" in kept
    assert "samesite=strict" in kept
    assert ask("/").status == 200


@needs_server
@pytest.mark.parametrize("path", ["/", "/static/app.js", "/ask/operators", "/?token=wrong", "/?token=", "/?token=é"])
def test_a_stranger_is_told_what_to_open(ask: Callable[..., Answer], path: str) -> None:
    for cookie in (None, f"anydml-explore-{PORT}=wrong", f"anydml-explore-8001={TOKEN}", '"'):
        answer = ask(path, {} if "ask" in path else None, cookie=cookie)
        assert answer.status == 403
        assert b"open the address that `anydml explore` printed" in answer.body


@needs_server
@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:8001", "127.0.0.1", ""])
def test_another_name_of_this_machine_is_refused(ask: Callable[..., Answer], host: str) -> None:
    assert ask("/", host=host).status == 421
    assert ask(f"/?token={TOKEN}", host=host, cookie=None).status == 421


@needs_server
def test_other_pages_may_not_ask(ask: Callable[..., Answer]) -> None:
    assert ask("/ask/operators", {}, origin="http://127.0.0.1:9999").status == 403
    assert ask("/ask/operators", {}, origin="null").status == 403
    assert ask("/ask/operators", {}, **{"content-type": "text/plain"}).status == 415
    answer = ask("/ask/operators", {}, origin=f"http://{HERE}")
    assert answer.status == 200
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@needs_server
def test_a_request_is_bounded_whatever_it_says_of_its_length(ask: Callable[..., Answer]) -> None:
    from anydml.explore.guard import MOST_BYTES

    assert ask("/ask/look", b"x", content_length=str(MOST_BYTES + 1)).status == 413
    assert ask("/ask/look", b"x", content_length="-1").status == 413
    assert ask("/ask/look", b" " * MOST_BYTES, chunks=3).status == 400


@needs_server
@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("nothing", {}, 404),
        ("look", b"{", 400),
        ("look", b"[" * 100_000, 400),
        ("look", [], 422),
        ("look", {"operator": "no_such"}, 422),
        ("look", {"operator": "slice1", "state": {"no-such": "1"}}, 422),
        ("look", {"operator": "slice1", "state": {"sizes": 4}}, 422),
        ("look", {"operator": "slice1", "state": {"sizes": [["4"]]}}, 422),
        ("look", {"operator": "slice1", "state": {"sizes": "\ud800"}}, 422),
    ],
)
def test_a_question_that_makes_no_sense_gets_a_sentence(
    ask: Callable[..., Answer], name: str, body: Any, status: int
) -> None:
    answer = ask(f"/ask/{name}", body)
    assert answer.status == status
    assert answer.data["error"]


@needs_server
def test_files_are_the_pages_own(ask: Callable[..., Answer]) -> None:
    for name in ("app.js", "operator.js", "model.js", "page.css", "colours.css", "picture.css", "picture.js"):
        answer = ask(f"/static/{name}")
        assert answer.status == 200, name
        assert answer.headers["content-type"].startswith("text/")
    for name in ("../page.py", "..%2fpage.py", "nothing.js", ""):
        assert ask(f"/static/{name}").status == 404
