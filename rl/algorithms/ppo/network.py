"""The acting network and its critic, built from the same modules that rl_games trains.

The network inside rl_games' model wrapper is called directly: the wrapper samples from the global generator even for a
deterministic action, and overwrites its input observation.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.algos_torch.running_mean_std import RunningMeanStd
from torch import Tensor

from livegym.rl.algorithm import ActorCriticNetwork
from livegym.rl.algorithms.ppo.params import model_params
from livegym.rl.algorithms.ppo.settings import PPOConfig
from livegym.rl.distribution import Distribution, RecurrentState
from livegym.rl.spec import PolicySpec
from livegym.tasks.base import Box, Discrete


class PPONetwork(ActorCriticNetwork):
    """Actor, critic and their normalisers, for N environments."""

    def __init__(self, spec: PolicySpec, config: PPOConfig, num_envs: int) -> None:
        self._action = spec.action
        model: Any = build_model(spec, config, num_envs)
        self._model = model
        self.module = model
        self.log_std = model.a2c_network.sigma if isinstance(spec.action, Box) else None
        self.discount = config.gamma
        self.grad_norm = config.grad_norm

    def __call__(self, obs: Tensor, memory: RecurrentState = ()) -> Distribution:
        """See `Network`."""
        return self._think(obs, memory)[0]

    def first_memory(self) -> RecurrentState:
        """See `Network`."""
        return tuple(self._model.get_default_rnn_state()) if self._model.is_rnn() else ()

    def make_traceable(self) -> None:
        """rl_games' normalisers are TorchScript, which `torch.export` cannot follow: use the same code in Python."""
        for name in ("running_mean_std", "value_mean_std"):
            scripted = getattr(self._model, name, None)
            if scripted is not None:
                with contextlib.redirect_stdout(io.StringIO()):  # its constructor prints
                    plain = RunningMeanStd(tuple(scripted.running_mean.shape))
                plain.load_state_dict(scripted.state_dict(), strict=True)
                setattr(self._model, name, plain.eval())

    def usual_input(self) -> tuple[Tensor, Tensor] | None:
        """See `Network`."""
        if not self._model.normalize_input:
            return None
        seen = self._model.running_mean_std
        return seen.running_mean.float(), seen.running_var.float().sqrt()

    def think(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """See `ActorCriticNetwork`."""
        return self._think(obs, ())

    def take_in(self, obs: Tensor, returns: Tensor) -> None:
        """See `ActorCriticNetwork`."""
        if len(obs) and self._model.normalize_input:
            _take_in(self._model.running_mean_std, obs)
        if len(returns) and self._model.normalize_value:
            _take_in(self._model.value_mean_std, returns[:, None])

    def forget_returns(self) -> None:
        """See `ActorCriticNetwork`."""
        if self._model.normalize_value:
            normaliser = self._model.value_mean_std
            normaliser.running_mean = torch.zeros_like(normaliser.running_mean)
            normaliser.running_var = torch.ones_like(normaliser.running_var)
            normaliser.count = torch.ones_like(normaliser.count)

    def value_of(self, output: Tensor) -> Tensor:
        """See `ActorCriticNetwork`."""
        value: Tensor = self._model.denorm_value(output).squeeze(1)
        return value

    def output_for(self, value: Tensor) -> Tensor:
        """See `ActorCriticNetwork`."""
        if not self._model.normalize_value:
            return value
        output: Tensor = self._model.value_mean_std(value[:, None]).squeeze(1)
        return output

    def value_std(self) -> Tensor | float:
        """See `ActorCriticNetwork`."""
        if not self._model.normalize_value:
            return 1.0
        std: Tensor = (self._model.value_mean_std.running_var.float() + self._model.value_mean_std.epsilon).sqrt()
        return std

    def _think(self, obs: Tensor, memory: RecurrentState) -> tuple[Distribution, Tensor]:
        """obs (N, width) -> action distribution and normalised value (N, 1)."""
        model = self._model
        out = model.a2c_network({"obs": model.norm_obs(obs), "rnn_states": memory or None})
        next_memory = tuple(out[-1]) if out[-1] is not None and memory else ()
        if isinstance(self._action, Box):
            return Distribution(out[0], out[1], (), False, next_memory), out[-2]
        single = isinstance(self._action, Discrete)
        return Distribution(None, None, (out[0],) if single else tuple(out[0]), single, next_memory), out[-2]


def _take_in(normaliser: Any, values: Tensor) -> None:
    normaliser.train()
    normaliser(values)
    normaliser.eval()


def build_model(spec: PolicySpec, config: PPOConfig, num_envs: int) -> torch.nn.Module:
    """The model as rl_games builds it. The global generator draws its weights, and is restored to its state before."""
    action = spec.action
    if isinstance(action, Box):
        actions_num: int | list[int] = action.size
    else:
        actions_num = action.n if isinstance(action, Discrete) else list(action.nvec)
    state = torch.get_rng_state()  # usually other weights are loaded, so building must not affect later draws
    with contextlib.redirect_stdout(io.StringIO()):  # its constructors print
        model = ModelBuilder().load(model_params(config.network, action))
        built = model.build(
            {
                "actions_num": actions_num,
                "input_shape": (spec.obs_width,),
                "num_seqs": num_envs,
                "value_size": 1,
                "normalize_value": config.normalize_value,
                "normalize_input": config.normalize_input,
            }
        )
    torch.set_rng_state(state)
    return built
