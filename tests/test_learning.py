"""The learner: time limits, counters, stopping, and rl_games' traps, on the counting world."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from livegym.rl.algorithm import algorithm_of
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig, RecurrentConfig
from livegym.rl.learner import IterationAbandoned
from livegym.rl.spec import spec_of
from livegym.rl.state import capture_learner, restore_learner
from livegym.schema import ObservationGroups
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError
from livegym.utils.seeding import seed_everything
from livegym.utils.signals import StopFlag
from tests.dummy import Counting, counting_env

TINY = PPOConfig(
    network=NetworkConfig(units=[8]),
    max_iterations=3,
    horizon_length=8,
    num_minibatches=2,
    mini_epochs=2,
    learning_rate=1e-3,
)
RECURRENT = dataclasses.replace(TINY, network=NetworkConfig(units=[8], recurrent=RecurrentConfig(units=6)))


def learner_of(train=TINY, iterations=3, seed=0, stop=None, **env):
    seed_everything(seed)
    return algorithm_of(train).learner(counting_env(**env), train, iterations, "cpu", stop or StopFlag())


def with_spec(spec):
    return type("Choosing", (Counting,), {"spec": spec})


def trained(learner):
    iterations = []
    learner.train(iterations.append)
    return iterations


@pytest.mark.parametrize("spec", [Box(1), Box(3), Discrete(4), MultiDiscrete((2, 3))])
@pytest.mark.parametrize("train", [TINY, RECURRENT])
def test_every_kind_of_action_trains_with_and_without_memory(spec, train):
    iterations = trained(learner_of(train, num_envs=4, task=with_spec(spec)))
    assert [it.version for it in iterations] == [1, 2, 3]
    assert [it.frame for it in iterations] == [32, 64, 96]
    assert iterations[-1].mean_return == pytest.approx(5.0)  # one a step, five steps
    assert all(torch.isfinite(torch.tensor(list(it.losses.values()))).all() for it in iterations)


def test_a_run_shorter_than_an_episode_has_no_mean_return():
    assert [it.mean_return for it in trained(learner_of(length=1000))] == [None, None, None]


def test_a_time_limit_adds_the_value_of_the_last_observation_not_of_the_one_before():
    learner = learner_of(num_envs=2, length=4)
    asked = []

    def values_of(obs):
        asked.append(obs["obs"].clone())
        return obs["obs"][:, 1:2] * 10.0

    learner.agent.get_values = values_of  # a stand-in for the critic of this one object
    learner.agent.obs = learner.agent.env_reset()
    for _ in range(3):
        learner.agent.env_step(torch.zeros(2, 1))
        assert learner.agent.rewards_shaper.bonus is None
    learner.agent.env_step(torch.zeros(2, 1))
    assert asked[0][:, 1].tolist() == [4.0, 4.0]
    assert learner.agent.rewards_shaper.bonus.squeeze(1).tolist() == pytest.approx([0.99 * 40.0] * 2)
    assert learner.agent.rewards_shaper(torch.ones(2, 1)).squeeze(1).tolist() == pytest.approx([1 + 0.99 * 40.0] * 2)


def test_bootstrapping_can_be_switched_off():
    learner = learner_of(dataclasses.replace(TINY, value_bootstrap=False), length=1)
    learner.agent.obs = learner.agent.env_reset()
    learner.agent.env_step(torch.zeros(2, 1))
    assert learner.agent.rewards_shaper.bonus is None


def test_advantages_do_not_flow_over_a_reset():
    """Generalised advantage estimation by hand: gamma 0.5, lambda 1, values 0, rewards 1 2 4, an end after 2."""
    learner = learner_of(dataclasses.replace(TINY, gamma=0.5, tau=1.0, horizon_length=3, num_minibatches=1), num_envs=1)
    rewards = torch.tensor([1.0, 2.0, 4.0]).reshape(3, 1, 1)
    ends_before_step = torch.tensor([0.0, 0.0, 1.0]).reshape(3, 1)
    values, zero = torch.zeros(3, 1, 1), torch.zeros(1)
    last = torch.full((1, 1), 8.0)
    advantages = learner.agent.discount_values(zero, last, ends_before_step, values, rewards)
    assert advantages.flatten().tolist() == [1 + 0.5 * 2, 2.0, 4 + 0.5 * 8]


@pytest.mark.slow
def test_with_bootstrapping_a_constant_reward_is_worth_its_endless_sum():
    """Reward 1, only a time limit, gamma 0.9: the value is 1 / (1 - 0.9) = 10, whatever the limit."""
    train = dataclasses.replace(
        TINY, gamma=0.9, learning_rate=3e-3, lr_schedule="constant", mini_epochs=8, horizon_length=16
    )
    observe = ObservationGroups(["episode", "step"])
    learner = learner_of(train, iterations=150, num_envs=16, length=20, observations=observe)
    trained(learner)
    learner.agent.set_eval()
    assert learner.agent.get_values(learner.agent.obs).mean().item() == pytest.approx(10.0, rel=0.1)


def test_equal_seeds_train_to_equal_weights_and_zero_is_a_seed():
    weights = []
    for seed in (0, 0, 1):
        learner = learner_of(seed=seed)
        trained(learner)
        weights.append(learner.agent.model.state_dict())
    same = [torch.equal(a, b) for a, b in zip(weights[0].values(), weights[1].values(), strict=True)]
    other = [torch.equal(a, b) for a, b in zip(weights[0].values(), weights[2].values(), strict=True)]
    assert all(same)
    assert not all(other)


def differences(a, b, path=""):
    if isinstance(a, dict):
        assert set(a) == set(b), path
        return [d for key in a for d in differences(a[key], b[key], f"{path}/{key}")]
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{path}/{i}")]
    equal = torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    return [] if equal else [path]


@pytest.mark.parametrize("train", [TINY, RECURRENT, dataclasses.replace(TINY, lr_schedule="linear")])
@pytest.mark.parametrize("privileged", [[], ["episode", "step"]])
def test_five_iterations_are_two_stop_resume_three_bit_for_bit(train, privileged):
    env = {"observations": ObservationGroups(["episode", "step"], privileged), "length": 7, "num_envs": 4}
    whole = learner_of(train, iterations=5, **env)
    trained(whole)

    stop = StopFlag()
    first = learner_of(train, iterations=5, stop=stop, **env)  # the total is known: lr_schedule=linear depends on it
    first.train(lambda it: stop.request(2) if it.version == 2 else None)
    state, world = capture_learner(first), first.environment_state()
    first.note_best_return(state, 3.25)

    second = learner_of(train, iterations=5, seed=77, **env)
    assert restore_learner(second, state, version=2) == 3.25
    second.load_environment_state(world)
    iterations = trained(second)
    assert [it.version for it in iterations] == [3, 4, 5]
    assert differences(capture_learner(whole), capture_learner(second)) == []
    assert differences(whole.environment_state(), second.environment_state()) == []
    assert second.agent.last_lr == whole.agent.last_lr


def test_weights_without_a_learner_state_cannot_be_resumed():
    learner = learner_of()
    with pytest.raises(UserError, match="leave out resume=true"):
        restore_learner(learner, {"model": learner.agent.model.state_dict()}, 1)


def test_a_stop_ends_after_the_iteration():
    stop = StopFlag()
    learner = learner_of(stop=stop)
    iterations = []

    def on_iteration(it):
        iterations.append(it.version)
        stop.request(2)

    learner.train(on_iteration)
    assert iterations == [1]
    assert stop.exit_status == 130


def test_a_stop_that_has_waited_long_enough_abandons_the_iteration(monkeypatch):
    stop = StopFlag()
    learner = learner_of(stop=stop)
    stop.request(15)
    monkeypatch.setattr("livegym.rl.learner.PATIENCE", -1.0)
    learner.agent.obs = learner.agent.env_reset()
    with pytest.raises(IterationAbandoned):
        learner.iterate()
    assert (learner.epoch, learner.agent.epoch_num) == (0, 0)
    assert learner.version == 0


@pytest.mark.parametrize("privileged", [[], ["episode", "step"]])
def test_the_learner_leaves_nothing_behind(tmp_path, monkeypatch, capsys, privileged):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    trained(learner_of(observations=ObservationGroups(["episode", "step"], privileged)))
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_the_spec_is_measured():
    spec = spec_of(counting_env(observations=ObservationGroups(["step"], ["episode", "step"])))
    assert spec.observations == (("step", 1),)
    assert spec.privileged == (("episode", 1), ("step", 1))
    assert spec.control_dt == 0.1
    assert type(spec).from_dict(spec.to_dict()) == spec
