"""skrl: a task as its environment wrapper.

    from livegym.learners.skrl import SkrlEnv

    env = SkrlEnv("Cartpole", num_envs=512, seed=1)
    agent = PPO(models=..., observation_space=env.observation_space, action_space=env.action_space, ...)
    SequentialTrainer(cfg={"timesteps": 1600}, env=env, agents=agent).train()

The observation after the last step of an episode is already that of the next episode. skrl computes values at time
limits from it, so give your agent `FinalObservations`, which puts the last observation of the episode in its place.

skrl's models are the user's own code, which names the layers that act: a subclass of the agent calls `Recorder.note`
after `update` (examples/train_skrl.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import gymnasium
import torch
from torch import Tensor

from livegym.learners.actor import Normaliser, refused
from livegym.learners.missing import not_installed
from livegym.learners.simulation import Simulation
from livegym.tasks.base import Box
from livegym.utils.errors import UserError

try:
    from skrl.envs.wrappers.torch import Wrapper
    from skrl.resources.preprocessors.torch import RunningStandardScaler
except ModuleNotFoundError as error:
    raise not_installed("skrl", "skrl") from error


class SkrlEnv(Wrapper):
    """N environments of a task. Episodes restart by themselves; `state` is the privileged group, if there is one."""

    def __init__(
        self,
        task: str,
        num_envs: int | None = None,
        seed: int | None = None,
        overrides: Sequence[str] = (),
        project_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """See `Simulation`."""
        self.simulation = Simulation(task, num_envs, seed, overrides, project_dir)
        super().__init__(self.simulation.env)
        self._device = self.simulation.env.sim.device
        self._groups: dict[str, Tensor] | None = None

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """(N, width): the first observations. Trainers call it more than once; it does not interrupt episodes."""
        if self._groups is None:
            self._groups = self.simulation.reset()
        return self._groups["policy"], {}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Advance by one control step: (N, size) or (N, k) -> observations, rewards, terminated, truncated, infos.

        Rewards and flags are (N, 1). `infos["final_obs"]` holds, for each group (N, width), the observations before
        ended episodes began again.
        """
        step = self.simulation.step(self._as_env_has_them(actions))
        self._groups = step.obs
        flags = (step.reward, step.terminated, step.truncated)
        reward, terminated, truncated = (value[:, None] for value in flags)
        return step.obs["policy"], reward, terminated, truncated, {"final_obs": step.final_obs}

    def state(self) -> Tensor | None:
        """(N, width) what only a critic may see; None if the task has no such group."""
        return None if self._groups is None else self._groups.get("privileged")

    def render(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: a run is watched by a process of its own."""

    def close(self) -> None:
        """End the simulator's threads."""
        self.simulation.close()

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        return self.simulation.num_envs

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of one observation."""
        return self.simulation.observation_space

    @property
    def state_space(self) -> gymnasium.Space[Any] | None:
        """The space of one row of `state`."""
        return self.simulation.state_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of one action."""
        return self.simulation.action_space

    def _as_env_has_them(self, actions: Tensor) -> Tensor:
        spec = self.simulation.env.task.action_spec
        return actions if isinstance(spec, Box) else actions.long().view(self.simulation.env.zero_action().shape)


class FinalObservations:
    """Base of an agent of skrl, the first one: the agent learns from the last observation of an episode that ends.

    class Agent(FinalObservations, PPO): ...
    """

    def record_transition(self, *, infos: dict[str, Any], **transition: Any) -> None:
        """As in skrl, with the next observations before episodes began again. Raises UserError for a part of them."""
        groups = infos["final_obs"]
        if len(groups["policy"]) != len(transition["next_observations"]):
            raise UserError(
                f"FinalObservations: the agent gets {len(transition['next_observations'])} of {len(groups['policy'])} "
                "environments. Allowed: one agent for all of them. Train with one agent."
            )
        transition |= {"next_observations": groups["policy"], "next_states": groups.get("privileged")}
        super().record_transition(infos=infos, **transition)  # type: ignore[misc]


def normaliser_of(preprocessor: Any) -> Normaliser:
    """The normaliser that an agent's `RunningStandardScaler` is. Raises UserError for another class."""
    if type(preprocessor) is not RunningStandardScaler:
        raise refused(f"the preprocessor {type(preprocessor).__name__}", "RunningStandardScaler")
    scale = torch.sqrt(preprocessor.running_variance.float()) + preprocessor.epsilon
    return Normaliser(preprocessor.running_mean.float(), scale, preprocessor.clip_threshold)
