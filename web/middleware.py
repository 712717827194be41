"""The checks that every request and WebSocket passes before it reaches the application.

They are, in this order: the number of active requests, the host and the origin (`access.py`), the token, the role that
it gives, and the size of the body. The login form is checked by its body instead of a token. Answers get headers that
keep browsers from leaking the address, guessing content types, and showing the pages inside other pages.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livegym.web.access import ROLE, Access, Role

MAX_ACTIVE = 128
"""Largest number of requests and WebSockets that are served at the same time."""
MAX_BODY = 64 * 1024
"""Largest body of a request, in bytes."""
BODY_S = 10.0
"""The time within which a body must arrive."""


def content_policy(more_scripts: str = "", more_sources: str = "") -> str:
    """Return the policy of our pages: they may load only from this server, and use inline scripts and styles."""
    return (
        f"default-src 'self' {more_sources}; script-src 'self' 'unsafe-inline' {more_scripts}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    )


HEADERS = {
    "content-security-policy": content_policy(),
    "cross-origin-resource-policy": "same-origin",
    # With no-referrer, browsers would send the form with `Origin: null`, like that of a cross-origin page.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set them itself."""


class AccessMiddleware:
    """ASGI middleware that checks access to `app`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self.active = 0  # requests and WebSockets being served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket, or refuse it."""
        self.active += 1
        try:
            await self._serve(scope, receive, _dressed(send))
        finally:
            self.active -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        refusal = self._crowded() or self._access.cross_origin(connection)
        signs_in = scope["path"] == "/login" and scope.get("method") == "POST"
        if refusal is None and not signs_in:  # before waiting for the body, which may never come
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
        """Return the refusal of a request, or the redirect from `/login`; None if the application should answer."""
        scope = connection.scope
        if scope["path"] == "/healthz":
            return None
        admitted = self._access.admit(connection)
        if isinstance(admitted, Response):
            return admitted
        scope[ROLE] = admitted
        if scope["path"] == "/login":
            return RedirectResponse("/", 303)
        if admitted is Role.SPECTATOR and scope.get("method", "GET") not in ("GET", "HEAD"):
            return PlainTextResponse(f"This server is read-only for you ({self._access.only_watch}).\n", 403)
        return None


async def _body(connection: HTTPConnection, receive: Receive) -> bytes | Response:
    """Read the complete body; return it, or the refusal of a body that is too large or too slow."""
    length = connection.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        return _cut(413, f"The body is too large; allowed: at most {MAX_BODY} bytes.\n")
    body, more = b"", True
    try:
        async with asyncio.timeout(BODY_S):
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return _cut(400, "The body is incomplete.\n")
                body, more = body + message["body"], message["more_body"]
                if len(body) > MAX_BODY:  # a chunked body has no length in its header
                    return _cut(413, f"The body is too large; allowed: at most {MAX_BODY} bytes.\n")
    except TimeoutError:
        return _cut(408, f"The body did not arrive within {BODY_S:g} s.\n")
    return body


def _cut(status: int, message: str) -> Response:
    """Return an answer that closes the connection, because the rest of the body is not read."""
    return PlainTextResponse(message, status, {"connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns the body again."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _dressed(send: Send) -> Send:
    """Return a `send` that adds the headers that the application did not set itself."""

    async def dressed(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return dressed
