"""One decision, and what came of it: what is kept of it until somebody learns from it.

    decision.action                # what is to be done, or None
    decision.to_plain()            # for JSON: what a client is answered, and what is kept over a restart

A `Decision` is the one value that travels through the server: `online/decider.py` makes it, clients are answered with
it, and who asks twice finds it again. An `Experience` is a decision with what learning needs besides.

`Layout` fixes sizes and types once, so that thousands of experiences are rows of one array, the same in memory, in the
run's file and in the trainer's hands. An action is a row of numbers: Box actions as the policy drew them, Discrete and
MultiDiscrete choices as whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from livegym.tasks.base import ActionSpec, Box

NAME_BYTES = 64
"""Longest name of a stream, in UTF-8."""


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
    seen: int = 0  # values that the gate sees
    seen_type: str = "float32"  # or uint8: bytes of an environment's state

    @classmethod
    def of(cls, obs: int, spec: ActionSpec, seen: int = 0, seen_type: str = "float32") -> Layout:
        """The layout for an action spec."""
        return cls(obs, spec.width, not isinstance(spec, Box), seen, seen_type)

    def dtype(self) -> np.dtype[Any]:
        """One experience as a row; whole 8-byte words, the first two of which belong to the buffer."""
        number = np.int64 if self.discrete else np.float32
        fields: list[Any] = [
            ("check", np.uint64),  # of everything after it
            ("number", np.int64),  # of the experience, from 0 on
            ("time", np.float64),  # s since 1970
            ("clock", np.float64),  # s that this run has been served, when it was decided
            ("decision", np.int64),
            ("version", np.int64),
            ("proposed", number, (self.action,)),
            ("executed", number, (self.action,)),
            ("obs", np.float32, (self.obs,)),
            ("next_obs", np.float32, (self.obs,)),
            *((name, np.float32) for name in ("log_prob", "executed_log_prob", "confidence", "expected", "reward")),
            ("verdict", np.int8),
            ("held", np.bool_),
            ("done", np.bool_),
            ("stream", f"S{NAME_BYTES}"),
            ("seen", self.seen_type, (self.seen,)),
        ]
        packed = np.dtype(fields)
        spare = -packed.itemsize % 8
        return np.dtype([*fields, ("spare", np.uint8, (spare,))]) if spare else packed


def as_done(action: np.ndarray) -> np.ndarray:
    """Actions (..., A) as they are done: a continuous one within -1 and 1, wherever it was drawn; a copy."""
    return action.clip(-1.0, 1.0) if action.dtype.kind == "f" else action.copy()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided on one observation."""

    stream: str
    decision: int  # its number, which comes back with the reward
    proposed: np.ndarray  # (action,) what the policy chose
    executed: np.ndarray  # (action,) what was done, as the policy drew it: after a WAIT another action, or the same
    confidence: float  # in [0, 1], probability of the choice relative to the likeliest
    verdict: Verdict
    expected: float  # the gate's reward for `proposed`; NaN without a gate
    components: dict[str, float] = field(default_factory=dict)  # of `expected`, and what else the gate decided by
    version: int  # of the policy, as it was in the forward pass
    held: bool = False  # after a WAIT nothing was done that is an action: no action earned the reward
    previous: str | None = None  # why the reward of the stream's decision before was refused; None: it was not

    @property
    def action(self) -> np.ndarray | None:
        """(action,) what is to be done; None: nothing."""
        return None if self.held else as_done(self.executed)

    def to_plain(self) -> dict[str, Any]:
        """Plain values for strict JSON, as the protocol's decision answer has them; `executed` is the `action`."""
        action = self.action
        return {
            "stream": self.stream,
            "decision": self.decision,
            "proposed": self.proposed.tolist(),
            "executed": None if action is None else action.tolist(),
            "verdict": self.verdict.name,
            "expected": self.expected if math.isfinite(self.expected) else None,
            "components": self.components,
            "confidence": self.confidence,
            "version": self.version,
            "previous": self.previous,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Decision:
        """A decision with the same plain values. Raises KeyError, TypeError, ValueError if they are not one's."""
        proposed = values["proposed"]
        executed = values["executed"]
        expected = values["expected"]
        return cls(
            stream=str(values["stream"]),
            decision=int(values["decision"]),
            proposed=np.array(proposed),
            executed=np.array(proposed if executed is None else executed),
            confidence=float(values["confidence"]),
            verdict=Verdict[values["verdict"]],
            expected=math.nan if expected is None else float(expected),
            components=dict(values["components"]),
            version=int(values["version"]),
            held=executed is None,
            previous=values["previous"],
        )


@dataclass(frozen=True, kw_only=True)
class Experience(Decision):
    """A decision to learn from; complete once the reward and the next observation are known."""

    obs: np.ndarray  # (obs,) float32
    log_prob: float  # of `proposed` under the policy that chose it
    executed_log_prob: float  # of `executed`; 0 for a discrete action that the gate chose: it was certain
    seen: np.ndarray  # (seen,) what the gate saw
    time: float  # s since 1970
    clock: float  # s that the run has been served
    intervened: bool = False  # people had a hand in it, or gate or policy failed: never learned from
    reward: float | None = None  # None: pending
    next_obs: np.ndarray | None = None  # (obs,) float32; None: pending
    done: bool = False  # the episode ended there, and not by a time limit

    @property
    def complete(self) -> bool:
        """Whether everything that came of it is known."""
        return self.reward is not None and self.next_obs is not None

    def rewarded(self, reward: float) -> Experience:
        """With its reward."""
        return replace(self, reward=reward)

    def followed(self, next_obs: np.ndarray, done: bool) -> Experience:
        """With the observation that came after it."""
        return replace(self, next_obs=next_obs, done=done)


_AS_THEY_ARE = (
    "time", "clock", "decision", "version", "proposed", "executed", "obs", "log_prob", "executed_log_prob",
    "confidence", "expected", "verdict", "held", "done", "seen",
)  # fmt: skip


def to_row(experience: Experience, row: np.ndarray) -> None:
    """Writes an experience into a row (), of its layout's type; what is pending becomes NaN."""
    for name in _AS_THEY_ARE:
        row[name] = getattr(experience, name)
    row["stream"] = experience.stream.encode()
    row["reward"] = np.nan if experience.reward is None else experience.reward
    row["next_obs"] = np.nan if experience.next_obs is None else experience.next_obs


def from_row(row: np.ndarray) -> Experience:
    """The inverse of `to_row`; rows hold no components, and no experiences in which people intervened."""
    values: dict[str, Any] = {n: row[n].copy() if row[n].ndim else row[n].item() for n in _AS_THEY_ARE}
    values["verdict"] = Verdict(values["verdict"])
    reward, next_obs = row["reward"].item(), row["next_obs"].copy()
    return Experience(
        **values,
        stream=row["stream"].item().decode(),
        reward=None if np.isnan(reward) else reward,
        next_obs=None if np.isnan(next_obs).any() else next_obs,
    )
