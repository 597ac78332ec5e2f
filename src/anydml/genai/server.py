"""A server with OpenAI's interface: chat completions and completions of one model, streamed and whole."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any

from anydml.core.errors import DmlError, Fault, MissingDependencyError, UnsupportedError
from anydml.genai.batching import Batcher, Full, Request
from anydml.genai.media import Images
from anydml.genai.openai_requests import Asked, Stops, Wrong, read
from anydml.genai.tokenizer import Tokenizer

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as _error:
    _fault = Fault(field="serve", rule=f"a server needs {_error.name}", way_out="pip install 'anydml[genai]'")
    raise MissingDependencyError("anydml serve", _fault) from None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import numpy as np
    from starlette.requests import Request as HttpRequest

    from anydml.genai.model import Model

MOST_BYTES = 4 * 2**20
"""Of a request's body."""
_PATIENCE = 30.0
"""Seconds for a request's body."""
_LOOK = 1.0
"""Seconds between looks whether a client is still there."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Service:
    """A model, and what is answered about it."""

    def __init__(self, model: Model, name: str, key: str | None, batcher: Batcher, *, is_local: bool) -> None:
        self._model, self._name, self._key, self._batcher = model, name, key, batcher
        self._tokenizer = Tokenizer(model)
        self._processor = model.create_multimodal_processor() if "vision" in model.parts else None
        self._is_local = is_local
        self._created = int(time.time())

    def application(self) -> Starlette:
        """What a server runs."""
        routes = [
            Route("/health", self._health),
            Route("/v1/models", self._models),
            Route("/v1/models/{name:path}", self._one_model),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/completions", self._complete, methods=["POST"]),
        ]
        handlers: Any = {Wrong: _refused, 404: _no_route, 405: _no_route}
        return Starlette(routes=routes, exception_handlers=handlers)

    # Who may ask

    def _check(self, request: HttpRequest) -> None:
        if self._key is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._key.encode()):
                rule = "the request needs the server's key: Authorization: Bearer KEY"
                raise Wrong(rule, status=401, code="invalid_api_key")
            return
        # Without a key a page of somebody else's, in a browser of this machine, might ask.
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        for name in (host, origin.partition("://")[2]):
            if self._is_local and name and (name.rpartition(":")[0] or name).strip("[]") not in LOOPBACK:
                raise Wrong("this server answers to this machine alone; start it with a key for others", status=403)

    # Facts

    async def _health(self, _request: HttpRequest) -> JSONResponse:
        return JSONResponse({"status": "ok", "active": self._batcher.active, "waiting": self._batcher.waiting})

    def _described(self) -> dict[str, Any]:
        return {"id": self._name, "object": "model", "created": self._created, "owned_by": "anydml"}

    async def _models(self, request: HttpRequest) -> JSONResponse:
        self._check(request)
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def _one_model(self, request: HttpRequest) -> JSONResponse:
        self._check(request)
        if request.path_params["name"] != self._name:
            raise Wrong(f"there is no such model; there is {self._name!r}", "model", 404, "model_not_found")
        return JSONResponse(self._described())

    # Answers

    async def _chat(self, request: HttpRequest) -> Any:
        return await self._answer(request, _Chat())

    async def _complete(self, request: HttpRequest) -> Any:
        return await self._answer(request, _Plain())

    async def _answer(self, request: HttpRequest, form: _Form) -> Any:
        self._check(request)
        body = await _read_body(request)
        asked, work, events = await self._submit(body, is_chat=isinstance(form, _Chat))
        head = {"id": f"{form.prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": self._name}
        parts = self._parts(asked, work, events)
        if asked.streams:
            return StreamingResponse(self._stream(parts, asked, work, head, form), media_type="text/event-stream")
        text, reason = "", ""
        gathering = asyncio.ensure_future(_gather(parts))
        try:
            while not gathering.done():
                await asyncio.wait([gathering], timeout=_LOOK)
                if await request.is_disconnected():
                    break
            else:
                text, reason = gathering.result()
        finally:
            work.cancel()
            gathering.cancel()
        usage = _usage(work)
        return JSONResponse({**head, "object": form.kind, "choices": [form.choice(text, reason)], "usage": usage})

    async def _submit(self, body: Any, *, is_chat: bool) -> tuple[Asked, Request, asyncio.Queue[None]]:
        loop, events = asyncio.get_running_loop(), asyncio.Queue[None]()

        def tell(_request: Request) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(events.put_nowait, None)

        def make() -> tuple[Asked, Request]:
            mark = self._processor.mark if self._processor is not None else None
            asked = read(body, self._model, self._tokenizer, self._name, is_chat=is_chat, mark=mark)
            tokens, pictures = self._taken(asked)
            if not len(tokens):
                raise Wrong("the prompt must have a token at least", "messages" if is_chat else "prompt")
            most = self._batcher.length
            if len(tokens) >= most:
                message = f"the prompt has {len(tokens)} tokens, and prompt and answer may have {most} together"
                raise Wrong(message, "messages" if is_chat else "prompt", code="context_length_exceeded")
            limit = most if asked.limit is None else min(most, len(tokens) + asked.limit)
            asked.params.set_search_options(max_length=limit)
            return asked, Request(self._model, tokens, asked.params, tell, pictures)

        try:
            asked, work = await run_in_threadpool(make)
            self._batcher.submit(work)
        except DmlError as error:
            raise Wrong(str(error)) from error
        except Full:
            raise Wrong("as many requests wait as may; ask again later", status=429, code="queue_full") from None
        return asked, work, events

    def _taken(self, asked: Asked) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """A prompt's tokens, and what a vision model takes."""
        if self._processor is None or not asked.pictures:
            return self._tokenizer.encode(asked.prompts[0]), {}
        found = self._processor(asked.prompts[0], images=Images.open_bytes(*asked.pictures))
        given = {name: found[name].held for name in found}
        return given.pop("input_ids")[0], given

    async def _parts(self, asked: Asked, work: Request, events: asyncio.Queue[None]) -> AsyncIterator[tuple[str, str]]:
        """Pieces of text, and with the last of them why it ends."""
        stream, stops = self._tokenizer.create_stream(), Stops(asked.stops)
        ends = set(self._model.config.eos_token_ids)
        try:
            while True:
                await events.get()
                if work.error is not None:
                    raise Wrong(str(work.error), status=500)
                is_done = work.is_done
                text = "".join(stream.decode(token) for token in work.new_tokens() if token not in ends)
                text = stops.feed(text)
                if stops.is_over:
                    yield text, "stop"
                    return
                if is_done:
                    yield text + stops.feed(stream.flush()) + stops.flush(), "stop" if work.has_ended else "length"
                    return
                if text:
                    yield text, ""
        finally:
            work.cancel()

    async def _stream(
        self, parts: AsyncIterator[tuple[str, str]], asked: Asked, work: Request, head: dict[str, Any], form: _Form
    ) -> AsyncIterator[str]:
        head = {**head, "object": form.piece_kind}
        try:
            if (opening := form.opening()) is not None:
                yield _event({**head, "choices": [opening]})
            async for text, reason in parts:
                if text:
                    yield _event({**head, "choices": [form.piece(text, None)]})
                if reason:
                    yield _event({**head, "choices": [form.piece("", reason)]})
            if asked.tells_usage:
                yield _event({**head, "choices": [], "usage": _usage(work)})
        except Wrong as error:
            yield _event(error.told())
        finally:
            work.cancel()
        yield "data: [DONE]\n\n"


class _Form:
    """How an answer is written."""

    prefix = kind = piece_kind = ""

    def choice(self, text: str, reason: str) -> dict[str, Any]:
        raise NotImplementedError

    def piece(self, text: str, reason: str | None) -> dict[str, Any]:
        raise NotImplementedError

    def opening(self) -> dict[str, Any] | None:
        return None


class _Chat(_Form):
    prefix, kind, piece_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, text: str, reason: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}

    def piece(self, text: str, reason: str | None) -> dict[str, Any]:
        delta = {"content": text} if text else {}
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}

    def opening(self) -> dict[str, Any]:
        delta = {"role": "assistant", "content": ""}
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}


class _Plain(_Form):
    prefix, kind, piece_kind = "cmpl", "text_completion", "text_completion"

    def choice(self, text: str, reason: str) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}

    def piece(self, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}


async def _gather(parts: AsyncIterator[tuple[str, str]]) -> tuple[str, str]:
    texts, reason = [], ""
    async for text, reason in parts:  # noqa: B007 - the last one counts
        texts.append(text)
    return "".join(texts), reason


def _usage(work: Request) -> dict[str, int]:
    made = work.search.length - work.prompt_length
    return {"prompt_tokens": work.prompt_length, "completion_tokens": made, "total_tokens": work.search.length}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def _read_body(request: HttpRequest) -> Any:
    data = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE):
            async for piece in request.stream():
                data += piece
                if len(data) > MOST_BYTES:
                    raise Wrong(f"the request must have at most {MOST_BYTES} bytes", status=413)
        return json.loads(data.decode())
    except (ValueError, RecursionError):
        raise Wrong("the request must be JSON") from None
    except (TimeoutError, ClientDisconnect):
        raise Wrong(f"the request must have come within {_PATIENCE:g} seconds", status=408) from None


async def _refused(_request: HttpRequest, error: Any) -> JSONResponse:
    return JSONResponse(error.told(), error.status)


async def _no_route(request: HttpRequest, error: Any) -> JSONResponse:
    wrong = Wrong(f"{request.method} {request.url.path} is not there", status=error.status_code)
    return JSONResponse(wrong.told(), error.status_code)


def listen(host: str, port: int) -> socket.socket:
    """A socket that clients may connect to."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        rule = f"port {port} of {host} cannot be had ({error.strerror or error})"
        fault = Fault(field="--port", rule=rule, value=port, way_out="give another --port, or 0 for one that is free")
        raise UnsupportedError("anydml serve", fault) from None
    return listening


def serve(
    model: Model, name: str, host: str, port: int, key: str | None, batcher: Batcher, say: Callable[[str], None]
) -> None:
    """Serve a model until somebody interrupts it."""
    is_local = host in LOOPBACK
    if not is_local and key is None:
        rule = f"a server at {host}, which others reach, needs a key"
        fault = Fault(field="--key", rule=rule, way_out="give --key, or set ANYDML_KEY; --host 127.0.0.1 needs none")
        raise UnsupportedError("anydml serve", fault)
    with contextlib.closing(listen(host, port)) as listening:
        own = f"[{host}]" if ":" in host else host
        say(f"http://{own}:{listening.getsockname()[1]}/v1")
        application = Service(model, name, key, batcher, is_local=is_local).application()
        settings = uvicorn.Config(
            application,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=256,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
        )
        try:
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(settings).run(sockets=[listening])
        finally:
            batcher.close()
