"""The WebSocket clients of one server: who has one of the places, who waits for one, and who gives way.

    clients = Clients(leases)
    clients.enter("owner", connection, "192.168.7.7")
    clients.check("owner")                 # raises MessageRefused: there is no place for its first message
    clients.take("owner")                  # its first message was accepted
    clients.leave("owner", connection)

A client takes a place with its first message that is accepted, so those that say nothing keep no other client out. A
client that was silent for `QUIET_S` gives way if all places are taken. One address may hold `ADDRESS_SHARE` of them;
this machine's own address stands for many programs, and may hold all. All of it runs on the server's event loop.
"""

from __future__ import annotations

import math
from functools import partial

from livegym.serve.connection import StreamConnection
from livegym.serve.intake import AGAIN, RETRY_S
from livegym.serve.leases import StreamLeases
from livegym.serve.protocol import MessageRefused
from livegym.web.places import share_of
from livegym.web.waiting_room import WaitingRoom

MAX_CLIENTS = 64
"""WebSocket clients of which a message was accepted. With the first one, a client takes one of these places."""
MAX_UNHEARD = 64
"""WebSockets of which no message was accepted yet; one more closes the oldest one of the address with the most."""
QUIET_S = 60.0
"""Silence after which a client gives way if all places are taken."""
ONE = "Send several streams over one connection."
TOO_MANY = f"{{}} clients are connected already; allowed: {{}}. {ONE}"
TOO_MANY_OF = f"{{}} clients of your address ({{}}) are connected already; allowed for one address: {{}}. {ONE}"
CROWDED = f"{MAX_UNHEARD} clients of which nothing has been accepted are connected, and another one came"


class Clients:
    """Clients by the name of the owner of their streams."""

    def __init__(self, leases: StreamLeases) -> None:
        self._leases = leases
        self._connections: dict[str, StreamConnection] = {}
        self._addresses: dict[str, str] = {}
        self._unheard = WaitingRoom(MAX_UNHEARD)
        self.turned_away = 0  # connections and messages for which there was no place

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, owner: str | None) -> bool:
        return owner in self._connections

    def enter(self, owner: str, connection: StreamConnection, address: str) -> None:
        """Let a client in; an earlier connection of the same owner ends."""
        earlier = self._connections.get(owner)
        if earlier is not None:
            earlier.replace()
        self._connections[owner] = connection
        self._leases.connect(owner)
        self._addresses[owner] = address
        if earlier is None:  # otherwise it has the place of the earlier one, or waits for one as that did
            self._unheard.enter(owner, address, partial(self._send_away, owner, CROWDED))

    def leave(self, owner: str, connection: StreamConnection) -> None:
        """Forget a connection that has ended, unless the client has another one."""
        if self._connections.get(owner) is connection:
            self._forget(owner)

    def check(self, owner: str) -> None:
        """Raise MessageRefused if a client that has no place yet could not get one."""
        if owner in self._unheard and self.refusal(self._addresses[owner]) is not None:
            self.turned_away += 1
            self._connections[owner].finds_no_place = True
            raise MessageRefused("busy", f"{self.refusal(self._addresses[owner])} {AGAIN}", RETRY_S)

    def take(self, owner: str) -> None:
        """Give a client a place, unless it has one. The last `check` must have succeeded."""
        if owner not in self._unheard:
            return
        crowd = self._crowd(self._addresses[owner])
        if crowd:
            silent = max(crowd, key=lambda other: self._connections[other].silence)
            why = f"silent for {self._connections[silent].silence:.0f} s, and another client needs the place"
            self._send_away(silent, why)
        self._unheard.exit(owner)

    def refusal(self, address: str) -> str | None:
        """Return why there is no place for a client of `address`; None if there is one."""
        crowd = self._crowd(address)
        if not crowd or any(self._connections[owner].silence > QUIET_S for owner in crowd):
            return None
        if len(crowd) < MAX_CLIENTS:
            return TOO_MANY_OF.format(len(crowd), address, math.ceil(share_of(address) * MAX_CLIENTS))
        return TOO_MANY.format(len(crowd), MAX_CLIENTS)

    def _crowd(self, address: str) -> list[str]:
        """Return the clients one of which must leave before one of `address` gets a place; empty if there is room."""
        heard = [owner for owner in self._connections if owner not in self._unheard]
        mine = [owner for owner in heard if self._addresses[owner] == address]
        if len(mine) >= share_of(address) * MAX_CLIENTS:
            return mine
        return heard if len(heard) >= MAX_CLIENTS else []

    def _send_away(self, owner: str, why: str) -> None:
        self._connections[owner].give_way(why)
        self._forget(owner)

    def _forget(self, owner: str) -> None:
        del self._connections[owner], self._addresses[owner]
        self._unheard.exit(owner)
        self._leases.leave(owner)
