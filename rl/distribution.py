"""What a policy would do, for N environments: means and deviations of a Box action, logits of choices.

said = policy(obs)                       # Distribution
action = said.mode()                     # or said.sample(generator)
said.log_prob(action)                    # (N,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

RecurrentState = tuple[Tensor, ...]
"""Recurrent state, each (layers, N, units); empty for a policy without memory."""


@dataclass(frozen=True)
class Distribution:
    """What a policy would do. Box: means and log standard deviations; else one tensor of logits per choice."""

    mean: Tensor | None  # (N, size)
    log_std: Tensor | None  # (N, size)
    logits: tuple[Tensor, ...]  # each (N, n)
    single: bool  # Discrete: actions are (N,), not (N, 1)
    memory: RecurrentState

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
