"""A frozen policy: observation in, action out, nothing learned and nothing drawn from a global generator.

    policy = Policy(spec, train_config, num_envs=4, device="cpu")
    policy.load(state["model"])                       # strict
    memory = policy.first_memory()
    out = policy(obs, memory)                         # Distribution
    action = out.mode()                               # or out.sample(generator)

It is built from the very modules that rl_games trained, but calls the network under rl_games' model wrapper: that
wrapper samples from the global generator even for a deterministic action, and overwrites the observation it is given.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rl_games.algos_torch.model_builder import ModelBuilder
from torch import Tensor

from livegym.rl.config import model_params
from livegym.rl.spec import PolicySpec, Shapes, difference, shapes_of
from livegym.schema import PPOConfig
from livegym.tasks.base import ActionSpec, Box, Discrete
from livegym.utils.errors import UserError

Memory = tuple[Tensor, ...]
"""Recurrent state, each (layers, N, units); empty for a policy without memory."""


@dataclass(frozen=True)
class Distribution:
    """What a policy would do. Box: means and log standard deviations; else one tensor of logits per choice."""

    mean: Tensor | None  # (N, size)
    log_std: Tensor | None  # (N, size)
    logits: tuple[Tensor, ...]  # each (N, n)
    single: bool  # Discrete: actions are (N,), not (N, 1)
    memory: Memory

    def mode(self) -> Tensor:
        """The most likely action: (N, size) float32, or (N,) / (N, k) int64."""
        if self.mean is not None:
            return self.mean
        return self._choices([logits.argmax(1) for logits in self.logits])

    def sample(self, rng: torch.Generator) -> Tensor:
        """One draw from each environment's distribution, from `rng` alone."""
        if self.mean is not None and self.log_std is not None:
            noise = torch.randn(self.mean.shape, generator=rng, device=self.mean.device)
            return self.mean + self.log_std.exp() * noise
        return self._choices([_draw(logits, rng) for logits in self.logits])

    def log_prob(self, action: Tensor) -> Tensor:
        """(N,) log density or probability of actions, each as `mode` gives them; Box actions as they were drawn."""
        if self.mean is not None and self.log_std is not None:
            squares = ((action - self.mean) / self.log_std.exp()) ** 2
            return -(0.5 * squares + self.log_std + 0.5 * math.log(2 * math.pi)).sum(1)
        columns = action.reshape(len(action), -1).long()
        chosen = [torch.log_softmax(x, 1).gather(1, columns[:, i : i + 1]) for i, x in enumerate(self.logits)]
        return torch.cat(chosen, 1).sum(1)

    def entropy(self) -> Tensor:
        """(N,) in nats."""
        if self.log_std is not None:
            return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(1)
        logs = [torch.log_softmax(x, 1) for x in self.logits]
        return -torch.stack([(x.exp() * x).sum(1) for x in logs]).sum(0)

    def confidence(self, log_prob: Tensor) -> Tensor:
        """(N,) in [0, 1]: what actions of these log densities or probabilities (N,) are, relative to the likeliest."""
        return (log_prob - self.log_prob(self.mode())).exp().clamp(max=1.0)

    def _choices(self, columns: list[Tensor]) -> Tensor:
        return columns[0] if self.single else torch.stack(columns, dim=1)


def _draw(logits: Tensor, rng: torch.Generator) -> Tensor:
    """(N, n) -> (N,) one choice each, by the inverse of the cumulated probabilities: much faster than torch's own."""
    below = torch.softmax(logits, 1).cumsum(1)
    at = torch.rand(len(logits), 1, generator=rng, device=logits.device) * below[:, -1:]
    return (below <= at).sum(1).clamp(max=logits.shape[1] - 1)


class Misfit(UserError):
    """Weights of another shape, or for another task, than the policy they were offered to."""


class Policy:
    """The actor and its normaliser for N environments."""

    def __init__(self, spec: PolicySpec, train: PPOConfig, num_envs: int, device: str) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.device = torch.device(device)
        self._model: Any = build_model(spec, train, num_envs).to(self.device).eval()
        self._model.requires_grad_(False)
        self._tensors: dict[str, Tensor] = self._model.state_dict()  # of a frozen model: never bound anew
        self.shapes: Shapes = shapes_of(self._tensors)
        self._layout = [(name, value.dtype, value.shape) for name, value in self._tensors.items()]

    def load(self, model: Mapping[str, Tensor], other: PolicySpec | None = None) -> None:
        """Takes over weights and normaliser. Raises Misfit with a readable difference if they do not fit.

        `other` is what the weights were trained for, where that is known. Nothing is changed on refusal.
        """
        self.check(model, other)
        self.copy(model)

    def copy(self, model: Mapping[str, Tensor]) -> None:
        """Takes over weights and normaliser that `check` lets pass."""
        torch._foreach_copy_(list(self._tensors.values()), [model[name] for name in self._tensors])

    def check(self, model: Mapping[str, Tensor], other: PolicySpec | None = None) -> None:
        """Raises Misfit with a readable difference if weights do not fit; see `load`."""
        if other in (None, self.spec) and [(n, v.dtype, v.shape) for n, v in model.items()] == self._layout:
            return  # most are exchanged for their like: no need to look for differences
        differs = difference(self.spec, self.shapes, other, shapes_of(model))
        if differs is not None:
            raise Misfit(f"the policy does not fit: {differs}")

    def state(self) -> dict[str, Tensor]:
        """A copy of weights and normaliser."""
        return {name: value.clone() for name, value in self._model.state_dict().items()}

    def first_memory(self) -> Memory:
        """The recurrent state at the start of an episode."""
        states = self._model.get_default_rnn_state() if self._model.is_rnn() else ()
        return tuple(state.to(self.device) for state in states)

    @torch.no_grad()
    def __call__(self, obs: Tensor, memory: Memory = ()) -> Distribution:
        """obs (N, width) -> what the policy would do, and its next memory. `obs` is not changed."""
        return think(self._model, self.spec.action, obs, memory)[0]


def think(model: Any, action: ActionSpec, obs: Tensor, memory: Memory = ()) -> tuple[Distribution, Tensor]:
    """obs (N, width) -> what a model would do, and its normalised value (N, 1); `obs` is not changed."""
    out = model.a2c_network({"obs": model.norm_obs(obs), "rnn_states": memory or None})
    next_memory = tuple(out[-1]) if out[-1] is not None and memory else ()
    if isinstance(action, Box):
        return Distribution(out[0], out[1], (), False, next_memory), out[-2]
    single = isinstance(action, Discrete)
    return Distribution(None, None, (out[0],) if single else tuple(out[0]), single, next_memory), out[-2]


def build_model(spec: PolicySpec, train: PPOConfig, num_envs: int) -> torch.nn.Module:
    """The model as rl_games builds it, its weights drawn from the global generator, which stays as it was."""
    action = spec.action
    if isinstance(action, Box):
        actions_num: int | list[int] = action.size
    else:
        actions_num = action.n if isinstance(action, Discrete) else list(action.nvec)
    state = torch.get_rng_state()  # mostly the weights are thrown away
    with contextlib.redirect_stdout(io.StringIO()):  # its constructors print
        model = ModelBuilder().load(model_params(train.network, action))
        built = model.build(
            {
                "actions_num": actions_num,
                "input_shape": (spec.obs_width,),
                "num_seqs": num_envs,
                "value_size": 1,
                "normalize_value": train.normalize_value,
                "normalize_input": train.normalize_input,
            }
        )
    torch.set_rng_state(state)
    return built
