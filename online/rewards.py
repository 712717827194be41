"""Turns sampled experiences into training samples: actions with their rewards, for the policy, the value, or both.

    samples = combine(rows, judgement, rule)

The gate is part of what the policy meets: after a proposed action comes what the gate made of it. So the value of a
state is learned from the proposed action, its reward and the next state, once for each experience.

After a SEND, the reward is a mixture of the actual reward and the reward that the re-evaluated gate expects, for the
value too: it is learned from actual rewards alone if `expected_weight` is 0 and `actual_weight` 1. After a WAIT, the
value is learned from the actual reward. What follows is about the policy.

After a WAIT, the actual reward belongs to the action that was executed *instead*, and counts less. Less means less
*good*: with the multiplier m it is r - (1 - m) |r|, because multiplying a penalty by m would make it smaller, and so
reward being blocked. The blocked action itself was never executed; with `train_on_blocked`, it is a sample too, with
the reward that the gate expects of it, reduced in the same way. Otherwise a policy whose proposals are all blocked
would never learn that.

A client may have executed an action of its own. If it says how likely that action was, policy and value learn from it
with this probability. If not, the policy learns nothing from it, because no importance ratio is known. The value learns
from the proposed action, as after a WAIT: what the client makes of proposals is part of what the policy meets. No
expected reward is mixed in, because the gate expected it of the proposed action.

If the gate's verdict has changed since, the experience is penalised or skipped (`on_disagreement`). The penalty is for
the policy alone: nothing in the environment has cost it, and no state is worth less because of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livegym.online.experience import Verdict
from livegym.online.gate import Judgement
from livegym.schema import OnlineConfig


@dataclass(frozen=True)
class TrainingSamples:
    """The training samples of a batch of n rows: k actions with their rewards. `len` counts those for the policy."""

    index: np.ndarray  # (k,) rows of the batch
    action: np.ndarray  # (k, A)
    log_prob: np.ndarray  # (k,) log-probability under the policy that acted
    reward: np.ndarray  # (k,)
    terminal: np.ndarray  # (k,) bool: no next state is valued; always true for blocked actions
    policy: np.ndarray  # (k,) bool: the policy learns from it
    value: np.ndarray  # (k,) bool: the value learns from it
    gated: int  # rows with a verdict that was re-evaluated
    agreed: int  # those of them whose verdict is unchanged

    def __len__(self) -> int:
        return int(self.policy.sum())


def weakened(reward: np.ndarray, multiplier: float) -> np.ndarray:
    """Return r - (1 - m) |r|: a positive reward counts m times, a negative one (2 - m) times."""
    return reward - (1.0 - multiplier) * np.abs(reward)


def combine(rows: np.ndarray, judgement: Judgement | None, rule: OnlineConfig) -> TrainingSamples:
    """Return the training samples of rows (n,). `judgement`: the gate's re-evaluation of them; None without a gate."""
    verdict, actual = rows["verdict"], rows["reward"].astype(np.float64)
    sent, waited = verdict == Verdict.SEND, verdict == Verdict.WAIT
    as_told = (rows["executed"] == rows["proposed"]).all(1)  # after a SEND; otherwise, the client did something else
    known = np.isfinite(rows["executed_log_prob"])
    agrees = np.ones(len(rows), bool)
    penalty = np.zeros(len(rows))
    reward = actual.copy()
    expected = np.full(len(rows), np.nan)
    if judgement is not None:
        judged = sent | waited
        agrees[judged] = np.asarray(judgement.verdict)[judged] == verdict[judged]
        expected = np.asarray(judgement.expected, np.float64)
        if judgement.predicted is not None:
            expected = np.where(judgement.predicted, expected, actual)
        mixed = rule.expected_weight * expected + rule.actual_weight * actual
        reward[sent & as_told] = mixed[sent & as_told]
        if rule.on_disagreement == "penalty":
            penalty[~agrees] = rule.disagreement_penalty
    reward[waited] = weakened(actual[waited], rule.wait_multiplier)
    expected = weakened(expected, rule.wait_multiplier)
    learned = agrees | (rule.on_disagreement == "penalty")
    used = learned & ~rows["held"] & (~waited | rule.train_on_wait)
    executed = used & known
    penalised = executed & ~waited & (penalty != 0)
    blocked = learned & waited & rule.train_on_blocked & np.isfinite(expected)
    all_, none = np.ones(len(rows), bool), np.zeros(len(rows), bool)
    proposed, done = (rows["proposed"], rows["log_prob"]), rows["done"]
    parts = [  # rows; action, its log-probability, reward, terminal; whether the policy and the value learn from it
        (executed, rows["executed"], rows["executed_log_prob"], reward - penalty, done, all_, ~waited & ~penalised),
        (blocked, *proposed, expected - penalty, all_, all_, none),
        ((waited & (used | blocked)) | (used & ~known), *proposed, actual, done, none, all_),
        (penalised, rows["executed"], rows["executed_log_prob"], reward, done, none, all_),
    ]
    index, *fields = (np.concatenate(field) for field in zip(*(_of(*part) for part in parts), strict=True))
    action, log_prob, reward, terminal, policy, value = fields
    return TrainingSamples(
        index,
        action,
        log_prob,
        reward,
        terminal,
        policy,
        value,
        gated=0 if judgement is None else int((sent | waited).sum()),
        agreed=0 if judgement is None else int((agrees & (sent | waited)).sum()),
    )


def later_rewards(rows: np.ndarray, rule: OnlineConfig, gated: bool) -> np.ndarray:
    """Return the rewards (n,) from which the value of the states before these rows is learned.

    With a gate (`gated`), a SEND counts as in `combine`, but with the expectation that was recorded: the gate is
    re-evaluated only on the sampled experiences themselves.
    """
    as_told = (rows["executed"] == rows["proposed"]).all(1)
    mixed = rule.expected_weight * rows["expected"] + rule.actual_weight * rows["reward"]
    sent = gated & (rows["verdict"] == Verdict.SEND) & as_told
    return np.where(sent & np.isfinite(rows["expected"]), mixed, rows["reward"])


def _of(mask: np.ndarray, *fields: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the indices at which a mask is set, and the fields' values there."""
    return np.flatnonzero(mask), *(field[mask] for field in fields)
