"""Adapts our Env to rl_games' interface.

Observations are {"obs", "states"}. `dones` combines terminated and truncated; `infos` has the time-outs and the last
observations of ended episodes separately, so that the learner can add the value of the state in which an episode was
truncated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from rl_games.common.ivecenv import IVecEnv
from torch import Tensor

from livegym.tasks.base import ActionSpec, Box, Discrete
from livegym.tasks.env import Env


def action_space(spec: ActionSpec) -> spaces.Space:
    """The gymnasium space that rl_games recognises by its class name."""
    if isinstance(spec, Box):
        return spaces.Box(-1.0, 1.0, (spec.size,), dtype=np.float32)
    if isinstance(spec, Discrete):
        return spaces.Discrete(spec.n)
    return spaces.Tuple([spaces.Discrete(n) for n in spec.nvec])


def _observation_space(width: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (width,), dtype=np.float32)


class RlGamesEnv(IVecEnv):
    """One Env behind rl_games' vectorised interface. It moves tensors to the learner's device."""

    def __init__(self, env: Env, device: str) -> None:
        self.env = env
        self.device = torch.device(device)

    def get_env_info(self) -> dict[str, Any]:
        """Spaces, measured from the environment."""
        info = {
            "action_space": action_space(self.env.task.action_spec),
            "observation_space": _observation_space(self.env.layout.width("policy")),
            "agents": 1,
            "value_size": 1,
        }
        if self.env.layout.width("privileged"):
            info["state_space"] = _observation_space(self.env.layout.width("privileged"))
        return info

    def reset(self) -> dict[str, Tensor]:
        """Begin a new episode in every environment."""
        return self.named(self.env.reset())

    def step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        """actions (R, size) or (R,) -> obs, rewards (R,), dones (R,) uint8, infos."""
        step = self.env.step(actions.to(self.env.sim.device))
        infos = {"time_outs": step.truncated.to(self.device), "final_obs": step.final_obs}
        dones = (step.terminated | step.truncated).to(self.device, torch.uint8)
        return self.named(step.obs), step.reward.to(self.device), dones, infos

    def named(self, groups: dict[str, Tensor]) -> dict[str, Tensor]:
        """Our observation groups under rl_games' names, on the learner's device."""
        obs = {"obs": groups["policy"].to(self.device)}
        if "privileged" in groups:
            obs["states"] = groups["privileged"].to(self.device)
        return obs
