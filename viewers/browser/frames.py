"""Passes the newest state of the environments from the control loop to the threads that draw it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np

from livegym.play.play import Listener, Player
from livegym.sim.lines import NO_LINES, Lines
from livegym.tasks.env import Step


@dataclass(frozen=True)
class Frame:
    """The state of the environments at one moment."""

    qpos: np.ndarray  # (N, nq)
    qvel: np.ndarray  # (N, nv)
    ctrl: np.ndarray  # (N, nu)
    time: float  # s, monotonic, when it was copied
    lines: Lines = NO_LINES  # of all environments


class LatestFrame(Listener):
    """A listener of the control loop that keeps the newest frame only: no thread waits, no frame ages in a queue."""

    def __init__(self, fps: float, shown: int) -> None:
        """`fps`: frames per second, at most; `shown`: a frame holds the first `shown` environments."""
        self.wake = threading.Event()  # set if there is something to draw
        self.frame: Frame | None = None
        self._period, self._shown = 1.0 / fps, shown
        self._wanted_by: frozenset[str] = frozenset()
        self._moved = False
        self._lock = threading.Lock()  # for the drawing threads; the control loop never takes it
        self._due = 0.0

    def want(self, who: str, wanted: bool) -> None:
        """Sets whether `who` wants frames; a new one gets a frame even if the loop is paused. Thread-safe."""
        with self._lock:
            if wanted == (who in self._wanted_by):
                return
            self._wanted_by = self._wanted_by | {who} if wanted else self._wanted_by - {who}
            self._moved = self._moved or wanted
        self.wake.set()

    def on_step(self, step: Step, player: Player) -> None:
        """Called after each control step."""
        self.offer(player, moved=True)

    def on_rest(self, player: Player) -> None:
        """Called while the loop is paused, or ahead of its clock."""
        self.offer(player, moved=False)

    def offer(self, player: Player, moved: bool) -> None:
        """Copies the state if it is wanted, due and changed. Called by the control loop."""
        self._moved = self._moved or moved
        sim = player.env.sim
        sim.show_lines(self, bool(self._wanted_by))
        if not (self._wanted_by and self._moved):
            return
        now = time.monotonic()
        if now < self._due:
            return
        self._due = max(self._due + self._period, now - self._period)
        self._moved = False
        qpos, qvel, ctrl = (x[: self._shown].cpu().numpy().astype(float) for x in (sim.qpos, sim.qvel, sim.ctrl))
        self.frame = Frame(qpos, qvel, ctrl, now, sim.lines_of(range(self._shown)))
        self.wake.set()

    def clear(self) -> None:
        """Drops the frame, because the environments have been replaced."""
        self.frame, self._moved = None, True
