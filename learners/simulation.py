"""The environments in which another library trains, with the configuration that its run records.

    simulation = Simulation("Cartpole", num_envs=64, seed=1, overrides=["task.randomize=true"])
    obs = simulation.reset()                       # {"policy": (N, width), ...}
    step = simulation.step(actions)                # tasks.env.Step

Everything that is handed out is the caller's own copy, since other libraries keep what they get, and Env refreshes its
tensors in place.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from gymnasium import spaces
from torch import Tensor

from livegym.cfg.bodies import check_bodies
from livegym.cfg.compose import compose
from livegym.cfg.overrides import split
from livegym.cfg.typed import to_typed
from livegym.cfg.validate import check_device, num_envs_of
from livegym.learners.spaces import action_space_of, observation_space_of
from livegym.schema.settled import SettledConfig, settled
from livegym.tasks.build import make_env
from livegym.tasks.env import Env, Step
from livegym.utils.errors import UserError
from livegym.utils.seeding import draw_seed

OWN = {"task": "task", "numEnvs": "num_envs", "seed": "seed"}
"""Keys that are arguments of their own."""
NOT_HERE = ("config", "train", "projectDir", "checkpoint", "resume")
"""Keys of livegym's own command line, which have no meaning here."""


class Simulation:
    """N environments of a task, and the last episodes in them."""

    def __init__(
        self, task: str, num_envs: int | None = None, seed: int | None = None, overrides: Sequence[str] = ()
    ) -> None:
        """`num_envs`: None means the task's own number; `seed`: None draws one; `overrides`: as on the command line.

        Raises UserError for a value that livegym's command line would refuse.
        """
        _check(overrides)
        given = {"task": task, "numEnvs": num_envs, "seed": seed}
        self.typed = [*(f"{key}={value}" for key, value in given.items() if value is not None), *overrides]
        cfg = compose(["config=train_headless", *self.typed])
        cfg.seed = draw_seed() if cfg.seed is None else cfg.seed
        cfg.numEnvs = num_envs_of(cfg)
        self.config: SettledConfig = settled(to_typed(cfg))
        check_device(self.config.device)
        check_bodies(self.config)
        c = self.config
        self.env: Env = make_env(c.task, c.sim, c.physics, c.numEnvs, c.seed)
        self.env.curriculum.follow_success()
        games = c.train.games_to_track
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

    def close(self) -> None:
        """End the simulator's threads."""
        self.env.sim.close()


def _copied(groups: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in groups.items()}


def _check(overrides: Sequence[str]) -> None:
    """Raises UserError for an override that is an argument, or that belongs to livegym's own command line."""
    for override in overrides:
        path = split(override)[1]
        if path in OWN:
            raise UserError(f"overrides=[{override}]: {path} is an argument. Write {OWN[path]}=... instead.")
        if path.partition(".")[0] in NOT_HERE:
            raise UserError(
                f"overrides=[{override}]: {path} belongs to livegym's own trainer. Allowed: keys of task, sim and "
                "physics, and root keys such as runsDir and saveInterval. Leave it out."
            )
