"""Detects that training diverges, provides the state to roll back to, and adapts the learning rate.

    watch = DivergenceDetector(factor=20.0, good=GoodState(state, learned_until, largest))
    if watch.detect(critic_loss, broken=False):
        good = watch.roll_back()                       # then continue with rate x watch.rate_factor
    else:
        watch.succeeded(number, lambda: GoodState(...))

Training has diverged if three update rounds in a row were not finite, or if the critic's loss is far beyond the
median of the last hundred. The trainer then rolls back to the last good state and halves the learning rate, which is
doubled again after each `STABLE` rounds without a divergence. A state is good once `BURN_IN` further rounds have
succeeded, because the newest state may already be bad. If training diverges even at the least learning rate, it is
stuck.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BURN_IN = 10  # update rounds
WINDOW = 100  # losses whose median is the usual loss
ENOUGH = 20  # losses needed before a loss can count as a divergence
LEAST = 0.1  # least usual critic loss, in squared standard deviations of the targets
MAX_FAILURES = 3  # non-finite update rounds in a row that count as a divergence
STABLE = 1000  # update rounds in a row without a divergence, after which a halved rate is doubled
LEAST_FACTOR = 1 / 1024  # least factor on the learning rate: ten halvings


@dataclass(frozen=True)
class GoodState:
    """A state to roll back to; its normalisers have used the experiences with numbers below `learned_until`."""

    learner: dict[str, Any]
    learned_until: int
    largest: float  # greatest |reward| that its value normaliser has used


class DivergenceDetector:
    """Divergence detector of one trainer."""

    def __init__(self, factor: float, good: GoodState) -> None:
        """`factor`: a loss beyond `factor` times the usual one is a divergence; `good`: the initial state."""
        self.rate_factor = 1.0  # factor on the learning rate
        self.stuck = False  # whether it diverged even at the least rate
        self.good = good
        self._factor = factor
        self._candidates: list[tuple[int, GoodState]] = []
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._failures = self._stable = 0

    def state(self) -> dict[str, Any]:
        """Return what a later process needs to continue, as plain values."""
        return {"rate_factor": self.rate_factor, "usual_losses": list(self._losses), "stable_rounds": self._stable}

    def load_state(self, state: dict[str, Any], good: GoodState) -> None:
        """Continue where an earlier process ended, with `good` as the state to roll back to.

        Raises KeyError, TypeError or ValueError if the state is invalid.
        """
        self.rate_factor = float(state["rate_factor"])
        self._losses.extend(float(loss) for loss in state.get("usual_losses", ()))  # earlier releases stored none
        self._stable = int(state.get("stable_rounds", 0))
        self.good = good

    def detect(self, critic_loss: float, broken: bool) -> bool:
        """Return whether an update round diverged. `broken`: none of its steps was finite. A NaN loss is ignored."""
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
        """Count update round `number` as a success; every `BURN_IN`-th state becomes a candidate for the good one."""
        if number % BURN_IN == 0:
            self._candidates.append((number, state()))
        while self._candidates and number - self._candidates[0][0] >= BURN_IN:
            self.good = self._candidates.pop(0)[1]
        self._stable += 1
        if self._stable >= STABLE and self.rate_factor < 1:
            self.rate_factor, self._stable = 2 * self.rate_factor, 0

    def forget_losses(self) -> None:
        """Forget the usual loss: from now on, losses are measured in another scale."""
        self._losses.clear()

    def roll_back(self) -> GoodState:
        """Halve the learning rate and return the state to roll back to."""
        self.stuck = self.rate_factor <= LEAST_FACTOR
        self.rate_factor = max(self.rate_factor / 2, LEAST_FACTOR)
        self._failures = self._stable = 0
        self._candidates.clear()
        self._losses.clear()
        return self.good
