"""The hands of whoever watches: a queue of requests, and the clock that simulated time keeps to.

    controls = Controls(speed=1.0)
    player = Player(env, actor, quota=None, controls=controls)
    controls.ask(Pause(True))            # any thread; obeyed between two control steps

Other threads only append; the control loop drains. A viewer that stalls therefore stalls nothing, and what people do
here never reaches training: it is done to the environments of a test. An episode in which somebody pushed a body, or
that somebody cut short, does not count.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from livegym.live.swap import LivePolicy
from livegym.play import requests as ask_for
from livegym.play.pushes import Pushes
from livegym.utils.errors import UserError, not_one_of

if TYPE_CHECKING:
    from livegym.play.play import Player
    from livegym.tasks.env import Env

log = logging.getLogger(__name__)

SPEEDS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""Multiples of real time that viewers offer, beside as fast as possible."""
QUEUED = 1000  # requests that wait at most; a client that asks for more is not a person
NOTICES = 50
REST = 0.05  # s that one rest takes at most, so that viewers are told and a stop is noticed
LATE = 0.25  # s behind its clock from which on the loop no longer tries to catch up

T = TypeVar("T", bound=ask_for.Request)
Handler = Callable[["Controls", "Player", T], None]
HOW = ("now", "reset", "blend")


class Controls:
    """Requests of people to one control loop, and what they set."""

    def __init__(self, speed: float | None = 1.0) -> None:
        """`speed`: multiple of real time; None: as fast as possible."""
        self.speed = speed
        self.paused = False
        self.recording = False
        self.no_recording = "nobody records here"  # why; empty: recordings can be made
        self.comparing: ask_for.Compare | None = None
        self.pushes = Pushes()
        self.notices: deque[tuple[int, str]] = deque(maxlen=NOTICES)  # (number, text) for people, the newest last
        self._said = 0
        self._asked: deque[ask_for.Request] = deque()
        self._wake = threading.Event()
        self._steps = 0  # to make while paused
        self._due_at = time.monotonic()

    # from any thread

    def ask(self, request: ask_for.Request) -> bool:
        """Appends a request; False where too many wait already, and this one is lost."""
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

    def begin(self, env: Env) -> None:
        """New environments: what was done to the former ones is over."""
        self.pushes, self.comparing = Pushes(), None
        env.push = self.pushes.apply
        self._due_at = time.monotonic()

    def obey(self, player: Player) -> None:
        """Does what was asked for since the last call. What cannot be done is said."""
        self._wake.clear()
        for _ in range(len(self._asked)):
            request = self._asked.popleft()
            try:
                _HANDLERS[type(request)](self, player, request)
            except UserError as error:
                self.say(str(error))

    def due(self) -> bool:
        """Whether the next control step is to be made now."""
        if self.paused:
            return self._steps > 0
        return self.speed is None or time.monotonic() >= self._due_at

    def stepped(self, control_dt: float) -> None:
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

    def pause(self, on: bool) -> None:
        """Stands still, or goes on from now."""
        self.paused, self._steps = on, 0
        self._due_at = time.monotonic()

    def step_once(self) -> None:
        """Allows one step while paused; pauses where that is not so yet."""
        if not self.paused:
            self.pause(True)
        self._steps += 1

    def set_speed(self, factor: float | None) -> None:
        """Raises UserError where that is no speed on offer."""
        if factor is not None and not (math.isfinite(factor) and SPEEDS[0] <= factor <= SPEEDS[-1]):
            least, most = SPEEDS[0], SPEEDS[-1]
            raise UserError(f"playSpeed={factor:g}: allowed: {least:g} to {most:g}, or 0: as fast as possible.")
        self.speed = factor
        self._due_at = time.monotonic()


def _live(player: Player) -> LivePolicy:
    if not isinstance(player.actor, LivePolicy):
        raise UserError("a scripted agent acts here: there are no versions. Test a checkpoint: checkpoint=latest")
    return player.actor


def _pause(controls: Controls, player: Player, request: ask_for.Pause) -> None:
    controls.pause(request.on)


def _step_once(controls: Controls, player: Player, request: ask_for.StepOnce) -> None:
    controls.step_once()


def _speed(controls: Controls, player: Player, request: ask_for.Speed) -> None:
    controls.set_speed(request.factor)


def _restart(controls: Controls, player: Player, request: ask_for.Restart) -> None:
    num_envs = player.env.num_envs
    if request.env_id is None:
        player.restart(torch.arange(num_envs))
    elif 0 <= request.env_id < num_envs:
        player.restart(torch.tensor([request.env_id]))
    else:
        raise UserError(f"environment {request.env_id}: there are 0 to {num_envs - 1}")


def _push(controls: Controls, player: Player, request: ask_for.Push) -> None:
    controls.pushes.add(player.env.sim, request)
    player.meddled(request.env_id)


def _pin(controls: Controls, player: Player, request: ask_for.Pin) -> None:
    _live(player).pin()


def _follow(controls: Controls, player: Player, request: ask_for.Follow) -> None:
    _live(player).follow()


def _roll_back(controls: Controls, player: Player, request: ask_for.RollBack) -> None:
    _live(player).rollback(request.label)


def _take_over(controls: Controls, player: Player, request: ask_for.TakeOver) -> None:
    if request.how not in HOW:
        raise not_one_of("swap", request.how, HOW)
    if not 0 < request.blend_seconds <= 3600:
        raise UserError(f"blendSeconds={request.blend_seconds}: must be more than 0 and at most 3600 s")
    steps = max(1, round(request.blend_seconds / player.env.sim.control_dt))
    _live(player).set_rule(request.how, steps)


def _compare(controls: Controls, player: Player, request: ask_for.Compare) -> None:
    if player.env.num_envs < 2:
        raise UserError("two versions side by side need two environments. Start with numEnvs=2 or more.")
    _live(player).compare(request.first, request.second)
    controls.comparing = request
    player.restart(torch.arange(player.env.num_envs))


def _end_compare(controls: Controls, player: Player, request: ask_for.EndCompare) -> None:
    if controls.comparing:
        _live(player).end_comparison()
        controls.comparing = None
        player.restart(torch.arange(player.env.num_envs))


def _record(controls: Controls, player: Player, request: ask_for.Record) -> None:
    if request.on and controls.no_recording:
        raise UserError(f"nothing can be recorded: {controls.no_recording}")
    controls.recording = request.on


_HANDLERS: dict[type, Handler] = {
    ask_for.Pause: _pause,
    ask_for.StepOnce: _step_once,
    ask_for.Speed: _speed,
    ask_for.Restart: _restart,
    ask_for.Push: _push,
    ask_for.Pin: _pin,
    ask_for.Follow: _follow,
    ask_for.RollBack: _roll_back,
    ask_for.TakeOver: _take_over,
    ask_for.Compare: _compare,
    ask_for.EndCompare: _end_compare,
    ask_for.Record: _record,
}
