"""Controls of the viewers over a test: a queue of requests, and the clock that paces simulated time.

    controls = Controls(speed=1.0)
    player = Player(env, actor, quota=None, control=controls)
    controls.ask(Pause(True))            # any thread; carried out between two control steps

`play/control_requests.py` lists the requests. Other threads only append to the queue; the control loop drains it. So a
viewer that hangs does not delay the loop. Requests affect the environments of a test only, and never reach training. An
episode in which the user pushed a body, or that the user cut short, does not count.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from typing import Protocol

from livegym.play.play import LoopControl, Player
from livegym.play.pushes import Pushes
from livegym.sim.base import Simulator
from livegym.utils.errors import UserError
from livegym.weights.candidate import Label

log = logging.getLogger(__name__)

SPEEDS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""Multiples of real time that viewers offer, in addition to as fast as possible."""
QUEUED = 1000  # most requests that may wait; no human asks for more
NOTICES = 50
REST = 0.05  # s: longest duration of one rest, so that viewers are updated and a stop is noticed
LATE = 0.25  # s: if the loop is further behind its clock, it no longer tries to catch up


class ControlRequest(Protocol):
    """One request of a user."""

    def carry_out(self, controls: Controls, player: Player) -> None:
        """Called by the control loop's thread between two steps. Raises UserError if the request is impossible."""


class Controls(LoopControl):
    """Users' requests to one control loop, and the state that they set."""

    def __init__(
        self, speed: float | None = 1.0, recording: bool = False, no_recording: str = "this test has no recorder"
    ) -> None:
        """`speed`: multiple of real time; None: as fast as possible. `recording`: record from the first step on.

        `no_recording`: reason why nothing can be recorded; empty: recording is possible. Raises UserError if the speed
        is out of range.
        """
        self._check_speed(speed)
        self.speed = speed
        self.paused = False
        self.recording = recording
        self._no_recording = no_recording
        self.comparing: tuple[Label, Label] | None = None  # versions in (even, odd) environments
        self.pushes = Pushes()
        self.notices: deque[tuple[int, str]] = deque(maxlen=NOTICES)  # (number, text) for users, the newest last
        self._notice_count = 0
        self.by: dict[str, str] = {}  # paused, recording, comparing -> name of the visitor who did it; '': unknown
        self.who = ""  # name of the visitor whose request is being carried out
        self._requests: deque[tuple[ControlRequest, str]] = deque()
        self._wake = threading.Event()
        self._steps = 0  # steps that are still to be made while paused
        self._due_at = time.monotonic()

    # for any thread

    def ask(self, request: ControlRequest, who: str = "") -> bool:
        """Append a request of the visitor `who`. Returns False if too many wait already; then this one is dropped."""
        if len(self._requests) >= QUEUED:
            return False
        self._requests.append((request, who))
        self._wake.set()
        return True

    # for the control loop only

    def say(self, text: str) -> None:
        """Show a notice to the viewers, and log it."""
        log.info("%s", text)
        self._notice_count += 1
        self.notices.append((self._notice_count, text))

    def begin(self) -> None:
        """Forget pushes and comparison, which belong to the previous environments."""
        self.pushes = Pushes()
        self.comparing = None
        self._due_at = time.monotonic()

    def obey(self, player: Player) -> None:
        """Carry out the requests since the last call. If one is impossible, a notice says why."""
        self._wake.clear()
        for _ in range(len(self._requests)):
            request, self.who = self._requests.popleft()
            try:
                request.carry_out(self, player)
            except UserError as error:
                self.say(str(error))

    def due(self) -> bool:
        """Whether the next control step is due now."""
        if self.paused:
            return self._steps > 0
        return self.speed is None or time.monotonic() >= self._due_at

    def before_step(self, sim: Simulator) -> None:
        """Remove the forces that pushes added in the last step."""
        self.pushes.clear(sim)

    def push(self, sim: Simulator) -> None:
        """Add the forces of the open pushes."""
        self.pushes.apply(sim)

    def after_step(self, control_dt: float) -> None:
        """Set when the next step is due, after a control step of `control_dt` s."""
        self._steps = max(0, self._steps - 1)
        if self.speed is None:
            return
        self._due_at += control_dt / self.speed
        now = time.monotonic()
        if now - self._due_at > LATE:
            self._due_at = now

    def rest(self) -> None:
        """Wait until the next step is due or a request arrives, at most 50 ms."""
        left = REST if self.paused else self._due_at - time.monotonic()
        if left > 0:
            self._wake.wait(min(left, REST))

    def forget(self, env_ids: list[int]) -> None:
        """End the pushes in these environments, in which new episodes begin."""
        self.pushes.forget(env_ids)

    def pause(self, on: bool) -> None:
        """Pause, or resume from now on."""
        if on != self.paused:
            self.by["paused"] = self.who
        self.paused = on
        self._steps = 0
        self._due_at = time.monotonic()

    def step_once(self) -> None:
        """Allow one step while paused; pause first if the loop is running."""
        if not self.paused:
            self.pause(True)
        self._steps += 1

    def set_speed(self, factor: float | None) -> None:
        """Set the speed, a multiple of real time; None: as fast as possible. Raises UserError if it is out of range."""
        self._check_speed(factor)
        self.speed = factor
        self._due_at = time.monotonic()

    @staticmethod
    def _check_speed(factor: float | None) -> None:
        if factor is not None and not (math.isfinite(factor) and SPEEDS[0] <= factor <= SPEEDS[-1]):
            least, most = SPEEDS[0], SPEEDS[-1]
            raise UserError(f"playSpeed={factor:g}: allowed: {least:g} to {most:g}, or 0 for as fast as possible.")

    def record(self, on: bool) -> None:
        """Begin or end a recording. Raises UserError if nothing can be recorded."""
        if on and self._no_recording:
            raise UserError(f"nothing can be recorded: {self._no_recording}")
        self.by["recording"] = self.who
        self.recording = on

    def compare(self, first: Label, second: Label) -> None:
        """Record that two versions are compared, in even and in odd environments."""
        self.by["comparing"] = self.who
        self.comparing = (first, second)

    def end_comparison(self) -> None:
        """Record that no versions are compared any more."""
        self.comparing = None
