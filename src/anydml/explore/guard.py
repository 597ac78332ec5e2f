"""Who may ask the server: a browser that was opened with the token, at this address, in requests of a bounded size.

And who may stay connected: whoever takes its time, or has not shown the token, gives way.
"""

from __future__ import annotations

import asyncio
import hmac
import math
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

import h11
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20
"""Of a request's body: data typed by hand is far below it."""
FILES = "/file"
"""The path that files of models are sent to, whose size is bounded by the free space."""
_BODIES = {FILES: ("application/octet-stream", "the bytes of a file")}
"""By path the type of a request's body, in words as well; others are JSON."""
MOST_CONNECTED = 32
"""Connections; a browser opens six."""
PATIENCE = {"head": 5.0, "body": 10.0, "answer": 10.0, "end": 5.0}
"""Seconds for a request's head, from the end of the last one on, for its body, for an answer that is not read, and for
the connection's end."""
_SHOWN = "anydml.token"
"""The mark of a request with the token, in its scope's state."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing is loaded from anywhere else; a picture's cells have styles of their own."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STRANGER = "This page needs its token: open the address that `anydml explore` printed.\n"


class Guard:
    """An application behind a token, for one address."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie = f"anydml-explore-{port}"  # a browser keeps one set of cookies for all ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        await self._app(scope, _bounded(receive, has_end=scope["path"] != FILES), _with_headers(send))

    def _refusal(self, scope: Scope) -> Any:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:  # a name that somebody else lets lead to this machine
            return PlainTextResponse("This server answers to 127.0.0.1 alone.\n", 421)
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return PlainTextResponse("Other pages may not ask this server.\n", 403)
        given = QueryParams(scope["query_string"]).get("token")
        if given is not None and scope["method"] == "GET":
            if not self._is_token(given):
                return PlainTextResponse(_STRANGER, 403)
            answer = RedirectResponse(scope["path"], 303)  # the token leaves the address, and the browser's history
            answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
            scope.setdefault("state", {})[_SHOWN] = True
            return answer
        if not self._is_token(self._kept(headers)):
            return PlainTextResponse(_STRANGER, 403)
        scope.setdefault("state", {})[_SHOWN] = True
        length, is_file = headers.get("content-length", "0"), scope["path"] == FILES
        if not length.isdecimal() or (int(length) > MOST_BYTES and not is_file):
            return PlainTextResponse(f"A request must have at most {MOST_BYTES} bytes.\n", 413)
        kind, words = _BODIES.get(scope["path"], ("application/json", "JSON"))
        if scope["method"] == "POST" and headers.get("content-type") != kind:
            return PlainTextResponse(f"A request must be {words}.\n", 415)
        return None

    def _kept(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


class Connection(H11Protocol):  # type: ignore[misc]  # uvicorn has no types here
    """A connection with a time limit for each thing that it waits for, of which there are so many at most.

    Where there are more, the oldest that has not shown the token is ended, or else the oldest that asks for nothing.
    """

    def __init__(self, everyone: dict[Connection, None], **given: Any) -> None:
        """`everyone` has the server's connections, in the order in which they came."""
        super().__init__(**given)
        self._everyone = everyone
        self._has_token = self._is_unread = False
        self._waits_for = ""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Make room, or go."""
        super().connection_made(transport)
        if len(self._everyone) >= MOST_CONNECTED:
            others = sorted(self._everyone, key=lambda one: one.has_token())
            leaving = next((one for one in others if not one.has_token() or one.waiting_for() == "head"), self)
            leaving.end()
            if leaving is self:
                return
        self._everyone[self] = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._everyone.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what has come; each part of a file has a time of its own, once the token was shown."""
        super().data_received(data)
        if self._waits_for == "body" and self.has_token() and self.scope and self.scope["path"] == FILES:
            self._waits_for = ""
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.has_token()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the reader."""
        self.flow.pause_writing()
        self._is_unread = True
        self._watch()

    def resume_writing(self) -> None:
        """Go on."""
        self.flow.resume_writing()
        self._is_unread = False
        self._watch()

    def has_token(self) -> bool:
        """Whether a request of this connection has shown the token."""
        self._has_token = self._has_token or bool(self.scope and self.scope["state"].get(_SHOWN))
        return self._has_token

    def end(self) -> None:
        """Close the connection at once, whatever is unsent."""
        self._everyone.pop(self, None)
        self.transport.abort()

    def waiting_for(self) -> str:
        """What the other side owes, by its name in `PATIENCE`; nothing while an answer is made."""
        if self._is_unread:
            return "answer"
        if self.transport.is_closing() or self.conn.their_state in (h11.ERROR, h11.CLOSED):
            return "end"
        return {h11.IDLE: "head", h11.SEND_BODY: "body"}.get(self.conn.their_state, "")

    def _watch(self) -> None:
        """Start the time of what is waited for; as long as that is the same, a part of it changes nothing."""
        if (waits_for := self.waiting_for()) == self._waits_for:
            return
        self._waits_for = waits_for
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(PATIENCE[waits_for], self.end) if waits_for else None


def _bounded(receive: Receive, *, has_end: bool) -> Receive:
    """A body that comes whole, whatever it says of its length, and in time; or else as if the asker had gone."""
    left = float(MOST_BYTES) if has_end else math.inf  # a file is counted by who writes it

    async def receiving() -> Message:
        nonlocal left
        try:
            async with asyncio.timeout(PATIENCE["body"]):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        left -= len(message.get("body", b""))
        return {"type": "http.disconnect"} if left < 0 else message

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending
