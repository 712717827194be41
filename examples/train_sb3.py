"""Trains Cartpole with PPO of Stable-Baselines3, as a run that can be watched while it learns.

    python examples/train_sb3.py
    python train.py config=test_stream checkpoint=latest testGamesNum=0      # in another terminal

It needs the extra sb3: pip install 'livegym[sb3]'
"""

from __future__ import annotations

import argparse

from livegym.learners.sb3 import RecordRun, SB3Env  # isort: skip  # first: it says how to install what is missing

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize


def main() -> None:
    """Train with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="PPO of Stable-Baselines3 on a task of livegym")
    parser.add_argument("--task", default="Cartpole")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400_000, help="control steps of all environments")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    torch.set_num_threads(1)  # more would contend with the physics threads
    env = VecNormalize(SB3Env(asked.task, asked.envs, asked.seed), gamma=0.99)
    model = PPO(
        "MlpPolicy", env, n_steps=32, batch_size=asked.envs * 8, n_epochs=8, learning_rate=1e-3, seed=asked.seed
    )
    with RecordRun() as record:
        model.learn(asked.steps, callback=record)
    env.close()


if __name__ == "__main__":
    main()
