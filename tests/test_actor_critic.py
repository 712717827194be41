"""The off-policy actor-critic: its numbers by hand, what it undoes, what it keeps, and that it learns.

The tiny network: the policy's logits (or means) are a bias alone, and V(s) = 2 max(s, 0) + 1. So every gradient can be
worked out on paper.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal

from livegym.rl.actor_critic import EPSILON, ActorCritic, Choices, Decaying, Following, OffPolicyRule, Transitions
from livegym.rl.algorithm import algorithm_of
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig, RecurrentConfig
from livegym.rl.distribution import Distribution
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError

ACTIONS = {"box": Box(2), "discrete": Discrete(3), "multi": MultiDiscrete((3, 2))}
LIMIT = 1e9  # a gradient norm that clips nothing
ON_POLICY = math.log(0.75)  # what the tiny network gives to action 1


def train_of(**changes) -> PPOConfig:
    return PPOConfig(**{"network": NetworkConfig(units=[8]), **changes})


def spec_of(action, width: int = 2) -> PolicySpec:
    return PolicySpec("Bandit", (("state", width),), (), action, 0.1)


def learner_of(action, rule=OffPolicyRule(0.0), rate=1e-2, width=2, seed=0, **train) -> ActorCritic:  # noqa: B008
    torch.manual_seed(seed)
    spec, config = spec_of(action, width), train_of(**train)
    return ActorCritic(spec, algorithm_of(config).actor_critic(spec, config), rule, rate)


def tiny(action=Discrete(2), rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT), **train) -> ActorCritic:  # noqa: B008
    """V(s) = 2 max(s, 0) + 1, whatever the action; logits (0, log 3), so probabilities (1/4, 3/4)."""
    network = NetworkConfig(units=[1], activation="relu")
    values = {"network": network, "normalize_input": False, "normalize_value": False}
    learner = learner_of(action, rule, width=1, **{**values, **train})
    net = learner.model.a2c_network
    with torch.no_grad():
        for value in learner.model.parameters():
            value.zero_()
        net.actor_mlp[0].weight.fill_(1.0)
        net.value.weight.fill_(2.0)
        net.value.bias.fill_(1.0)
        if isinstance(action, Discrete):
            net.logits.bias.copy_(torch.tensor([0.0, math.log(3.0)]))
    learner._squares = Decaying(1e9, 1e9)  # a history in which advantages measured 1: they count as they are
    return learner


def moves(obs=1.0, action=1, log_prob=ON_POLICY, reward=1.0, next_obs=2.0, done=False, weight=1.0) -> Transitions:
    """One transition of the tiny network's world."""
    numbers = ([[obs]], [log_prob], [reward], [[next_obs]], [weight])
    obs_, log_prob_, reward_, next_, weight_ = (torch.tensor(value) for value in numbers)
    return Transitions(obs_, torch.tensor([[action]]), log_prob_, reward_, next_, torch.tensor([done]), weight_)


def joined(*parts: Transitions) -> Transitions:
    names = ("obs", "action", "log_prob", "reward", "next_obs", "done", "weight")
    return Transitions(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def gradients(learner: ActorCritic) -> tuple[list[float], float]:
    """Of the logits' biases and of the value's bias, after the last update."""
    net = learner.model.a2c_network
    return net.logits.bias.grad.tolist(), net.value.bias.grad.item()


def random_batch(action, n=16, seed=1, width=2) -> Transitions:
    rng = torch.Generator().manual_seed(seed)
    if isinstance(action, Box):
        actions = torch.randn(n, action.size, generator=rng)
    else:
        sizes = (action.n,) if isinstance(action, Discrete) else action.nvec
        actions = torch.stack([torch.randint(size, (n,), generator=rng) for size in sizes], 1)
    obs, after = (torch.randn(n, width, generator=rng) for _ in range(2))
    log_prob, reward = -1.0 - torch.rand(n, generator=rng), torch.randn(n, generator=rng)
    return Transitions(obs, actions, log_prob, reward, after, torch.rand(n, generator=rng) < 0.2, torch.ones(n))


def same(one, other) -> bool:
    """Whether two nested states are equal to the last bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def finite(learner: ActorCritic) -> bool:
    """Whether every weight and every normaliser is."""
    return all(bool(torch.isfinite(value).all()) for value in learner.model_state().values())


# -- what a distribution says of an action


def test_a_box_by_hand():
    """Two normals: mean 1, sigma 2 at 3 (one sigma off), and mean 0, sigma 1 at 0."""
    distribution = Distribution(torch.tensor([[1.0, 0.0]]), torch.tensor([[math.log(2.0), 0.0]]), (), False, ())
    action, constant = torch.tensor([[3.0, 0.0]]), 0.5 * math.log(2 * math.pi)
    assert distribution.log_prob(action).item() == pytest.approx(-0.5 - math.log(2.0) - 2 * constant)
    assert distribution.entropy().item() == pytest.approx(math.log(2.0) + 2 * constant + 1.0)
    assert distribution.confidence(distribution.log_prob(action)).item() == pytest.approx(math.exp(-0.5))
    assert distribution.confidence(distribution.log_prob(distribution.mode())).item() == 1.0


def test_choices_by_hand():
    """Probabilities (1/2, 1/4, 1/4) and (3/4, 1/4)."""
    first, second = torch.log(torch.tensor([[0.5, 0.25, 0.25]])), torch.log(torch.tensor([[0.75, 0.25]]))
    one = Distribution(None, None, (first + 7.0,), True, ())  # logits need not be normalised
    two = Distribution(None, None, (first, second - 3.0), False, ())
    h = [-sum(p * math.log(p) for p in ps) for ps in ((0.5, 0.25, 0.25), (0.75, 0.25))]
    for action in (torch.tensor([2]), torch.tensor([[2]])):  # as `mode` gives it, or as a row
        assert one.log_prob(action).item() == pytest.approx(math.log(0.25))
        assert one.confidence(one.log_prob(action)).item() == pytest.approx(0.5)
    assert one.entropy().item() == pytest.approx(h[0])
    assert two.entropies().tolist() == [pytest.approx(h)]
    assert two.log_prob(torch.tensor([[2, 1]])).item() == pytest.approx(math.log(1 / 16))
    assert two.confidence(two.log_prob(torch.tensor([[2, 1]]))).item() == pytest.approx(0.5 / 3)
    assert two.confidence(two.log_prob(torch.tensor([[0, 0]]))).item() == pytest.approx(1.0)
    assert two.entropy().item() == pytest.approx(h[0] + h[1])


def test_all_three_agree_with_torchs_own_distributions():
    rng = torch.Generator().manual_seed(0)
    mean, log_std, action = (torch.randn(50, 3, generator=rng) for _ in range(3))
    distribution, reference = Distribution(mean, log_std, (), False, ()), Independent(Normal(mean, log_std.exp()), 1)
    torch.testing.assert_close(distribution.log_prob(action), reference.log_prob(action))
    torch.testing.assert_close(distribution.entropy(), reference.entropy())
    logits = (3 * torch.randn(50, 4, generator=rng), 3 * torch.randn(50, 2, generator=rng))
    choices = torch.stack([torch.randint(size, (50,), generator=rng) for size in (4, 2)], 1)
    parts = [Categorical(logits=x) for x in logits]
    sums = sum(part.log_prob(choices[:, i]) for i, part in enumerate(parts))
    torch.testing.assert_close(Distribution(None, None, logits, False, ()).log_prob(choices), sums)
    torch.testing.assert_close(Distribution(None, None, logits, False, ()).entropy(), sum(p.entropy() for p in parts))
    one = Distribution(None, None, logits[:1], True, ())
    torch.testing.assert_close(one.log_prob(choices[:, 0]), parts[0].log_prob(choices[:, 0]))


# -- one update on paper


def test_the_gradient_of_one_transition():
    """V(1) = 3, V(2) = 5, r = 1, gamma = 1/2: delta = 1 + 2.5 - 3 = 0.5, on policy, so rho = 1 and the target is 3.5.

    Actor -delta log pi: on the logits -delta (1[a] - p) = -0.5 (-1/4, 1/4). Critic 1/2 (v - 3.5)^2: on its bias -0.5.
    """
    learner = tiny()
    outcome = learner.update(moves())
    logits, value = gradients(learner)
    assert logits == pytest.approx([0.125, -0.125])
    assert value == pytest.approx(-0.5)
    assert outcome.errors.tolist() == pytest.approx([0.5])
    assert (outcome.actor_loss, outcome.critic_loss) == pytest.approx((-0.5 * math.log(0.75), 0.25))
    assert outcome.loss == pytest.approx(outcome.actor_loss + 0.5 * 0.25)
    assert outcome.ratio == pytest.approx(1.0)
    hidden = -0.5 * 2.0  # and through V's weight 2, as relu(1) = 1: on the hidden weight and bias alike
    norm = math.sqrt(2 * 0.125**2 + 2 * 0.125**2 + 2 * 0.5**2 + 2 * hidden**2)  # weights see the same, as s = 1
    assert outcome.grad_norm == pytest.approx(norm)


def decided(rule: OffPolicyRule) -> ActorCritic:
    """The tiny learner with probabilities (1/20, 19/20), whose entropy is below half of log 2."""
    learner = tiny(rule=rule)
    with torch.no_grad():
        learner.model.a2c_network.logits.bias.copy_(torch.tensor([0.0, math.log(19.0)]))
    return learner


def bonus_gradient(coefficient: float) -> list[float]:
    """-dH/dlogit_i = p_i (log p_i + H) with p = (1/20, 19/20), which pulls towards the uniform."""
    h = -(0.05 * math.log(0.05) + 0.95 * math.log(0.95))
    return [coefficient * p * (math.log(p) + h) for p in (0.05, 0.95)]


def test_the_entropy_bonus():
    learner = decided(OffPolicyRule(0.5, 1.0, 0.1, 0.5, LIMIT))
    outcome = learner.update(moves(reward=0.5, log_prob=math.log(0.95)))  # delta = 0: nothing but the bonus
    h = -(0.05 * math.log(0.05) + 0.95 * math.log(0.95))
    logits, value = gradients(learner)
    assert logits == pytest.approx(bonus_gradient(0.1), rel=1e-4)
    assert (value, outcome.entropy, outcome.loss) == pytest.approx((0.0, h, -0.1 * h))


def test_a_choice_that_is_open_enough_earns_no_entropy_bonus():
    """Of probabilities (1/4, 3/4), the entropy is 0.562; above half of log 2 (0.347) it earns nothing more."""
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.1, 0.5, LIMIT))
    outcome = learner.update(moves(reward=0.5))
    assert gradients(learner)[0] == [0.0, 0.0]
    assert (outcome.entropy, outcome.loss) == pytest.approx((0.5623351, -0.1 * 0.5 * math.log(2.0)))


def test_with_little_left_to_gain_the_entropy_bonus_is_reduced_as_the_advantages_are():
    """Advantages have measured 0.05, a tenth of the least scale of 0.5: a tenth of the bonus is left."""
    learner = decided(OffPolicyRule(0.5, 1.0, 0.1, 0.5, LIMIT))
    learner._squares = Decaying(1e9 * 0.05**2, 1e9)
    learner.update(moves(reward=0.5, log_prob=math.log(0.95)))  # delta = 0: nothing but the bonus
    assert gradients(learner)[0] == pytest.approx(bonus_gradient(0.01), rel=1e-4)


def test_small_gradients_make_small_steps():
    """A gradient g moves a parameter by rate x g / (g + 1e-5) in Adam's first step; without the 1e-5, by the rate."""
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT))
    learner.learning_rate = 0.1
    before = learner.model.a2c_network.logits.bias.detach().clone()
    learner.update(moves(weight=1e-4))
    gradient = 0.125 * 1e-4
    step = 0.1 * gradient / (gradient + 1e-5)
    moved = (learner.model.a2c_network.logits.bias - before).detach()
    assert moved.tolist() == pytest.approx([-step, step], rel=1e-3)


def test_an_optimizer_of_an_earlier_release_gets_this_ones_epsilon():
    learner = tiny()
    learner.update(moves())
    state = learner.state()
    state["optimizer"]["param_groups"][0]["eps"] = 1e-8
    learner.load_state(state)
    assert learner.optimizer.param_groups[0]["eps"] == EPSILON


def test_a_box_action_is_no_wider_than_its_range_and_what_is_wide_earns_nothing():
    """The bonus pushes a std of e^-1 wider; one of 0.6 it leaves alone, and no step makes it wider than 1."""

    def pushed(start: float) -> float:
        learner = learner_of(Box(1), OffPolicyRule(0.0, entropy_coef=1.0), rate=0.1)
        learner.network.log_std.data.fill_(start)
        batch = random_batch(Box(1))
        for _ in range(20):
            learner.update(dataclasses.replace(batch, weight=torch.zeros(len(batch))))  # only the bonus is left
        return learner.network.log_std.item()

    assert pushed(-1.0) > -0.9
    assert pushed(-0.5) == -0.5
    assert pushed(0.0) == 0.0
    assert pushed(0.7) == 0.0


def test_a_normal_policys_gradient():
    """Mean 0, sigma 1, action 2: d log pi / d mu = 2 and d log pi / d log sigma = 3, times -delta = -0.5."""
    learner = tiny(Box(1))
    log_prob = -2.0 - 0.5 * math.log(2 * math.pi)
    learner.update(Transitions(
        torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([log_prob]), torch.tensor([1.0]),
        torch.tensor([[2.0]]), torch.tensor([False]), torch.tensor([1.0]),
    ))  # fmt: skip
    net = learner.model.a2c_network
    assert net.mu.bias.grad.item() == pytest.approx(-1.0)
    assert net.sigma.grad.item() == pytest.approx(-1.5)


@pytest.mark.parametrize(
    ("behaviour", "reward", "pushes"),
    [
        (0.3, 1.0, False),  # good, and 2.5 times as probable by now: beyond a trust of 2
        (0.5, 1.0, True),  # 1.5 times
        (0.3, 0.0, True),  # the same, but bad: delta = -0.5 takes it back
    ],
)
def test_what_has_become_more_probable_by_more_than_the_trust_is_pushed_no_further(behaviour, reward, pushes):
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT, trust=2.0))
    learner.update(moves(log_prob=math.log(behaviour), reward=reward))
    logits, value = gradients(learner)
    delta = reward - 0.5
    assert logits == pytest.approx([0.25 * delta, -0.25 * delta] if pushes else [0.0, 0.0])
    assert value == pytest.approx(-delta)  # values are learned all the same


@pytest.mark.parametrize(("behaviour", "pushes"), [(0.25, False), (0.75, True)])
def test_where_the_policy_is_pushed_no_further_its_entropy_earns_nothing(behaviour, pushes):
    """The action is 3 times as probable as it was, beyond a trust of 2: the bonus would go on pulling without data."""
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 10.0, 0.5, LIMIT, trust=2.0))
    learner.update(moves(log_prob=math.log(behaviour)))
    assert (gradients(learner)[0] != [0.0, 0.0]) is pushes


def test_what_is_bad_and_has_become_improbable_is_pushed_no_further():
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT, trust=1.2))
    learner.update(moves(log_prob=0.0, reward=0.0))  # it was certain, and is 3/4 by now: below 1 / 1.2
    assert gradients(learner)[0] == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize(
    ("behaviour", "clip", "rho"),
    [
        (0.75, 1.0, 1.0),  # on policy
        (0.25, 1.0, 1.0),  # now three times as likely: truncated
        (0.25, 2.0, 2.0),
        (0.25, 5.0, 3.0),  # below the bound
        (1.0, 1.0, 0.75),  # now less likely: counts less
        (1e-30, 1.0, 1.0),  # far beyond the largest ratio that is told apart
        (0.0, 1.0, 1.0),  # log 0
    ],
)
def test_the_ratio_is_truncated_in_the_target_and_in_the_actor(behaviour, clip, rho):
    learner = tiny(rule=OffPolicyRule(0.5, clip, 0.0, 0.5, LIMIT, trust=math.inf))
    outcome = learner.update(moves(log_prob=math.log(behaviour) if behaviour else -math.inf))
    logits, value = gradients(learner)
    assert logits == pytest.approx([rho * 0.125, -rho * 0.125])
    assert value == pytest.approx(-0.5 * rho)  # target 3 + rho 0.5
    assert outcome.critic_loss == pytest.approx((0.5 * rho) ** 2)
    if behaviour > 1e-8:
        assert outcome.ratio == pytest.approx(0.75 / behaviour)
    assert outcome.finite


def test_an_end_cuts_what_would_have_come():
    """delta = 1 - 3 = -2, however good the observation after it looks."""
    for after in (2.0, 1e6):
        learner = tiny()
        outcome = learner.update(moves(done=True, next_obs=after))
        assert outcome.errors.tolist() == [2.0]
        assert gradients(learner)[0] == pytest.approx([-0.5, 0.5])
        assert learner.targets(moves(done=True, next_obs=after)).tolist() == [1.0]
    assert tiny().targets(moves()).tolist() == [3.5]


def test_without_discount_the_next_observation_means_nothing():
    states = []
    for after in (2.0, -50.0):
        learner = tiny(rule=OffPolicyRule(0.0, 1.0, 0.0, 0.5, LIMIT))
        assert learner.update(moves(next_obs=after)).errors.tolist() == [2.0]
        states.append(learner.state())
    assert same(*states)


def test_sampling_weights_scale_both_losses():
    one, two = moves(), moves(obs=2.0, action=0, log_prob=math.log(0.25), next_obs=0.0)  # delta 0.5; 1 + 0.5 - 5 = -3.5
    learner = tiny()
    outcome = learner.update(joined(one, moves(weight=0.25), two))
    logits, value = gradients(learner)
    assert outcome.errors.tolist() == pytest.approx([0.5, 0.5, 3.5])
    second = 3.5 * 0.75  # -delta (1[a = 0] - p), on the first logit
    assert logits[0] == pytest.approx((1.25 * 0.125 + second) / 3)
    assert value == pytest.approx((1.25 * -0.5 + 3.5) / 3)
    learner = tiny()
    learner.update(joined(one, moves(weight=0.0)))
    assert gradients(learner)[1] == pytest.approx(-0.25)


def test_gradients_are_clipped_to_their_norm_which_is_reported_before():
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, grad_norm=0.1))
    outcome = learner.update(moves(reward=1000.0))
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in learner.model.parameters()))
    assert norm == pytest.approx(0.1, rel=1e-4)
    assert outcome.grad_norm > 100


def test_errors_are_in_standard_deviations_of_the_targets_and_advantages_in_their_own():
    """Targets with variance 16 and mean 3: V in their units, an error of 8 is 2 of these, and the first advantage is 1.

    The next advantages are 8 too, so they stay 1; an advantage of 0.2 counts by half of the targets' deviation, 2.
    """
    learner = tiny(rule=OffPolicyRule(0.0, 1.0, 0.0, 0.5, LIMIT), normalize_value=True)
    stats = learner.model.value_mean_std
    stats.running_mean.fill_(3.0)
    stats.running_var.fill_(16.0)
    with torch.no_grad():
        learner.model.a2c_network.value.weight.zero_()
        learner.model.a2c_network.value.bias.fill_(0.5)  # V = 3 + 4 x 0.5 = 5
    learner._squares = Decaying()
    learner.learning_rate = 1e-12
    outcome = learner.update(moves(reward=13.0))
    logits, value = gradients(learner)
    assert outcome.errors.tolist() == pytest.approx([2.0])  # priorities know no unit of reward either
    assert logits == pytest.approx([1.0 / 4, -1.0 / 4])
    learner.update(moves(reward=13.0))
    assert gradients(learner)[0] == pytest.approx([1.0 / 4, -1.0 / 4], rel=1e-4)
    learner._squares = Decaying()
    learner.update(moves(reward=5.2))
    assert gradients(learner)[0] == pytest.approx([0.1 / 4, -0.1 / 4], rel=1e-4)
    learner.update(moves(reward=13.0))
    _, value = gradients(learner)
    assert value == pytest.approx(0.5 - 2.5)  # critic_coef 1/2 of 2 (0.5 - (13 - 3) / 4)
    assert outcome.critic_loss == pytest.approx(4.0)


# -- what came after


def followed(t: Transitions, *steps: tuple) -> Transitions:
    """One transition, and the (obs, log_prob, reward, next_obs, done) of those after it, all with action 1."""
    obs, log_prob, reward, next_obs, done = (torch.tensor(column) for column in zip(*steps, strict=True))
    after = Following(
        torch.zeros(len(steps), dtype=torch.long), torch.arange(len(steps)), obs[:, None],
        torch.ones(len(steps), 1, dtype=torch.long), log_prob, reward, next_obs[:, None], done,
    )  # fmt: skip
    return dataclasses.replace(t, following=after)


TRACE = OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT, trace=0.8)


def test_what_came_after_counts_by_lambda_and_by_its_ratios():
    """V(1) = 3, V(2) = 5, V(4) = 9, V(0) = 1; gamma = 1/2, lambda = 0.8; r = 1, then 2, then 4.

    d_0 = 1 + 2.5 - 3 = 0.5; d_1 = 2 + 4.5 - 5 = 1.5; d_2 = 4 + 0.5 - 9 = -4.5. The second was half as probable as it is
    now, which counts as 1; the third is half as probable as it was: rho_2 = 1/2.
    A = 0.5 + 0.4 x (1.5 + 0.4 x 0.5 x -4.5) = 0.74, and the value's target 3.74.
    """
    learner = tiny(rule=TRACE)
    half = math.log(0.5)
    t = followed(moves(), (2.0, ON_POLICY + half, 2.0, 4.0, False), (4.0, ON_POLICY - half, 4.0, 0.0, False))
    outcome = learner.update(t)
    logits, value = gradients(learner)
    assert outcome.errors.tolist() == pytest.approx([0.74])
    assert (logits, value) == (pytest.approx([0.74 / 4, -0.74 / 4]), pytest.approx(-0.74))


def test_after_an_end_nothing_counts_but_its_reward():
    """d_1 = 2 - 5 = -3, as the episode ends there; A = 0.5 + 0.4 x -3."""
    learner = tiny(rule=TRACE)
    outcome = learner.update(followed(moves(), (2.0, ON_POLICY, 2.0, 4.0, True)))
    assert outcome.errors.tolist() == pytest.approx([0.7])  # |-0.7|
    assert gradients(learner)[1] == pytest.approx(0.7)


def test_a_batch_keeps_its_sequences_apart():
    """Three transitions, of which only the second and the third are followed, by one and by two steps."""
    one, two = (2.0, ON_POLICY, 2.0, 4.0, False), (4.0, ON_POLICY, 4.0, 0.0, False)
    alone = [tiny(rule=TRACE).update(t).errors for t in (moves(), followed(moves(), one), followed(moves(), one, two))]
    batch = joined(moves(), moves(), moves())
    parts = [followed(moves(), one).following, followed(moves(), one, two).following]
    assert all(part is not None for part in parts)
    names = ("step", "obs", "action", "log_prob", "reward", "next_obs", "done")
    after = Following(torch.tensor([1, 2, 2]), *(torch.cat([getattr(part, name) for part in parts]) for name in names))
    together = tiny(rule=TRACE).update(dataclasses.replace(batch, following=after)).errors
    assert together.tolist() == pytest.approx(torch.cat(alone).tolist())
    assert len(set(together.tolist())) == 3


# -- the bound on the divergence from the policy that acted


def test_beyond_the_limit_the_policy_is_drawn_back_to_the_one_that_acted():
    """Probabilities (1/4, 3/4) now, (1/2, 1/2) when it acted: x = 1/2 and 3/2, KL is the mean of x - 1 - log x.

    The gradient on the logits is then what is likely now minus what was chosen, (1/4, 3/4) - (1/2, 1/2).
    """
    both = Choices(torch.ones(2, 1), torch.tensor([[0], [1]]), torch.full((2,), math.log(0.5)))
    kl = (-math.log(0.5) - math.log(1.5)) / 2
    for limit, pushes in ((kl * 1.01, [0.125, -0.125]), (kl * 0.99, [-0.25, 0.25])):
        learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT, kl_limit=limit))
        outcome = learner.update(moves(), both)
        logits, value = gradients(learner)
        assert outcome.kl == pytest.approx(kl)
        assert (logits, value) == (pytest.approx(pushes), pytest.approx(-0.5))


def test_without_a_policy_that_acted_there_is_no_bound():
    learner = tiny(rule=OffPolicyRule(0.5, 1.0, 0.0, 0.5, LIMIT, kl_limit=1e-9))
    assert learner.update(moves()).kl == 0.0
    assert gradients(learner)[0] == pytest.approx([0.125, -0.125])


def test_the_policys_and_the_values_lessons_are_apart():
    """Two equal transitions: the policy learns from the first alone, the value from the second alone."""
    t = joined(moves(), moves(reward=3.0))
    learner = tiny()
    learner.update(dataclasses.replace(t, policy=torch.tensor([True, False]), value=torch.tensor([False, True])))
    assert gradients(learner) == (pytest.approx([0.125, -0.125]), pytest.approx(-2.5))


# -- normalisers


def test_each_observation_counts_once_however_often_it_is_replayed():
    """Report R8: 1,000 new transitions, 50 updates; the normaliser's count rises by 1,000."""
    learner = learner_of(Discrete(3))
    before = learner.model_state()
    rng = torch.Generator().manual_seed(0)
    obs, returns = 3 + 2 * torch.randn(1000, 2, generator=rng), torch.randn(1000, generator=rng)
    for part in range(0, 1000, 125):
        learner.normalise(obs[part : part + 125], returns[part : part + 125])
    known = learner.model_state()
    for seed in range(50):
        assert learner.update(random_batch(Discrete(3), seed=seed)).finite
    after = learner.model_state()
    for name in ("running_mean_std", "value_mean_std"):
        assert after[f"{name}.count"] - before[f"{name}.count"] == 1000
        assert all(same(after[f"{name}.{part}"], known[f"{name}.{part}"]) for part in ("running_mean", "running_var"))
    mean = obs.double().sum(0) / 1001  # one more, at 0, is what a fresh normaliser begins with
    torch.testing.assert_close(after["running_mean_std.running_mean"], mean, rtol=1e-5, atol=0)


def test_one_observation_at_a_time_keeps_the_normaliser_finite():
    learner = learner_of(Discrete(3))
    learner.normalise(torch.tensor([[2.0, 4.0]]), torch.tensor([1.0]))
    learner.normalise(torch.zeros(0, 2), torch.zeros(0))
    state = learner.model_state()
    assert state["running_mean_std.count"].item() == 2.0
    assert state["running_mean_std.running_mean"].tolist() == [1.0, 2.0]
    assert state["running_mean_std.running_var"].tolist() == [1.5, 4.5]  # (1 x 1 + (2, 4)^2 x 1 x 1 / 2) / 2
    assert finite(learner)


def test_without_normalisers_nothing_is_normalised():
    learner = learner_of(Discrete(3), normalize_input=False, normalize_value=False)
    before = learner.state()
    learner.normalise(torch.ones(5, 2), torch.ones(5))
    assert same(before, learner.state())


# -- a step that goes wrong


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("field", ["obs", "log_prob", "reward", "next_obs", "weight"])
def test_a_batch_with_nan_in_it_leaves_no_trace(action, field):
    learner = learner_of(action, OffPolicyRule(0.9))
    for seed in range(3):
        learner.update(random_batch(action, seed=seed))
    before = learner.state()
    batch = random_batch(action)
    batch.done[0] = False
    getattr(batch, field)[0] = math.nan
    outcome = learner.update(batch)
    assert not outcome.finite
    assert not math.isfinite(outcome.loss)
    assert same(before, learner.state())
    assert learner.update(random_batch(action, seed=9)).finite
    assert not same(before, learner.state())


def test_a_bad_first_step_leaves_an_optimizer_that_has_seen_nothing():
    learner = learner_of(Discrete(3))
    before = learner.state()
    batch = random_batch(Discrete(3))
    batch.reward[3] = math.inf
    assert not learner.update(batch).finite
    assert same(before, learner.state())
    assert learner.state()["optimizer"]["state"] == {}


def test_weights_that_a_step_would_make_infinite_are_undone():
    """Adam's first step is the rate: 3.2e38 + 3e37 is beyond float32, though loss and gradients are finite."""
    learner = tiny()
    learner.model.a2c_network.logits.bias.data.fill_(3.2e38)
    learner.learning_rate = 3e37
    before = learner.state()
    outcome = learner.update(moves(log_prob=math.log(0.5)))
    assert not outcome.finite
    assert math.isfinite(outcome.loss)
    assert math.isfinite(outcome.grad_norm)
    assert same(before, learner.state())


# -- states


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_k_and_m_updates_are_k_a_stop_and_m(action):
    rule = OffPolicyRule(0.9)

    def go_on(learner, seeds):
        for seed in seeds:
            batch = random_batch(action, seed=seed)
            learner.normalise(batch.obs, learner.targets(batch))
            assert learner.update(batch).finite

    through = learner_of(action, rule)
    go_on(through, range(7))
    first = learner_of(action, rule)
    go_on(first, range(4))
    kept = first.state()
    go_on(first, range(100, 103))  # what is kept is a copy
    second = learner_of(action, rule, seed=5)
    second.load_state(kept)
    go_on(second, range(4, 7))
    assert same(through.state(), second.state())
    assert not same(through.state(), first.state())


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_its_model_is_one_that_acts(action):
    learner = learner_of(action)
    learner.normalise(5 + torch.randn(40, 2), torch.randn(40))
    for seed in range(3):
        learner.update(random_batch(action, seed=seed))
    policy = Policy(spec_of(action), train_of(), 16, "cpu")
    policy.load(learner.model_state(), learner.spec)
    batch = random_batch(action)
    log_prob = policy(batch.obs).log_prob(batch.action)
    outcome = learner.update(Transitions(**{**vars(batch), "log_prob": log_prob}))
    assert outcome.ratio == pytest.approx(1.0, abs=1e-6)  # it would do the same


def test_another_policys_weights_are_refused_and_change_nothing():
    learner = learner_of(Discrete(3))
    before = learner.state()
    with pytest.raises(UserError, match=r"does not fit: a2c_network\.logits\.weight is torch.float32\[4, 8\]"):
        learner.load_model(learner_of(Discrete(4)).model_state())
    with pytest.raises(UserError, match="does not fit"):
        learner.load_state(learner_of(Discrete(3), width=5).state())
    assert same(before, learner.state())


def test_a_policy_that_remembers_is_refused_with_what_to_do():
    network = NetworkConfig(units=[8], recurrent=RecurrentConfig(units=4))
    with pytest.raises(UserError, match=r"train\.network\.recurrent: .* Allowed: null\. .*task\.history"):
        learner_of(Discrete(3), network=network)


def test_its_weights_come_from_the_seed_and_leave_the_generator_alone():
    torch.manual_seed(3)
    expected = torch.get_rng_state()
    one, other = learner_of(Box(1), seed=3), learner_of(Box(1), seed=3)
    assert same(one.state(), other.state())
    assert torch.equal(torch.get_rng_state(), expected)


def test_the_learning_rate_is_adams():
    learner = learner_of(Discrete(3), rate=0.01)
    assert learner.learning_rate == 0.01
    learner.learning_rate = 0.0
    before = learner.model_state()
    assert learner.update(random_batch(Discrete(3))).finite
    assert same(before, learner.model_state())


# -- it learns


def bandit_reward(obs: torch.Tensor, action: torch.Tensor, kind) -> torch.Tensor:
    """The sign of the first number says what is right: choice 0 or 1; the second choice, the sign of the second."""
    sign = torch.sign(obs)
    if isinstance(kind, Box):
        return -((action.clamp(-3, 3) - 0.8 * sign) ** 2).sum(1)
    right = (action == (sign[:, : action.shape[1]] > 0).long()).float()
    return right.mean(1)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_it_learns_a_contextual_bandit_from_what_older_policies_did(action):
    """Behaviour: the policy as it was up to 10 updates ago. From chance to nearly always right in 400 updates."""
    learner = learner_of(action, OffPolicyRule(0.0, entropy_coef=0.0), rate=3e-3)
    policy, rng = Policy(spec_of(action), train_of(), 64, "cpu"), torch.Generator().manual_seed(1)

    def act(n=64):
        obs = 2 * torch.randint(2, (n, 2), generator=rng).float() - 1
        distribution = policy(obs)
        chosen = distribution.sample(rng)
        rows = chosen.reshape(n, -1)
        return obs, distribution, rows

    def score() -> float:
        policy.copy(learner.model_state())
        obs, distribution, _ = act()
        return bandit_reward(obs, distribution.mode().reshape(len(obs), -1), action).mean().item()

    before = score()
    for step in range(400):
        if step % 10 == 0:
            policy.copy(learner.model_state())
            obs, distribution, rows = act()
            reward = bandit_reward(obs, rows, action)
            batch = Transitions(
                obs,
                rows,
                distribution.log_prob(rows),
                reward,
                torch.zeros_like(obs),
                torch.zeros(64).bool(),
                torch.ones(64),
            )
            learner.normalise(obs, reward)
        assert learner.update(batch).finite
    after = score()
    best = 0.0 if isinstance(action, Box) else 1.0
    assert after > best - 0.1, (before, after)
    assert after > before + 0.3
