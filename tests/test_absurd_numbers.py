"""Numbers that are not finite, or finite but absurd: nothing learns from them, and each is reported with its source."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livegym.rl.divergence import Diverged, not_finite
from livegym.schema import ObservationGroups
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.tasks.stability import HOPELESS, HUGE
from livegym.tasks.stats import Largest
from livegym.utils.errors import UserError
from tests.dummy import Counting, CountingParams, counting_env
from tests.test_learning import RECURRENT, TINY, learner_of, trained, with_spec

LIMIT = 1e6


class Faulty(Counting):
    """Puts chosen numbers into chosen environments at chosen steps: (step, environment) -> number."""

    rewards: dict[tuple[int, int], float]
    seen: dict[tuple[int, int], float]
    starts: dict[int, float]  # reset of environment 0 -> start velocity

    def bind(self, sim):
        super().bind(sim)
        self.resets = 0

    def reset(self, env_ids, rng):
        qpos, qvel = super().reset(env_ids, rng)
        if 0 in env_ids:
            qvel[0] = self.starts.get(self.resets, 0.0)
            self.resets += 1
        return qpos, qvel

    def observe(self, state):
        blocks = super().observe(state)
        step = blocks["step"].clone()
        for (at, env), number in self.seen.items():
            if int(blocks["step"][env]) == at:
                step[env] = number
        return {**blocks, "step": step}

    def reward(self, state, action):
        terms = super().reward(state, action)
        for (at, env), number in self.rewards.items():
            if int(state.qpos[env, 1]) == at:
                terms["alive"][env] = number
        return terms


def faulty(rewards=None, seen=None, starts=None, num_envs=2, length=5, **changes):
    numbers = {"rewards": rewards or {}, "seen": seen or {}, "starts": starts or {}}
    return counting_env(num_envs, length, task=type("Numbers", (Faulty,), numbers), **changes)


def play(env, steps):
    return [env.step(env.zero_action()) for _ in range(steps)]


def test_a_huge_reward_counts_as_zero_ends_the_episode_and_is_reported_with_term_environment_and_step(caplog):
    env = faulty(rewards={(3, 1): -1e9})
    env.reset()
    steps = play(env, 3)
    assert steps[-1].reward.tolist() == [1.0, 0.0]
    assert steps[-1].terminated.tolist() == [False, True]
    assert steps[-1].ended.returns.tolist() == [2.0]  # the two sound steps before it
    report = env.drain_report()
    assert (report.unstable, report.huge_rewards) == (1, 1)
    assert report.term_step_mean["alive"] == pytest.approx(5 / 6)
    (record,) = [r.message for r in caplog.records]
    assert record == (
        "Counting: 1 environment(s) had a reward beyond task.max_reward=1e+06 (1; the first at step 3: "
        "reward term 'alive' is -1e+09). Reset, counted as 'unstable'."
    )


def test_terms_that_are_below_the_limit_may_not_add_up_beyond_it():
    env = faulty(rewards={(2, 0): 0.9e6})
    env.terms.weights[1] = 0.1e6  # of step_number, which is 2
    env.reset()
    assert play(env, 2)[-1].reward.tolist() == [0.0, pytest.approx(0.2e6 + 1)]


def test_the_limit_is_a_setting_of_the_task():
    env = faulty(rewards={(2, 0): 5e6}, max_reward=1e7)
    env.reset()
    assert play(env, 2)[-1].reward.tolist() == [5e6, 1.0]
    assert env.drain_report().largest == Largest(5e6, 2.0)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"rewards": {(1, 0): 1e30, (1, 1): 1e30}}, ["reward beyond task.max_reward", "'alive' is 1e+30"]),
        ({"seen": {(1, 0): 1e20, (1, 1): 1e20}}, ["observation beyond 1e+15", "block 'step' is 1e+20", "observe"]),
    ],
)  # fmt: skip
def test_if_no_environment_stays_sound_the_error_names_what_it_is(numbers, words):
    env = faulty(**numbers)
    env.reset()
    play(env, HOPELESS - 1)
    with pytest.raises(UserError) as error:
        play(env, 1)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e16])
def test_a_start_that_is_not_sound_is_drawn_again_before_anything_uses_it(bad, caplog):
    seen = {(0, 1): bad}  # also while it is made
    with pytest.raises(UserError, match=r"environment 1 has no usable start: observation block 'step' is"):
        faulty(seen=seen)
    env = faulty(starts={1: float("nan"), 2: float("nan")})
    caplog.clear()
    first = env.reset()
    assert torch.isfinite(first["policy"]).all()
    assert torch.isfinite(env.sim.qvel).all()
    assert env.task.resets == 4
    assert env.drain_report().unstable == 2
    assert caplog.text.count("unusable start") == 1  # at most one warning in an interval


def test_a_bad_start_in_the_middle_of_training_never_reaches_the_policy(caplog):
    env = faulty(starts={2: float("inf")}, length=3)
    env.reset()
    steps = play(env, 3)
    assert torch.isfinite(steps[-1].obs["policy"]).all()
    assert torch.isfinite(env.sim.qvel).all()
    assert "unusable start (0: its start state is non-finite)" in caplog.text


NUMBERS = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, 1e6, -1e6, 1.1e6, 1e15, -1.1e15, 3e38]))
PLACES = st.tuples(st.integers(1, 4), st.integers(0, 2))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(PLACES, NUMBERS, max_size=4), st.dictionaries(PLACES, NUMBERS, max_size=4))
def test_nothing_beyond_the_limits_ever_leaves_the_environment(rewards, seen):
    env = faulty(rewards, seen, num_envs=3)
    env.reset()
    for _ in range(12):
        before = env.episode_length.clone()
        step = env.step(env.zero_action())
        bad = torch.tensor(
            [
                any(
                    int(before[env_id]) + 1 == at and env_id == where and not abs(number) <= limit
                    for numbers, limit in ((rewards, LIMIT), (seen, HUGE))
                    for (at, where), number in numbers.items()
                )
                for env_id in range(3)
            ]
        )
        assert (step.reward.abs() <= LIMIT).all()
        assert all((value.abs() <= HUGE).all() for value in (*step.obs.values(), *step.final_obs.values()))
        assert step.terminated.tolist() == bad.tolist()
        assert (step.reward[bad] == 0).all()
    summary = env.drain_report()
    assert all(abs(mean) <= 5 * LIMIT for mean in summary.term_episode_mean.values())


SPECS = [Box(2), Discrete(3), MultiDiscrete((2, 3))]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("train", [TINY, RECURRENT])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e30])
def test_a_policy_that_diverges_is_a_readable_error_of_ours(spec, train, number):
    """Whatever the weights are: never an exception of a probability distribution."""
    learner = learner_of(train, num_envs=4, task=with_spec(spec))
    learner.begin()
    learner.iterate()
    with torch.no_grad():
        for parameter in learner.agent.model.parameters():
            parameter.fill_(number)
    with pytest.raises(Diverged, match=r"^the policy has diverged by epoch 2: it (has NaN|gives actions)") as error:
        learner.iterate()
    assert error.value.exit_code == 1
    assert "Probable cause: the learning rate, " in str(error.value)
    assert error.value.remedy == "train.learning_rate=<lower>"


@pytest.mark.parametrize(
    ("largest", "changes", "cause", "remedy"),
    [
        (Largest(1e5, 1.0), {"normalize_value": False}, "the rewards", "train.normalize_value=true"),
        (Largest(1e5, 1.0), {"normalize_value": False, "reward_scale": 1e-4}, "the learning rate", "<lower>"),
        (Largest(1e5, 1.0), {}, "the learning rate", "train.learning_rate=<lower>"),
        (Largest(1.0, 1e9), {"normalize_input": False}, "the observations", "train.normalize_input=true"),
        (Largest(1.0, 1e9), {}, "the learning rate", "train.learning_rate=<lower>"),
        (Largest(1.0, 1.0), {"normalize_input": False, "normalize_value": False}, "the learning rate", "<lower>"),
    ],
)
def test_a_divergence_names_what_the_numbers_point_to(largest, changes, cause, remedy):
    learner = learner_of(dataclasses.replace(TINY, **changes))
    found = learner.cause_of_divergence(largest)
    assert found.text.startswith(cause)
    assert remedy in found.remedy


def test_an_error_in_a_task_stays_what_it_is():
    class Wrong(Counting):
        def control(self, action):
            if self.steps_seen[0] == 3:
                raise ValueError("of the task")
            return super().control(action)

    with pytest.raises(ValueError, match="of the task"):
        trained(learner_of(task=Wrong))


def test_a_training_with_huge_rewards_now_and_then_goes_on():
    numbers = {"rewards": {(3, 0): 1e12, (4, 1): float("inf")}, "seen": {(2, 1): 1e16}, "starts": {3: float("nan")}}
    task = type("Numbers", (Faulty,), numbers)
    iterations = trained(learner_of(num_envs=4, task=task, params=CountingParams()))
    assert len(iterations) == 3
    assert sum(it.report.huge_rewards for it in iterations) > 0
    assert all(abs(it.mean_return) <= 5 for it in iterations)
    assert all(it.report.largest.reward <= LIMIT for it in iterations)


ASYMMETRIC = {"observations": ObservationGroups(policy=["episode", "step"], privileged=["step", "episode"])}


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    num_envs=st.integers(1, 3),
    horizon=st.integers(1, 4),
    divisor=st.integers(1, 12),
    spec=st.sampled_from(SPECS),
    normalised=st.booleans(),
    asymmetric=st.booleans(),
)
def test_every_size_of_batch_and_minibatch_that_is_allowed_trains(
    num_envs, horizon, divisor, spec, normalised, asymmetric
):
    """Minibatches of one step are refused: nothing can be normalised by one number."""
    minibatches = next(d for d in range(min(divisor, num_envs * horizon), 0, -1) if num_envs * horizon % d == 0)
    train = dataclasses.replace(
        TINY, horizon_length=horizon, num_minibatches=minibatches, mini_epochs=1, normalize_advantage=normalised
    )
    if num_envs * horizon == minibatches:
        with pytest.raises(UserError, match=r"into minibatches of one step\. Allowed: minibatches of at least 2 steps"):
            train.check(num_envs)
        return
    train.check(num_envs)
    learner = learner_of(train, num_envs=num_envs, task=with_spec(spec), **(ASYMMETRIC if asymmetric else {}))
    assert len(trained(learner)) == 3
    assert not_finite(learner.state()) is None
