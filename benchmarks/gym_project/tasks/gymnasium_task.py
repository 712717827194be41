"""A Gymnasium environment as a task: a client sends its observations, or the built-in simulator steps it itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.base import ActionSpec, Box, Discrete, Task


@dataclass(frozen=True)
class GymnasiumParams:
    """There are no parameters."""


class GymnasiumTask(Task):
    """N copies of one environment, stepped one after the other. Box actions are scaled to its bounds."""

    Params = GymnasiumParams
    params: GymnasiumParams
    own_dynamics = True
    environment: ClassVar[str]  # Gymnasium's name

    @property
    def action_spec(self) -> ActionSpec:
        """Discrete or Box, as the environment has it."""
        space = gymnasium.make(self.environment).action_space
        return Discrete(int(space.n)) if isinstance(space, gymnasium.spaces.Discrete) else Box(space.shape[0])

    @property
    def control_dt(self) -> float:
        """s between two observations."""
        return 0.02

    def model_path(self) -> Path:
        """There is no model."""
        raise NotImplementedError

    def bind(self, sim: Simulator) -> None:
        """Make the environments."""
        self._made = [gymnasium.make(self.environment).unwrapped for _ in range(sim.num_envs)]
        shape = self._made[0].observation_space.shape
        self._obs = self.buffer(sim, "obs", *shape)
        self._earned, self._failed = (self.buffer(sim, name, 1) for name in ("earned", "failed"))

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Reset these environments; there are no joints to set."""
        seeds = torch.randint(2**31, env_ids.shape, generator=rng)
        for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
            self._obs[env_id] = torch.as_tensor(self._made[env_id].reset(seed=seed)[0])
        self._failed[env_ids] = 0.0
        nothing = torch.zeros(len(env_ids), 0)
        return nothing, nothing

    def control(self, action: Tensor) -> Tensor:
        """(N,) choices or (N, size) in [-1, 1] -> (N, size) in the environment's units."""
        if action.dim() == 1:
            return action[:, None].float()
        space = self._made[0].action_space
        return action * torch.as_tensor(space.high)

    def update(self, state: Simulator) -> None:
        """Step every environment."""
        discrete = isinstance(self.action_spec, Discrete)
        for env_id, environment in enumerate(self._made):
            action = state.ctrl[env_id].numpy()
            obs, reward, failed, _, _ = environment.step(int(action[0]) if discrete else action.astype(np.float32))
            self._obs[env_id] = torch.as_tensor(obs)
            self._earned[env_id], self._failed[env_id] = float(reward), float(failed)

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named blocks:

        observation: as the environment returns it
        """
        return {"observation": self._obs}

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """The environment's reward:

        reward: as it returns it
        """
        return {"reward": self._earned[:, 0]}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Reasons to end:

        failed: the environment has terminated
        """
        return {"failed": self._failed[:, 0] > 0}
