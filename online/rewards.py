"""What a sampled experience teaches: its reward, and of which action.

    samples = combine(rows, judgement, rule)

An experience that was sent teaches a mixture of what came of it and of what the gate, asked again, expects of it. One
that waited is another matter: the reward belongs to the action that was done *instead*, and counts less. Less means
less *good*: with the multiplier m it is r - (1 - m) |r|, for to halve a penalty would reward being blocked. What
was proposed and blocked never happened; it is learned from by what the gate expects of it, weakened alike, where
`train_on_blocked` says so: otherwise a policy that only proposes what is blocked would never hear of it.

Where the gate has changed its mind since, the experience is punished or left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livegym.online.experience import Verdict
from livegym.online.gate import Judgement
from livegym.schema import OnlineConfig


@dataclass(frozen=True)
class TrainingSamples:
    """What a batch of n rows teaches: k actions with their rewards."""

    index: np.ndarray  # (k,) rows of the batch
    action: np.ndarray  # (k, A)
    log_prob: np.ndarray  # (k,) under the policy that acted
    reward: np.ndarray  # (k,)
    ends: np.ndarray  # (k,) bool: nothing came after it; of what was blocked, nothing did
    gated: int  # rows that a gate had judged, and judged again
    agreed: int  # of those, judged as before

    def __len__(self) -> int:
        return len(self.index)


def weakened(reward: np.ndarray, multiplier: float) -> np.ndarray:
    """r - (1 - m) |r|: a good one counts m times, a bad one (2 - m) times."""
    return reward - (1.0 - multiplier) * np.abs(reward)


def combine(rows: np.ndarray, judgement: Judgement | None, rule: OnlineConfig) -> TrainingSamples:
    """The training samples of rows (n,). `judgement`: what the gate says of them now; None without a gate."""
    verdict, actual = rows["verdict"], rows["reward"].astype(np.float64)
    sent, waited = verdict == Verdict.SEND, verdict == Verdict.WAIT
    agrees = np.ones(len(rows), bool)
    penalty = np.zeros(len(rows))
    reward = actual.copy()
    expected = np.full(len(rows), np.nan)
    if judgement is not None:
        judged = sent | waited
        agrees[judged] = np.asarray(judgement.verdict)[judged] == verdict[judged]
        expected = np.asarray(judgement.expected, np.float64)
        mixed = rule.expected_weight * expected + rule.actual_weight * actual
        reward[sent] = mixed[sent]
        if rule.on_disagreement == "penalty":
            penalty[~agrees] = rule.disagreement_penalty
    reward[waited] = weakened(actual[waited], rule.wait_multiplier)
    learned = agrees | (rule.on_disagreement == "penalty")
    done = learned & ~rows["held"] & (~waited | rule.train_on_wait)
    blocked = learned & waited & rule.train_on_blocked & np.isfinite(expected)
    parts = [
        (done, rows["executed"], rows["executed_log_prob"], reward - penalty),
        (blocked, rows["proposed"], rows["log_prob"], weakened(expected, rule.wait_multiplier) - penalty),
    ]
    return TrainingSamples(
        index=np.concatenate([np.flatnonzero(mask) for mask, *_ in parts]),
        action=np.concatenate([action[mask] for mask, action, *_ in parts]),
        log_prob=np.concatenate([log_prob[mask] for mask, _, log_prob, _ in parts]),
        reward=np.concatenate([value[mask] for mask, *_, value in parts]),
        ends=np.concatenate([rows["done"][done], np.ones(int(blocked.sum()), bool)]),
        gated=0 if judgement is None else int((sent | waited).sum()),
        agreed=0 if judgement is None else int((agrees & (sent | waited)).sum()),
    )
