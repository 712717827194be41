"""docs/your-robot.md and docs/domain-randomisation.md, followed literally, with a robot from outside."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from livegym.cfg.compose import compose
from livegym.cfg.compose import prepare as prepare_arguments
from livegym.cfg.typed import to_typed
from livegym.projects.new import new_project
from livegym.robots import pose as poses
from livegym.robots.project import prepare, writer
from livegym.robots.read import read
from livegym.schema import DriveConfig, RandomizationConfig
from livegym.tasks.build import make_env
from livegym.tasks.randomization_terms import check
from livegym.utils.errors import UserError
from tests.patience import PATIENCE_S
from tests.robot_files import write_cad, write_crawler, write_table

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "your-robot.md").read_text()
COMMANDS = [line.split("  #")[0].strip() for line in TEXT.split("```text\n")[1].split("```")[0].splitlines()]
SHARE_THAT_STANDS = 0.8


def followed(folder: Path, file: str) -> Path:
    """Runs the page's commands, as they are printed, with the robot in a file. Returns the project."""
    here = folder
    for command in COMMANDS:
        program, *arguments = shlex.split(re.sub(r'"\$\(.*\)"', shlex.quote(file), command))
        if program == "pip":
            continue
        if program == "cd":
            here = here / arguments[0]
            continue
        started = [sys.executable, *([str(ROOT / "train.py")] if program == "livegym" else [])]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}  # there livegym is installed
        done = subprocess.run(
            [*started, *arguments], cwd=here, env=env, capture_output=True, text=True, timeout=6 * PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return here


@pytest.mark.slow
@pytest.mark.full
def test_the_page_is_followed_with_a_robot_from_outside(tmp_path):
    upkie = pytest.importorskip("upkie_description", reason="needs the extra dev")
    project = followed(tmp_path, str(upkie.URDF_PATH))
    assert "A URDF with" in (project / "ROBOT.md").read_text()
    tested = max(project.glob("runs/MyUpkie_test_*/results.json"), key=lambda path: path.stat().st_mtime)
    ends = [episode["reason"] for episode in json.loads(tested.read_text())["episodes"]]
    assert len(ends) >= 50
    assert ends.count("time_limit") > SHARE_THAT_STANDS * len(ends)


def made_project(tmp_path, monkeypatch, write) -> Path:
    """The project of a robot, with fewer candidates for its pose than otherwise."""
    monkeypatch.setattr(poses, "CANDIDATES", 300)
    monkeypatch.setattr(poses, "TRIALS", 4)
    (tmp_path / "source").mkdir()
    prepared = prepare(read(write(tmp_path / "source")))
    return new_project(str(tmp_path / "my_robot"), write=writer(prepared))


def in_project(folder: Path, script: str) -> None:
    """Runs Python with a project's task, in a process of its own: projects are global to a process."""
    head = "import torch; from livegym.contract import CHECKS, environments, tasks_in\n"
    script = f"{head}(task,) = tasks_in({str(folder)!r})\n{script}"
    tmp_path = folder.parent
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_table, write_crawler, write_cad])
def test_without_a_policy_the_motors_hold_the_default_pose(tmp_path, monkeypatch, write):
    in_project(
        made_project(tmp_path, monkeypatch, write),
        "env = environments(task, randomization={}, noise={}); env.reset(); up = []\n"
        "for _ in range(100): up.append(env.step(env.zero_action()).terminated)\n"
        "assert not torch.stack(up).any(), 'it fell'\n"
        "assert (env.task.reward(env.sim, env.zero_action())['upright'] > 0.95).all(); env.sim.close()\n",
    )


@pytest.mark.slow
@pytest.mark.full
def test_the_task_of_a_robot_keeps_the_contract(tmp_path, monkeypatch):
    in_project(made_project(tmp_path, monkeypatch, write_table), "for check in CHECKS: check(task)\n")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def test_the_motors_of_the_page_are_valid():
    (entry,) = yaml.safe_load(blocks(TEXT, "yaml")[0])["drives"].values()
    assert DriveConfig(**entry).stiffness == 40


def test_the_python_of_the_page_prints_what_it_says(capsys):
    for block in blocks(TEXT, "python"):
        torch.set_printoptions(precision=4)
        exec(block, {})
        said = [line for line in capsys.readouterr().out.splitlines() if line]
        expected = re.findall(r"#.*?(tensor\(.*\))$", block, re.M)
        assert said == expected


def test_the_randomisation_of_the_page_is_valid():
    """Each entry of the yaml by itself: no task has all of these names."""
    text = (ROOT / "docs" / "domain-randomisation.md").read_text()
    given = yaml.safe_load(blocks(text, "yaml")[0])
    for name, entry in given["randomization"].items():
        check(f"task.randomization.{name}", RandomizationConfig(**entry))


def test_motors_are_typed_on_the_command_line():
    drives = "task.drives.push={joints: [slider], stiffness: 100, damping: 10, delay_s: 0.01}"
    config = to_typed(compose(["task=Cartpole", drives]))
    assert isinstance(config.task.drives["push"], DriveConfig)
    env = make_env(config.task, config.sim, config.physics, 2, 0)
    env.reset()
    assert not env.step(env.zero_action()).terminated.any()
    env.sim.close()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("task.drives.hip.stiffness=60", "the task's drives has no hip. Allowed: none."),
        ("task.drives.hip=null", "an entry cannot be null"),
        ("task.drives.hip={joints: [slider], stiffness: -1, damping: 1}", "stiffness"),
        ("task.drives.hip={joints: [slider], stifness: 1, damping: 1}", "stifness"),
    ],
)
def test_motors_that_cannot_be_are_refused(typed, words):
    with pytest.raises(UserError, match=re.escape(words)):
        prepare_arguments(["task=Cartpole", typed])


def test_the_package_of_the_page_is_one_that_the_tests_install():
    assert '"upkie_description"' in (ROOT / "setup.py").read_text()
    assert COMMANDS[0] == "pip install upkie_description"
