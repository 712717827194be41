"""`swapGuard`: a new version first plays some episodes of its own, and takes over only if it is not worse.

Both versions play the same number of episodes in spare environments, from the same first states and with the same
generators. The new one is adopted if the lower confidence bound of the difference of mean returns, by the bootstrap
(Efron 1979, doi:10.1214/aos/1176344552), is not below minus the margin: if it is not shown to be no
worse than that, it does not take over. The world that people watch is not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from livegym.live.model_slot import ModelSlot
from livegym.live.swap import LivePolicy
from livegym.play.play import Listener, Player, quotas
from livegym.rl.policy import Policy
from livegym.tasks.env import Env, Step
from livegym.utils.errors import UserError
from livegym.weights.candidate import Candidate, Label

log = logging.getLogger(__name__)

RESAMPLES = 10_000


@dataclass(frozen=True)
class GuardRule:
    """What is asked of a new version."""

    episodes: int
    margin: float  # return that the new one may be worse by
    confidence: float  # in (0, 1)


def lower_bound(new: np.ndarray, old: np.ndarray, confidence: float, seed: int = 0) -> float:
    """The bound above which mean(new) - mean(old) lies with this confidence; percentile bootstrap, one-sided."""
    rng = np.random.default_rng(seed)
    means = [rng.choice(x, (RESAMPLES, len(x))).mean(1) for x in (new, old)]
    return float(np.quantile(means[0] - means[1], 1 - confidence))


class SwapGuard:
    """Spare environments, and a spare model to play in them. Belongs to the watching thread."""

    def __init__(self, env: Env, policy: Policy, rule: GuardRule, stochastic: bool) -> None:
        self._env = env
        self._policy = policy
        self._rule = rule
        self._stochastic = stochastic
        self._env.reset()
        self._start = env.state_dict()  # with the generator, so that every version begins from the same states
        self._known: tuple[Label, np.ndarray] | None = None  # the acting version's returns

    def close(self) -> None:
        """Ends the spare physics' threads."""
        self._env.sim.close()

    def judge(self, candidate: Candidate, live: LivePolicy, ended: Callable[[], bool]) -> None:
        """Raises UserError if the candidate, which fits, is not shown to be as good as what acts."""
        if self._known is None or self._known[0] != live.label:
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
        if not bound >= -self._rule.margin:  # also if it is no number
            raise UserError(f"swapGuard: {finding}. More episodes, or a swapGuardMargin, let more versions pass")
        log.info("swapGuard lets %s pass: %s", candidate.name, finding)
        self._known = (candidate.label(live.first_run), new)

    def _returns(self, model: Mapping[str, Tensor], ended: Callable[[], bool]) -> np.ndarray:
        """(K,) undiscounted returns of weights that fit, always from the same start."""
        self._policy.copy(model)
        self._env.load_state_dict(self._start)
        actor = _Alone(ModelSlot(self._policy), self._stochastic)
        player = Player(self._env, actor, quotas(self._rule.episodes, self._env.num_envs))
        collector = _Returns()
        player.attach(collector)
        player.run(ended)
        return np.array(collector.returns)


class _Alone:
    """A policy that nobody exchanges."""

    def __init__(self, slot: ModelSlot, stochastic: bool) -> None:
        self._slot, self._stochastic = slot, stochastic
        self._rng = torch.Generator(slot.policy.device).manual_seed(0)

    def adopt(self) -> None:
        """Nothing to take over."""

    def take_changes(self) -> list:
        """None."""
        return []

    def act(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> actions."""
        out = self._slot.think(obs.to(self._slot.policy.device))
        return out.sample(self._rng) if self._stochastic else out.mode()

    def forget(self, env_ids: Tensor) -> None:
        """Episodes begin anew."""
        self._slot.forget(env_ids)


class _Returns(Listener):
    """Collects the returns that count."""

    def __init__(self) -> None:
        self.returns: list[float] = []

    def on_step(self, step: Step, player: Player) -> None:
        """One control step was made."""
        if step.ended is not None:
            for index, env_id in enumerate(step.ended.env_ids.tolist()):
                if player.counts(env_id):
                    self.returns.append(float(step.ended.returns[index]))
