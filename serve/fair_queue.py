"""Whose turn it is among clients that want unequally much: all that wait have equal shares.

    queue = FairQueue[str]()
    queue.add("greedy", "its first message", cost=64)
    queue.add("greedy", "its second message", cost=64)
    queue.add("modest", "its only message", cost=1)
    queue.take()                       # "its first message"
    queue.take()                       # "its only message": the greedy client has had its share

It is start-time fair queueing (Goyal, Vin and Cheng, 1996): an item starts when its client's item before it would have
finished, if each client were served at the same rate. The item with the earliest start is next, of several the one that
costs least. So a client that wants less than its share never waits behind those that want more, and no share is
lost while other clients idle.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, TypeVar

Item = TypeVar("Item")

REMEMBERED = 1024
"""Clients whose share is known before those that have used up nothing are forgotten."""


class FairQueue(Generic[Item]):
    """Items of clients, in fair order. Not thread-safe."""

    def __init__(self) -> None:
        self._now = 0.0  # virtual time: the start of the item that was taken last
        self._finish: dict[str, float] = {}  # client -> when its last item finishes, in virtual time
        self._heap: list[tuple[float, float, int, Item]] = []  # start, cost, number, item
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, client: str, item: Item, cost: float) -> None:
        """Add an item of `client`; `cost`, more than 0, is what it uses of the client's share."""
        start = max(self._now, self._finish.get(client, 0.0))
        self._finish[client] = start + cost
        heapq.heappush(self._heap, (start, cost, next(self._numbers), item))
        if len(self._finish) > REMEMBERED:
            self._finish = {name: finish for name, finish in self._finish.items() if finish > self._now}

    @property
    def first(self) -> Item:
        """The item that is next; IndexError if there is none."""
        return self._heap[0][3]

    def take(self) -> Item:
        """Remove the item that is next and return it. Items of one client keep their order. IndexError: none."""
        self._now, _, _, item = heapq.heappop(self._heap)
        if not self._heap:  # no client that comes next has used anything
            self._finish.clear()
        return item
