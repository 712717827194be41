"""Outliers: rewards so far beyond the usual ones that they are a fault of a client or of its environment.

    limit = reward_limit(rewards, factor=1e4, most=1e6)      # rewards (n,): the last ones
    watch = RewardWatch(factor=1e4, most=1e6)                # the same for rewards that come one by one
    watch.add(reward)
    watch.limit

The usual size of a reward is the median of |r| over the rewards that are not zero, and at least 1. A reward beyond
`factor` times that size is left out of training. It is not clipped: errors are measured in standard deviations of the
value targets, so a hundred rewards at the bound would hide the others as well as a hundred beyond it.

The median ignores outliers until they are half of the rewards. Zeros do not count, so the rare reward of a sparse task
is the usual one. Because the usual size is at least 1, no reward up to `factor` is ever an outlier, however small the
rewards of most steps are: a goal that earns 100 after steps that cost 1e-5 is learned. If rewards grow for good, the
new ones are left out until they are half of the last `KNOWN`.
"""

from __future__ import annotations

from collections import deque

import numpy as np

KNOWN = 10_000  # last rewards whose median is the usual size
LEAST = 1.0  # least usual size
RENEW = 100  # rewards after which a `RewardWatch` computes its limit again
WATCHED = 2000  # last rewards that a `RewardWatch` knows


def reward_limit(rewards: np.ndarray, factor: float | None, most: float) -> float:
    """Return the greatest |reward| that is no outlier among `rewards` (n,), at most `most`; no `factor`: `most`."""
    if factor is None:
        return most
    sizes = np.abs(rewards.astype(np.float64))
    sizes = sizes[(sizes > 0) & (sizes <= most)]  # what is beyond `most`, or NaN, is no reward
    usual = float(np.median(sizes)) if len(sizes) else LEAST
    return min(most, factor * max(usual, LEAST))


class RewardWatch:
    """The limit for rewards that come one by one."""

    def __init__(self, factor: float | None, most: float) -> None:
        """`factor`, `most`: as in `reward_limit`."""
        self._factor, self._most = factor, most
        self._last: deque[float] = deque(maxlen=WATCHED)
        self._new = 0
        self.limit = reward_limit(np.zeros(0), factor, most)

    def add(self, reward: float) -> None:
        """Take in a reward. The limit is computed again after each of the first ones, then after every `RENEW`."""
        self._last.append(reward)
        self._new += 1
        if self._new >= min(RENEW, len(self._last)):
            self.limit, self._new = reward_limit(np.array(self._last), self._factor, self._most), 0
