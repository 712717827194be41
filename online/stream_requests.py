"""Requests of a stream's source, and the answers to them.

Observed("north", obs)                 # asks for a decision
Rewarded("north", 17, 0.5)             # the reward of decision 17
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
    sequence: int | None = None  # strictly increasing in a stream; a repetition gets the same answer
    reward: float | None = None  # reward of the stream's previous decision, if the client knows it
    done: bool = False  # the episode terminated with this observation, so no decision is made
    truncated: bool = False  # a time limit truncated the episode; this observation's value is bootstrapped

    first: bool = False  # an episode begins with this observation, so it does not follow from the previous decision

    @property
    def ends_episode(self) -> bool:
        """Whether it is the last observation of its episode."""
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
    """The answer to a reward that was accepted for its decision."""

    stream: str
    decision: int


class Refusal(ValueError):
    """The answer to a request that changed nothing; `kind` is one of `REFUSALS`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


Request = Union[Observed, Rewarded]
Answer = Union[Decision, Accepted, Refusal, None]  # None: the end of an episode was accepted
