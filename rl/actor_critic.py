"""An off-policy actor-critic: learns from single transitions that older policies have produced.

    network = algorithm_of(train).actor_critic(spec, train)
    learner = ActorCritic(spec, network, OffPolicyRule(discount=network.discount), learning_rate=1e-3)
    learner.normalise(new.obs, learner.targets(new))   # once for each transition, not at each replay
    result = learner.update(transitions)         # one gradient step
    learner.model_state()                         # weights that a `Policy` can load

It uses V-trace (Espeholt et al. 2018, arXiv:1802.01561, equations 1 and 4, and remark 2), with mu the policy that
acted, rho = min(clip, pi(a|s) / mu(a|s)), and the transitions that followed, as far as they are known:

    error     d_k = r_k + gamma V(s_k+1) - V(s_k)
    advantage   A = d_0 + sum over k > 0 of gamma^k lambda^k (rho_1 ... rho_k) d_k
    target      v = V(s_0) + rho_0 A
    actor       - rho_0 A log pi(a|s)  - c_H entropy

Without the following transitions, a reward would reach the states before it only through the value, one step at each
gradient step. With lambda = 1 and pi = mu, A is the n-step return minus V(s_0); lambda below 1 averages over n, as
generalised advantage estimation does (Schulman et al. 2016, arXiv:1506.02438). The target is that of the paper; in A,
the paper's actor has lambda^(k-1) instead of lambda^k, which is the same with lambda = 1.

Both losses are weighted by the importance weights of the sampling. rho is small for an action that the present policy
would hardly choose, and never above 1, so stale experience does not destabilise the policy. If the action of a
transition has become more than `trust` times as probable or improbable as it was, the transition pushes the policy no
further in that direction, and the entropy at its state earns no bonus. This is the clip of proximal policy optimisation
(Schulman et al. 2017, arXiv:1707.06347) around the policy that acted; without it, the policy would overfit experience
that is replayed a hundred times.

Errors are measured in standard deviations of the value targets, so one floor of the priorities fits rewards of any
scale. Advantages are measured by their own root mean square over the last updates, so one learning rate fits both a
policy that is still poor and one whose actions hardly differ in value; but at least by `LEAST_SCALE` of the values'
standard deviation, because otherwise the noise around a good policy would count as much as an advantage. Below that,
the entropy bonus is reduced in the same proportion: what is left of the advantages could not hold it.

Adam divides a gradient by its own usual size, so a policy with nothing left to learn would still move at the full
learning rate, in the direction of the noise, until it fails. `EPSILON` is added to that size, so that very small
gradients make small steps; its value is the one of most implementations of PPO.

The last choices of the policy that acted bound how far gradient steps may move the policy from it: if the mean
divergence KL(mu, pi) on them exceeds `kl_limit`, the policy learns to choose these actions (the gradient of KL) instead
of better ones. To learn nothing would not suffice: the value shares layers with the policy, so its gradient steps move
the policy too. KL is estimated by the mean of x - 1 - log x with x = pi/mu, which is never negative (Schulman 2020,
"Approximating KL divergence").

A standard deviation of 0.5 is enough exploration for a Box action: a larger one earns no entropy bonus, and it is
limited to 1. Otherwise it would grow without bound, since actions beyond -1 and 1 are clipped and have equal effects.
For a discrete choice, half of the greatest entropy is enough (of two actions, the likelier one then has a probability
of 0.89): if all actions are good, as those of a policy that never fails are, nothing but the bonus would move the
policy, until it is random enough to fail.

A gradient step is undone and reported if its loss, gradients or weights are non-finite.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from livegym.rl.algorithm import ActorCriticNetwork
from livegym.rl.distribution import Distribution
from livegym.rl.spec import PolicySpec, shape_difference, shapes_of
from livegym.utils.errors import UserError

LOG_RATIO = 20.0  # log ratios of probabilities are clamped to +- this value
WIDE = -0.7  # log standard deviation of a Box action (0.5, within -1 and 1) above which entropy earns no more bonus
WIDEST = 0.0  # its upper limit: actions are clipped to 1, so rewards would hardly keep it from growing
OPEN = 0.5  # entropy of a discrete choice, as a fraction of the greatest one, above which it earns no more bonus
LEAST_SCALE = 0.5  # least scale of the advantages, in standard deviations of the value targets
EPSILON = 1e-5  # added to the usual size of a parameter's gradient, by which Adam divides
MEMORY = 0.99  # factor on the running mean of squared advantages at each update


@dataclass(frozen=True)
class OffPolicyRule:
    """The hyperparameters of an update."""

    discount: float  # 0: an action is judged by its own reward alone
    ratio_clip: float = 1.0  # upper bound of the importance ratio
    entropy_coef: float = 0.01
    critic_coef: float = 0.5
    grad_norm: float = 1.0
    trust: float = 3.0  # if the ratio or its inverse exceeds this, the transition pushes the policy no further
    trace: float = 0.95  # lambda: how much the transitions that followed count, beside the value; 0: not at all
    kl_limit: float = math.inf  # in nats: beyond this divergence from the policy that acted, it is drawn back to it


@dataclass(frozen=True)
class Choices:
    """n actions that a policy chose."""

    obs: Tensor  # (n, width)
    action: Tensor  # (n, size) float32, or (n, k) int64
    log_prob: Tensor  # (n,)


@dataclass(frozen=True)
class Following:
    """The m transitions that came after those of a batch, in the same episodes, ordered by row and step."""

    row: Tensor  # (m,) int64: the transition of the batch that it came after
    step: Tensor  # (m,) int64, from 0: how many steps after its next observation it began
    obs: Tensor  # (m, width)
    action: Tensor  # (m, size) float32, or (m, k) int64
    log_prob: Tensor  # (m,)
    reward: Tensor  # (m,)
    next_obs: Tensor  # (m, width)
    done: Tensor  # (m,) bool


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
    policy: Tensor | None = None  # (n,) bool: the policy learns from it; None: from all
    value: Tensor | None = None  # (n,) bool: the value learns from it; None: from all
    following: Following | None = None  # what came after; None: the value of the next observation stands for it

    def __len__(self) -> int:
        """Return n, the number of transitions."""
        return len(self.reward)


@dataclass(frozen=True)
class StepResult:
    """The result of one gradient step."""

    loss: float
    actor_loss: float
    critic_loss: float
    entropy: float
    ratio: float  # mean, before clipping
    kl: float  # in nats, divergence from the policy that acted on `acted`; 0 if unknown
    grad_norm: float  # before clipping
    errors: Tensor  # (n,) |temporal difference|, in standard deviations of the value targets
    finite: bool  # False: the step was undone


@dataclass(frozen=True)
class Decaying:
    """An exponentially weighted mean, corrected for its start at 0 (as in Kingma and Ba 2015, arXiv:1412.6980)."""

    total: float = 0.0
    weight: float = 0.0

    @property
    def mean(self) -> float:
        """The mean; 0 without values."""
        return self.total / self.weight if self.weight else 0.0

    def with_(self, value: float) -> Decaying:
        """Return the mean with one more value."""
        return Decaying(MEMORY * self.total + (1 - MEMORY) * value, MEMORY * self.weight + (1 - MEMORY))


class ActorCritic:
    """The policy that is trained, with its critic, normalisers and optimizer. It never acts itself."""

    def __init__(
        self, spec: PolicySpec, network: ActorCriticNetwork, rule: OffPolicyRule, learning_rate: float
    ) -> None:
        """`network`: newly created by `Algorithm.actor_critic`, and used by no other object."""
        self.spec, self.rule = spec, rule
        self.network = network
        self.model = network.module.eval()  # eval: only `take_in` changes its normalisers
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=learning_rate, eps=EPSILON)
        self._squares = Decaying()  # of advantages

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

    def forget_returns(self) -> None:
        """Set the value normaliser, if there is one, back to its beginning, before it had any returns."""
        self.network.forget_returns()

    def targets(self, t: Transitions) -> Tensor:
        """(n,) one-step value targets r + gamma V(s'); also the returns for `normalise`."""
        with torch.no_grad():
            return t.reward + self.rule.discount * self._value(t.next_obs) * ~t.done

    def update(self, t: Transitions, acted: Choices | None = None) -> StepResult:
        """Make one gradient step. If it is non-finite, it is undone, and `StepResult.finite` is False.

        `acted`: the last choices of the policy that acted; None: no bound on the divergence from it.
        """
        rule, network = self.rule, self.network
        kl, back = self._divergence(acted)
        distribution, value = network.think(t.obs)
        log_prob = distribution.log_prob(t.action)
        with torch.no_grad():
            ratio = _ratio(log_prob, t.log_prob)
            rho = ratio.clamp(max=rule.ratio_clip)
            known = network.value_of(value)
            error = t.reward + rule.discount * self._outlook(t) * ~t.done - known
            target = network.output_for(known + rho * error)
            surprise = error / network.value_std()
            far = torch.where(error > 0, ratio > rule.trust, ratio < 1 / rule.trust)
            squares = self._squares.with_(float(_mean((rho * error) ** 2, t.policy)))
            usual = math.sqrt(squares.mean)
            scale = max(usual, LEAST_SCALE * float(network.value_std())) or 1.0
            near = ~far * (back is None)
        actor = -_mean(t.weight * (rho * error / scale) * log_prob * near, t.policy) if back is None else back
        critic = _mean(t.weight * (target - value.squeeze(1)) ** 2, t.value)
        entropy = distribution.entropy().mean()
        bonus = usual / scale * _mean(_bonus(distribution) * near, t.policy)
        loss = actor + rule.critic_coef * critic - rule.entropy_coef * bonus
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), rule.grad_norm)
        finite = bool(torch.isfinite(loss)) and bool(torch.isfinite(norm)) and self._step()
        self._squares = squares if finite else self._squares
        names = ("loss", "actor_loss", "critic_loss", "entropy", "ratio", "grad_norm")
        numbers = (loss, actor, critic, entropy, ratio.mean(), norm)
        scalars = {name: float(number.detach()) for name, number in zip(names, numbers, strict=True)}
        return StepResult(**scalars, kl=kl, errors=surprise.abs(), finite=finite)

    def _divergence(self, acted: Choices | None) -> tuple[float, Tensor | None]:
        """KL in nats from the policy that acted (0 if nothing is known of it); beyond the limit, also a loss ()."""
        if acted is None or not len(acted.obs):
            return 0.0, None
        distribution, _ = self.network.think(acted.obs)
        log_prob = distribution.log_prob(acted.action)
        log_ratio = (log_prob.detach() - acted.log_prob).clamp(-LOG_RATIO, LOG_RATIO)
        kl = float((log_ratio.exp() - 1 - log_ratio).mean())
        return kl, -log_prob.mean() if kl > self.rule.kl_limit else None

    def _outlook(self, t: Transitions) -> Tensor:
        """(n,) value of what comes after each transition: V(s') corrected by the transitions that followed."""
        f, rule = t.following, self.rule
        if f is None or not len(f.row):
            return self._value(t.next_obs)
        distribution, output = self.network.think(f.obs)
        steps = int(f.step.max()) + 1
        length = torch.bincount(f.row, minlength=len(t))
        last = f.step == length[f.row] - 1
        end = t.next_obs.clone()  # the last observation that is known
        end[f.row[last]] = f.next_obs[last]
        rho = _ratio(distribution.log_prob(f.action), f.log_prob).clamp(max=rule.ratio_clip)
        at = f.step.numpy(), f.row.numpy()
        known = np.zeros((steps + 1, len(t)), np.float32)  # values along the steps, and at the end
        known[at] = self.network.value_of(output).numpy()
        known[length.numpy(), np.arange(len(t))] = self._value(end).numpy()
        reward, ratio = np.zeros((2, steps, len(t)), np.float32)
        reward[at], ratio[at] = f.reward.numpy(), rho.numpy()
        going = np.zeros((steps, len(t)), bool)
        going[at] = (~f.done).numpy()
        error = reward + rule.discount * going * known[1:] - known[:-1]
        later = np.zeros(len(t), np.float32)
        for k in range(steps - 1, -1, -1):  # in NumPy: many small operations, which torch makes slower
            later = ratio[k] * (error[k] + rule.discount * rule.trace * later)
        return torch.from_numpy(known[0] + rule.trace * later)

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
        """A copy of everything that determines the next update: `model`, `optimizer` and `advantages`."""
        optimizer = copy.deepcopy(self.optimizer.state_dict())
        return {"model": self.model_state(), "optimizer": optimizer, "advantages": astuple(self._squares)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`. Raises UserError if the model does not fit, ValueError if the optimizer does not."""
        self.load_model(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        for group in self.optimizer.param_groups:
            group["eps"] = EPSILON  # checkpoints of earlier releases have another one
        self._squares = Decaying(*state.get("advantages", ()))  # checkpoints of earlier releases have none


def _bonus(distribution: Distribution) -> Tensor:
    """(n,) entropy, without the part that is beyond `WIDE` for a Box action or beyond `OPEN` for a discrete choice."""
    if distribution.log_std is None:
        most = torch.tensor([OPEN * math.log(logits.shape[1]) for logits in distribution.logits])
        return distribution.entropies().minimum(most).sum(1)
    return replace(distribution, log_std=distribution.log_std.clamp(max=WIDE)).entropy()


def _ratio(log_prob: Tensor, acted: Tensor) -> Tensor:
    """(n,) pi(a|s) / mu(a|s), from the logarithms of both."""
    return (log_prob - acted).clamp(-LOG_RATIO, LOG_RATIO).exp()


def _mean(terms: Tensor, chosen: Tensor | None) -> Tensor:
    """() mean of the chosen terms (n,); None: of all. 0 if there are none."""
    return terms.mean() if chosen is None else (terms * chosen).sum() / chosen.sum().clamp(min=1)
