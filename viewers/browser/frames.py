"""The newest state of the environments, handed from the control loop to whoever draws it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np

from livegym.play.play import Listener, Player
from livegym.tasks.env import Step


@dataclass(frozen=True)
class Frame:
    """The environments at one moment."""

    qpos: np.ndarray  # (N, nq)
    qvel: np.ndarray  # (N, nv)
    ctrl: np.ndarray  # (N, nu)
    time: float  # s, monotonic, when it was copied


class LatestFrame(Listener):
    """One frame, replaced by a newer one: nobody waits, and none grows old in a queue. Listens to the control loop."""

    def __init__(self, fps: float, shown: int) -> None:
        """`fps`: most frames in a second; `shown`: environments in a frame, the first ones."""
        self.wake = threading.Event()  # something is to be drawn
        self.frame: Frame | None = None
        self._period, self._shown = 1.0 / fps, shown
        self._wanted_by: frozenset[str] = frozenset()
        self._moved = False
        self._lock = threading.Lock()  # of those who look; the control loop never takes it
        self._due = 0.0

    def want(self, who: str, wanted: bool) -> None:
        """Whether `who` looks; who begins to look gets a frame, also of a loop that is paused. From any thread."""
        with self._lock:
            if wanted == (who in self._wanted_by):
                return
            self._wanted_by = self._wanted_by | {who} if wanted else self._wanted_by - {who}
            self._moved = self._moved or wanted
        self.wake.set()

    def on_step(self, step: Step, player: Player) -> None:
        """One control step was made."""
        self.offer(player, moved=True)

    def on_rest(self, player: Player) -> None:
        """The loop is paused, or ahead of its clock."""
        self.offer(player, moved=False)

    def offer(self, player: Player, moved: bool) -> None:
        """Copies the state, if somebody looks, it is time, and it has changed. From the control loop."""
        self._moved = self._moved or moved
        if not (self._wanted_by and self._moved):
            return
        now = time.monotonic()
        if now < self._due:
            return
        self._due = max(self._due + self._period, now - self._period)
        self._moved = False
        sim = player.env.sim
        qpos, qvel, ctrl = (x[: self._shown].cpu().numpy().astype(float) for x in (sim.qpos, sim.qvel, sim.ctrl))
        self.frame = Frame(qpos, qvel, ctrl, now)
        self.wake.set()

    def clear(self) -> None:
        """The environments are others now."""
        self.frame, self._moved = None, True
