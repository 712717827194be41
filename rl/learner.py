"""The contract of a learner: one training of one algorithm, an iteration at a time (see `rl/algorithm.py`).

    learner.train(on_iteration)              # until max_iterations or a stop; on_iteration(Iteration) after each
    learner.policy_state()                   # weights and normaliser of learner.version
    state = capture_learner(learner)         # rl/state.py: its own state, and what all learners have
    restore_learner(learner, state, version)

An algorithm writes `improve`, its state, and how it is put back. Counting, saving, curves, publishing and the end of a
training are done around it, the same for all. With its own state and the environments' it must go on exactly: k + m
iterations equal k, stop, resume, m, bit for bit, on a CPU with one tensor thread.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from livegym.tasks.env import Env
from livegym.tasks.stats import EpisodeSummary
from livegym.utils.signals import StopFlag

PATIENCE = 5.0  # s, how long a stop waits for an iteration to end before it is abandoned
NEEDED = ("model", "epoch", "frame", "learner")  # of every learner's state


class IterationAbandoned(Exception):
    """A stop was asked for and the running iteration takes too long to wait for its end."""


@dataclass(frozen=True)
class Iteration:
    """What one learner iteration gave. Times in s; `mean_return` is None until an episode has ended."""

    version: int
    epoch: int
    frame: int
    frames: int
    seconds: float
    step_seconds: float
    update_seconds: float
    mean_return: float | None
    mean_length: float | None
    mean_is_full: bool  # over as many episodes as the mean is meant to be, not over the first and shortest ones
    losses: dict[str, float] = field(default_factory=dict)  # the algorithm's own curves, by their TensorBoard names
    report: EpisodeSummary = field(default_factory=EpisodeSummary)


@dataclass(frozen=True)
class Gained:
    """What the algorithm itself says of an iteration; the fields are those of `Iteration`."""

    frames: int  # control steps of all environments
    step_seconds: float
    update_seconds: float
    mean_return: float | None
    mean_length: float | None
    mean_is_full: bool
    losses: dict[str, float] = field(default_factory=dict)


class Learner(ABC):
    """One training over N environments. Counts from 0; a resumed one goes on where it was."""

    remedy: ClassVar[str] = ""  # what to type against a policy that diverged: train.learning_rate=<lower>

    def __init__(self, env: Env, max_iterations: int, stop: StopFlag) -> None:
        """`max_iterations`: in all, those before a resume too; `stop`: ends the training between two iterations."""
        self.env = env
        self.max_iterations = max_iterations
        self.stop = stop
        self.version = 0  # of the policy
        self.epoch = 0  # iterations that are whole
        self.frame = 0  # control steps of all environments

    def train(self, on_iteration: Callable[[Iteration], None]) -> None:
        """Iterates until `max_iterations` or a stop. Raises IterationAbandoned if a stop could not wait."""
        self.begin()
        while self.epoch < self.max_iterations and not self.stop.requested:
            on_iteration(self.iterate())

    def iterate(self) -> Iteration:
        """One iteration. Raises IterationAbandoned if a stop could not wait: then it does not count."""
        start = time.perf_counter()
        gained = self.improve()
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

    def check_patience(self) -> None:
        """Raises IterationAbandoned if a stop has waited too long: to be called often while an iteration runs."""
        if self.stop.requested and self.stop.seconds_since() > PATIENCE:
            raise IterationAbandoned

    # what an algorithm writes

    def begin(self) -> None:
        """Before the first iteration of this process: first observations, unless they were put back."""
        return

    @abstractmethod
    def improve(self) -> Gained:
        """One iteration: collects experience and updates the policy. May raise IterationAbandoned."""

    @abstractmethod
    def policy_state(self) -> dict[str, Tensor]:
        """Weights and normaliser, as `Network.module.state_dict()` has them. Not copied: ask for them each time."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All of its own that decides the next iteration, as tensors and plain values.

        `model` is `policy_state`; small things lie in a dictionary `learner`. Generators, counters and the curriculum's
        level are added to it by `rl/state.py`.
        """

    @property
    def needed(self) -> tuple[str, ...]:
        """Keys of a captured state without which it cannot be put back."""
        return NEEDED

    @abstractmethod
    def check_weights(self, state: dict[str, Any]) -> None:
        """Raises UserError if the weights in `state` (key `model`, perhaps others) do not fit. Changes nothing."""

    def check_state(self, state: dict[str, Any]) -> None:
        """Raises UserError if `load_state` could not take the rest of a state. Changes nothing."""
        return

    @abstractmethod
    def load_weights(self, state: dict[str, Any]) -> None:
        """What a new run from a checkpoint starts with: weights and normaliser. Strict; raises UserError."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`, which was checked. `epoch` and `frame` are keys of it, for who counts by himself."""

    def note_best_return(self, state: dict[str, Any], best_return: float | None) -> None:
        """Notes the best mean return in a captured state; None: no episode has ended."""
        state["learner"]["best_return"] = best_return

    def environment_state(self) -> dict[str, Any]:
        """The environments in the middle of their episodes, and what the learner knows of them. Not all is copied."""
        return {"env": self.env.state_dict()}

    def load_environment_state(self, state: dict[str, Any]) -> None:
        """The inverse of `environment_state`. Raises ValueError if it is of other environments."""
        self.env.load_state_dict(state["env"])
