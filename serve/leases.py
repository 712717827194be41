"""Stream ownership: a stream belongs to the client that named it first, for as long as that client is present.

    leases.connect("client a")
    leases.check("client a", ["north"], "192.168.7.7")    # raises MessageRefused if another client owns it
    new = leases.take("client a", ["north"], "192.168.7.7")
    leases.answered("client a", new, {"north"}, "192.168.7.7")    # something about it was accepted: it stays leased
    leases.leave("client a")                              # any client may take north now

A WebSocket client is present until its connection ends, an HTTP client while it waits for an answer or has streams
whose lease has not expired. One address may hold `ADDRESS_SHARE` of all streams. This machine's own address stands for
many programs: there, one client may hold `CLIENT_SHARE` while another one has streams. All of it runs on the server's
event loop except `holds`, so nothing can happen between `check` and `take`.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator

from livegym.serve.protocol import MessageRefused
from livegym.web.places import ADDRESS_SHARE, is_own

LEASE_S = 60.0
"""How long a stream stays leased to a client after its last HTTP request."""
MAX_STREAMS = 1024
CLIENT_SHARE = 0.5
"""The share of all streams that one client of this machine may hold while another client has streams."""
HERE = "127.0.0.1"


class StreamLeases:
    """Streams and their owners."""

    def __init__(self, max_streams: int = MAX_STREAMS, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_streams = max_streams
        self._clock = clock
        self._owners: dict[str, str] = {}  # stream -> owner
        self._addresses: dict[str, str] = {}  # stream -> address from which it was taken
        self._connected: set[str] = set()  # owners that stay until they leave
        self._until: OrderedDict[str, float] = OrderedDict()  # other owner -> when its lease ends, in order
        self._asking: Counter[str] = Counter()  # messages that are not answered yet, by owner

    def holds(self, stream: str) -> bool:
        """Return whether a client has the stream. Any thread may call it."""
        return stream in self._owners

    def connect(self, owner: str) -> None:
        """Lease to `owner` until it leaves."""
        self._connected.add(owner)
        self._until.pop(owner, None)

    def lease(self, owner: str) -> None:
        """Extend the lease of `owner` to `LEASE_S` from now."""
        if owner not in self._connected:
            self._until[owner] = self._clock() + LEASE_S
            self._until.move_to_end(owner)

    def leave(self, owner: str) -> None:
        """Free all streams of `owner`."""
        self._connected.discard(owner)
        self._until.pop(owner, None)
        self.give_back(owner, [stream for stream, name in self._owners.items() if name == owner])

    def check(self, owner: str | None, streams: Iterable[str], address: str = HERE) -> None:
        """Check that `owner`, a client of `address`, may use `streams`; None is a client that owns nothing.

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
        if new:
            self._check_room(owner, new, address)

    def _check_room(self, owner: str | None, new: int, address: str) -> None:
        for whose, held, most in self._shares(owner, address):
            if held + new > most:
                raise MessageRefused(
                    "too_many_streams",
                    f"{held} streams{whose} are in use and {new} more were named; at most {most} are allowed. "
                    "Close clients that you do not need, or set online.max_streams to more on the server.",
                )

    def _shares(self, owner: str | None, address: str) -> Iterator[tuple[str, int, int]]:
        """Yield whose streams are counted, how many are in use, and how many may be."""
        if not is_own(address):
            held = sum(other == address for other in self._addresses.values())
            yield f" of your address ({address})", held, math.ceil(ADDRESS_SHARE * self.max_streams)
        elif owner is not None:
            held = sum(other == owner for other in self._owners.values())
            if held < len(self._owners):
                yield " of this client", held, math.ceil(CLIENT_SHARE * self.max_streams)
        yield "", len(self._owners), self.max_streams

    def take(self, owner: str | None, streams: Iterable[str], address: str = HERE) -> list[str]:
        """Lease the free ones of `streams` to `owner`, after `check`; return them."""
        if owner is None:
            return []
        self._asking[owner] += 1
        return self._add(owner, streams, address)

    def answered(self, owner: str | None, new: Iterable[str], used: Collection[str], address: str = HERE) -> None:
        """Note that a message is answered: of its streams, `new` were taken for it, and something of `used` accepted.

        The others of the `new` ones are free. Those of `used` are leased again if they were freed, because an earlier
        request of them was refused while this one waited. An HTTP client that has no streams is forgotten.
        """
        if owner is None:
            return
        self.give_back(owner, set(new) - set(used))
        if owner in self._connected or owner in self._until:
            self._add(owner, used, address)
        self._asking[owner] -= 1
        if not self._asking[owner]:
            del self._asking[owner]
            if owner in self._until and owner not in self._owners.values():
                del self._until[owner]

    def give_back(self, owner: str, streams: Iterable[str]) -> None:
        """Free those of `streams` that `owner` has leased."""
        for stream in streams:
            if self._owners.get(stream) == owner:
                del self._owners[stream], self._addresses[stream]

    def _add(self, owner: str, streams: Iterable[str], address: str) -> list[str]:
        new = [stream for stream in streams if stream not in self._owners]
        self._owners.update(dict.fromkeys(new, owner))
        self._addresses.update(dict.fromkeys(new, address))
        return new

    def _forget_expired(self) -> None:
        now = self._clock()
        while self._until and next(iter(self._until.values())) <= now:
            self.leave(next(iter(self._until)))
