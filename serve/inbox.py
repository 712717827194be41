"""What clients ask, on its way from the server's event loop to the decision loop and back.

    inbox = Inbox()
    future = inbox.ask([Observed("north", obs)])       # any thread; raises Busy, Closed
    for asked in inbox.take(timeout=0.1):              # the decision loop
        asked.answer([decide(request) for request in asked.requests])
    (decision,) = future.result(timeout=5)

The inbox holds at most `capacity` requests; whoever comes then is told so and waits for nothing. `take` returns as soon
as something has been asked. Each future is answered exactly once: by the decision loop, or by `close`, also where
the loop has taken the question and then ended. Nobody can cancel one, so a client that goes away disturbs nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

from livegym.online.stream_requests import Answer, Request
from livegym.utils.locks import held

CAPACITY = 4096
"""Requests that wait at once."""


class Busy(RuntimeError):
    """The inbox is full; nothing has been taken."""


class Closed(RuntimeError):
    """The decision loop has ended, or is about to."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Requests that came together, are decided in one forward pass and answered together."""

    requests: list[Request]
    future: Future[list[Answer]] = field(default_factory=Future)
    at: float = field(default_factory=time.perf_counter)  # s, when it came

    def answer(self, answers: Sequence[Answer]) -> None:
        """One answer a request, in order. Does nothing where `close` was faster.

        Raises:
            ValueError: the numbers of requests and answers differ.
        """
        if len(answers) != len(self.requests):
            raise ValueError(f"{len(answers)} answers to {len(self.requests)} requests")
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(list(answers))

    def fail(self, error: Exception) -> None:
        """No answer, and why. Does nothing if it has been answered."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


class Inbox:
    """A bounded queue whose entries are answered."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """`capacity`: requests, not messages."""
        self.capacity = capacity
        self.asked = 0  # requests that were taken in so far
        self.busy = 0  # calls of `ask` that were turned away
        self.most_waiting = 0  # requests, at the fullest moment
        self._waiting: deque[Asked] = deque()
        self._count = 0  # requests in `_waiting`
        self._taken: list[Asked] = []  # since the last `take`
        self._closed = False
        self._changed = threading.Condition()

    def ask(self, requests: list[Request]) -> Future[list[Answer]]:
        """What will hold the answers, in the order of `requests`. May be called from any thread; never waits for room.

        Raises:
            Busy: there is no room for all of them; none was taken.
            Closed: nobody will answer any more.
        """
        asked = Asked(requests)
        asked.future.set_running_or_notify_cancel()  # from here on nobody can cancel it
        with held(self._changed, "the inbox"):
            if self._closed:
                raise Closed("this server is stopping")
            if self._count + len(requests) > self.capacity:
                self.busy += 1
                raise Busy(f"{self._count} requests wait already, {self.capacity} may")
            self._waiting.append(asked)
            self._count += len(requests)
            self.asked += len(requests)
            self.most_waiting = max(self.most_waiting, self._count)
            self._changed.notify()
        return asked.future

    def take(self, timeout: float) -> list[Asked]:
        """All that waits, the oldest first, as soon as anything does; empty after `timeout` s, or when closed."""
        until = time.monotonic() + timeout
        with held(self._changed, "the inbox"):
            while not self._waiting and not self._closed:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            taken = list(self._waiting)
            self._waiting.clear()
            self._count = 0
            self._taken = [asked for asked in self._taken if not asked.future.done()] + taken
        return taken

    def close(self) -> None:
        """Fails what is unanswered and turns away what comes; may be called again, and from any thread."""
        with held(self._changed, "the inbox"):
            self._closed = True
            left = [*self._taken, *self._waiting]
            self._taken, self._count = [], 0
            self._waiting.clear()
            self._changed.notify_all()
        for asked in left:  # outside the lock: whoever waits for a future may ask again at once
            asked.fail(Closed("this server stopped before it answered"))
