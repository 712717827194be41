"""skrl: its environment wrapper, and its normaliser as data."""

from __future__ import annotations

import sys

import gymnasium
import pytest
import torch

pytest.importorskip("skrl", reason="needs the extra skrl")

from skrl.resources.preprocessors.torch import RunningStandardScaler

from examples.train_skrl import RecordedPPO, main
from livegym.learners.skrl import FinalObservations, SkrlEnv, normaliser_of
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.run import open_run
from livegym.utils.errors import UserError
from tests.processes import runs


@pytest.fixture(scope="module")
def cartpole():
    env = SkrlEnv("Cartpole", num_envs=4, seed=3, overrides=["sim.threads=1", "task.episode_length_s=0.1"])
    yield env
    env.close()


def test_shapes_and_flags_are_those_that_skrl_expects(cartpole):
    obs, _ = cartpole.reset()
    assert (cartpole.num_envs, obs.shape) == (4, (4, 4))
    for _ in range(cartpole.simulation.env.max_length):
        obs, reward, terminated, truncated, _ = cartpole.step(torch.zeros(4, 1))
    assert reward.shape == terminated.shape == truncated.shape == (4, 1)
    assert truncated.all()
    assert not terminated.any()
    assert torch.equal(cartpole.reset()[0], obs)  # a trainer's second reset does not interrupt what runs


def test_spaces_say_what_the_task_has(cartpole):
    assert cartpole.observation_space.shape == (4,)
    assert isinstance(cartpole.action_space, gymnasium.spaces.Box)
    assert cartpole.state_space is None
    assert cartpole.state() is None
    asymmetric = SkrlEnv("BlindGrasping", num_envs=2, seed=0, overrides=["sim.threads=1"])
    asymmetric.reset()
    assert asymmetric.state().shape == (2, *asymmetric.state_space.shape)
    asymmetric.close()
    choices = SkrlEnv("Territory", num_envs=2, seed=0)
    choices.reset()
    size = choices.action_space.shape[0] if choices.action_space.shape else 1
    choices.step(torch.zeros(2, size, dtype=torch.int32))
    choices.close()


class Kept:
    """What skrl's agents do first: they take what they learn from."""

    def record_transition(self, **transition) -> None:
        self.kept = transition


class Agent(FinalObservations, Kept):
    pass


def test_values_at_time_limits_come_from_the_last_observation_of_the_episode(cartpole):
    agent = Agent()
    before, truncated = cartpole.reset()[0], torch.zeros(1, dtype=torch.bool)
    while not truncated.any():
        obs, _, _, truncated, infos = cartpole.step(torch.zeros(4, 1))
        agent.record_transition(next_observations=obs, next_states=None, infos=infos, timestep=0)
        last = agent.kept["next_observations"]
        assert ((last[:, 0] - before[:, 0]).abs() < 0.01).all()  # m in a 60th of a second: the same episode
        assert torch.equal(last, obs) != truncated.all()
        before = obs
    assert truncated.all()
    assert (agent.kept["timestep"], agent.kept["next_states"]) == (0, None)
    assert RecordedPPO.__mro__[1] is FinalObservations
    with pytest.raises(UserError, match=r"the agent gets 2 of 4 environments\. Allowed: one agent"):
        agent.record_transition(next_observations=obs[:2], next_states=None, infos=infos)


def test_its_scaler_is_a_normaliser():
    scaler = RunningStandardScaler(size=3, device="cpu")
    scaler(10 + 5 * torch.randn(100, 3), train=True)
    norm = normaliser_of(scaler)
    obs = 10 + 50 * torch.randn(20, 3)
    seen = ((obs - norm.mean) / norm.scale).clamp(-norm.clip, norm.clip)
    torch.testing.assert_close(seen, scaler(obs))
    with pytest.raises(UserError, match=r"the preprocessor Identity: .*Allowed: RunningStandardScaler"):
        normaliser_of(torch.nn.Identity())


def test_the_example_trains_two_versions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_skrl.py", "--envs", "4", "--iterations", "2"])
    main()
    (made,) = runs(tmp_path)
    assert newest_usable(open_run(made)).state["livegym"]["version"] == 2
