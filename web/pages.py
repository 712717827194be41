"""The common part of all pages: their files, and the WebSocket that carries the state and the page's requests.

    pages = OpenPages()
    add_files(router, page_files(Path(__file__).parent / "page"))

    async def connect(socket):                     # a WebSocket route
        await socket.accept()
        await pages.talk(socket, tell(socket), do)

Sending and listening are two tasks of one connection, and every send waits until the page has accepted what was sent
before. So a page that reads slowly delays only itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pydantic_core
from fastapi import APIRouter, WebSocket
from fastapi.responses import FileResponse
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.websockets import WebSocketDisconnect

from livegym.utils.files import strict_json

log = logging.getLogger(__name__)

REFUSALS = 20  # refused messages of one page, after which it is disconnected
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
SHARED = Path(__file__).parent / "page"
"""Folder of the files that all pages share."""

Message = dict[str, Any]
Do = Callable[[str | None], Awaitable[Message | None]]
"""A page's message (None: a binary frame) -> the answer, if any. Raises PageMessageError."""


class PageMessageError(ValueError):
    """A message that is invalid or refused; the text is the reason."""


def read_object(text: str | None, most: int) -> dict[str, Any]:
    """Parse the object `{"do": ..., ...}` that a page sent, of at most `most` characters. Raises PageMessageError."""
    if text is None:
        raise PageMessageError("a binary frame; expected text")
    if len(text) > most:
        raise PageMessageError(f"{len(text)} characters; expected at most {most}")
    try:
        message = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError as error:
        place = re.search(r"line \d+ column \d+", str(error))
        where = f" at {place[0].replace(' column', ', column')}" if place else ""
        raise PageMessageError(f'not JSON{where}; expected an object with "do"') from error
    if not isinstance(message, dict) or not isinstance(message.get("do"), str):
        raise PageMessageError('not a request; expected an object with "do"')
    return message


WORDS = {
    "missing": "nothing is given; expected a value",
    "extra_forbidden": "unknown; leave it out",
    "string_type": "expected text",
    "string_too_long": "expected at most {max_length} characters",
    "string_too_short": "expected at least {min_length} characters",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing_size": "expected a smaller number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected an object",
    "model_type": "expected an object",
    "too_short": "expected at least {min_length} items",
    "too_long": "expected at most {max_length} items",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
    "literal_error": "allowed are {expected}",
}
"""pydantic's name of an error -> the words for the page."""
UNKNOWN = "expected another value"
TYPES_OF_UNION = ("int", "str", "constrained-str")
MAX_GIVEN = 60
"""Characters of a given value in an error."""


def why(what: str, error: ValidationError) -> str:
    """Return the first error in a message, as one line: the field, what it is, and what is allowed there.

    If a field may be of several types, there is an error for each of them, whose location ends with the type.
    """
    errors = error.errors(include_url=False)
    first = errors[0]
    field = _field(first)
    words = [WORDS.get(e["type"], UNKNOWN).format_map(e.get("ctx", {})) for e in errors if _field(e) == field]
    text = " or ".join([words[0], *(word.removeprefix("expected ") for word in dict.fromkeys(words[1:]))])
    if text.startswith(("expected", "allowed")):
        text = f"given {_shown(first['input'])}; {text}"
    return f"{what}: {field + ': ' if field else ''}{text}"


def _field(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"] if part not in TYPES_OF_UNION)


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except ValueError:  # a number with too many digits to print
        text = "a number with many digits"
    return text if len(text) <= MAX_GIVEN else f"{text[:MAX_GIVEN]}..."


def page_files(folder: Path) -> dict[str, Path]:
    """Return path on the server -> file, for a page's own folder and the shared one; its index.html is at `/`."""
    files = [file for directory in (SHARED, folder) for file in sorted(directory.iterdir()) if file.suffix in TYPES]
    return {"/": folder / "index.html", **{f"/{file.name}": file for file in files}}


def add_files(router: APIRouter, files: Mapping[str, Path]) -> None:
    """Add a route for each file at its path."""
    for path, file in files.items():
        router.add_api_route(path, _answer_with(file), methods=["GET"], response_model=None)


def _answer_with(file: Path) -> Callable[[], Awaitable[FileResponse]]:
    async def answer() -> FileResponse:
        return FileResponse(file, media_type=TYPES[file.suffix])

    return answer


class OpenPages:
    """Serves the WebSockets of pages, and counts open pages and refused messages."""

    def __init__(self) -> None:
        self.open = 0
        self.refused = 0  # messages

    async def talk(self, socket: WebSocket, tell: Coroutine[Any, Any, None], do: Do) -> None:
        """Serve an accepted socket until the page disconnects or `tell` ends."""
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
                    log.error("a page was disconnected because of a bug in the server", exc_info=ended)
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
        await socket.close(1008, "too many invalid messages")


async def send(socket: WebSocket, message: Message) -> None:
    """Send strict JSON, and wait while too much of what was sent before is still unread.

    Raises:
        WebSocketDisconnect: the page has disconnected.
    """
    text = strict_json(message, indent=None)
    try:
        await socket.send_text(text)
    except RuntimeError as error:  # starlette raises it for a socket that has been closed in the meantime
        raise WebSocketDisconnect(1006) from error
