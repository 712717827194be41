"""Trains Cartpole with PPO of skrl, as a run that can be watched while it learns.

    python examples/train_skrl.py
    python train.py config=test_stream checkpoint=latest testGamesNum=0      # in another terminal

It needs the extra skrl: pip install 'livegym[skrl]'
"""

from __future__ import annotations

import argparse
from typing import Any

from livegym.learners.skrl import FinalObservations, SkrlEnv, normaliser_of  # isort: skip  # first: it says what is missing

import torch
from skrl.agents.torch.ppo import PPO
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from torch import Tensor, nn

from livegym.learners.actor import Actor
from livegym.learners.recorder import Recorder


def layers(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of 64."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, outputs))


class Policy(GaussianMixin, Model):
    """Means by a perceptron, and standard deviations that do not depend on the observation."""

    def __init__(self, env: SkrlEnv) -> None:
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        GaussianMixin.__init__(self)
        self.net = layers(self.num_observations, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: dict[str, Tensor], role: str) -> tuple[Tensor, dict[str, Any]]:
        """(N, width) -> means (N, size)."""
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    """Values by a perceptron."""

    def __init__(self, env: SkrlEnv) -> None:
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.net = layers(self.num_observations, 1)

    def compute(self, inputs: dict[str, Tensor], role: str) -> tuple[Tensor, dict[str, Any]]:
        """(N, width) -> values (N, 1)."""
        return self.net(inputs["observations"]), {}


class RecordedPPO(FinalObservations, PPO):
    """skrl's PPO, with right values at time limits. Each update gives a policy version of the run."""

    recorder: Recorder

    def actor(self) -> Actor:
        """The part of the models that acts."""
        return Actor(list(self.policy.net), self.policy.log_std, normaliser_of(self._observation_preprocessor))

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Update as skrl does, and note the version."""
        super().update(timestep=timestep, timesteps=timesteps)
        self.recorder.note()


def main() -> None:
    """Train with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="PPO of skrl on a task of livegym")
    parser.add_argument("--task", default="Cartpole")
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    torch.set_num_threads(1)  # more would contend with the physics threads
    torch.manual_seed(asked.seed)
    env = SkrlEnv(asked.task, asked.envs, asked.seed)
    agent = RecordedPPO(
        models={"policy": Policy(env), "value": Value(env)},
        memory=RandomMemory(memory_size=16, num_envs=env.num_envs, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg={
            "rollouts": 16,
            "learning_epochs": 8,
            "mini_batches": 4,
            "learning_rate": 1e-3,
            "time_limit_bootstrap": True,
            "observation_preprocessor": RunningStandardScaler,
            "observation_preprocessor_kwargs": {"size": env.observation_space, "device": env.device},
            "value_preprocessor": RunningStandardScaler,
            "value_preprocessor_kwargs": {"size": 1, "device": env.device},
            "experiment": {"write_interval": 0, "checkpoint_interval": 0},
        },
    )
    trainer = {"timesteps": 16 * asked.iterations, "headless": True, "disable_progressbar": True,
               "close_environment_at_exit": False}  # fmt: skip
    with Recorder(env.simulation, agent.actor, "skrl PPO") as agent.recorder:
        SequentialTrainer(cfg=trainer, env=env, agents=agent).train()
    env.close()


if __name__ == "__main__":
    main()
