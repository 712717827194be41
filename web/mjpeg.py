"""Pictures for browsers and players without 3D: `/stream`, a sequence of JPEGs.

    frames = Frames()
    gateway.app.include_router(stream_router(frames))
    if frames.wanted:  # in the renderer's loop: it draws nothing without viewers
        frames.publish(jpeg)

Each client gets the newest picture when it has accepted the last one. There is no queue in which pictures could age.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

MAX_CLIENTS = 8
BOUNDARY = "frame"


class Frames:
    """The newest picture, and the clients that wait for the next one."""

    def __init__(self) -> None:
        self.unavailable = ""  # why pictures cannot be rendered; empty: they can
        self.viewers = 0
        self._newest: bytes | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrivals: set[asyncio.Event] = set()

    @property
    def wanted(self) -> bool:
        """Whether there are viewers."""
        return self.viewers > 0

    def give_up(self, why: str) -> None:
        """Report that no more pictures will come; only the first reason is kept. Any thread may call it."""
        self.unavailable = self.unavailable or why

    def publish(self, jpeg: bytes) -> None:
        """Replace the newest picture. Any thread may call it."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                self._loop.call_soon_threadsafe(self._show, jpeg)

    async def watch(self, arrival: asyncio.Event, fps: float) -> AsyncGenerator[bytes, None]:
        """Yield the newest picture each time the last one was accepted, at most `fps` a second, until `leave`."""
        while arrival in self._arrivals:
            await arrival.wait()
            arrival.clear()
            yield self._newest or b""
            await asyncio.sleep(1 / fps)

    def join(self) -> asyncio.Event:
        """Add a viewer, until `leave`; the returned event is set when there is a newer picture."""
        self._loop = asyncio.get_running_loop()
        self.viewers += 1
        arrival = asyncio.Event()
        self._arrivals.add(arrival)
        if self._newest is not None:
            arrival.set()
        return arrival

    def leave(self, arrival: asyncio.Event) -> None:
        """Remove a viewer that `join` added."""
        self.viewers -= 1
        self._arrivals.discard(arrival)
        if not self.wanted:
            self._newest = None  # it would be outdated when the next viewer joins

    def _show(self, jpeg: bytes) -> None:
        if self.wanted:
            self._newest = jpeg
        for arrival in self._arrivals:
            arrival.set()


def stream_router(frames: Frames) -> APIRouter:
    """Return a router with the route `/stream?fps=30`."""
    router = APIRouter()

    @router.get("/stream")
    async def stream(fps: str = "30") -> Response:
        rate = _rate(fps)
        if rate is None:
            return PlainTextResponse(f"fps={fps[:20]}: invalid. Allowed: 1 to 60 pictures per second.\n", 400)
        if frames.unavailable:
            return PlainTextResponse(f"No pictures: {frames.unavailable}\n", 503)
        if frames.viewers >= MAX_CLIENTS:
            message = f"{MAX_CLIENTS} clients are watching already. Try again later.\n"
            return PlainTextResponse(message, 503, {"retry-after": "10"})
        return _Pictures(frames, rate)

    return router


class _Pictures(StreamingResponse):
    """An endless answer. It counts as a viewer from its creation, so that simultaneous requests obey the limit."""

    def __init__(self, frames: Frames, fps: float) -> None:
        self._frames, self._arrival = frames, frames.join()
        parts = _parts(frames.watch(self._arrival, fps))
        super().__init__(parts, media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send pictures until the client disconnects."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._frames.leave(self._arrival)


def _rate(fps: str) -> float | None:
    try:
        rate = float(fps)
    except ValueError:
        return None
    return rate if 1 <= rate <= 60 else None


async def _parts(pictures: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the parts of the body. A browser shows a picture once it has received the boundary after it."""
    yield f"--{BOUNDARY}\r\n".encode()
    async with contextlib.aclosing(pictures) as newest:
        async for jpeg in newest:
            head = f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n".encode()
            yield head + jpeg + f"\r\n--{BOUNDARY}\r\n".encode()
