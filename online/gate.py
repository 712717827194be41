"""The gate: says of a proposed action whether it is sent, and says it again when that experience is learned from.

    judgement = gate.evaluate(seen, action, confidence)
    judgement.verdict            # (n,) SEND or WAIT

`seen` is what the gate judges by, kept with each experience, so that a later judgement is about the same moment: the
raw observation for a cost function, the environment's state for a look ahead. A gate must be deterministic: equal
inputs give equal verdicts until its rules change. How often it still agrees with its earlier verdicts is a metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from livegym.online.experience import Verdict
from livegym.tasks.base import ActionSpec

LARGEST = 1e15
"""Expected rewards beyond it could not be learned from."""


@dataclass(frozen=True)
class Judgement:
    """What a gate said of n proposed actions."""

    verdict: np.ndarray  # (n,) int8: Verdict.SEND or Verdict.WAIT
    expected: np.ndarray  # (n,) float32, the reward expected of the proposed action
    components: dict[str, np.ndarray]  # name -> (n,): terms of the expected reward, and what else was decided by
    fallback: np.ndarray | None = None  # (n, A) done instead after a WAIT; None: nothing is done


class Gate(Protocol):
    """Judges proposed actions. The one that serves and the one that trains have one each."""

    name: str

    def evaluate(self, seen: np.ndarray, action: np.ndarray, confidence: np.ndarray) -> Judgement:
        """seen (n, S), action (n, A) as it would be done, confidence (n,) in [0, 1] -> what it says of each."""


def check_judgement(judgement: Judgement, n: int, action: ActionSpec) -> None:
    """Raises ValueError if a gate's answer is not what it must be, naming the part."""
    verdict, expected = np.asarray(judgement.verdict), np.asarray(judgement.expected)
    if verdict.shape != (n,) or not np.isin(verdict, (Verdict.SEND, Verdict.WAIT)).all():
        raise ValueError(f"the gate's verdict is {verdict!r}; allowed: {n} of SEND (1) and WAIT (2)")
    if expected.shape != (n,) or not (np.abs(expected) <= LARGEST).all():
        raise ValueError(f"the gate's expected reward is {expected!r}; allowed: {n} finite numbers up to {LARGEST:g}")
    for name, values in judgement.components.items():
        if np.shape(values) != (n,) or not np.isfinite(values).all():
            raise ValueError(f"the gate's component {name!r} is {values!r}; allowed: {n} finite numbers")
    fallback = judgement.fallback
    if fallback is not None and (np.shape(fallback) != (n, action.width) or not np.isfinite(fallback).all()):
        raise ValueError(f"the gate's fallback has shape {np.shape(fallback)}; allowed: finite, ({n}, {action.width})")
    if fallback is not None:
        check_choices(np.asarray(fallback), action)


def check_choices(actions: np.ndarray, spec: ActionSpec) -> None:
    """Raises ValueError if actions (n, A) are choices that there are not."""
    if spec.choices is None:
        return
    wrong = ~((actions >= 0) & (actions < np.array(spec.choices)) & (actions == np.floor(actions))).all(1)
    if wrong.any():
        shown, ends = actions[wrong][0].tolist(), ", ".join(f"0 to {size - 1}" for size in spec.choices)
        raise ValueError(f"action {shown}: there is no such choice; allowed: whole numbers, {ends}")
