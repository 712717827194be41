"""An off-policy actor-critic: learns from single transitions that older policies made.

    network = algorithm_of(train).actor_critic(spec, train)
    learner = ActorCritic(spec, network, OffPolicyRule(discount=network.discount), learning_rate=1e-3)
    learner.normalise(new.obs, learner.targets(new))   # each once, not once for each time that it is replayed
    outcome = learner.update(transitions)         # one gradient step
    learner.model_state()                         # what the network's policy can take over

V-trace with one step (Espeholt et al. 2018, arXiv:1802.01561, equations 1 and 4), with mu the policy that acted and
rho = min(clip, pi(a|s) / mu(a|s)):

    target  v = V(s) + rho (r + gamma V(s') - V(s))
    actor     - rho (r + gamma V(s') - V(s)) log pi(a|s)  - c_H entropy

both weighted by the sampling's importance weights. Truncation at 1 makes an action that the present policy would
hardly choose count hardly, so old experience can be stale without pushing the policy about. A transition whose action
has become `trust` times as probable as it was, or as improbable, pushes the policy no further that way (the clip of
proximal policy optimisation, Schulman et al. 2017, arXiv:1707.06347, about the policy that acted): experience that is
replayed a hundred times would otherwise be learned by heart. Advantages and errors are measured in standard deviations
of the value targets, so rewards of any size fit one learning rate, and one floor of the priorities.

A Box action explores enough with a standard deviation of a half: wider ones earn no entropy bonus, and none is wider
than 1. Without that it grows for ever, since what is beyond -1 and 1 is cut off, and done alike.

A step that is not finite, in loss, gradients or weights, is undone and reported: nothing of it stays.
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

LOG_RATIO = 20.0  # beyond which a ratio of probabilities is as good as infinite, or nothing
WIDE = -0.7  # log standard deviation of a Box action (0.5, within -1 and 1) above which entropy earns nothing more
WIDEST = 0.0  # and that it is held below: an action of 1 is done as one of 10, so rewards would hardly hold it back


@dataclass(frozen=True)
class OffPolicyRule:
    """How one update is made."""

    discount: float  # 0: an action is judged by its own reward alone
    ratio_clip: float = 1.0  # upper bound of the importance ratio
    entropy_coef: float = 0.01
    critic_coef: float = 0.5
    grad_norm: float = 1.0
    trust: float = 3.0  # ratio, or its inverse, from which on a transition pushes the policy no further


@dataclass(frozen=True)
class Transitions:
    """n transitions."""

    obs: Tensor  # (n, width)
    action: Tensor  # (n, size) float32, or (n, k) int64
    log_prob: Tensor  # (n,) of the action, under the policy that acted
    reward: Tensor  # (n,)
    next_obs: Tensor  # (n, width)
    done: Tensor  # (n,) bool: terminated; a time limit is not an end
    weight: Tensor  # (n,) of the sampling; 1: uniform

    def __len__(self) -> int:
        """n."""
        return len(self.reward)


@dataclass(frozen=True)
class Outcome:
    """What one gradient step gave."""

    loss: float
    actor_loss: float
    critic_loss: float
    entropy: float
    ratio: float  # mean, before clipping
    grad_norm: float  # before clipping
    errors: Tensor  # (n,) |temporal difference|, in standard deviations of the value targets
    finite: bool  # False: the step was undone


class ActorCritic:
    """A training copy of a policy with its critic, its normalisers and its optimizer. Never acts."""

    def __init__(
        self, spec: PolicySpec, network: ActorCriticNetwork, rule: OffPolicyRule, learning_rate: float
    ) -> None:
        """`network`: fresh, and nobody else's (`Algorithm.actor_critic`)."""
        self.spec, self.rule = spec, rule
        self.network = network
        self.model = network.module.eval()  # eval: its normalisers change only when they are told
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=learning_rate)

    @property
    def learning_rate(self) -> float:
        """Adam's."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        """For the next update."""
        for group in self.optimizer.param_groups:
            group["lr"] = value

    def normalise(self, obs: Tensor, returns: Tensor) -> None:
        """Takes new observations (n, width) and returns or rewards (n,) into the normalisers, if there are any."""
        self.network.take_in(obs, returns)

    def targets(self, t: Transitions) -> Tensor:
        """(n,) r + gamma V(s'): what values are made of, for `normalise`."""
        with torch.no_grad():
            return t.reward + self.rule.discount * self._value(t.next_obs) * ~t.done

    def update(self, t: Transitions) -> Outcome:
        """One gradient step. One that is not finite is undone, and said so in the outcome."""
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
        told = {name: float(number.detach()) for name, number in zip(names, numbers, strict=True)}
        return Outcome(**told, errors=surprise.abs(), finite=finite)

    def _step(self) -> bool:
        """Adam's step; False if it made weights that are not finite, and was undone."""
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
        """Weights and normalisers, not copied. A normaliser's are bound anew by `normalise`: ask for them each time."""
        return dict(self.model.state_dict())

    def model_state(self) -> dict[str, Tensor]:
        """A copy of weights and normalisers, under the network's names."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Takes over weights and normalisers. Raises UserError with a readable difference if they do not fit."""
        differs = shape_difference(shapes_of(self.model.state_dict()), shapes_of(model))
        if differs is not None:
            raise UserError(f"the policy does not fit: {differs}")
        self.model.load_state_dict(dict(model), strict=True)

    def state(self) -> dict[str, Any]:
        """Everything that decides the next update, as a copy: `model` and `optimizer`."""
        return {"model": self.model_state(), "optimizer": copy.deepcopy(self.optimizer.state_dict())}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`. Raises UserError if the model does not fit, ValueError if the optimizer's."""
        self.load_model(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))


def _bonus(distribution: Distribution) -> Tensor:
    """() mean entropy, of a Box action as if it were never wider than `WIDE`."""
    if distribution.log_std is None:
        return distribution.entropy().mean()
    return replace(distribution, log_std=distribution.log_std.clamp(max=WIDE)).entropy().mean()
