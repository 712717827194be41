"""The gate: decides whether a proposed action is sent, and is re-evaluated when that experience is trained on.

    judgement = gate.evaluate(observation, action, confidence)
    judgement.verdict            # (n,) SEND or WAIT

`observation` is what the gate sees: the raw observation for a cost function, the environment's state for a look-ahead.
It is stored with each experience, so that a re-evaluation refers to the same moment. A gate must be deterministic:
equal inputs give equal verdicts until its rules change. The fraction of unchanged verdicts is a metric (agreement).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from livegym.online.experience import Verdict
from livegym.tasks.base import ActionSpec

LARGEST = 1e15
"""Largest expected reward; the policy could not be trained on larger ones."""


@dataclass(frozen=True)
class Judgement:
    """A gate's judgement on n proposed actions."""

    verdict: np.ndarray  # (n,) int8: Verdict.SEND or Verdict.WAIT
    expected: np.ndarray  # (n,) float32, expected reward of the proposed action
    components: dict[str, np.ndarray]  # name -> (n,): terms of the expected reward, and other quantities used
    fallback: np.ndarray | None = None  # (n, A) executed instead after a WAIT; None: no action is executed
    predicted: np.ndarray | None = None  # (n,) bool: the gate computed `expected` and the components; None: all


class Gate(Protocol):
    """Judges proposed actions. The serving process and the trainer have one instance each."""

    name: str

    def evaluate(self, observation: np.ndarray, action: np.ndarray, confidence: np.ndarray) -> Judgement:
        """Judge n actions.

        `observation` (n, S); `action` (n, A) as it would be executed; `confidence` (n,) in [0, 1].
        """


def check_judgement(judgement: Judgement, n: int, action: ActionSpec) -> None:
    """Raises ValueError, which names the wrong part, if a gate's judgement is invalid."""
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
    """Raises ValueError if discrete actions (n, A) are out of range."""
    if spec.choices is None:
        return
    wrong = ~((actions >= 0) & (actions < np.array(spec.choices)) & (actions == np.floor(actions))).all(1)
    if wrong.any():
        shown, allowed = actions[wrong][0].tolist(), ", ".join(f"0 to {size - 1}" for size in spec.choices)
        raise ValueError(f"action {shown} is out of range; allowed: whole numbers, {allowed}")
