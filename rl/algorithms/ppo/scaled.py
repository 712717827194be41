"""A network of rl_games whose mean action is the output of its last layer times a factor.

A task may clip its actions at R and call that 1. If the policy then has a standard deviation of 1/R, an update of Adam
moves its mean R times as many standard deviations as in a learner whose actions are not scaled, and the KL divergence
is R^2 times as large. With a factor of 1/R it is the same as there.
"""

from __future__ import annotations

from typing import Any

import torch
from rl_games.algos_torch.model_builder import register_network
from rl_games.algos_torch.network_builder import A2CBuilder
from torch import Tensor

SCALED = "scaled_actor_critic"
"""The name under which rl_games knows this network."""


class Scale(torch.nn.Module):
    """Multiplies by a factor. It is a buffer, so weights that were learned with another factor bring theirs along."""

    factor: Tensor

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., size), any unit -> the same shape."""
        return x * self.factor


class ScaledBuilder(A2CBuilder):
    """Builds an actor and critic whose mean is scaled by `mean_scale` of its parameters."""

    def build(self, name: str, **kwargs: Any) -> torch.nn.Module:
        """See rl_games."""
        network: torch.nn.Module = super().build(name, **kwargs)
        network.mu_act = Scale(float(self.params["mean_scale"]))
        return network


register_network(SCALED, ScaledBuilder)
