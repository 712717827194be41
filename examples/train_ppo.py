"""Proximal policy optimisation in one file, as a run that can be watched while it learns.

    python examples/train_ppo.py
    python train.py config=test_stream checkpoint=latest testGamesNum=0      # in another terminal

The algorithm is that of Schulman et al. 2017 (arXiv:1707.06347), with generalised advantage estimation (Schulman et al.
2016, arXiv:1506.02438). It needs torch and livegym, and nothing else: a start for an algorithm of your own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from livegym.learners.actor import Actor
from livegym.learners.recorder import Recorder
from livegym.learners.simulation import Simulation

HORIZON = 32  # control steps of each environment between two updates
EPOCHS, MINIBATCHES = 4, 4
LEARNING_RATE = 1e-3
GAMMA, LAMBDA = 0.99, 0.95
CLIP = 0.2  # of the probability ratio
VALUE_WEIGHT = 0.5
MAX_GRAD_NORM = 0.5
REWARD_SCALE = 0.1  # keeps the returns in the range in which a network learns them quickly


class ActorCritic(nn.Module):
    """A policy and its critic, which share no layers."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.actor = layers(observations, actions, last_gain=0.01)
        self.critic = layers(observations, 1, last_gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(actions))

    def policy(self, obs: Tensor) -> Normal:
        """(n, observations) -> the distribution of the actions (n, actions)."""
        return Normal(self.actor(obs), self.log_std.exp())

    def value(self, obs: Tensor) -> Tensor:
        """(n, observations) -> (n,)."""
        values: Tensor = self.critic(obs).squeeze(1)
        return values


def layers(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Two hidden layers with orthogonal weights."""
    net = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))
    for layer, gain in zip((net[0], net[2], net[4]), (2**0.5, 2**0.5, last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return net


@dataclass(frozen=True)
class Batch:
    """The steps of one rollout, (HORIZON * N, ...) each."""

    obs: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor


@torch.no_grad()
def collect(simulation: Simulation, model: ActorCritic, obs: Tensor) -> tuple[Batch, Tensor]:
    """One rollout from observations (N, width). Returns its batch and the observations after it."""
    seen, acted, log_probs, values, next_values, rewards, goes_on = ([] for _ in range(7))
    for _ in range(HORIZON):
        policy = model.policy(obs)
        action = policy.sample()
        step = simulation.step(action)
        seen.append(obs)
        acted.append(action)
        log_probs.append(policy.log_prob(action).sum(1))
        values.append(model.value(obs))
        # the value of what followed, which is that of the episode's last observation if a time limit ended it
        next_values.append(model.value(step.final_obs["policy"]) * ~step.terminated)
        rewards.append(REWARD_SCALE * step.reward)
        goes_on.append(~(step.terminated | step.truncated))
        obs = step.obs["policy"]
    advantages, running = [torch.zeros_like(rewards[0])] * HORIZON, torch.zeros_like(rewards[0])
    for t in reversed(range(HORIZON)):
        error = rewards[t] + GAMMA * next_values[t] - values[t]
        running = error + GAMMA * LAMBDA * running * goes_on[t]
        advantages[t] = running
    returns = [a + v for a, v in zip(advantages, values, strict=True)]
    return Batch(*(torch.cat(part) for part in (seen, acted, log_probs, advantages, returns))), obs


def update(model: ActorCritic, optimizer: torch.optim.Optimizer, batch: Batch) -> dict[str, float]:
    """Several passes over a batch. Returns the last losses by their names in TensorBoard."""
    size = len(batch.obs)
    losses: dict[str, float] = {}
    for _ in range(EPOCHS):
        for rows in torch.randperm(size).chunk(MINIBATCHES):
            advantage = batch.advantages[rows]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            obs = batch.obs[rows]
            ratio = (model.policy(obs).log_prob(batch.actions[rows]).sum(1) - batch.log_probs[rows]).exp()
            surrogate = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
            value_loss = (model.value(obs) - batch.returns[rows]).square().mean()
            loss = VALUE_WEIGHT * value_loss - surrogate.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            losses = {"losses/policy": -surrogate.mean().item(), "losses/value": value_loss.item()}
    return losses


def main() -> None:
    """Train with the arguments of the command line."""
    parser = argparse.ArgumentParser(description="PPO in one file on a task of livegym")
    parser.add_argument("--task", default="Cartpole", help="a task with continuous actions")
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    torch.set_num_threads(1)  # more would contend with the physics threads
    torch.manual_seed(asked.seed)
    simulation = Simulation(asked.task, asked.envs, asked.seed)
    obs = simulation.reset()["policy"]
    model = ActorCritic(obs.shape[1], simulation.action_space.shape[0])
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, eps=1e-5)

    def actor() -> Actor:
        return Actor(list(model.actor), model.log_std)

    with Recorder(simulation, actor, "PPO in one file") as recorder:
        for _ in range(asked.iterations):
            batch, obs = collect(simulation, model, obs)
            recorder.note(update(model, optimizer, batch))
    simulation.close()


if __name__ == "__main__":
    main()
