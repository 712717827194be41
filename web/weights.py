"""The routes by which other machines follow a training run: its versions, and news of them.

    gateway.app.include_router(WeightRoutes(offer, gateway).router)

| path | gives |
| --- | --- |
| `/weights` | JSON: the runs |
| `/weights/<run>` | JSON: the versions of a run, named by its id or its name |
| `/weights/<run id>/<version>` | one version as bytes (`weights/message.py`); they never change |
| `/weights/ws` | a WebSocket: a line of JSON for the newest version, and for each newer one |

The bytes may be kept by a caching proxy forever. If they were asked for with a token, the proxy keeps them apart by
that token (`Vary`), so it gives them to no client without it. A follower that reads slowly misses versions, but gets
the newest.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable

from fastapi import APIRouter, WebSocket
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from livegym.utils.files import strict_json
from livegym.web.access import Access, Role, role_of
from livegym.web.gateway import Gateway
from livegym.weights.message import CONTENT_TYPE
from livegym.weights.offer import PROTOCOL, Offer, OfferedVersion

FOLLOWERS = 1200
"""WebSockets of followers that may be open at once."""
PATH = "/weights/ws"
FOR_EVER = "max-age=31536000, immutable"
VERSION = re.compile(r"\d{1,15}")
LONGEST_NAME = 200
PIECE = 64 * 1024  # bytes that are given to a connection at once
PATIENCE_S, SLOWEST = 10.0, 16 * 1024
"""Time in which a client must have read a version: so much, and so many bytes per second in addition."""


class PieceByPiece(Response):
    """An answer that is sent as fast as its client reads it, and given up if that is slower than `SLOWEST`.

    Otherwise all of it would be copied into the server's buffers at once, and the connection, which then waits for its
    next request, would be closed before a slow client has read it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. Returns without its end if the client is too slow; the server then disconnects it."""
        body = memoryview(self.body)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S + len(body) / SLOWEST):
                for start in range(0, len(body), PIECE):
                    piece = body[start : start + PIECE]
                    more = start + PIECE < len(body)
                    await send({"type": "http.response.body", "body": piece, "more_body": more})


class WeightRoutes:
    """The routes of one server; `router` has them."""

    def __init__(self, offer: Offer, gateway: Gateway, for_spectators: bool = False) -> None:
        """`for_spectators`: those who may only watch may also take the weights."""
        self._offer = offer
        self._access: Access = gateway.access
        self._for_spectators = for_spectators
        gateway.places.allow(PATH, FOLLOWERS)
        self.open = 0  # followers
        self.router = APIRouter()
        self.router.add_route("/weights", self._runs, methods=["GET"])
        self.router.add_route("/weights/{run}", self._versions, methods=["GET"])
        self.router.add_route("/weights/{run}/{version}", self._bytes, methods=["GET"])
        self.router.add_api_websocket_route(PATH, self._news)

    def _refusal(self, connection: HTTPConnection) -> Response | None:
        if self._for_spectators or role_of(connection) is Role.OPERATOR:
            return None
        return PlainTextResponse(f"Weights are only for operators ({self._access.only_watch}).\n", 403)

    async def _runs(self, request: Request) -> Response:
        return self._refusal(request) or _json({"v": PROTOCOL, "runs": await run_in_threadpool(self._offer.runs)})

    async def _versions(self, request: Request) -> Response:
        name = request.path_params["run"][:LONGEST_NAME]
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        found = await run_in_threadpool(self._offer.versions, name)
        return _json(found) if found is not None else PlainTextResponse(f"There is no run {name!r} here.\n", 404)

    async def _bytes(self, request: Request) -> Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        run_id, version = request.path_params["run"][:LONGEST_NAME], request.path_params["version"]
        if not VERSION.fullmatch(version):
            return PlainTextResponse("A version is a whole number.\n", 404)
        made = self._offer.get(run_id, int(version))
        if made is None:
            made = await run_in_threadpool(self._offer.find, run_id, int(version))
        if made is None:
            return PlainTextResponse(f"There is no version {version} of {run_id!r} here (any more).\n", 404)
        return self._answer(request, made)

    def _answer(self, request: Request, made: OfferedVersion) -> Response:
        with_token = "authorization" in request.headers and self._access.owner is None
        shared = self._access.token is None or with_token
        headers = {"etag": made.etag, "cache-control": f"{'public' if shared else 'private'}, {FOR_EVER}"}
        if with_token:
            headers["vary"] = "authorization"
        if made.etag in request.headers.get("if-none-match", ""):
            return Response(None, 304, headers)
        return PieceByPiece(made.data, 200, headers, CONTENT_TYPE)

    async def _news(self, socket: WebSocket) -> None:
        refusal = self._refusal(socket)
        if refusal is not None:
            await socket.send_denial_response(refusal)
            return
        await socket.accept()
        news = asyncio.Event()
        wake = _from_any_thread(asyncio.get_running_loop(), news.set)
        self.open += 1
        self._offer.listen(wake)
        telling = asyncio.create_task(self._tell(socket, news))
        try:
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass  # a follower has nothing to say
        finally:
            self.open -= 1
            self._offer.unlisten(wake)
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await telling

    async def _tell(self, socket: WebSocket, news: asyncio.Event) -> None:
        told: OfferedVersion | None = None
        while True:
            newest = self._offer.newest
            if newest is not None and newest is not told:
                told = newest
                await socket.send_text(newest.announcement)  # waits until the follower has read what was sent before
            else:
                await news.wait()
            news.clear()


def _from_any_thread(loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> Callable[[], None]:
    """Return a function that lets the event loop call `do`; it does nothing once the loop is closed."""

    def call() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(do)

    return call


def _json(content: object) -> Response:
    return Response(strict_json(content), media_type="application/json")
