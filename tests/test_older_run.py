"""A run and its task after the task was changed: what is new is named, with the command that goes on."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import torch

from livegym.cfg.compose import prepare
from livegym.cfg.older_run import explained_for_run
from livegym.projects import new
from livegym.tasks.build import make_env
from livegym.tasks.terms import NameMismatch
from livegym.utils.errors import UserError
from tests.checkpoint_samples import new_run
from tests.dummy import counting_env
from tests.processes import TRAIN, results, run, runs

TYPED = ["config=test", "checkpoint=latest"]


def changed(config, section: str, **names: object):
    """The configuration of a Cartpole run to which `names` were added; None removes one."""
    task = config("task=Cartpole").task
    part = getattr(task, section)
    for name, value in names.items():
        part.pop(name) if value is None else part.update({name: value})
    return task


def explanation(config, task, file: Path | None = None) -> str:
    c = config("task=Cartpole")
    with pytest.raises(UserError) as error, explained_for_run(file, task, TYPED):
        make_env(task, c.sim, c.physics, 2, 0)
    return str(error.value)


def test_a_mismatch_names_the_yaml_of_the_task(config):
    c = config("task=Cartpole")
    with pytest.raises(NameMismatch, match=r"'fell' is in the task, but not in /.*/cfg/task/Cartpole\.yaml"):
        make_env(changed(config, "rewards", fell=None), c.sim, c.physics, 2, 0)


def test_new_terms_are_named_with_the_command_that_uses_the_run_all_the_same(config, tmp_path):
    older = new_run(tmp_path, "20260101_000000", task="Cartpole", versions=(1,))
    older.config_file.write_text("")
    file = older.nn / "Cartpole_v1_ep1.pth"
    text = explanation(config, changed(config, "rewards", fell=None, upright=None), file)
    assert f"is in the task, but not in this run's configuration ({older.config_file})" in text
    assert "config=test checkpoint=latest task.rewards.upright=0 task.rewards.fell=0\n" in text
    text = explanation(config, changed(config, "terminations", fell=None), file)
    assert "config=test checkpoint=latest task.terminations.fell=false\n" in text
    task = config("task=Cartpole").task
    task.observations.policy.remove("pole_angle")
    assert "'task.observations.unused=[pole_angle]'\n" in explanation(config, task, file)


def test_a_term_that_the_task_no_longer_has_cannot_be_computed(config, tmp_path):
    text = explanation(config, changed(config, "rewards", speed=1.0), tmp_path / "x.pth")
    assert f"'speed' is in this run's configuration ({tmp_path / 'x.pth'}), but no longer in the task" in text
    assert f"config=train_headless task=Cartpole checkpoint={tmp_path / 'x.pth'}" in text
    task = config("task=Cartpole").task
    task.observations.policy.append("smell")
    assert explanation(config, task, tmp_path / "x.pth").endswith("task=Cartpole")  # these weights would not fit


def test_without_a_task_that_of_the_checkpoint_decides_about_task_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_run(tmp_path / "runs", "20260101_000000", versions=(1,))  # of Ant
    for typed in (TYPED, ["resume=true", "checkpoint=latest"]):
        prepared = prepare([*typed, "task.rewards.forward=0"])
        assert prepared.samples[0].task.name == "Ant"
        assert "task=Ant" not in prepared.typed.values()
        with pytest.raises(UserError, match=r"Allowed in task\.rewards: .*forward"):
            prepare([*typed, "task.rewards.upright=0"])
    with pytest.raises(UserError, match=r"This is about task=Cartpole, the default"):
        prepare(["checkpoint=latest", "task.rewards.forward=0"])  # a new run, of the default task
    with pytest.raises(UserError, match=r"Allowed in task\.rewards: .*upright"):
        prepare([*TYPED, "task=Cartpole", "task.rewards.forward=0"])


def test_a_state_with_other_reward_terms_is_refused_before_anything_changes():
    env = counting_env(num_envs=2)
    env.reset()
    state = env.state_dict()
    state["episode_terms"] = torch.ones(2, state["episode_terms"].shape[1] + 1)
    before = env.episode_length.clone()
    state["episode_length"] = before + 1
    with pytest.raises(ValueError, match="reward terms"):
        env.load_state_dict(state)
    assert torch.equal(env.episode_length, before)


@pytest.mark.slow
def test_whoever_adds_a_reward_term_can_test_and_resume_the_older_run(tmp_path):
    folder = new.new_project(str(tmp_path / "mine"))
    assert run(folder, "task=Mine", "numEnvs=16", "maxIterations=2").returncode == 0
    module, settings = folder / "tasks" / "mine.py", folder / "cfg" / "task" / "Mine.yaml"
    module.write_text(
        module.read_text().replace('"effort":', '"speed": state.qvel[:, 0].abs(),\n            "effort":')
    )
    settings.write_text(settings.read_text().replace("  effort:", "  speed: -0.1\n  effort:"))
    for typed in (["config=test", "checkpoint=latest", "testGamesNum=2"], ["resume=true", "checkpoint=latest"]):
        refused = run(folder, *typed)
        assert refused.returncode == 2, refused.stdout
        (line,) = [line for line in refused.stdout.splitlines() if "To use the run nevertheless: " in line]
        python, script, *arguments = shlex.split(line.partition("nevertheless: ")[2])
        assert (python, script) == ("python", str(TRAIN))
        used = run(folder, *arguments, *(["maxIterations=3"] if "resume=true" in typed else []))
        assert used.returncode == 0, used.stdout
    assert len(results(folder)["episodes"]) == 2
    assert len(runs(folder)) == 1
