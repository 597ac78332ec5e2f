"""The server: the page's files, and what its two halves ask for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import socket
import threading
import webbrowser
from typing import TYPE_CHECKING, Any

import click

from anydml.core.errors import DmlError, Fault, UnsupportedError
from anydml.explore import model, operator, page
from anydml.explore.uploads import discard

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from anydml.explore.guard import FILES, PATIENCE, Connection, Guard
except ModuleNotFoundError as _error:
    _fault = Fault(
        field="explore",
        rule=f"a page with a server needs {_error.name}",
        way_out="pip install 'anydml[explore]', or write a page to a file with --html",
    )
    raise UnsupportedError("anydml explore", _fault) from None

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

HOST = "127.0.0.1"


def application(workspace: model.Workspace, token: str, port: int) -> Guard:
    """The page and its answers; `workspace` has the models that it shows."""
    answers: dict[str, Callable[[Any], Any]] = {**operator.answers(workspace.desc_of), **workspace.answers()}
    uploads, one_file_at_a_time = workspace.uploads, asyncio.Lock()
    one_at_a_time = threading.Lock()  # an answer takes a core, and memory that was counted for it alone

    def compute(answer: Callable[[Any], Any], asked: Any) -> Any:
        with one_at_a_time:
            return answer(asked)

    async def ask(request: Request) -> Response:
        answer = answers.get(request.path_params["name"])
        if answer is None:
            return JSONResponse({"error": "there is no such question"}, 404)
        try:
            asked = await request.json()
        except (ValueError, RecursionError, ClientDisconnect):
            return JSONResponse({"error": "the question is not JSON"}, 400)
        try:
            return JSONResponse(await run_in_threadpool(compute, answer, asked))
        except DmlError as error:
            return JSONResponse({"error": uploads.told(str(error))}, 422)
        except click.ClickException as error:
            return JSONResponse({"error": error.format_message()}, 422)

    async def take(request: Request) -> Response:
        query = request.query_params
        path = None
        try:
            async with one_file_at_a_time:
                number, path = uploads.place(query.get("batch", ""), query.get("name", ""))
                with path.open("xb") as made:
                    async for part in request.stream():
                        uploads.count(len(part))
                        await run_in_threadpool(made.write, part)
        except ClientDisconnect:
            discard(path) if path is not None else None
            return JSONResponse({"error": "the file did not come whole"}, 400)
        except (DmlError, OSError) as error:
            discard(path) if path is not None and not isinstance(error, FileExistsError) else None
            told = str(error) if isinstance(error, DmlError) else f"the file could not be kept ({error.strerror})"
            return JSONResponse({"error": uploads.told(told)}, 422)
        return JSONResponse({"batch": number})

    async def index(_request: Request) -> Response:
        return Response(page.shell(), media_type="text/html")

    async def file(request: Request) -> Response:
        found = page.file(request.path_params["name"])
        return Response("There is no such file.\n", 404) if found is None else Response(found[0], media_type=found[1])

    routes = [
        Route("/", index),
        Route("/static/{name}", file),
        Route("/ask/{name}", ask, methods=["POST"]),
        Route(FILES, take, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), token, port)


def serve(workspace: model.Workspace, start: str, port: int, say: Callable[[str], None], *, opens: bool) -> None:
    """Serve the page until somebody interrupts it; `start` is the part of the address after #."""
    token = secrets.token_urlsafe(32)
    with contextlib.closing(workspace.uploads), contextlib.closing(_listen(port)) as listening:
        own = listening.getsockname()[1]
        address = f"http://{HOST}:{own}/?token={token}{f'#{start}' if start else ''}"
        say(address)
        settings = uvicorn.Config(
            application(workspace, token, own),
            http=functools.partial(Connection, {}),
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(PATIENCE["head"]),
            timeout_graceful_shutdown=1,
        )
        if opens:  # a browser may take its time, and need not be there
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()  # from now on who is told the address may come
    except OSError as error:
        listening.close()
        rule = f"port {port} of {HOST} cannot be had ({error.strerror})"
        fault = Fault(field="--port", rule=rule, value=port, way_out="leave --port out for one that is free")
        raise UnsupportedError("anydml explore", fault) from None
    return listening
