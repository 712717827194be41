"""What two policies do together while one takes over from the other: pi = (1 - a) pi_old + a pi_new, for each env.

Stochastic play draws, for each environment, which of the two acts, and then that one's action: a draw from the
mixture. Deterministic play mixes the means (Box), or takes the argmax of the mixed probabilities (one or several
discrete choices).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from livegym.rl.policy import Distribution


def mixed_mode(old: Distribution, new: Distribution, alpha: Tensor) -> Tensor:
    """The deterministic action of the mixture; alpha (N,) in [0, 1] is the new one's share."""
    share = alpha[:, None]
    if old.mean is not None and new.mean is not None:
        return torch.lerp(old.mean, new.mean, share)
    pairs = zip(old.logits, new.logits, strict=True)
    mixed = tuple(torch.lerp(torch.softmax(a, 1), torch.softmax(b, 1), share) for a, b in pairs)
    return replace(new, logits=mixed).mode()


def mixed_sample(old: Distribution, new: Distribution, alpha: Tensor, rng: torch.Generator) -> Tensor:
    """A draw from the mixture, from `rng` alone: the new one's own action where it was drawn to act."""
    by_new = torch.rand(alpha.shape, generator=rng, device=alpha.device) < alpha
    mine, theirs = new.sample(rng), old.sample(rng)
    return torch.where(by_new.reshape(-1, *[1] * (mine.ndim - 1)), mine, theirs)


class Chooser:
    """Turns what policies would do into actions, deterministically or by draws from a generator of its own."""

    def __init__(self, stochastic: bool, rng: torch.Generator) -> None:
        self._stochastic, self._rng = stochastic, rng

    def __call__(self, out: Distribution) -> Tensor:
        return out.sample(self._rng) if self._stochastic else out.mode()

    def mixed(self, old: Distribution, new: Distribution, alpha: Tensor) -> Tensor:
        """The same of two policies' mixture."""
        return mixed_sample(old, new, alpha, self._rng) if self._stochastic else mixed_mode(old, new, alpha)
