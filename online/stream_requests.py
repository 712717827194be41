"""What a stream's source asks, and what it may be answered.

Observed("north", obs)                 # what to do now?
Rewarded("north", 17, 0.5)             # what decision 17 earned
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import numpy as np

from livegym.online.experience import Decision

REFUSALS = ("late", "duplicate", "unknown", "invalid", "out_of_order", "too_many_streams")
"""Kinds of refusals of requests."""


@dataclass(frozen=True)
class Observed:
    """One observation of one stream."""

    stream: str
    obs: np.ndarray | None = None  # (W,) float32, the policy's observation, if the task has no raw fields
    raw: np.ndarray | None = None  # (R,) float32, the packed raw observation, if it has
    sequence: int | None = None  # strictly rising in a stream; the same again gets the same answer; a lower is refused
    reward: float | None = None  # of the stream's previous decision, if the client knows it
    done: bool = False  # the episode ended with this observation: nothing is decided
    truncated: bool = False  # the same, but by a time limit: things would have gone on from here

    @property
    def ends(self) -> bool:
        """Whether it is the last of its episode."""
        return self.done or self.truncated


@dataclass(frozen=True)
class Rewarded:
    """The reward of one decision."""

    stream: str
    decision: int
    reward: float
    done: bool = False


@dataclass(frozen=True)
class Accepted:
    """The answer to a reward that has joined its decision."""

    stream: str
    decision: int


class Refusal(ValueError):
    """The answer to a request that changed nothing; `kind` is one of `REFUSALS`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


Request = Union[Observed, Rewarded]
Answer = Union[Decision, Accepted, Refusal, None]  # None: the episode's end was noted
