"""The checks that every request and WebSocket passes before it reaches the application.

They are, in this order: the host and the origin (`access.py`), the token and the role that it gives, the rate of
requests, the body, and the number of requests that are served at once (`places.py`). The login form is checked by its
body instead of a token. A request takes a place only when its body is complete, so a slow client costs the others
nothing. Answers get headers that keep browsers from leaking the address, guessing content types, and showing the pages
inside other pages.
"""

from __future__ import annotations

import asyncio
import math

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livegym.web.access import ROLE, Access, Role, address_of
from livegym.web.places import Places
from livegym.web.rates import TokenBuckets
from livegym.web.waiting_room import WaitingRoom

MAX_BODY = 64 * 1024
"""Largest body of a request, in bytes."""
BODY_S = 10.0
"""The time within which a body must arrive."""
MAX_SLOW = 64
"""Bodies that may be incomplete at once: those of strangers, and as many of clients with a valid token."""
BURST_S = 2.0
"""Seconds at the full rate that a client may save up, if `streamRate` limits it."""


def content_policy(scripts: str = "", styles: str = "", sources: str = "") -> str:
    """Return the policy of a page, which may load from this server and from nowhere else.

    Scripts must be files. The arguments allow more: inline styles, and scripts of pages of other projects.
    """
    parts = {
        "default-src": f"'self' {sources}",
        "script-src": f"'self' {scripts}",
        "style-src": f"'self' {styles}",
        "img-src": "'self' data: blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'self'",
    }
    return "; ".join(f"{name} {value.strip()}" for name, value in parts.items())


HEADERS = {
    "content-security-policy": content_policy(),
    "cross-origin-resource-policy": "same-origin",
    # With no-referrer, browsers would send the form with `Origin: null`, like that of a cross-origin page.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set them itself."""
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
SOCKET = "WEBSOCKET"
"""A word in place of the method of a WebSocket, which has none."""


class AccessMiddleware:
    """ASGI middleware that checks access to `app`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self.places = Places()
        self.direct: dict[str, ASGIApp] = {}  # method and path -> who answers, instead of `app`
        self._asked = TokenBuckets(access.rate, BURST_S * access.rate) if access.rate is not None else None
        self._slow = {True: WaitingRoom(MAX_SLOW), False: WaitingRoom(MAX_SLOW)}  # of strangers? -> whose bodies lack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket, or refuse it."""
        send = _dressed(send)
        connection = HTTPConnection(scope)
        refusal = self._access.cross_origin(connection) or self._admission(connection)
        role = scope.get(ROLE)
        refusal = self._too_fast(connection, role) or refusal
        body = b""
        if refusal is None and scope["type"] == "http":
            found = await _body(connection, receive, self._slow[role is None])
            if isinstance(found, Response):
                refusal = found
            else:
                body, receive = found, _replayed(found, receive)
        refusal = refusal or self.places.take(connection, role)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            await self._answering(connection, body)(scope, receive, send)
        finally:
            self.places.give_back(connection, role)

    def _answering(self, connection: HTTPConnection, body: bytes) -> ASGIApp:
        if _signs_in(connection):
            return self._access.login(connection, body)
        scope = connection.scope
        return self.direct.get(f"{scope.get('method', SOCKET)} {scope['path']}", self._app)

    def _too_fast(self, connection: HTTPConnection, role: Role | None) -> Response | None:
        """Return the refusal of a client that asks too often. Clients without a token are not counted."""
        if self._asked is None or role is None:
            return None
        address = address_of(connection)
        bucket = self._asked.of((role, address))
        if bucket.take():
            return None
        wait = math.ceil(bucket.wait())
        message = f"Too many requests from {address or 'this client'} (streamRate); wait {wait} s.\n"
        return PlainTextResponse(message, 429, {"retry-after": str(wait), "connection": "close"})

    def _admission(self, connection: HTTPConnection) -> Response | None:
        """Return the refusal of a request, or the redirect from `/login`; None if it should be answered."""
        scope = connection.scope
        if _signs_in(connection):
            return None
        admitted = self._access.admit(connection)
        if isinstance(admitted, Role):
            scope[ROLE] = admitted
        if scope["path"] == "/healthz":
            return None
        if isinstance(admitted, Response):
            return admitted
        if scope["path"] == "/login":
            return RedirectResponse("/", 303)
        if admitted is Role.SPECTATOR and scope.get("method", "GET") not in ("GET", "HEAD"):
            return PlainTextResponse(f"This server is read-only for you ({self._access.only_watch}).\n", 403)
        return None


def _signs_in(connection: HTTPConnection) -> bool:
    return connection.scope["path"] == "/login" and connection.scope.get("method") == "POST"


async def _body(connection: HTTPConnection, receive: Receive, room: WaitingRoom) -> bytes | Response:
    """Read the complete body; return it, or the refusal of a body that is too large or too slow.

    Meanwhile the client is in the `room`; if it has to leave, its body is too slow.
    """
    length = connection.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        return _cut(413, f"The body is too large; allowed: at most {MAX_BODY} bytes.\n")
    body, more = b"", True
    try:
        async with asyncio.timeout(BODY_S) as deadline:
            room.enter(deadline, address_of(connection), lambda: deadline.reschedule(asyncio.get_running_loop().time()))
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return _cut(400, "The body is incomplete.\n")
                body, more = body + message["body"], message["more_body"]
                if len(body) > MAX_BODY:  # a chunked body has no length in its header
                    return _cut(413, f"The body is too large; allowed: at most {MAX_BODY} bytes.\n")
    except TimeoutError:
        return _cut(408, f"The body did not arrive in time (at most {BODY_S:g} s).\n")
    finally:
        room.exit(deadline)
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
            own = message.get("headers", ())
            given = {name.lower() for name, _ in own}
            message["headers"] = [*own, *(pair for pair in RAW_HEADERS if pair[0] not in given)]
        await send(message)

    return dressed
