"""What a person who watches may ask for. A viewer appends requests; the control loop obeys them between two steps.

controls.ask(Pause(True))
controls.ask(RollBack(120))
"""

from __future__ import annotations

from dataclasses import dataclass

from livegym.weights.candidate import Label


@dataclass(frozen=True)
class Pause:
    """Stand still, or go on."""

    on: bool


@dataclass(frozen=True)
class StepOnce:
    """One control step while paused."""


@dataclass(frozen=True)
class Speed:
    """How fast simulated time passes."""

    factor: float | None  # of real time; None: as fast as possible


@dataclass(frozen=True)
class Restart:
    """A new episode."""

    env_id: int | None  # None: in every environment


@dataclass(frozen=True)
class Push:
    """A force on a body, at its centre of mass, in world axes."""

    env_id: int
    body: str
    force: tuple[float, float, float]  # N
    seconds: float  # of simulated time
    torque: tuple[float, float, float] = (0.0, 0.0, 0.0)  # N m


@dataclass(frozen=True)
class Pin:
    """Keep the acting version."""


@dataclass(frozen=True)
class Follow:
    """Take over the newest version, and those that come."""


@dataclass(frozen=True)
class RollBack:
    """Go back to a version that is kept, and pin it."""

    label: Label | None  # None: the one before the acting one


@dataclass(frozen=True)
class TakeOver:
    """How the next versions take over."""

    how: str  # now, reset, blend
    blend_seconds: float  # of simulated time


@dataclass(frozen=True)
class Compare:
    """Two kept versions side by side: the first in even environments, the second in odd ones; new episodes."""

    first: Label
    second: Label


@dataclass(frozen=True)
class EndCompare:
    """The acting version acts everywhere again; new episodes."""


@dataclass(frozen=True)
class Record:
    """Begin or end a recording."""

    on: bool


Request = Pause | StepOnce | Speed | Restart | Push | Pin | Follow | RollBack | TakeOver | Compare | EndCompare | Record
