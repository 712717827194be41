"""A training run of another library until the file `stop` exists; test_adapters_live.py watches it.

    python tests/watched_training.py sb3

Before each version is recorded, `said/<version>.npz` gets observations and the library's own actions for them.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import numpy as np
import torch

OVERRIDES = ["sim.threads=1", "saveInterval=1", "publishInterval=0.05", "keepLast=null"]


class Stopped(Exception):
    """Raised in the middle of a rollout if the file `stop` exists."""


def write_down(version: int, actions_for) -> None:
    """Writes random observations of several sizes, and the actions for them."""
    rng = np.random.default_rng(version)
    obs = (10 ** rng.uniform(-2, 1, (32, 1)) * rng.standard_normal((32, 4))).astype(np.float32)
    np.savez(Path("said") / f"{version}.npz", obs=obs, actions=actions_for(obs))


def sb3() -> None:
    """Stable-Baselines3, with a normaliser."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    from livegym.learners.sb3 import RecordRun, SB3Env

    class Watched(RecordRun):
        def actor(self):
            env = self.model.get_vec_normalize_env()
            version = self.recorder.version + 1 if self.recorder is not None else 0
            write_down(version, lambda obs: self.model.predict(env.normalize_obs(obs), deterministic=True)[0])
            return super().actor()

        def _on_step(self) -> bool:
            if Path("stop").exists():
                raise Stopped
            return True

    env = VecNormalize(SB3Env("Cartpole", num_envs=8, seed=1, overrides=OVERRIDES))
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=64, n_epochs=2, learning_rate=1e-3, seed=1)
    with Watched() as record:
        model.learn(10_000_000, callback=record)


def rsl_rl() -> None:
    """rsl_rl, with a normaliser."""
    from tensordict import TensorDict

    from examples.train_rsl_rl import SETTINGS
    from livegym.learners.rsl_rl import RecordingRunner, RslRlEnv

    class Watched(RecordingRunner):
        versions = 0

        def actor(self):
            policy = self.alg.get_policy()

            def actions_for(obs: np.ndarray) -> np.ndarray:
                groups = TensorDict({"policy": torch.as_tensor(obs)}, batch_size=[len(obs)])
                with torch.no_grad():
                    return policy(groups).clamp(-1, 1).numpy()

            write_down(self.versions, actions_for)
            self.versions += 1
            return super().actor()

    class Stoppable(RslRlEnv):
        def step(self, actions):
            if Path("stop").exists():
                raise Stopped
            return super().step(actions)

    env = Stoppable("Cartpole", num_envs=8, seed=1, overrides=OVERRIDES)
    Watched(env, copy.deepcopy(SETTINGS)).learn(1_000_000)


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        {"sb3": sb3, "rsl_rl": rsl_rl}[sys.argv[1]]()
    except Stopped:
        print("stopped")
