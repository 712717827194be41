"""Decisions and experiences: what is stored of each decision until the policy is trained on it.

    decision.action                # the action to execute, or None
    decision.to_plain()            # for JSON: the answer to the client, also kept over a restart

A `Decision` is the one value that travels through the server: `online/decider.py` makes it, the client gets it as the
answer, and a resent request gets it again. An `Experience` is a decision with the data that training needs in addition.

`Layout` fixes sizes and types, so that experiences are rows of one array, identical in memory, in the run's file and in
the trainer. An action is a row of numbers: a Box action as the policy drew it, Discrete and MultiDiscrete choices as
whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from livegym.tasks.base import ActionSpec, Box
from livegym.tasks.stability import HUGE

UNKNOWN = math.inf
"""The log-probability of an action that a client executed without saying how likely it was. NaN would be a fault."""
SAME_ACTION = 1e-6
"""Actions whose numbers differ by less are the same: a client may have scaled them in single precision."""
NAME_BYTES = 64
"""Longest name of a stream, in UTF-8."""


class Verdict(IntEnum):
    """The gate's verdict on a proposed action. OFF means that there was no gate, which differs from SEND."""

    OFF = 0
    SEND = 1
    WAIT = 2


@dataclass(frozen=True)
class Layout:
    """Sizes and types of one task's experiences."""

    obs: int  # width of the policy's observation
    action: int  # width of an action
    discrete: bool  # whether actions are whole numbers
    seen: int = 0  # width of the gate's observation
    seen_type: str = "float32"  # its type; or uint8: the bytes of an environment's state

    @classmethod
    def of(cls, obs: int, spec: ActionSpec, seen: int = 0, seen_type: str = "float32") -> Layout:
        """Return the layout for an action spec."""
        return cls(obs, spec.width, not isinstance(spec, Box), seen, seen_type)

    def dtype(self) -> np.dtype[Any]:
        """Return the type of a row: its size is a multiple of 8 bytes, and the buffer sets the first two fields."""
        number = np.int64 if self.discrete else np.float32
        fields: list[Any] = [
            ("check", np.uint64),  # checksum of the rest of the row
            ("number", np.int64),  # sequence number of the experience, from 0
            ("time", np.float64),  # s since 1970
            ("clock", np.float64),  # s that the run had been served at the decision
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


def pending_dtype(layout: Layout) -> np.dtype[Any]:
    """Return the type of a row of decisions that wait over a restart: those that are excluded from training as well."""
    row = layout.dtype()
    fields: list[Any] = [(name, row.fields[name][0]) for name in row.names or ()] if row.fields else []
    return np.dtype([*fields, ("intervened", np.bool_), ("learn", np.bool_), ("rest", np.uint8, (6,))])


def clipped(action: np.ndarray) -> np.ndarray:
    """Return a copy of actions (..., A) as they are executed: continuous ones clipped to [-1, 1]."""
    return action.clip(-1.0, 1.0) if action.dtype.kind == "f" else action.copy()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The decision on one observation."""

    stream: str
    decision: int  # its id, which the client sends with the reward
    proposed: np.ndarray  # (action,) the policy's action
    executed: np.ndarray  # (action,) the executed action before clipping; after a WAIT it may differ from `proposed`
    confidence: float  # in [0, 1], probability of the choice relative to the likeliest one
    verdict: Verdict
    expected: float  # reward that the gate expects of `proposed`; NaN without a gate
    components: dict[str, float] = field(default_factory=dict)  # terms of `expected`, and the gate's other quantities
    version: int  # version of the policy in the forward pass
    held: bool = False  # blocked without a fallback: no action was executed, so none earned the reward
    previous: str | None = None  # why the reward of the stream's previous decision was refused; None if it was not

    @property
    def action(self) -> np.ndarray | None:
        """The action (action,) to execute; None: no action."""
        return None if self.held else clipped(self.executed)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values for strict JSON, as in the protocol's decision answer; `executed` is the `action`."""
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
        """Make a decision from plain values. Raises KeyError, TypeError or ValueError if they are invalid."""
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
    """A decision to train on; it is complete once the reward and the next observation are known."""

    obs: np.ndarray  # (obs,) float32
    log_prob: float  # log-probability of `proposed` under the policy that chose it
    executed_log_prob: float  # that of `executed`; 0: discrete, forced by the gate; UNKNOWN: by the client
    seen: np.ndarray  # (seen,) the gate's observation
    time: float  # s since 1970
    clock: float  # s that the run has been served
    intervened: bool = False  # human intervention, or a failure of gate or policy
    learn: bool = True  # False: the client, or the stream's switch, says that nothing is learned from it
    reward: float | None = None  # None: pending
    next_obs: np.ndarray | None = None  # (obs,) float32; None: pending
    done: bool = False  # the episode terminated here; False if a time limit truncated it

    @property
    def complete(self) -> bool:
        """Whether the reward and the next observation are known."""
        return self.reward is not None and self.next_obs is not None

    @property
    def excluded(self) -> bool:
        """Whether it is excluded from training."""
        return self.intervened or not self.learn

    @property
    def overridden(self) -> bool:
        """Whether the client executed an action of its own instead of the decision's."""
        forced = self.verdict is not Verdict.WAIT and not np.array_equal(self.executed, self.proposed)
        return forced or self.executed_log_prob == UNKNOWN

    def replaced(self, action: np.ndarray, log_prob: float | None) -> Experience:
        """Return a copy that says that the client executed `action` (action,), chosen with `log_prob` (None: unknown).

        If it is the action that the decision gave the client, only a known `log_prob` changes anything.
        """
        told = self.action
        if told is not None and np.allclose(action, told, rtol=0.0, atol=SAME_ACTION):
            return self if log_prob is None else replace(self, executed_log_prob=log_prob)
        known = UNKNOWN if log_prob is None else log_prob
        return replace(self, executed=action.astype(self.proposed.dtype), executed_log_prob=known, held=False)

    def rewarded(self, reward: float) -> Experience:
        """Return a copy with its reward."""
        return replace(self, reward=reward)

    def followed(self, next_obs: np.ndarray, done: bool) -> Experience:
        """Return a copy with the next observation."""
        return replace(self, next_obs=next_obs, done=done)


_AS_THEY_ARE = (
    "time", "clock", "decision", "version", "proposed", "executed", "obs", "log_prob", "executed_log_prob",
    "confidence", "expected", "verdict", "held", "done", "seen",
)  # fmt: skip


def to_row(experience: Experience, row: np.ndarray) -> None:
    """Write an experience into a row (), of its layout's type; a pending reward or observation becomes NaN."""
    for name in _AS_THEY_ARE:
        if name != "seen" or row["seen"].size:  # the decision log stores no gate's observation
            row[name] = getattr(experience, name)
    row["stream"] = experience.stream.encode()
    row["reward"] = np.nan if experience.reward is None else experience.reward
    row["next_obs"] = np.nan if experience.next_obs is None else experience.next_obs


def from_row(row: np.ndarray) -> Experience:
    """Make an experience from a row. Rows have no components; those of a layout's type are never excluded."""
    values: dict[str, Any] = {n: row[n].copy() if row[n].ndim else row[n].item() for n in _AS_THEY_ARE}
    values["verdict"] = Verdict(values["verdict"])
    values |= {name: bool(row[name]) for name in ("intervened", "learn") if name in (row.dtype.names or ())}
    reward, next_obs = row["reward"].item(), row["next_obs"].copy()
    return Experience(
        **values,
        stream=row["stream"].item().decode(),
        reward=None if np.isnan(reward) else reward,
        next_obs=None if np.isnan(next_obs).any() else next_obs,
    )


def sound_rows(rows: np.ndarray, max_reward: float) -> np.ndarray:
    """Return (n,) which rows can be used: all their numbers are finite, and none is huge.

    The log-probability of what a client executed may be unknown.
    """
    numbers = [rows[name] for name in ("obs", "next_obs", "log_prob")]
    numbers.append(np.where(rows["executed_log_prob"] == UNKNOWN, 0.0, rows["executed_log_prob"]))
    sound = [(np.abs(v) < HUGE).all(tuple(range(1, v.ndim))) for v in numbers]
    return np.logical_and.reduce([*sound, np.abs(rows["reward"]) <= max_reward])


def chosen_actions(rows: Mapping[str, np.ndarray] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions (n, A) that earned the rewards of rows (n,), and their log-probabilities (n,).

    It is the proposed action, because after it comes what the gate makes of it. But if a client executed another one
    and says how likely that was, it is the executed one: the client was the policy that acted.
    """
    told = (rows["verdict"] != Verdict.WAIT) & np.isfinite(rows["executed_log_prob"])
    action = np.where(told[:, None], rows["executed"], rows["proposed"])
    return action, np.where(told, rows["executed_log_prob"], rows["log_prob"])
