"""The server of `anydml explore`: who may ask it, and how much."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from anydml.explore.model import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anydml.explore.guard import Guard

HAS_SERVER = all(importlib.util.find_spec(name) is not None for name in ("starlette", "uvicorn"))
needs_server = pytest.mark.skipif(not HAS_SERVER, reason="needs requirements/explore.txt")
TOKEN, PORT = "token-of-a-test", 8000
HERE = f"127.0.0.1:{PORT}"
KEPT = f"anydml-explore-{PORT}={TOKEN}"
MODELS = Path(__file__).parents[2] / "examples" / "models"


@pytest.fixture(scope="module")
def application() -> Guard:
    from anydml.explore.server import application

    return application(Workspace(), TOKEN, PORT)


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


# Files that are opened in the page

BYTES = {"content-type": "application/octet-stream"}


def open_files(ask: Callable[..., Answer], *files: tuple[str, bytes], **asked: Any) -> Answer:
    batch: Any = ""
    for name, content in files:
        query = urllib.parse.urlencode({"batch": batch, "name": name})
        answer = ask(f"/file?{query}", content, **BYTES)
        if answer.status != 200:
            return answer
        batch = answer.data["batch"]
    return ask("/ask/open", {"batch": batch, **asked})


@needs_server
def test_a_model_that_is_sent_is_open_until_another_is(ask: Callable[..., Answer]) -> None:
    content = (MODELS / "slice1.json").read_bytes()
    for side in ("a", "b"):
        answer = open_files(ask, ("my model.json", content), model=side)
        assert (answer.status, answer.data["name"]) == (200, "my model.json")
        assert ask("/ask/model", {"model": side}).data["number"] == answer.data["number"]
    assert ask("/ask/graph", {"model": "b", "graph": 0}).data["nodes"]
    assert open_files(ask, ("a.json", content), model="c").data["error"] == "a page has the models a and b"
    assert ask("/ask/close", {"model": "b"}).status == 200
    assert ask("/ask/model", {"model": "b"}).data is None
    assert ask("/ask/graph", {"model": "b", "graph": 0}).data["error"] == "no such model is open"


@needs_server
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("bad.onnx", b"\x00garbage" * 99, "the file must be an ONNX model"),
        ("bad.onnx", b"", "."),
        ("bad.json", b"{" * 100_000, "bad.json:1:2: "),
        ("bad.json", b"\xff\xfe", "."),
        ("text.txt", b"a", "a model is an .onnx or a .json file; got 'text.txt'"),
        ("../up.onnx", b"a", "is not the name of a file"),
        ("a/b.onnx", b"a", "is not the name of a file"),
        ("a\\b.onnx", b"a", "is not the name of a file"),
        ("a\0.onnx", b"a", "is not the name of a file"),
        ("..", b"a", "is not the name of a file"),
        ("", b"a", "is not the name of a file"),
        ("x" * 300 + ".onnx", b"a", "is not the name of a file"),
    ],
)
def test_a_hostile_file_is_told_and_changes_nothing(
    ask: Callable[..., Answer], name: str, content: bytes, told: str
) -> None:
    assert open_files(ask, ("model.json", (MODELS / "slice1.json").read_bytes())).status == 200
    before = ask("/ask/model", {}).data
    answer = open_files(ask, (name, content))
    assert answer.status == 422
    assert told in answer.data["error"]
    assert "anydml-explore-" not in answer.data["error"]  # the folder is nobody's business
    assert ask("/ask/model", {}).data == before


@needs_server
def test_files_are_sent_by_the_page_alone_and_counted(
    ask: Callable[..., Answer], application: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("/file?name=a.json", b"{}").status == 415
    assert ask("/file?name=a.json", b"{}", **BYTES, cookie=None).status == 403
    assert ask("/file?name=a.json", b"{}", **BYTES, origin="http://127.0.0.1:9999").status == 403
    assert ask("/ask/look", b"{}", **BYTES).status == 415
    assert ask("/file?name=a.json&batch=999", b"{}", **BYTES).data["error"].endswith("open them again")
    two = open_files(ask, ("a.onnx", b"a"), ("b.onnx", b"b"))
    assert "one model at a time, with the files of its weights; got a.onnx, b.onnx" in two.data["error"]
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=2_000))
    assert ask("/file?name=a.bin", b"x" * 900, **BYTES).status == 200
    answer = ask("/file?name=a.bin", b"x" * 1_100, **BYTES)
    assert (answer.status, "half of the free space" in answer.data["error"]) == (422, True)


@needs_server
def test_a_part_of_a_file_has_a_time_of_its_own(impatient: Served) -> None:
    """The whole takes longer than a body may; a body that is no file does not get that."""
    head = f"{impatient.head}Content-Type: application/octet-stream\r\nContent-Length: 8\r\n\r\n"
    connection = impatient.connect(f"POST /file?name=a.json HTTP/1.1\r\n{head}")
    for _ in range(8):
        time.sleep(SHORT / 3)
        connection.sendall(b" ")
    assert status_of(connection) == 200


# Connections, over real sockets

SERVE = """
import sys
from anydml.explore import guard, model, server
guard.PATIENCE.update(dict.fromkeys(guard.PATIENCE, float(sys.argv[1])))
server.serve(model.Workspace(), "", 0, lambda address: print(address, flush=True), opens=False)
"""


class Served:
    """A server in a process of its own, and how to talk to it."""

    def __init__(self, patience: float) -> None:
        command = [sys.executable, "-c", SERVE, str(patience)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603 - our own
        assert self.process.stdout is not None
        address = urllib.parse.urlsplit(self.process.stdout.readline().strip())
        self.port = address.port or 0
        self.token = urllib.parse.parse_qs(address.query)["token"][0]
        self.host = f"Host: 127.0.0.1:{self.port}\r\n"
        self.head = f"{self.host}Cookie: anydml-explore-{self.port}={self.token}\r\n"
        self.opened = contextlib.ExitStack()

    def connect(self, first: str = "", *, room: int = 0) -> socket.socket:
        """A connection that says something."""
        made = self.opened.enter_context(socket.socket())
        if room:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        made.settimeout(60)
        made.connect(("127.0.0.1", self.port))
        made.sendall(first.encode())
        return made

    def get(self, *, has_token: bool = True) -> int:
        """The status of an answer on a connection of its own."""
        head = self.head if has_token else self.host
        return status_of(self.connect(f"GET / HTTP/1.1\r\n{head}Connection: close\r\n\r\n"))

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


def status_of(connection: socket.socket) -> int:
    """The status of an answer, which is read to its end."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(1 << 16)
        assert part, found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(1 << 16)
    return int(head.split()[1])


def everything(connection: socket.socket) -> bytes:
    """All that the server says until it ends the connection."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return bytes(found)


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[float], Served]]:
    """Servers by the seconds that they wait for anything."""
    make = functools.cache(Served)
    yield make
    for patience in (SHORT, LONG):
        make(patience).end()


SHORT, LONG = 0.5, 600.0


@pytest.fixture
def patient(servers: Callable[[float], Served]) -> Iterator[Served]:
    with servers(LONG).opened:
        yield servers(LONG)


@pytest.fixture
def impatient(servers: Callable[[float], Served]) -> Iterator[Served]:
    with servers(SHORT).opened:
        yield servers(SHORT)


@needs_server
@pytest.mark.parametrize(
    "said",
    ["", "GET / HT", "GET / HTTP/1.1\r\nHost: a", "POST /ask/a HTTP/1.1\r\n{host}Content-Length: 9\r\n\r\n["],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
def test_strangers_that_say_half_of_it_give_way(patient: Served, said: str) -> None:
    """A hundred connections without the token, whose time is not up."""
    idle = [patient.connect(said.format(host=patient.host)) for _ in range(100)]
    assert patient.get() == 200
    assert patient.get(has_token=False) == 403
    everything(idle[0])


@needs_server
def test_whoever_has_shown_the_token_stays_while_strangers_come(patient: Served) -> None:
    get = f"GET / HTTP/1.1\r\n{patient.head}\r\n"
    page = patient.connect(get)
    assert status_of(page) == 200
    strangers = [patient.connect("GET") for _ in range(100)]
    everything(strangers[0])
    page.sendall(get.encode())
    assert status_of(page) == 200
    for _ in range(40):  # of those with the token the oldest that asks for nothing gives way
        assert status_of(patient.connect(get)) == 200
    assert everything(page) == b""


@needs_server
@pytest.mark.parametrize(
    "said",
    [
        "",
        "GET / HTTP/1.1\r\nHo",
        "{get}",
        "{get}GET /",
        "POST /ask/operator HTTP/1.1\r\n{json}Content-Length: 99\r\n\r\n[",
        "POST /ask/operator HTTP/1.1\r\n{json}Transfer-Encoding: chunked\r\n\r\nfff\r\n[",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n[",
        "GET / HTTP/1.1\r\n{head}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
        "\r\n\r\nnonsense\r\n\r\n",
    ],
    ids=[
        "silent",
        "slow head",
        "idle",
        "slow next head",
        "slow body",
        "slow chunks",
        "refused",
        "websocket",
        "nonsense",
    ],
)
def test_each_thing_that_is_waited_for_has_its_time(impatient: Served, said: str) -> None:
    """With the token or without; a byte now and then buys no more of it."""
    get, json_head = f"GET / HTTP/1.1\r\n{impatient.head}\r\n", f"{impatient.head}Content-Type: application/json\r\n"
    connection = impatient.connect(said.format(get=get, head=impatient.head, json=json_head))
    stop = threading.Event()

    def dribble() -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(0.05):
                connection.sendall(b"a")

    slow = threading.Thread(target=dribble)
    slow.start()
    if said in ("", "{get}"):
        stop.set()
    everything(connection)
    stop.set()
    slow.join()
    assert impatient.get() == 200


@needs_server
def test_an_answer_that_nobody_reads_is_given_up(impatient: Served) -> None:
    count = 2000
    asked = f"GET /static/viewport.js HTTP/1.1\r\n{impatient.head}\r\n" * count  # far more than buffers hold
    for patience in (4, 20, 100):  # a server that has no CPU has not come to give up
        readers = [impatient.connect(asked, room=4096) for _ in range(3)]
        time.sleep(patience * SHORT)
        if all(everything(reader).count(b"HTTP/1.1 200") < count for reader in readers):
            break
    else:
        pytest.fail("every answer came, though nobody read")
    assert impatient.get() == 200
