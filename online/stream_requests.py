"""Requests of a stream's source, and the answers to them.

Observed("north", obs)                 # asks for a decision
Rewarded("north", 17, 0.5)             # the reward of decision 17
Rewarded("north", 17, 0.1, part=1)     # a part of it; the one without a part is the last
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import numpy as np

from livegym.online.experience import Decision

REFUSALS = ("late", "duplicate", "unknown", "invalid", "out_of_order", "too_many_streams")
"""Kinds of refusals of requests."""


@dataclass(frozen=True)
class Instead:
    """The action that a client really executed."""

    action: np.ndarray  # (A,) as the policy's actions: a Box action within -1 and 1, or whole choices
    log_prob: float | None = None  # log-probability (density) with which it was chosen; None: unknown


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
    continues: bool = False  # the client says that it follows the previous decision, even one of another client
    part: int | None = None  # number of this part of the previous decision's reward; None for the whole or the rest
    instead: Instead | None = None  # what was executed instead of the previous decision
    learn: bool = True  # False: nothing is learned from the decision on this observation
    source: str | None = None  # connection or client that sent it; None: unknown

    @property
    def ends_episode(self) -> bool:
        """Whether it is the last observation of its episode."""
        return self.done or self.truncated

    @property
    def tells_of_previous(self) -> bool:
        """Whether it says something about the stream's previous decision, so its sender knows that one."""
        return self.reward is not None or self.part is not None or self.instead is not None


@dataclass(frozen=True)
class Rewarded:
    """The reward of one decision."""

    stream: str
    decision: int
    reward: float
    done: bool = False
    part: int | None = None  # number of this part of the reward; None for the whole or the rest
    instead: Instead | None = None  # what was executed instead of the decision
    learn: bool = True  # False: nothing is learned from this decision


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
