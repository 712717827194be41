"""What every request and WebSocket passes before the application sees it.

In this order: how many are served at once, the host and the page that ask (`access.py`), the size of the body, the
form with the token, the token, and whether more than looking is allowed. Answers get headers that keep browsers from
leaking the address, guessing types, or showing the pages inside other pages.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livegym.web.access import Access

MAX_ACTIVE = 128
"""Requests and WebSockets that are served at once."""
MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
BODY_S = 10.0
"""The time in which a body has to arrive."""


def content_policy(more_scripts: str = "", more_sources: str = "") -> str:
    """What a page of ours may load: what this server serves, and scripts and styles in the page itself."""
    return (
        f"default-src 'self' {more_sources}; script-src 'self' 'unsafe-inline' {more_scripts}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    )


HEADERS = {
    "content-security-policy": content_policy(),
    "cross-origin-resource-policy": "same-origin",
    # With no-referrer, browsers would send the form with `Origin: null`, as a foreign page's form looks.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Of every answer that does not set them itself."""


class AccessMiddleware:
    """ASGI middleware around `app`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self.active = 0  # requests and WebSockets being served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request or WebSocket, or refuses it."""
        self.active += 1
        try:
            await self._serve(scope, receive, _dressed(send))
        finally:
            self.active -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        refusal = self._crowded() or self._access.cross_origin(connection)
        signs_in = scope["path"] == "/login" and scope.get("method") == "POST"
        if refusal is None and not signs_in:  # before its body is waited for: a stranger's may never come
            refusal = self._admission(connection)
        if refusal is None and scope["type"] == "http":
            body = await _body(connection, receive)
            if isinstance(body, Response):
                refusal = body
            elif signs_in:
                refusal = self._access.login(connection, body)
            else:
                receive = _replayed(body, receive)
        await (refusal or self._app)(scope, receive, send)

    def _crowded(self) -> Response | None:
        if self.active <= MAX_ACTIVE:
            return None
        return PlainTextResponse("Too many connections; try again.\n", 503, {"retry-after": "5", "connection": "close"})

    def _admission(self, connection: HTTPConnection) -> Response | None:
        """The answer to who gets no further than here; None: the application answers."""
        scope = connection.scope
        if scope["path"] == "/healthz":
            return None
        method = scope.get("method", "GET")
        refusal = self._access.unauthenticated(connection)
        if refusal is None and scope["path"] == "/login":
            return RedirectResponse("/", 303)
        if refusal is None and self._access.read_only and method not in ("GET", "HEAD"):
            refusal = PlainTextResponse("This server only shows; it takes no orders.\n", 403)
        return refusal


async def _body(connection: HTTPConnection, receive: Receive) -> bytes | Response:
    """The whole body, or the refusal of one that is too large or too slow."""
    length = connection.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        return _cut(413, f"A body of at most {MAX_BODY} bytes is taken.\n")
    body, more = b"", True
    try:
        async with asyncio.timeout(BODY_S):
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return _cut(400, "The body was cut off.\n")
                body, more = body + message["body"], message["more_body"]
                if len(body) > MAX_BODY:  # it came in chunks, without a length
                    return _cut(413, f"A body of at most {MAX_BODY} bytes is taken.\n")
    except TimeoutError:
        return _cut(408, f"The body did not arrive within {BODY_S:g} s.\n")
    return body


def _cut(status: int, words: str) -> Response:
    """An answer after which the connection is closed, since the rest of the body is not read."""
    return PlainTextResponse(words, status, {"connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive`, which gives the body once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _dressed(send: Send) -> Send:
    """`send`, which adds the headers that the application did not set itself."""

    async def dressed(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return dressed
