"""One decision and what came of it: what is kept of it until somebody learns from it.

`Layout` fixes shapes and types once, so that thousands of experiences are a few preallocated arrays. An action is a row
of numbers: Box actions as they are, Discrete and MultiDiscrete choices as whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from tasks.base import ActionSpec, Box, Discrete


class Verdict(IntEnum):
    """What the gate said of a proposed action. OFF is not SEND: there was no gate."""

    OFF = 0
    SEND = 1
    WAIT = 2


@dataclass(frozen=True)
class Layout:
    """Sizes of one task's experiences."""

    obs: int  # width of the policy's observation
    action: int  # numbers in an action
    discrete: bool  # whole numbers
    seen: int = 0  # width of what a gate sees beside the observation; 0: nothing is kept

    @classmethod
    def of(cls, obs: int, spec: ActionSpec, seen: int = 0) -> Layout:
        """The layout for an action spec."""
        size = spec.size if isinstance(spec, Box) else 1 if isinstance(spec, Discrete) else len(spec.nvec)
        return cls(obs, size, not isinstance(spec, Box), seen)


@dataclass(frozen=True)
class Experience:
    """A decision; complete once the reward is known."""

    obs: np.ndarray  # (obs,) float32
    proposed: np.ndarray  # (action,) what the policy chose
    executed: np.ndarray  # (action,) what was done: after a WAIT another action, or the same
    log_prob: float  # of `proposed` under the policy that chose it
    confidence: float  # in [0, 1], probability of the choice relative to the likeliest
    verdict: Verdict
    expected: float  # the gate's reward for `proposed`; NaN without a gate
    seen: np.ndarray  # (seen,) float32, what the gate saw
    version: int  # of the policy, as it was in the forward pass
    time: float  # s since 1970
    stream: str
    decision: int
    interfered: bool = False  # people had pinned, rolled back, blended or pushed: never learned from
    reward: float | None = None  # None: pending
    next_obs: np.ndarray | None = None  # (obs,) float32
    done: bool = False

    def completed(self, reward: float, next_obs: np.ndarray, done: bool) -> Experience:
        """With what came of it."""
        return replace(self, reward=reward, next_obs=next_obs, done=done)


@dataclass(frozen=True)
class Batch:
    """Experiences as arrays (n, ...), with where they stand in the buffer and their importance weights."""

    slots: np.ndarray  # (n,) int64
    stamps: np.ndarray  # (n,) int64: numbers of the experiences, which tell whether a slot was written over since
    weights: np.ndarray  # (n,) float32; 1 where sampling was uniform
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.slots)

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["arrays"][name]
        except KeyError as error:
            raise AttributeError(name) from error
