"""The open pages: each has a WebSocket on which it is told what there is, and says what it wants.

Every page is sent what has changed since it was last sent something, when it has taken that: a page that reads slowly
gets less often news, never old ones, and holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, WebSocket
from fastapi.responses import FileResponse
from starlette.websockets import WebSocketDisconnect

from live.board import Board
from live.controls import Controls
from utils.files import strict_json
from viewers.browser.protocol import Look, Refused, read
from web.scene_messages import Bucket
from web.scene_proxy import PAGE

log = logging.getLogger(__name__)

FILES = Path(__file__).parent / "page"
TYPES = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript", "plots.js": "text/javascript"}
TICK = 0.1  # s between looks for news
MESSAGES = (50.0, 100.0)  # a second and at once: more is no person
QUIET = {"now", "lengths", "real_time"}  # what changes all the time, and is no news by itself
REFUSALS = 20  # of one page, after which it is no page of ours


class Pages:
    """All pages of one test."""

    def __init__(
        self,
        board: Board,
        controls: Controls,
        read_only: bool,
        hello: Callable[[], dict[str, Any]],
        on_look: Callable[[str, Look | None], None],
    ) -> None:
        """`hello`: what a page must know of the environments; its `scene` changes when they do.

        `on_look(page, look)`: how a page wants to see, None when it is gone; called on the server's event loop.
        """
        self._board, self._controls, self._read_only = board, controls, read_only
        self._hello, self._on_look = hello, on_look
        self.open = 0
        self.refused = 0  # messages
        self.router = APIRouter()
        self.router.add_api_websocket_route("/ws", self._connect)
        for name, kind in TYPES.items():
            self._add_file(f"/{name}", name, kind)
        self._add_file("/", "index.html", "text/html")

    def _add_file(self, path: str, name: str, kind: str) -> None:
        async def answer() -> FileResponse:
            return FileResponse(FILES / name, media_type=kind)

        self.router.add_api_route(path, answer, methods=["GET"], response_model=None)

    async def _connect(self, socket: WebSocket) -> None:
        page = socket.query_params.get("page", "")
        if not PAGE.fullmatch(page):
            await socket.close(1008, "page: letters and digits, 64 at most")
            return
        await socket.accept()
        self.open += 1
        tasks = [asyncio.create_task(job(socket, page)) for job in (self._tell, self._listen)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.open -= 1
            self._on_look(page, None)
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect):
                    log.error("a page was cut off by a bug", exc_info=ended)
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it may be closed already
                await socket.close(1001)

    async def _tell(self, socket: WebSocket, page: str) -> None:
        told: dict[str, Any] = {}
        scene, seq = object(), 0
        while True:
            message: dict[str, Any] = {}
            hello = self._hello()
            if hello["scene"] != scene:
                scene, seq, told = hello["scene"], 0, {}
                message["hello"] = {**hello, "read_only": self._read_only}
            state = {**self._board.state, "clients": self.open}
            changed = {key: value for key, value in state.items() if told.get(key, told) != value}
            points = self._board.since(seq)
            if set(changed) - QUIET or points or message:
                told, seq = state, points[-1][0] if points else seq
                await _send(socket, {**message, "state": changed, "points": points})
            await asyncio.sleep(TICK)

    async def _listen(self, socket: WebSocket, page: str) -> None:
        bucket, refused = Bucket(*MESSAGES), 0
        while refused < REFUSALS:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                self._do(page, message.get("text"), bucket)
            except Refused as error:
                refused += 1
                self.refused += 1
                await _send(socket, {"state": {}, "refused": str(error)})
        await socket.close(1008, "too many messages that make no sense")

    def _do(self, page: str, text: str | None, bucket: Bucket) -> None:
        """Raises Refused."""
        if not bucket.take():
            raise Refused("too many messages at once")
        if text is None:
            raise Refused("text is expected, not bytes")
        asked = read(text)
        if isinstance(asked, Look):
            self._on_look(page, asked)
        elif self._read_only:
            raise Refused("this page only shows (streamReadOnly)")
        elif not self._controls.ask(asked):
            raise Refused("too many requests wait already")


async def _send(socket: WebSocket, message: dict[str, Any]) -> None:
    """Raises WebSocketDisconnect where the page has gone."""
    text = strict_json(message, indent=None)
    try:
        await socket.send_text(text)
    except RuntimeError as error:  # starlette's, for a socket that has been closed in the meantime
        raise WebSocketDisconnect(1006) from error
