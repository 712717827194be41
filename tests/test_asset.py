"""A hand of your own: used where it has the names, refused with what it lacks where it has not."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import mujoco
import pytest
import torch

from livegym.cfg.compose import compose
from livegym.sim.model import compiled
from livegym.tasks.build import make_env
from livegym.tasks.hand.asset import OURS, hand_model
from livegym.utils.errors import UserError
from tests.processes import run


@pytest.fixture
def copy(tmp_path) -> Path:
    """A copy of our hand, in a folder whose name needs quoting."""
    folder = tmp_path / "my hands, all"
    shutil.copytree(OURS.parent, folder)
    return folder / OURS.name


def edited(path: Path, *changes: tuple[str, str]) -> str:
    """The hand after replacements in its body, as asset."""
    body = path.with_name("body.xml")
    text = body.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    body.write_text(text)
    return str(path)


def test_a_hand_of_your_own_takes_our_hands_place(copy, config):
    asset = edited(copy, ('<geom name="palm" type="box" size="0.046', '<geom name="palm" type="box" size="0.06'))
    c = config("task=BlindGrasping", "task.curriculum=null")
    task = dataclasses.replace(c.task, params=dataclasses.replace(c.task.params, asset=asset))
    env = make_env(task, c.sim, c.physics, 2, 0)
    size = env.sim.model_value("geom_size")[0, env.sim.geom_ids(["palm"])[0], 0]
    assert size.item() == pytest.approx(0.06)
    env.reset()
    assert torch.isfinite(env.step(env.zero_action()).reward).all()
    saved = mujoco.MjModel.from_xml_string(env.sim.model_xml())  # what is kept beside recorded states
    assert saved.nq == env.sim.qpos.shape[1]


def with_mesh(copy) -> str:
    """The hand with a mesh in a folder of its own, as asset."""
    corners, faces = ("0 0 0", ".05 0 0", "0 .05 0", "0 0 .01"), ("1 2 3", "1 2 4", "1 3 4", "2 3 4")
    lines = [*(f"v {corner}" for corner in corners), *(f"f {face}" for face in faces)]
    place = copy.parent / "assets" / "sub"
    place.mkdir(parents=True)
    (place / "palm.obj").write_text("\n".join(lines))
    head = '<compiler meshdir="assets"/><asset><mesh file="sub/palm.obj"/></asset>'
    copy.write_text(copy.read_text().replace("<worldbody>", f"{head}\n<worldbody>"))
    return edited(copy, ('<site name="palm"', '<geom type="mesh" mesh="palm" contype="0"/><site name="palm"'))


def test_a_mesh_of_it_is_found_where_the_model_says_by_the_task_and_by_all_who_draw_it(copy, config, monkeypatch):
    c = config("task=BaseTask")
    task = dataclasses.replace(c.task, params=dataclasses.replace(c.task.params, asset=with_mesh(copy)))
    env = make_env(task, c.sim, c.physics, 1, 0)
    assert env.sim.world.model.nmesh == 1
    monkeypatch.chdir("/")
    assert compiled(env.sim.model_xml()).nmesh == 1  # what window, page, video and recorded states are given


@pytest.mark.slow
def test_a_video_of_it_shows_its_mesh(copy, tmp_path):
    asset = f'asset="{with_mesh(copy)}"'
    small = ("task=BaseTask", "videoWidth=64", "videoHeight=48", "task.episode_length_s=0.2")
    done = run(tmp_path, "config=test_record", "agent=random", asset, *small, "testGamesNum=1")
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "runs").glob("*/videos/*.mp4")), done.stdout


def test_what_it_lacks_is_listed_by_kind(copy):
    asset = edited(copy, ('site name="grasp"', 'site name="middle_of_it"'), ('"ring_distal"', '"ring_end"'))
    with pytest.raises(UserError, match=r"asset=.*lacks bodies: ring_distal; sites: grasp\. The table.*docs/tasks.md"):
        hand_model(asset)
    actuators = copy.with_name("actuators.xml")
    actuators.write_text(actuators.read_text().replace('name="base_z"', 'name="lift"'))
    with pytest.raises(UserError, match="lacks actuators: base_z; bod"):
        hand_model(asset)


BASE_Z = '<position name="base_z" joint="base_z" class="slide"/>'
PIP, DIP = (f'<position name="thumb_{joint}" joint="thumb_{joint}" class="hand"/>' for joint in ("pip", "dip"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(BASE_Z, '<motor name="base_z" joint="base_z" ctrlrange="-1 1"/>')], "base_z must be a position actuator"),
        ([(BASE_Z, '<position name="base_z" joint="base_z" kp="9"/>')], "base_z has no control range"),
        (
            [(BASE_Z, '<position name="base_z" joint="base_z" ctrlrange="-9 9"/>')],
            "base_z has the range -9 to 9, but its joint",
        ),
        (
            [(PIP, PIP.replace('joint="thumb_pip"', 'joint="thumb_dip"'))],
            "thumb_pip must drive the joint of its own name",
        ),
    ],
)
def test_an_actuator_that_would_not_do_what_its_control_says_is_refused(copy, changes, message):
    actuators = copy.with_name("actuators.xml")
    for old, new in changes:
        assert old in actuators.read_text()
        actuators.write_text(actuators.read_text().replace(old, new))
    with pytest.raises(UserError, match=rf"asset=.*{message}"):
        hand_model(str(copy))


def test_joints_of_one_control_must_have_a_position_in_common(copy):
    body = copy.with_name("body.xml")
    for finger in ("index", "ring"):  # driven in opposite directions
        joint = f'<joint name="{finger}_spread" class="spread"'
        body.write_text(body.read_text().replace(joint, f'{joint} range="0.1 0.3"'))
    with pytest.raises(UserError, match="the joints that finger_spread drives have no position in common"):
        hand_model(str(copy))


def test_a_joint_must_be_a_hinge_or_a_slide(copy):
    joint = '<joint name="index_mcp" class="flex"/>'
    asset = edited(copy, (joint, '<joint name="index_mcp" type="ball"/>'))
    with pytest.raises(UserError, match=r"joint index_mcp must be a hinge or a slide|cannot compile"):
        hand_model(asset)


@pytest.mark.parametrize(
    ("text", "message"), [(None, "there is no such file"), ("<mujoco", "cannot read it"), ("", "cannot read it")]
)
def test_what_is_no_model_is_refused(tmp_path, text, message):
    path = tmp_path / "hand.xml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message):
        hand_model(str(path))


def test_on_the_command_line_it_is_a_path_from_where_one_types(copy, monkeypatch):
    monkeypatch.chdir(copy.parent)
    for typed in ("asset=hand.xml", f'asset="{copy}"', "task.params.asset=hand.xml"):
        assert compose(["task=BlindGrasping", typed]).task.params.asset == str(copy)
    assert compose(["task=BaseTask", "asset=null"]).task.params.asset is None
    with pytest.raises(UserError, match=r"asset=: no value given\. Allowed: the path of a file"):
        compose(["task=BaseTask", "asset="])
    with pytest.raises(UserError, match=r"^asset=hand.xml: there is no such key"):
        compose(["task=Ant", "asset=hand.xml"])
