"""Whose stream is it: a stream belongs to the client that first named it, as long as that client is there.

    leases.check("client a", ["north"])    # raises Refused if it is another's
    new = leases.take("client a", ["north"])
    leases.leave("client a")               # north may be taken up by anybody now

A client of a WebSocket is there until the connection ends; one that asks over HTTP until its lease is over. All is done
on the server's event loop, so nothing happens between `check` and `take`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from livegym.serve.protocol import MessageRefused

LEASE_S = 60.0
"""How long a stream stays with a client that last asked over HTTP."""
MAX_STREAMS = 1024


class StreamLeases:
    """Streams and their owners."""

    def __init__(self, max_streams: int = MAX_STREAMS, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_streams = max_streams
        self._clock = clock
        self._owners: dict[str, str] = {}  # stream -> owner
        self._until: dict[str, float] = {}  # owner -> when its lease is over

    def connect(self, owner: str) -> None:
        """`owner` stays until it leaves."""
        self._until[owner] = math.inf

    def lease(self, owner: str) -> None:
        """`owner` stays for `LEASE_S` more, at least."""
        self._until[owner] = max(self._until.get(owner, 0.0), self._clock() + LEASE_S)

    def leave(self, owner: str) -> None:
        """`owner` is gone; its streams are free."""
        self._until.pop(owner, None)
        self._owners = {stream: name for stream, name in self._owners.items() if name != owner}

    def check(self, owner: str | None, streams: Iterable[str]) -> None:
        """Whether `owner` may name `streams`; None is a client that owns nothing.

        Raises:
            Refused: another client has one of them, or there are too many.
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
                    f"same ?client=... as that client; streams are free when it leaves, or {LEASE_S:g} s after its "
                    "last HTTP request.",
                    field="stream",
                    given=stream,
                )
        if len(self._owners) + new > self.max_streams and new:
            raise MessageRefused(
                "too_many_streams",
                f"{len(self._owners)} streams are in use and {new} more were named; {self.max_streams} may be in all. "
                "Close clients that are not needed.",
            )

    def take(self, owner: str | None, streams: Iterable[str]) -> list[str]:
        """Gives `owner` those that are free, after `check`; which they are."""
        if owner is None:
            return []
        new = [stream for stream in streams if stream not in self._owners]
        self._owners.update(dict.fromkeys(new, owner))
        return new

    def give_back(self, owner: str | None, streams: Iterable[str]) -> None:
        """`owner` has no use for these after all."""
        for stream in streams:
            if self._owners.get(stream) == owner:
                del self._owners[stream]

    def _forget_expired(self) -> None:
        now = self._clock()
        for owner in [owner for owner, until in self._until.items() if until <= now]:
            self.leave(owner)
