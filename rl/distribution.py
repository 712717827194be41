"""Action distributions for N environments: mean and standard deviation of a Box action, or logits of discrete ones.

out = policy(obs)                        # Distribution
action = out.mode()                      # or out.sample(generator)
out.log_prob(action)                     # (N,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

RecurrentState = tuple[Tensor, ...]
"""Recurrent state: tensors (layers, N, units); empty for a policy that is not recurrent."""


@dataclass(frozen=True)
class Distribution:
    """A policy's action distribution. Box: means and log standard deviations; otherwise logits of each choice."""

    mean: Tensor | None  # (N, size)
    log_std: Tensor | None  # (N, size)
    logits: tuple[Tensor, ...]  # each (N, n)
    single: bool  # Discrete: actions are (N,), not (N, 1)
    memory: RecurrentState

    def mode(self) -> Tensor:
        """The deterministic action: (N, size) float32, or (N,) / (N, k) int64."""
        if self.mean is not None:
            return self.mean
        return self._choices([logits.argmax(1) for logits in self.logits])

    def sample(self, rng: torch.Generator) -> Tensor:
        """One sample from each environment's distribution, drawn from `rng` alone."""
        if self.mean is not None and self.log_std is not None:
            noise = torch.randn(self.mean.shape, generator=rng, device=self.mean.device)
            return self.mean + self.log_std.exp() * noise
        return self._choices([_draw(logits, rng) for logits in self.logits])

    def log_prob(self, action: Tensor) -> Tensor:
        """(N,) log density or probability of actions, in the shape that `mode` returns; Box actions are not clipped."""
        if self.mean is not None and self.log_std is not None:
            squares = ((action - self.mean) / self.log_std.exp()) ** 2
            return -(0.5 * squares + self.log_std + 0.5 * math.log(2 * math.pi)).sum(1)
        columns = action.reshape(len(action), -1).long()
        chosen = [torch.log_softmax(x, 1).gather(1, columns[:, i : i + 1]) for i, x in enumerate(self.logits)]
        return torch.cat(chosen, 1).sum(1)

    def entropy(self) -> Tensor:
        """(N,) entropy in nats."""
        if self.log_std is not None:
            return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(1)
        return self.entropies().sum(1)

    def entropies(self) -> Tensor:
        """(N, k) entropy in nats of each of the k discrete choices."""
        logs = [torch.log_softmax(x, 1) for x in self.logits]
        return -torch.stack([(x.exp() * x).sum(1) for x in logs], 1)

    def kl(self, other: Distribution) -> Tensor:
        """(N,) Kullback-Leibler divergence KL(self || other) in nats: how far `other` is from this distribution."""
        if self.mean is not None and self.log_std is not None:
            assert other.mean is not None
            assert other.log_std is not None
            squares = (2 * self.log_std).exp() + (self.mean - other.mean) ** 2
            return (other.log_std - self.log_std + 0.5 * squares / (2 * other.log_std).exp() - 0.5).sum(1)
        pairs = [
            (torch.log_softmax(a, 1), torch.log_softmax(b, 1)) for a, b in zip(self.logits, other.logits, strict=True)
        ]
        return torch.stack([(a.exp() * (a - b)).sum(1) for a, b in pairs]).sum(0)

    def confidence(self, log_prob: Tensor) -> Tensor:
        """(N,) in [0, 1]: density or probability relative to that of the mode, given its logarithm (N,)."""
        return (log_prob - self.log_prob(self.mode())).exp().clamp(max=1.0)

    def _choices(self, columns: list[Tensor]) -> Tensor:
        return columns[0] if self.single else torch.stack(columns, dim=1)


def _draw(logits: Tensor, rng: torch.Generator) -> Tensor:
    """(N, n) -> (N,) samples, by inversion of the cumulative probabilities: much faster than `torch.multinomial`."""
    below = torch.softmax(logits, 1).cumsum(1)
    at = torch.rand(len(logits), 1, generator=rng, device=logits.device) * below[:, -1:]
    return (below <= at).sum(1).clamp(max=logits.shape[1] - 1)
