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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rl_games.algos_torch.model_builder import ModelBuilder
from torch import Tensor

from cfg.schema import PPOConfig
from rl.config import model_params
from rl.spec import PolicySpec, Shapes, difference, shapes_of
from tasks.base import Box, Discrete
from utils.errors import UserError

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
        draws = [torch.multinomial(torch.softmax(x, 1), 1, generator=rng).squeeze(1) for x in self.logits]
        return self._choices(draws)

    def _choices(self, columns: list[Tensor]) -> Tensor:
        return columns[0] if self.single else torch.stack(columns, dim=1)


class Policy:
    """The actor and its normaliser for N environments."""

    def __init__(self, spec: PolicySpec, train: PPOConfig, num_envs: int, device: str) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.device = torch.device(device)
        self._model: Any = _build(spec, train, num_envs).to(self.device).eval()
        self._model.requires_grad_(False)
        self._tensors: dict[str, Tensor] = self._model.state_dict()  # of a frozen model: never bound anew
        self.shapes: Shapes = shapes_of(self._tensors)
        self._layout = [(name, value.dtype, value.shape) for name, value in self._tensors.items()]

    def load(self, model: Mapping[str, Tensor], other: PolicySpec | None = None) -> None:
        """Takes over weights and normaliser. Raises UserError with a readable difference where they do not fit.

        `other` is what the weights were trained for, where that is known. Nothing is changed on refusal.
        """
        self.check(model, other)
        self.copy(model)

    def copy(self, model: Mapping[str, Tensor]) -> None:
        """Takes over weights and normaliser that `check` lets pass."""
        torch._foreach_copy_(list(self._tensors.values()), [model[name] for name in self._tensors])

    def check(self, model: Mapping[str, Tensor], other: PolicySpec | None = None) -> None:
        """Raises UserError with a readable difference where weights do not fit; see `load`."""
        if other in (None, self.spec) and [(n, v.dtype, v.shape) for n, v in model.items()] == self._layout:
            return  # most are exchanged for their like: no need to look for differences
        differs = difference(self.spec, self.shapes, other, shapes_of(model))
        if differs is not None:
            raise UserError(f"the policy does not fit: {differs}")

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
        inputs = {"obs": self._model.norm_obs(obs), "rnn_states": memory or None}
        out = self._model.a2c_network(inputs)
        next_memory = tuple(out[-1]) if out[-1] is not None and memory else ()
        if isinstance(self.spec.action, Box):
            return Distribution(out[0], out[1], (), False, next_memory)
        single = isinstance(self.spec.action, Discrete)
        return Distribution(None, None, (out[0],) if single else tuple(out[0]), single, next_memory)


def _build(spec: PolicySpec, train: PPOConfig, num_envs: int) -> torch.nn.Module:
    """The model as rl_games builds it; its constructors print."""
    action = spec.action
    if isinstance(action, Box):
        actions_num: int | list[int] = action.size
    else:
        actions_num = action.n if isinstance(action, Discrete) else list(action.nvec)
    state = torch.get_rng_state()  # initial weights are drawn and thrown away: leave the global generator alone
    with contextlib.redirect_stdout(io.StringIO()):
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
