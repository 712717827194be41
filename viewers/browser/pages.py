"""The open pages: each has a WebSocket on which it is told what there is, and says what it wants.

Every page is sent what has changed since it was last sent something, when it has taken that: a page that reads slowly
gets less often news, never old ones, and holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, WebSocket

from livegym.play.board import Board
from livegym.play.controls import Controls
from livegym.viewers.browser.protocol import ViewSettings, read
from livegym.web.pages import REFUSALS, OpenPages, PageMessageError, add_files, page_files, send
from livegym.web.scene_messages import TokenBucket
from livegym.web.scene_proxy import PAGE

__all__ = ["REFUSALS", "Pages"]
FILES = Path(__file__).parent / "page"
TICK = 0.1  # s between looks for news
MESSAGES = (50.0, 100.0)  # a second and at once: more is no person
QUIET = {"now", "lengths", "real_time"}  # what changes all the time, and is no news by itself


class Pages:
    """All pages of one test."""

    def __init__(
        self,
        board: Board,
        controls: Controls,
        read_only: bool,
        hello: Callable[[], dict[str, Any]],
        on_look: Callable[[str, ViewSettings | None], None],
    ) -> None:
        """`hello`: what a page must know of the environments; its `scene` changes when they do.

        `on_look(page, look)`: how a page wants to see, None when it is gone; called on the server's event loop.
        """
        self._board = board
        self._controls = controls
        self._read_only = read_only
        self._hello, self._on_look = hello, on_look
        self._pages = OpenPages()
        self.router = APIRouter()
        self.router.add_api_websocket_route("/ws", self._connect)
        add_files(self.router, page_files(FILES))

    @property
    def open(self) -> int:
        """Pages that are connected."""
        return self._pages.open

    @property
    def refused(self) -> int:
        """Messages of pages that made no sense."""
        return self._pages.refused

    async def _connect(self, socket: WebSocket) -> None:
        page = socket.query_params.get("page", "")
        if not PAGE.fullmatch(page):
            await socket.close(1008, "page: letters and digits, 64 at most")
            return
        await socket.accept()
        bucket = TokenBucket(*MESSAGES)

        async def do(text: str | None) -> None:
            self._do(page, text, bucket)

        try:
            await self._pages.talk(socket, self._tell(socket), do)
        finally:
            self._on_look(page, None)

    async def _tell(self, socket: WebSocket) -> None:
        told: dict[str, Any] = {}
        scene, seq = object(), 0
        while True:
            message: dict[str, Any] = {}
            hello = self._hello()
            if hello["scene"] != scene:
                scene = hello["scene"]
                seq = 0
                told = {}
                message["hello"] = {**hello, "read_only": self._read_only}
            state = {**self._board.state, "clients": self.open}
            changed = {key: value for key, value in state.items() if told.get(key, told) != value}
            points = self._board.since(seq)
            if set(changed) - QUIET or points or message:
                told, seq = state, points[-1][0] if points else seq
                await send(socket, {**message, "state": changed, "points": points})
            await asyncio.sleep(TICK)

    def _do(self, page: str, text: str | None, bucket: TokenBucket) -> None:
        """Raises Refused."""
        if not bucket.take():
            raise PageMessageError("too many messages at once")
        asked = read(text)
        if isinstance(asked, ViewSettings):
            self._on_look(page, asked)
        elif self._read_only:
            raise PageMessageError("this page only shows (streamReadOnly)")
        elif not self._controls.ask(asked):
            raise PageMessageError("too many requests wait already")
