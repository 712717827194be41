"""Step foreign environments: one interface for their two conventions of observations, resets and time limits.

VecTask, of IsaacGymEnvs: an episode's last observation is returned with done=1, and the environment is reset at the
beginning of the *next* `post_physics_step`. That order is kept, because tasks were tuned with it: the transition after
an episode's end is a throw-away.

legged_gym, and AnymalTerrain of IsaacGymEnvs: the reset is inside the step, and the observation returned with done=1 is
the next episode's first one. There is no last observation; rsl_rl adds the value of the one before, and so does livegym
here.

HumanoidAMP of IsaacGymEnvs: a step resets nothing. The learner calls `reset_done` before each step; here the driver
resets after the step, so the last observation is known.

dexrobot_isaac: environments are reset inside the step, but the observation returned with done=1 is the last one of the
episode that ended, and the next action is chosen by it, so the transition after it is a throw-away, too. Its learner
takes a time limit for a failure. Rewards by name, successes and time limits are in `extras`.

Which of them an environment of IsaacGymEnvs follows is seen in its first step: all its `reset_buf` is 1 then, so one
that is reset in the *next* step is reset in this one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from livegym.compat.foreign.loading import Loaded
from livegym.projects.checkout import CLASSES, FACTORY, YAML
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
    timed_out: Tensor  # (N,) bool, within `ended`: the learner adds the value of what would have followed
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # name -> its part (N,) of the reward, if it says so
    at_limit: Tensor | None = None  # (N,) bool, within `ended`: a failure because of the time limit
    succeeded: Tensor | None = None  # (N,) bool, within `ended`; None if it does not say so


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

    def _forget_lines(self, env_ids: Tensor) -> None:
        """Remove what the task has drawn of the state before: environments (n,) are reset outside of its own step."""
        lines = getattr(getattr(self.env, "sim", None), "lines", None)
        if lines is not None:
            lines.forget(env_ids.tolist())

    def _ended(self, reset: Tensor, extras: Any) -> tuple[Tensor, Tensor]:
        """(N,) bool each: the ended episodes, and those of them that ended by the time limit."""
        ended = reset.reshape(-1) != 0
        time_outs = extras.get("time_outs") if isinstance(extras, dict) else None
        timed_out = torch.zeros_like(ended) if time_outs is None else time_outs.reshape(-1) != 0
        return ended, timed_out & ended


class VecTaskDriver(Driver):
    """The conventions of IsaacGymEnvs."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded)
        self._next_step: bool | None = None  # whether ended environments are reset in the next step; None: not seen yet
        self._begun: list[Tensor] = []  # ids that were reset in this step
        reset_idx = getattr(self.env, "reset_idx", None)
        if reset_idx is None:
            self._next_step = True
            return

        def noted(env_ids: Tensor, *given: Any, **named: Any) -> Any:
            self._begun.append(env_ids.clone())
            return reset_idx(env_ids, *given, **named)

        self.env.reset_idx = noted

    def _step(self, action: Tensor) -> Outcome:
        before = self.obs
        self._begun.clear()
        result, reward, reset, extras = self.env.step(action)
        ended, timed_out = self._ended(reset, extras)
        obs = self._groups(result)
        reward = reward.float().clone()
        begun = torch.zeros_like(ended)
        for ids in self._begun:
            begun[ids] = True
        first = self._next_step is None
        if first:
            self._next_step = bool(begun.all())
        if self._next_step:
            return Outcome(obs, obs, reward, ended, timed_out)
        inside = (ended & begun)[:, None]  # their last observation is unknown
        final = {name: torch.where(inside, before.get(name, value), value) for name, value in obs.items()}
        self.obs = obs
        left = torch.ones_like(ended) if first else ended & ~begun
        return Outcome(self.reset(left.nonzero().squeeze(1)), final, reward, ended, timed_out)

    def _reset(self, env_ids: Tensor) -> None:
        if self._next_step:
            self.env.reset_buf[env_ids] = 1
            return
        self._forget_lines(env_ids)
        self.env.reset_idx(env_ids)
        if hasattr(self.env, "compute_observations"):
            self.env.compute_observations()
        limit = self.env.clip_obs
        fresh = {POLICY: self.env.obs_buf.clip(-limit, limit)}
        if PRIVILEGED in self.obs:
            fresh[PRIVILEGED] = self.env.get_state()
        self.obs = _with_rows(self.obs, fresh, env_ids)

    def _groups(self, result: Any) -> Groups:
        obs = result["obs"] if isinstance(result, dict) else result
        groups = {POLICY: obs.float().clone()}
        if isinstance(result, dict) and "states" in result:
            groups[PRIVILEGED] = result["states"].float().clone()
        return groups


class LeggedDriver(Driver):
    """The convention of legged_gym."""

    def _step(self, action: Tensor) -> Outcome:
        before = {name: value.clone() for name, value in self.obs.items()}  # the caller may change it in place
        obs, privileged, reward, reset, extras = self.env.step(action)
        ended, timed_out = self._ended(reset, extras)
        groups = self._groups(obs, privileged)
        return Outcome(groups, before or groups, reward.float().clone(), ended, timed_out)

    def _reset(self, env_ids: Tensor) -> None:
        self._forget_lines(env_ids)
        self.env.reset_idx(env_ids)
        self.env.compute_observations()
        limit = self.env.cfg.normalization.clip_observations
        privileged = self.env.privileged_obs_buf
        clipped = None if privileged is None else privileged.clip(-limit, limit)
        fresh = self._groups(self.env.obs_buf.clip(-limit, limit), clipped)
        self.obs = _with_rows(self.obs or fresh, fresh, env_ids)

    @staticmethod
    def _groups(obs: Tensor, privileged: Tensor | None) -> Groups:
        groups = {POLICY: obs.float().clone()}
        if privileged is not None:
            groups[PRIVILEGED] = privileged.float().clone()
        return groups


class FactoryDriver(Driver):
    """The convention of dexrobot_isaac."""

    WEIGHTED = "_weighted"  # the end of the names of weighted rewards in extras["reward_components"]

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded)
        task = self.env.cfg.get("task", {}) if isinstance(getattr(self.env, "cfg", None), dict) else {}
        weights = task.get("reward_weights", {})
        self._weighted = [str(name) for name, weight in weights.items() if weight]  # some come in a later stage only
        with torch.no_grad():
            self.obs = self._groups(self.env.reset())  # its first step needs what a reset prepares

    def _step(self, action: Tensor) -> Outcome:
        obs, reward, reset, extras = self.env.step(action)
        groups = self._groups(obs)
        ended = reset.reshape(-1) != 0
        success, limit = extras.get("success"), extras.get("timeout")
        parts = {
            name.removesuffix(self.WEIGHTED): value.float().clone()
            for name, value in extras.get("reward_components", {}).items()
            if name.endswith(self.WEIGHTED)
        }
        none = torch.zeros_like(reward, dtype=torch.float32)
        parts = {name: parts.get(name, none) for name in dict.fromkeys([*parts, *self._weighted])}
        return Outcome(
            groups,
            groups,
            reward.float().clone(),
            ended,
            torch.zeros_like(ended),
            parts,
            None if limit is None else limit.bool() & ended,
            None if success is None else success.bool() & ended,
        )

    def _reset(self, env_ids: Tensor) -> None:
        self._forget_lines(env_ids)
        if len(env_ids) == self.num_envs:
            self.obs = self._groups(self.env.reset())
        else:
            self.env.reset_idx(env_ids)

    @staticmethod
    def _groups(obs: Tensor) -> Groups:
        return {POLICY: obs.float().clone()}


def _with_rows(groups: Groups, fresh: Groups, env_ids: Tensor) -> Groups:
    """Copies of groups, with the rows (n,) of fresh ones."""
    made = {name: value.clone() for name, value in groups.items()}
    for name, value in fresh.items():
        made[name][env_ids] = value[env_ids].float()
    return made


def driver_of(loaded: Loaded) -> Driver:
    """The driver for the convention of an environment."""
    made: dict[str, Callable[[Loaded], Driver]] = {YAML: VecTaskDriver, CLASSES: LeggedDriver, FACTORY: FactoryDriver}
    return made[loaded.layout](loaded)
