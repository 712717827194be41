"""The interface of a learner: one training run of one algorithm, an iteration at a time (see `rl/algorithm.py`).

    learner.train(on_iteration)              # until max_iterations or a stop; calls on_iteration(Iteration) after each
    learner.policy_state()                   # weights and normaliser of learner.version
    state = capture_learner(learner)         # rl/state.py: its own state, and the state that all learners have
    restore_learner(learner, state, version)

An algorithm implements `improve`, its state, and the restoring of that state. Counting, saving, curves, publishing and
the end of a training run are common to all algorithms. With its own state and that of the environments, a resume must
be exact: k iterations, a stop, a resume and m more give the same as k + m, bit for bit, on a CPU with one tensor
thread.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from livegym.rl.divergence import Cause, Diverged, ImpossibleAction, in_distribution, not_finite
from livegym.tasks.env import Env
from livegym.tasks.stats import EpisodeSummary, Largest
from livegym.utils.signals import StopFlag

PATIENCE = 5.0  # s that a stop waits for the running iteration before it abandons it
NEEDED = ("model", "epoch", "frame", "learner")  # keys that every learner's state must have


class IterationAbandoned(Exception):
    """Raised if a stop was requested and the running iteration takes too long to finish."""


@dataclass(frozen=True)
class Iteration:
    """The result of one learner iteration. Times in s; `mean_return` is None until an episode has ended."""

    version: int
    epoch: int
    frame: int
    frames: int
    seconds: float
    step_seconds: float
    update_seconds: float
    mean_return: float | None
    mean_length: float | None
    mean_is_full: bool  # the mean covers its full number of episodes, not only the first ones, which are the shortest
    losses: dict[str, float] = field(default_factory=dict)  # the algorithm's own curves, by their TensorBoard tags
    report: EpisodeSummary = field(default_factory=EpisodeSummary)


@dataclass(frozen=True)
class Gained:
    """The part of an `Iteration` that the algorithm provides; see there for the fields."""

    frames: int  # control steps of all environments
    step_seconds: float
    update_seconds: float
    mean_return: float | None
    mean_length: float | None
    mean_is_full: bool
    losses: dict[str, float] = field(default_factory=dict)


class Learner(ABC):
    """One training run over N environments. Counters start at 0; those of a resumed run continue."""

    def __init__(self, env: Env, max_iterations: int, stop: StopFlag) -> None:
        """`max_iterations`: total, including those before a resume; `stop`: ends the run between two iterations."""
        self.env = env
        self.max_iterations = max_iterations
        self.stop = stop
        self.version = 0  # of the policy
        self.epoch = 0  # completed iterations
        self.frame = 0  # control steps of all environments

    def train(self, on_iteration: Callable[[Iteration], None]) -> None:
        """Iterate until `max_iterations` or a stop. Raises IterationAbandoned as `iterate` does."""
        self.begin()
        while self.epoch < self.max_iterations and not self.stop.requested:
            on_iteration(self.iterate())

    def iterate(self) -> Iteration:
        """Make one iteration. Raises IterationAbandoned if it takes too long after a stop; then it does not count."""
        start = time.perf_counter()
        gained = self._improve()
        self.version += 1
        self.epoch += 1
        self.frame += gained.frames
        return Iteration(
            version=self.version,
            epoch=self.epoch,
            frame=self.frame,
            seconds=time.perf_counter() - start,
            **vars(gained),
            report=self.env.drain_report(),
        )

    def _improve(self) -> Gained:
        """Call `improve`. Raises Diverged if the policy has become non-finite, however that shows."""
        error: Exception | None = None
        try:
            gained = self.improve()
        except (ValueError, RuntimeError, ImpossibleAction) as raised:
            error = raised
        broken = not_finite({"model": self.policy_state()})
        if broken is not None:
            raise self.diverged(self.epoch + 1, f"has NaN or Infinity in {broken}") from error
        if isinstance(error, ImpossibleAction) or (error is not None and in_distribution(error)):
            raise self.diverged(self.epoch + 1, f"gives actions that are not numbers ({error})") from error
        if error is not None:
            raise error
        return gained

    def diverged(self, epoch: int, what: str, report: EpisodeSummary | None = None) -> Diverged:
        """The error for a policy that has diverged; `report`: of the last iteration, None if that has not ended."""
        largest = self.env.drain_report().largest if report is None else report.largest
        return Diverged(epoch, what, self.cause_of_divergence(largest))

    def check_patience(self) -> None:
        """Raises IterationAbandoned if a stop has waited too long. Must be called often while an iteration runs."""
        if self.stop.requested and self.stop.seconds_since() > PATIENCE:
            raise IterationAbandoned

    # implemented by an algorithm

    def begin(self) -> None:
        """Get the first observations, unless they were restored. Called before the first iteration of this process."""
        return

    @abstractmethod
    def improve(self) -> Gained:
        """Collect experience and update the policy: one iteration. May raise IterationAbandoned."""

    def cause_of_divergence(self, largest: Largest) -> Cause:
        """The probable cause of a divergence, if the algorithm knows it. `largest`: numbers of the last iteration."""
        return Cause()

    @abstractmethod
    def policy_state(self) -> dict[str, Tensor]:
        """Weights and normaliser, as in `Network.module.state_dict()`. They are not copied: call this each time."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The algorithm's own state that determines the next iteration, as tensors and plain values.

        `model` is `policy_state`; small values are in a dictionary `learner`. `rl/state.py` adds generators, counters
        and the curriculum's level.
        """

    @property
    def needed(self) -> tuple[str, ...]:
        """Keys that a captured state must have to be restored."""
        return NEEDED

    @abstractmethod
    def check_weights(self, state: dict[str, Any]) -> None:
        """Raises UserError if the weights in `state` (key `model`, perhaps others) do not fit. Changes nothing."""

    def check_state(self, state: dict[str, Any]) -> None:
        """Raises UserError if `load_state` could not load the rest of a state. Changes nothing."""
        return

    @abstractmethod
    def load_weights(self, state: dict[str, Any]) -> None:
        """Load weights and normaliser, to start a new run from a checkpoint. Raises UserError if they do not fit."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`, already checked. Also has `epoch` and `frame`, if the algorithm counts for itself."""

    def note_best_return(self, state: dict[str, Any], best_return: float | None) -> None:
        """Store the best mean return in a captured state; None if no episode has ended."""
        state["learner"]["best_return"] = best_return

    def environment_state(self) -> dict[str, Any]:
        """The state of the environments and their running episodes. Its tensors may be shared, not copied.

        An empty one is not written: a run that cannot be resumed has none.
        """
        return {"env": self.env.state_dict()}

    def load_environment_state(self, state: dict[str, Any]) -> None:
        """The inverse of `environment_state`. Raises ValueError if the environments differ."""
        self.env.load_state_dict(state["env"])
