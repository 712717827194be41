"""Judges a version by what the replay buffer tells: whether it would have earned less than the version that acts.

    judge = Judge(network, confidence=0.99)
    view = judge.view(rows, critic=acting)                  # rows of the replay buffer, and who values the states
    finding = view.compare(candidate, acting)
    finding.worse                                           # it would have earned less
    finding.kl                                              # how far the candidate is from the acting version

The rows are the newest decisions, each with its propensity: the probability (density) mu(a|s) with which the version
that acted chose the action that it proposed, or the client the one that it executed instead. Both versions are
estimated on the same rows, by the doubly robust estimator with self-normalised weights (`online/estimate.py`), and the
interval is that of their paired difference: most of what chance did to one it also did to the other, so the difference
is known far better than either estimate. Blocks of `BLOCK` consecutive decisions of a stream count as one, because
neighbouring decisions are not independent.

**Discount 0.** The estimate is the mean reward of a decision. The critic V(s) is the model of the reward: it does not
know the action, so it removes the variance that comes from the states, and no bias comes with it.

**Discount above 0.** The reward of one decision is not the aim, but the return. What a version would gain over the
acting one is, to first order, the mean of rho (r + gamma V(s') - V(s)) over the states that the acting version visits,
rho being the ratio of the probabilities (Kakade and Langford 2002, "Approximately optimal approximate reinforcement
learning"; the surrogate objective of TRPO, Schulman et al. 2015, arXiv:1502.05477). This is the same estimator with
r + gamma V(s') as the reward, and V is the critic of the acting version, never the candidate's: a spoiled trainer also
spoils its critic. The approximation holds near the acting version, so it is evidence about the next version, and not
about a distant one. A decline in many steps is found by what was really earned (`online/champion.py`).

**What it cannot see.** The candidate was trained on most of these rows, so its estimate is too good rather than too
bad. This causes no mistaken refusals, but a version that has only learned the rows by heart passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from livegym.online.estimate import Estimate, blocks, difference, doubly_robust
from livegym.online.experience import chosen_actions
from livegym.rl.algorithm import ActorCriticNetwork
from livegym.rl.distribution import Distribution

BLOCK = 20  # consecutive decisions of a stream that count as one group
Model = Mapping[str, Tensor]
"""Weights and normalisers of a version."""


def in_words(estimate: Estimate) -> str:
    """Return a known estimate with its interval, for people."""
    return f"{estimate.mean:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


@dataclass(frozen=True)
class Finding:
    """How a candidate compares with another version on the same decisions."""

    candidate: Estimate
    other: Estimate
    gain: Estimate  # candidate minus other, paired
    kl: float  # mean KL(other || candidate) in nats over all decisions; inf if it is not a number
    discounted: bool  # whether the estimates depend on a critic's values of the next states

    @property
    def worse(self) -> bool:
        """Whether the candidate is worse: the interval of the gain lies wholly below 0. False if it is unknown.

        With a discount, the candidate's estimate must also lie below the interval of the other version. The paired
        interval alone is so narrow that the critic's errors and differences without importance would count, and half of
        the steps of a policy that is good already would be refused.
        """
        below = not self.discounted or (self.other.known and self.candidate.mean < self.other.low)
        return self.gain.known and self.gain.high < 0 and below

    @property
    def better(self) -> bool:
        """Whether the interval of the gain lies wholly above 0. False if it is unknown."""
        return self.gain.known and self.gain.low > 0

    @property
    def words(self) -> str:
        """The two estimates and their difference, for people; or why it is unknown."""
        if not self.gain.known:
            return self.gain.unknown
        return f"{in_words(self.candidate)} against {in_words(self.other)}, difference {in_words(self.gain)}"


class _Known(NamedTuple):
    """A version's distribution and estimate on the decisions."""

    model: Model
    distribution: Distribution
    estimate: Estimate
    finite: bool  # whether its outputs are finite; finite weights may give others


class View:
    """Decisions, as one version's critic values them."""

    def __init__(self, network: ActorCriticNetwork, rows: np.ndarray, critic: Model, confidence: float) -> None:
        self._network = network
        self._confidence = confidence
        self._usable = np.isfinite(rows["executed_log_prob"])  # what earned the reward of the others is not known
        self._obs = torch.from_numpy(rows["obs"].copy())
        action, log_mu = chosen_actions(rows)
        self._action = torch.from_numpy(action)
        self._log_mu = log_mu.astype(np.float64)
        self._groups = blocks(rows["stream"][self._usable], BLOCK)
        self._known: list[_Known] = []  # what was estimated already
        distribution, self._value = self._think(critic, self._obs)
        after = np.zeros(len(rows))
        if network.discount:
            after = self._think(critic, torch.from_numpy(rows["next_obs"].copy()))[1]
        self._target = rows["reward"] + network.discount * np.where(rows["done"], 0.0, after)
        self._add(critic, distribution, self._value)

    def _think(self, model: Model, obs: Tensor) -> tuple[Distribution, np.ndarray]:
        """Return the distribution, and the values (n,) of the states."""
        with torch.no_grad():
            self._network.module.load_state_dict(dict(model))
            distribution, output = self._network.think(obs)
            return distribution, self._network.value_of(output).double().numpy()

    def compare(self, candidate: Model, other: Model) -> Finding:
        """Return how `candidate` compares with `other`."""
        new, old = self._of(candidate), self._of(other)
        kl = float(old.distribution.kl(new.distribution).mean()) if new.finite else math.inf
        kl = math.inf if math.isnan(kl) else kl
        gain = difference(new.estimate, old.estimate)
        return Finding(new.estimate, old.estimate, gain, kl, self._network.discount > 0)

    def _of(self, model: Model) -> _Known:
        for known in self._known:
            if known.model is model:
                return known
        return self._add(model, *self._think(model, self._obs))

    def _add(self, model: Model, distribution: Distribution, value: np.ndarray) -> _Known:
        log_ratio = distribution.log_prob(self._action).double().numpy() - self._log_mu
        numbers = distribution.log_prob(distribution.mode())
        finite = bool(torch.isfinite(numbers).all()) and bool(np.isfinite(value).all())
        log_ratio[~np.isfinite(log_ratio)] = -math.inf  # it never acts so
        usable = self._usable
        modelled = self._value[usable]
        estimate = doubly_robust(
            self._target[usable],
            log_ratio[usable],
            modelled,
            modelled,
            groups=self._groups,
            confidence=self._confidence,
        )
        self._known.append(_Known(model, distribution, estimate, finite))
        return self._known[-1]


class Judge:
    """Compares versions of one policy. Not thread-safe."""

    def __init__(self, network: ActorCriticNetwork, confidence: float) -> None:
        """`network`: used by no other object. `confidence`: of the intervals, in (0, 1)."""
        network.module.eval()
        self._network = network
        self._confidence = confidence

    @property
    def discount(self) -> float:
        """Discount for each control step; 0: an action is judged by its own reward alone."""
        return self._network.discount

    def view(self, rows: np.ndarray, critic: Model) -> View:
        """Return a view of rows (n,) with finite numbers, in order of time; `critic` values their states."""
        return View(self._network, rows, critic, self._confidence)
