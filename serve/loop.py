"""The decision loop: answers clients, steps the built-in simulator, and adopts new weights in between.

One thread does all of it, so nothing here is locked. It sleeps only in the inbox, which wakes it at each request. In
one turn, a message of each stream that waits is answered, with one forward pass for all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

from livegym.online.service import Service
from livegym.online.service_state import ServiceState
from livegym.online.stream_requests import Observed
from livegym.serve.history import Points, point_of
from livegym.serve.inbox import Asked, Inbox
from livegym.serve.metrics import Curves
from livegym.serve.progress import StreamProgress
from livegym.serve.simulator import BuiltIn
from livegym.serve.status import Status
from livegym.utils.signals import StopFlag

SNAPSHOT, POINT = 0.25, 1.0  # s
IDLE = 0.05  # s, its longest sleep, so that it notices new weights and a stop


class Loop:
    """The decision loop of one run."""

    def __init__(
        self, service: Service, memory: ServiceState, simulator: BuiltIn | None, inbox: Inbox, status: Status
    ) -> None:
        """`simulator` None: observations come from clients only."""
        self.service = service
        self.memory = memory
        self.simulator = simulator
        self.inbox = inbox
        self.status = status
        self.points = Points()
        self._snapshot_at = self._point_at = -math.inf
        self._refresh(time.monotonic())

    def run(self, stop: StopFlag, curves: Curves, progress: StreamProgress) -> None:
        """Serve until a stop is requested; write the measurements to `curves` and show them on `progress`."""
        waiting: list[Asked] = []
        while not stop.requested:
            self._adopt()
            waiting += self.inbox.take(0.0 if waiting else self._patience())
            groups, waiting = turn_of(waiting)
            for together in groups:
                self._answer(together)
            if self.simulator is not None and self.simulator.left() <= 0:
                self.simulator.step(self.memory.clock)
                self.status.took(self.simulator.seconds)
            self._look_at_the_clock(curves, progress)
        self.status.end_serving()
        self.inbox.close()  # the trainer may take a while to end; clients need not wait for it

    def _patience(self) -> float:
        return IDLE if self.simulator is None else min(IDLE, max(0.0, self.simulator.left()))

    def _adopt(self) -> None:
        live = self.service.decider.live
        if live.adopt() is not None:
            live.take_changes()  # dropped: a continuous run does not report which version acts in which stream

    def _answer(self, together: Sequence[Asked]) -> None:
        found = self.service.answer_all([asked.requests for asked in together], self.memory.clock)
        for asked, answers in zip(together, found, strict=True):
            if answers is None:
                asked.fail(RuntimeError("the server failed to decide; its log has the reason"))
            else:
                asked.answer(answers)

    def _look_at_the_clock(self, curves: Curves, progress: StreamProgress) -> None:
        now = time.monotonic()
        if now - self._snapshot_at >= SNAPSHOT:
            self._refresh(now)
            reading = self.status.reading()
            self.status.notice(reading)
            curves.update(reading)
            progress.update(reading)
        if now - self._point_at >= POINT:
            self._point_at = now
            self.points.add(point_of(self.status.reading()))

    def _refresh(self, now: float) -> None:
        self._snapshot_at = now
        self.memory.tick()
        self.status.refresh()


def turn_of(waiting: Iterable[Asked]) -> tuple[list[list[Asked]], list[Asked]]:
    """Return the groups of messages that are answered now, each in one forward pass, and the messages that wait.

    The messages about a stream are answered in the order of their arrival, one observation in a turn. So a client that
    sends many at once delays only itself. Messages of rewards, which need no pass, go ahead of
    observations of other streams.
    """
    groups: list[list[Asked]] = []
    together: list[Asked] = []
    later: list[Asked] = []
    streams: set[str] = set()  # of which an earlier message is not answered yet
    for asked in waiting:
        named = {request.stream for request in asked.requests}
        if named & streams:
            later.append(asked)
        elif has_observations(asked):
            together.append(asked)
        else:
            groups.append([asked])
            continue
        streams |= named
    return [*groups, together] if together else groups, later


def has_observations(asked: Asked) -> bool:
    """Whether a message asks for decisions; otherwise it reports rewards."""
    return any(isinstance(request, Observed) for request in asked.requests)
