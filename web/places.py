"""The requests and WebSockets that are served at the same time, and who may hold how many of them.

    places = Places()
    places.allow("/online/v1/ws", 160)           # more WebSockets than other paths have
    refusal = places.take(connection, role)      # None: a place was taken
    places.give_back(connection, role)

Requests, the WebSockets of each path, and strangers (who show no valid token) have places of their own, so that none of
them can take those of the others. Of these places, one address may hold `ADDRESS_SHARE`, and all spectators together
`SPECTATORS_SHARE`. This machine's own address stands for many programs, and may hold all.
"""

from __future__ import annotations

import ipaddress
from collections import Counter

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

from livegym.web.access import Role, address_of

REQUESTS = 128
"""HTTP requests of clients with a valid token, or of all if none is needed."""
SOCKETS = 80
"""WebSockets of each path, unless `allow` says another number."""
STRANGERS = 16
"""Requests without a valid token that are answered at all: `/healthz` and `/login`."""
ADDRESS_SHARE = 0.75
SPECTATORS_SHARE = 0.5


class Places:
    """Counts what is being served. All of it runs on the server's event loop."""

    def __init__(self) -> None:
        self.taken: Counter[tuple[str, str]] = Counter()  # by kind and holder
        self._sockets: dict[str, int] = {}  # by path

    def allow(self, path: str, sockets: int) -> None:
        """Allow another number of WebSockets of one path."""
        self._sockets[path] = sockets

    def sockets_of(self, path: str) -> int:
        """Return the number of WebSockets that one path may have."""
        return self._sockets.get(path, SOCKETS)

    def take(self, connection: HTTPConnection, role: Role | None) -> Response | None:
        """Take a place; return the refusal if there is none. `role` None: a stranger."""
        kind, most = self._kind_of(connection, role)
        address = address_of(connection)
        taken = self.taken
        shares = [(f"role {role}", SPECTATORS_SHARE if role is Role.SPECTATOR else 1.0)]
        shares.append((f"address {address}", share_of(address)))
        if taken[kind, ""] >= most or any(taken[kind, who] >= most * share for who, share in shares):
            message = "Too many connections; try again.\n"
            return PlainTextResponse(message, 503, {"retry-after": "5", "connection": "close"})
        for who in _names(address, role):
            taken[kind, who] += 1
        return None

    def give_back(self, connection: HTTPConnection, role: Role | None) -> None:
        """Give back a place that was taken with the same arguments."""
        kind, _ = self._kind_of(connection, role)
        for who in _names(address_of(connection), role):
            self.taken[kind, who] -= 1
            if not self.taken[kind, who]:
                del self.taken[kind, who]

    def _kind_of(self, connection: HTTPConnection, role: Role | None) -> tuple[str, int]:
        """Return the name of the places that a connection takes one of, and how many there are."""
        if role is None:
            return "strangers", STRANGERS
        if connection.scope["type"] == "websocket":
            path = connection.scope["path"]
            return f"sockets of {path}", self.sockets_of(path)
        return "requests", REQUESTS


def share_of(address: str) -> float:
    """Return the share of all places that one address may hold."""
    return 1.0 if is_own(address) else ADDRESS_SHARE


def _names(address: str, role: Role | None) -> tuple[str, str, str]:
    return "", f"role {role}", f"address {address}"


def is_own(address: str) -> bool:
    """Return whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True  # not a network address
