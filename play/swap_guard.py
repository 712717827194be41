"""`swapGuard`: a new version first plays shadow episodes, and takes over only if it is not worse.

Both versions play the same number of episodes in spare environments, from the same initial states and with the same
random generators. The new version is adopted if the lower confidence bound of the difference of the mean returns, by
the bootstrap (Efron 1979, doi:10.1214/aos/1176344552), is at least minus the margin. The environments of the test
itself are not affected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from livegym.live.model_slot import ModelSlot
from livegym.live.swap import LivePolicy
from livegym.play.play import Listener, Player, quotas
from livegym.rl.policy import Policy
from livegym.tasks.env import Env, Step
from livegym.utils.errors import UserError
from livegym.utils.log import ROUTINE
from livegym.weights.candidate import Candidate, Label

log = logging.getLogger(__name__)

RESAMPLES = 10_000


class GuardRefusal(UserError):
    """A version is worse than the acting one, or not surely no worse."""


@dataclass(frozen=True)
class GuardRule:
    """The condition that a new version must meet."""

    episodes: int
    margin: float  # return by which the new version may be worse
    confidence: float  # in (0, 1)


class GuardStatus(NamedTuple):
    """The state of a guard, for viewers."""

    judging: Label | None  # the version that plays shadow episodes; None between two judgements
    played: int  # shadow episodes so far
    expected: int  # shadow episodes of the whole judgement
    last: str  # the last judgement with its reason; '' if there was none


def lower_bound(new: np.ndarray, old: np.ndarray, confidence: float, seed: int = 0) -> float:
    """Lower bound of mean(new) - mean(old) at this confidence; one-sided percentile bootstrap."""
    rng = np.random.default_rng(seed)
    means = [rng.choice(x, (RESAMPLES, len(x))).mean(1) for x in (new, old)]
    return float(np.quantile(means[0] - means[1], 1 - confidence))


class SwapGuard:
    """Spare environments, and a spare model that plays in them. Owned by the watching thread."""

    def __init__(
        self, env: Env, policy: Policy, rule: GuardRule, stochastic: bool, follows_level: bool = False
    ) -> None:
        """`follows_level`: a version is compared with the acting one at its own curriculum level."""
        self._env = env
        self._policy = policy
        self._rule = rule
        self._stochastic = stochastic
        self._follows_level = follows_level
        self._env.reset()
        self._start = env.state_dict()  # includes the generator: each version has the same initial states
        self._known: tuple[Label, np.ndarray] | None = None  # the acting version's returns
        self._judging: Label | None = None
        self._played: list[_Returns] = []  # of the judgement in progress
        self._expected = 0  # episodes of the judgement in progress
        self._last = ""

    @property
    def status(self) -> GuardStatus:
        """The guard's state. May be read by any thread."""
        return GuardStatus(self._judging, sum(len(one.returns) for one in self._played), self._expected, self._last)

    def close(self) -> None:
        """End the threads of the spare environments' physics."""
        self._env.sim.close()

    def judge(self, candidate: Candidate, live: LivePolicy, ended: Callable[[], bool]) -> bool:
        """Test a candidate that fits. Raises GuardRefusal unless it is no worse than the acting version, by the rule.

        Returns False early, without a judgement, if `ended` returns True.
        """
        self._judging = candidate.label(live.first_run)
        try:
            self._judge(candidate, live, ended)
            return not ended()
        finally:
            self._judging, self._played = None, []

    def _judge(self, candidate: Candidate, live: LivePolicy, ended: Callable[[], bool]) -> None:
        if self._follows_level and candidate.level is not None:
            self._move_to(candidate.level)
        known = self._known is not None and self._known[0] == live.label
        self._expected = self._rule.episodes * (1 if known else 2)
        if self._known is None or not known:
            label, weights = live.weights()
            self._known = (label, self._returns(weights, ended))
        new, old = self._returns(candidate.model, ended), self._known[1]
        if ended() or not len(new) or not len(old):
            return
        bound = lower_bound(new, old, self._rule.confidence)
        finding = (
            f"mean return {new.mean():.4g} against {old.mean():.4g} of version {self._known[0]} "
            f"in {len(new)} shadow episodes each; difference at least {bound:.4g} "
            f"at confidence {self._rule.confidence:g}, margin {self._rule.margin:g}"
        )
        passes = bound >= -self._rule.margin
        self._last = f"{'passed' if passes else 'refused'} version {self._judging}: {finding}"
        if not passes:  # also True if the bound is NaN
            raise GuardRefusal(
                f"swapGuard: {finding}. To let more versions pass, raise swapGuard (more episodes) or swapGuardMargin"
            )
        log.info("swapGuard lets %s pass: %s", candidate.name, finding, extra=ROUTINE)
        self._known = (candidate.label(live.first_run), new)

    def _move_to(self, level: float) -> None:
        """Play the shadow episodes of both versions at this curriculum level."""
        if level != self._env.curriculum.level:
            self._env.set_level(level)
            self._env.reset()
            self._start = self._env.state_dict()
            self._known = None

    def _returns(self, model: Mapping[str, Tensor], ended: Callable[[], bool]) -> np.ndarray:
        """(K,) undiscounted returns of weights that fit, always from the same initial states."""
        self._policy.copy(model)
        self._env.load_state_dict(self._start)
        actor = _Alone(ModelSlot(self._policy), self._stochastic)
        player = Player(self._env, actor, quotas(self._rule.episodes, self._env.num_envs))
        collector = _Returns()
        self._played = [*self._played, collector]
        player.attach(collector)
        player.run(ended)
        return np.array(collector.returns)


class _Alone:
    """An actor whose policy is never exchanged."""

    def __init__(self, slot: ModelSlot, stochastic: bool) -> None:
        self._slot, self._stochastic = slot, stochastic
        self._rng = torch.Generator(slot.policy.device).manual_seed(0)

    def adopt(self) -> None:
        """Do nothing: no new version arrives."""

    def take_changes(self) -> list:
        """Return no changes: no other version ever acts."""
        return []

    def act(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> actions."""
        out = self._slot.think(obs.to(self._slot.policy.device))
        return out.sample(self._rng) if self._stochastic else out.mode()

    def forget(self, env_ids: Tensor) -> None:
        """New episodes begin in these environments."""
        self._slot.forget(env_ids)


class _Returns(Listener):
    """Collects the returns of the episodes that count."""

    def __init__(self) -> None:
        self.returns: list[float] = []

    def on_step(self, step: Step, player: Player) -> None:
        """Add the returns of the episodes that ended in this step."""
        if step.ended is not None:
            for index, env_id in enumerate(step.ended.env_ids.tolist()):
                if player.counts(env_id):
                    self.returns.append(float(step.ended.returns[index]))
