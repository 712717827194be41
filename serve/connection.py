"""One client's WebSocket: messages go into the inbox as they arrive, and are answered in the same order.

Two tasks share it. The reader reads only while fewer than `UNANSWERED` messages wait for their answers; beyond that it
stops, the TCP buffers fill up, and the client has to wait. The writer awaits each answer and sends it; a client that
accepts nothing for `SEND_S` is disconnected. So a connection never holds more than `UNANSWERED` messages, however fast
the client sends and however slowly decisions are made. Nothing is computed here: both tasks only wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from livegym.serve.intake import AGAIN, RETRY_S, Intake, Sender, Waiting
from livegym.serve.protocol import Message, MessageRefused, Reader, text_of
from livegym.web.server import ARRIVED

log = logging.getLogger(__name__)

UNANSWERED = 8
"""Messages of one client that may wait for their answers at once."""
SEND_S = 10.0
"""A client that accepts no answer for this long is disconnected."""
REFUSALS = 100
"""Invalid messages in a row after which the client is disconnected."""
SILENT_S = 60.0
"""Time within which the first message of a client must be accepted."""


@dataclass(frozen=True)
class Ending:
    """Why a connection ends. `code` is the WebSocket close code; None: the client has disconnected already."""

    why: str
    code: int | None = None


class Places(Protocol):
    """The places of clients of which a message was accepted."""

    def check(self, owner: str) -> None:
        """Raise MessageRefused if a client that has no place yet could not get one."""

    def take(self, owner: str) -> None:
        """Give a client a place, unless it has one."""


class StreamConnection:
    """One connection, from the handshake to its end."""

    def __init__(
        self,
        socket: WebSocket,
        owner: str,
        intake: Intake,
        reader: Reader,
        sender: Sender,
        places: Places,
    ) -> None:
        """`owner`: the name of the client, to which its streams are leased. `sender`: this connection."""
        self._socket = socket
        self._owner, self._sender = owner, sender
        self._intake = intake
        self._reader = reader
        self._places = places
        self._slots = asyncio.Semaphore(UNANSWERED)
        self._queue: asyncio.Queue[Waiting | MessageRefused] = asyncio.Queue()  # bounded by the slots
        self._told_to_end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._heard_at = time.monotonic()  # when its last message was accepted
        self._spoke = False  # whether it has sent a valid message
        self._accepted = False  # whether one was accepted
        self.finds_no_place = False  # whether there was no place for it when it sent its last valid message
        self.messages = self.refused = 0

    @property
    def silence(self) -> float:
        """The s since the last message that was accepted; since the beginning if there was none."""
        return time.monotonic() - self._heard_at

    def replace(self) -> None:
        """End this connection, because the client has opened another one."""
        self._end(Ending("another connection has the same client id", 1008))

    def give_way(self, why: str) -> None:
        """End this connection, because another client needs what it holds."""
        self._end(Ending(why, 1013))

    def _end(self, ending: Ending) -> None:
        if not self._told_to_end.done():
            self._told_to_end.set_result(ending)

    async def run(self) -> Ending:
        """Serve the connection until it ends; return why it ended."""
        tasks = [asyncio.create_task(job()) for job in (self._read, self._write, self._watch)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        ending = next((self._ending_of(r) for r in results if not isinstance(r, asyncio.CancelledError)), None)
        ending = ending or Ending("the server stops", 1001)
        if ending.code is not None and self._socket.application_state is WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):  # it is gone already
                async with asyncio.timeout(SEND_S):
                    await self._socket.close(ending.code, ending.why)
        return ending

    def _ending_of(self, result: Ending | BaseException) -> Ending:
        if isinstance(result, Ending):
            return result
        if isinstance(result, WebSocketDisconnect):
            return Ending("it disconnected")
        log.error("a client was disconnected because of a bug in the server", exc_info=result)
        return Ending("internal server error", 1011)

    async def _watch(self) -> Ending:
        await asyncio.wait([self._told_to_end], timeout=SILENT_S)
        if self._told_to_end.done() or self._accepted:
            return await self._told_to_end
        if self.finds_no_place:
            return Ending(f"no place became free within {SILENT_S:g} s", 1013)
        if self._spoke:
            return Ending(f"no message was accepted within {SILENT_S:g} s", 1013)
        return Ending(f"no valid message within {SILENT_S:g} s", 1008)

    async def _read(self) -> Ending:
        in_a_row = 0
        while True:
            await self._slots.acquire()
            event = await self._socket.receive()
            if event["type"] == "websocket.disconnect":
                return Ending(f"it disconnected, code {event.get('code', 1005)}")
            self.messages += 1
            entry = await self._entry(event.get("text"), event.get(ARRIVED))
            in_a_row = in_a_row + 1 if isinstance(entry, MessageRefused) and entry.is_nonsense else 0
            self._queue.put_nowait(entry)
            if in_a_row >= REFUSALS:
                return Ending(f"{REFUSALS} messages in a row were invalid", 1008)

    async def _entry(self, text: str | None, arrived: float | None) -> Waiting | MessageRefused:
        try:
            waiting = await self._intake.put(self._owner, text, self._valid, self._sender, arrived, self._check_place)
        except MessageRefused as refused:
            self.refused += 1
            return refused
        self._heard_at, self._accepted = time.monotonic(), True
        self._places.take(self._owner)  # without an await since `_check_place`, so it is still there
        return waiting

    def _valid(self, text: str | None) -> Message:
        if self._told_to_end.done():  # its streams are free already, and may be another client's
            raise MessageRefused("busy", f"This connection is being closed. {AGAIN}", RETRY_S)
        message = self._reader.read(text)
        self._spoke = True
        return message

    def _check_place(self) -> None:
        self.finds_no_place = False
        self._places.check(self._owner)

    async def _write(self) -> Ending:
        while True:
            entry = await self._queue.get()
            text, closing = await self._text_of(entry)
            try:
                async with asyncio.timeout(SEND_S):
                    await _send(self._socket, text)
            except TimeoutError:
                return Ending("it does not read its answers")
            self._slots.release()
            if isinstance(entry, Waiting) and not closing:
                self._intake.sent(entry)
            if closing:
                return Ending("the server stops", 1001)

    async def _text_of(self, entry: Waiting | MessageRefused) -> tuple[str, bool]:
        """Return the text to send, and whether it is the last one."""
        if isinstance(entry, Waiting):
            try:
                return text_of(entry.message.id, await self._intake.settle(entry)), False
            except MessageRefused as refused:
                entry = refused
        return entry.text(), entry.kind == "closing"


async def _send(socket: WebSocket, text: str) -> None:
    """Send a text. Raises WebSocketDisconnect if the client has disconnected."""
    try:
        await socket.send_text(text)
    except RuntimeError as error:  # starlette raises it for a socket that has been closed in the meantime
        raise WebSocketDisconnect(1006) from error
