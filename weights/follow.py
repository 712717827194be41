"""Source of new weights: the weight bus if the run is live on this host, otherwise its checkpoint files.

    source = FollowSource(CheckpointSource(run, ...), weights="auto", interval=30.0)
    source.wait(1.0)                   # until there may be something new
    candidate = source.poll(acting)    # None if there is nothing new

A switch between the two loses nothing, because versions show which weights are newer. Each switch is logged once.
"""

from __future__ import annotations

import logging
import math
import time

from livegym.rundir.run import Run
from livegym.utils.errors import UserError
from livegym.weights.bus_source import BusSource, bus_of
from livegym.weights.candidate import Candidate, SwapEvent
from livegym.weights.sources import CheckpointSource

log = logging.getLogger(__name__)

RUN_CHECK = 1.0  # s between checks whether another run should be followed
BUS_CHECK = 0.5  # s between checks whether there is a bus, and whether its writer is alive


class FollowSource:
    """Follows a run by the bus, by files or by both, as `weights=auto|files|bus` says."""

    def __init__(self, files: CheckpointSource, weights: str, interval: float) -> None:
        """`interval`: s between polls of the files. Raises UserError if `weights` is bus and there is no bus."""
        self._files = files
        self._weights = weights
        self._interval = interval
        self._bus: BusSource | None = None
        self._unreadable = ""
        self._refusals: list[SwapEvent] = []
        self._looked_at_files = self._checked_bus = self._checked_run = time.monotonic()
        if weights != "files":
            self._connect()
        if weights == "bus" and self._bus is None:
            raise UserError(
                f"weights=bus: {self._unreadable or f'{files.run.name} is not published on this machine now'}. Either "
                "the run is not being trained here, or it is trained with publishInterval=0. "
                "Follow its checkpoint files: weights=files"
            )

    @property
    def kind(self) -> str:
        """The source that is followed at the moment: bus or files."""
        return "files" if self._bus is None else "bus"

    @property
    def run(self) -> Run:
        """The run that is followed now."""
        return self._files.run

    def wait(self, timeout: float) -> None:
        """Sleep until there may be something new, at most `timeout` s."""
        if self._bus is None and self._weights == "bus":
            time.sleep(timeout)
        elif self._bus is None:
            due = self._looked_at_files + self._interval - time.monotonic()
            time.sleep(min(timeout, max(0.0, due)))
        else:
            self._bus.wait(timeout)

    def poll(self, acting: Candidate) -> Candidate | None:
        """Poll for newer weights. Returns them verified, or None if there are none."""
        self._check_run()
        bus = self._bus if self._bus is not None and self._bus.run is self._files.run else None
        if self._weights != "files":
            self._check_bus()
        for source in dict.fromkeys((bus, self._bus)):  # a bus that has ended may contain a last version
            candidate = self._look_at_bus(source, acting) if source is not None else None
            if candidate is not None:
                return candidate
        if self._weights == "bus" or time.monotonic() - self._looked_at_files < self._interval:
            return None
        self._looked_at_files = time.monotonic()
        return self._files.poll(acting)

    def _look_at_bus(self, bus: BusSource, acting: Candidate) -> Candidate | None:
        try:
            return bus.poll(acting)
        except UserError as error:
            log.warning("refused: %s. The old policy keeps acting.", error)
            bus.refuse(for_good=False)
            self._refusals.append(
                SwapEvent(time.time(), "bus", bus.run.name, "", None, None, None, False, str(error), 0.0)
            )
            return None

    @property
    def newer_run(self) -> str | None:
        """The name of a newer run that is not followed; None if there is none. May be read by any thread."""
        return self._files.newer_run

    def _check_run(self) -> None:
        """Every `RUN_CHECK` s: follow another run if it should succeed this one, and poll its files immediately."""
        if time.monotonic() - self._checked_run < RUN_CHECK:
            return
        self._checked_run = time.monotonic()
        run = self._files.run
        self._files.move_if_changed()
        if self._files.run is not run:
            self._looked_at_files = -math.inf

    def _check_bus(self) -> None:
        """Every `BUS_CHECK` s: leave a bus that has ended, and connect to one that has appeared."""
        moved = self._bus is not None and self._bus.run is not self._files.run
        if not moved and time.monotonic() - self._checked_bus < BUS_CHECK:
            return
        self._checked_bus = time.monotonic()
        over = "another run is followed" if moved else self._bus.over if self._bus is not None else None
        if over is not None:
            log.info("%s: following %s from now on.", over, "nothing" if self._weights == "bus" else "files")
            self._bus = None
            self._looked_at_files = -math.inf  # poll the files immediately: the run's last checkpoint is there already
        if self._bus is None:
            self._connect()

    def _connect(self) -> None:
        run = self._files.run
        file = bus_of(run)
        if file is None:
            return
        try:
            bus = BusSource(run, file)
        except UserError as error:
            if str(error) != self._unreadable:
                self._unreadable = str(error)
                log.warning("%s. Following files.", error)
            return
        if bus.over is None:
            self._bus, self._unreadable = bus, ""
            log.info("%s is live on this machine: following it on the weight bus.", run.name)

    def refuse(self, candidate: Candidate, for_good: bool) -> None:
        """Do not offer the candidate again until it changes; `for_good`: its shapes do not fit."""
        if candidate.publication is None:
            self._files.refuse(candidate, for_good)
        elif self._bus is not None:
            self._bus.refuse(for_good)

    def refusals(self) -> list[SwapEvent]:
        """Weights that could not be used since the last call."""
        events, self._refusals = self._refusals, []
        return events + self._files.refusals()
