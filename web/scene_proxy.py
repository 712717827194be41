"""viser's page and its WebSocket behind the HTTP gateway.

    proxy = SceneProxy(viser_server)
    gateway.app.include_router(proxy.router)

viser listens on loopback without any authentication; this proxy is the only way to it. The page is at `/scene/`, and
its client connects to `/scene` on its own. A page that needs to know its viser client passes an id of its own in the
address, `/scene/?websocket=` + `ws://<location.host>/scene/ws?page=<id>` (escaped). `on_open(id, port)` is then called
with the port from which viser sees that client connect, before it connects.

Frames are forwarded one at a time, and the buffers between viser and the browser are small. So a client that reads
slowly delays only its own producer in viser, which then skips to the newest state.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import hmac
import http.client
import logging
import re
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import viser
from fastapi import APIRouter, WebSocket
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.websockets import WebSocketDisconnect, WebSocketState
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.typing import Subprotocol

from livegym.web.middleware import content_policy
from livegym.web.rates import TokenBucket
from livegym.web.scene_messages import Filter, Unreadable
from livegym.web.viser_seam import on_connection, take_no_orders

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
PAGE = re.compile(r"[A-Za-z0-9_-]{1,64}")
BUFFER = 16 * 1024
"""Bytes of the kernel's buffers between viser and this proxy; the default would hold megabytes of old frames."""
SECRET_HEADER = "x-livegym-secret"
CONNECT_S = 5.0
# viser's page is one file: its scripts and styles are inline, its workers are blobs, its WebAssembly needs eval, its
# pictures and fonts are data URLs.
POLICY = content_policy("'unsafe-inline' 'unsafe-eval' blob:", "'unsafe-inline'", "data: blob:")
MESSAGES = (200.0, 400.0)  # a second, and in a burst; viser's client sends its camera at 50 Hz
ABUSE = (1000.0, 5000.0)

Ending = tuple[int, str]
"""Close code and reason of a WebSocket."""
SENDABLE = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})


class SceneProxy:
    """Forwards a viser server on loopback to the clients that the gateway has authenticated."""

    def __init__(
        self,
        server: viser.ViserServer,
        on_open: Callable[[str, int], None] = lambda page, port: None,
        on_close: Callable[[str, int], None] = lambda page, port: None,
    ) -> None:
        """The callbacks run on the server's event loop: keep them short."""
        self.dropped = 0  # messages that were not forwarded
        self.router = APIRouter()
        self._port = server.get_port()
        self._filter = Filter()
        self._on_open, self._on_close = on_open, on_close
        self._page = _Page(self._port)
        take_no_orders(server)  # an unauthenticated client may send before it is disconnected
        on_connection(server, _greet)
        for path in ("/scene", "/scene/"):
            self.router.add_api_route(path, self._page.answer, methods=["GET"], response_model=None)
        for path in ("/scene", "/scene/ws"):
            self.router.add_api_websocket_route(path, self._serve)

    async def _serve(self, browser: WebSocket) -> None:
        """Serve one browser until it or viser disconnects."""
        with contextlib.suppress(WebSocketDisconnect):  # it disconnected before it was answered
            await self._connect(browser)

    async def _connect(self, browser: WebSocket) -> None:
        page = browser.query_params.get("page")
        if page is not None and not PAGE.fullmatch(page):
            message = "page: invalid id. Allowed: letters, digits, _ and -, at most 64.\n"
            await browser.send_denial_response(PlainTextResponse(message, 400))
            return
        try:
            upstream = await _dial(self._port)
        except OSError:
            await _deny(browser)
            return
        own = upstream.getsockname()
        port = own[1]
        _DIALLED.add(own)
        if page is not None:
            self._on_open(page, port)
        try:
            await self._relay(browser, upstream)
        finally:
            upstream.close()
            _DIALLED.discard(own)
            if page is not None:
                self._on_close(page, port)

    async def _relay(self, browser: WebSocket, upstream: socket.socket) -> None:
        versions = [Subprotocol(name) for name in browser.scope["subprotocols"] if name.startswith("viser-v")]
        try:
            scene = await connect(
                f"ws://{HOST}:{self._port}/",
                sock=upstream,
                subprotocols=versions or None,
                additional_headers={SECRET_HEADER: _SECRET},
                compression=None,
                proxy=None,
                max_size=None,  # meshes may be large, and come from our own server
                max_queue=1,
                ping_interval=None,  # otherwise a browser that reads slowly would time out
                open_timeout=CONNECT_S,
                close_timeout=1,
            )
        except (OSError, InvalidHandshake, InvalidMessage, TimeoutError):
            await _deny(browser)
            return
        async with scene:
            await browser.accept(scene.subprotocol)
            ending = await _first(self._upward(browser, scene), _downward(browser, scene))
            if ending is not None and browser.application_state is WebSocketState.CONNECTED:
                await browser.close(*ending)
        log.debug("a client of the scene disconnected: %s", ending or "on its own")

    async def _upward(self, browser: WebSocket, scene: ClientConnection) -> Ending | None:
        """Forward the browser's allowed messages until one side disconnects.

        Returns how to close the browser's WebSocket; None if the browser has disconnected.
        """
        few, many = TokenBucket(*MESSAGES), TokenBucket(*ABUSE)
        while (event := await browser.receive())["type"] != "websocket.disconnect":
            raw = event.get("bytes")
            if raw is None:
                return 1003, "binary messages only"
            if not many.take():
                return 1008, "too many messages"
            try:
                message = self._filter.passed(raw)
            except Unreadable:
                return 1007, "not a message of viser's client"
            if message is None or not few.take():
                self.dropped += 1
                continue
            try:
                await scene.send(message)
            except ConnectionClosed:
                return _ending_of(scene)
        return None


async def _downward(browser: WebSocket, scene: ClientConnection) -> Ending | None:
    """Forward viser's messages until one side disconnects.

    Returns how to close the browser's WebSocket; None if the browser has disconnected.
    """
    try:
        while True:
            await browser.send_bytes(await scene.recv(decode=False))
    except ConnectionClosed:
        return _ending_of(scene)
    except WebSocketDisconnect:
        return None


def _ending_of(scene: ClientConnection) -> Ending:
    code = scene.close_code if scene.close_code in SENDABLE else 1011
    return code or 1011, scene.close_reason or ""


async def _first(*pumps: Coroutine[Any, Any, Ending | None]) -> Ending | None:
    """Return the result of the pump that ends first; cancel the others."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return finished.pop().result()


async def _deny(browser: WebSocket) -> None:
    await browser.send_denial_response(PlainTextResponse("The 3D scene is not available.\n", 502))


async def _greet(connection: ServerConnection) -> None:
    """Give viser's socket a small buffer, and close a connection that does not come from this proxy.

    viser listens on loopback without a token, so each user of this machine, and any page that is open in a browser on
    it, could connect. Another user can choose the port of a connection, even one that the proxy uses too, but does not
    know the secret.
    """
    shown = connection.request.headers.get(SECRET_HEADER, "") if connection.request is not None else ""
    known = hmac.compare_digest(shown.encode("utf-8", "replace"), _SECRET.encode())
    if tuple(connection.remote_address[:2]) not in _DIALLED or not known:
        # What it has sent is read and dropped, so that viser reads none of it.
        await asyncio.gather(connection.close(1008, "only through the gateway"), _drop_all(connection))
        return
    with contextlib.suppress(OSError):  # it has disconnected already
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)


async def _drop_all(connection: ServerConnection) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await connection.recv()


_DIALLED: set[tuple[str, int]] = set()  # local addresses of this process's connections to viser
_SECRET = secrets.token_urlsafe(32)


async def _dial(port: int) -> socket.socket:
    """Connect to viser, with a small receive buffer. Raises OSError if that fails."""
    upstream = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # so asyncio sets TCP_NODELAY
    try:
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        upstream.setblocking(False)
        await asyncio.get_running_loop().sock_connect(upstream, (HOST, port))
    except BaseException:
        upstream.close()
        raise
    return upstream


class _Page:
    """viser's page, which is fetched once and cached."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._zipped = b""
        self._etag = ""

    def answer(self, request: Request) -> Response:
        """Return the page, or 304 if the browser has it. Runs in FastAPI's thread pool."""
        try:
            self._fetch()
        except (OSError, http.client.HTTPException):
            return PlainTextResponse("The 3D scene is not available.\n", 502)
        headers = {
            "etag": self._etag,
            "cache-control": "private, no-cache",
            "vary": "accept-encoding",
            "content-security-policy": POLICY,
        }
        if request.headers.get("if-none-match") == self._etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self._zipped, headers=headers | {"content-encoding": "gzip"}, media_type="text/html")
        return Response(gzip.decompress(self._zipped), headers=headers, media_type="text/html")

    def _fetch(self) -> None:
        with self._lock:
            if self._zipped:
                return
            connection = http.client.HTTPConnection(HOST, self._port, timeout=CONNECT_S)
            try:
                connection.request("GET", "/", headers={"accept-encoding": "gzip"})
                answer = connection.getresponse()
                body = answer.read()
            finally:
                connection.close()
            if answer.status != 200:
                raise http.client.HTTPException(f"viser answered {answer.status}")
            self._zipped = body if answer.headers["content-encoding"] == "gzip" else gzip.compress(body)
            self._etag = f'W/"{hashlib.sha256(self._zipped).hexdigest()[:16]}"'
