"""docs/new-task.md, followed literally: its files are those of `livegym new`, its commands are run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mujoco
import pytest

from livegym.projects.new import TEMPLATE
from livegym.schema import PhysicsConfig
from livegym.sim.model import MjcfModel
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "new-task.md").read_text()
FILES = re.findall(r"`([\w/]+\.(?:py|xml|yaml))`[^\n]*(?:\n[^`\n]+)*\n\n```\w+\n(.*?)```", TEXT, re.S)
COMMANDS = [line.split("  #")[0].split() for line in TEXT.split("```text\n")[1].split("```")[0].splitlines()]


def test_the_page_shows_the_files_that_a_new_project_has():
    assert sorted(name for name, _ in FILES) == [
        "cfg/task/Slider.yaml",
        "cfg/train/SliderPPO.yaml",
        "tasks/models/slider.xml",
        "tasks/slider.py",
    ]
    for name, text in FILES:
        assert (TEMPLATE / name).read_text() == text, name


CART = """<robot name="cart">
<link name="base"><inertial><mass value="2"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><box size="1 1 1"/></geometry></visual>
<collision><geometry><mesh filename="meshes/hull.obj"/></geometry></collision></link>
<link name="wheel"><inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><cylinder radius=".1" length=".05"/></geometry></collision></link>
<joint name="axle" type="continuous"><parent link="base"/><child link="wheel"/><origin xyz="0 .15 0" rpy="1.57 0 0"/>
<axis xyz="0 0 1"/><limit effort="3" velocity="1"/></joint></robot>"""
HULL = "v 0 0 0\nv .5 0 0\nv 0 .5 0\nv 0 0 .1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"


def block(section: str) -> str:
    """The first block of code in a section of the page."""
    return re.search(r"```\w+\n(.*?)```", TEXT.partition(f"## {section}\n")[2], re.S)[1]


def test_a_urdf_is_attached_to_the_world_that_the_page_shows(tmp_path):
    (tmp_path / "world.xml").write_text(block("A robot in URDF"))
    (tmp_path / "cart.urdf").write_text(CART)
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "hull.obj").write_text(HULL)
    made = MjcfModel(tmp_path / "world.xml", PhysicsConfig(), 1, {"urdf": tmp_path / "cart.urdf"})
    model = made.model
    assert made.names("body") == ["world", "robot", "base", "wheel"]
    assert (model.nq, model.nv, model.nu) == (8, 7, 1)
    assert model.body_mass.sum() == pytest.approx(3.0)
    shapes = [mujoco.mjtGeom(kind).name for kind in model.geom_type]
    assert shapes == ["mjGEOM_PLANE", "mjGEOM_MESH", "mjGEOM_CYLINDER"]  # the visual box is not among them
    assert model.jnt_actfrcrange[1].tolist() == [-3, 3]  # effort


def test_the_environments_are_used_from_python_as_shown(capsys):
    exec(block("Environments from Python"), {})
    assert capsys.readouterr().out.startswith("torch.Size([16, 4]) tensor(")


@pytest.mark.slow
def test_whoever_follows_it_has_a_task_that_learns(tmp_path):
    here = tmp_path
    for program, *arguments in COMMANDS:
        if program == "cd":
            here = here / arguments[0]
            continue
        command = [sys.executable, *([str(ROOT / "train.py")] if program == "livegym" else []), *arguments]
        env = {"PYTHONPATH": str(ROOT)} if program == "python" else {}  # there livegym is installed
        done = subprocess.run(
            command, cwd=here, env={**os.environ, **env}, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
    tested = max(here.glob("runs/Slider_test_*/results.json"), key=lambda file: file.stat().st_mtime)
    assert json.loads(tested.read_text())["success_rate"] > 0.9
