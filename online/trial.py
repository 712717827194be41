"""A challenger that acts in a share of the streams, beside the champion (`challengerShare`).

    trial = Trial(loaded, share=0.2, episodic=True, seed=0, streams=1000)
    decider.trial = trial                       # from the next decision on; None ends it
    trial.acts_in("north")                      # the control loop, once for each decision
    trial.forget(["north"])                     # the control loop: these episodes have ended

Which of the two acts is drawn for each *unit*: an episode, or with discount 0, where no decision has consequences for
the next one, a block of `BLOCK` decisions (a switchback design: Bojinov, Simchi-Levi and Zhao 2023, "Design and
analysis of switchback experiments", doi:10.1287/mnsc.2022.4583). The draw is a hash of version, stream and number of
the unit, so it is stable within a unit and another one for each challenger: no stream always gets the untested version.
The challenger's decisions have its own version and its own propensities, and are trained on like all others.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from livegym.live.model_slot import LoadedSlot
from livegym.live.swap import PolicyStep
from livegym.online.judge import BLOCK


class Trial:
    """One challenger. Owned by the control loop once it is given to the decider."""

    def __init__(self, loaded: LoadedSlot, share: float, episodic: bool, seed: int, streams: int) -> None:
        """`share`: fraction of the units, in (0, 1). `episodic`: units are episodes, the first of which is skipped.

        `streams`: number of streams whose units are known; beyond it, the one that asked least recently is forgotten.
        """
        self.version = loaded.candidate.version
        self._slot = loaded.slot
        self._share = share
        self._episodic = episodic
        self._rng = torch.Generator(loaded.slot.policy.device).manual_seed(seed)
        self._streams = streams
        # Stream -> number of its unit, and decisions in it. Episodes begin at 1, after the present one.
        self._units: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def acts_in(self, stream: str) -> bool:
        """Return whether the challenger makes the stream's next decision."""
        unit, made = self._units.get(stream, (0, BLOCK))
        if not self._episodic and made == BLOCK:
            unit, made = unit + 1, 0
        self._set(stream, unit, made + 1)
        return unit > 0 and self._drawn(stream, unit)

    def _set(self, stream: str, unit: int, made: int) -> None:
        self._units[stream] = (unit, made)
        self._units.move_to_end(stream)
        if len(self._units) > self._streams:
            self._units.popitem(last=False)

    def _drawn(self, stream: str, unit: int) -> bool:
        digest = hashlib.blake2b(f"{self.version} {unit} {stream}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) < self._share * 2**32

    def forget(self, streams: Iterable[str]) -> None:
        """The episodes of these streams have ended."""
        for stream in streams:
            unit = self._units.get(stream, (0, 0))[0]
            self._set(stream, unit + self._episodic, 0 if self._episodic else BLOCK)

    def decide(self, obs: Tensor) -> PolicyStep:
        """obs (n, width) -> the challenger's actions and their distribution."""
        distribution = self._slot.think(obs.to(self._slot.policy.device))
        return PolicyStep(distribution.sample(self._rng), distribution)


def both(champion: PolicyStep, challenger: PolicyStep, env_ids: Tensor) -> PolicyStep:
    """Return one step in which the challenger acts in environments (m,), and the champion in all others."""
    action = champion.action.clone()
    action[env_ids] = challenger.action[env_ids]
    old, new = champion.distribution, challenger.distribution

    def merged(mine: Tensor | None, theirs: Tensor | None) -> Tensor | None:
        if mine is None or theirs is None:
            return None
        rows = mine.clone()
        rows[env_ids] = theirs[env_ids]
        return rows

    logits = tuple(x for a, b in zip(old.logits, new.logits, strict=True) if (x := merged(a, b)) is not None)
    mean, log_std = merged(old.mean, new.mean), merged(old.log_std, new.log_std)
    return PolicyStep(action, replace(old, mean=mean, log_std=log_std, logits=logits))
