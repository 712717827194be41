"""How one version takes over from another: pi = (1 - a) pi_old + a pi_new, with a share a for each environment.

Stochastic play draws, for each environment, which of the two acts, and then that one's action: a draw from the
mixture. Deterministic play mixes the means (Box), or takes the argmax of the mixed probabilities (one or several
discrete choices).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    history: int = 0  # versions that are kept
    pool_envs: int = 0  # the last so many environments are older versions'


def mixed_mode(old: Distribution, new: Distribution, alpha: Tensor) -> Tensor:
    """The deterministic action of the mixture; alpha (N,) in [0, 1] is the new one's share."""
    share = alpha[:, None]
    if old.mean is not None and new.mean is not None:
        return torch.lerp(old.mean, new.mean, share)
    pairs = zip(old.logits, new.logits, strict=True)
    mixed = tuple(torch.lerp(torch.softmax(a, 1), torch.softmax(b, 1), share) for a, b in pairs)
    return replace(new, logits=mixed).mode()


def mixed_sample(old: Distribution, new: Distribution, alpha: Tensor, rng: torch.Generator) -> Tensor:
    """A draw from the mixture, from `rng` alone: the new policy's action if it was drawn to act."""
    by_new = torch.rand(alpha.shape, generator=rng, device=alpha.device) < alpha
    mine, theirs = new.sample(rng), old.sample(rng)
    return torch.where(by_new.reshape(-1, *[1] * (mine.ndim - 1)), mine, theirs)


class Chooser:
    """Turns what policies would do into actions, deterministically or by draws from a generator of its own."""

    def __init__(self, stochastic: bool, rng: torch.Generator) -> None:
        self._stochastic = stochastic
        self._rng = rng

    def __call__(self, out: Distribution) -> Tensor:
        return out.sample(self._rng) if self._stochastic else out.mode()

    def mixed(self, old: Distribution, new: Distribution, alpha: Tensor) -> Tensor:
        """Actions of two policies' mixture; alpha (N,) is the new one's share."""
        return mixed_sample(old, new, alpha, self._rng) if self._stochastic else mixed_mode(old, new, alpha)


class Transition:
    """The version that is leaving, if one is, and each environment's share of the new one.

    Belongs to the control loop.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.leaving: LoadedSlot | None = None
        self.everywhere = list(range(num_envs))
        self._alpha = torch.ones(num_envs, device=device)  # (N,) share of the new version while one is leaving
        self._fresh = torch.ones(num_envs, dtype=torch.bool, device=device)  # (N,) whose episode has just begun
        self._how = "now"
        self._blend_steps = 1
        self._steps = 0  # of the blend

    @property
    def blends(self) -> bool:
        """Whether both versions act in every environment."""
        return self.leaving is not None and self._how == "blend"

    @property
    def done(self) -> bool:
        """Whether the version that is leaving acts nowhere any more."""
        return self.leaving is not None and bool((self._alpha >= 1.0).all())

    def begin(self, leaving: LoadedSlot, rule: SwapRule) -> None:
        """`leaving` makes room for another version, as `rule` has it at this moment: by `reset` or `blend`."""
        self.leaving = leaving
        self._how = rule.how
        self._blend_steps = rule.blend_steps
        self._steps = 0
        self._alpha.fill_(0.0)
        if rule.how == "reset":  # an episode that has just begun is the new version's
            self._alpha[self._fresh] = 1.0

    def taken(self) -> list[int]:
        """The environments in which the new version acts, alone or beside the other."""
        return self.everywhere if self.blends else self._alpha.nonzero().squeeze(1).tolist()

    def end(self) -> LoadedSlot | None:
        """The new version acts alone. Returns the one that has left, if there was one."""
        left, self.leaving = self.leaving, None
        return left

    def act(self, obs: Tensor, new: Distribution, choose: Chooser) -> Tensor:
        """One control step's actions, of both versions if one is leaving.

        obs (n, width); `new`: what the new version says of it.
        """
        if self.leaving is None:
            return choose(new)
        if self._how == "blend":
            self._steps += 1
            self._alpha.fill_(min(1.0, self._steps / self._blend_steps))
        return choose.mixed(self.leaving.slot.think(obs), new, self._alpha[: len(obs)])

    def stepped(self) -> None:
        """A control step was decided: no episode has just begun."""
        self._fresh[:] = False

    def forget(self, env_ids: Tensor) -> list[int]:
        """Episodes of environments (n,) begin anew. Returns those in which the new version takes over by that."""
        self._fresh[env_ids] = True
        if self.leaving is None:
            return []
        self.leaving.slot.forget(env_ids)
        if self._how == "blend":
            return []
        joined = env_ids[self._alpha[env_ids] < 1.0].tolist()
        self._alpha[env_ids] = 1.0
        return joined
