"""How one version takes over from another: pi = (1 - a) pi_old + a pi_new, with a share a for each environment.

A stochastic policy samples from the mixture: for each environment it draws which of the two acts, and then that one's
action. A deterministic policy mixes the means (Box), or takes the argmax of the mixed probabilities (Discrete and
MultiDiscrete).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from livegym.live.model_slot import LoadedSlot
from livegym.rl.distribution import Distribution


@dataclass(frozen=True)
class SwapRule:
    """How new weights take over."""

    how: str = "now"  # now, reset, blend
    blend_steps: int = 1  # control steps
    min_interval: float = 0.0  # s between two swaps
    history: int = 0  # number of the newest versions that are kept in memory
    spaced: int = 0  # number of older ones, spaced out over the whole test; see SnapshotHistory
    pool_envs: int = 0  # number of environments, the last ones, in which older versions act
    history_key: str = "historySize"  # the name under which the user gives `history`, for messages


def mixed_mode(old: Distribution, new: Distribution, alpha: Tensor) -> Tensor:
    """The deterministic action of the mixture; alpha (N,) in [0, 1] is the share of the new policy."""
    share = alpha[:, None]
    if old.mean is not None and new.mean is not None:
        return torch.lerp(old.mean, new.mean, share)
    pairs = zip(old.logits, new.logits, strict=True)
    mixed = tuple(torch.lerp(torch.softmax(a, 1), torch.softmax(b, 1), share) for a, b in pairs)
    return replace(new, logits=mixed).mode()


def mixed_sample(old: Distribution, new: Distribution, alpha: Tensor, rng: torch.Generator) -> Tensor:
    """A sample from the mixture, drawn from `rng` alone; alpha (N,) is the probability that the new policy acts."""
    by_new = torch.rand(alpha.shape, generator=rng, device=alpha.device) < alpha
    new_sample, old_sample = new.sample(rng), old.sample(rng)
    return torch.where(by_new.reshape(-1, *[1] * (new_sample.ndim - 1)), new_sample, old_sample)


class Chooser:
    """Turns distributions into actions: the modes, or samples drawn from its own generator."""

    def __init__(self, stochastic: bool, rng: torch.Generator) -> None:
        self._stochastic = stochastic
        self._rng = rng

    def __call__(self, out: Distribution) -> Tensor:
        return out.sample(self._rng) if self._stochastic else out.mode()

    def mixed(self, old: Distribution, new: Distribution, alpha: Tensor) -> Tensor:
        """Actions of the mixture of two policies; alpha (N,) is the share of the new policy."""
        return mixed_sample(old, new, alpha, self._rng) if self._stochastic else mixed_mode(old, new, alpha)


class Progress(NamedTuple):
    """The progress of one swap, with the rule with which it began: a later change of the rule does not affect it."""

    how: str  # reset, blend
    length: int = 1  # control steps of the whole blend
    steps: int = 0  # of the blend so far

    @property
    def share(self) -> float:
        """The share of the new version in a blend, 0 to 1."""
        return min(1.0, self.steps / self.length)

    def stepped(self) -> Progress:
        """The progress one control step later."""
        return self._replace(steps=self.steps + 1)

    def turned(self) -> Progress:
        """The progress of the blend back, which begins at the present shares."""
        return self._replace(steps=max(0, self.length - self.steps))


class Transition:
    """The version that is leaving, if there is one, and the new version's share in each environment.

    Owned by the control loop.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.leaving: LoadedSlot | None = None
        self.everywhere = list(range(num_envs))
        self._alpha = torch.ones(num_envs, device=device)  # (N,) share of the new version during a swap
        self._fresh = torch.ones(num_envs, dtype=torch.bool, device=device)  # (N,) True: the episode has just begun
        self._progress = Progress("reset")

    @property
    def blends(self) -> bool:
        """Whether both versions act in every environment."""
        return self.leaving is not None and self._progress.how == "blend"

    @property
    def finished(self) -> bool:
        """Whether the version that is leaving no longer acts in any environment."""
        return self.leaving is not None and bool((self._alpha >= 1.0).all())

    def begin(self, leaving: LoadedSlot, rule: SwapRule) -> None:
        """Begin to replace `leaving` by another version, as `rule` says now: by `reset` or `blend`."""
        self.leaving = leaving
        self._progress = Progress(rule.how, rule.blend_steps)
        self._alpha.fill_(0.0)
        if rule.how == "reset":  # the new version plays episodes that have just begun
            self._alpha[self._fresh] = 1.0

    def turn(self, acting: LoadedSlot) -> LoadedSlot:
        """Reverse a blend: from now on `acting` leaves, at the rate at which it came. Returns the other version.

        Raises RuntimeError if no blend is in progress.
        """
        if self.leaving is None or not self.blends:
            raise RuntimeError("turn() was called without a blend in progress")
        back, self.leaving = self.leaving, acting
        self._progress = self._progress.turned()
        self._alpha.fill_(self._progress.share)
        return back

    def taken(self) -> list[int]:
        """The environments in which the new version acts, alone or mixed with the old one."""
        return self.everywhere if self.blends else self._alpha.nonzero().squeeze(1).tolist()

    def end(self) -> LoadedSlot | None:
        """End the swap: the new version acts alone. Returns the old version, or None if there was no swap."""
        left, self.leaving = self.leaving, None
        return left

    def act(self, obs: Tensor, new: Distribution, choose: Chooser) -> Tensor:
        """The actions of one control step; those of the mixture if a version is leaving.

        obs (n, width); `new`: the new version's distribution for it.
        """
        if self.leaving is None:
            return choose(new)
        if self.blends:
            self._progress = self._progress.stepped()
            self._alpha.fill_(self._progress.share)
        return choose.mixed(self.leaving.slot.think(obs), new, self._alpha[: len(obs)])

    def stepped(self) -> None:
        """Note the end of a control step: no episode counts as just begun any more."""
        self._fresh[:] = False

    def forget(self, env_ids: Tensor) -> list[int]:
        """New episodes begin in environments (n,). Returns those in which the new version takes over thereby."""
        self._fresh[env_ids] = True
        if self.leaving is None:
            return []
        self.leaving.slot.forget(env_ids)
        if self.blends:
            return []
        joined = env_ids[self._alpha[env_ids] < 1.0].tolist()
        self._alpha[env_ids] = 1.0
        return joined
