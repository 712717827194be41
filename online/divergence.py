"""When a training has gone wrong, where to go back to, and how carefully to go on.

    watch = DivergenceDetector(factor=20.0, good=GoodState(state, learned_until))
    if watch.detect(critic_loss, broken=False):
        good = watch.roll_back()                       # and train on with rate x watch.rate_factor
    else:
        watch.succeeded(number, lambda: GoodState(...))

Three trainings in a row that are not finite, or a critic's loss far beyond that of the last hundred, are a divergence:
back to the last good state, with half the learning rate, which is doubled again after each `STABLE` trainings without
one. Good is a state after which `BURN_IN` trainings went well: one that has just been reached may be bad already.
Where it diverges at the least rate too, nothing can be learned from what there is: it is stuck.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BURN_IN = 10  # trainings
WINDOW = 100  # losses of which the median is the usual one
ENOUGH = 20  # losses, from which on one can be called far beyond them
LEAST = 0.1  # critic's losses below this, in squared standard deviations of the targets, are all alike
MAX_FAILURES = 3  # trainings in a row that were not finite
STABLE = 1000  # trainings in a row without a divergence, after which a rate that was halved is doubled
LEAST_FACTOR = 1 / 1024  # on the learning rate: ten halvings


@dataclass(frozen=True)
class GoodState:
    """A state to go back to, whose normalisers know the experiences before that number."""

    learner: dict[str, Any]
    learned_until: int


class DivergenceDetector:
    """Divergence detector of one trainer. Its loss baseline and its count of stable rounds restart with the process."""

    def __init__(self, factor: float, good: GoodState) -> None:
        """`factor`: a loss so many times the usual one is a divergence; `good`: the state at the start."""
        self.rate_factor = 1.0  # on the learning rate
        self.stuck = False  # it diverges even at the least rate
        self.good = good
        self._factor = factor
        self._candidates: list[tuple[int, GoodState]] = []
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._failures = self._stable = 0

    def resume(self, rate_factor: float, good: GoodState) -> None:
        """Goes on as an earlier process had it: with its factor on the learning rate, from its state."""
        self.rate_factor = rate_factor
        self.good = good

    def detect(self, critic_loss: float, broken: bool) -> bool:
        """Whether a training diverged. `broken`: no step of it was finite; a loss of NaN says nothing."""
        self._failures = self._failures + 1 if broken else 0
        if self._failures >= MAX_FAILURES:
            return True
        if not math.isfinite(critic_loss):
            return False
        usual = max(statistics.median(self._losses), LEAST) if len(self._losses) >= ENOUGH else math.inf
        if critic_loss > self._factor * usual:
            return True
        self._losses.append(critic_loss)
        return False

    def succeeded(self, number: int, state: Callable[[], GoodState]) -> None:
        """Training `number` did; each tenth state is kept."""
        if number % BURN_IN == 0:
            self._candidates.append((number, state()))
        while self._candidates and number - self._candidates[0][0] >= BURN_IN:
            self.good = self._candidates.pop(0)[1]
        self._stable += 1
        if self._stable >= STABLE and self.rate_factor < 1:
            self.rate_factor, self._stable = 2 * self.rate_factor, 0

    def roll_back(self) -> GoodState:
        """Where to; from there on with half the rate."""
        self.stuck = self.rate_factor <= LEAST_FACTOR
        self.rate_factor = max(self.rate_factor / 2, LEAST_FACTOR)
        self._failures = self._stable = 0
        self._candidates.clear()
        self._losses.clear()
        return self.good
