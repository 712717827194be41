"""Lets through what clients want done, little in one turn of the event loop, and the clients in fair shares.

    turnstile = Turnstile(4096)
    await turnstile.enter(("192.168.7.7", "connection 1"), 700)          # the cost of what follows
    turnstile.call(("192.168.7.7", "connection 2"), 700, begin)          # calls `begin` instead of returning

What is done in one turn holds up all other connections, and the answers too, until the turn ends. Without a limit, a
turn would take as long as all clients together have work for it. Here it lets through what costs `limit`, or one piece
of work that costs more. What waits is let through as `utils/fair_queue.py` says.

While another thread has something more urgent to do (`busy`), a turn lets nothing through, for `MOST_PAUSES` pauses at
most: Python runs one thread at a time, and would give this one half of the time and more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from livegym.utils.fair_queue import FairQueue, Share

PAUSE_S = 0.001
MOST_PAUSES = 5


class Turnstile:
    """A turnstile of one event loop, on which all methods are called."""

    def __init__(self, limit: float) -> None:
        """`limit`: cost of what is let through in one turn."""
        self._limit = self._left = limit
        self._waiting = FairQueue[tuple[Callable[[], bool], float]]()
        self._renews = False  # whether a later turn begins with `_renew`
        self._pauses = 0  # since something was let through
        self.busy: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self._waiting)

    async def enter(self, share: Share, cost: float) -> None:
        """Return when it is the turn of something; immediately if the limit allows it."""
        turn = asyncio.get_running_loop().create_future()

        def begin() -> bool:
            if turn.done():  # its client has left
                return False
            turn.set_result(None)
            return True

        self.call(share, cost, begin)
        await turn

    def call(self, share: Share, cost: float, begin: Callable[[], bool]) -> None:
        """Call `begin` when it is its turn; immediately if the limit allows it.

        `begin()`: returns whether it was worth the turn; otherwise another one gets it.
        """
        self._waiting.add(share, (begin, cost), cost)
        self._admit()

    def _admit(self) -> None:
        while self._left > 0 and self._waiting:
            if not self._renews:
                self._renews = True
                asyncio.get_running_loop().call_soon(self._renew)
            begin, cost = self._waiting.take()
            self._left -= cost
            if not begin():
                self._left += cost

    def _renew(self) -> None:
        if self._waiting and self._pauses < MOST_PAUSES and self.busy():
            self._pauses += 1
            asyncio.get_running_loop().call_later(PAUSE_S, self._renew)
            return
        self._pauses = 0
        self._renews = False
        self._left = self._limit
        self._admit()
