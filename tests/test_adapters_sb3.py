"""Stable-Baselines3: its VecEnv, what its policies do when they are played here, and what is refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

from livegym.learners.actor import configuration, describe
from livegym.learners.sb3 import RecordRun, SB3Env, actor_of
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import list_checkpoints, newest_usable
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import open_run
from livegym.utils.errors import UserError
from tests.processes import runs, scalars

ONE_THREAD = ["sim.threads=1"]
SMALL = {"n_steps": 4, "batch_size": 8, "n_epochs": 1, "seed": 0}


@pytest.fixture(scope="module")
def cartpole():
    """Environments that several tests use; episodes are short, so that some end."""
    env = SB3Env("Cartpole", num_envs=4, seed=3, overrides=[*ONE_THREAD, "task.episode_length_s=0.1", "keepLast=null"])
    yield env
    env.close()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def player(model, env, simulation) -> Policy:
    """The policy that a player makes of a model."""
    spec = spec_of(simulation.env)
    described = describe(actor_of(model, env), spec)
    policy = Policy(spec, configuration(described, "a test"), 1, "cpu")
    policy.load(described.weights)
    return policy


def observations(simulation) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (10 ** rng.uniform(-3, 2) * rng.standard_normal((64, simulation.observation_space.shape[0]))).astype("f4")


# -- the environments


def test_an_ended_episode_has_its_last_observation_and_statistics(cartpole):
    cartpole.reset()
    length = cartpole.simulation.env.max_length
    for _ in range(length - 1):
        _, _, dones, infos = cartpole.step(np.zeros((4, 1), dtype=np.float32))
        assert not dones.any()
        assert infos == [{}] * 4
    obs, rewards, dones, infos = cartpole.step(np.zeros((4, 1), dtype=np.float32))
    assert dones.all()
    assert obs.dtype == rewards.dtype == np.float32
    for i, info in enumerate(infos):
        assert info["TimeLimit.truncated"]
        assert info["episode"]["l"] == length
        assert 0.9 * length < info["episode"]["r"] <= length
        assert not np.array_equal(info["terminal_observation"], obs[i])


def test_what_belongs_to_single_environments_is_refused(cartpole):
    assert cartpole.get_attr("render_mode") == [None] * 4
    assert cartpole.env_is_wrapped(VecNormalize, [0, 2]) == [False, False]
    with pytest.raises(NotImplementedError, match="gravity"):
        cartpole.set_attr("gravity", 1)
    with pytest.raises(NotImplementedError, match="seed_all"):
        cartpole.env_method("seed_all")


# -- the policy


@pytest.mark.parametrize("normalised", [False, True])
def test_a_box_policy_acts_as_predict_says(cartpole, normalised):
    env = VecNormalize(cartpole, clip_obs=2.0) if normalised else cartpole
    model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": [16, 8], "log_std_init": -1.0}, **SMALL)
    model.learn(64)
    obs = observations(cartpole.simulation)
    expected, _ = model.predict(env.normalize_obs(obs) if normalised else obs, deterministic=True)
    out = player(model, env, cartpole.simulation)(torch.as_tensor(obs))
    np.testing.assert_allclose(out.mode().clamp(-1, 1).numpy(), expected, atol=1e-5)
    torch.testing.assert_close(out.log_std[0], model.policy.log_std.detach())


def test_discrete_choices_are_those_of_predict():
    env = SB3Env("Territory", num_envs=2, seed=0)
    model = A2C("MlpPolicy", env, policy_kwargs={"activation_fn": torch.nn.ReLU}, seed=0)
    obs = observations(env.simulation)
    expected, _ = model.predict(obs, deterministic=True)
    np.testing.assert_array_equal(player(model, env, env.simulation)(torch.as_tensor(obs)).mode().numpy(), expected)
    env.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda env: SAC("MlpPolicy", env, buffer_size=16), "SAC with SACPolicy: .*Allowed: MlpPolicy of PPO, A2C"),
        (lambda env: PPO("MlpPolicy", env, use_sde=True, **SMALL), "use_sde=True"),
        (
            lambda env: PPO("MlpPolicy", env, policy_kwargs={"activation_fn": torch.nn.Hardtanh}, **SMALL),
            "the layer Hardtanh",
        ),
        (lambda env: PPO("MlpPolicy", VecFrameStack(env, 2), **SMALL), "the wrapper VecFrameStack: .*VecNormalize"),
    ],
    ids=["policy", "noise", "activation", "wrapper"],
)
def test_what_cannot_be_played_is_refused_before_anything_is_written(cartpole, here, make, message):
    with pytest.raises(UserError, match=message):
        make(cartpole).learn(16, callback=RecordRun())
    assert list(here.iterdir()) == []


def test_environments_of_others_are_refused(here):
    with pytest.raises(UserError, match=r"the environments are DummyVecEnv\. Allowed: livegym\.learners\.sb3\.SB3Env"):
        DQN("MlpPolicy", make_vec_env("CartPole-v1"), buffer_size=16).learn(1, callback=RecordRun())


# -- the run


def test_each_iteration_is_a_version_with_its_losses(cartpole, here, caplog):
    caplog.set_level(logging.INFO)
    model = PPO("MlpPolicy", VecNormalize(cartpole), **SMALL)
    callback = RecordRun()
    model.learn(3 * 16, callback=callback)
    assert callback.recorder is None
    (made,) = runs(here)
    state = newest_usable(open_run(made)).state
    assert (state["livegym"]["version"], state["frame"]) == (3, 48)
    assert state["config"]["train"]["learner"].startswith("Stable-Baselines3 ")
    assert state["config"]["train"]["clip_input"] == 10.0
    assert len(scalars(made / "summaries", "losses/value_loss")) == 3
    stats = model.get_vec_normalize_env().obs_rms
    np.testing.assert_allclose(state["model"]["mean"].numpy(), stats.mean)


def test_inside_a_with_block_all_calls_of_learn_are_one_run(cartpole, here):
    model = PPO("MlpPolicy", cartpole, **SMALL)
    with RecordRun() as record:
        model.learn(16, callback=record)
        model.learn(32, callback=record, reset_num_timesteps=False)
    (made,) = runs(here)
    assert newest_usable(open_run(made)).state["livegym"]["version"] == 3


def test_a_run_whose_training_failed_is_closed_by_the_next(cartpole, here):
    class Breaks(RecordRun):
        broken = False

        def _on_step(self) -> bool:
            if not self.broken and self.n_calls == 6:
                self.broken = True
                raise KeyboardInterrupt
            return True

    callback = Breaks()
    model = PPO("MlpPolicy", cartpole, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        model.learn(160, callback=callback)
    failed = callback.recorder.run
    assert lock_holder(failed) is not None
    model.learn(16, callback=callback)
    assert lock_holder(failed) is None
    assert len(runs(here)) == 2


def test_the_librarys_seed_is_that_of_the_environments(cartpole):
    def first(seed):
        PPO("MlpPolicy", cartpole, **{**SMALL, "seed": seed})
        assert cartpole.simulation.config.seed == seed
        return cartpole.reset()

    np.testing.assert_array_equal(first(5), first(5))
    assert not np.array_equal(first(5), first(6))


def test_a_training_that_a_callback_ends_early_is_whole(cartpole, here):
    class Stop(RecordRun):
        def _on_step(self) -> bool:
            return self.n_calls < 6  # in the second rollout

    PPO("MlpPolicy", cartpole, **SMALL).learn(160, callback=Stop())
    (made,) = runs(here)
    assert [entry.version for entry in list_checkpoints(made)] == [1]
