"""Observers of a training run. `train.py` passes them in, so that the training code need not know them."""

from __future__ import annotations

from typing import Any, Protocol

from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import Run


class TrainingObserver(Protocol):
    """The interface of an observer. The training thread calls it; an exception from it ends the training run."""

    def highest_version(self, run: Run) -> int:
        """The highest policy version of `run` that this observer has published before; 0 if there is none."""

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Called before the first iteration, once the run is created or resumed."""

    def after_iteration(self, it: Iteration) -> None:
        """Called after each iteration; the learner's weights are those of `it.version`."""

    def end(self, complete: bool) -> None:
        """Called after the last iteration. `complete`: the learner is not in the middle of an iteration."""
