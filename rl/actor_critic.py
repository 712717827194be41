"""An off-policy actor-critic: learns from single transitions that older policies have produced.

    network = algorithm_of(train).actor_critic(spec, train)
    learner = ActorCritic(spec, network, OffPolicyRule(discount=network.discount), learning_rate=1e-3)
    learner.normalise(new.obs, learner.targets(new))   # once for each transition, not at each replay
    outcome = learner.update(transitions)         # one gradient step
    learner.model_state()                         # weights that a `Policy` can load

It uses one-step V-trace (Espeholt et al. 2018, arXiv:1802.01561, equations 1 and 4), with mu the policy that acted and
rho = min(clip, pi(a|s) / mu(a|s)):

    target  v = V(s) + rho (r + gamma V(s') - V(s))
    actor     - rho (r + gamma V(s') - V(s)) log pi(a|s)  - c_H entropy

Both are weighted by the importance weights of the sampling. Since rho is truncated at 1, an action that the present
policy would hardly choose has little weight, so stale experience does not destabilise the policy. If the action of a
transition has become more than `trust` times as probable or improbable as it was, the transition pushes the policy no
further in that direction. This is the clip of proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)
around the policy that acted; without it, the policy would overfit experience that is replayed a hundred times.
Advantages and errors are measured in standard deviations of the value targets, so one learning rate and one floor of
the priorities fit rewards of any scale.

A standard deviation of 0.5 is enough exploration for a Box action: a larger one earns no entropy bonus, and it is
limited to 1. Otherwise it would grow without bound, since actions beyond -1 and 1 are clipped and have equal effects.

A gradient step is undone and reported if its loss, gradients or weights are non-finite.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from livegym.rl.algorithm import ActorCriticNetwork
from livegym.rl.distribution import Distribution
from livegym.rl.spec import PolicySpec, shape_difference, shapes_of
from livegym.utils.errors import UserError

LOG_RATIO = 20.0  # log ratios of probabilities are clamped to +- this value
WIDE = -0.7  # log standard deviation of a Box action (0.5, within -1 and 1) above which entropy earns no more bonus
WIDEST = 0.0  # its upper limit: actions are clipped to 1, so rewards would hardly keep it from growing


@dataclass(frozen=True)
class OffPolicyRule:
    """The hyperparameters of an update."""

    discount: float  # 0: an action is judged by its own reward alone
    ratio_clip: float = 1.0  # upper bound of the importance ratio
    entropy_coef: float = 0.01
    critic_coef: float = 0.5
    grad_norm: float = 1.0
    trust: float = 3.0  # if the ratio or its inverse exceeds this, the transition pushes the policy no further


@dataclass(frozen=True)
class Transitions:
    """A batch of n transitions."""

    obs: Tensor  # (n, width)
    action: Tensor  # (n, size) float32, or (n, k) int64
    log_prob: Tensor  # (n,) log probability of the action under the policy that acted
    reward: Tensor  # (n,)
    next_obs: Tensor  # (n, width)
    done: Tensor  # (n,) bool: terminated; False if only truncated by a time limit
    weight: Tensor  # (n,) importance weight of the sampling; 1: uniform

    def __len__(self) -> int:
        """Return n, the number of transitions."""
        return len(self.reward)


@dataclass(frozen=True)
class Outcome:
    """The result of one gradient step."""

    loss: float
    actor_loss: float
    critic_loss: float
    entropy: float
    ratio: float  # mean, before clipping
    grad_norm: float  # before clipping
    errors: Tensor  # (n,) |temporal difference|, in standard deviations of the value targets
    finite: bool  # False: the step was undone


class ActorCritic:
    """The policy that is trained, with its critic, normalisers and optimizer. It never acts itself."""

    def __init__(
        self, spec: PolicySpec, network: ActorCriticNetwork, rule: OffPolicyRule, learning_rate: float
    ) -> None:
        """`network`: newly created by `Algorithm.actor_critic`, and used by no other object."""
        self.spec, self.rule = spec, rule
        self.network = network
        self.model = network.module.eval()  # eval: only `take_in` changes its normalisers
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=learning_rate)

    @property
    def learning_rate(self) -> float:
        """Adam's learning rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        """Set the learning rate of the next update."""
        for group in self.optimizer.param_groups:
            group["lr"] = value

    def normalise(self, obs: Tensor, returns: Tensor) -> None:
        """Update the normalisers, if there are any, with new observations (n, width) and returns or rewards (n,)."""
        self.network.take_in(obs, returns)

    def targets(self, t: Transitions) -> Tensor:
        """(n,) one-step value targets r + gamma V(s'); also the returns for `normalise`."""
        with torch.no_grad():
            return t.reward + self.rule.discount * self._value(t.next_obs) * ~t.done

    def update(self, t: Transitions) -> Outcome:
        """Make one gradient step. If it is non-finite, it is undone, and `Outcome.finite` is False."""
        rule, network = self.rule, self.network
        distribution, value = network.think(t.obs)
        log_prob = distribution.log_prob(t.action)
        with torch.no_grad():
            ratio = (log_prob - t.log_prob).clamp(-LOG_RATIO, LOG_RATIO).exp()
            rho = ratio.clamp(max=rule.ratio_clip)
            known = network.value_of(value)
            error = self.targets(t) - known
            target = network.output_for(known + rho * error)
            surprise = error / network.value_std()
            advantage = rho * surprise
            far = torch.where(advantage > 0, ratio > rule.trust, ratio < 1 / rule.trust)
        actor = -(t.weight * advantage * log_prob * ~far).mean()
        critic = (t.weight * (target - value.squeeze(1)) ** 2).mean()
        entropy = distribution.entropy().mean()
        loss = actor + rule.critic_coef * critic - rule.entropy_coef * _bonus(distribution)
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), rule.grad_norm)
        finite = bool(torch.isfinite(loss)) and bool(torch.isfinite(norm)) and self._step()
        names = ("loss", "actor_loss", "critic_loss", "entropy", "ratio", "grad_norm")
        numbers = (loss, actor, critic, entropy, ratio.mean(), norm)
        scalars = {name: float(number.detach()) for name, number in zip(names, numbers, strict=True)}
        return Outcome(**scalars, errors=surprise.abs(), finite=finite)

    def _step(self) -> bool:
        """Make Adam's step. Returns False if it made the weights non-finite and was undone."""
        weights = list(self.model.parameters())
        moments = [value for state in self.optimizer.state.values() for value in state.values()]
        before = [value.detach().clone() for value in (*weights, *moments)]
        self.optimizer.step()
        if self.network.log_std is not None:
            with torch.no_grad():
                self.network.log_std.clamp_(max=WIDEST)
        if bool(torch.isfinite(torch.stack([value.detach().sum() for value in weights])).all()):
            return True
        with torch.no_grad():
            torch._foreach_copy_([*weights, *moments], before)
        if not moments:  # it was the first step
            self.optimizer.state.clear()
        return False

    def _value(self, obs: Tensor) -> Tensor:
        return self.network.value_of(self.network.think(obs)[1])

    def weights(self) -> dict[str, Tensor]:
        """Weights and normalisers, not copied. `normalise` replaces the normalisers' tensors: call this each time."""
        return dict(self.model.state_dict())

    def model_state(self) -> dict[str, Tensor]:
        """A copy of weights and normalisers, under the network's names."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Load weights and normalisers. Raises UserError with a readable difference if they do not fit."""
        differs = shape_difference(shapes_of(self.model.state_dict()), shapes_of(model))
        if differs is not None:
            raise UserError(f"the policy does not fit: {differs}")
        self.model.load_state_dict(dict(model), strict=True)

    def state(self) -> dict[str, Any]:
        """A copy of everything that determines the next update: `model` and `optimizer`."""
        return {"model": self.model_state(), "optimizer": copy.deepcopy(self.optimizer.state_dict())}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`. Raises UserError if the model does not fit, ValueError if the optimizer does not."""
        self.load_model(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))


def _bonus(distribution: Distribution) -> Tensor:
    """() mean entropy; the log standard deviation of a Box action is clamped to `WIDE` for it."""
    if distribution.log_std is None:
        return distribution.entropy().mean()
    return replace(distribution, log_std=distribution.log_std.clamp(max=WIDE)).entropy().mean()
