"""The requests that a user may make while watching a test: one table, `CONTROLS`, from which all controls are derived.

    controls.ask(Pause(True))            # any thread
    controls.ask(RollBack(120))

A request is a frozen dataclass with a method `carry_out`, which the control loop calls between two steps. Its entry in
`CONTROLS` has its name in the page's messages, which are `{"do": name, ...}` with the dataclass's fields, its keys, and
its line in the window's help. Three things are derived from the table: the messages that a page may send
(`viewers/browser/protocol.py`), the keys of the window, and its on-screen help (`viewers/key_bindings.py`). A test
compares docs/watching.md and the keys of the page with the table.

To add a control, write its dataclass and add one entry. If the page should have a button or a key for it, also add it
to `index.html` and `controls.js` in `viewers/browser/page/`, and add a row to the table in docs/watching.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from livegym.live.swap import LivePolicy
from livegym.play.controls import SPEEDS, ControlRequest, Controls
from livegym.play.play import Player
from livegym.tasks.matches import check_match
from livegym.utils.errors import UserError, not_one_of
from livegym.weights.candidate import Label

HOW = ("now", "reset", "blend")
_LADDER = (*SPEEDS, math.inf)  # inf: as fast as possible


def _live(player: Player) -> LivePolicy:
    if not isinstance(player.actor, LivePolicy):
        raise UserError("a scripted agent acts here, so there are no versions. Test a checkpoint: checkpoint=latest")
    return player.actor


@dataclass(frozen=True)
class Pause:
    """Pause or resume the test."""

    on: bool

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        controls.pause(self.on)


@dataclass(frozen=True)
class StepOnce:
    """Make one control step, and stay paused."""

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        controls.step_once()


@dataclass(frozen=True)
class Speed:
    """Set the speed of simulated time."""

    factor: float | None  # multiple of real time; None: as fast as possible

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        controls.set_speed(self.factor)


@dataclass(frozen=True)
class Restart:
    """Begin a new episode."""

    env_id: int | None  # None: in every environment

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        num_envs = player.env.num_envs
        if self.env_id is None:
            player.restart(torch.arange(num_envs))
        elif 0 <= self.env_id < num_envs:
            player.restart(torch.tensor([self.env_id]))
        else:
            raise UserError(f"environment {self.env_id} does not exist; allowed: 0 to {num_envs - 1}")


@dataclass(frozen=True)
class Push:
    """Apply a force and a torque to a body, at its centre of mass, in world axes."""

    env_id: int
    body: str
    force: tuple[float, float, float]  # N
    seconds: float  # of simulated time
    torque: tuple[float, float, float] = (0.0, 0.0, 0.0)  # N m

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        wrench = (*self.force, *self.torque)
        controls.pushes.add(player.env.sim, self.env_id, self.body, wrench, self.seconds)
        player.meddled(self.env_id)


@dataclass(frozen=True)
class Pin:
    """Keep the acting version."""

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        _live(player).pin(controls.who)


@dataclass(frozen=True)
class Follow:
    """Adopt the newest version, and follow later ones."""

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        _live(player).follow()


def _recalled(request: ControlRequest, labels: tuple[Label | None, ...], controls: Controls, player: Player) -> bool:
    """Load the versions that a request needs from files, and then repeat it. Returns False if all are in memory."""
    who = controls.who
    loading = _live(player).recall(labels, lambda: controls.ask(request, who))
    if loading:
        controls.say(f"loading {' and '.join(f'version {label}' for label in labels)} from the run's checkpoints")
    return loading


@dataclass(frozen=True)
class RollBack:
    """Return to a version that is kept in memory or has a file, and pin it."""

    label: Label | None  # None: the version before the acting one

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        if not _recalled(self, (self.label,), controls, player):
            _live(player).rollback(self.label, controls.who)


@dataclass(frozen=True)
class TakeOver:
    """Set how the next versions take over."""

    how: str  # one of HOW
    blend_seconds: float  # of simulated time

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        if self.how not in HOW:
            raise not_one_of("swap", self.how, HOW)
        if not 0 < self.blend_seconds <= 3600:
            raise UserError(f"blendSeconds={self.blend_seconds}: must be more than 0 and at most 3600 s")
        steps = max(1, round(self.blend_seconds / player.env.sim.control_dt))
        _live(player).set_rule(self.how, steps)


@dataclass(frozen=True)
class Compare:
    """Begin new episodes with two versions: the first acts in even environments, the second in odd ones."""

    first: Label
    second: Label

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        check_match(player.env.config.name, player.env.seats, "compare")
        if player.env.num_envs < 2:
            raise UserError("a comparison of two versions needs two environments. Start with numEnvs=2 or more.")
        if _recalled(self, (self.first, self.second), controls, player):
            return
        _live(player).compare(self.first, self.second)
        controls.compare(self.first, self.second)
        player.restart(torch.arange(player.env.num_envs))


@dataclass(frozen=True)
class EndCompare:
    """Begin new episodes with the acting version in all environments."""

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        if controls.comparing:
            _live(player).end_comparison()
            controls.end_comparison()
            player.restart(torch.arange(player.env.num_envs))


@dataclass(frozen=True)
class Record:
    """Begin or end a recording."""

    on: bool

    def carry_out(self, controls: Controls, player: Player) -> None:
        """See `ControlRequest`."""
        controls.record(self.on)


@dataclass(frozen=True)
class Situation:
    """The state of the test at the moment when the user presses a key in the window."""

    controls: Controls
    state: dict[str, Any]  # the board's snapshot
    env_id: int  # the chosen environment

    @property
    def policy(self) -> dict[str, Any] | None:
        """The policy's part of the state; None for a scripted agent, and while there is no policy yet."""
        return self.state.get("policy")


Press = Callable[[Situation, int], ControlRequest | str]
"""(situation, index of the key among the control's keys) -> the request, or a text that says why it is impossible."""


@dataclass(frozen=True)
class Control:
    """One control: its request, its name and its keys."""

    name: str  # name in the page's messages
    request: type[ControlRequest]
    does: str  # description in the window's list of keys
    page: tuple[str, ...] = ()  # keys of the page, as JavaScript names them
    window: tuple[str, ...] = ()  # keys of the window, as GLFW names them, or their character
    press: Press | None = None  # called for a key of the window


def _speed(now: Situation, faster: int) -> ControlRequest:
    speed = math.inf if now.controls.speed is None else now.controls.speed
    if faster:
        near = min((s for s in _LADDER if s > speed), default=speed)
    else:
        near = max(s for s in (0.0, *_LADDER) if s < speed)
    wanted = max(near, _LADDER[0])
    return Speed(None if math.isinf(wanted) else wanted)


def _pin_or_follow(now: Situation, _: int) -> ControlRequest:
    return Follow() if now.policy is not None and now.policy["pinned"] else Pin()


def _next_way(now: Situation, _: int) -> ControlRequest | str:
    policy = now.policy
    if policy is None:
        return "a scripted agent acts here, so there are no versions"
    how = HOW[(HOW.index(policy["how"]) + 1) % len(HOW)]
    return TakeOver(how, policy["blend_steps"] * now.state["control_dt"])


def _compare_or_end(now: Situation, _: int) -> ControlRequest | str:
    if now.state.get("comparing"):
        return EndCompare()
    policy = now.policy
    labels = [kept["label"] for kept in policy["history"]] if policy is not None else []
    index = labels.index(policy["label"]) if policy is not None and policy["label"] in labels else 0
    if index == 0:
        return "there is no earlier version to compare with"
    return Compare(labels[index], labels[index - 1])


CONTROLS = (
    Control("pause", Pause, "pause, resume", (" ",), ("Space",), lambda now, _: Pause(not now.controls.paused)),
    Control("step", StepOnce, "one step", (".",), (".", "Right"), lambda now, _: StepOnce()),
    Control("speed", Speed, "slower, faster", ("-", "+"), ("-", "="), _speed),
    Control(
        "restart",
        Restart,
        "new episode here, everywhere",
        ("r", "R"),
        ("Enter", "Backspace"),
        lambda now, everywhere: Restart(None if everywhere else now.env_id),
    ),
    Control("push", Push, "a force on a body"),  # by the window's mouse and the page's buttons
    Control("pin", Pin, "pin, follow the newest version", ("p",), ("P",), _pin_or_follow),
    Control("follow", Follow, "follow the newest version", ("n",)),
    Control("roll_back", RollBack, "back to the version before, pinned", ("b",), ("B",), lambda now, _: RollBack(None)),
    Control("take_over", TakeOver, f"take over: {', '.join(HOW)}", (), ("M",), _next_way),
    Control("compare", Compare, "versus the version before", ("k",), ("V",), _compare_or_end),
    Control("end_compare", EndCompare, "end the comparison"),  # by the keys of `compare`, during a comparison
    Control(
        "record", Record, "record, stop recording", ("o",), ("O",), lambda now, _: Record(not now.controls.recording)
    ),
)
"""All controls, in the order in which the window lists them."""
