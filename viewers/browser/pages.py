"""The open pages. Each has a WebSocket, on which it receives the state of the test and sends its requests.

A page receives what has changed since its last message, as soon as it has taken that message. A page that reads slowly
gets fewer updates, but never outdated ones, and delays no other page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import APIRouter, WebSocket

from livegym.play.board import Board
from livegym.play.controls import Controls
from livegym.viewers.browser.protocol import Rename, ViewSettings, read
from livegym.web.access import Access
from livegym.web.pages import REFUSALS, OpenPages, PageMessageError, add_files, page_files, send
from livegym.web.rates import TokenBucket
from livegym.web.scene_proxy import PAGE
from livegym.web.visitors import Visitor, Visitors

__all__ = ["REFUSALS", "Pages"]
FILES = Path(__file__).parent / "page"
TICK = 0.1  # s between two checks for changes
MESSAGES = (50.0, 100.0)  # per second, and in a burst: no person sends more
QUIET = {"now", "lengths", "real_time"}  # keys that change all the time; they alone do not cause a message


class Pages:
    """The pages of one test."""

    def __init__(
        self,
        board: Board,
        controls: Controls,
        access: Access,
        hello: Callable[[], dict[str, Any]],
        on_look: Callable[[str, ViewSettings | None], None],
    ) -> None:
        """`hello`: the facts about the environments that a page needs first; its `scene` changes when they do.

        `on_look(page, settings)`: sets a page's view (None: the page is gone); called on the server's event loop.
        """
        self._board = board
        self._controls = controls
        self._access = access
        self._visitors = Visitors()
        self._hello, self._on_look = hello, on_look
        self._pages = OpenPages()
        self.router = APIRouter()
        self.router.add_api_websocket_route("/ws", self._connect)
        add_files(self.router, page_files(FILES))

    @property
    def open(self) -> int:
        """The number of connected pages."""
        return self._pages.open

    @property
    def refused(self) -> int:
        """The number of refused messages of pages."""
        return self._pages.refused

    async def _connect(self, socket: WebSocket) -> None:
        page = socket.query_params.get("page", "")
        if not PAGE.fullmatch(page):
            await socket.close(1008, "page: allowed are at most 64 letters and digits")
            return
        await socket.accept()
        bucket = TokenBucket(*MESSAGES)
        visitor = self._visitors.of(socket)

        async def do(text: str | None) -> None:
            self._do(page, visitor, text, bucket)

        try:
            await self._pages.talk(socket, self._tell(socket, visitor), do)
        finally:
            self._on_look(page, None)

    async def _tell(self, socket: WebSocket, visitor: Visitor) -> None:
        sent: dict[str, Any] = {}
        scene, seq = object(), 0
        while True:
            message: dict[str, Any] = {}
            hello = self._hello()
            if hello["scene"] != scene:
                scene = hello["scene"]
                seq = 0
                sent = {}
                message["hello"] = {**hello, "read_only": not visitor.may_control}
            state = {**self._board.state, "clients": self.open, "you": visitor.name}
            changed = {key: value for key, value in state.items() if sent.get(key, sent) != value}
            points = self._board.since(seq)
            if set(changed) - QUIET or points or message:
                sent, seq = state, points[-1][0] if points else seq
                await send(socket, {**message, "state": changed, "points": points})
            await asyncio.sleep(TICK)

    def _do(self, page: str, visitor: Visitor, text: str | None, bucket: TokenBucket) -> None:
        """Executes a message. Raises PageMessageError if it is refused."""
        if not bucket.take():
            raise PageMessageError("too many messages at once")
        asked = read(text)
        if isinstance(asked, ViewSettings):
            self._on_look(page, asked)
        elif isinstance(asked, Rename):
            visitor.rename(asked.name)
        elif not visitor.may_control:
            raise PageMessageError(f"this page is read-only ({self._access.only_watch})")
        elif not self._controls.ask(asked, visitor.name):
            raise PageMessageError("too many requests are waiting already")
