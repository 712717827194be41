"""Step foreign environments: one interface for their two conventions of observations, resets and time limits.

VecTask, of IsaacGymEnvs: an episode's last observation is returned with done=1, and the environment is reset at the
beginning of the *next* `post_physics_step`. That order is kept, because tasks were tuned with it: the transition after
an episode's end is a throw-away.

legged_gym: the reset is inside the step, and the observation returned with done=1 is the next episode's first one.
There is no last observation; rsl_rl adds the value of the one before, and so does livegym here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from livegym.compat.foreign.loading import Loaded
from livegym.tasks.terms import POLICY

Groups = dict[str, Tensor]
"""Group of observations -> (N, width)."""
PRIVILEGED = "privileged"


@dataclass(frozen=True)
class Outcome:
    """The result of one step of a foreign environment; every tensor has a leading environment axis."""

    obs: Groups  # for the next action
    final_obs: Groups  # the last ones of episodes that ended in this step
    reward: Tensor  # (N,) float32
    ended: Tensor  # (N,) bool
    timed_out: Tensor  # (N,) bool, within `ended`


class Driver(ABC):
    """Steps one foreign environment."""

    def __init__(self, loaded: Loaded) -> None:
        self.env = loaded.env
        self.reach = loaded.reach
        self.obs: Groups = {}

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return int(self.env.num_envs)

    def step(self, action: Tensor) -> Outcome:
        """Advance by one control step. action: (N, A) in [-1, 1]."""
        with torch.no_grad():
            outcome = self._step(action * self.reach if self.reach != 1.0 else action.clone())
        self.obs = outcome.obs
        return outcome

    def reset(self, env_ids: Tensor) -> Groups:
        """Begin new episodes in environments (n,); returns the observations of all environments."""
        if len(env_ids):
            with torch.no_grad():
                self._reset(env_ids)
        return self.obs

    @abstractmethod
    def _step(self, action: Tensor) -> Outcome: ...

    @abstractmethod
    def _reset(self, env_ids: Tensor) -> None: ...

    def _ended(self, reset: Tensor, extras: Any) -> tuple[Tensor, Tensor]:
        """(N,) bool each: the ended episodes, and those of them that ended by the time limit."""
        ended = reset.reshape(-1) != 0
        time_outs = extras.get("time_outs") if isinstance(extras, dict) else None
        timed_out = torch.zeros_like(ended) if time_outs is None else time_outs.reshape(-1) != 0
        return ended, timed_out & ended


class VecTaskDriver(Driver):
    """The convention of IsaacGymEnvs."""

    def _step(self, action: Tensor) -> Outcome:
        result, reward, reset, extras = self.env.step(action)
        ended, timed_out = self._ended(reset, extras)
        obs = self._groups(result)
        return Outcome(obs, obs, reward.float().clone(), ended, timed_out)

    def _reset(self, env_ids: Tensor) -> None:
        self.env.reset_buf[env_ids] = 1  # takes effect in the next step

    def _groups(self, result: Any) -> Groups:
        obs = result["obs"] if isinstance(result, dict) else result
        groups = {POLICY: obs.float().clone()}
        if isinstance(result, dict) and "states" in result:
            groups[PRIVILEGED] = result["states"].float().clone()
        return groups


class LeggedDriver(Driver):
    """The convention of legged_gym."""

    def _step(self, action: Tensor) -> Outcome:
        before = self.obs
        obs, privileged, reward, reset, extras = self.env.step(action)
        ended, timed_out = self._ended(reset, extras)
        groups = self._groups(obs, privileged)
        return Outcome(groups, before or groups, reward.float().clone(), ended, timed_out)

    def _reset(self, env_ids: Tensor) -> None:
        self.env.reset_idx(env_ids)
        self.env.compute_observations()
        limit = self.env.cfg.normalization.clip_observations
        privileged = self.env.privileged_obs_buf
        clipped = None if privileged is None else privileged.clip(-limit, limit)
        fresh = self._groups(self.env.obs_buf.clip(-limit, limit), clipped)
        self.obs = {name: value.clone() for name, value in (self.obs or fresh).items()}
        for name, value in fresh.items():
            self.obs[name][env_ids] = value[env_ids]

    @staticmethod
    def _groups(obs: Tensor, privileged: Tensor | None) -> Groups:
        groups = {POLICY: obs.float().clone()}
        if privileged is not None:
            groups[PRIVILEGED] = privileged.float().clone()
        return groups


def driver_of(loaded: Loaded) -> Driver:
    """The driver for the convention of an environment."""
    return LeggedDriver(loaded) if loaded.resets_inside else VecTaskDriver(loaded)
