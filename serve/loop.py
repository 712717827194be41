"""The decision loop: answers clients, steps the built-in simulator, and adopts new weights in between.

One thread does all of it, so nothing here is locked. It sleeps only in the inbox, which wakes it at each request. In
one turn, messages of the clients that wait are answered in fair shares (`backlog.py`), with one forward pass.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from livegym.online.service import Service
from livegym.online.service_state import ServiceState
from livegym.serve.backlog import Backlog
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
        backlog = Backlog()
        while not stop.requested:
            self._adopt()
            backlog.add(self.inbox.take(0.0 if backlog else self._patience()))
            for together in backlog.turn():
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
