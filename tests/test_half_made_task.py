"""A new task with a step forgotten: the message names the step."""

from __future__ import annotations

import shutil

import pytest

from livegym import tasks
from livegym.cfg import groups
from livegym.cfg.compose import compose
from livegym.utils.errors import UserError


@pytest.fixture
def slider_yaml():
    """A copy of Cartpole's yaml as cfg/task/Slider.yaml, where `task=` looks for it."""
    file = groups.CFG_DIR / "task" / "Slider.yaml"
    shutil.copy(groups.CFG_DIR / "task" / "Cartpole.yaml", file)
    yield file
    file.unlink()


def test_a_yaml_without_a_line_in_the_table(slider_yaml):
    with pytest.raises(UserError, match=r"tasks/__init__.py has no Slider"):
        compose(["task=Slider"])


def test_a_line_in_the_table_without_a_yaml(monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "Slider", tasks.TASKS["Cartpole"])
    with pytest.raises(UserError, match=r"no .*Slider.yaml"):
        compose(["task=Slider"])


def test_a_copied_yaml_that_still_has_the_other_name(slider_yaml, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "Slider", tasks.TASKS["Cartpole"])
    with pytest.raises(UserError, match="write name: Slider"):
        compose(["task=Slider"])


def test_a_task_without_learner_settings(slider_yaml, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "Slider", tasks.TASKS["Cartpole"])
    slider_yaml.write_text(slider_yaml.read_text().replace("name: Cartpole", "name: Slider"))
    with pytest.raises(UserError, match="SliderPPO"):
        compose(["task=Slider"])
