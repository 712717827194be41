"""Accepts connections, few in one turn of the event loop and few in a second.

    accepting = Accepting(listener, make_protocol)
    accepting.start()                       # inside the event loop
    accepting.stop()

A client that connects and disconnects as fast as it can makes more connections than a server in Python can serve.
asyncio accepts as many in one turn of its loop as its `backlog`, and uvicorn sets that to 2048: then no other client
is served for seconds. Here, a turn accepts `ACCEPTS`, and beyond `RATE` a second the others wait in the kernel's
queue. They also wait there while the requests of many others wait for their turns. A connection that the client has
closed by the time it is accepted costs next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from livegym.web.rates import TokenBucket

log = logging.getLogger(__name__)

ACCEPTS = 8
"""Connections that are accepted in one turn of the event loop."""
RATE = (2000.0, 256.0)
"""Connections accepted in a second, and in a burst; one costs 0.1 ms."""
PAUSE_S = 0.005
"""Pause after too many of them."""
EXHAUSTED_S = 1.0
"""Pause if this process may not open another file."""


class Accepting:
    """Accepts the connections of one listening socket, on the running event loop."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        """`crowded()`: whether so much waits to be done that no more connections are accepted for now."""
        self._listener = listener
        self._make = make
        self._crowded = crowded
        self._bucket = TokenBucket(*RATE)
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        listener.setblocking(False)

    def start(self) -> None:
        """Accept connections from now on."""
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listener.fileno())
        if self._again is not None:
            self._again.cancel()

    def _pause(self, seconds: float) -> None:
        self.stop()
        self._again = self._loop.call_later(seconds, self.start)

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            if self._crowded() or not self._bucket.take():
                self._pause(PAUSE_S)
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept a connection (%s); trying again in %g s", error.strerror, EXHAUSTED_S)
                self._pause(EXHAUSTED_S)
                return
            connection.setblocking(False)
            if _is_over(connection):
                connection.close()
            else:
                self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._serve(connection))
        self._tasks.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # it has been reset
            connection.close()


def _is_over(connection: socket.socket) -> bool:
    """Return whether the client has sent nothing and has disconnected."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
