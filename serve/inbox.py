"""A queue that carries clients' requests from the server's event loop to the decision loop, and the answers back.

    inbox = Inbox()
    future = inbox.ask([Observed("north", obs)])       # any thread; raises Busy, Closed
    for asked in inbox.take(timeout=0.1):              # the decision loop
        asked.answer([decide(request) for request in asked.requests])
    (decision,) = future.result(timeout=5)

At most `capacity` requests wait for their answers, including those that the loop has taken; beyond that, `ask` raises
Busy immediately. `take` returns as soon as a request has arrived. Each future is answered exactly once: by the decision
loop, or by `close`, even if the loop has taken the request and then ended. A future cannot be cancelled, so a client
that disconnects has no effect on it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import cached_property, partial

from livegym.online.stream_requests import Answer, Request
from livegym.utils.fair_queue import NOBODY, Share
from livegym.utils.locks import locked

CAPACITY = 4096
"""Requests that may wait at once."""


class Busy(RuntimeError):
    """The inbox is full; none of the requests was accepted."""


class Closed(RuntimeError):
    """The decision loop has ended, or is about to."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Requests that arrived in one message; they are answered together."""

    requests: list[Request]
    share: Share = NOBODY  # of the decisions, which they use
    future: Future[list[Answer]] = field(default_factory=Future)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that the message names, each once."""
        return tuple(dict.fromkeys(request.stream for request in self.requests))

    def answer(self, answers: Sequence[Answer]) -> None:
        """Answer the requests, one answer each, in order. Does nothing if `close` has failed them already.

        Raises:
            ValueError: the numbers of requests and answers differ.
        """
        if len(answers) != len(self.requests):
            raise ValueError(f"{len(answers)} answers to {len(self.requests)} requests")
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(list(answers))

    def fail(self, error: Exception) -> None:
        """Answer with an error. Does nothing if the requests have been answered already."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


class Inbox:
    """A bounded queue; each entry carries the future of its answers."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """`capacity`: requests, not messages."""
        self.capacity = capacity
        self.asked = 0  # requests accepted so far
        self.busy = 0  # calls of `ask` that raised Busy
        self.most_waiting = 0  # most requests that ever waited at once
        self._waiting: deque[Asked] = deque()
        self._count = 0  # requests that are not answered yet
        self._taken: dict[Future[list[Answer]], Asked] = {}  # by the loop, which has not answered them yet
        self._closed = False
        self._changed = threading.Condition()

    def ask(self, requests: list[Request], share: Share = NOBODY) -> Future[list[Answer]]:
        """Return a future of the answers, in the order of `requests`. Any thread may call it; it never blocks for room.

        `share`: whose share of the decisions they use.

        Raises:
            Busy: there is no room for all of them; none was accepted.
            Closed: the inbox is closed, so no answer would come.
        """
        asked = Asked(requests, share)
        asked.future.set_running_or_notify_cancel()  # from here on it cannot be cancelled
        with locked(self._changed, "the inbox"):
            if self._closed:
                raise Closed("this server is stopping")
            if self._count + len(requests) > self.capacity:
                self.busy += 1
                raise Busy(f"{self._count} requests are waiting already; at most {self.capacity} may wait")
            self._waiting.append(asked)
            self._count += len(requests)
            self.asked += len(requests)
            self.most_waiting = max(self.most_waiting, self._count)
            self._changed.notify()
        asked.future.add_done_callback(partial(self._answered, len(requests)))
        return asked.future

    def _answered(self, requests: int, future: Future[list[Answer]]) -> None:
        with locked(self._changed, "the inbox"):
            self._count -= requests
            self._taken.pop(future, None)

    def is_busy(self) -> bool:
        """Return whether requests wait for their answers. Any thread may call it."""
        return self._count > 0

    def take(self, timeout: float) -> list[Asked]:
        """Wait for requests and return all of them, oldest first; an empty list after `timeout` s, or once closed."""
        until = time.monotonic() + timeout
        with locked(self._changed, "the inbox"):
            while not self._waiting and not self._closed:
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            taken = list(self._waiting)
            self._waiting.clear()
            self._taken.update((asked.future, asked) for asked in taken)
        return taken

    def close(self) -> None:
        """Fail all unanswered requests and refuse new ones. Any thread may call it, more than once."""
        with locked(self._changed, "the inbox"):
            self._closed = True
            left = [*self._taken.values(), *self._waiting]
            self._taken.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for asked in left:  # outside the lock, because a callback of the future may call `ask` immediately
            asked.fail(Closed("this server stopped before it answered"))
