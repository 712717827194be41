"""The one step order, held to numbers that can be counted on fingers."""

from __future__ import annotations

import pytest
import torch

from livegym.schema import ObservationGroups
from livegym.utils.errors import UserError
from tests.dummy import Counting, CountingParams, counting_env


def act(env, value: float = 0.0):
    return env.step(torch.full((env.num_envs, 1), value))


def test_an_episode_end_gives_the_old_reward_the_new_observation_and_keeps_the_last_one():
    env = counting_env(length=3)
    first = env.reset()["policy"]
    episode = first[0, 0].item()
    act(env)
    act(env)
    step = act(env)
    assert step.obs["policy"][0].tolist() == [episode + 1, 0]  # step 0 of the next episode
    assert step.final_obs["policy"][0].tolist() == [episode, 3]  # the last one of the old
    assert step.reward.tolist() == [1.0, 1.0]
    assert step.truncated.all()
    assert not step.terminated.any()
    assert step.ended.returns.tolist() == [3.0, 3.0]
    assert step.ended.lengths.tolist() == [3, 3]
    assert env.task.steps_seen.tolist() == [0, 0]  # the task's own memory is cleared
    assert env.episode_length.tolist() == [0, 0]


def test_a_failure_in_the_last_step_is_a_failure_not_a_time_limit():
    env = counting_env(length=3, params=CountingParams(fail_at=3))
    env.reset()
    for _ in range(3):
        step = act(env)
    assert step.terminated.all()
    assert not step.truncated.any()
    assert env.reason_names[step.ended.reasons[0]] == "failed"


def test_a_reason_that_the_yaml_switches_off_does_not_end_the_episode():
    env = counting_env(length=5, params=CountingParams(fail_at=2), terminations={"failed": False})
    env.reset()
    for _ in range(4):
        assert act(env).ended is None


def test_rewards_are_weighted_and_reported_exactly():
    env = counting_env(num_envs=2, length=4, rewards={"alive": 2.0, "step_number": 0.5})
    env.reset()
    for _ in range(6):  # one whole episode of 4 steps, and 2 steps of the next
        act(env)
    report = env.drain_report()
    assert report.steps == 12
    assert report.episodes == 2
    # step numbers 1 2 3 4 | 1 2, in both environments
    assert report.term_step_mean == pytest.approx({"alive": 2.0, "step_number": 0.5 * 13 / 6})
    assert report.term_episode_mean == pytest.approx({"alive": 8.0, "step_number": 0.5 * 10})
    assert report.return_mean == pytest.approx(13.0)
    assert report.reason_counts == {"failed": 0, "unstable": 0, "time_limit": 2}
    assert env.drain_report().episodes == 0


def test_actions_are_clipped_before_the_task_sees_them():
    env = counting_env()
    env.reset()
    before = env.sim.qvel.clone()
    act(env, 5.0)
    assert torch.allclose(env.sim.qvel - before, torch.ones(2, 1))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"rewards": {"alive": 1.0, "stepnumber": 1.0}}, ["reward term", "stepnumber", "step_number"]),
        ({"rewards": {"alive": 1.0}}, ["reward term", "step_number", "rewards"]),
        ({"terminations": {}}, ["termination reason", "failed"]),
        ({"observations": ObservationGroups(policy=["episode"])}, ["observation block", "step", "unused"]),
        ({"observations": ObservationGroups(policy=["episode", "step", "speed"])}, ["observation block", "speed"]),
        ({"observations": ObservationGroups(policy=["step", "step", "episode"])}, ["step", "twice"]),
        ({"observations": ObservationGroups(policy=[], unused=["step", "episode"])}, ["observations.policy", "empty"]),
        ({"noise": {"speed": 0.1}}, ["noise.speed", "episode, step"]),
        ({"episode_length_s": 0.01}, ["episode_length_s", "0.1"]),
    ],
)
def test_names_that_do_not_fit_are_refused_with_both_sides(changes, parts):
    with pytest.raises(UserError) as error:
        counting_env(**changes)
    assert all(part in str(error.value) for part in parts), str(error.value)


@pytest.mark.parametrize("method", ["observe", "reward", "terminate"])
def test_a_wrong_shape_is_reported_with_the_name_of_its_term(method):
    class Wrong(Counting):
        pass

    def wrong(self, state, *args):
        terms = getattr(Counting, method)(self, state, *args)
        name = next(iter(terms))
        return {**terms, name: terms[name].reshape(1, -1)}

    setattr(Wrong, method, wrong)
    name = {"observe": "episode", "reward": "alive", "terminate": "failed"}[method]
    with pytest.raises(UserError, match=f"{name}.*shape"):
        counting_env(num_envs=3, task=Wrong)


def test_unused_blocks_are_left_out_and_privileged_ones_kept_apart():
    env = counting_env(observations=ObservationGroups(policy=["step"], privileged=["episode", "step"]))
    obs = env.reset()
    assert {name: value.shape[1] for name, value in obs.items()} == {"policy": 1, "privileged": 2}
    assert env.layout.describe("privileged") == [("episode", 1), ("step", 1)]


def test_noise_reaches_the_policy_and_not_the_critic_and_comes_from_the_envs_own_generator():
    groups = ObservationGroups(policy=["step"], privileged=["episode", "step"])
    env = counting_env(num_envs=2000, observations=groups, noise={"step": 0.5})
    torch.manual_seed(0)
    obs = env.reset()
    assert torch.equal(obs["privileged"][:, 1], torch.zeros(2000))
    assert obs["policy"].std().item() == pytest.approx(0.5, rel=0.1)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    env.reset()
    assert torch.equal(torch.rand(1), expected)  # the global generator was not touched


class Breaking(Counting):
    """Environment 1 returns nonsense at step 2."""

    def reward(self, state, action):
        terms = super().reward(state, action)
        terms["alive"][1] = torch.where(state.qpos[1, 1] == 2, torch.nan, terms["alive"][1])
        return terms


def test_an_environment_that_breaks_is_ended_counted_recorded_and_reset(caplog):
    class Recorder:
        dumped = []
        pushes = 0

        def push(self):
            self.pushes += 1

        def dump(self, env_ids, step):
            self.dumped.append((env_ids.tolist(), step))
            return []

    env = counting_env(task=Breaking)
    recorder = Recorder()
    env.watch(recorder)
    env.reset()
    act(env)
    step = act(env)
    assert step.terminated.tolist() == [False, True]
    assert env.reason_names[step.ended.reasons[0]] == "unstable"
    assert step.reward.tolist() == [1.0, 0.0]
    assert recorder.dumped == [([1], 2)]
    assert recorder.pushes == 2
    assert env.drain_report().unstable == 1
    assert "environment(s) became non-finite" in caplog.text
    assert act(env).ended is None  # it goes on


class WithGoal(Counting):
    """Draws a goal into a buffer when an episode starts."""

    def bind(self, sim):
        super().bind(sim)
        self.goal = self.buffer(sim, "goal")

    def reset(self, env_ids, rng):
        self.goal[env_ids] = 7.0
        return super().reset(env_ids, rng)


def test_what_a_task_draws_at_a_reset_is_there_in_the_episode():
    env = counting_env(task=WithGoal, length=2)
    env.reset()
    for _ in range(5):
        assert env.task.goal.tolist() == [7.0, 7.0]
        act(env)


def test_a_broken_state_is_neither_success_nor_failure_of_the_task():
    class BreaksWhereItFails(Breaking):
        success_reason = "failed"

    env = counting_env(task=BreaksWhereItFails, params=CountingParams(fail_at=2))
    env.reset()
    act(env)
    step = act(env)
    assert [env.reason_names[r] for r in step.ended.reasons] == ["failed", "unstable"]


@pytest.mark.parametrize("name", ["unstable", "time_limit"])
def test_the_environments_own_reasons_cannot_be_a_tasks(name):
    class Named(Counting):
        def terminate(self, state):
            return {name: torch.zeros(state.num_envs, dtype=torch.bool)}

    with pytest.raises(UserError, match=f"{name}.*reserved for the environment"):
        counting_env(task=Named, terminations={name: True})


def test_success_means_nothing_where_the_yaml_switches_its_reason_off():
    class Succeeding(Counting):
        success_reason = "failed"

    assert counting_env(task=Succeeding).success_reason == "failed"
    assert counting_env(task=Succeeding, terminations={"failed": False}).success_reason is None


def test_a_state_continues_bit_for_bit_also_in_a_smaller_env():
    env = counting_env(num_envs=4, length=6, noise={"step": 0.1})
    env.reset()
    for _ in range(3):
        act(env, 0.25)
    picked = torch.tensor([1, 3])
    state = env.state_dict(picked)
    scratch = counting_env(num_envs=2, length=6, seed=99, noise={"step": 0.1})
    scratch.load_state_dict(state)
    assert torch.equal(scratch.sim.qvel, env.sim.qvel[picked])
    assert scratch.episode_length.tolist() == [3, 3]
    assert scratch.task.steps_seen.tolist() == [3, 3]
    whole = env.state_dict()
    rest = [act(env, 0.5).obs["policy"] for _ in range(5)]
    env.load_state_dict(whole)
    again = [act(env, 0.5).obs["policy"] for _ in range(5)]
    assert all(torch.equal(a, b) for a, b in zip(rest, again, strict=True))


def test_a_state_of_another_size_is_refused():
    env = counting_env(num_envs=2)
    with pytest.raises(ValueError, match="does not fit"):
        env.load_state_dict(counting_env(num_envs=4).state_dict())


class Misshapen(Counting):
    """Starts or drives a world of another size."""

    def reset(self, env_ids, rng):
        qpos, qvel = super().reset(env_ids, rng)
        return qpos[:, :1], qvel


class Overdriven(Counting):
    def control(self, action):
        return super().control(action).repeat(1, 2)


class Misnamed(Counting):
    success_reason = "faild"


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Misshapen, r"qpos of reset has shape \(2, 1\); it must be \(2, 2\)"),
        (Overdriven, r"control has shape \(2, 2\); it must be \(2, 1\)"),
        (
            Misnamed,
            r"success_reason='faild' of Misnamed is not one of its termination reasons. Allowed: failed. Did you",
        ),
    ],
)
def test_what_would_be_repeated_to_fit_or_never_hold_is_refused(task, message):
    with pytest.raises(UserError, match=message):
        counting_env(task=task)


def test_a_state_of_another_model_is_refused():
    env = counting_env()
    state = env.state_dict()
    with pytest.raises(ValueError, match="the state belongs to another model"):
        env.load_state_dict({**state, "model": "other"})
