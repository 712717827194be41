"""Stable-Baselines3: a task as its VecEnv, and a callback that makes its training a run.

    from stable_baselines3 import PPO
    from livegym.learners.sb3 import RecordRun, SB3Env

    env = SB3Env("Cartpole", num_envs=64, seed=1)
    PPO("MlpPolicy", env, n_steps=32, batch_size=512).learn(300_000, callback=RecordRun())

`VecNormalize` may be around the environments: its statistics become the policy's normaliser.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from livegym.learners.actor import Actor, Normaliser, refused
from livegym.learners.missing import not_installed
from livegym.learners.recorder import Recorder
from livegym.learners.simulation import Simulation
from livegym.utils.errors import UserError

try:
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.distributions import (
        CategoricalDistribution,
        DiagGaussianDistribution,
        MultiCategoricalDistribution,
    )
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
    from stable_baselines3.common.vec_env import VecCheckNan, VecEnv, VecEnvWrapper, VecMonitor, VecNormalize
except ModuleNotFoundError as error:
    raise not_installed("Stable-Baselines3", "sb3") from error

PLAIN = (VecNormalize, VecMonitor, VecCheckNan)
"""Wrappers that leave observations as they are, or whose change can be described."""
ALLOWED = "MlpPolicy of PPO, A2C and other algorithms with an ActorCriticPolicy"


class SB3Env(VecEnv):
    """N environments of a task. Episodes restart by themselves; `infos` has their last observations and statistics."""

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
        s = self.simulation
        super().__init__(s.num_envs, s.observation_space, s.action_space)
        self._returns = np.zeros(s.num_envs)
        self._lengths = np.zeros(s.num_envs, dtype=int)
        self._actions = s.env.zero_action()

    def reset(self) -> np.ndarray:
        """Start a new episode in every environment: (N, width)."""
        self._returns[:] = 0
        self._lengths[:] = 0
        return self.simulation.reset()["policy"].cpu().numpy()

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for `step_wait`: (N, size), (N,) or (N, k)."""
        self._actions = torch.as_tensor(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Advance by one control step: observations (N, width), rewards (N,), dones (N,), one info for each."""
        step = self.simulation.step(self._actions)
        rewards = step.reward.cpu().numpy().copy()
        dones = (step.terminated | step.truncated).cpu().numpy()
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        final = step.final_obs["policy"].cpu().numpy()
        for i in np.flatnonzero(dones):
            infos[i] = {
                "terminal_observation": final[i],
                "TimeLimit.truncated": bool(step.truncated[i]),
                "episode": {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": 0.0},
            }
            self._returns[i] = 0
            self._lengths[i] = 0
        return step.obs["policy"].cpu().numpy(), rewards, dones, infos

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Draw from another seed from now on, as `PPO(..., seed=5)` asks for; None changes nothing."""
        if seed is not None:
            self.simulation.reseed(int(seed))
        return [seed] * self.num_envs

    def close(self) -> None:
        """End the simulator's threads."""
        self.simulation.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """This object's attribute, once for each environment; `render_mode` is None."""
        value = None if attr_name == "render_mode" else getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raises NotImplementedError: all environments are one object."""
        raise NotImplementedError(f"{attr_name}: the environments of a task have no attributes of their own")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Raises NotImplementedError: all environments are one object."""
        raise NotImplementedError(f"{method_name}: the environments of a task have no methods of their own")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False for each environment: wrappers go around all of them."""
        return [False for _ in self._get_indices(indices)]


class RecordRun(BaseCallback):
    """Makes a run of what is trained, to watch while it learns. Each iteration gives a policy version.

    Each call of `learn` is a run, and the next call closes one that failed. Inside `with RecordRun() as record:`, all
    calls are one run, which also ends whole if `learn` fails or is interrupted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recorder: Recorder | None = None
        self._stays_open = False
        self._updates = False  # an update follows before the next version

    def __enter__(self) -> RecordRun:
        self._stays_open = True
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._stays_open = False
        self._close(complete=kind is None)

    def _on_training_start(self) -> None:
        """Create the run. Raises UserError for a policy or a wrapper that cannot be described."""
        if not self._stays_open:
            self._close(complete=False)  # it is left over if the last `learn` failed
        if self.recorder is None:
            simulation = _inner(self.training_env).simulation
            name = f"Stable-Baselines3 {stable_baselines3.__version__} {type(self.model).__name__}"
            self.recorder = Recorder(simulation, self.actor, name)
        self._updates = False

    def actor(self) -> Actor:
        """The part of the model that acts."""
        return actor_of(self.model, self.training_env)

    def _on_rollout_start(self) -> None:
        self._note()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._updates = True

    def _on_training_end(self) -> None:
        self._note()
        if not self._stays_open:
            self._close(complete=True)

    def _note(self) -> None:
        if self.recorder is not None and self._updates:
            values = self.model.logger.name_to_value
            losses = {f"losses/{k.removeprefix('train/')}": v for k, v in values.items() if k.startswith("train/")}
            self.recorder.note({k: float(v) for k, v in losses.items() if isinstance(v, (int, float, np.number))})
        self._updates = False

    def _close(self, complete: bool) -> None:
        if self.recorder is not None:
            self.recorder.close(complete)
            self.recorder = None


def actor_of(model: Any, env: VecEnv) -> Actor:
    """The part of a model that acts. Raises UserError, which names what cannot be described."""
    policy = model.policy
    if type(policy) is not ActorCriticPolicy:
        raise refused(f"{type(model).__name__} with {type(policy).__name__}", ALLOWED)
    if type(policy.features_extractor) is not FlattenExtractor or type(policy.mlp_extractor) is not MlpExtractor:
        parts = f"{type(policy.features_extractor).__name__} and {type(policy.mlp_extractor).__name__}"
        raise refused(parts, "FlattenExtractor and MlpExtractor, which MlpPolicy has")
    if policy.use_sde:
        raise refused("use_sde=True", "use_sde=False")
    layers = [*policy.mlp_extractor.policy_net, policy.action_net]
    if type(policy.action_dist) is DiagGaussianDistribution:
        return Actor(layers, policy.log_std, _normaliser(env))
    if type(policy.action_dist) in (CategoricalDistribution, MultiCategoricalDistribution):
        return Actor(layers, None, _normaliser(env))
    raise refused(type(policy.action_dist).__name__, "a diagonal Gaussian, or categorical choices")


def _wrappers(env: VecEnv) -> list[VecEnv]:
    """The environments and what is around them, the outermost first."""
    found = [env]
    while isinstance(found[-1], VecEnvWrapper):
        found.append(found[-1].venv)
    return found


def _inner(env: VecEnv) -> SB3Env:
    """The environments inside the wrappers. Raises UserError for others than ours, and for wrappers that hide them."""
    *around, inner = _wrappers(env)
    for wrapper in around:
        if type(wrapper) not in PLAIN:
            raise refused(f"the wrapper {type(wrapper).__name__}", ", ".join(kind.__name__ for kind in PLAIN))
    if not isinstance(inner, SB3Env):
        raise UserError(
            f"RecordRun: the environments are {type(inner).__name__}. Allowed: livegym.learners.sb3.SB3Env, because a "
            "run belongs to a task of livegym. Train on SB3Env(task), or leave RecordRun out."
        )
    return inner


def _normaliser(env: VecEnv) -> Normaliser | None:
    found = [w for w in _wrappers(env) if isinstance(w, VecNormalize) and w.norm_obs]
    if len(found) > 1:
        raise refused("several VecNormalize", "one VecNormalize that normalises observations")
    if not found:
        return None
    stats: Any = found[0].obs_rms
    scale = np.sqrt(stats.var + found[0].epsilon)
    return Normaliser(torch.as_tensor(stats.mean), torch.as_tensor(scale), float(found[0].clip_obs))
