"""Noise, delay and history of what the policy sees, in the counting world, whose observations say which step it is."""

from __future__ import annotations

import pytest
import torch

from livegym.schema import ObservationGroups, RandomizationConfig
from livegym.tasks.base import Discrete
from livegym.utils.errors import UserError
from tests.dummy import Counting, counting_env

STEP = {"observations": ObservationGroups(policy=["step"], privileged=["episode", "step"])}
LATE_ACTIONS = {"late": RandomizationConfig(what="action_delay", range=[2, 2])}


def act(env, value: float = 0.0):
    return env.step(torch.full((env.num_envs, 1), value))


def observed(env, steps: int, group: str = "policy") -> list[list[float]]:
    """What environment 0 sees at reset and after each step."""
    return [env.reset()[group][0].tolist()] + [act(env).obs[group][0].tolist() for _ in range(steps)]


def test_a_late_block_is_seen_late_by_the_policy_only():
    env = counting_env(length=100, delay={"step": 2}, **STEP)
    assert [row[0] for row in observed(env, 5)] == [0, 0, 0, 1, 2, 3]  # before its start the past is as the start
    assert [row[1] for row in observed(env, 5, "privileged")] == [0, 1, 2, 3, 4, 5]


def test_a_history_is_oldest_first_and_widens_the_observation():
    env = counting_env(length=100, history={"step": 3}, **STEP)
    assert env.layout.width("policy") == 3
    assert env.layout.describe("policy") == [("step", 3)]
    assert env.layout.describe("privileged") == [("episode", 1), ("step", 1)]
    assert observed(env, 4) == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_a_late_history():
    env = counting_env(length=100, history={"step": 2}, delay={"step": 1}, **STEP)
    assert observed(env, 4) == [[0, 0], [0, 0], [0, 1], [1, 2], [2, 3]]


def test_the_past_ends_with_the_episode_and_the_last_observation_still_has_it():
    env = counting_env(length=3, history={"step": 2}, delay={"step": 1}, **STEP)
    observed(env, 2)
    step = act(env)
    assert step.final_obs["policy"].tolist() == [[1, 2], [1, 2]]
    assert step.obs["policy"].tolist() == [[0, 0], [0, 0]]
    assert act(env).obs["policy"].tolist() == [[0, 0], [0, 0]]
    assert act(env).obs["policy"].tolist() == [[0, 1], [0, 1]]


def test_a_value_keeps_the_noise_with_which_it_was_taken():
    env = counting_env(num_envs=400, length=100, history={"step": 2}, noise={"step": 0.1}, **STEP)
    env.reset()
    first, second = act(env).obs["policy"], act(env).obs["policy"]
    assert torch.equal(first[:, 1], second[:, 0])
    assert 0.09 < (second[:, 1] - 2).std().item() < 0.11


def test_noise_is_scaled_in_each_environment_by_its_own_factor():
    noise = {"scale": RandomizationConfig(what="observation_noise", range=[2.0, 2.0])}
    env = counting_env(num_envs=400, length=100, noise={"step": 0.1}, randomization=noise, **STEP)
    env.reset()
    assert 0.18 < (act(env).obs["policy"][:, 0] - 1).std().item() < 0.22


def test_late_actions_act_late_and_an_episode_begins_without_any():
    env = counting_env(length=4, randomization=LATE_ACTIONS)
    env.reset()
    start = env.sim.qvel[0, 0].item()  # sums the controls
    summed = []
    for value in (0.1, 0.2, 0.4):
        act(env, value)
        summed.append(round(env.sim.qvel[0, 0].item() - start, 5))
    assert summed == [0, 0, pytest.approx(0.1)]
    act(env, 0.8)  # the last step
    start = env.sim.qvel[0, 0].item()
    act(env, 0.3)
    assert env.sim.qvel[0, 0].item() == pytest.approx(start)


def test_what_is_remembered_continues_in_another_env():
    changes = {"length": 50, "history": {"step": 2}, "delay": {"step": 3}, "randomization": LATE_ACTIONS, **STEP}
    env, other = counting_env(**changes), counting_env(seed=9, **changes)
    env.reset()
    for value in (0.1, 0.2, 0.4, 0.3):
        act(env, value)
    other.load_state_dict(env.state_dict())
    for value in (0.5, 0.6, 0.7):
        assert torch.equal(act(env, value).obs["policy"], act(other, value).obs["policy"])
        assert torch.equal(env.sim.qvel, other.sim.qvel)


def test_the_episode_time_is_every_tasks_to_name():
    env = counting_env(length=4, observations=ObservationGroups(policy=["episode_time"], unused=["episode", "step"]))
    assert [row[0] for row in observed(env, 4)] == [0.0, 0.25, 0.5, 0.75, 0.0]


@pytest.mark.parametrize("key", ["noise", "delay", "history"])
def test_a_block_that_the_policy_does_not_see_is_refused(key):
    with pytest.raises(UserError, match=rf"task.{key}.episode: no such block in observations.policy. Allowed: step"):
        counting_env(**{key: {"episode": 2}}, **STEP)


class Choosing(Counting):
    """A task of choices."""

    spec = Discrete(2)


def test_choices_cannot_be_late():
    with pytest.raises(UserError, match=r"task\.randomization.late: action_delay needs continuous actions"):
        counting_env(task=Choosing, randomization=LATE_ACTIONS)
