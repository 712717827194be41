"""Policies that another library trains, and that livegym plays: the network is described by data, not by code.

The configuration of such a run (`learners/recorder.py`) has `train.algorithm: external`. The other keys of `train.*`
describe the part of the network that acts:

    observation -> (observation - mean) / scale, clipped -> Linear, activation, ..., Linear -> mean, or logits

The observation is normalised if `normalize_input` is true. A Box action has a normal distribution with a standard
deviation that does not depend on the observation; discrete choices have logits. A critic is not stored, because nothing
that plays a policy needs it. So such a policy cannot be trained here: its library continues its training.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NoReturn, Optional, cast

import torch
from torch import Tensor, nn

from livegym.rl.activations import ACTIVATIONS
from livegym.rl.algorithm import Algorithm, Network
from livegym.rl.distribution import Distribution, RecurrentState
from livegym.rl.spec import PolicySpec
from livegym.schema.keydoc import key
from livegym.schema.train import TrainConfig
from livegym.tasks.base import Box, Discrete
from livegym.utils.errors import UserError

if TYPE_CHECKING:
    from livegym.rl.learner import Learner
    from livegym.tasks.env import Env
    from livegym.utils.signals import StopFlag


@dataclass
class ExternalConfig(TrainConfig):
    """The description of a network that another library trains."""

    trains: ClassVar[bool] = False

    learner: str = key("another library", "library and algorithm that train the policy")
    units: list[int] = key([64, 64], "sizes of the actor's hidden layers", low=1, high=65536)
    activation: str = key("tanh", "activation of the hidden layers", choices=tuple(ACTIVATIONS))
    normalize_input: bool = key(False, "normalise observations by a mean and a scale, which are stored with the policy")
    clip_input: Optional[float] = key(None, "limit of normalised observations, on both sides; null: none", above=0)

    def check(self, num_envs: int) -> None:
        """Raises UserError: such policies are not trained here."""
        refuse_training(self)

    def unused(self) -> dict[str, str]:
        """See `TrainConfig`."""
        return {} if self.normalize_input else {"clip_input": "train.normalize_input=true"}


def refuse_training(config: ExternalConfig) -> NoReturn:
    """Raises the UserError for an attempt to train such a policy here."""
    raise UserError(
        f"train.algorithm=external: policies of {config.learner} are played here, not trained. Allowed: config=test "
        "and its viewers. To train: train=<Task>PPO, or continue in the library itself (docs/other-learners.md)"
    )


class _Actor(nn.Module):
    """The layers that act, and the normaliser in front of them."""

    mean: Tensor
    scale: Tensor

    def __init__(self, spec: PolicySpec, config: ExternalConfig) -> None:
        super().__init__()
        action = spec.action
        outputs = action.width if action.choices is None else sum(action.choices)
        widths = (spec.obs_width, *config.units, outputs)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.activation = ACTIVATIONS[config.activation]()
        self.normalises = config.normalize_input
        self.clip = config.clip_input
        if isinstance(action, Box):
            self.log_std = nn.Parameter(torch.zeros(action.size))
        if self.normalises:  # in double precision, as a small scale would magnify the rounding of a large mean
            self.register_buffer("mean", torch.zeros(spec.obs_width, dtype=torch.float64))
            self.register_buffer("scale", torch.ones(spec.obs_width, dtype=torch.float64))

    def forward(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> means or logits (N, outputs)."""
        *hidden, last = cast(list[nn.Linear], list(self.layers))
        x = obs
        if self.normalises:
            x = (obs - self.mean) / self.scale
            x = x if self.clip is None else x.clamp(-self.clip, self.clip)
        x = x.to(last.weight.dtype)
        for layer in hidden:
            x = self.activation(layer(x))
        out: Tensor = last(x)
        return out


class ExternalNetwork(Network):
    """A described network with the distribution of its actions, for any number of environments."""

    def __init__(self, spec: PolicySpec, config: ExternalConfig) -> None:
        """The global generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            self._actor = _Actor(spec, config)
        self.module = self._actor
        self._choices = spec.action.choices
        self._single = isinstance(spec.action, Discrete)

    def __call__(self, obs: Tensor, memory: RecurrentState = ()) -> Distribution:
        """See `Network`."""
        out = self._actor(obs)
        if self._choices is None:
            return Distribution(out, self._actor.log_std.expand_as(out), (), False, ())
        return Distribution(None, None, out.split(self._choices, dim=1), self._single, ())

    def usual_input(self) -> tuple[Tensor, Tensor] | None:
        """See `Network`."""
        return (self._actor.mean.float(), self._actor.scale.float()) if self._actor.normalises else None


class External(Algorithm[ExternalConfig]):
    """It has networks, but no learner."""

    Config = ExternalConfig

    def learner(self, env: Env, config: ExternalConfig, max_iterations: int, device: str, stop: StopFlag) -> Learner:
        """Raises UserError: such policies are not trained here."""
        refuse_training(config)

    def network(self, spec: PolicySpec, config: ExternalConfig, num_envs: int) -> Network:
        """See `Algorithm`."""
        return ExternalNetwork(spec, config)


make = External
