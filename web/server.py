"""uvicorn in a thread of its own, within bounds that it does not set itself.

It lets a socket that never sends a request stay for ever, and a stop waits for clients that do not read. Here a
connection has `HEAD_S` to send a request's head, at most `MAX_WAITING` connections may be about to (the one that has
waited longest makes room), and a stop cuts off after `GRACE_S` whoever is still there.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import h11
import uvicorn
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEAD_S = 10.0
MAX_WAITING = 64
GRACE_S = 0.5
STOP_S = 5.0
"""A stop does not wait longer, even for an application that hangs."""
WRITE_BUFFER = 32 * 1024
"""Bytes waiting in this process above which a sender has to wait for its client."""
MAX_MESSAGE = 64 * 1024
"""Bytes of a WebSocket message that comes in; what people send is small."""
MAX_HELD = 512 * 1024
"""Bytes of messages that the application has not taken yet: more than one read of the socket brings uncompressed."""
LEFT_S = 5.0
"""How long a client may take for what is still to be sent when the application is done with it."""
PIECE = 4 * 1024
"""Bytes that are unpacked at once: 4 MiB where they are made to."""
PING_S = 20.0


class Connection(H11Protocol):
    """An HTTP connection that has to say something in time."""

    waiting_since: float | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client came; it has `HEAD_S` for its first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER)  # stays when this becomes a WebSocket
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Bytes came; as long as they are no whole head, the clock goes on."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """A request is answered; whoever keeps the connection counts among those who wait."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self.waiting_since is None:
            self.waiting_since = self.loop.time()
            self._deadline = self.loop.call_later(HEAD_S, self.transport.abort)
            self._make_room()

    def _stop_waiting(self) -> None:
        self.waiting_since = None
        if self._deadline is not None:
            self._deadline.cancel()

    def _make_room(self) -> None:
        waiting = [c for c in self.connections if isinstance(c, Connection) and c.waiting_since is not None]
        if len(waiting) > MAX_WAITING:
            oldest = min(waiting, key=lambda c: c.waiting_since or 0.0)
            oldest._stop_waiting()
            oldest.transport.abort()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket that ends quietly where the library logs an error: on a refusal, and on invalid UTF-8.

    Nothing is read from it while the application has a message to take. Two things follow. A pong then waits with all
    the rest, so its lateness says nothing about the client. And what one read brought is held: that is little, unless
    it unpacks to a thousand times as much.
    """

    _held = 0  # bytes that the application has not taken yet
    _broken_off = False  # on this side, and not by the application

    def data_received(self, data: bytes) -> None:
        """Bytes came. They are unpacked piece by piece, so that `MAX_HELD` is noticed before the memory is used."""
        for start in range(0, len(data), PIECE):
            super().data_received(data[start : start + PIECE])

    async def send(self, message: ASGISendEvent) -> None:
        """Sends what the application says. Raises ClientDisconnected if this side has broken off."""
        await self.writable.wait()
        if self._broken_off:
            raise ClientDisconnected
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # a refusal is an answer too

    def send_receive_event_to_app(self) -> None:
        """Hands on a message that is whole."""
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.conn.fail(1007, "not UTF-8")
            self.handle_parser_exception()
            return
        self._held += sum(map(len, self.frames))
        if self._held > MAX_HELD and not self.close_sent:
            self.conn.fail(1009, "too much at once")
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    async def receive(self) -> ASGIReceiveEvent:
        """The next message for the application."""
        message = await super().receive()
        if message["type"] == "websocket.receive":
            text = message.get("text")
            self._held -= len(text.encode()) if text is not None else len(message.get("bytes") or b"")
        return message

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The application is done with this client, who may not be taking what was left for it."""
        super().on_task_complete(task)
        if self.transport.get_write_buffer_size():
            self.loop.call_later(LEFT_S, self.transport.abort)

    def handle_parser_exception(self) -> None:
        """What came is no WebSocket's, or too much."""
        self._broken_off = True
        super().handle_parser_exception()

    def keepalive_timeout(self) -> None:
        """A pong is late; the kernel ends a connection whose other side is gone."""
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
    """Serves `app` on `listener` from a thread of its own, between `start` and `stop`."""

    def __init__(self, app: Any, listener: socket.socket) -> None:
        super().__init__(_configuration(app))
        self._listener = listener
        self._accepts = threading.Event()
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    def start(self) -> None:
        """Returns when requests are answered."""
        self._thread.start()
        self._accepts.wait()

    def stop(self) -> None:
        """Ends all connections and frees the port, in about a second; may be called again, and before `start`."""
        self.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        self._listener.close()

    def _run(self) -> None:
        try:
            self.run([self._listener])
        finally:
            self._accepts.set()  # nobody waits for a server that could not start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept."""
        await super().startup(sockets)
        self._accepts.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Says goodbye to all clients, and cuts off who does not answer."""
        loop = asyncio.get_running_loop()
        for connection in self.server_state.connections:
            loop.call_later(GRACE_S, connection.transport.abort)
        await super().shutdown(sockets)


def _configuration(app: Any) -> uvicorn.Config:
    """Nothing is logged but errors: a request's line may hold the token."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws=WebSocketConnection,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=True,  # a scene whose numbers are rounded takes half the bytes, for 1 % of a core
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # anybody can write X-Forwarded-For
        server_header=False,
        timeout_graceful_shutdown=2,
    )
