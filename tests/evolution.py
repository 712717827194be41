"""An evolution strategy on a linear policy (Salimans et al. 2017, arXiv:1703.03864), as a project brings an algorithm.

Each environment plays one episode of a policy of its own: the present one, disturbed. Half of the disturbances are the
other half with the sign turned. The policy moves towards those that earned more, by their ranks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from livegym.rl.algorithm import Algorithm, Network
from livegym.rl.distribution import Distribution, RecurrentState
from livegym.rl.divergence import Cause
from livegym.rl.learner import Gained, Learner
from livegym.rl.spec import PolicySpec, shape_difference, shapes_of, spec_of
from livegym.schema.keydoc import key
from livegym.schema.train import TrainConfig
from livegym.tasks.base import Box
from livegym.tasks.env import Env
from livegym.tasks.stats import Largest
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag


@dataclass
class EvolutionConfig(TrainConfig):
    """Its keys of `train.*`."""

    steps: int = key(100, "control steps of an iteration, at most", low=1)
    disturbance: float = key(1.0, "standard deviation of the disturbances", above=0)
    step_size: float = key(3.0, "how far the policy moves", above=0)

    def check(self, num_envs: int) -> None:
        """Raises UserError if the environments do not come in pairs."""
        if num_envs % 2:
            raise UserError(f"numEnvs={num_envs}: disturbances come in pairs. Allowed: an even number.")


class LinearNetwork(Network):
    """actions = weight x observation + bias, with a little noise."""

    def __init__(self, spec: PolicySpec) -> None:
        if not isinstance(spec.action, Box):
            raise UserError(f"train.algorithm=evolution: {spec.task} has choices. Allowed: tasks with Box actions.")
        self.module = nn.Linear(spec.obs_width, spec.action.size)

    def __call__(self, obs: Tensor, memory: RecurrentState = ()) -> Distribution:
        mean = self.module(obs)
        return Distribution(mean, torch.full_like(mean, -3.0), (), False, ())


class EvolutionLearner(Learner):
    """One generation an iteration."""

    def __init__(self, env: Env, config: EvolutionConfig, max_iterations: int, stop: StopFlag) -> None:
        super().__init__(env, max_iterations, stop)
        self.config = config
        self.module = LinearNetwork(spec_of(env)).module.requires_grad_(False)

    def cause_of_divergence(self, largest: Largest) -> Cause:
        return Cause(remedy="train.step_size=<lower>")

    def improve(self) -> Gained:
        start = time.perf_counter()
        present = parameters_to_vector(self.module.parameters())
        half = torch.randn(self.env.num_envs // 2, len(present))
        noise = torch.cat([half, -half])  # (N, P)
        scores, lengths, frames = self._play(present + self.config.disturbance * noise)
        played = time.perf_counter()
        ranks = scores.argsort().argsort() / (len(scores) - 1) - 0.5  # (N,)
        vector_to_parameters(present + self.config.step_size * (ranks @ noise) / len(ranks), self.module.parameters())
        return Gained(
            frames=frames,
            step_seconds=played - start,
            update_seconds=time.perf_counter() - played,
            mean_return=scores.mean().item(),
            mean_length=lengths.mean().item(),
            mean_is_full=len(scores) >= self.config.games_to_track,
            losses={"evolution/best": scores.max().item()},
        )

    def _play(self, policies: Tensor) -> tuple[Tensor, Tensor, int]:
        """policies (N, P) -> return (N,) and length (N,) of an episode of each, and the frames that it took."""
        count, width = len(policies), self.module.in_features
        weight = policies[:, : -self.module.out_features].view(count, -1, width)
        bias = policies[:, -self.module.out_features :]
        obs, playing = self.env.reset()["policy"], torch.ones(count, dtype=torch.bool)
        scores, lengths, steps = torch.zeros(count), torch.zeros(count), 0
        while playing.any() and steps < self.config.steps:
            self.check_patience()
            step = self.env.step(torch.einsum("nao,no->na", weight, obs) + bias)
            scores += step.reward * playing
            lengths += playing
            playing &= ~(step.terminated | step.truncated)
            obs, steps = step.obs["policy"], steps + 1
        return scores, lengths, steps * count

    def policy_state(self) -> dict[str, Tensor]:
        return dict(self.module.state_dict())

    def state(self) -> dict[str, Any]:
        return {"model": self.policy_state()}

    def check_weights(self, state: dict[str, Any]) -> None:
        differs = shape_difference(shapes_of(self.policy_state()), shapes_of(state["model"]))
        if differs is not None:
            raise UserError(f"the checkpoint's policy is not this run's: {differs}")

    def load_weights(self, state: dict[str, Any]) -> None:
        self.check_weights(state)
        self.module.load_state_dict(state["model"])

    load_state = load_weights


class Evolution(Algorithm[EvolutionConfig]):
    """What `train.algorithm=evolution` chooses."""

    Config = EvolutionConfig

    def learner(
        self, env: Env, config: EvolutionConfig, max_iterations: int, device: str, stop: StopFlag
    ) -> EvolutionLearner:
        return EvolutionLearner(env, config, max_iterations, stop)

    def network(self, spec: PolicySpec, config: EvolutionConfig, num_envs: int) -> LinearNetwork:
        return LinearNetwork(spec)


make = Evolution
