"""Foreign checkouts are found by their layout, without running their code; wrong names say what is there."""

from __future__ import annotations

import hashlib
import logging
import re
from pathlib import Path

import pytest

from livegym.cfg.compose import compose
from livegym.projects import record, registry
from livegym.projects.checkout import Checkout, checkout_in, spelt_out
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from tests.isaac_toys import GRIPPERS, TOYS, copied, fresh_modules, made, project, toys  # noqa: F401 - a fixture

LEGGED = """
from .robot.robot import Robot
from walkers.envs.robot.robot_config import RobotCfg, RobotCfgPPO
from walkers.utils.task_registry import task_registry
raise RuntimeError("imported")
task_registry.register("hound", Robot, RobotCfg(), RobotCfgPPO())
"""


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("task=isaacgymenvs:Ant", "task=isaacgymenvs-Ant"),
        ("task=legged_gym:a1", "task=legged_gym-a1"),
        ("task=toys:Swing,toys:Crawl,Ant", "task=toys-Swing,toys-Crawl,Ant"),
        ("task=Ant", "task=Ant"),
        ("checkpoint=a:b", "checkpoint=a:b"),
        ("task", "task"),
    ],
)
def test_a_task_is_typed_with_its_source(typed, meant):
    assert spelt_out(typed) == meant


def test_the_layout_of_isaacgymenvs_is_found_from_both_folders():
    for folder in (TOYS, TOYS / "toys"):
        found = checkout_in(str(folder), "projectDir")
        assert found is not None
        assert found.tasks == {"toys-Crawl": "Crawl", "toys-Swing": "Swing", "toys-SwingSlow": "SwingSlow"}
        assert found.code("Crawl").attribute == "Crawler"  # by the table of tasks/__init__.py
        assert found.code("SwingSlow").module == "toys.tasks.swing"  # by the name in the yaml that it extends


def test_the_layout_of_legged_gym_is_found_without_imports(tmp_path):
    robot = tmp_path / "walkers" / "envs" / "robot" / "robot.py"
    robot.parent.mkdir(parents=True)
    robot.write_text("class Robot: ...\n")
    (tmp_path / "walkers" / "envs" / "__init__.py").write_text(LEGGED)
    found = checkout_in(str(tmp_path), "projectDir")
    assert found is not None
    assert found.tasks == {"walkers-hound": "hound"}
    assert found.code("hound").file == robot
    assert found.described("walkers-hound") == {
        "walkers/envs/robot/robot.py": hashlib.sha256(robot.read_bytes()).hexdigest()
    }


def test_a_project_of_livegyms_own_layout_is_no_checkout(tmp_path):
    (tmp_path / "cfg" / "task").mkdir(parents=True)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "cfg" / "task" / "Mine.yaml").write_text("name: Mine\nnum_envs: 3\n")
    assert checkout_in(str(tmp_path), "projectDir") is None
    assert checkout_in(str(tmp_path / "absent"), "projectDir") is None


def test_two_packages_in_one_folder_are_refused(tmp_path):
    both = copied(tmp_path)
    (both / "toys").rename(both / "one")
    copied(tmp_path / "again")
    (tmp_path / "again" / "isaac_project" / "toys").rename(both / "two")
    with pytest.raises(UserError, match=r"holds several packages of Isaac Gym tasks. Allowed: one of .*one, .*two"):
        checkout_in(str(both), "projectDir=both")


def test_a_folder_without_tasks_says_what_is_missing(tmp_path):
    with pytest.raises(UserError, match=r"there is no .*cfg.*checkout of Isaac Gym tasks has a package with cfg/task"):
        registry.use(str(tmp_path))


@pytest.mark.usefixtures("toys")
def test_an_unknown_task_lists_those_of_the_checkout_and_the_nearest():
    with pytest.raises(UserError) as error:
        compose(["task=toys:Swng"])
    assert "task=toys:Swng: unknown. Allowed: toys:Crawl, toys:Swing, toys:SwingSlow." in str(error.value)
    assert "Did you mean toys:Swing?" in str(error.value)


def test_without_projectdir_the_error_says_what_to_name():
    with pytest.raises(UserError, match=r"task=toys:Swing: there is no toys here.*projectDir=<folder>"):
        compose(["task=toys:Swing"])


@pytest.mark.usefixtures("toys")
def test_another_source_than_the_checkouts_is_told_which_it_has():
    with pytest.raises(
        UserError, match=r"there is no joys here\. The tasks of .* have the source toys\. Allowed: toys:Cr"
    ):
        compose(["task=joys:Swing"])


def test_a_folder_that_cannot_be_a_source_is_told_so(tmp_path):
    folder = copied(tmp_path, GRIPPERS)
    named = folder.rename(tmp_path / "isaac_grippers-main")
    with project(named), pytest.raises(UserError) as error:
        compose(["task=isaac_grippers:Pinch"])
    assert "have the source grippers, because the folder's name, isaac_grippers-main, has characters" in str(
        error.value
    )
    assert "rename the folder, or type that source. Allowed: grippers:Pinch. Did you mean grippers:Pinch?" in str(
        error.value
    )


@pytest.mark.usefixtures("toys")
def test_names_do_not_run_foreign_code():
    assert {"toys-Swing", "Ant"} <= set(registry.names("tasks"))
    assert "toys-Swing" in TASKS
    assert isinstance(registry.project_in_use(), Checkout)


def test_tasks_whose_physics_would_be_meaningless_are_refused(tmp_path):
    folder = copied(tmp_path)
    yaml = folder / "toys" / "cfg" / "task" / "Swing.yaml"
    (yaml.parent / "FactoryTaskGears.yaml").write_text(
        yaml.read_text().replace("name: Swing", "name: FactoryTaskGears")
    )
    with project(folder), pytest.raises(UserError, match="with convex hulls, but their physics is meaningless"):
        compose(["task=toys:FactoryTaskGears"])


def test_a_task_that_no_module_defines_says_where_it_was_searched(tmp_path):
    folder = copied(tmp_path)
    yaml = folder / "toys" / "cfg" / "task" / "Swing.yaml"
    (yaml.parent / "Jump.yaml").write_text(yaml.read_text().replace("name: Swing", "name: Jump"))
    found = checkout_in(str(folder), "projectDir")
    with pytest.raises(UserError, match=r"no module in .*tasks has a class Jump"):
        found.code("Jump")


CHOOSES = """

def choose(cfg, *args, **kwargs):
    kinds = dict(swing=Swing, crawl=Crawler)
    return kinds[cfg["env"]["subtask"]](cfg, *args, **kwargs)


MORE = {"Choice": choose}
"""


def test_a_function_may_choose_the_class_by_the_configuration(tmp_path, caplog):
    """As AllegroKuka's. The rest of its file does not run: it imports a library that is not there."""
    folder = copied(tmp_path)
    initial = folder / "toys" / "tasks" / "__init__.py"
    initial.write_text(initial.read_text() + CHOOSES)
    yaml = folder / "toys" / "cfg" / "task" / "Swing.yaml"
    text = yaml.read_text().replace("name: Swing", "name: Choice").replace("env:\n", "env:\n  subtask: swing\n", 1)
    (yaml.parent / "Choice.yaml").write_text(text)
    caplog.set_level(logging.INFO)
    with fresh_modules("toys"), project(folder):
        env = made(task="toys:Choice", num_envs=2)
        assert type(env._loaded.env).__name__ == "Swing"
        digest = hashlib.sha256(initial.read_bytes()).hexdigest()
        assert f"running foreign code: {initial}, SHA-256 {digest}" in caplog.text
        assert record.record("toys-Choice")["files"]["toys/tasks/__init__.py"] == digest
        with pytest.raises(UserError, match="KeyError: 'fly'"):
            made("task.params.env.subtask=fly", task="toys:Choice", num_envs=2)


MATHS = """
import os.path
import numpy as np
import torch.nn as nn
from . import swing
from .swing import Swing as Pendulum


def choose(cfg, *args, **kwargs):
    kind = {module.__name__: Pendulum for module in (np, nn, os.path, swing)}["torch.nn"]
    return kind(cfg, *args, **kwargs)
"""
READABLE = """
from typing import TYPE_CHECKING

try:
    from .swing import Swing
except ImportError:
    from .crawler import Crawler as Swing

if TYPE_CHECKING:
    from omegaconf import DictConfig


def choose(cfg: DictConfig, *args: object, **kwargs) -> BaseTask:
    kind: type[BaseTask] = Swing
    return kind(cfg, *args, **kwargs)
"""
NEEDS_MORE = """
from .swing import Swing

KINDS = {"swing": Swing}


def choose(cfg, *args, **kwargs):
    return KINDS[cfg["env"]["subtask"]](cfg, *args, **kwargs)
"""


def with_tasks(folder: Path, file: str, content: str, name: str) -> Path:
    """A copy of the toys with a file in `tasks`, and a task of that name in the manner of Swing."""
    folder = copied(folder)
    place = folder / "toys" / "tasks" / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(content)
    yaml = folder / "toys" / "cfg" / "task" / "Swing.yaml"
    text = yaml.read_text().replace("name: Swing", f"name: {name}").replace("env:\n", "env:\n  subtask: swing\n", 1)
    (yaml.parent / f"{name}.yaml").write_text(text)
    return folder


def test_a_function_that_chooses_sees_all_kinds_of_imports(tmp_path):
    folder = with_tasks(tmp_path, "__init__.py", MATHS, "choose")
    with fresh_modules("toys"), project(folder):
        assert type(made(task="toys:choose", num_envs=2)._loaded.env).__name__ == "Swing"


def test_a_function_that_needs_more_than_imports_says_what(tmp_path):
    folder = with_tasks(tmp_path, "__init__.py", NEEDS_MORE, "choose")
    said = r"tasks/__init__\.py: the function choose needs KINDS, which this file"
    with fresh_modules("toys"), project(folder), pytest.raises(UserError, match=said):
        made(task="toys:choose", num_envs=2)


def test_a_function_that_chooses_does_not_need_the_names_of_its_annotations(tmp_path):
    folder = with_tasks(tmp_path, "__init__.py", READABLE, "choose")
    with fresh_modules("toys"), project(folder):
        assert type(made(task="toys:choose", num_envs=2)._loaded.env).__name__ == "Swing"


@pytest.mark.parametrize(("file", "dots"), [("__init__.py", "."), ("more/__init__.py", "..")])
def test_a_class_may_be_in_the_init_of_a_package(tmp_path, file, dots):
    content = f"from {dots}swing import Swing\n\n\nclass Other(Swing):\n    pass\n"
    folder = with_tasks(tmp_path, file, content, "Other")
    with fresh_modules("toys"), project(folder):
        assert type(made(task="toys:Other", num_envs=2)._loaded.env).__name__ == "Other"


def test_a_class_may_be_imported_under_another_name(tmp_path):
    content = 'from .swing import Swing as Pendulum\n\nTASKS = {"Other": Pendulum}\n'
    found = checkout_in(str(with_tasks(tmp_path, "__init__.py", content, "Other")), "projectDir")
    assert (found.code("Other").module, found.code("Other").attribute) == ("toys.tasks.swing", "Swing")


def test_a_changed_file_is_a_warning_that_names_both_hashes(tmp_path, caplog):
    folder = copied(tmp_path)
    with project(folder):
        before = record.record("toys-Swing")
        file = folder / "toys" / "tasks" / "swing.py"
        file.write_text(file.read_text() + "# changed\n")
        record.remember_change("toys-Swing", before)
        now = record.record("toys-Swing")
    name = "toys/tasks/swing.py"
    assert before["files"][name] != now["files"][name]
    assert re.search(f"{name} has changed.*{before['files'][name]}.*{now['files'][name]}", caplog.text)
    assert caplog.records[-1].levelname == "WARNING"


def test_a_run_of_foreign_code_never_loads_it_by_itself():
    with pytest.raises(UserError, match="is foreign code of toys"):
        raise record.no_such_task("toys-Swing", {"name": "toys", "files": {"toys/tasks/swing.py": "0"}})
    with pytest.raises(UserError, match="runs only if the command line names its folder"):
        raise record.no_such_task("toys-Swing", {"name": "toys", "files": {}})
