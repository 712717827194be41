"""rsl_rl: its VecEnv, what its policies do when they are played here, and what is refused."""

from __future__ import annotations

import copy
import sys

import pytest
import torch

pytest.importorskip("rsl_rl", reason="needs the extra rsl_rl")

from tensordict import TensorDict

from examples.train_rsl_rl import SETTINGS, main
from livegym.learners.actor import configuration, describe
from livegym.learners.rsl_rl import RecordingRunner, RslRlEnv, actor_of
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.run import open_run
from livegym.utils.errors import UserError
from tests.processes import runs


@pytest.fixture(scope="module")
def cartpole():
    env = RslRlEnv("Cartpole", num_envs=4, seed=3, overrides=["sim.threads=1", "task.episode_length_s=0.2"])
    yield env
    env.close()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(**changes) -> dict:
    """The example's settings with small batches; `changes` are parts of the actor's."""
    made = copy.deepcopy(SETTINGS)
    made["num_steps_per_env"] = 4
    made["actor"] |= changes
    return made


def test_time_limits_are_time_outs_and_lengths_can_be_set(cartpole):
    cartpole.episode_length_buf = torch.tensor([0, 1, cartpole.max_episode_length - 1, 3])
    obs, rewards, dones, extras = cartpole.step(torch.zeros(4, 1))
    assert dones.tolist() == [0, 0, 1, 0]
    assert extras["time_outs"].tolist() == [False, False, True, False]
    assert cartpole.episode_length_buf.tolist() == [1, 2, 0, 4]
    assert (obs["policy"].shape, rewards.shape) == ((4, 4), (4,))
    obs["policy"].zero_()
    assert cartpole.get_observations()["policy"].any()


def test_steps_in_inference_mode_leave_the_environments_usable(cartpole):
    with torch.inference_mode():
        cartpole.step(torch.zeros(4, 1))
    state = cartpole.simulation.env.state_dict()
    cartpole.simulation.env.load_state_dict(state)
    cartpole.simulation.reset()
    assert not cartpole.simulation.env.episode_length.is_inference()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"obs_normalization": False, "hidden_dims": [8], "activation": "tanh"},
        {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.3, "std_type": "log"}},
    ],
    ids=["example", "plain", "log"],
)
def test_a_policy_acts_as_its_own_inference_does(cartpole, here, changes):
    torch.manual_seed(0)
    runner = RecordingRunner(cartpole, settings(**changes))
    runner.learn(2)
    (made,) = runs(here)
    state = newest_usable(open_run(made)).state
    assert (state["livegym"]["version"], state["frame"]) == (2, 32)
    obs = torch.randn(64, 4)
    policy = runner.get_inference_policy()
    with torch.inference_mode():
        groups = TensorDict({"policy": obs}, batch_size=[64])
        expected = policy(groups).clone()
        policy(groups, stochastic_output=True)
        std = policy.output_std[0].clone()
    spec = spec_of(cartpole.simulation.env)
    described = describe(actor_of(policy), spec)
    played = Policy(spec, configuration(described, "a test"), 1, "cpu")
    played.load(state["model"])
    torch.testing.assert_close(played(obs).mode(), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(played(obs).log_std[0].exp(), std, atol=1e-5, rtol=0)


def test_its_own_log_and_files_come_as_without_recording(cartpole, here):
    runner = RecordingRunner(cartpole, settings(), log_dir=str(here / "own"))
    own = runner.logger
    runner.learn(1)
    assert runner.logger is own
    assert (here / "own" / "model_0.pt").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_name": "RNNModel", "rnn_type": "lstm"}, "an actor of class RNNModel: .*Allowed: MLPModel"),
        ({"distribution_cfg": {"class_name": "BetaDistribution"}}, "an actor with BetaDistribution: "),
    ],
    ids=["memory", "distribution"],
)
def test_what_cannot_be_played_is_refused_before_anything_is_written(cartpole, here, changes, message):
    runner = RecordingRunner(cartpole, settings(**changes))
    with pytest.raises(UserError, match=message):
        runner.learn(1)
    assert list(here.iterdir()) == []


def test_discrete_actions_are_refused():
    with pytest.raises(UserError, match="rsl_rl has continuous actions only"):
        RslRlEnv("Territory", num_envs=2, seed=0)


def test_the_example_trains_two_versions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_rsl_rl.py", "--envs", "4", "--iterations", "2"])
    main()
    (made,) = runs(tmp_path)
    assert newest_usable(open_run(made)).state["livegym"]["version"] == 2
