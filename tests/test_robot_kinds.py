"""Files of robots as people have them: meshes used twice, frames on the floor, other servos, scenery, missing names."""

from __future__ import annotations

import re
import signal
import tomllib

import mujoco
import numpy as np
import pytest
import yaml

from livegym.projects.new import new_project
from livegym.robots import command, odd
from livegym.robots import pose as poses
from livegym.robots.project import Prepared, prepare, writer
from livegym.robots.read import read
from livegym.robots.robot import Limit
from livegym.utils.errors import UserError
from tests.robot_files import BOX, CRAWLER, INERTIA, TABLE, write_crawler, write_table

MESH = '<mesh filename="package://table_description/meshes/top.obj" scale=".001 .001 .001"/>'
SERVO_A = '<position name="hold_a" joint="a" kp="20" kv="1"/>'
TORSO = '<link name="body"><inertial><mass value="4"/>'


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    """As many poses as a test needs."""
    monkeypatch.setattr(poses, "CANDIDATES", 60)
    monkeypatch.setattr(poses, "TRIALS", 1)
    monkeypatch.setattr(poses, "SETTLE_S", 0.5)


def changed(text: str, *pairs: str) -> str:
    """The text of a robot's file with parts replaced, which it must have."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


def crawler(folder, *pairs: str) -> Prepared:
    return prepare(read(write_crawler(folder, changed(CRAWLER, *pairs))))


def table(folder, *pairs: str) -> Prepared:
    return prepare(read(write_table(folder, changed(TABLE, *pairs))))


def written(prepared: Prepared, folder, name: str = "my_robot"):
    """The project's folder, and what its task's module defines in the file."""
    made = new_project(str(folder / name), write=writer(prepared))
    names: dict = {}
    text = (made / "tasks" / f"{name}.py").read_text()
    exec(re.search(r"^MOTORS.*?^BENDING", text, re.S | re.M)[0].removesuffix("BENDING"), names)
    return made, names


def settings(made) -> dict:
    return yaml.safe_load(next((made / "cfg" / "task").glob("*.yaml")).read_text())


# -- meshes


@pytest.mark.parametrize("folder", ["meshes", "collision"])
def test_a_mesh_may_collide_and_be_drawn(tmp_path, folder):
    """The same file, or one of the same name in another folder."""
    (tmp_path / "table_description" / folder).mkdir(parents=True)
    (tmp_path / "table_description" / folder / "top.obj").write_text(BOX)
    collides = '<mesh filename="../FOLDER/top.obj" scale=".5 .3 .08"/>'.replace("FOLDER", folder)
    robot = read(write_table(tmp_path, changed(TABLE, '<box size=".5 .3 .08"/>', collides)))
    assert len({mesh.name for mesh in robot.spec.meshes}) == 2
    assert robot.spec.compile().nmesh == 2
    made = new_project(str(tmp_path / "my_robot"), write=writer(prepare(robot)))
    assert len(list((made / "tasks" / "models" / "meshes").iterdir())) == (1 if folder == "meshes" else 2)


def test_a_damaged_mesh_that_is_only_drawn_is_reported(tmp_path):
    file = write_table(tmp_path)
    (tmp_path / "table_description" / "meshes" / "top.obj").write_text("v 0 0 0\nf 1 2 3\n")
    robot = read(file)
    assert "not drawn: link body <visual>: MuJoCo refuses top.obj" in " ".join(robot.odd)
    assert robot.spec.compile().nmesh == 0


# -- servos and other actuators


def test_what_a_servo_follows_is_decided_by_the_servo_not_by_the_range_of_the_joint(tmp_path):
    endless = '<joint name="a" limited="false"/>'
    speed = '<velocity name="hold_b" joint="b" kv="1"/>'
    made = crawler(tmp_path, '<joint name="a"/>', endless, '<position name="hold_b" joint="b" kp="20" kv="1"/>', speed)
    assert made.robot.servos == {"a": "hold_a", "b": "hold_b"}
    _, names = written(made, tmp_path)
    assert names["WHEELS"] == ("b",)
    assert poses.attempt(made.robot, made.model, made.pose.qpos).stands  # b's target is a speed of 0, and no angle
    assert "driven by velocity" not in " ".join(made.robot.odd)


@pytest.mark.parametrize(
    "servo",
    [
        '<position name="hold_a" joint="a" kp="20" kv="1" gear="2"/>',
        '<general name="hold_a" joint="a" biastype="affine" gainprm="30" biasprm="0 -20 -1"/>',
        '<general name="hold_a" joint="a" biastype="affine" gainprm="20" biasprm="1 -20 -1"/>',
    ],
    ids=["gear", "gain", "offset"],
)
def test_a_servo_whose_control_is_no_target_is_left_alone(tmp_path, servo):
    made = crawler(tmp_path, SERVO_A, servo)
    assert (made.robot.servos, made.robot.idle) == ({"b": "hold_b"}, ["hold_a"])
    assert "servos that the standing task leaves at 0: hold_a" in " ".join(made.lines)


def test_an_actuator_of_a_tendon_does_not_take_the_place_of_a_motor(tmp_path):
    """Its target is tendon 3, and joint 3 is b."""
    tendons = "".join(f'<tendon><fixed name="t{i}"><joint joint="a" coef="1"/></fixed></tendon>' for i in range(9))
    pull = '<motor name="pull3" tendon="t3"/><motor name="pull8" tendon="t8"/></actuator>'
    _, names = written(crawler(tmp_path, "<sensor>", f"{tendons}<sensor>", "</actuator>", pull), tmp_path)
    assert names["MOTORS"] == {"a": "hold_a", "b": "hold_b", "c": "push_c", "d": "push_d"}


def test_motors_are_integrated_implicitly(tmp_path):
    made = crawler(tmp_path)
    assert made.model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert "the integrator became implicitfast" in " ".join(made.lines)


# -- the base


def test_a_base_on_the_floor_is_a_frame_and_the_trunk_has_the_height(tmp_path):
    frame = '<link name="base_footprint"/><joint name="base_joint" type="fixed"><parent link="base_footprint"/>'
    frame += f'<child link="body"/><origin xyz="0 0 .4"/></joint>{TORSO}'
    without = ("effort=", "was=")  # no effort in the file: the weight stands for it
    made = table(tmp_path, TORSO, frame, *without)
    assert (made.robot.base, made.robot.trunk) == ("base_footprint", "body")
    assert made.pose.height > 0.2
    assert all(drive.stiffness > 0.5 for drive in made.drives.values())
    folder, names = written(made, tmp_path)
    assert settings(folder)["params"]["fall_height"] > 0.1
    assert names["MIDDLE"] == "trunk_middle"


def test_the_middle_is_that_of_the_part_that_carries_most(tmp_path):
    frame = f'<link name="root"><inertial><mass value=".01"/>{INERTIA.format(0.001)}</inertial></link>'
    waist = '<joint name="waist" type="revolute"><parent link="root"/><child link="body"/><axis xyz="0 0 1"/>'
    made = table(
        tmp_path, TORSO, f'{frame}{waist}<limit lower="-1" upper="1" effort="20" velocity="1"/></joint>{TORSO}'
    )
    assert (made.robot.base, made.robot.trunk) == ("root", "body")


def test_a_robot_whose_mass_is_below_its_shapes_is_refused(tmp_path):
    low = '<inertial><origin xyz="0 0 -30"/><mass value="4"/>'
    with pytest.raises(UserError, match="its centre of mass is below its lowest collision shape"):
        table(tmp_path, '<inertial><mass value="4"/>', low)


# -- worlds


def test_planes_and_bodies_without_names_get_some(tmp_path):
    made = crawler(tmp_path, 'geom name="ground"', "geom", 'body name="hull"', "body", 'body name="a"', "body")
    assert made.robot.base == "base"
    folder, _ = written(made, tmp_path)
    drawn = settings(folder)["randomization"]
    assert (drawn["load"]["names"], drawn["grip"]["names"]) == (["base"], [made.robot.floor])
    model = mujoco.MjModel.from_xml_path(str(folder / "tasks" / "models" / "my_robot.xml"))
    assert model.geom(made.robot.floor).type[0] == mujoco.mjtGeom.mjGEOM_PLANE
    assert all(model.body(b).name for b in range(model.nbody))


def test_keyframes_of_a_fixed_base_get_its_place(tmp_path):
    ball = '<body name="ball" pos="3 0 .1"><freejoint/><geom size=".1"/></body><body name="hull" pos="0 0 .3">'
    key = 'qpos="3 0 .1 1 0 0 0 .1 .1 -.1 -.1"'
    made = crawler(
        tmp_path, '<body name="hull" pos="0 0 .3">', ball, '<freejoint/><site name="middle"/>',
        '<site name="middle"/>', 'qpos="0 0 .22 1 0 0 0 .1 .1 -.1 -.1"', key,
    )  # fmt: skip
    np.testing.assert_allclose(
        made.model.key_qpos[0], [3, 0, 0.1, 1, 0, 0, 0, 0, 0, 0.3, 1, 0, 0, 0, 0.1, 0.1, -0.1, -0.1]
    )
    assert "hull floats: a free joint was added" in made.robot.changes


def test_scenery_is_no_part_of_the_robot(tmp_path):
    room = '<body name="room"><geom name="ground" type="plane" size="0 0 1"/><geom name="pit" pos="2 2 -1" size=".2"/>'
    made = crawler(
        tmp_path, '<geom name="ground" type="plane" size="0 0 1"/>', f"{room}</body>", "<keyframe>", "<!--",
        "</keyframe>", "-->",
    )  # fmt: skip
    plain = crawler(tmp_path, "<keyframe>", "<!--", "</keyframe>", "-->")
    assert made.robot.floor == "ground"
    np.testing.assert_allclose(made.pose.qpos, plain.pose.qpos)
    assert made.robot.mass(made.model) == pytest.approx(plain.robot.mass(plain.model))
    assert "MJCF with 5 links" in "\n".join(made.lines)


# -- limits and overlaps


def test_limits_of_speed_are_those_of_the_file_and_one_that_is_dropped_is_named(tmp_path):
    fast = table(tmp_path, 'effort="20" velocity="15"', 'effort="20" velocity="100"')
    assert fast.robot.limits["front_left_hip"] == Limit(20, 100)
    assert {drive.velocity for drive in fast.drives.values()} == {100}
    weak = table(tmp_path, 'effort="20" velocity="15"', 'velocity="15"')
    assert "The speed limit of rear_left_hip" in " ".join(weak.robot.odd)
    assert "15 rad/s" not in "\n".join(weak.lines)


def test_only_parts_that_overlap_in_the_default_pose_pass_through_each_other(tmp_path, monkeypatch):
    """Wide thighs overlap at 0. In this pose the rear ones still do; the front ones are bent apart."""

    def bent(robot, model):
        qpos = poses.first_guess(robot, model)
        for joint, angle in (("front_left_hip", 1.0), ("front_right_hip", -1.0)):
            qpos[model.joint(joint).qposadr[0]] = angle
        return poses.Pose(qpos, 0.3, True, "default", "bent by hand")

    monkeypatch.setattr(poses, "find", bent)
    made = table(tmp_path, '<box size=".03 .03 .16"/>', '<box size=".03 .4 .16"/>')
    apart = [(exclude.bodyname1, exclude.bodyname2) for exclude in made.robot.spec.excludes]
    assert ("rear_left_thigh", "rear_right_thigh") in apart
    assert ("front_left_thigh", "front_right_thigh") not in apart
    assert odd.overlaps(made.robot, made.model, made.pose.qpos) == []
    start = np.where(np.abs(made.pose.qpos) == 1.0, 0.0, made.pose.qpos)
    start[3] = 1.0
    assert ("front_left_thigh", "front_right_thigh") in odd.overlaps(made.robot, made.model, start)


# -- names and signals


def test_names_that_look_like_places_in_the_template_stay_as_they_are(tmp_path):
    made = table(tmp_path, "front_left_hip", "BASE_YAW", "rear_left_hip", "stander_FLOOR")
    folder, names = written(made, tmp_path, "my_stander")
    assert {"BASE_YAW", "stander_FLOOR"} <= set(names["MOTORS"])
    assert {"BASE_YAW", "stander_FLOOR"} <= {
        joint for drive in settings(folder)["drives"].values() for joint in drive["joints"]
    }
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "my_stander"


def test_ctrl_c_ends_at_once_while_poses_are_tried(tmp_path, monkeypatch):
    """Nothing is written yet, so there is nothing to finish."""
    monkeypatch.chdir(tmp_path)
    before, seen = signal.getsignal(signal.SIGINT), []

    def tried(robot):
        seen.append(signal.getsignal(signal.SIGINT))
        raise UserError("enough")

    monkeypatch.setattr(command, "prepare", tried)
    with pytest.raises(UserError, match="enough"):
        command.main(["my_robot", "--from", str(write_table(tmp_path))])
    assert seen == [before]
