"""Experiences in which every number says which one it is: a mixture of two shows."""

from __future__ import annotations

import numpy as np

from livegym.online.experience import Experience, Layout, Verdict

LAYOUT = Layout(obs=2, action=1, discrete=True, seen=3)


def pending(decision: int = 0, stream: str = "a", clock: float = 0.0, **changes) -> Experience:
    """A decision that waits."""
    values = {
        "obs": np.full(2, decision, np.float32), "proposed": np.array([decision]), "executed": np.array([decision]),
        "log_prob": -0.5, "executed_log_prob": -0.75, "confidence": 0.9, "verdict": Verdict.SEND, "expected": 0.25,
        "seen": np.full(3, decision, np.float32), "version": decision, "time": 1e9, "clock": clock, "stream": stream,
        "decision": decision,
    }  # fmt: skip
    return Experience(**{**values, **changes})


def complete(decision: int = 0, reward: float | None = None, **changes) -> Experience:
    """One with its reward (its own number if none is given) and what came after it."""
    made = pending(decision, **changes).rewarded(float(decision) if reward is None else reward)
    return made.followed(np.full(2, decision + 1, np.float32), done=False)


def mixed(rows: np.ndarray) -> int:
    """How many rows are not one whole experience of `complete`."""
    number = rows["decision"]
    wrong = (rows["obs"] != number[:, None]).any(1) | (rows["next_obs"] != number[:, None] + 1).any(1)
    wrong |= (rows["seen"] != number[:, None]).any(1) | (rows["executed"][:, 0] != number) | (rows["reward"] != number)
    return int((wrong | (rows["version"] != number)).sum())
