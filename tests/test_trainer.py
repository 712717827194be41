"""The training from a replay file: what it learns from, what it counts, what it takes back."""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
from collections import Counter

import numpy as np
import pytest
import torch

from livegym.online.divergence import BURN_IN, ENOUGH, LEAST, LEAST_FACTOR, MAX_FAILURES
from livegym.online.experience import Experience, Layout, Verdict
from livegym.online.gate import Judgement
from livegym.online.outliers import watch_of
from livegym.online.priorities import FLOOR, Priorities
from livegym.online.replay import ALPHA, BETA, ReplayReader, ReplayWriter
from livegym.online.ring import MappedRing, checks_of, factors_of
from livegym.online.trainer import Trainer
from livegym.rl.actor_critic import ActorCritic, Choices, OffPolicyRule, Transitions
from livegym.rl.algorithm import algorithm_of
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig
from livegym.rl.spec import PolicySpec
from livegym.schema import OnlineConfig
from livegym.tasks.base import Discrete
from livegym.tasks.stability import MAX_REWARD
from tests.test_actor_critic import finite, same

SPEC = PolicySpec("Bandit", (("state", 2),), (), Discrete(3), 0.1)
LAYOUT = Layout(obs=2, action=1, discrete=True, seen=1)
RULE = OnlineConfig(updates=2, idle_rounds=None)
CAPACITY = 2000
OFF, SEND, WAIT = Verdict.OFF, Verdict.SEND, Verdict.WAIT


class Recording(ActorCritic):
    """Keeps what it was given to learn from."""

    def update(self, t: Transitions, acted: Choices | None = None):
        self.batches = [*getattr(self, "batches", []), t]
        return super().update(t, acted)


class SaysAsSeen:
    """A gate that says what it sees: 1 is SEND, 2 is WAIT; above 10 it raises. Expects a reward of 2."""

    name = "as-seen"

    def evaluate(self, seen, action, confidence):
        if (seen > 10).any():
            raise RuntimeError("the gate is out of order")
        return Judgement(seen[:, 0].astype(np.int8), np.full(len(seen), 2.0, np.float32), {})


def experience(number: int, reward: float | None = None, verdict: Verdict = OFF, **changes) -> Experience:
    rng = np.random.default_rng(number)
    obs = rng.normal(size=2).astype(np.float32)
    action = np.array([number % 3])
    values = {
        "stream": "a", "decision": number, "obs": obs, "proposed": action, "executed": action, "log_prob": -1.1,
        "executed_log_prob": -1.1, "confidence": 1.0, "verdict": verdict, "expected": 0.0,
        "seen": np.array([float(verdict)], np.float32), "version": 1, "time": 0.0, "clock": 0.0,
        "reward": float(obs[0]) if reward is None else reward, "next_obs": obs + 1,
    }  # fmt: skip
    return Experience(**{**values, **changes})


class World:
    """A replay file with a writer and a trainer."""

    def __init__(self, path, gate=None, discount=0.0, seed=0, prioritised=False, train=None, **rule) -> None:
        self.path = path / "replay.bin"
        self.writer = ReplayWriter(self.path, LAYOUT, CAPACITY)
        self.rule = dataclasses.replace(RULE, **rule)
        self.watch = watch_of(self.writer, self.rule.outlier_factor, MAX_REWARD)
        self.train = train or PPOConfig(network=NetworkConfig(units=[8]))
        self.discount, self.gate, self.prioritised = discount, gate, prioritised
        self.trainer = self.another(seed)

    def another(self, seed: int) -> Trainer:
        torch.manual_seed(seed)
        network = algorithm_of(self.train).actor_critic(SPEC, self.train)
        learner = Recording(SPEC, network, OffPolicyRule(self.discount), self.rule.learning_rate)
        priorities = Priorities(self.path.with_name("priorities.bin"), CAPACITY) if self.prioritised else None
        reader = ReplayReader(self.path, LAYOUT, CAPACITY, priorities)
        return Trainer(learner, reader, self.gate, self.rule, seed)

    def add(self, count: int, first: int = 0, **changes) -> None:
        for number in range(first, first + count):
            self.keep(experience(number, **changes))

    def keep(self, each: Experience) -> None:
        """As the serving process does."""
        self.writer.add(each)
        self.watch.added()

    @property
    def batches(self) -> list[Transitions]:
        return getattr(self.trainer.learner, "batches", [])

    def count(self, name: str = "running_mean_std") -> float:
        return self.trainer.learner.model_state()[f"{name}.count"].item()


def damage(world: World, field: str, slots, right_checksum: bool) -> None:
    """Puts NaN into rows of the file itself."""
    descriptor = os.open(world.path, os.O_RDWR)
    mapped = MappedRing(descriptor, LAYOUT, CAPACITY)
    os.close(descriptor)
    for slot in slots:
        mapped.rows[field][slot] = np.nan
        if right_checksum:
            words = mapped.words[slot : slot + 1]
            mapped.rows["check"][slot] = checks_of(words, factors_of(words.shape[1]))[0]


# -- what is learned from


def test_with_too_few_experiences_nothing_happens(tmp_path):
    world = World(tmp_path)
    before = world.trainer.state()
    for _ in range(RULE.min_batch_size):
        assert world.trainer.train() is None
        world.add(1, first=world.writer.added)
    assert (world.batches, same(before, world.trainer.state())) == ([], True)
    report = world.trainer.train()
    assert (report.batches, report.samples, report.skipped) == (2, 8.0, 0)
    assert world.trainer.counts.trainings == 1


def test_a_training_is_so_many_gradient_steps_each_on_a_batch_of_its_own(tmp_path):
    world = World(tmp_path, updates=5)
    world.add(500)
    report = world.trainer.train()
    assert [len(batch) for batch in world.batches] == [32] * 5
    assert (report.batches, report.samples, world.trainer.counts.batches) == (5, 32.0, 5)
    assert len({tuple(batch.reward.tolist()) for batch in world.batches}) == 5
    assert all(batch.weight.tolist() == [1.0] * 32 for batch in world.batches)
    assert report.critic_loss > 0


def test_each_row_reaches_the_learner_as_it_was(tmp_path):
    """Reports R1 and R4: the reward is that of the very action, beside the observations before and after it."""
    world = World(tmp_path)
    for number in range(50):
        obs = np.full(2, number, np.float32)
        world.writer.add(experience(
            number, float(number % 3), obs=obs, next_obs=obs + 1, log_prob=-9.0, executed_log_prob=-number / 64,
            done=number % 7 == 0,
        ))  # fmt: skip
    world.trainer.train()
    for batch in world.batches:
        number = batch.obs[:, 0]
        assert torch.equal(batch.next_obs[:, 1], number + 1)
        assert torch.equal(batch.reward, number % 3)
        assert torch.equal(batch.action[:, 0], (number % 3).long())
        assert torch.equal(batch.log_prob, -number / 64)
        assert torch.equal(batch.done, number % 7 == 0)


def test_each_new_observation_is_normalised_once(tmp_path):
    """Report R8: 1,000 new experiences, 50 updates."""
    world = World(tmp_path, updates=10)
    world.add(1000)
    for _ in range(5):
        assert world.trainer.train().batches == 10
    assert (world.count(), world.count("value_mean_std")) == (1001.0, 1001.0)
    assert world.trainer.counts.learned_until == 1000
    world.add(10, first=1000)
    world.trainer.train()
    assert (world.count(), world.trainer.counts.learned_until) == (1011.0, 1010)


def test_what_was_written_over_before_anybody_saw_it_is_not_missed(tmp_path):
    world = World(tmp_path)
    world.add(CAPACITY + 30)
    world.trainer.train()
    assert (world.count(), world.trainer.counts.learned_until) == (CAPACITY + 1.0, CAPACITY + 30)


def test_what_is_too_old_is_not_learned_from(tmp_path):
    world = World(tmp_path, max_age_s=60.0)
    world.add(40, reward=1.0, clock=0.0)
    world.add(7, first=40, reward=2.0, clock=100.0)
    world.writer.tell(110.0)
    assert (world.trainer.train(), world.trainer.expired()) == (None, 40)
    world.add(1, first=47, reward=2.0, clock=100.0)
    assert world.trainer.train().samples == 8.0
    assert set(torch.cat([batch.reward for batch in world.batches]).tolist()) == {2.0}


@pytest.mark.parametrize("sent", [7, 10])
def test_waits_that_nothing_is_learned_from_do_not_starve_it(tmp_path, sent):
    world = World(tmp_path, SaysAsSeen(), train_on_wait=False, train_on_blocked=False)
    world.add(1000, verdict=WAIT)
    world.add(sent, first=1000, verdict=SEND)
    report = world.trainer.train()
    if sent < RULE.min_batch_size:
        assert (report, world.batches) == (None, [])
    else:
        assert (report.batches, report.samples, report.skipped) == (2, 10.0, 0)


@pytest.mark.parametrize("wait", [True, False])
def test_nor_do_waits_after_which_nothing_was_done(tmp_path, wait):
    """A gate without a fallback: nothing earned the reward, and what was blocked is not to be learned from either."""
    world = World(tmp_path, SaysAsSeen(), train_on_wait=wait, train_on_blocked=False)
    world.add(1000, verdict=WAIT, held=True)
    world.add(10, first=1000, verdict=SEND)
    report = world.trainer.train()
    assert world.trainer.expired() == 0
    assert report is not None
    assert (report.batches, report.samples) == (2, 10.0)


def test_rewards_are_combined_with_what_the_gate_says_now(tmp_path):
    world = World(tmp_path, SaysAsSeen(), train_on_blocked=False)
    world.add(40, reward=1.0, verdict=SEND)
    world.trainer.train()
    assert world.batches[0].reward.tolist() == pytest.approx([0.3 * 2 + 0.7 * 1] * 32)


def test_agreement_is_counted(tmp_path):
    """Half of what was sent is now a WAIT: skipped, and counted as gated but not as agreed."""
    world = World(tmp_path, SaysAsSeen(), batch_size=100)
    world.add(30, verdict=SEND)
    world.add(30, first=30, verdict=SEND, seen=np.array([2.0], np.float32))
    world.add(20, first=60, verdict=OFF, seen=np.array([1.0], np.float32))
    report = world.trainer.train()
    assert (report.gated, report.agreed, report.samples) == (2 * 60, 2 * 30, 50.0)


def test_agreement_is_reported_also_where_it_leaves_nothing_to_learn_from(tmp_path):
    world = World(tmp_path, SaysAsSeen())
    world.add(40, verdict=SEND, seen=np.array([2.0], np.float32))
    assert world.trainer.train() is None
    assert list(world.trainer.agreements) == [(2 * 32, 0)]
    assert world.trainer.counts.skipped == 2


def test_a_gate_that_raises_is_not_hidden_and_nothing_is_learned(tmp_path):
    world = World(tmp_path, SaysAsSeen())
    world.add(40, verdict=SEND)
    assert world.trainer.train() is not None
    model = world.trainer.learner.state()
    world.add(2000, verdict=SEND, seen=np.array([99.0], np.float32))
    with pytest.raises(RuntimeError, match="out of order"):
        world.trainer.train()
    after = world.trainer.learner.state()
    weights = {name: value for name, value in after["model"].items() if "mean_std" not in name}
    assert all(same(value, model["model"][name]) for name, value in weights.items())
    assert same(model["optimizer"]["state"], after["optimizer"]["state"])
    world.add(2000, first=4000, verdict=SEND)
    assert world.trainer.train().batches == 2


def test_a_gate_that_answers_nonsense_is_not_believed(tmp_path):
    world = World(tmp_path, SaysAsSeen())
    world.add(40, verdict=SEND, seen=np.array([0.0], np.float32))
    with pytest.raises(ValueError, match="verdict"):
        world.trainer.train()


# -- rows that are broken


@pytest.mark.parametrize("field", ["obs", "next_obs", "reward", "executed_log_prob"])
def test_a_row_that_is_not_finite_is_dropped_and_counted_once(tmp_path, field):
    """Its checksum is right: it was written so. Nothing else is lost by it."""
    world = World(tmp_path, batch_size=100)
    world.add(50)
    damage(world, field, [17], right_checksum=True)
    for _ in range(4):
        report = world.trainer.train()
        assert (report.batches, report.skipped, report.samples) == (2, 0, 49.0)
    assert world.trainer.counts.broken == 1
    assert finite(world.trainer.learner)
    if field != "executed_log_prob":
        assert world.count() == 50.0


def test_numbers_that_cannot_be_squared_do_not_reach_the_normalisers(tmp_path):
    """1e25 is finite, its square in float32 is not: variances would be infinite for ever, and nothing published."""
    world = World(tmp_path, batch_size=100)
    world.add(50)
    world.writer.add(experience(50, obs=np.array([1e25, 0.0], np.float32)))
    world.writer.add(experience(51, reward=1e30))
    assert world.trainer.train().samples == 50.0
    assert world.trainer.counts.broken == 2
    assert finite(world.trainer.learner)


def test_a_row_with_a_wrong_checksum_is_not_even_that(tmp_path):
    world = World(tmp_path, batch_size=100)
    world.add(50)
    damage(world, "reward", [17], right_checksum=False)
    assert world.trainer.train().samples == 49.0
    assert world.trainer.counts.broken == 0
    assert world.trainer.reader.partial > 0


@pytest.mark.parametrize("right_checksum", [True, False])
def test_where_no_row_is_sound_there_is_nothing_to_learn(tmp_path, right_checksum):
    world = World(tmp_path)
    world.add(50)
    damage(world, "reward", range(50), right_checksum)
    before = world.trainer.learner.state()
    assert world.trainer.train() is None
    assert same(before["model"], world.trainer.learner.model_state())
    world.add(1500, first=50)
    assert world.trainer.train().batches == 2
    assert finite(world.trainer.learner)


def test_rewards_beyond_a_million_are_broken_and_do_not_blind_the_value_normaliser(tmp_path):
    world = World(tmp_path)
    world.add(100)
    world.add(50, first=100, reward=1e14)
    world.add(50, first=150, reward=-1.1e6)
    world.add(1, first=200, reward=0.9e6)
    world.trainer.train()
    assert world.trainer.counts.broken == 100
    assert world.trainer.learner.model_state()["value_mean_std.running_mean"].item() < 1e4


def test_the_value_normaliser_takes_the_actual_reward_of_a_wait_and_not_the_weakened_one(tmp_path):
    """A WAIT has two samples, 1.0 for the value and 0.5 for the policy; the normaliser begins with one row of 0."""
    world = World(tmp_path)
    world.add(99, verdict=WAIT, reward=1.0)
    world.trainer.train()
    assert world.count("value_mean_std") == 100.0
    assert world.trainer.learner.model_state()["value_mean_std.running_mean"].item() == pytest.approx(0.99)


def test_where_nothing_is_sound_it_reports_it_until_something_is(tmp_path):
    world = World(tmp_path)
    world.add(50, reward=1e14)
    assert world.trainer.train() is None
    assert world.trainer.problem.startswith("all 32 sampled experiences have non-finite or huge numbers, or rewards ")
    world.add(1000, first=50)
    world.trainer.train()
    assert world.trainer.problem == ""


# -- what goes wrong is taken back


def plain() -> PPOConfig:
    """Without a value normaliser, losses are in rewards squared."""
    return PPOConfig(network=NetworkConfig(units=[8]), normalize_value=False)


@pytest.mark.parametrize("trainings", [25, 35, 40])
def test_a_loss_far_beyond_the_usual_goes_back_to_a_state_that_was_good(tmp_path, trainings):
    """Kept at each 10th training, believed after 10 more: after 25 that of the 10th, after 35 of the 20th, 40: 30th."""
    world = World(tmp_path, train=plain())
    world.add(200)
    trainer, history = world.trainer, {}
    for number in range(1, trainings + 1):
        assert not trainer.train().rolled_back
        history[number] = trainer.learner.state()
    rate = trainer.learning_rate
    world.add(1800, first=200, reward=1e4)
    report = trainer.train()
    assert report.rolled_back
    assert report.critic_loss > 20 * max(statistics.median([r.critic_loss for r in list(trainer.recent)[:-1]]), LEAST)
    assert same(trainer.learner.state(), history[(trainings - BURN_IN) // 10 * 10])
    assert trainer.learning_rate == pytest.approx(rate / 2, rel=1e-9)
    assert (trainer.counts.rollbacks, trainer.counts.trainings) == (1, trainings)
    world.add(2000, first=2000)
    assert not trainer.train().rolled_back
    assert trainer.learner.learning_rate == pytest.approx(rate / 2, rel=1e-9)  # what the optimizer really takes


def test_before_anything_was_found_good_it_goes_back_to_the_start(tmp_path):
    world = World(tmp_path)
    start = world.trainer.learner.state()
    world.add(50)
    for _ in range(5):
        world.trainer.train()
    world.trainer.learner.model.a2c_network.value.bias.data.fill_(math.nan)
    reports = [world.trainer.train() for _ in range(MAX_FAILURES)]
    assert [report.rolled_back for report in reports] == [False, False, True]
    assert same(start["model"], world.trainer.learner.model_state())


def test_few_losses_do_not_say_what_is_usual(tmp_path):
    world = World(tmp_path, train=plain())
    world.add(200)
    for _ in range(ENOUGH - 1):
        world.trainer.train()
    world.add(1800, first=200, reward=1e4)
    assert not world.trainer.train().rolled_back


def test_three_trainings_in_a_row_that_are_not_finite_go_back(tmp_path):
    """Two and a good one do not; what comes back is finite, and half the rate is taken from then on."""
    world = World(tmp_path)
    world.add(100)
    trainer, bias = world.trainer, world.trainer.learner.model.a2c_network.value.bias
    for _ in range(30):
        trainer.train()
    good = trainer.learner.state()

    def fail(times):
        bias.data.fill_(math.nan)
        return [trainer.train() for _ in range(times)]

    for report in fail(MAX_FAILURES - 1):
        assert (report.batches, report.skipped, report.rolled_back) == (0, 2, False)
    trainer.learner.load_state(good)
    assert trainer.train().batches == 2
    assert trainer.counts.rollbacks == 0
    rate = trainer.learning_rate
    assert [report.rolled_back for report in fail(MAX_FAILURES)] == [False, False, True]
    assert finite(trainer.learner)
    assert trainer.learning_rate == pytest.approx(rate / 2)
    assert (trainer.counts.rollbacks, trainer.counts.trainings, trainer.counts.skipped) == (1, 31, 10)
    assert trainer.train().batches == 2


# -- the learning rate


@pytest.mark.parametrize(
    ("trainings", "rate"), [(0, 1e-3), (100, 0.99e-3), (50, 1e-3 * 0.99**0.5), (1000, 1e-3 * 0.99**10), (10**6, 1e-4)]
)
def test_the_learning_rate_falls_by_a_hundredth_each_hundred_trainings_to_its_floor(tmp_path, trainings, rate):
    world = World(tmp_path)
    world.add(20)
    world.trainer.counts.trainings = trainings
    assert world.trainer.learning_rate == pytest.approx(rate)
    world.trainer.train()
    assert world.trainer.learner.learning_rate == pytest.approx(rate)


def test_a_rate_below_the_floor_from_the_start_is_taken_as_it_is(tmp_path):
    assert World(tmp_path, learning_rate=1e-5).trainer.learning_rate == 1e-5


@pytest.mark.parametrize("trainings", [0, 10_000, 10**6])
def test_each_rollback_halves_it_also_late_and_at_the_floor(tmp_path, trainings):
    world = World(tmp_path)
    world.add(20)
    trainer = world.trainer
    trainer.counts.trainings = trainings
    rate = trainer.learning_rate
    for times in (1, 2):
        trainer.learner.model.a2c_network.value.bias.data.fill_(math.nan)
        for _ in range(MAX_FAILURES):
            trainer.train()
        assert trainer.counts.rollbacks == times
        assert trainer.learning_rate == pytest.approx(rate / 2**times)


def diverge(trainer) -> None:
    trainer.learner.model.a2c_network.value.bias.data.fill_(math.nan)
    for _ in range(MAX_FAILURES):
        trainer.train()


def test_the_rate_comes_back_in_a_stable_phase_but_not_beyond_what_was_configured(tmp_path, monkeypatch):
    monkeypatch.setattr("livegym.online.divergence.STABLE", 7)
    world = World(tmp_path, lr_decay=1.0)
    world.add(50)
    trainer = world.trainer
    for _ in range(2):
        diverge(trainer)
    rates = []
    for _ in range(22):
        trainer.train()
        rates.append(trainer.learning_rate)
    assert rates == [RULE.learning_rate / 4] * 6 + [RULE.learning_rate / 2] * 7 + [RULE.learning_rate] * 9


def test_it_is_stuck_where_it_diverges_at_the_least_rate_too(tmp_path):
    world = World(tmp_path)
    world.add(50)
    trainer = world.trainer
    for halvings in range(1, 11):
        diverge(trainer)
        assert trainer.divergence.rate_factor == 0.5**halvings
        assert not trainer.divergence.stuck
    diverge(trainer)
    assert trainer.divergence.stuck
    assert trainer.divergence.rate_factor == LEAST_FACTOR
    assert finite(trainer.learner)


def test_a_run_that_continues_takes_the_rate_that_it_is_given_now(tmp_path):
    world = World(tmp_path, lr_decay=1.0)
    world.add(50)
    diverge(world.trainer)
    kept = world.trainer.state()
    world.rule = dataclasses.replace(world.rule, learning_rate=1e-5)
    resumed = world.another(seed=1)
    resumed.load_state(kept)
    assert resumed.learning_rate == pytest.approx(0.5e-5)


def test_what_a_rollback_takes_from_the_normalisers_is_given_to_them_again(tmp_path):
    """Both count the same again, however much was seen between the good state and the divergence."""
    world = World(tmp_path)
    world.add(100)
    world.trainer.train()
    world.add(50, first=100)
    damage(world, "reward", range(3), right_checksum=True)
    world.trainer.train()
    assert (world.count(), world.trainer.counts.broken) == (151, 0)
    diverge(world.trainer)  # back to the start
    assert world.trainer.counts.rollbacks == 1
    world.trainer.train()
    assert (world.count(), world.trainer.counts.broken) == (148, 0)  # 3 rows broke meanwhile, and are no news


def test_the_exponent_of_the_weights_rises_to_1_and_goes_on_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr("livegym.online.trainer.ANNEALED", 10)
    world = World(tmp_path, prioritised=True, updates=1)
    world.add(40)
    seen = []
    for made in range(12):
        seen.append(world.trainer._beta())
        world.trainer.train()
        if made == 4:
            resumed = world.another(seed=1)
            resumed.load_state(world.trainer.state())
            world.trainer = resumed
    assert seen == pytest.approx([BETA + (1 - BETA) * min(1.0, made / 10) for made in range(12)])


def test_priorities_go_on_after_a_restart(tmp_path):
    world = World(tmp_path, prioritised=True)
    world.add(60)
    for _ in range(20):
        world.trainer.train()
    before = world.trainer.reader.priorities.of(np.arange(60))
    assert len(set(before.tolist())) > 50
    assert world.another(seed=1).reader.priorities.of(np.arange(60)).tolist() == before.tolist()


# -- states


def test_k_and_m_trainings_are_k_a_stop_and_m(tmp_path):
    world = World(tmp_path, SaysAsSeen(), discount=0.9)
    world.add(100, verdict=SEND)
    through = world.trainer
    for _ in range(4):
        through.train()
    kept = through.state()
    world.add(50, first=100, verdict=WAIT)
    for _ in range(3):
        through.train()
    resumed = world.another(seed=7)
    resumed.load_state(kept)
    assert same(resumed.state(), kept)
    for _ in range(3):
        resumed.train()
    assert same(through.state(), resumed.state())
    assert through.counts == resumed.counts
    assert through.counts.trainings == 7


def test_its_state_goes_through_a_checkpoint(tmp_path):
    from livegym.rundir.checkpoint import CheckpointMeta, read_checkpoint, write_checkpoint

    world = World(tmp_path)
    world.add(40)
    for _ in range(3):
        world.trainer.train()
    world.trainer.divergence.rate_factor = 0.5
    meta = CheckpointMeta("Bandit", "r", 3, 3, 40, "x")
    path = write_checkpoint(tmp_path, {**world.trainer.state(), "config": {}, "spec": SPEC.to_dict()}, meta)
    resumed = world.another(seed=9)
    resumed.load_state(read_checkpoint(path))
    assert same(resumed.state(), world.trainer.state())
    assert resumed.train().critic_loss == world.trainer.train().critic_loss


def test_what_was_loaded_is_what_it_goes_back_to(tmp_path):
    world = World(tmp_path)
    world.add(40)
    for _ in range(3):
        world.trainer.train()
    kept = world.trainer.state()
    resumed = world.another(seed=9)
    resumed.load_state(kept)
    resumed.learner.model.a2c_network.value.bias.data.fill_(math.nan)
    for _ in range(MAX_FAILURES):
        resumed.train()
    assert same(resumed.learner.model_state(), kept["model"])


@pytest.mark.parametrize("part", ["online", "model", "optimizer"])
def test_a_state_that_is_none_is_refused(tmp_path, part):
    world = World(tmp_path)
    state = world.trainer.state()
    del state[part]
    with pytest.raises(LookupError):
        world.another(1).load_state(state)


def test_the_usual_losses_go_on_after_a_restart(tmp_path):
    """A loss far beyond them rolls back at once; a new detector would first have to collect some."""
    world = World(tmp_path)
    world.add(40)
    for _ in range(ENOUGH):
        world.trainer.train()
    resumed = world.another(seed=1)
    resumed.load_state(world.trainer.state())
    assert resumed.divergence.detect(1e6, broken=False)
    fresh = world.another(seed=1)
    assert not fresh.divergence.detect(1e6, broken=False)


def test_a_state_of_an_earlier_release_is_loaded(tmp_path):
    world = World(tmp_path)
    world.add(40)
    world.trainer.train()
    state = world.trainer.state()
    old = {key: value for key, value in state.items() if key != "advantages"}
    counts = {name: value for name, value in state["online"]["counts"].items() if name not in ("seen", "since")}
    old["online"] = {"counts": counts, "rate_factor": 0.5, "rng": state["online"]["rng"]}
    resumed = world.another(seed=1)
    resumed.load_state(old)
    assert (resumed.divergence.rate_factor, resumed.counts.trainings) == (0.5, 1)
    assert resumed.train() is not None


# -- an idle stream


def test_an_idle_stream_is_not_learned_by_heart(tmp_path):
    """60 update rounds after the last experience the trainer waits: not a weight and not the learning rate changes."""
    world = World(tmp_path, idle_rounds=60)
    world.add(40)
    assert [world.trainer.train() is not None for _ in range(61)] == [True] * 60 + [False]
    assert world.trainer.idle
    before, rate = world.trainer.state(), world.trainer.learning_rate
    for _ in range(1000):  # a night of a second a round has 30 times as many
        assert world.trainer.train() is None
    assert same(before, world.trainer.state())
    assert world.trainer.learning_rate == rate


@pytest.mark.slow
def test_each_experience_brings_another_60_rounds_also_if_one_comes_every_15(tmp_path):
    world = World(tmp_path, idle_rounds=60)
    world.add(40)
    for number in range(40, 50):  # one every 15 s, at a round a second: the trainer never waits
        assert all(world.trainer.train() is not None for _ in range(15))
        world.add(1, first=number)
    assert sum(world.trainer.train() is not None for _ in range(100)) == 60


def test_a_restart_brings_no_rounds_to_an_idle_stream(tmp_path):
    world = World(tmp_path, idle_rounds=60)
    world.add(40)
    for _ in range(60):
        world.trainer.train()
    resumed = world.another(seed=1)
    resumed.load_state(world.trainer.state())
    assert resumed.train() is None
    world.add(1, first=40)
    assert resumed.train() is not None


def test_too_little_experience_is_not_an_idle_stream(tmp_path):
    world = World(tmp_path, idle_rounds=2)
    world.add(2)
    for _ in range(5):
        assert world.trainer.train() is None
    assert (world.trainer.idle, world.trainer.counts.since) == (False, 0)
    world.add(40, first=2)
    assert world.trainer.train() is not None


# -- the value, if a gate blocks


class Blocks:
    """Blocks action 0; the fallback is action 1. It expects 0 of each action."""

    name = "blocks"

    def evaluate(self, seen, action, confidence):
        verdict = np.where(action[:, 0] == 0, WAIT, SEND).astype(np.int8)
        return Judgement(verdict, np.zeros(len(seen), np.float32), {}, np.ones_like(action))


@pytest.mark.slow
def test_a_wait_with_a_fallback_does_not_bias_the_value(tmp_path):
    """Every step earns 1 and one state follows itself, so V = 1 / (1 - 0.8) = 5, whatever the gate blocks.

    Half of the decisions are blocked. Their lessons for the policy (the weakened reward of what was executed, and the
    blocked action as an end) would pull the value to about 2.
    """
    train = PPOConfig(network=NetworkConfig(units=[8]), normalize_input=False, normalize_value=False)
    world = World(
        tmp_path, Blocks(), discount=0.8, train=train, actual_weight=1.0, expected_weight=0.0, learning_rate=1e-2,
        min_learning_rate=1e-3, lr_decay=0.8, kl_limit=1e-9,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    obs, half = np.ones(2, np.float32), math.log(0.5)
    for number in range(400):
        wait = bool(rng.random() < 0.5)
        world.writer.add(experience(
            number, 1.0, WAIT if wait else SEND, obs=obs, next_obs=obs, executed=np.array([1]),
            proposed=np.array([0 if wait else 1]), log_prob=half, executed_log_prob=0.0 if wait else half,
        ))  # fmt: skip
    for _ in range(600):
        world.trainer.train()
    with torch.no_grad():
        value = world.trainer.learner._value(torch.ones(1, 2)).item()
    assert value == pytest.approx(5.0, abs=0.25)


# -- priorities


def test_great_errors_are_drawn_more_often_and_weighted_down(tmp_path):
    """Errors as the learner found them: p ~ (error + floor)^alpha, weights (N p)^-beta over their greatest."""
    world = World(tmp_path, prioritised=True, updates=1, learning_rate=1e-12, min_learning_rate=1e-12, train=plain())
    errors = {0: 0.0, 1: 10.0, 2: 2.0}
    for number in range(9):
        obs = np.zeros(2, np.float32)
        world.writer.add(experience(number, errors[number % 3], obs=obs, decision=number % 3))
    trainer = world.trainer
    net = trainer.learner.model.a2c_network
    for value in net.value.parameters():
        value.data.zero_()  # V = 0: the error is the reward
    for _ in range(30):
        trainer.train()  # all have been drawn by now, and their errors are known
    world.batches.clear()
    trainer.learner.batches = []
    for _ in range(300):
        trainer.train()
    drawn = Counter(torch.cat([batch.reward for batch in world.batches]).tolist())
    raw = {error: (error + FLOOR) ** ALPHA for error in errors.values()}
    total = sum(raw.values())
    for error, value in raw.items():
        assert drawn[error] / drawn.total() == pytest.approx(value / total, abs=0.02)
    weight = {error: (9 * value / (3 * total)) ** -BETA for error, value in raw.items()}
    for batch in world.batches[:20]:  # beta has hardly risen yet
        there = [weight[reward] for reward in batch.reward.tolist()]
        assert batch.weight.tolist() == pytest.approx([value / max(there) for value in there], rel=1e-3)


def test_a_broken_row_among_them_leaves_the_others_their_weights(tmp_path):
    world = World(tmp_path, prioritised=True, updates=5, learning_rate=1e-12, min_learning_rate=1e-12, train=plain())
    for number in range(30):
        world.writer.add(experience(number, [1.0, 9.0][number % 2]))
    damage(world, "obs", [4, 8, 12], right_checksum=True)
    for value in world.trainer.learner.model.a2c_network.value.parameters():
        value.data.zero_()
    for _ in range(20):
        world.trainer.train()
    world.trainer.learner.batches = []
    world.trainer.train()
    found = world.trainer.reader.priorities.of(np.array([4, 8, 12, 2]))
    assert found[:3].tolist() == [FLOOR] * 3  # they are hardly drawn any more
    assert found[3] > 0.9
    for batch in world.batches:
        assert batch.weight.max() == 1.0
        small, great = (batch.weight[batch.reward == reward].unique() for reward in (1.0, 9.0))
        assert great.item() / small.item() == pytest.approx(((9 + FLOOR) / (1 + FLOOR)) ** (-ALPHA * BETA), rel=2e-3)
