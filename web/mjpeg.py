"""Pictures for browsers and players that show no 3D: `/stream`, one JPEG after the other.

    frames = Frames()
    gateway.app.include_router(stream_router(frames))
    if frames.wanted:  # in the renderer's loop: without viewers nothing is drawn
        frames.publish(jpeg)

Each client is sent the newest picture when it has taken the last one; there is no queue in which pictures grow old.
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
    """The newest picture, and who waits for the next."""

    def __init__(self) -> None:
        self.unavailable = ""  # why no pictures can be made here; empty: they can
        self.viewers = 0
        self._newest: bytes | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrivals: set[asyncio.Event] = set()

    @property
    def wanted(self) -> bool:
        """Whether anybody looks."""
        return self.viewers > 0

    def give_up(self, why: str) -> None:
        """No pictures will come any more; the first reason is the one that is told. From any thread."""
        self.unavailable = self.unavailable or why

    def publish(self, jpeg: bytes) -> None:
        """Replaces the newest picture, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                self._loop.call_soon_threadsafe(self._show, jpeg)

    async def watch(self, arrival: asyncio.Event, fps: float) -> AsyncGenerator[bytes, None]:
        """Each picture that is the newest when the last one is taken, at most `fps` a second, until `leave`."""
        while arrival in self._arrivals:
            await arrival.wait()
            arrival.clear()
            yield self._newest or b""
            await asyncio.sleep(1 / fps)

    def join(self) -> asyncio.Event:
        """Somebody looks, until `leave`; the event tells that there is a newer picture."""
        self._loop = asyncio.get_running_loop()
        self.viewers += 1
        arrival = asyncio.Event()
        self._arrivals.add(arrival)
        if self._newest is not None:
            arrival.set()
        return arrival

    def leave(self, arrival: asyncio.Event) -> None:
        """The end of `join`."""
        self.viewers -= 1
        self._arrivals.discard(arrival)
        if not self.wanted:
            self._newest = None  # it would be old when the next viewer comes

    def _show(self, jpeg: bytes) -> None:
        if self.wanted:
            self._newest = jpeg
        for arrival in self._arrivals:
            arrival.set()


def stream_router(frames: Frames) -> APIRouter:
    """The route `/stream?fps=30`."""
    router = APIRouter()

    @router.get("/stream")
    async def stream(fps: str = "30") -> Response:
        rate = _rate(fps)
        if rate is None:
            return PlainTextResponse(f"fps={fps[:20]}: pictures per second, 1 to 60.\n", 400)
        if frames.unavailable:
            return PlainTextResponse(f"No pictures: {frames.unavailable}\n", 503)
        if frames.viewers >= MAX_CLIENTS:
            return PlainTextResponse(f"{MAX_CLIENTS} clients look already.\n", 503, {"retry-after": "10"})
        return _Pictures(frames, rate)

    return router


class _Pictures(StreamingResponse):
    """An answer without end. Its place is taken before it begins, or many that come together would all get one."""

    def __init__(self, frames: Frames, fps: float) -> None:
        self._frames, self._arrival = frames, frames.join()
        parts = _parts(frames.watch(self._arrival, fps))
        super().__init__(parts, media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends pictures until the client leaves."""
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
    """The body of the answer. A browser shows a picture when it has seen the boundary behind it."""
    yield f"--{BOUNDARY}\r\n".encode()
    async with contextlib.aclosing(pictures) as newest:
        async for jpeg in newest:
            head = f"Content-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n".encode()
            yield head + jpeg + f"\r\n--{BOUNDARY}\r\n".encode()
