"""uvicorn on a thread of its own, with limits that it lacks.

By itself, uvicorn lets a socket that never sends a request stay open forever, and its stop waits for clients that do
not read. Here a connection has `HEAD_S` to send the head of a request, at most `MAX_WAITING` connections may be without
one (beyond that, one of them is closed), and a stop disconnects all remaining clients after `GRACE_S`. Connections on
which a request was admitted before wait apart from those of strangers. Connections are accepted by `accepting.py`.

All requests that have arrived would begin in one turn of the event loop, which then lasts as long as all of them take,
and no message of a WebSocket would be read before it ends. So only `REQUESTS` begin in a turn, handshakes of WebSockets
included, in fair shares (`turnstile.py`): first the addresses, then connections on which a request was admitted before
and new ones, then the connections of each kind. Who opens a connection for each request so waits for others who do.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
import time
from collections import deque
from typing import Any, cast

import h11
import uvicorn
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from livegym.web.accepting import Accepting
from livegym.web.access import ROLE
from livegym.web.turnstile import Turnstile
from livegym.web.waiting_room import WaitingRoom

HEAD_S = 10.0
MAX_WAITING = 256
"""Connections without a request: strangers. As many again may be kept open by clients who were admitted before."""
REQUESTS = 2
"""Requests that begin in one turn of the event loop; one takes about 1 ms of it."""
MAX_IN_LINE = 256
"""Requests that wait for their turns, beyond which no connections are accepted."""
GRACE_S = 0.5
STOP_S = 5.0
"""Longest wait for the server's thread to end, in case the application hangs."""
WRITE_BUFFER = 32 * 1024
"""Bytes buffered in this process above which a sender has to wait for its client."""
MAX_MESSAGE = 64 * 1024
"""Largest incoming WebSocket message, in bytes; legitimate ones are small."""
MAX_HELD = 512 * 1024
"""Bytes of messages that the application has not received yet; one read of uncompressed data stays below it."""
LEFT_S = 5.0
"""Time in which a client must accept the remaining data once the application has finished."""
PIECE = 4 * 1024
"""Bytes that are decompressed at once; maliciously compressed, they become 4 MiB."""
PING_S, PONG_S = 20.0, 20.0
ARRIVED = "livegym.arrived"
"""Key of the time, in s by time.perf_counter, when a message was read from its connection: in the ASGI message of a
WebSocket, and in the scope of an HTTP request, where it is that of the end of its body."""


class Connection(H11Protocol):
    """An HTTP connection that must send a request in time, and whose requests begin when it is their turn."""

    _room: WaitingRoom | None = None  # in which it waits
    _deadline: asyncio.TimerHandle | None = None
    _due: float | None = None  # s, by the loop's clock, when the head of a request must be complete
    _in_line = False  # whether a request that has arrived waits for its turn
    _arrived = 0.0  # when the last bytes were read

    def __init__(
        self, *given: Any, strangers: WaitingRoom, known: WaitingRoom, requests: Turnstile, **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._strangers, self._known = strangers, known
        self._requests = requests

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of a new connection's first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER)  # stays when this becomes a WebSocket
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        self._arrived = time.perf_counter()
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle bytes that were received; those that begin a request, when it is its turn.

        Until then nothing more is read, and no deadline runs.
        """
        if self._in_line:
            return
        if self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]:
            self._handle()
            return
        self._in_line = True
        self._stop_waiting()
        self._unset_keepalive_if_required()
        host, port = self.client or ("", id(self))
        self._requests.call((host, "known" if self._admitted else "new", str(port)), 1.0, self._begin)
        if self._in_line:
            self.flow.pause_reading()

    def _begin(self) -> bool:
        self._in_line = False
        if self.transport.is_closing():
            return False
        self.flow.resume_reading()
        self._handle()
        return True

    def _handle(self) -> None:
        answering = self.conn.their_state is h11.DONE
        super().handle_events()
        if self.scope is not None and not answering:  # otherwise the bytes belong to the next request
            cast(dict[str, Any], self.scope)[ARRIVED] = self._arrived
            self._gather_answer()
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._stop_waiting()
            self._due = None

    def _gather_answer(self) -> None:
        """Make the head of the answer wait for its body, unless the client waits for a `100 Continue`."""
        cycle = self.cycle
        if cycle is not None and cycle.transport is self.transport and not cycle.waiting_for_100_continue:
            cycle.transport = cast(asyncio.Transport, GatheredAnswer(self.transport, self.loop))

    def on_response_complete(self) -> None:
        """Start the deadline of the next request on a connection that is kept open."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and not self._in_line:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline of a closed connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _admitted(self) -> bool:
        """Whether its last request was admitted."""
        return self.scope is not None and ROLE in self.scope

    def _wait_for_head(self) -> None:
        if self._room is None:
            self._room = self._known if self._admitted else self._strangers
            self._due = self._due or self.loop.time() + HEAD_S
            self._deadline = self.loop.call_at(self._due, self.transport.abort)
            self._room.enter(self, self.client[0] if self.client else "", self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._room is not None and self._deadline is not None:
            self._room.exit(self)
            self._room = None
            self._deadline.cancel()


class GatheredAnswer:
    """A transport for one answer, which sends the head together with the beginning of the body.

    Apart, they are two system calls here, and wake the client twice. A body that does not follow in the same turn of
    the event loop is not waited for.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head: bytes | None = None  # that waits
        self._sent = False  # whether the head was sent

    def write(self, data: bytes) -> None:
        """Send the data, unless they are the head, which comes first."""
        if self._sent:
            self._transport.write(data)
        elif self._head is None:
            self._head = data
            self._loop.call_soon(self._send)
        else:
            self._head += data
            self._send()

    def close(self) -> None:
        """Close the connection when all was sent."""
        self._send()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed, or will be when all was sent."""
        return self._transport.is_closing()

    def _send(self) -> None:
        if self._head is not None and not self._sent:
            self._sent = True
            self._transport.write(self._head)


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that closes without a logged error after a refusal and on invalid UTF-8, unlike the library's.

    Nothing is read from it while a message waits for the application. This has two consequences. A pong then waits in
    the socket too, so a late pong does not mean that the client is gone. And the messages of one read are kept in
    memory, which is little unless they decompress to a thousand times their size.
    """

    _buffered = 0  # bytes that the application has not received yet
    _read_at = 0.0  # when the last bytes were read
    _broken_off = False  # whether this class, and not the application, has closed the connection

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._arrivals: deque[float] = deque()  # of the messages that the application has not received yet

    def data_received(self, data: bytes) -> None:
        """Decompress received bytes piece by piece, so that `MAX_HELD` takes effect before the memory is used."""
        self._read_at = time.perf_counter()
        for start in range(0, len(data), PIECE):
            super().data_received(data[start : start + PIECE])

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the application. Raises ClientDisconnected if this class has closed the connection."""
        await self.writable.wait()
        if self._broken_off:
            raise ClientDisconnected
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # a refusal completes the handshake too

    def send_receive_event_to_app(self) -> None:
        """Pass a complete message to the application; close the connection if it is invalid or too large."""
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.conn.fail(1007, "not UTF-8")
            self.handle_parser_exception()
            return
        self._buffered += sum(map(len, self.frames))
        if self._buffered > MAX_HELD and not self.close_sent:
            self.conn.fail(1009, "too many unread bytes")
            self.handle_parser_exception()
            return
        if not self.close_sent:
            self._arrivals.append(self._read_at)
        super().send_receive_event_to_app()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message for the application."""
        message = await super().receive()
        if message["type"] == "websocket.receive":
            text = message.get("text")
            self._buffered -= len(text.encode()) if text is not None else len(message.get("bytes") or b"")
            cast(dict[str, Any], message)[ARRIVED] = self._arrivals.popleft()
        return message

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Give the client `LEFT_S` to accept the remaining data after the application has finished."""
        super().on_task_complete(task)
        if self.transport.get_write_buffer_size():
            self.loop.call_later(LEFT_S, self.transport.abort)

    def handle_parser_exception(self) -> None:
        """Close the connection after invalid or too much data."""
        self._broken_off = True
        super().handle_parser_exception()

    def keepalive_timeout(self) -> None:
        """Handle a late pong: ping again if reading is paused, else close. The kernel ends a dead connection."""
        if self.read_paused:
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
        else:
            self._broken_off = True
            super().keepalive_timeout()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Server(uvicorn.Server):
    """Serves `app` on `listener`, on a thread of its own, between `start` and `stop`."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        self.requests = Turnstile(REQUESTS)
        super().__init__(_configuration(app, self.requests))
        self._listener = listener
        self._accepts = threading.Event()
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    def start(self) -> None:
        """Start to serve; return once requests are answered."""
        self._thread.start()
        self._accepts.wait()

    def stop(self) -> None:
        """End all connections and free the port, within about a second; may be repeated, and called before `start`."""
        self.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        self._listener.close()

    def _run(self) -> None:
        try:
            self.run([self._listener])
        finally:
            self._accepts.set()  # `start` must not wait for a server that failed to start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup([])  # uvicorn itself accepts nothing
        self._accepting = Accepting(self._listener, self._protocol, lambda: len(self.requests) >= MAX_IN_LINE)
        self._accepting.start()
        self._accepts.set()

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        made: asyncio.Protocol = make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections; abort those that do not close within `GRACE_S`."""
        self._accepting.stop()
        loop = asyncio.get_running_loop()
        for connection in self.server_state.connections:
            loop.call_later(GRACE_S, connection.transport.abort)
        await super().shutdown(sockets)


def _configuration(app: Any, requests: Turnstile) -> uvicorn.Config:
    """Return uvicorn's configuration. Only errors are logged, because a request's line may contain the token."""
    rooms = {"strangers": WaitingRoom(MAX_WAITING), "known": WaitingRoom(MAX_WAITING)}
    return uvicorn.Config(
        app,
        http=functools.partial(Connection, requests=requests, **rooms),  # type: ignore[arg-type]  # called only
        ws=WebSocketConnection,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=True,  # halves the bytes of a scene with rounded numbers, for 1 % of a core
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # any client can forge X-Forwarded-For
        server_header=False,
        timeout_graceful_shutdown=2,
    )
