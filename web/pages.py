"""What all pages share: their files, and the WebSocket on which each is told what there is and says what it wants.

    pages = OpenPages()
    add_files(router, page_files(Path(__file__).parent / "page"))

    async def connect(socket):                     # a WebSocket route
        await socket.accept()
        await pages.talk(socket, tell(socket), do)

Telling and listening are two tasks of one connection, and every send waits until the page has taken what was sent
before: a page that reads slowly holds up itself alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pydantic_core
from fastapi import APIRouter, WebSocket
from fastapi.responses import FileResponse
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from livegym.utils.files import strict_json

log = logging.getLogger(__name__)

REFUSALS = 20  # of one page, after which it is no page of ours
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
SHARED = Path(__file__).parent / "page"
"""Folder of the files that several pages use."""

Message = dict[str, Any]
Do = Callable[[str | None], Awaitable[Message | None]]
"""What a page said (None: bytes) -> what it is answered, if anything. Raises Refused."""


class PageMessageError(ValueError):
    """A message that makes no sense; the text says why."""


def read_object(text: str | None, most: int) -> dict[str, Any]:
    """The object `{"do": ..., ...}` that a page sent, in at most `most` characters. Raises Refused."""
    if text is None:
        raise PageMessageError("text is expected, not bytes")
    if len(text) > most:
        raise PageMessageError(f"at most {most} characters are expected")
    try:
        message = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise PageMessageError(f"not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("do"), str):
        raise PageMessageError('an object with "do" is expected')
    return message


def why(what: str, error: ValidationError) -> str:
    """The first fault that a checker found in a message, in one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{what}: {place + ': ' if place else ''}{first['msg']}"


def page_files(folder: Path) -> dict[str, Path]:
    """Path on the server -> file, of a page's own folder and of what all pages share; its index.html is at `/`."""
    files = [file for place in (SHARED, folder) for file in sorted(place.iterdir()) if file.suffix in TYPES]
    return {"/": folder / "index.html", **{f"/{file.name}": file for file in files}}


def add_files(router: APIRouter, files: Mapping[str, Path]) -> None:
    """Serves each file at its path."""
    for path, file in files.items():
        router.add_api_route(path, _answer_with(file), methods=["GET"], response_model=None)


def _answer_with(file: Path) -> Callable[[], Awaitable[FileResponse]]:
    async def answer() -> FileResponse:
        return FileResponse(file, media_type=TYPES[file.suffix])

    return answer


class OpenPages:
    """How many pages are open, and how many of their messages were refused."""

    def __init__(self) -> None:
        self.open = 0
        self.refused = 0  # messages

    async def talk(self, socket: WebSocket, tell: Coroutine[Any, Any, None], do: Do) -> None:
        """Serves an accepted socket until the page is gone or `tell` ends."""
        self.open += 1
        tasks = [asyncio.create_task(tell), asyncio.create_task(self._listen(socket, do))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.open -= 1
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, WebSocketDisconnect):
                    log.error("a page was cut off by a bug", exc_info=ended)
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it may be closed already
                await socket.close(1001)

    async def _listen(self, socket: WebSocket, do: Do) -> None:
        refused = 0
        while refused < REFUSALS:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                answer = await do(message.get("text"))
            except PageMessageError as error:
                refused += 1
                self.refused += 1
                answer = {"state": {}, "refused": str(error)}
            if answer is not None:
                await send(socket, answer)
        await socket.close(1008, "too many messages that make no sense")


async def send(socket: WebSocket, message: Message) -> None:
    """Sends strict JSON, and waits while the page has not taken enough of what was sent before.

    Raises:
        WebSocketDisconnect: the page has gone.
    """
    text = strict_json(message, indent=None)
    try:
        await socket.send_text(text)
    except RuntimeError as error:  # starlette's, for a socket that has been closed in the meantime
        raise WebSocketDisconnect(1006) from error
