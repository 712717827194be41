"""Trains Cartpole with PPO of rsl_rl, as a run that can be watched while it learns.

    python examples/train_rsl_rl.py
    python train.py config=test_stream checkpoint=latest testGamesNum=0      # in another terminal

It needs the extra rsl_rl: pip install 'livegym[rsl_rl]'
"""

from __future__ import annotations

import argparse
import copy

import torch

from livegym.learners.rsl_rl import RecordingRunner, RslRlEnv

NETWORK = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "elu", "obs_normalization": True}
SETTINGS = {
    "num_steps_per_env": 16,
    "save_interval": 50,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**NETWORK, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
    "critic": NETWORK,
    "algorithm": {
        "class_name": "PPO",
        "num_learning_epochs": 5,
        "num_mini_batches": 4,
        "learning_rate": 1e-3,
        "schedule": "adaptive",
        "desired_kl": 0.01,
        "gamma": 0.99,
        "lam": 0.95,
        "clip_param": 0.2,
        "entropy_coef": 0.0,
        "value_loss_coef": 1.0,
        "use_clipped_value_loss": True,
        "max_grad_norm": 1.0,
    },
}
"""rsl_rl's dictionary. A runner changes it, so each one needs a copy."""


def main() -> None:
    """Train with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="PPO of rsl_rl on a task of livegym")
    parser.add_argument("--task", default="Cartpole")
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    torch.set_num_threads(1)  # more would contend with the physics threads
    torch.manual_seed(asked.seed)
    env = RslRlEnv(asked.task, asked.envs, asked.seed)
    RecordingRunner(env, copy.deepcopy(SETTINGS)).learn(asked.iterations, init_at_random_ep_len=True)
    env.close()


if __name__ == "__main__":
    main()
