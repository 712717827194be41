"""Lets clients' messages through to be checked, few in one turn of the event loop, and the clients in fair shares.

    turnstile = Turnstile()
    await turnstile.enter(("192.168.7.7", "connection 1"), len(text))

A message that is checked holds up all other connections, and the answers too, until the turn ends. Without a limit, a
turn would take as long as all clients together have messages for it. Here it takes `BYTES` of them, about 0.5 ms, or
one message that is larger. Those that wait are let through as `fair_queue.py` says.
"""

from __future__ import annotations

import asyncio

from livegym.serve.fair_queue import FairQueue, Share

BYTES = 4 * 1024
"""Size of the messages of one turn."""
OVERHEAD = 512
"""Cost of any message besides its size, in bytes."""


class Turnstile:
    """A turnstile of one event loop, on which all methods are called."""

    def __init__(self, limit: int = BYTES) -> None:
        self._limit = self._left = limit
        self._waiting = FairQueue[tuple[asyncio.Future[None], int]]()
        self._renews = False  # whether the next turn begins with `_renew`

    async def enter(self, share: Share, size: int) -> None:
        """Return when it is the turn of a message with `size` bytes; at once if the limit allows it."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(share, (turn, OVERHEAD + size), OVERHEAD + size)
        self._admit()
        await turn

    def _admit(self) -> None:
        while self._left > 0 and self._waiting:
            turn, cost = self._waiting.take()
            if not turn.done():  # otherwise its client has left
                turn.set_result(None)
                self._left -= cost
        if self._left < self._limit and not self._renews:
            self._renews = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        self._renews, self._left = False, self._limit
        self._admit()
