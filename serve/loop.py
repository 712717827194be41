"""The serving loop: answers clients, lets the built-in simulator take its turns, adopts new weights in between.

One thread does all of it, so nothing here is locked. It sleeps only in the inbox, which wakes it at once.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from typing import Any

from livegym.online.gates import gate_of
from livegym.online.memory import Memory
from livegym.online.requests import Observed
from livegym.online.service import Service
from livegym.rundir.run import Run
from livegym.schema.settled import SettledConfig
from livegym.serve.dashboard import Dashboard
from livegym.serve.history import Points, point_of
from livegym.serve.inbox import Asked, Inbox
from livegym.serve.metrics import Curves, Readings
from livegym.serve.picture import pictures_of
from livegym.serve.server import OnlineApi
from livegym.serve.simulator import BuiltIn
from livegym.serve.status import Status
from livegym.serve.streams import describe
from livegym.serve.watchdog import Watchdog
from livegym.tasks.env import Env
from livegym.utils.attempt import Attempts
from livegym.utils.errors import UserError
from livegym.utils.log import console
from livegym.utils.signals import StopFlag
from livegym.web.door import FrontDoor
from livegym.web.opening import access_of, host_of, warn_of_others

log = logging.getLogger(__name__)

SNAPSHOT, POINT = 0.25, 1.0  # s
IDLE = 0.05  # s that it sleeps at most, so that new weights and a stop are noticed


class Loop:
    """Serves one run."""

    def __init__(
        self,
        config: SettledConfig,
        run: Run,
        env: Env,
        service: Service,
        memory: Memory,
        watchdog: Watchdog,
    ) -> None:
        self.config, self.run_dir, self.env = config, run, env
        self.service, self.memory, self.inbox = service, memory, Inbox()
        builtin = config.simulator == "builtin"
        self.simulator = BuiltIn(env, service, config.playSpeed) if builtin else None
        fixed = {
            "task": config.task.name, "run": run.name, "simulator": config.simulator, "gate": gate_of(config),
            "playSpeed": config.playSpeed, "capacity": config.online.buffer_capacity,
        }  # fmt: skip
        self._access = access_of(config)
        self._api = OnlineApi(self.inbox, describe(env), self._access, config.online.max_streams)
        self.status = Status(fixed, service, watchdog, self._api.counts)
        self._watchdog = watchdog
        self.points = Points()
        self._attempt = Attempts("answering a client")
        self._snapshot_at = self._point_at = -math.inf
        self._refresh(time.monotonic())

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Dashboard, clients, `/stats` and `/metrics` are served meanwhile. Raises UserError without a port."""
        access, reading = self._access, self.status.reading
        door = FrontDoor(access, host_of(self.config), self.config.streamPort, reading, Readings(reading))
        pictures = pictures_of(self.env.task, self.service.tally)
        dashboard = Dashboard(reading, self.points.since, pictures, self._control, access)
        door.app.include_router(dashboard.router)
        self._api.mount(door.app)
        warn_of_others(self.config, access)
        door.start()
        console.print(f"dashboard at {door.url}", style="bold", soft_wrap=True, highlight=False)
        try:
            yield
        finally:
            self.inbox.close()
            door.stop()

    def run(self, stop: StopFlag) -> None:
        """Serves until a stop is asked for."""
        trainings = self.service.decider.live.newest.epoch
        curves = Curves(self.run_dir.summaries, max(self.service.writer.added, trainings))
        with contextlib.closing(curves):
            while not stop.requested:
                self._adopt()
                for asked in self.inbox.take(self._patience()):
                    self._answer(asked)
                if self.simulator is not None and self.simulator.left() <= 0:
                    self.simulator.turn(self.memory.clock)
                    self.status.took(self.simulator.seconds)
                self._look_at_the_clock(curves)
        self.status.end_serving()
        self.inbox.close()  # the trainer may take a while to end; nobody is to wait for that

    def _patience(self) -> float:
        return IDLE if self.simulator is None else min(IDLE, max(0.0, self.simulator.left()))

    def _adopt(self) -> None:
        live = self.service.decider.live
        if live.adopt() is not None:
            live.take_changes()  # nobody follows who acts where

    def _answer(self, asked: Asked) -> None:
        def answer() -> None:
            asked.answer(self.service.answer(asked.requests, self.memory.clock))

        if not self._attempt(answer):
            asked.fail(RuntimeError("the server could not decide; its log says why"))
        if any(isinstance(request, Observed) for request in asked.requests):
            self.status.took(time.perf_counter() - asked.at)

    def _look_at_the_clock(self, curves: Curves) -> None:
        now = time.monotonic()
        if now - self._snapshot_at >= SNAPSHOT:
            self._refresh(now)
            curves.update(self.status.reading())
        if now - self._point_at >= POINT:
            self._point_at = now
            self.points.add(point_of(self.status.reading()))

    def _refresh(self, now: float) -> None:
        self._snapshot_at = now
        self.memory.tick()
        self.status.refresh()

    def _control(self, asked: dict[str, Any]) -> str | None:
        """What people at the dashboard want, from any thread; why it is not done, or None."""
        live, what = self.service.decider.live, asked["do"]
        try:
            if what == "pin":
                live.pin()
            elif what == "follow":
                live.follow()
            elif what == "train":
                self._watchdog.start_again()
            else:
                live.rollback(asked.get("version") if what == "rollback" else None)
        except UserError as error:
            return str(error)
        return None
