"""Off-policy estimates: by hand, and how often their intervals hold the truth on a bandit that is known."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from livegym.online.estimate import blocks, difference, doubly_robust, mean_of, self_normalised, student_quantile

REWARDS = np.array([1.0, 0.0, 2.0, 1.0])
RATIOS = np.log([2.0, 1.0, 0.5, 0.5])


def many(values, times=20):
    return np.tile(np.asarray(values, float), times)


def test_the_self_normalised_mean_by_hand():
    """(2 x 1 + 1 x 0 + 0.5 x 2 + 0.5 x 1) / (2 + 1 + 0.5 + 0.5) = 3.5 / 4; effective 4^2 / 5.5."""
    got = self_normalised(REWARDS, RATIOS)
    assert (got.mean, got.effective, got.samples) == (pytest.approx(0.875), pytest.approx(16 / 5.5), 4)
    assert mean_of(REWARDS).mean == 1.0
    assert mean_of(REWARDS).effective == 4.0


def test_the_doubly_robust_mean_by_hand():
    """Mean of `expected` 1.0; corrections 2 x 0.5 - 1 x 0.5 + 0.5 x 1 + 0 = 1, of weights 4: 1.25."""
    modelled, expected = np.array([0.5, 0.5, 1.0, 1.0]), np.array([0.5, 1.5, 1.0, 1.0])
    assert doubly_robust(REWARDS, RATIOS, modelled, expected).mean == pytest.approx(1.25)


def test_the_interval_of_a_mean_is_students():
    """100 values of 0 and 1: standard error sqrt(0.25 / 99), and t(0.975, 99) = 1.98422."""
    got = mean_of(many([0.0, 1.0], 50))
    assert (got.low, got.high) == pytest.approx((0.5 - 1.98422 * 0.0502519, 0.5 + 1.98422 * 0.0502519), abs=1e-6)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        (0.975, 9, 2.26216), (0.975, 29, 2.04523), (0.975, 99, 1.98422), (0.975, 1e9, 1.95996),
        (0.995, 9, 3.24984), (0.995, 29, 2.75639),
    ],
)  # fmt: skip
def test_students_quantiles(probability, freedom, quantile):
    assert student_quantile(probability, freedom) == pytest.approx(quantile, abs=1e-3)


def test_rewards_that_are_shifted_shift_the_estimate():
    """Plain importance weighting would not: the sum of the weights is not n."""
    shifted = self_normalised(REWARDS + 10.0, RATIOS)
    assert shifted.mean == pytest.approx(self_normalised(REWARDS, RATIOS).mean + 10.0)


def test_too_few_effective_samples_are_unknown():
    got = self_normalised(REWARDS, RATIOS)
    assert (got.low, got.high, got.known) == (-math.inf, math.inf, False)
    assert "too few effective samples: 2.9, at least 30" in got.unknown
    assert self_normalised(np.zeros(0), np.zeros(0)).unknown == "there are no decisions"
    assert "none of the actions" in self_normalised(REWARDS, np.full(4, -math.inf)).unknown
    json.dumps(self_normalised(np.zeros(0), np.zeros(0)).to_plain(), allow_nan=False)


def test_a_policy_that_acts_outside_the_log_is_unknown():
    """All weights are equal, so the effective sample size is 200; the action that it would take never happened."""
    got = self_normalised(many(REWARDS, 50), np.full(200, math.log(0.003)))
    assert got.effective == pytest.approx(200)
    assert not got.known
    assert "the mean ratio is 0.00, but should be 1: its likely actions are hardly in the log" in got.unknown


def test_an_unknown_estimate_is_never_below():
    low, high, unknown = mean_of(many([0.0, 1.0])), mean_of(many([5.0, 6.0])), mean_of(np.array([-9.0, -9.0]))
    assert low.below(high)
    assert not high.below(low)
    assert not unknown.below(high)
    assert not low.below(unknown)
    assert not low.below(low)


def test_ratios_are_clipped_and_it_is_said():
    """Ratios of 100 and 1 in equal numbers, clipped at 20: (20 x 1 + 1 x 0) / 21."""
    got = self_normalised(many([1.0, 0.0]), many(np.log([100.0, 1.0])))
    assert got.mean == pytest.approx(20 / 21)
    assert got.clipped == 0.5
    assert got.mean_ratio == pytest.approx(50.5)
    assert not got.known  # the propensities cannot be right


def test_ratios_beyond_every_number_do_not_overflow():
    got = self_normalised(many([1.0, 0.0]), np.full(40, 1e4))
    assert got.mean == 0.5
    assert math.isfinite(got.mean_ratio)


@pytest.mark.parametrize("log_ratio", [-100.0, -400.0, -700.0, -740.0, -1000.0])
def test_ratios_whose_squares_are_zero_tell_nothing(log_ratio):
    """It was a division by zero: squares vanish long before the ratios do."""
    estimate = self_normalised(np.linspace(0.0, 1.0, 100), np.full(100, log_ratio))
    assert not estimate.known
    assert not difference(estimate, mean_of(np.zeros(100))).known
    if log_ratio > -745.0:
        assert estimate.effective == pytest.approx(100.0)
        assert estimate.mean == pytest.approx(0.5)
        assert "its likely actions are hardly in the log" in estimate.unknown


def test_the_same_policy_differs_by_exactly_nothing():
    rewards = many(REWARDS)
    gain = difference(self_normalised(rewards, np.zeros(80)), mean_of(rewards))
    assert (gain.mean, gain.low, gain.high) == (0.0, 0.0, 0.0)


def test_a_paired_difference_is_narrower():
    rng = np.random.default_rng(0)
    rewards, log_ratios = rng.normal(0, 10, 1000), rng.normal(0, 0.05, 1000)
    other, acting = self_normalised(rewards, log_ratios), mean_of(rewards)
    gain = difference(other, acting)
    assert gain.mean == pytest.approx(other.mean - acting.mean)
    assert gain.high - gain.low < 0.1 * (other.high - other.low)


def test_what_rounding_leaves_of_two_equal_estimates_is_no_gain():
    """0.1 is not exact in binary, so the orders in which the two sums are taken leave a difference of 1e-17."""
    rewards = np.random.default_rng(1).normal(0.1, 0.1, 999)
    one, other = mean_of(rewards), mean_of(rewards)
    other = dataclasses.replace(other, mean=np.nextafter(other.mean, 1), influence=other.influence * (1 + 2e-16))
    assert other.mean != one.mean
    gain = difference(one, other)
    assert (gain.mean, gain.low, gain.high) == (0.0, 0.0, 0.0)
    real = difference(mean_of(rewards + 1e-9), one)
    assert real.low > 0.0


def test_a_difference_of_different_decisions_is_refused():
    with pytest.raises(ValueError, match="same decisions and groups, not 4 decisions in 4 groups and 3 in 3"):
        difference(mean_of(REWARDS), mean_of(REWARDS[:3]))


def test_equal_decisions_of_a_group_count_once():
    """Each value eight times in a group: the standard error is that of the groups, not of the decisions."""
    values = np.random.default_rng(0).normal(size=50)
    alone = mean_of(values)
    grouped = mean_of(np.repeat(values, 8), groups=np.repeat(np.arange(50), 8))
    assert (grouped.low, grouped.high) == pytest.approx((alone.low, alone.high))
    assert grouped.groups == 50
    too_few = mean_of(np.repeat(values, 8), groups=np.repeat(np.arange(50) // 10, 8))
    assert "too few independent groups of decisions: 5, at least 10" in too_few.unknown


def test_a_mean_ratio_that_is_off_by_chance_in_a_few_groups_is_not_taken_for_wrong_propensities():
    """Twenty groups of twenty: eight have the ratio 2, twelve 0.75, so the mean ratio is 1.25.

    Between the groups, its standard error is 0.25 sqrt(6 / 19) = 0.14, and 0.25 is less than three of them. As if all
    decisions were independent, it would be 0.03, and the estimate unknown.
    """
    ratios = np.repeat(np.log(np.where(np.arange(20) < 8, 2.0, 0.75)), 20)
    rewards = np.random.default_rng(0).normal(size=400)
    assert self_normalised(rewards, ratios, groups=np.repeat(np.arange(20), 20)).known
    assert "the mean ratio is 1.25, but should be 1" in self_normalised(rewards, ratios).unknown


def test_blocks_are_of_one_stream_and_in_order():
    streams = np.array(["a", "b", "a", "a", "b", "a", "a"])
    assert blocks(streams, 2).tolist() == [0, 4, 0, 1, 4, 1, 2]


@pytest.mark.parametrize(
    ("rewards", "log_ratios", "says"),
    [
        ([math.nan, 1.0], [0.0, 0.0], "a reward or a value of the model is not finite"),
        ([1.0, 1.0], [0.0, math.nan], "a log ratio is NaN or inf"),
        ([1.0, 1.0], [0.0, math.inf], "a log ratio is NaN or inf"),
        ([1.0, 1.0], [0.0], "arrays .n,. of equal length"),
    ],
)
def test_what_cannot_be_estimated_is_refused(rewards, log_ratios, says):
    with pytest.raises(ValueError, match=says):
        self_normalised(np.array(rewards), np.array(log_ratios))


class Bandit:
    """Two contexts, three actions, known mean rewards; the log is made by one policy, another is estimated."""

    means = np.array([[0.0, 0.5, 1.0], [1.0, 0.2, 0.0]])
    acting = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    other = np.array([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]])

    def log(self, n: int, rng: np.random.Generator):
        context = rng.integers(0, 2, n)
        action = (rng.random(n)[:, None] > self.acting[context].cumsum(1)).sum(1)
        rewards = self.means[context, action] + rng.exponential(0.5, n) - 0.5
        return context, action, rewards, np.log(self.other[context, action] / self.acting[context, action])

    @property
    def truth(self) -> float:
        return float((self.other * self.means).sum(1).mean())

    @property
    def gain(self) -> float:
        return self.truth - float((self.acting * self.means).sum(1).mean())


@pytest.mark.parametrize(("n", "fewest"), [(100, 0.9), (400, 0.93)])
def test_the_intervals_hold_the_truth_as_often_as_they_say(n, fewest):
    """Of 1000 logs, 95 % for each estimator, less with few decisions and the skewed rewards of this bandit.

    The model of the second estimator is 20 % too low.
    """
    bandit, rng, times = Bandit(), np.random.default_rng(1), 1000
    model = 0.8 * bandit.means
    expected = (bandit.other * model).sum(1)
    held, width = np.zeros(3), np.zeros(3)
    for _ in range(times):
        context, action, rewards, log_ratios = bandit.log(n, rng)
        plain = self_normalised(rewards, log_ratios)
        robust = doubly_robust(rewards, log_ratios, model[context, action], expected[context])
        gain = difference(plain, mean_of(rewards))
        for i, (got, truth) in enumerate([(plain, bandit.truth), (robust, bandit.truth), (gain, bandit.gain)]):
            held[i] += got.low <= truth <= got.high
            width[i] += got.high - got.low if plain.known else 0.0
    assert np.isfinite(width).all()
    assert all(fewest <= share <= 0.97 for share in held / times), held / times
    assert width[1] < 0.95 * width[0]  # a model narrows it, even a wrong one


def test_wrong_propensities_are_mended_by_a_right_model():
    """Doubly robust: the log says that all three actions were equally likely."""
    bandit, rng = Bandit(), np.random.default_rng(2)
    context, action, rewards, _ = bandit.log(20000, rng)
    wrong = np.log(bandit.other[context, action] * 3.0)
    expected = (bandit.other * bandit.means).sum(1)[context]
    robust = doubly_robust(rewards, wrong, bandit.means[context, action], expected)
    assert robust.low <= bandit.truth <= robust.high
    assert abs(self_normalised(rewards, wrong).mean - bandit.truth) > 0.05
