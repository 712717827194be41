"""Policies of foreign tasks outside of livegym: exported, loaded, followed, and in the hands of other learners.

A policy is only a network, so that loading one runs no foreign code; environments do, and name the checkout.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import livegym
from livegym.projects import registry
from tests.isaac_toys import TOYS, needs_isaacgym
from tests.processes import run, runs

pytestmark = [needs_isaacgym, pytest.mark.slow]

HERE = f"projectDir={TOYS}"
LENGTH = 40  # control steps of every episode of Swing


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of Swing, two iterations long."""
    folder = tmp_path_factory.mktemp("swing")
    done = run(folder, "task=toys:Swing", HERE, "config=train_headless", "seed=1", "maxIterations=2")
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def _no_project():
    yield
    registry.use(None)


def observations() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


def test_an_exported_policy_acts_as_the_run_does(trained):
    pytest.importorskip("onnxruntime", reason="needs the extra export")
    file = trained / "swing.onnx"
    done = run(trained, "config=export", "checkpoint=latest", HERE, f"exportFile={file}")
    assert done.returncode == 0, done.stdout
    assert "takes obs; gives actions" in done.stdout
    assert "not inside: what the task's code, or its client, does with an action" in done.stdout
    ours, exported = livegym.load_policy(runs(trained)[0]), livegym.load_policy(file)
    np.testing.assert_allclose(exported(observations()), ours(observations()), rtol=0, atol=1e-5)
    assert np.abs(ours(observations())).max() > 1e-3
    assert registry.project_dir() is None  # a policy runs no foreign code


def test_what_cannot_be_exported_of_a_foreign_task_is_refused_by_name(trained):
    for wish in ("exportParts=controls", "exportParts=task", "exportModel=true"):
        done = run(trained, "config=export", "checkpoint=latest", HERE, wish, "exportFile=no.onnx")
        assert done.returncode == 2, done.stdout
        assert f"{wish}: task toys-Swing has no" in done.stdout
    done = run(trained, "config=export", "checkpoint=latest")
    assert done.returncode == 2
    assert "is foreign code of toys, which runs only if the command line names its folder" in done.stdout
    assert not (trained / "no.onnx").exists()


def test_a_run_of_a_foreign_task_is_followed(trained):
    with livegym.follow(runs(trained)[0], num_envs=5) as policy:
        np.testing.assert_array_equal(policy(observations()), livegym.load_policy(runs(trained)[0])(observations()))


@pytest.mark.usefixtures("_no_project")
def test_a_policy_plays_episodes_of_a_foreign_task_through_gymnasium(trained):
    """Episodes end by their time limit; the last observation is handed out, and the next episode has begun."""
    policy = livegym.load_policy(runs(trained)[0])
    envs = gymnasium.make_vec("livegym/Task-v0", num_envs=3, task="toys:Swing", project_dir=TOYS, seed=1)
    obs, _ = envs.reset()
    lengths = []
    for _ in range(2 * LENGTH + 2):
        obs, reward, terminated, truncated, infos = envs.step(policy(obs))
        assert np.isfinite(obs).all()
        assert np.isfinite(reward).all()
        if infos:
            assert truncated.all()
            assert not terminated.any()
            assert infos["final_info"]["reason"].tolist() == ["time_limit"] * 3
            assert all(last.shape == (3,) for last in infos["final_obs"])
            lengths += infos["final_info"]["length"].tolist()
    envs.close()
    assert lengths == [LENGTH] * 6


@pytest.mark.usefixtures("_no_project")
def test_stable_baselines3_trains_a_foreign_task_as_a_run_that_is_tested(tmp_path, monkeypatch):
    ppo = pytest.importorskip("stable_baselines3", reason="needs the extra sb3").PPO
    from livegym.learners.sb3 import RecordRun, SB3Env

    monkeypatch.chdir(tmp_path)
    env = SB3Env("toys:Swing", 4, seed=1, project_dir=TOYS)
    with RecordRun() as record:
        ppo("MlpPolicy", env, n_steps=8, batch_size=16, n_epochs=1, seed=1).learn(64, callback=record)
    env.close()
    done = run(tmp_path, "config=test", "checkpoint=latest", "testGamesNum=2", HERE)
    assert done.returncode == 0, done.stdout
    assert "ended by time_limit" in done.stdout


@pytest.mark.usefixtures("_no_project")
def test_rsl_rl_steps_a_foreign_task():
    pytest.importorskip("rsl_rl", reason="needs the extra rsl_rl")
    import torch

    from livegym.learners.rsl_rl import RslRlEnv

    env = RslRlEnv("toys:Swing", num_envs=4, seed=1, project_dir=TOYS)
    ended = [env.step(torch.zeros(4, 1)) for _ in range(LENGTH)][-1]
    env.close()
    assert ended[2].tolist() == [1] * 4
    assert ended[3]["time_outs"].tolist() == [True] * 4
