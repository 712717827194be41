"""The page of a continuous run: what is served, how it is being learned, and the streams as pictures.

    dashboard = Dashboard(lambda: status, history.since, pictures, control, gateway.access)
    gateway.app.include_router(dashboard.router)

Each page has a WebSocket on which it is sent, four times a second at most, the parts of the status that have changed
and the new points of the plots; the next message is made only when the page has taken the last. Every message tells
the server's clock, and one comes at least each second: the page can tell a server that is silent from a status that
nobody renews, and shows the age of its numbers in both cases.

`read` and `points` are called on the server's event loop and must return what is ready; pictures and `control` may
take their time, they run in threads.
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

from livegym.serve.picture import TaskPictures
from livegym.utils.files import strict_json
from livegym.web.access import Access
from livegym.web.pages import Message, OpenPages, PageMessageError, add_files, page_files, read_object, send, why
from livegym.web.scene_messages import TokenBucket

FILES = Path(__file__).parent / "page"
PICTURE = "picture.js"  # where pages look for the task's module
TICK = 0.25  # s between looks for news
BEAT = 1.0  # s after which a page is sent something even if there is none
CONTROL_S = 5.0  # s in which a request is answered
MESSAGES = (5.0, 20.0)  # a second and at once: more is no person
MAX_MESSAGE = 1000  # characters
MAX_NAME = 256  # characters of a stream's name or a version's label
READ_ONLY = "this page only shows (streamReadOnly)"


class DashboardRequest(BaseModel):
    """What a page may ask for."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=MAX_NAME)

    do: Literal["pin", "follow", "back", "rollback", "train"]
    version: int | str | None = None  # which one; only `rollback` needs it


class Dashboard:
    """All pages of one continuous run."""

    def __init__(
        self,
        read: Callable[[], dict[str, Any]],
        points: Callable[[int], list[dict[str, Any]]],
        pictures: TaskPictures | None,
        control: Callable[[dict[str, Any]], str | None],
        access: Access,
    ) -> None:
        """`read()`: the newest status, plain values, which nobody changes afterwards; its parts are compared.

        `points(seq)`: points after number `seq`. `pictures`: of the streams; None: this task has none.
        `control({"do", "version"})`: None when it is done, or why it is not.
        """
        self._read = read
        self._points = points
        self._control = control
        self._access = access
        script = {} if pictures is None else {f"/{PICTURE}": pictures.script}
        picture = None if pictures is None else PICTURE
        self._hello = {"server": secrets.token_hex(8), "picture": picture}  # another server's points differ
        self._pages = OpenPages()
        self.router = APIRouter()
        self.router.add_api_websocket_route("/ws", self._connect)
        add_files(self.router, page_files(FILES) | script)
        if pictures is not None:
            self.router.add_api_route("/online/picture", _answer_of(pictures), methods=["GET"], response_model=None)

    @property
    def open(self) -> int:
        """Pages that are connected."""
        return self._pages.open

    @property
    def refused(self) -> int:
        """Messages of pages that made no sense or were not allowed."""
        return self._pages.refused

    async def _connect(self, socket: WebSocket) -> None:
        await socket.accept()
        bucket = TokenBucket(*MESSAGES)

        async def do(text: str | None) -> Message:
            return await self._do(text, bucket)

        await self._pages.talk(socket, self._tell(socket), do)

    async def _tell(self, socket: WebSocket) -> None:
        greeting: Message = {"hello": {**self._hello, "read_only": self._access.read_only}}
        told: dict[str, Any] = {}
        seq, sent = 0, -math.inf
        while True:
            status = {**self._read(), "pages": self.open}
            changed = {name: value for name, value in status.items() if name not in told or told[name] != value}
            points = self._points(seq)
            if changed.keys() - {"now", "refreshed"} or points or time.monotonic() - sent >= BEAT:
                await send(socket, {**greeting, "clock": time.time(), "state": changed, "points": points})
                told = status
                greeting = {}
                sent = time.monotonic()
                seq = points[-1]["seq"] if points else seq
            await asyncio.sleep(TICK)

    async def _do(self, text: str | None, bucket: TokenBucket) -> Message:
        """What a page's request is answered. Raises Refused."""
        if not bucket.take():
            raise PageMessageError("too many requests at once")
        request = _request_of(text)
        if self._access.read_only:
            raise PageMessageError(READ_ONLY)
        try:
            async with asyncio.timeout(CONTROL_S):
                reason = await asyncio.to_thread(self._control, request.model_dump())
        except TimeoutError:
            reason = f"no answer within {CONTROL_S:g} s; it may still be done"
        return {"answer": {"do": request.do, "refused": reason}}


def _request_of(text: str | None) -> DashboardRequest:
    """Raises Refused."""
    message = read_object(text, MAX_MESSAGE)
    try:
        request = DashboardRequest.model_validate(message)
    except ValidationError as error:
        raise PageMessageError(why("request", error)) from error
    if request.do == "rollback" and request.version is None:
        raise PageMessageError("rollback: version: the version to go back to is expected")
    return request


def _answer_of(pictures: TaskPictures) -> Callable[[str], Response]:
    """The answer to `GET /online/picture?stream=...`; FastAPI calls it in a thread."""

    def answer(stream: str = Query(max_length=MAX_NAME)) -> Response:
        drawn = pictures.of(stream)
        if drawn is None:
            raise HTTPException(404, f"stream={stream!r}: there is no such stream")
        return Response(strict_json(drawn, indent=None), media_type="application/json")

    return answer
