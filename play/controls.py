"""The hands of whoever watches: a queue of requests, and the clock that simulated time keeps to.

    controls = Controls(speed=1.0)
    player = Player(env, actor, quota=None, control=controls)
    controls.ask(Pause(True))            # any thread; carried out between two control steps

`play/control_requests.py` lists what can be asked for. Other threads only append; the control loop drains. A viewer
that stalls therefore stalls nothing. What people do here never reaches training: it affects the environments of a test
only. An episode in which a person pushed a body, or that a person cut short, does not count.
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
"""Multiples of real time that viewers offer, beside as fast as possible."""
QUEUED = 1000  # requests that wait at most; a client that asks for more is not a person
NOTICES = 50
REST = 0.05  # s that one rest takes at most, so that viewers are told and a stop is noticed
LATE = 0.25  # s behind its clock from which on the loop no longer tries to catch up


class ControlRequest(Protocol):
    """One thing that somebody asks for."""

    def carry_out(self, controls: Controls, player: Player) -> None:
        """Does it, in the control loop's thread between two steps. Raises UserError if it cannot be done."""


class Controls(LoopControl):
    """Requests of people to one control loop, and what they set."""

    def __init__(
        self, speed: float | None = 1.0, recording: bool = False, no_recording: str = "nobody records here"
    ) -> None:
        """`speed`: multiple of real time; None: as fast as possible. `recording`: from the first step on.

        `no_recording`: why nothing can be recorded; empty: recordings can be made. Raises UserError if the speed is
        not on offer.
        """
        self._check_speed(speed)
        self.speed = speed
        self.paused = False
        self.recording = recording
        self._no_recording = no_recording
        self.comparing: tuple[Label, Label] | None = None  # in even and in odd environments
        self.pushes = Pushes()
        self.notices: deque[tuple[int, str]] = deque(maxlen=NOTICES)  # (number, text) for people, the newest last
        self._said = 0
        self._asked: deque[ControlRequest] = deque()
        self._wake = threading.Event()
        self._steps = 0  # to make while paused
        self._due_at = time.monotonic()

    # from any thread

    def ask(self, request: ControlRequest) -> bool:
        """Appends a request; False if too many wait already, and this one is lost."""
        if len(self._asked) >= QUEUED:
            return False
        self._asked.append(request)
        self._wake.set()
        return True

    # the control loop's part

    def say(self, text: str) -> None:
        """A word to those who watch; also in the log."""
        log.info("%s", text)
        self._said += 1
        self.notices.append((self._said, text))

    def begin(self) -> None:
        """New environments: what was done to the former ones is over."""
        self.pushes = Pushes()
        self.comparing = None
        self._due_at = time.monotonic()

    def obey(self, player: Player) -> None:
        """Does what was asked for since the last call. What cannot be done is said."""
        self._wake.clear()
        for _ in range(len(self._asked)):
            request = self._asked.popleft()
            try:
                request.carry_out(self, player)
            except UserError as error:
                self.say(str(error))

    def due(self) -> bool:
        """Whether the next control step is to be made now."""
        if self.paused:
            return self._steps > 0
        return self.speed is None or time.monotonic() >= self._due_at

    def before_step(self, sim: Simulator) -> None:
        """Takes back what pushes added in the last step."""
        self.pushes.clear(sim)

    def push(self, sim: Simulator) -> None:
        """Adds the open pushes."""
        self.pushes.apply(sim)

    def after_step(self, control_dt: float) -> None:
        """One control step of `control_dt` s was made: sets when the next one is due."""
        self._steps = max(0, self._steps - 1)
        if self.speed is None:
            return
        self._due_at += control_dt / self.speed
        now = time.monotonic()
        if now - self._due_at > LATE:
            self._due_at = now

    def rest(self) -> None:
        """Waits until the next step is due, or somebody asks for something; 50 ms at most."""
        left = REST if self.paused else self._due_at - time.monotonic()
        if left > 0:
            self._wake.wait(min(left, REST))

    def forget(self, env_ids: list[int]) -> None:
        """Episodes of these environments begin anew: pushes there end."""
        self.pushes.forget(env_ids)

    def pause(self, on: bool) -> None:
        """Stands still, or goes on from now."""
        self.paused = on
        self._steps = 0
        self._due_at = time.monotonic()

    def step_once(self) -> None:
        """Allows one step while paused; pauses if that is not so yet."""
        if not self.paused:
            self.pause(True)
        self._steps += 1

    def set_speed(self, factor: float | None) -> None:
        """Raises UserError if that is no speed on offer."""
        self._check_speed(factor)
        self.speed = factor
        self._due_at = time.monotonic()

    @staticmethod
    def _check_speed(factor: float | None) -> None:
        if factor is not None and not (math.isfinite(factor) and SPEEDS[0] <= factor <= SPEEDS[-1]):
            least, most = SPEEDS[0], SPEEDS[-1]
            raise UserError(f"playSpeed={factor:g}: allowed: {least:g} to {most:g}, or 0: as fast as possible.")

    def record(self, on: bool) -> None:
        """Begins or ends a recording. Raises UserError if nothing can be recorded."""
        if on and self._no_recording:
            raise UserError(f"nothing can be recorded: {self._no_recording}")
        self.recording = on

    def compare(self, first: Label, second: Label) -> None:
        """Two versions are compared from now on, in even and in odd environments."""
        self.comparing = (first, second)

    def end_comparison(self) -> None:
        """No versions are compared any more."""
        self.comparing = None
