"""A task of which something is missing: the error says what, and where to put it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from livegym.cfg.compose import compose
from livegym.projects import new, registry
from livegym.tasks import TASKS
from livegym.utils.errors import UserError


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project of one's own with a task Mine, in use until the test ends."""
    monkeypatch.chdir(tmp_path)
    folder = new.new_project("mine")
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry.use(str(folder))
    yield folder
    registry.use(None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]  # or the next test's project of this name would be another one


def test_a_yaml_without_a_module(project):
    (project / "tasks" / "mine.py").unlink()
    with pytest.raises(UserError, match=r"Mine\.yaml is there, but .*tasks has not .*class Mine in mine\.py"):
        compose(["task=Mine"])


def test_a_module_without_a_yaml(project):
    (project / "cfg" / "task" / "Mine.yaml").unlink()
    registry.use(str(project))
    with pytest.raises(UserError, match=r"task=Mine: there is mine\.tasks\.mine, but no .*cfg/task/Mine\.yaml"):
        compose(["task=Mine"])


def test_a_module_without_the_class(project):
    (project / "tasks" / "mine.py").write_text("class Other: ...\n")
    with pytest.raises(UserError, match=r"task=Mine: mine\.tasks\.mine:Mine of .* cannot be loaded .AttributeError"):
        compose(["task=Mine"])


def test_code_that_fails_is_told_with_its_traceback(project):
    (project / "tasks" / "mine.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=r"(?s)mine\.py.*line 1.*task=Mine: .*ZeroDivisionError: division by zero"):
        compose(["task=Mine"])
    assert compose(["task=Ant"]).task.name == "Ant"  # the others go on


def test_a_copied_yaml_that_still_has_the_other_name(project):
    file = project / "cfg" / "task" / "Mine.yaml"
    file.write_text(file.read_text().replace("name: Mine", "name: Slider"))
    with pytest.raises(UserError, match=r"Mine\.yaml says name: Slider.*write name: Mine"):
        compose(["task=Mine"])


def test_a_task_without_learner_settings(project):
    (project / "cfg" / "train" / "MinePPO.yaml").unlink()
    with pytest.raises(UserError, match=r"MinePPO"):
        compose(["task=Mine"])


def test_a_whole_one_is_there_like_ours(project):
    assert compose(["task=Mine"]).task.name == "Mine"
    assert TASKS["Mine"].__module__ == "mine.tasks.mine"
