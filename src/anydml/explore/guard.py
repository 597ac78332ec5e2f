"""Who may ask the server: a browser that was opened with the token, at this address, in requests of a bounded size."""

from __future__ import annotations

import asyncio
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20
"""Of a request's body: data typed by hand is far below it."""
_PATIENCE = 10
"""Seconds that a part of a request's body may take."""
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
        await self._app(scope, _bounded(receive), _with_headers(send))

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
            return answer
        if not self._is_token(self._kept(headers)):
            return PlainTextResponse(_STRANGER, 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return PlainTextResponse(f"A request must have at most {MOST_BYTES} bytes.\n", 413)
        if scope["method"] == "POST" and headers.get("content-type") != "application/json":
            return PlainTextResponse("A request must be JSON.\n", 415)
        return None

    def _kept(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _bounded(receive: Receive) -> Receive:
    """A body that comes whole, whatever it says of its length, and in time; or else as if the asker had gone."""
    left = MOST_BYTES

    async def receiving() -> Message:
        nonlocal left
        try:
            async with asyncio.timeout(_PATIENCE):
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
