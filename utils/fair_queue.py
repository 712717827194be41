"""Whose turn it is among clients that want unequally much: all that wait have equal shares.

    queue = FairQueue[str]()
    queue.add(("10.0.0.7", "connection 1"), "its first message", cost=64)
    queue.add(("10.0.0.7", "connection 1"), "its second message", cost=64)
    queue.add(("10.0.0.9", "connection 2"), "the only message of another one", cost=64)
    queue.take()                       # "its first message"
    queue.take()                       # "the only message of another one": the first client has had its share

A share is named by a path. It is divided equally among the names that follow: first among addresses, then among the
connections of each. So an address has no more of the server because it has more connections.

It is weighted fair queueing: an item starts when its client's item before it finishes, or now, and finishes when it
would if all clients that wait were served at the same rate. The item with the earliest finish is next. So a client that
wants less than its share hardly ever waits behind those that want more, and no share is lost while other clients idle.

"Now" is a virtual time: the start of the item that was taken last, as in start-time fair queueing (Goyal, Vin and
Cheng, 1996). By that alone it would stand still if a new client came for each item, and those that are known would wait
forever. So it also passes half as fast as each client that waits is served. At full speed it would run ahead of those
that wait, because clients that want little are gone before they are counted.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")

Share = tuple[str, ...]
"""Path of a share: names of holders, each of which divides what it has equally among those that follow."""
NOBODY: Share = ("",)
"""The share of those of whom it is not known who they are."""
REMEMBERED = 1024
"""Holders whose share is known before those that have used up nothing are forgotten."""
SPEED = 0.5
"""Speed of the virtual time, in that of a client that waits."""


class _Items(Generic[Item]):
    """The items of one client, in order, with their costs."""

    def __init__(self) -> None:
        self._items: deque[tuple[Item, float]] = deque()

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, share: Share, item: Item, cost: float) -> None:
        self._items.append((item, cost))

    @property
    def first(self) -> tuple[Item, float]:
        return self._items[0]

    def take(self) -> tuple[Item, float]:
        return self._items.popleft()


class _Level(Generic[Item]):
    """The items of several holders, in fair order."""

    def __init__(self) -> None:
        self._now = 0.0  # virtual time, at which a holder that has used up nothing starts
        self._finish: dict[str, float] = {}  # holder -> when the last item that was taken of it finishes
        self._prune_at = REMEMBERED
        self._waiting: dict[str, _Items[Item] | _Level[Item]] = {}
        self._heap: list[tuple[float, int, float, str]] = []  # finish of its first item, number, start, holder
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, share: Share, item: Item, cost: float) -> None:
        holder, rest = share[0], share[1:]
        waiting = self._waiting.get(holder)
        if waiting is None:
            waiting = self._waiting[holder] = _Level() if rest else _Items()
            waiting.add(rest, item, cost)
            self._push(holder, max(self._now, self._finish.get(holder, 0.0)), cost)
        else:
            waiting.add(rest, item, cost)

    def _push(self, holder: str, start: float, cost: float) -> None:
        heapq.heappush(self._heap, (start + cost, next(self._numbers), start, holder))

    @property
    def first(self) -> tuple[Item, float]:
        return self._waiting[self._heap[0][3]].first

    def take(self) -> tuple[Item, float]:
        _, _, start, holder = heapq.heappop(self._heap)
        waiting = self._waiting[holder]
        item, cost = waiting.take()
        self._now = max(start, self._now + SPEED * cost / (1 + len(self._heap)))
        finish = self._finish[holder] = start + cost
        if waiting:
            self._push(holder, finish, waiting.first[1])
        else:
            del self._waiting[holder]
        self._forget()
        return item, cost

    def _forget(self) -> None:
        """Forget holders that start like unknown ones; only rarely, because it looks at all of them."""
        if not self._heap:  # no holder that comes next has used anything
            self._finish.clear()
            self._prune_at = REMEMBERED
        elif len(self._finish) > self._prune_at:
            self._finish = {holder: finish for holder, finish in self._finish.items() if finish > self._now}
            self._prune_at = max(REMEMBERED, 2 * len(self._finish))


class FairQueue(Generic[Item]):
    """Items of clients, in fair order. Not thread-safe."""

    def __init__(self) -> None:
        self._root = _Level[Item]()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, share: Share, item: Item, cost: float) -> None:
        """Add an item. `cost`, more than 0, is what it uses of its share.

        `share`: at least one name. The path of one client must not be the beginning of another one's.
        """
        self._root.add(share, item, cost)
        self._count += 1

    @property
    def first(self) -> Item:
        """The item that is next; IndexError if there is none."""
        return self._root.first[0]

    def take(self) -> Item:
        """Remove the item that is next and return it. Items of one client keep their order. IndexError: none."""
        item, _ = self._root.take()
        self._count -= 1
        return item
