"""The outcomes of one challenger and of the champion beside it, and what they say (`online/champion.py`).

    challenge = Challenge(candidate, acting=41, ends=time.monotonic() + 3600.0)
    challenge.add(outcomes, acting=41)       # what was earned since the last call; the rest is left out
    challenge.enough                         # whether both sides have `ENOUGH` outcomes
    challenge.compare(confidence=0.99)       # whether the challenger is worse, and the reason

Rewards may come hours after their decisions, so outcomes of earlier challengers and of earlier champions still come
during a challenge. Only those count of which the challenger, or the version that acts beside it, made all decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from livegym.online.estimate import mean_of
from livegym.online.judge import in_words
from livegym.online.outcomes import Outcome
from livegym.weights.candidate import Candidate

ENOUGH = 30  # outcomes of each side, and of a review


class Comparison(NamedTuple):
    """The finding of a challenge."""

    worse: bool  # the challenger's interval lies wholly below the champion's
    why: str
    sides: str  # the number of outcomes


class Challenge:
    """A challenger that acts in a share of the streams, and what both sides have earned."""

    def __init__(self, candidate: Candidate, acting: int, ends: float) -> None:
        """`acting`: the version that acts beside it; `ends`: monotonic s at which the challenge ends at the latest."""
        self.candidate = candidate
        self.ends = ends
        self._acting = acting
        self._challenger: list[float] = []
        self._champion: list[float] = []

    def add(self, outcomes: Iterable[Outcome], acting: int) -> None:
        """Add the outcomes of the challenger and of the acting version; another acting version begins with none."""
        if acting != self._acting:
            self._acting, self._champion = acting, []
        for outcome in outcomes:
            if outcome.challenger and outcome.version == self.candidate.version:
                self._challenger.append(outcome.value)
            elif not outcome.challenger and outcome.version == acting:
                self._champion.append(outcome.value)

    @property
    def enough(self) -> bool:
        """Whether both sides have enough outcomes."""
        return min(len(self._challenger), len(self._champion)) >= ENOUGH

    def compare(self, confidence: float) -> Comparison:
        """Compare the two sides."""
        new, old = (mean_of(np.array(values), confidence=confidence) for values in (self._challenger, self._champion))
        sides = f"{new.samples} and {old.samples} outcomes"
        why = f"{in_words(new)} against {in_words(old)} of the champion, in {sides}"
        return Comparison(new.below(old), why, sides)
