"""Rewards far beyond the usual ones are left out of training; heavy tails, rare goals and small costs are not."""

from __future__ import annotations

import numpy as np
import pytest

from livegym.online.judge import BLOCK
from livegym.online.outcomes import Outcome
from livegym.online.outliers import WATCHED, RewardWatch, reward_limit
from tests.test_outcomes import decided, outcomes_of
from tests.test_trainer import CAPACITY, World, experience

FACTOR, MOST = 1e4, 1e6


def limit(rewards, factor=FACTOR) -> float:
    return reward_limit(np.array(rewards, np.float32), factor, MOST)


def rare_goal(rng: np.random.Generator) -> np.ndarray:
    rewards = -0.1 * rng.normal(0, 0.01, 5000) ** 2
    rewards[::500] += 100.0
    return rewards


HONEST = {
    "always 1": lambda rng: np.ones(5000),
    "always 0": lambda rng: np.zeros(5000),
    "a goal in one of a thousand steps": lambda rng: np.where(np.arange(5000) % 1000 == 0, 1.0, 0.0),
    "100 after steps that cost 1e-5": rare_goal,
    "crashes": lambda rng: rng.normal(size=5000) - 100.0 * (rng.random(5000) < 0.01),
    "Student's t with 2 degrees": lambda rng: rng.standard_t(2, 5000),
    "log-normal": lambda rng: rng.lognormal(0.0, 2.0, 5000),
    "around -1000": lambda rng: rng.normal(-1000.0, 300.0, 5000),
    "1e5, as money": lambda rng: rng.normal(0.0, 1e5, 5000),
    "few": lambda rng: np.array([3e4, -2e4]),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("seed", range(3))
def test_no_honest_reward_is_an_outlier(name, seed):
    rewards = HONEST[name](np.random.default_rng(seed))
    assert np.abs(rewards).max() <= limit(rewards)


def test_the_limit_is_a_multiple_of_the_median_size_of_what_is_not_0():
    assert limit([0.0, 0.0, 0.0, 2.0, -3.0, 4.0]) == 3e4
    assert limit([0.001] * 9) == FACTOR  # the usual size is at least 1
    assert limit([1e3] * 9) == MOST
    assert limit([]) == FACTOR
    assert limit([1.0] * 9, factor=None) == MOST


def test_what_is_beyond_the_greatest_reward_or_not_finite_does_not_move_it():
    assert limit([2.0] * 3 + [1e30, np.nan, -np.inf] * 5) == 2e4


@pytest.mark.parametrize(("share", "bound"), [(0.0, 1e4), (0.1, 1e4), (0.49, 1e4), (0.51, MOST)])
def test_outliers_count_once_they_are_half(share, bound):
    rewards = np.ones(1000)
    rewards[: int(1000 * share)] = 9e5
    assert limit(rewards) == bound


def test_one_by_one_the_limit_is_that_of_the_last_rewards():
    watch = RewardWatch(FACTOR, MOST)
    assert watch.limit == FACTOR
    watch.add(5.0)
    assert watch.limit == 5e4
    for _ in range(WATCHED):
        watch.add(2.0)
    assert watch.limit == 2e4


def faulty(number: int, every: int) -> float:
    """+9e5 and -9e5 in turn at every so many experiences, and otherwise 1."""
    return 1.0 if number % every else 9e5 * (-1) ** (number // every)


@pytest.mark.parametrize("prioritised", [False, True])
def test_a_client_that_sends_huge_rewards_costs_neither_learning_rate_nor_scale(tmp_path, prioritised):
    """They halved the rate with each rollback, for as long as they were in the buffer, until the trainer gave up.

    A value normaliser that has seen much grows little by a few of them, so each is an error of many deviations.
    """
    world = World(tmp_path, discount=0.0, prioritised=prioritised, updates=1, lr_decay=1.0)
    for start in range(0, 20 * CAPACITY, CAPACITY):
        world.add(CAPACITY, first=start, reward=1.0)
        world.trainer.train()
    for number in range(CAPACITY):
        world.writer.add(experience(number, faulty(number, every=100)))
    for _ in range(300):
        world.trainer.train()
    trainer = world.trainer
    assert (trainer.counts.outliers, trainer.counts.broken, trainer.counts.rollbacks) == (20, 0, 0)
    assert trainer.learning_rate == world.rule.learning_rate
    assert all(batch.reward.abs().max() == 1.0 for batch in world.batches)
    assert float(trainer.learner.network.value_std()) < 2.0
    again = world.another(seed=1)
    again.load_state(trainer.state())
    again.train()
    assert again.counts.outliers == 20  # they are counted once


def test_neither_is_a_huge_reward_learned_that_comes_later(tmp_path):
    """A sequence ends before an outlier, as before any other experience that is not learned from."""
    world = World(tmp_path, discount=0.9)
    obs = np.ones(2, np.float32)
    for number in range(200):
        world.writer.add(experience(number, faulty(number + 1, every=20), obs=obs, next_obs=obs))
    world.trainer.train()
    assert any(batch.following is not None and len(batch.following.row) for batch in world.batches)
    for batch in world.batches:
        if batch.following is not None:
            assert batch.following.reward.abs().max() == 1.0
    assert world.trainer.counts.outliers == 10


def test_without_a_factor_they_are_learned(tmp_path):
    world = World(tmp_path, outlier_factor=None, batch_size=200)
    for number in range(200):
        world.writer.add(experience(number, faulty(number, every=20)))
    world.trainer.train()
    assert world.batches[0].reward.abs().max() == 9e5
    assert world.trainer.counts.outliers == 0


def test_a_state_of_an_earlier_release_knows_of_no_outliers(tmp_path):
    world = World(tmp_path)
    world.add(50)
    world.trainer.train()
    state = world.trainer.state()
    del state["online"]["counts"]["outliers"]
    resumed = world.another(seed=1)
    resumed.load_state(state)
    assert resumed.counts.outliers == 0


@pytest.mark.parametrize("discount", [0.0, 0.99])
def test_an_outlier_is_no_outcome(discount):
    outcomes = outcomes_of(discount, outlier_factor=FACTOR)
    for broken in (False, True, False):
        for number, each in enumerate(decided(outcomes, *range(BLOCK))):
            outcomes.earned(each.rewarded(-9e5 if broken and number == 7 else 0.5))
        outcomes.end("a")
    assert outcomes.take() == [Outcome(0.5 if discount == 0 else 0.5 * BLOCK, False, 1)] * 2
