"""How others take part in a training without the training knowing them: `train.py` hands these in."""

from __future__ import annotations

from typing import Any, Protocol

from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import Run


class TrainingObserver(Protocol):
    """Called in the training's own thread; what it raises ends the training."""

    def highest_version(self, run: Run) -> int:
        """The highest policy version of `run` that this observer has given out before; 0 if it has not."""

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """The run is made, or held again; iterations follow."""

    def after_iteration(self, it: Iteration) -> None:
        """One more iteration; the learner's weights are those of `it.version`."""

    def end(self, complete: bool) -> None:
        """No more iterations come. `complete`: the learner is at the end of an iteration, not in the middle of one."""
