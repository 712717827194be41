"""Outliers: rewards so far beyond the usual ones that they are a fault of a client or of its environment.

    watch = watch_of(writer, factor=1e4, most=1e6)
    watch.limit          # the greatest |reward| that is no outlier
    watch.added()        # the buffer has another experience
    watch.renew()        # compute the limit again at once

The usual size of a reward is the median of |r| over those of the last `KNOWN` experiences in the replay buffer whose
reward is not zero, and at least 1. A reward beyond `factor` times that size is left out of training. It is not clipped:
errors are measured in standard deviations of the value targets, so a hundred rewards at the bound would hide the others
as well as a hundred beyond it.

The median ignores outliers until they are half of the rewards. Zeros do not count, so the rare reward of a sparse task
is the usual one, once `ENOUGH` of them have been among the last `KNOWN`. Until then the usual size is 1, because the
first rewards may be faults. And it is never less than 1, so no reward up to `factor` is an outlier, however small the
rewards of most steps are: a goal that earns 100 after steps that cost 1e-5 is learned. If rewards grow for good, the
new ones are left out until they are half of those that are not zero.

The serving process alone computes the limit. It tells the trainer in the header of the replay buffer, so one limit
holds for what versions earned and for what is trained on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from livegym.online.replay import ReplayWriter

KNOWN = 10_000  # last experiences of the replay buffer, from whose rewards the usual size is computed
ENOUGH = 30  # least number of rewards that are not zero among them; with fewer, the limit stays as it is
LEAST = 1.0  # least usual size
RENEW = 100  # experiences after which a `RewardWatch` computes its limit again; of the first ones, after each
STEADY = 2.0  # ratio of a new limit and the present one, either way, up to which the present one is kept


def usual_size(rewards: np.ndarray, most: float) -> float | None:
    """Return the usual size of rewards (n,); None if too few of them are not zero."""
    sizes = np.abs(rewards.astype(np.float64))
    sizes = sizes[(sizes > 0) & (sizes <= most)]  # what is beyond `most`, or NaN, is no reward
    return max(float(np.median(sizes)), LEAST) if len(sizes) >= ENOUGH else None


class RewardWatch:
    """The limit for the rewards of one replay buffer. One thread renews it; any thread may read it."""

    def __init__(
        self,
        last_rewards: Callable[[int], np.ndarray],
        factor: float | None,
        most: float,
        tell: Callable[[float], None],
    ) -> None:
        """`last_rewards(n)`: rewards of the last n experiences of the buffer; `most`: greatest limit.

        `factor`: limit as a multiple of the usual size; None: the limit is `most`. `tell`: is given each new limit.
        """
        self.most = most
        self._last_rewards, self._factor = last_rewards, factor
        self._tell = tell
        self._added = self._renewed_at = 0
        self.limit = most if factor is None else min(most, factor * LEAST)
        self.renew()
        self._tell(self.limit)

    def beyond(self, reward: float) -> str:
        """Return in words what is wrong with a reward beyond the limit."""
        key = "online.outlier_factor" if abs(reward) <= self.most else "task.max_reward"
        return f"{reward:.6g}; the limit is {self.limit:.6g} ({key})"

    def added(self) -> None:
        """Count another experience in the buffer, and renew the limit if it is time."""
        self._added += 1
        if self._added <= RENEW or self._added >= self._renewed_at + RENEW:
            self.renew()

    def renew(self) -> None:
        """Compute the limit from the buffer.

        It stays as it is if it would hardly change. Otherwise a reward near it would be an outlier one moment and none
        the next, as the median fluctuates.
        """
        self._renewed_at = self._added
        usual = usual_size(self._last_rewards(KNOWN), self.most) if self._factor is not None else None
        if usual is None or self._factor is None:
            return
        limit = min(self.most, self._factor * usual)
        if max(limit / self.limit, self.limit / limit) > STEADY:
            self.limit = limit
            self._tell(limit)


def watch_of(writer: ReplayWriter, factor: float | None, most: float) -> RewardWatch:
    """Return the watch of a replay buffer, which tells the trainer its limit."""
    return RewardWatch(writer.last_rewards, factor, most, writer.tell_reward_limit)


def unwatched(most: float) -> RewardWatch:
    """Return a watch to which only rewards beyond `most` are outliers."""
    return RewardWatch(lambda count: np.zeros(0), None, most, lambda limit: None)
