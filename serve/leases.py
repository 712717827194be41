"""Stream ownership: a stream belongs to the client that named it first, for as long as that client is present.

    leases.check("client a", ["north"])    # raises MessageRefused if another client owns it
    new = leases.take("client a", ["north"])
    leases.leave("client a")               # any client may take north now

A WebSocket client is present until its connection ends, an HTTP client until its lease expires. All of it runs on the
server's event loop, so nothing can happen between `check` and `take`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from livegym.serve.protocol import MessageRefused

LEASE_S = 60.0
"""How long a stream stays leased to a client after its last HTTP request."""
MAX_STREAMS = 1024


class StreamLeases:
    """Streams and their owners."""

    def __init__(self, max_streams: int = MAX_STREAMS, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_streams = max_streams
        self._clock = clock
        self._owners: dict[str, str] = {}  # stream -> owner
        self._until: dict[str, float] = {}  # owner -> when its lease expires

    def connect(self, owner: str) -> None:
        """Lease to `owner` until it leaves."""
        self._until[owner] = math.inf

    def lease(self, owner: str) -> None:
        """Extend the lease of `owner` to at least `LEASE_S` from now."""
        self._until[owner] = max(self._until.get(owner, 0.0), self._clock() + LEASE_S)

    def leave(self, owner: str) -> None:
        """Free all streams of `owner`."""
        self._until.pop(owner, None)
        self._owners = {stream: name for stream, name in self._owners.items() if name != owner}

    def check(self, owner: str | None, streams: Iterable[str]) -> None:
        """Check that `owner` may use `streams`; None is a client that owns nothing.

        Raises:
            MessageRefused: another client owns one of them, or there are too many streams.
        """
        self._forget_expired()
        new = 0
        for stream in streams:
            holder = self._owners.get(stream)
            new += holder is None
            if holder not in (None, owner):
                raise MessageRefused(
                    "foreign_stream",
                    f"stream {stream!r} belongs to another client that is connected. Choose another name, or send the "
                    f"same ?client=... as that client; its streams become free when it disconnects, or {LEASE_S:g} s "
                    "after its last HTTP request.",
                    field="stream",
                    given=stream,
                )
        if len(self._owners) + new > self.max_streams and new:
            raise MessageRefused(
                "too_many_streams",
                f"{len(self._owners)} streams are in use and {new} more were named; at most {self.max_streams} are "
                "allowed. Close clients that you do not need.",
            )

    def take(self, owner: str | None, streams: Iterable[str]) -> list[str]:
        """Lease the free ones of `streams` to `owner`, after `check`; return them."""
        if owner is None:
            return []
        new = [stream for stream in streams if stream not in self._owners]
        self._owners.update(dict.fromkeys(new, owner))
        return new

    def give_back(self, owner: str | None, streams: Iterable[str]) -> None:
        """Free those of `streams` that `owner` has leased."""
        for stream in streams:
            if self._owners.get(stream) == owner:
                del self._owners[stream]

    def keep(self, owner: str | None, streams: Iterable[str]) -> None:
        """Lease those of `streams` that are free to `owner` again, if it is still present.

        They were freed because its first request of them was refused, while later ones, which were accepted, waited.
        """
        if owner in self._until:
            self.take(owner, streams)

    def _forget_expired(self) -> None:
        now = self._clock()
        for owner in [owner for owner, until in self._until.items() if until <= now]:
            self.leave(owner)
