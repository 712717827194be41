"""A policy with the recurrent state of N environments, and whose weights it has now."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from livegym.live.history import Kept, kept_of
from livegym.rl.policy import Distribution, Memory, Policy
from livegym.weights.candidate import Candidate


class Seat:
    """One of the few models that a live policy has. Weights come and go; the modules stay."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.candidate: Candidate | None = None  # without weights: those are the policy's by now
        self.kept: Kept | None = None
        self._first_memory = policy.first_memory()
        self.memory: Memory = tuple(m.clone() for m in self._first_memory)

    def take(self, candidate: Candidate) -> None:
        """Copies a version's weights, which fit; the recurrent state stays."""
        self.policy.copy(candidate.model)
        self.candidate = replace(candidate, model={})

    def keep(self, candidate: Candidate, first_run: str) -> None:
        """Makes a copy of the weights for the history."""
        self.kept = kept_of(candidate.label(first_run), candidate)

    def think(self, obs: Tensor) -> Distribution:
        """obs (N, width) -> what it would do; the recurrent state goes on."""
        out = self.policy(obs, self.memory)
        self.memory = out.memory
        return out

    def copy_memory(self, other: Seat) -> None:
        """Goes on with what `other` remembers: the episodes are the same."""
        self.memory = tuple(m.clone() for m in other.memory)

    def forget(self, env_ids: Tensor) -> None:
        """The recurrent state of environments (n,) is that of an episode's start again."""
        for memory, first in zip(self.memory, self._first_memory, strict=True):
            memory[:, env_ids] = first[:, env_ids]
