"""One of our tasks as a VecEnv of Stable-Baselines3, so that both sides of a comparison solve the same task."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.rl.algorithms.ppo.adapter import action_space
from livegym.tasks.build import make_env


class SB3Env(VecEnv):
    """N environments of a task with its default configuration. Episodes restart automatically, as SB3 expects."""

    def __init__(self, task: str, num_envs: int, seed: int) -> None:
        config = to_typed(compose([f"task={task}", "config=train_headless"]))
        self.env = make_env(config.task, config.sim, config.physics, num_envs, seed)
        width = self.env.layout.width("policy")
        observations = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        super().__init__(num_envs, observations, action_space(self.env.task.action_spec))
        self.returns, self.lengths = np.zeros(num_envs), np.zeros(num_envs, dtype=int)

    def reset(self) -> np.ndarray:
        """Resets all environments; returns the observations (N, width)."""
        self.returns[:], self.lengths[:] = 0, 0
        return self.env.reset()["policy"].numpy()

    def step_async(self, actions: np.ndarray) -> None:
        """Keeps the actions for `step_wait`."""
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Steps all environments; `infos` has SB3's keys for ended episodes."""
        step = self.env.step(torch.as_tensor(self.actions))
        rewards, done = step.reward.numpy(), (step.terminated | step.truncated).numpy()
        self.returns += rewards
        self.lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            infos[i] = {
                "terminal_observation": step.final_obs["policy"][i].numpy(),
                "TimeLimit.truncated": bool(step.truncated[i]),
                "episode": {"r": float(self.returns[i]), "l": int(self.lengths[i]), "t": 0.0},
            }
            self.returns[i] = self.lengths[i] = 0
        return step.obs["policy"].numpy().copy(), rewards.copy(), done, infos

    def close(self) -> None:
        """Ends the simulator's threads."""
        self.env.sim.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """This object's attribute for each environment, because SB3 asks for the render mode; None if there is none."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raises NotImplementedError."""
        raise NotImplementedError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Raises NotImplementedError."""
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False for every environment, because none is wrapped."""
        return [False] * self.num_envs
