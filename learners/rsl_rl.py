"""rsl_rl: a task as its VecEnv, and a runner whose training is a run.

    from livegym.learners.rsl_rl import RecordingRunner, RslRlEnv

    env = RslRlEnv("Cartpole", num_envs=512, seed=1)
    RecordingRunner(env, settings).learn(100)      # settings: rsl_rl's dictionary, with an actor of class MLPModel

The observation groups are named as in the task's yaml: `policy`, and `privileged` if a critic may see more. Only a
policy that reads `policy` alone can be watched.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from livegym.cfg.typed import as_dict
from livegym.learners.actor import Actor, Normaliser, refused
from livegym.learners.missing import not_installed
from livegym.learners.recorder import Recorder
from livegym.learners.simulation import Simulation
from livegym.tasks.base import Box
from livegym.utils.errors import UserError

try:
    from rsl_rl.env import VecEnv
    from rsl_rl.models import MLPModel
    from rsl_rl.modules import EmpiricalNormalization
    from rsl_rl.modules.distribution import GaussianDistribution
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict
except ModuleNotFoundError as error:
    raise not_installed("rsl_rl", "rsl_rl") from error

GROUP = "policy"
"""The observation group that a policy may read."""


class RslRlEnv(VecEnv):
    """N environments of a task. Its time limits are reported as `time_outs`, so that values are bootstrapped."""

    def __init__(
        self,
        task: str,
        num_envs: int | None = None,
        seed: int | None = None,
        overrides: Sequence[str] = (),
        project_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """See `Simulation`. Raises UserError for a task with discrete actions, which rsl_rl does not have."""
        self.simulation = Simulation(task, num_envs, seed, overrides, project_dir)
        env = self.simulation.env
        if not isinstance(env.task.action_spec, Box):
            self.simulation.close()
            raise UserError(
                f"task={task}: its action is {env.task.action_spec}. Allowed: a Box, because rsl_rl has continuous "
                "actions only. Choose another task, or another library: livegym.learners.sb3 has discrete actions."
            )
        self.num_envs = env.num_envs
        self.num_actions = env.task.action_spec.size
        self.max_episode_length = env.max_length
        self.device = env.sim.device
        self.cfg = as_dict(self.simulation.config)
        self._obs = self._named(self.simulation.reset())

    @property
    def episode_length_buf(self) -> Tensor:
        """(N,) int64 control steps of the running episodes; what is assigned to it counts towards the time limit."""
        return self.simulation.env.episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, value: Tensor) -> None:
        """(N,); `learn` draws first lengths if `init_at_random_ep_len` is true."""
        self.simulation.env.episode_length.copy_(value)

    def get_observations(self) -> TensorDict:
        """The observations for the next action: group -> (N, width)."""
        return self._obs.clone()

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Advance by one control step: (N, size) -> observations, rewards (N,), dones (N,) int64, extras.

        rsl_rl collects in inference mode. Its tensors could not be changed in place afterwards, so the mode is left.
        """
        with torch.inference_mode(False), torch.no_grad():
            step = self.simulation.step(actions.clone())
            self._obs = self._named(step.obs)
            dones = (step.terminated | step.truncated).long()
        return self._obs.clone(), step.reward, dones, {"time_outs": step.truncated}

    def close(self) -> None:
        """End the simulator's threads."""
        self.simulation.close()

    def _named(self, groups: dict[str, Tensor]) -> TensorDict:
        return TensorDict(groups, batch_size=[self.simulation.num_envs])


class RecordingRunner(OnPolicyRunner):
    """An OnPolicyRunner whose training is a run that can be watched while it learns. Each call of `learn` is a run."""

    logger: Any

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """See OnPolicyRunner. Raises UserError for an actor that cannot be described, before anything is written."""
        if self.is_distributed:
            raise UserError(
                f"WORLD_SIZE={self.gpu_world_size}: a run has one writer. Allowed: one process. Train with "
                "OnPolicyRunner on several, without recording."
            )
        if not isinstance(self.env, RslRlEnv):
            raise UserError(
                f"RecordingRunner: the environments are {type(self.env).__name__}. Allowed: "
                "livegym.learners.rsl_rl.RslRlEnv, because a run belongs to a task of livegym. Use RslRlEnv(task), or "
                "OnPolicyRunner."
            )
        name = f"rsl_rl {importlib.metadata.version('rsl-rl-lib')} {type(self.alg).__name__}"
        own = self.logger
        with Recorder(self.env.simulation, self.actor, name) as recorder:
            self.logger = _Noting(own, recorder)
            try:
                super().learn(num_learning_iterations, init_at_random_ep_len)
            finally:
                self.logger = own

    def actor(self) -> Actor:
        """The part of the model that acts."""
        return actor_of(self.alg.get_policy())


class _Noting:
    """The runner's logger, which it calls after each update; a policy version is noted before that."""

    def __init__(self, logger: Any, recorder: Recorder) -> None:
        self._logger = logger
        self._recorder = recorder

    def log(self, **facts: Any) -> None:
        """Note the version, then log as the library does."""
        losses = {f"losses/{name}": float(value) for name, value in facts["loss_dict"].items()}
        self._recorder.note({**losses, "info/last_lr": float(facts["learning_rate"])})
        self._logger.log(**facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)


def actor_of(policy: Any) -> Actor:
    """The part of a policy that acts. Raises UserError, which names what cannot be described."""
    model = getattr(policy, "_orig_mod", policy)  # without torch.compile's wrapper
    if type(model) is not MLPModel:
        raise refused(f"an actor of class {type(model).__name__}", "MLPModel")
    if list(model.obs_groups) != [GROUP]:
        raise refused(
            f"an actor that reads the groups {', '.join(model.obs_groups)}", f'obs_groups["actor"]=["{GROUP}"]'
        )
    distribution = model.distribution
    if type(distribution) is not GaussianDistribution:
        name = type(distribution).__name__ if distribution is not None else "no distribution"
        raise refused(f"an actor with {name}", "GaussianDistribution")
    return Actor(list(model.mlp), _log_std(distribution), _normaliser(model.obs_normalizer))


def _log_std(distribution: Any) -> Tensor:
    if distribution.std_type == "log":
        return distribution.log_std_param.detach().clamp(*distribution.log_std_range)
    return distribution.std_param.detach().clamp(*distribution.std_range).log()


def _normaliser(normaliser: Any) -> Normaliser | None:
    if isinstance(normaliser, torch.nn.Identity):
        return None
    if type(normaliser) is not EmpiricalNormalization:
        raise refused(f"the normaliser {type(normaliser).__name__}", "EmpiricalNormalization")
    return Normaliser(normaliser.mean, normaliser.std + normaliser.eps)
