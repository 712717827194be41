"""MJCF files as assets: what belongs to a scene goes, what belongs to the robot stays as MuJoCo resolves it."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.compat.core import inertia
from livegym.compat.core.asset import AssetModel, load_asset
from livegym.compat.core.enums import DofDriveMode, TendonType
from livegym.compat.core.records import NO_LIMIT, AssetOptions
from livegym.utils.errors import UserError
from tests.damaged_xml import damaged, refused_or_finite

CORNER = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
"""A tetrahedron of 1/6 m^3."""


@pytest.fixture
def load(tmp_path):
    """Write an MJCF file and load it."""

    def written(text: str, **options) -> AssetModel:
        (tmp_path / "robot.xml").write_text(text)
        return load_asset(str(tmp_path), "robot.xml", AssetOptions(**options))

    return written


def world(inside: str, before: str = "", after: str = "") -> str:
    return f"<mujoco>{before}<worldbody>{inside}</worldbody>{after}</mujoco>"


BALL = '<geom type="sphere" size="0.1"/>'
CRAB = world(
    before="""
    <compiler angle="degree"/>
    <option timestep="0.01" gravity="0 0 -1"/>
    <size nconmax="100"/>
    <visual><map fogstart="3"/></visual>
    <default>
      <joint armature="0.01" damping="0.1" limited="true" range="-10 10"/>
      <geom density="10" friction="0.8 0.1 0.1"/>
      <default class="leg"><joint range="-90 30" stiffness="2"/><geom contype="1" conaffinity="0"/></default>
    </default>
    <asset>
      <texture name="t" type="2d" builtin="flat" width="2" height="2"/><material name="shell" texture="t"/>
    </asset>
    """,
    inside="""
    <light pos="0 0 9"/><camera pos="0 0 9"/><geom name="floor" type="plane" size="9 9 1"/>
    <body name="shell" pos="1 2 3" euler="0 0 90">
      <freejoint name="root"/><camera name="eye"/>
      <geom name="back" type="box" size="0.5 0.5 0.5" material="shell"/>
      <body name="right" pos="0 1 0" euler="0 0 90" childclass="leg">
        <joint name="right_hip" axis="0 0 1"/><geom type="sphere" size="0.1"/>
        <body name="claw" pos="0 1 0">
          <joint name="grip" type="slide" range="0 0.2"/><geom type="sphere" size="0.1"/>
        </body>
      </body>
      <body name="left" pos="0 -1 0">
        <joint name="left_hip" axis="0 0 1"/><joint name="left_lift" axis="0 1 0" limited="false"/>
        <geom name="foot" type="cylinder" size="0.1 0.2"/>
        <geom name="paint" type="sphere" size="0.1" contype="0" conaffinity="0"/>
        <site name="touch"/>
      </body>
    </body>
    """,
    after="""
    <contact><exclude body1="right" body2="left"/><pair geom1="back" geom2="foot"/></contact>
    <tendon>
      <fixed name="both" limited="true" range="-0.1 0.2" stiffness="3" damping="4">
        <joint joint="left_hip" coef="1"/><joint joint="right_hip" coef="-1"/>
      </fixed>
    </tendon>
    <equality><weld body1="left" body2="right"/></equality>
    <actuator>
      <motor name="push" joint="right_hip" gear="15" ctrllimited="true" ctrlrange="-1 1"/>
      <position name="hold" joint="left_hip" kp="20" kv="2" ctrlrange="-0.3 0.4" forcerange="-5 6"/>
      <velocity name="spin" joint="left_lift" kv="7"/>
      <motor name="pull" tendon="both"/>
    </actuator>
    <sensor><touch site="touch"/></sensor>
    <keyframe><key qpos="0 0 0 1 0 0 0 0 0 0 0"/></keyframe>
    """,
)


def test_bodies_joints_and_dofs_are_in_the_order_of_the_file(load):
    asset = load(CRAB)
    assert asset.bodies == ("shell", "right", "claw", "left")
    assert asset.dofs == ("right_hip", "grip", "left_hip", "left_lift")
    assert asset.joints == ("right_hip", "grip", "left_hip")
    assert asset.floating


def test_orientations_in_any_notation_are_kept(load):
    turns = ('euler="10 20 30"', 'axisangle="1 0 0 40"', 'zaxis="1 1 1"', 'xyaxes="0 1 0 -1 0 0"')
    geoms = "".join(f'<geom type="box" size="0.1 0.2 0.3" {turn}/>' for turn in turns)
    text = world(f'<body name="a">{geoms}</body>', before='<compiler eulerseq="zyx" angle="degree"/>')
    own = mujoco.MjSpec.from_string(text).compile()
    np.testing.assert_allclose(load(text).model.geom_quat, own.geom_quat, atol=1e-12)


def test_what_belongs_to_a_scene_is_left_out(load):
    model = load(CRAB).model
    counts = {name: getattr(model, name) for name in ("nu", "nsensor", "nkey", "nmat", "ntex", "nlight", "ncam", "neq")}
    assert set(counts.values()) == {0}, counts
    assert model.body_geomnum[0] == 0
    assert model.body_jntnum[1] == 0, "the root's free joint"
    np.testing.assert_allclose(model.body_pos[1], 0)
    np.testing.assert_allclose(model.body_quat[1], [1, 0, 0, 0])
    assert model.opt.timestep == mujoco.MjSpec().option.timestep


def test_excludes_pairs_tendons_and_sites_stay(load):
    model = load(CRAB).model
    assert (model.nexclude, model.npair, model.ntendon, model.nsite) == (1, 1, 1, 1)


def test_angles_are_radians_and_nested_defaults_hold(load):
    asset = load(CRAB)
    rows = dict(zip(asset.dofs, asset.dof_properties, strict=True))
    assert rows["right_hip"]["lower"] == pytest.approx(-math.pi / 2)
    assert rows["right_hip"]["upper"] == pytest.approx(math.pi / 6)
    assert rows["right_hip"]["stiffness"] == 2
    assert (rows["grip"]["lower"], rows["grip"]["upper"]) == pytest.approx((0, 0.2))
    assert rows["left_hip"]["upper"] == pytest.approx(math.radians(10))
    assert not rows["left_lift"]["hasLimits"]
    assert rows["left_lift"]["upper"] == np.float32(NO_LIMIT)
    np.testing.assert_allclose(asset.dof_properties["armature"], 0.01)
    half = math.sqrt(0.5)
    np.testing.assert_allclose(asset.model.body_quat[2], [half, 0, 0, half], atol=1e-9)
    assert not asset.spec.compiler.degree


def test_the_specification_can_be_compiled_again_with_the_same_result(load):
    asset = load(CRAB)
    again = asset.spec.copy().compile()
    for name in ("body_mass", "body_inertia", "body_iquat", "body_quat", "jnt_range", "geom_pos", "dof_armature"):
        np.testing.assert_array_equal(getattr(again, name), getattr(asset.model, name), err_msg=name)


def test_the_specification_can_be_put_into_a_scene(load):
    scene = mujoco.MjSpec()
    asset = load(CRAB)
    for prefix in ("a/", "b/"):
        frame = scene.worldbody.add_frame(pos=[0, 0, 1])
        scene.attach(asset.spec.copy(), prefix=prefix, frame=frame)
    model = scene.compile()
    assert model.nbody == 9
    np.testing.assert_allclose(model.body_mass[1:5], asset.model.body_mass[1:])
    for name, first in (("jnt_range", 4), ("body_quat", 5), ("geom_quat", 5), ("geom_size", 5), ("body_inertia", 5)):
        own = getattr(asset.model, name)
        again = getattr(model, name)[first:]
        np.testing.assert_allclose(again, own[-len(again) :], atol=1e-12, err_msg=name)


def test_numbers_are_those_of_mujocos_own_reading(load, tmp_path):
    asset = load(CRAB)
    own = mujoco.MjSpec.from_file(str(tmp_path / "robot.xml")).compile()
    for body in asset.bodies:
        ours, theirs = asset.model.body(body), own.body(body)
        np.testing.assert_allclose(ours.mass, theirs.mass, rtol=1e-12)
        np.testing.assert_allclose(np.sort(ours.inertia), np.sort(theirs.inertia), rtol=1e-9)
    for joint in asset.dofs:
        ours, theirs = asset.model.joint(joint), own.joint(joint)
        limits = ["range"] if own.jnt_limited[theirs.id] else []  # MuJoCo leaves unused ones in degrees
        for number in ["axis", "pos", "armature", "damping", "stiffness", "frictionloss", *limits]:
            np.testing.assert_allclose(getattr(ours, number), getattr(theirs, number), atol=1e-12, err_msg=number)
    for geom in ("back", "foot", "paint"):
        for number in ("size", "pos", "quat", "friction", "contype", "conaffinity", "type"):
            same = getattr(asset.model.geom(geom), number), getattr(own.geom(geom), number)
            np.testing.assert_array_equal(*same, err_msg=number)


def test_mass_and_inertia_are_written_down(load):
    asset = load(CRAB)
    assert asset.model.body_mass[1] == pytest.approx(10)
    np.testing.assert_allclose(asset.model.body_inertia[1], 10 / 6)
    assert all(body.explicitinertial for body in asset.spec.bodies[1:])


def test_shapes_are_the_geoms_that_collide(load):
    asset = load(CRAB)
    assert len(asset.shapes) == 4
    assert asset.model.ngeom == 5
    assert asset.shape_properties[0].friction == pytest.approx(0.8)


def test_actuators_become_drives(load):
    asset = load(CRAB, default_dof_drive_mode=2)
    assert asset.actuator_names == ["push", "hold", "spin", "pull"]
    assert asset.actuator_joints == ["right_hip", "left_hip", "left_lift", ""]
    push, hold, *_ = asset.actuators
    assert (push.type, push.motor_effort, push.kp, push.control_limited, push.force_limited) == (
        "motor",
        15,
        0,
        True,
        False,
    )
    assert (hold.type, hold.kp, hold.kv) == ("position", 20, 2)
    assert (hold.lower_control_limit, hold.upper_control_limit) == pytest.approx((-0.3, 0.4))
    assert (hold.lower_force_limit, hold.upper_force_limit) == (-5, 6)
    rows = dict(zip(asset.dofs, asset.dof_properties, strict=True))
    assert [rows[name]["driveMode"] for name in ("right_hip", "left_hip", "left_lift", "grip")] == [
        DofDriveMode.DOF_MODE_EFFORT,
        DofDriveMode.DOF_MODE_POS,
        DofDriveMode.DOF_MODE_VEL,
        2,
    ]
    assert rows["left_hip"]["stiffness"] == 20
    assert rows["left_hip"]["damping"] == pytest.approx(2.1)
    assert rows["left_hip"]["effort"] == 6
    assert rows["right_hip"]["effort"] == np.float32(NO_LIMIT)
    assert rows["left_lift"]["damping"] == pytest.approx(7.1)


def test_of_several_actuators_of_a_joint_the_position_counts(load):
    after = '<actuator><position joint="j" kp="3"/><velocity joint="j" kv="2"/><motor joint="j"/></actuator>'
    text = world(f'<body name="a">{BALL}<body name="b"><joint name="j" axis="0 0 1"/>{BALL}</body></body>', after=after)
    row = load(text).dof_properties[0]
    assert (row["driveMode"], row["stiffness"]) == (DofDriveMode.DOF_MODE_POS, 3)


def test_joint_force_limits_bound_the_effort(load):
    joint = '<joint name="j" axis="0 0 1" actuatorfrcrange="-2 3"/>'
    asset = load(world(f'<body name="a">{BALL}<body name="b">{joint}{BALL}</body></body>'))
    assert asset.dof_properties["effort"] == 3


def test_tendons_are_listed(load):
    asset = load(CRAB, tendon_limit_stiffness=9)
    assert asset.tendon_names == ["both"]
    both = asset.tendons[0]
    assert both.type is TendonType.TENDON_FIXED
    assert (both.num_joints, both.num_attachments) == (2, 0)
    assert (both.stiffness, both.damping, both.limit_stiffness) == (3, 4, 9)
    assert both.is_fixed_limited
    assert (both.fixed_lower_limit, both.fixed_upper_limit) == pytest.approx((-0.1, 0.2))


ROOTED = world(
    f'<body name="base"><joint name="x" type="slide"/><joint name="turn" axis="0 0 1"/>{BALL}'
    f'<body name="arm" pos="0 0 1"><joint name="lift" axis="0 1 0"/>{BALL}</body></body>',
    after='<tendon><fixed name="t"><joint joint="x" coef="1"/></fixed></tendon>'
    '<actuator><motor joint="x"/><motor joint="lift"/><motor tendon="t"/></actuator>',
)


def test_joints_of_a_floating_root_are_left_out_with_what_drives_them(load):
    asset = load(ROOTED)
    assert asset.dofs == ("lift",)
    assert asset.actuator_joints == ["lift"]
    assert asset.tendons == []
    assert any("x, turn" in note for note in asset.notes)


def test_joints_of_a_fixed_root_are_refused(load):
    """MuJoCo has no joints on a body that task code can place, as it can place a fixed base."""
    with pytest.raises(UserError, match=r"robot\.xml: <body> base: fix_base_link .*\(x, turn\)\. Put it inside a body"):
        load(ROOTED, fix_base_link=True)


def test_a_free_joint_by_default_class_is_left_out_of_a_fixed_root(load):
    text = world(
        f'<body name="a"><joint name="r" class="free"/>{BALL}</body>',
        before='<default><default class="free"><joint type="free"/></default></default>',
    )
    assert load(text, fix_base_link=True).model.njnt == 0


def test_names_that_occur_twice_are_told_apart(load):
    leg = '<body name="leg"><joint name="hip" axis="0 0 1"/><geom name="g" type="sphere" size="0.1"/></body>'
    asset = load(world(f'<body name="base">{BALL}{leg}{leg}<body>{BALL}<joint axis="1 0 0"/></body></body>'))
    assert asset.bodies == ("base", "leg", "leg_1", "body_1")
    assert asset.dofs == ("hip", "hip_1", "joint_1")
    assert sum("second one" in note for note in asset.notes) == 3


def test_empty_ranges_get_a_little_room(load):
    joint = '<joint name="j" axis="0 0 1" limited="true" range="0 0"/>'
    asset = load(world(f'<body name="a">{BALL}<body name="b">{joint}{BALL}</body></body>'))
    assert -0.001 < asset.dof_properties["lower"][0] < 0 < asset.dof_properties["upper"][0] < 0.001


def test_bodies_without_mass_get_a_tiny_one(load):
    asset = load(world(f'<body name="a">{BALL}<body name="b"><joint axis="0 0 1"/><body name="c"/></body></body>'))
    np.testing.assert_allclose(asset.model.body_mass[2:], inertia.TINY_MASS)
    assert any(note.startswith("b, c: no mass") for note in asset.notes)


@pytest.mark.parametrize("given", ['diaginertia="1 1 4"', 'fullinertia="1 1 4 0 0 0"'])
def test_an_impossible_inertia_is_replaced_by_the_nearest_possible_one(load, given):
    inertial = f'<inertial pos="0 0 0" mass="1" {given}/>'
    asset = load(world(f'<body name="a">{BALL}<body name="b"><joint axis="0 0 1"/>{inertial}</body></body>'))
    np.testing.assert_allclose(np.sort(asset.model.body_inertia[2]), [2, 2, 4], rtol=1e-9)
    assert f"b: {inertia.REPLACED}" in asset.notes


def test_density_of_the_options_counts_if_the_file_gives_none(load):
    ball = math.pi / 6e3 * 8
    assert load(world(f'<body name="a">{BALL}</body>'), density=10).model.body_mass[1] == pytest.approx(10 * ball)
    own = world(f'<body name="a">{BALL}</body>', before='<default><geom density="20"/></default>')
    assert load(own, density=10).model.body_mass[1] == pytest.approx(20 * ball)


def test_overrides_take_centre_and_inertia_from_the_geoms(load):
    inertial = '<inertial pos="5 5 5" mass="12" diaginertia="7 7 7"/>'
    text = world(f'<body name="a">{inertial}<geom type="box" size="0.5 1 1.5" pos="0 0 1"/></body>')
    model = load(text, override_com=True, override_inertia=True).model
    np.testing.assert_allclose(model.body_ipos[1], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(np.sort(model.body_inertia[1]), [5, 10, 13])
    assert model.body_mass[1] == 12
    assert load(text).model.body_ipos[1].tolist() == [5, 5, 5]


def test_options_of_armature_gravity_and_capsules(load):
    asset = load(CRAB, armature=0.5, disable_gravity=True, replace_cylinder_with_capsule=True)
    np.testing.assert_allclose(asset.dof_properties["armature"], 0.51)
    np.testing.assert_allclose(asset.model.dof_armature, 0.51)
    assert asset.model.body_gravcomp[1:].tolist() == [1] * 4
    assert int(mujoco.mjtGeom.mjGEOM_CYLINDER) not in asset.model.geom_type
    links = load(CRAB, armature=0.5, use_physx_armature=False)
    np.testing.assert_allclose(links.model.body_inertia[1], 10 / 6 + 0.5)
    np.testing.assert_allclose(links.dof_properties["armature"], 0.01)


def test_old_attributes_are_left_out(load):
    before = '<compiler coordinate="local"/><option apirate="200"/><default><joint oldest="1"/></default>'
    asset = load(world(f'<body name="a">{BALL}<site name="s" older="2"/></body>', before=before))
    assert sum("no longer knows" in note for note in asset.notes) == 2


def test_includes_are_put_in_place(load, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/leg.xml").write_text(f'<mujocoinclude><include file="foot.xml"/>{BALL}</mujocoinclude>')
    (tmp_path / "parts/foot.xml").write_text('<mujocoinclude><joint name="ankle" axis="0 0 1"/></mujocoinclude>')
    (tmp_path / "shared.xml").write_text('<mujocoinclude><default><joint armature="0.3"/></default></mujocoinclude>')
    inside = f'<body name="a">{BALL}<body name="leg"><include file="parts/leg.xml"/></body></body>'
    asset = load(world(inside, before='<include file="shared.xml"/>'))
    assert asset.dofs == ("ankle",)
    assert asset.dof_properties["armature"] == pytest.approx(0.3)


def test_references_of_shared_files_to_missing_elements_are_left_out(load):
    after = """
    <contact><exclude body1="a" body2="gone"/><pair geom1="gone" geom2="gone2"/></contact>
    <tendon><fixed name="t"><joint joint="gone" coef="1"/></fixed></tendon>
    <actuator><motor joint="gone"/><motor tendon="t"/></actuator>
    """
    asset = load(world(f'<body name="a">{BALL}</body>', after=after))
    assert (asset.model.nexclude, asset.model.npair, asset.model.ntendon) == (0, 0, 0)
    assert asset.actuators == []


MESHES = '<asset><mesh name="hull" file="hull.obj"/><mesh file="paint.glb"/></asset>'
PAINT = '<geom type="mesh" mesh="paint" contype="{}" conaffinity="0"/>'
PAINTED = f'<body name="a">{BALL}<geom type="mesh" mesh="hull"/>{PAINT}</body>'


@pytest.mark.parametrize("folder", ["", "meshes", "../meshes"])
def test_meshes_are_found_by_the_compilers_folder(tmp_path, folder):
    (tmp_path / "robots").mkdir()
    (tmp_path / "robots" / folder).mkdir(exist_ok=True)
    (tmp_path / "robots" / folder / "hull.obj").write_text(CORNER)
    text = world(PAINTED.format(0), before=f'<compiler meshdir="{folder}"/>{MESHES}')
    (tmp_path / "robots/robot.xml").write_text(text)
    asset = load_asset(str(tmp_path), "robots/robot.xml", AssetOptions())
    assert asset.model.nmesh == 1
    assert len(asset.shapes) == 2
    assert any("paint is left out: it only draws" in note for note in asset.notes)
    assert asset.model.body_mass[1] == pytest.approx(1000 * (1 / 6 + math.pi / 6e3 * 8))


def test_a_mesh_that_collides_must_be_there(load, tmp_path):
    with pytest.raises(UserError, match=r"(?s)<mesh> hull: mesh hull\.obj not found\. Searched:.*hull\.obj"):
        load(world(PAINTED.format(0), before=MESHES))
    (tmp_path / "hull.obj").write_text(CORNER)
    (tmp_path / "paint.glb").write_bytes(b"")
    with pytest.raises(UserError, match=r"<mesh> paint: paint\.glb collides"):
        load(world(PAINTED.format(1), before=MESHES))


def test_a_colliding_mesh_of_another_format_is_read_by_trimesh(load, tmp_path):
    (tmp_path / "hull.obj").write_text(CORNER)
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "paint.glb")
    asset = load(world(PAINTED.format(1), before=MESHES))
    assert len(asset.shapes) == 3
    assert asset.model.body_mass[1] == pytest.approx(1000 * (6 + 1 / 6 + math.pi / 6e3 * 8))


ARM = f'<body name="a">{BALL}<body name="b">{{}}{BALL}</body></body>'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<mujoco>", r"invalid XML"),
        ("<robot/>", r"<robot>: an MJCF file begins with <mujoco>"),
        (world(""), r"<worldbody>: it has no <body>"),
        ("<mujoco/>", r"<worldbody>: it has no <body>"),
        (
            world(f'<body name="a">{BALL}</body><body name="b">{BALL}</body>'),
            r"2 root bodies \(a, b\), an as",
        ),
        (world('<include file="gone.xml"/>'), r"<include>: gone\.xml not found\. Searched:"),
        (world('<include file="robot.xml"/>'), r"<include>: robot\.xml includes itself"),
        (world(ARM.format('<joint name="j" type="ball"/>')), r"joint j: a ball joint has no DOF of one number"),
        (world(ARM.format('<joint axis="0 nan 0"/>')), r"<joint>: axis='0 nan 0': finite numbers expected"),
        (world(ARM.format('<geom name="g" size="1" mass="-1"/>')), r"<geom> g: mass='-1': it must not be negative"),
        (
            world(ARM.format("<joint/>"), before='<compiler coordinate="global"/>'),
            r"<compiler>: MuJoCo no longer",
        ),
        (world(ARM.format('<joint name="j" armature="-1"/>')), r"<joint> j: armature='-1': it must not be negative"),
        (world(ARM.format('<geom type="tube" size="1"/>')), r"MuJoCo cannot read it: .*tube"),
        (world(ARM.format('<geom type="box" size="1"/>')), r"MuJoCo refuses it: .*size"),
        (world(ARM.format('<geom size="1" euler="x 0 0"/>')), r"MuJoCo cannot read it: .*euler"),
        (world(ARM.format("<wheel/>")), r"MuJoCo cannot read it: .*wheel"),
    ],
)
def test_what_cannot_be_an_asset_is_refused_by_name(load, text, says):
    with pytest.raises(UserError, match=says) as error:
        load(text)
    assert "robot.xml" in error.value.message


@pytest.mark.filterwarnings("ignore:Inertia matrix is too close to singular")
@settings(max_examples=120, deadline=None)
@given(st.sampled_from([CRAB, ROOTED]).flatmap(damaged), st.booleans())
def test_a_damaged_file_is_refused_or_loads_with_finite_numbers(tmp_path_factory, text, fixed):
    refused_or_finite(tmp_path_factory.getbasetemp() / "robot.xml", text, fixed)
