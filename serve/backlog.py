"""The messages that wait for decisions, and which of them are answered next.

    backlog = Backlog()
    backlog.add(inbox.take(timeout))
    for together in backlog.turn():        # a group of messages, which share one forward pass
        ...

A turn has at most `ROWS` requests, or one message with more, so it ends soon. Whose messages they are is decided in
equal shares (`utils/fair_queue.py`): a client that sends more than can be answered delays itself, and what another
client asks is in one of the next turns, however much waits. The messages about a stream are answered in the order of
their arrival, one observation in a turn. Messages of rewards, which need no forward pass, go first in their turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from livegym.online.stream_requests import Observed
from livegym.serve.inbox import Asked
from livegym.utils.fair_queue import FairQueue

ROWS = 16
"""Requests of a turn. A pass for 16 observations takes about twice as long as one for a single observation."""


class Backlog:
    """Messages that wait. Not thread-safe; the decision loop calls all methods."""

    def __init__(self) -> None:
        self._ready = FairQueue[Asked]()  # those whose streams have no earlier message that waits
        self._of: dict[str, deque[Asked]] = {}  # stream -> the messages about it that wait, in the order of arrival

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, arrived: Iterable[Asked]) -> None:
        """Add messages in the order in which they arrived."""
        for asked in arrived:
            for stream in asked.streams:
                self._of.setdefault(stream, deque()).append(asked)
            self._consider(asked)

    def turn(self) -> list[list[Asked]]:
        """Remove the messages that are answered now, and return them in groups, in order."""
        groups: list[list[Asked]] = []
        together: list[Asked] = []
        rows = 0
        while self._ready and (not rows or rows + len(self._ready.first.requests) <= ROWS):
            asked = self._ready.take()
            rows += len(asked.requests)
            if has_observations(asked):
                together.append(asked)
            else:
                groups.append([asked])
                self._leave(asked)
        for asked in together:  # only now, because a stream gets one decision in a turn
            self._leave(asked)
        return [*groups, together] if together else groups

    def _consider(self, asked: Asked) -> None:
        """Make a message ready if it is the first one of each of its streams."""
        if all(self._of[stream][0] is asked for stream in asked.streams):
            self._ready.add(asked.share, asked, len(asked.requests))

    def _leave(self, asked: Asked) -> None:
        """Forget a message that was ready; others may be ready now."""
        behind: dict[int, Asked] = {}
        for stream in asked.streams:
            waiting = self._of[stream]
            waiting.popleft()
            if waiting:
                behind[id(waiting[0])] = waiting[0]
            else:
                del self._of[stream]
        for other in behind.values():
            self._consider(other)


def has_observations(asked: Asked) -> bool:
    """Whether a message asks for decisions; otherwise it reports rewards."""
    return any(isinstance(request, Observed) for request in asked.requests)
