"""Rewards far beyond the usual ones are left out of training; heavy tails, rare goals and small costs are not."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from livegym.online.judge import BLOCK
from livegym.online.outcomes import Outcome
from livegym.online.outliers import ENOUGH, RENEW, RewardWatch, unwatched
from livegym.online.outliers import watch_of as buffer_watch
from livegym.online.priorities import FLOOR
from livegym.online.replay import ReplayReader
from livegym.online.stream_requests import Rewarded
from tests.test_outcomes import decided, outcomes_of
from tests.test_service import seen, setting  # noqa: F401
from tests.test_trainer import CAPACITY, World, experience

FACTOR, MOST = 1e4, 1e6


def watch_of(rewards, factor=FACTOR) -> RewardWatch:
    """A watch over a list of rewards, which may grow."""
    return RewardWatch(lambda count: np.array(rewards[-count:], np.float32), factor, MOST, lambda limit: None)


def limit(rewards, factor=FACTOR) -> float:
    return watch_of(rewards, factor).limit


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
    "as few as suffice": lambda rng: np.resize([3e4, -2e4], ENOUGH),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("seed", range(3))
def test_no_honest_reward_is_an_outlier(name, seed):
    rewards = HONEST[name](np.random.default_rng(seed))
    assert np.abs(rewards).max() <= limit(rewards)


def test_the_limit_is_a_multiple_of_the_median_size_of_what_is_not_0():
    assert limit([0.0, 0.0, 0.0, 2.0, -3.0, 4.0] * ENOUGH) == 3e4
    assert limit([0.001] * ENOUGH) == FACTOR  # the usual size is at least 1
    assert limit([1e3] * ENOUGH) == MOST
    assert limit([1.0] * ENOUGH, factor=None) == MOST


def test_too_few_rewards_show_no_usual_size():
    """The first one alone was the usual size, although it may be the fault."""
    assert limit([]) == FACTOR
    assert limit([0.0] * 5000 + [9e5] * (ENOUGH - 1)) == FACTOR
    assert limit([0.0] * 5000 + [9e4] * ENOUGH) == MOST


def test_what_is_beyond_the_greatest_reward_or_not_finite_does_not_move_it():
    assert limit([3.0] * ENOUGH + [1e30, np.nan, -np.inf] * 50) == 3e4


@pytest.mark.parametrize(("share", "bound"), [(0.0, 1e4), (0.1, 1e4), (0.49, 1e4), (0.51, MOST)])
def test_outliers_count_once_they_are_half(share, bound):
    rewards = np.ones(1000)
    rewards[: int(1000 * share)] = 9e5
    assert limit(rewards) == bound


def test_one_by_one_the_limit_is_that_of_the_last_rewards():
    """Of the first hundred, only the first one renewed the limit."""
    rewards = []
    watch, limits = watch_of(rewards), []
    for reward in [5.0] * ENOUGH + [51.0] * ENOUGH:
        rewards.append(reward)
        watch.added()
        limits.append(watch.limit)
    assert limits[: ENOUGH - 1] == [FACTOR] * (ENOUGH - 1)
    assert limits[ENOUGH - 1 :] == [5e4] * ENOUGH + [FACTOR * (5 + 51) / 2]


def test_after_the_first_ones_it_is_renewed_now_and_then_and_stays_if_it_would_hardly_change():
    rewards = [1.0] * 200
    watch = watch_of(rewards)
    for _ in range(RENEW):
        watch.added()
    rewards += [
        1.9
    ] * 1000  # outliers near a limit that moves with each reward would count one moment, and not the next
    watch.renew()
    assert watch.limit == FACTOR
    rewards += [3.0] * 5000
    for _ in range(RENEW - 1):
        watch.added()
    assert watch.limit == FACTOR
    watch.added()
    assert watch.limit == 3e4
    del rewards[ENOUGH - 1 :]  # too few to tell
    watch.renew()
    assert watch.limit == 3e4


def faulty(number: int, every: int) -> float:
    """+9e5 and -9e5 in turn at every so many experiences, and otherwise 1."""
    return 1.0 if number % every else 9e5 * (-1) ** (number // every)


@pytest.mark.slow
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
        world.keep(experience(number, faulty(number, every=100)))
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
        world.keep(experience(number, faulty(number + 1, every=20), obs=obs, next_obs=obs))
    world.trainer.train()
    assert any(batch.following is not None and len(batch.following.row) for batch in world.batches)
    for batch in world.batches:
        if batch.following is not None:
            assert batch.following.reward.abs().max() == 1.0
    assert world.trainer.counts.outliers == 10


def test_without_a_factor_they_are_learned(tmp_path):
    world = World(tmp_path, outlier_factor=None, batch_size=200)
    for number in range(200):
        world.keep(experience(number, faulty(number, every=20)))
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
    outcomes = outcomes_of(discount, rewards=watch_of([]))
    for broken in (False, True, False):
        for number, each in enumerate(decided(outcomes, *range(BLOCK))):
            outcomes.earned(each.rewarded(-9e5 if broken and number == 7 else 0.5))
        outcomes.end("a")
    assert outcomes.take() == [Outcome(0.5 if discount == 0 else 0.5 * BLOCK, False, 1)] * 2


@pytest.mark.parametrize("prioritised", [False, True])
def test_the_first_reward_of_a_sparse_task_may_be_a_fault(tmp_path, prioritised):
    """It was the usual size, because zeros do not count: the scale was 9e5 / sqrt(N), and a reward of 1 invisible."""
    world = World(tmp_path, prioritised=prioritised)
    for number in range(500):
        world.keep(experience(number, 9e5 if number == 250 else 0.0))
    world.trainer.train()
    for number in range(500, 1500):
        world.keep(experience(number, float(number % 50 == 0)))
    world.trainer.train()
    assert world.trainer.counts.outliers == 1
    assert float(world.trainer.learner.network.value_std()) < 1.0


@pytest.mark.parametrize("discount", [0.0, 0.9])
@pytest.mark.parametrize("prioritised", [False, True])
def test_rewards_that_grow_for_good_are_learned_in_their_own_scale(tmp_path, prioritised, discount):
    """Half of each batch had targets of 20,000 deviations: the critic diverged, and the learning rate was halved."""
    world = World(tmp_path, prioritised=prioritised, discount=discount, updates=1, lr_decay=1.0)
    trainer = world.trainer
    for start in range(0, 10 * CAPACITY, CAPACITY):
        world.add(CAPACITY, first=start, reward=1.0)
        for _ in range(20):
            trainer.train()
    scale = float(trainer.learner.network.value_std())
    count = world.count()
    for start in range(0, CAPACITY, 50):
        world.add(50, first=start, reward=5e4)
        trainer.train()
        if trainer.reward_limit == FACTOR:
            assert float(trainer.learner.network.value_std()) < 10 * scale
    assert trainer.reward_limit > 5e4
    assert float(trainer.learner.network.value_std()) > 1e4
    assert world.batches[-1].reward.max() == 5e4
    assert (trainer.counts.rollbacks, trainer.learning_rate) == (0, world.rule.learning_rate)
    assert max(report.critic_loss for report in trainer.recent) < 100
    assert world.count() == count + CAPACITY  # each observation is taken in once, when it comes
    if prioritised:
        assert trainer.reader.priorities.of(np.arange(CAPACITY)).max() < 100


def test_with_the_scale_priorities_and_usual_losses_begin_again(tmp_path):
    """As outliers, the new rewards had the least priority, and it would have stayed until each was drawn by chance."""
    world = World(tmp_path, prioritised=True)
    world.add(200, reward=1.0)
    world.trainer.train()
    world.add(199, first=200, reward=5e4)
    world.trainer.train()
    priorities, grown = world.trainer.reader.priorities, np.arange(200, 399)
    assert priorities.of(grown) == pytest.approx(FLOOR)
    assert len(world.trainer.divergence.state()["usual_losses"]) == 2
    world.add(10, first=399, reward=5e4)
    world.trainer.train()
    assert np.median(priorities.of(grown)) > 10 * FLOOR
    assert len(world.trainer.divergence.state()["usual_losses"]) == 1


def test_the_scale_of_faults_that_were_usual_at_first_is_given_up(tmp_path):
    world = World(tmp_path)
    trainer = world.trainer
    for number in range(2 * ENOUGH):
        world.keep(experience(number, 9e5 * (-1) ** number))
    trainer.train()
    assert (trainer.reward_limit, trainer.counts.largest) == (MOST, 9e5)
    world.add(500, first=2 * ENOUGH, reward=1.0)
    resumed = world.another(seed=1)
    resumed.load_state(trainer.state())
    for each in (trainer, resumed):  # also if the limit falls while no trainer runs
        each.train()
        assert (each.reward_limit, each.counts.largest) == (FACTOR, 1.0)
        assert float(each.learner.network.value_std()) < 2.0


def test_after_a_rollback_the_scale_is_that_of_the_rewards_that_count_now(tmp_path):
    world = World(tmp_path)
    trainer = world.trainer
    world.add(100, reward=1.0)
    trainer.train()
    trainer.divergence.good = trainer._good_state()
    world.add(200, first=100, reward=5e4)
    trainer.train()
    assert trainer.counts.largest == 5e4
    trainer._roll_back()
    assert trainer.counts.largest == 1.0
    trainer.counts.learned_until = 300  # as if all of them had been outliers before the good state
    trainer.train()
    assert trainer.counts.largest == 5e4
    assert float(trainer.learner.network.value_std()) > 1e4


def test_the_observation_of_an_outlier_enters_the_normaliser_once(tmp_path):
    world = World(tmp_path)
    before = world.count()
    for number in range(200):
        world.keep(experience(number, faulty(number, every=20)))
    for _ in range(3):
        world.trainer.train()
    assert world.count() == before + 200
    assert world.count("value_mean_std") == before + 190


def served(here, rewards, **more):
    """Ask and reward in turn, once for each of the rewards."""
    for number, reward in enumerate(rewards):
        (answer,) = here.ask(seen("a", number))
        here.ask(Rewarded("a", answer.decision, reward, **more))
    here.ask(seen("a", len(rewards)))


def test_an_outlier_is_in_no_mean_and_is_told_with_its_value_and_its_key(setting, caplog):  # noqa: F811
    here = setting()
    here.service.rewards = buffer_watch(here.memory.writer, FACTOR, MOST)
    served(here, [1.0, 9e5, 1.0, -8e5, 1.0])
    tally = here.service.tally
    assert list(tally.rewards) == [reward for _, reward in tally.by_stream["a"]] == [1.0] * 3
    assert (tally.by_version[1].count, tally.by_version[1].total, tally.outliers) == (3, 3.0, 2)
    assert tally.outlier == "stream 'a' earned 900000; the limit is 10000 (online.outlier_factor)"  # as on the page
    (told,) = [record.getMessage() for record in caplog.records]
    assert re.search(rf"decision \d+ of {re.escape(tally.outlier)}", told)
    assert len(here.rows()) == 5  # the trainer decides for itself


def test_a_reward_beyond_the_greatest_one_names_that_key(setting):  # noqa: F811
    here = setting()
    here.service.rewards = unwatched(1e3)
    served(here, [2e3])
    assert here.service.tally.outlier.endswith(" earned 2000; the limit is 1000 (task.max_reward)")


def test_rewards_that_are_not_learned_from_do_not_move_the_limit(setting):  # noqa: F811
    """They moved that of the outcomes, but not that of the trainer."""
    here = setting()
    writer = here.memory.writer
    here.service.rewards = buffer_watch(writer, FACTOR, MOST)
    reader = ReplayReader(here.run.replay_file, here.layout, here.online.buffer_capacity)
    served(here, [50.0] * (ENOUGH + 5), learn=False)
    assert here.service.rewards.limit == reader.reward_limit == FACTOR
    served(here, [50.0] * (ENOUGH + 5))
    assert here.service.rewards.limit == reader.reward_limit == 5e5


def test_the_trainer_has_the_limit_of_the_serving_process_and_none_of_its_own(tmp_path):
    """Each computed its own, at another time, and kept it within a factor of two: they differed up to fourfold."""
    world = World(tmp_path)
    for number in range(200):
        world.writer.add(experience(number, 3.0 if number < 150 else 50.0))
    world.writer.tell_reward_limit(20.0)
    world.trainer.train()
    assert (world.trainer.reward_limit, world.trainer.counts.outliers) == (20.0, 50)
    world.writer.tell_reward_limit(10 * MOST)
    world.trainer.train()
    assert world.trainer.reward_limit == MOST


def test_a_buffer_of_an_earlier_release_holds_no_limit(tmp_path):
    world = World(tmp_path)
    world.writer.tell_reward_limit(0.0)
    assert world.trainer.reader.reward_limit == math.inf
    world.add(50, reward=1.0)
    world.writer.tell_reward_limit(math.nan)
    world.trainer.train()
    assert world.trainer.reward_limit == MOST
