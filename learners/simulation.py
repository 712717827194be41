"""The environments in which another library trains, with the configuration that its run records.

    simulation = Simulation("Cartpole", num_envs=64, seed=1, overrides=["task.randomize=true"])
    obs = simulation.reset()                       # {"policy": (N, width), ...}
    step = simulation.step(actions)                # tasks.env.Step

Everything that is handed out is the caller's own copy, since other libraries keep what they get, and Env refreshes its
tensors in place.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from gymnasium import spaces
from torch import Tensor

from livegym.cfg.overrides import split
from livegym.learners.environment import make
from livegym.learners.spaces import action_space_of, observation_space_of
from livegym.tasks.env import Step

RECORDED = ("runsDir", "saveInterval", "saveFrequency", "keepLast", "keepEvery", "publishInterval")
"""Root keys that a recorded run obeys."""


class Simulation:
    """N environments of a task, and the last episodes in them."""

    def __init__(
        self,
        task: str,
        num_envs: int | None = None,
        seed: int | None = None,
        overrides: Sequence[str] = (),
        project_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """`num_envs`: None means the task's own number; `seed`: None draws one; `overrides`: as on the command line,
        keys inside task, sim and physics, and those that a recorded run obeys; `project_dir`: see `make_env`.

        Raises UserError for a value that livegym's command line would refuse, and for a key without a meaning here.
        """
        made = make(task, num_envs, seed, overrides, project_dir, RECORDED)
        self.env = made.env
        self.config = made.config
        self.typed = made.typed
        self.env.curriculum.follow_success()
        games = self.config.train.games_to_track
        self.returns: deque[float] = deque(maxlen=games)  # of the last episodes
        self.lengths: deque[int] = deque(maxlen=games)
        self.begin()

    def begin(self) -> None:
        """Count from here on, because a run begins."""
        self.frame = 0  # control steps of all environments
        self.step_seconds = 0.0  # spent in the simulator
        self.returns.clear()
        self.lengths.clear()
        self.env.drain_report()

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return self.env.num_envs

    @property
    def observation_space(self) -> spaces.Box:
        """The space of one row of the policy's observations."""
        return observation_space_of(self.env.layout.width("policy"))

    @property
    def state_space(self) -> spaces.Box | None:
        """The space of one row of what only a critic may see; None if the task has no such group."""
        width = self.env.layout.width("privileged")
        return observation_space_of(width) if width else None

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The space of one environment's action."""
        return action_space_of(self.env.task.action_spec)

    def reset(self) -> dict[str, Tensor]:
        """Start a new episode in every environment: group -> (N, width)."""
        return _copied(self.env.reset())

    def step(self, action: Tensor) -> Step:
        """Advance by one control step: (N, size) in [-1, 1], or (N,) / (N, k) int64 choices. See `Env.step`."""
        start = time.perf_counter()
        step = self.env.step(action.detach().to(self.env.sim.device))
        self.frame += self.num_envs
        if step.ended is not None:
            self.returns.extend(step.ended.returns.tolist())
            self.lengths.extend(step.ended.lengths.tolist())
        step = dataclasses.replace(step, obs=_copied(step.obs), final_obs=_copied(step.final_obs))
        self.step_seconds += time.perf_counter() - start
        return step

    def reseed(self, seed: int) -> None:
        """Draw from another seed from now on; a run that is recorded notes that seed."""
        self.env.reseed(seed)
        self.config = dataclasses.replace(self.config, seed=seed)
        others = [given for given in self.typed if split(given)[1] != "seed"]
        self.typed = [*others[:2], f"seed={seed}", *others[2:]]

    def close(self) -> None:
        """End the simulator's threads."""
        self.env.sim.close()


def _copied(groups: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in groups.items()}
