"""A robot of your own: what is read from URDF and MJCF, what is added and reported, and the project that is written."""

from __future__ import annotations

import re
import shutil

import mujoco
import numpy as np
import pytest
import yaml

from livegym.projects.new import new_project
from livegym.robots import command, odd
from livegym.robots import pose as poses
from livegym.robots.motors import choose
from livegym.robots.project import prepare, writer
from livegym.robots.read import read
from livegym.robots.robot import Limit
from livegym.utils.errors import UserError
from tests.robot_files import CRAWLER, TABLE, write_crawler, write_table


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    """As many poses as a test needs."""
    monkeypatch.setattr(poses, "CANDIDATES", 300)
    monkeypatch.setattr(poses, "TRIALS", 4)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The table, prepared once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poses, "CANDIDATES", 300)
        patch.setattr(poses, "TRIALS", 4)
        return prepare(read(write_table(tmp_path_factory.mktemp("table"))))


def test_a_urdf_floats_on_a_floor_with_its_names_in_the_order_of_the_file(table):
    model = table.model
    joints = [model.joint(i).name for i in range(model.njnt)]
    assert joints[:4] == ["floating_base", "rear_left_hip", "rear_left_knee", "rear_right_hip"]  # not alphabetical
    assert [model.body(i).name for i in range(3)] == ["world", "body", "imu"]
    assert model.geom("floor").type[0] == mujoco.mjtGeom.mjGEOM_PLANE
    assert model.nu == 8
    assert model.body_mass.sum() == pytest.approx(4 + 4 * 0.6, abs=1e-3)


def test_a_mesh_of_a_ros_package_is_found_and_coloured(table):
    drawn = [g for g in range(table.model.ngeom) if table.model.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH]
    assert len(drawn) == 1
    assert table.model.geom_contype[drawn[0]] == 0
    assert table.model.geom_rgba[drawn[0]] == pytest.approx([0.6, 0.4, 0.2, 1])


def test_it_stands_in_the_pose_that_was_found(table):
    assert table.pose.stands
    assert table.pose.height > 0.3
    trial = poses.attempt(table.robot, table.model, table.pose.qpos)
    assert trial.stands
    data = mujoco.MjData(table.model)
    data.qpos[:] = table.pose.qpos
    mujoco.mj_forward(table.model, data)
    assert min(contact.dist for contact in data.contact) > -1e-3


def test_gains_follow_the_rule_and_are_what_the_physics_step_can_carry(table):
    drives = table.drives
    (knee,) = (drive for drive in drives.values() if "front_left_knee" in drive.joints)
    assert (knee.effort, knee.velocity) == (20, 15)
    assert 0 < knee.stiffness <= 20.0  # 20 N m at 1 rad
    assert sorted(joint for drive in drives.values() for joint in drive.joints) == sorted(table.robot.driven)
    table.robot.spec.option.timestep, before = 0.05, table.robot.spec.option.timestep
    slow = table.robot.spec.compile()
    table.robot.spec.option.timestep = before
    coarse = choose(table.robot, slow, table.pose.qpos)
    assert max(drive.stiffness for drive in coarse.values()) < 5.0


def test_the_report_says_what_was_found_added_and_odd(table):
    text = "\n".join(table.lines)
    assert "A URDF with 10 links, 8 driven joints and 6.4 kg. Its base is body" in text
    assert "| front_left_knee | hinge | -2.2 to -0.6 rad | 20 N m | 15 rad/s |" in text
    assert "a floor was added" in text
    assert "body floats: a free joint was added" in text
    assert "0 is outside the range: rear_left_knee (-2.20 to -0.60)" in text


def test_an_mjcf_keeps_its_servos_and_its_motors_become_pd(tmp_path):
    made = prepare(read(write_crawler(tmp_path)))
    assert made.robot.servos == {"a": "hold_a", "b": "hold_b"}
    assert made.robot.limits == {"c": Limit(6.0), "d": Limit(6.0)}
    assert [made.model.actuator(i).name for i in range(4)] == ["push_d", "push_c", "hold_a", "hold_b"]
    assert made.pose.keyframe == "home"
    assert made.pose.qpos[2] == pytest.approx(0.22)
    text = "\n".join(made.lines)
    assert "torque motors became PD motors, whose control is a target: push_d, push_c" in text
    assert "Sensors: spin" in text
    assert "a floor was added" not in text


def odd_lines(folder, old, new, count=-1):
    """What is odd about the table with a change in its file."""
    assert old in TABLE
    robot = read(write_table(folder, TABLE.replace(old, new, count)))
    model = robot.spec.compile()
    return " ".join([*robot.odd, *odd.look(robot, model, poses.first_guess(robot, model))])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('lower="-1.2" upper="1.2"', 'lower="-70" upper="70"', "Are they in degrees"),
        ('<mass value="4"/>', '<mass value="4000"/>', "Are its masses in kg"),
        ('size=".5 .3 .08"', 'size="500 300 80"', "Is it in millimetres"),
        ('ixx="0.05" iyy="0.05" izz="0.05"', 'ixx="0" iyy="0" izz="0"', "inertia of body from mass and collision"),
        ('ixx="0.001" iyy="0.001" izz="0.001"', 'ixx="1e-9" iyy="1e-9" izz="1e-9"', "denser than lead"),
        ('effort="20"', 'effort="0"', "no effort limit: rear_left_hip"),
        ('type="revolute"', 'type="continuous"', "no range, so driven by velocity, as a wheel"),
        ("meshes/top.obj", "meshes/lost.obj", "mesh package://table_description/meshes/lost.obj not found"),
        ("meshes/top.obj", "urdf/table.urdf", "MuJoCo does not draw table.urdf"),
    ],
)
def test_what_is_odd_is_reported(tmp_path, old, new, words):
    assert words in odd_lines(tmp_path, old, new)


def test_links_without_collision_shape_are_named(tmp_path):
    text = re.sub(r'<collision><origin xyz="0 0 -.1"/>.*?</collision>', "", TABLE)
    robot = read(write_table(tmp_path, text))
    model = robot.spec.compile()
    assert "no collision shape: rear_left_thigh" in " ".join(odd.look(robot, model, model.qpos0))


def test_parts_that_overlap_are_named_and_do_not_push_each_other(tmp_path):
    text = TABLE.replace('<box size=".03 .03 .16"/>', '<box size=".3 .4 .16"/>')
    made = prepare(read(write_table(tmp_path, text)))
    assert "parts that overlap in the default pose: front_left_thigh and front_right_thigh" in " ".join(made.robot.odd)
    assert odd.overlaps(made.robot, made.model, poses.first_guess(made.robot, made.model)) == []


def test_a_frame_without_inertia_does_not_count_its_shapes_twice(tmp_path):
    shape = '<collision><geometry><box size="1 1 1"/></geometry></collision>'
    robot = read(write_table(tmp_path, TABLE.replace('<link name="imu"/>', f'<link name="imu">{shape}</link>')))
    assert robot.spec.compile().body_mass.sum() == pytest.approx(6.4, abs=1e-3)


def test_a_robot_that_no_motor_can_hold_up_is_said_to_balance(tmp_path):
    text = TABLE.replace('effort="20"', 'effort="0.1"')
    made = prepare(read(write_table(tmp_path, text)))
    assert not made.pose.stands
    assert "so it must balance" in made.pose.source
    assert np.isfinite(made.pose.height)


NO_JOINTS = '<robot name="r"><link name="a"><inertial><mass value="1"/></inertial></link></robot>'
NO_SHAPES = re.sub(r"<collision>.*?</collision>", "", TABLE, flags=re.S)
LOST = TABLE.replace('<box size=".5 .3 .08"/>', '<mesh filename="lost.stl"/>')
WELD = '<joint name="weld" type="fixed"><parent link="world"/><child link="body"/></joint>'
FIXED = TABLE.replace('<robot name="table">', f'<robot name="table"><link name="world"/>{WELD}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "invalid XML"),
        ("<html/>", "it begins with <html>, so it is no model of a robot"),
        ("<sdf/>", "Allowed: URDF .* or MJCF"),
        (NO_JOINTS, "it has no joint that moves"),
        (NO_SHAPES, "no link has a collision shape"),
        (LOST, r"table.urdf: link body <collision> <mesh>: mesh lost.stl not found. Searched:"),
        (FIXED, "its root link is called world"),
        (TABLE.replace('"body"', "'b\"; 1'"), "the body 'b\"; 1' has a name that a project cannot hold"),
        (TABLE.replace("front_left_hip", "hip[0]"), r"the joint 'hip\[0\]' has a name that .* Rename it in the file"),
    ],
)
def test_a_urdf_that_cannot_stand_is_refused(tmp_path, text, words):
    with pytest.raises(UserError, match=words):
        read(write_table(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (re.search("<actuator>.*</actuator>", CRAWLER, re.S)[0], "", "4 joints, but no actuators"),
        (re.search("<joint name.*?/>", CRAWLER)[0], "", None),
        ("top.obj", "lost.obj", "crawler.xml: mesh top: there is no file .*parts/lost.obj"),
        ("</worldbody>", '<body name="e"><joint name="e"/><geom size=".1"/></body></worldbody>', "2 bodies below"),
        ("<freejoint/>", '<joint name="rail" type="slide"/>', "its base hull moves by rail"),
    ],
)
def test_an_mjcf_that_cannot_stand_is_refused(tmp_path, old, new, words):
    assert old in CRAWLER
    text = CRAWLER.replace(old, new, 1)
    if words is None:  # all joints
        text = re.sub('<joint name="."/>|<actuator>.*</actuator>|<keyframe>.*</keyframe>', "", text, flags=re.S)
        words = "it has no joint that moves"
    with pytest.raises(UserError, match=words):
        prepare(read(write_crawler(tmp_path, text)))


def test_there_must_be_a_file_a_name_and_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"--from lost\.urdf: there is no such file"):
        command.main(["my_robot", "--from", "lost.urdf"])
    for arguments in (["--from", "lost.urdf"], ["my_robot", "--from"], ["a", "b", "--from=c"], ["a", "--from="]):
        with pytest.raises(UserError, match="one name and one file are needed"):
            command.main(arguments)
    (tmp_path / "my_robot").mkdir()
    with pytest.raises(UserError, match="exists already"):  # before the file is read
        command.main(["my_robot", "--from", "lost.urdf"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my_robot"]


@pytest.mark.parametrize("write", [write_table, write_crawler])
def test_the_project_is_complete_by_itself(tmp_path, monkeypatch, write):
    (tmp_path / "source").mkdir()
    file = write(tmp_path / "source")
    prepared = prepare(read(file))
    folder = new_project(str(tmp_path / "my_robot"), write=writer(prepared))
    shutil.rmtree(tmp_path / "source")
    moved = folder.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    model = mujoco.MjModel.from_xml_path(str(moved / "tasks" / "models" / "my_robot.xml"))
    assert model.nbody == prepared.model.nbody
    assert model.nmesh == 1
    assert str(tmp_path) not in (moved / "tasks" / "models" / "my_robot.xml").read_text()
    settings = yaml.safe_load((moved / "cfg" / "task" / "MyRobot.yaml").read_text())
    assert settings["name"] == "MyRobot"
    assert list(settings["drives"]) == list(prepared.drives)
    assert (moved / "ROBOT.md").read_text().splitlines() == prepared.lines
    assert "tander" not in "".join(path.read_text() for path in moved.rglob("*.py"))
