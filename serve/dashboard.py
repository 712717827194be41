"""The dashboard of a continuous run: the policy being served, its training, and a picture of each stream.

    dashboard = Dashboard(lambda: status, points, pictures, control, gateway.access)
    gateway.app.include_router(dashboard.router)

Over a WebSocket, each page gets the parts of the status that have changed and the new points of the plots, at most four
times a second; the next message is made only when the page has accepted the last one. Every message contains the
server's time, and at least one is sent each second. So a page can distinguish a silent server from a status that is no
longer refreshed, and shows the age of its numbers in both cases.

`/online/history` has the earlier, thinned points, which a page loads when it opens; `/online/stream` has the last
rewards of one stream.

`read` and `points.since` are called on the server's event loop and must return immediately; pictures and `control` may
block, because they run in threads.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Query, WebSocket
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, ValidationError

from livegym.serve.history import Points
from livegym.serve.picture import TaskPictures
from livegym.utils.files import strict_json
from livegym.web.access import Access
from livegym.web.pages import Message, OpenPages, PageMessageError, add_files, page_files, read_object, send, why
from livegym.web.rates import TokenBucket
from livegym.web.visitors import Visitor, Visitors

FILES = Path(__file__).parent / "page"
PICTURE = "picture.js"  # the path from which pages load the task's module
TICK = 0.25  # s between polls for changes
BEAT = 1.0  # s after which a page gets a message even if nothing has changed
CONTROL_S = 5.0  # s within which a request is answered
MESSAGES = (5.0, 20.0)  # messages a second, and in a burst: no person clicks faster
MAX_MESSAGE = 1000  # characters
MAX_NAME = 256  # characters of a stream's name or a version's label


class DashboardRequest(BaseModel):
    """A request that a page may send."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=MAX_NAME)

    do: Literal["pin", "follow", "back", "rollback", "train", "allow", "learn", "name"]
    version: int | str | None = None  # the version to act; only `rollback` needs it
    stream: str = ""  # for `learn`: the stream whose learning is switched
    on: bool = True  # for `learn`
    name: str = ""  # of the visitor; for `name`


class Dashboard:
    """All pages of one continuous run."""

    def __init__(
        self,
        read: Callable[[], dict[str, Any]],
        points: Points,
        pictures: TaskPictures | None,
        control: Callable[[dict[str, Any], str], str | None],
        access: Access,
        stream_rewards: Callable[[str], dict[str, Any] | None] = lambda stream: None,
    ) -> None:
        """`read()`: the newest status as plain values. It must not be changed later, because its parts are compared.

        `points`: of the plots. `pictures`: of the streams; None if the task has none.
        `control({"do", "version", ...}, who)`: None if it succeeded, else the reason why it was refused.
        `stream_rewards(stream)`: times and values of its last rewards; None if the stream is unknown.
        """
        self._read = read
        self._points = points.since
        self._control = control
        self._access = access
        script = {} if pictures is None else {f"/{PICTURE}": pictures.script}
        picture = None if pictures is None else PICTURE
        self._hello = {"server": secrets.token_hex(8), "picture": picture}  # another server's points differ
        self._pages = OpenPages()
        self._visitors = Visitors()
        self.router = APIRouter()
        self.router.add_api_websocket_route("/ws", self._connect)
        add_files(self.router, page_files(FILES) | script)
        self.router.add_api_route("/online/history", _history_of(points), methods=["GET"], response_model=None)
        self.router.add_api_route("/online/stream", _of_stream(stream_rewards), methods=["GET"], response_model=None)
        if pictures is not None:
            self.router.add_api_route("/online/picture", _of_stream(pictures.of), methods=["GET"], response_model=None)

    @property
    def open(self) -> int:
        """Pages that are connected."""
        return self._pages.open

    @property
    def refused(self) -> int:
        """Messages of pages that were invalid or not allowed."""
        return self._pages.refused

    async def _connect(self, socket: WebSocket) -> None:
        await socket.accept()
        bucket = TokenBucket(*MESSAGES)
        visitor = self._visitors.of(socket)

        async def do(text: str | None) -> Message | None:
            return await self._do(visitor, text, bucket)

        await self._pages.talk(socket, self._tell(socket, visitor), do)

    async def _tell(self, socket: WebSocket, visitor: Visitor) -> None:
        greeting: Message = {"hello": {**self._hello, "read_only": not visitor.may_control}}
        known: dict[str, Any] = {}  # the status as the page knows it
        seq, sent = 0, -math.inf
        while True:
            status = {**self._read(), "pages": self.open, "you": visitor.name}
            changed = {name: value for name, value in status.items() if name not in known or known[name] != value}
            points = self._points(seq)
            if changed.keys() - {"now", "refreshed"} or points or time.monotonic() - sent >= BEAT:
                await send(socket, {**greeting, "clock": time.time(), "state": changed, "points": points})
                known = status
                greeting = {}
                sent = time.monotonic()
                seq = points[-1]["seq"] if points else seq
            await asyncio.sleep(TICK)

    async def _do(self, visitor: Visitor, text: str | None, bucket: TokenBucket) -> Message | None:
        """Carry out a page's request and return the answer, if it needs one. Raises PageMessageError."""
        if not bucket.take():
            raise PageMessageError("too many requests at once")
        request = _request_of(text)
        if request.do == "name":
            visitor.rename(request.name)
            return None
        if not visitor.may_control:
            raise PageMessageError(f"this page is read-only ({self._access.only_watch})")
        asked: dict[str, Any] = {"do": request.do, "version": request.version}
        if request.do == "learn":
            asked = {"do": request.do, "stream": request.stream, "on": request.on}
        try:
            async with asyncio.timeout(CONTROL_S):
                reason = await asyncio.to_thread(self._control, asked, visitor.name)
        except TimeoutError:
            reason = f"no answer within {CONTROL_S:g} s; the request may still succeed"
        return {"answer": {"do": request.do, "refused": reason}}


def _request_of(text: str | None) -> DashboardRequest:
    """Parse and check a request. Raises PageMessageError."""
    message = read_object(text, MAX_MESSAGE)
    try:
        request = DashboardRequest.model_validate(message)
    except ValidationError as error:
        raise PageMessageError(why("request", error)) from error
    if request.do == "rollback" and request.version is None:
        raise PageMessageError("rollback: version: missing; expected the version to roll back to")
    if request.do == "learn" and not request.stream:
        raise PageMessageError("learn: stream: missing; expected the name of the stream")
    return request


def _history_of(points: Points) -> Callable[[], Response]:
    """Handler of `GET /online/history`; FastAPI calls it in a thread."""

    def answer() -> Response:
        return Response(strict_json(points.earlier(), indent=None), media_type="application/json")

    return answer


def _of_stream(find: Callable[[str], dict[str, Any] | None]) -> Callable[[str], Response]:
    """Handler of `GET ...?stream=...`, which answers what `find` returns; FastAPI calls it in a thread."""

    def answer(stream: str = Query(max_length=MAX_NAME)) -> Response:
        found = find(stream)
        if found is None:
            raise HTTPException(404, f"stream={stream!r}: unknown stream")
        return Response(strict_json(found, indent=None), media_type="application/json")

    return answer
