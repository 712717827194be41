"""Checkpoints that rl_games itself wrote: tested with their task named, also compiled ones and from a GPU."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from rl_games.algos_torch import torch_ext

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.rl.algorithms.ppo.adapter import RlGamesEnv
from livegym.rl.algorithms.ppo.params import learner_params
from livegym.rundir.checkpoint import read_checkpoint
from livegym.tasks.build import make_env
from tests.processes import results, run


@pytest.fixture(scope="module")
def written_by_rl_games(tmp_path_factory) -> Path:
    """Two iterations of rl_games' own Runner, agent, training loop and save; no code of ours but the environment."""
    from rl_games.torch_runner import Runner  # it imports torch's compiler, which takes seconds

    cwd = tmp_path_factory.mktemp("library")
    c = to_typed(compose(["task=Cartpole"]))
    env = RlGamesEnv(make_env(c.task, c.sim, c.physics, 16, 0), "cpu")
    shaper = {"scale_value": 0.1}
    params = learner_params(c.train, env, scratch=cwd, max_iterations=2, device="cpu", shaper=shaper)
    params["config"].update(
        torch_compile=False, save_frequency=1, save_best_after=0, lr_schedule=None, learning_rate=1e-3
    )
    with contextlib.redirect_stdout(io.StringIO()):
        runner = Runner()
        runner.load_config({**params, "seed": 1})
        runner.run_train({"train": True})
    return next((cwd / "library" / "nn").glob("last_Cartpole_ep_2*.pth"))


def moved(path: Path, to: Path, prefix: str = "", cuda: bool = False) -> Path:
    """A copy as rl_games leaves it with a compiled network (`prefix`), or as a GPU run leaves it (`cuda`)."""
    state = torch_ext.safe_load(str(path))
    state["model"] = {f"{prefix}{name}": value for name, value in state["model"].items()}
    torch.save(state, to)
    if not cuda:
        return to
    tagged = to.with_name("cuda.pth")
    with zipfile.ZipFile(to) as old, zipfile.ZipFile(tagged, "w", zipfile.ZIP_STORED) as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename.endswith("data.pkl"):
                assert data.count(b"X\x03\x00\x00\x00cpu") == 1  # the location of every tensor, memoised
                data = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
            new.writestr(item, data)
    return tagged


def test_the_files_have_what_makes_them_hard(written_by_rl_games):
    state = torch_ext.safe_load(str(written_by_rl_games))
    assert isinstance(state["last_mean_rewards"], np.generic)  # weights_only refuses this without an allow-list


@pytest.mark.parametrize(
    "change", [{}, {"prefix": "_orig_mod."}, {"cuda": True}, {"prefix": "_orig_mod.", "cuda": True}]
)
def test_they_are_read(written_by_rl_games, tmp_path, change):
    original = torch_ext.safe_load(str(written_by_rl_games))["model"]
    state = read_checkpoint(moved(written_by_rl_games, tmp_path / "copy.pth", **change))
    assert set(state["model"]) == set(original)
    assert all(torch.equal(state["model"][name], value) for name, value in original.items())


@pytest.mark.slow
def test_they_are_played_where_their_task_is_named(written_by_rl_games, tmp_path):
    moved(written_by_rl_games, tmp_path / "theirs.pth", prefix="_orig_mod.")
    done = run(tmp_path, "config=test", "checkpoint=theirs.pth", "testGamesNum=3", "task=Cartpole")
    assert done.returncode == 0, done.stdout
    assert results(tmp_path)["episode_count"] == 3
    nameless = run(tmp_path, "config=test", "checkpoint=theirs.pth", "testGamesNum=3")
    assert nameless.returncode == 2
    assert "task=<Task>" in nameless.stdout
    wrong = run(tmp_path, "config=test", "checkpoint=theirs.pth", "testGamesNum=3", "task=Ant")
    assert wrong.returncode == 2
    assert "does not fit" in wrong.stdout
