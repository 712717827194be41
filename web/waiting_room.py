"""A bounded number of clients who keep the server waiting; beyond it, one of the address with the most has to go.

    room = WaitingRoom(256)
    room.enter(connection, "192.168.7.7", connection.abort)    # may call the `leave` of another one
    room.exit(connection)

Honest clients send what they have to send at once, so they wait only for a moment. An attacker's stay, so it is one of
them that has to go: the client that has waited longest, of the address with the most clients.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable


class WaitingRoom:
    """Clients by address, oldest first. Not thread-safe."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._leave: dict[str, OrderedDict[Hashable, Callable[[], None]]] = {}  # address -> client -> sends it away
        self._address: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, client: Hashable) -> bool:
        return client in self._address

    def enter(self, client: Hashable, address: str, leave: Callable[[], None]) -> None:
        """Let a client wait, which is not waiting yet. If there are too many, call the `leave` of one of them."""
        self._address[client] = address
        self._leave.setdefault(address, OrderedDict())[client] = leave
        if len(self._address) > self.places:
            fullest = max(self._leave.values(), key=len)
            oldest, send_away = next(iter(fullest.items()))
            self.exit(oldest)
            send_away()

    def exit(self, client: Hashable) -> None:
        """Forget a client, which may have left already."""
        address = self._address.pop(client, None)
        if address is not None:
            del self._leave[address][client]
            if not self._leave[address]:
                del self._leave[address]
