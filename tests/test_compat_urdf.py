"""URDF files as assets: orders, sums and lengths that were computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.compat.core import inertia
from livegym.compat.core.asset import AssetModel, box, capsule, load_asset, sphere
from livegym.compat.core.inertia import Inertial
from livegym.compat.core.records import NO_LIMIT, AssetOptions
from livegym.utils.errors import UserError
from tests.damaged_xml import damaged, refused_or_finite

CUBE = """v 0 0 0
v 1 0 0
v 0 1 0
v 1 1 0
v 0 0 1
v 1 0 1
v 0 1 1
v 1 1 1
f 1 3 2
f 2 3 4
f 5 6 7
f 6 8 7
f 1 2 5
f 2 6 5
f 3 7 4
f 4 7 8
f 1 5 3
f 3 5 7
f 2 4 6
f 4 8 6
"""
"""A cube with edges of 1 m, with one corner at the origin."""


def link(name: str, inside: str = "") -> str:
    return f'<link name="{name}">{inside}</link>'


def mass(kg: float, xyz: str = "0 0 0", moments: str = "1 1 1", rpy: str = "0 0 0", products: str = "0 0 0") -> str:
    xx, yy, zz = moments.split()
    xy, xz, yz = products.split()
    return (
        f'<inertial><origin xyz="{xyz}" rpy="{rpy}"/><mass value="{kg}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="{xz}" iyz="{yz}"/></inertial>'
    )


def shape(geometry: str, xyz: str = "0 0 0", rpy: str = "0 0 0") -> str:
    return f'<collision><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{geometry}</geometry></collision>'


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str = "", more: str = "") -> str:
    if kind == "revolute" and "limit" not in inside:
        inside += '<limit lower="-1" upper="2" effort="3" velocity="4"/>'
    return (
        f'<joint name="{name}" type="{kind}" {more}><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="0 0 1"/>{inside}</joint>'
    )


def robot(*parts: str) -> str:
    return f'<robot name="made_up">{"".join(parts)}</robot>'


@pytest.fixture
def load(tmp_path):
    """Write a URDF and load it."""

    def written(text: str, **options) -> AssetModel:
        (tmp_path / "robot.urdf").write_text(text)
        return load_asset(str(tmp_path), "robot.urdf", AssetOptions(**options))

    return written


def inertia_of(asset: AssetModel, body: int) -> Inertial:
    model = asset.model
    return inertia.from_moments(
        model.body_mass[body + 1], model.body_ipos[body + 1], model.body_inertia[body + 1], model.body_iquat[body + 1]
    )


ONE = mass(1)
DOG = robot(
    *(link(name, ONE) for name in ("trunk", "FR_hip", "FR_foot", "FL_hip", "FL_foot", "tail", "eye")),
    joint("j_FR", "trunk", "FR_hip"),
    joint("j_FR_foot", "FR_hip", "FR_foot", "fixed", more='dont_collapse="true"'),
    joint("j_FL", "trunk", "FL_hip"),
    joint("j_FL_foot", "FL_hip", "FL_foot", "prismatic", '<limit lower="0" upper="1" effort="1" velocity="1"/>'),
    joint("a_tail", "trunk", "tail", "continuous"),
    joint("b_eye", "trunk", "eye", "fixed"),
)
"""A root with four joints, declared in another order than that of their names."""


def test_children_are_counted_in_alphabetical_order_of_their_joints(load):
    asset = load(DOG)
    assert asset.bodies == ("trunk", "tail", "eye", "FL_hip", "FL_foot", "FR_hip", "FR_foot")
    assert asset.joints == ("a_tail", "b_eye", "j_FL", "j_FL_foot", "j_FR", "j_FR_foot")
    assert asset.dofs == ("a_tail", "j_FL", "j_FL_foot", "j_FR")
    assert [asset.model.body(i + 1).name for i in range(7)] == list(asset.bodies)
    assert asset.model.nv == 4


def test_collapse_merges_fixed_joints_except_those_that_must_stay(load):
    asset = load(DOG, collapse_fixed_joints=True)
    assert asset.bodies == ("trunk", "tail", "FL_hip", "FL_foot", "FR_hip", "FR_foot")
    assert asset.joints == ("a_tail", "j_FL", "j_FL_foot", "j_FR", "j_FR_foot")
    assert asset.model.body_mass[1] == pytest.approx(2)
    assert asset.model.body_mass.sum() == pytest.approx(7)


def test_collapse_adds_mass_centre_and_inertia(load):
    """Two balls of 1 and 3 kg, 2 m apart along y: the common centre is 1.5 m from the first."""
    fixed = joint("f", "a", "b", "fixed", '<origin xyz="0 2 0" rpy="0 0 1.5707963267948966"/>')
    second = mass(3, moments="1 2 2.5") + shape('<sphere radius="1"/>', "1 0 0")
    asset = load(robot(link("a", ONE), link("b", second), fixed), collapse_fixed_joints=True)
    assert asset.bodies == ("a",)
    merged = inertia_of(asset, 0)
    assert merged.mass == pytest.approx(4)
    np.testing.assert_allclose(merged.com, [0, 1.5, 0], atol=1e-9)
    # b's x and y moments change places; by Steiner, 1 * 1.5^2 + 3 * 0.5^2 = 3 about x and z
    np.testing.assert_allclose(merged.tensor, np.diag([1 + 2 + 3, 1 + 1, 1 + 2.5 + 3]), atol=1e-9)
    np.testing.assert_allclose(asset.model.geom_pos[0], [0, 3, 0], atol=1e-9)


def test_collapse_moves_what_hangs_below_a_merged_link(load):
    inner = joint("f", "a", "b", "fixed", '<origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/>')
    outer = joint("g", "b", "c", "revolute", '<origin xyz="1 0 0"/>')
    asset = load(robot(link("a", ONE), link("b", ONE), link("c", ONE), inner, outer), collapse_fixed_joints=True)
    assert asset.bodies == ("a", "c")
    np.testing.assert_allclose(asset.model.body_pos[2], [1, 1, 0], atol=1e-9)
    np.testing.assert_allclose(asset.model.body_quat[2], [math.sqrt(0.5), 0, 0, math.sqrt(0.5)], atol=1e-9)


def test_a_merged_link_keeps_the_place_of_its_joint_in_the_order(load):
    parts = [link(name, ONE) for name in ("root", "frame", "z", "m")]
    joints = joint("b_frame", "root", "frame", "fixed"), joint("z_in_frame", "frame", "z"), joint("m_own", "root", "m")
    assert load(robot(*parts, *joints), collapse_fixed_joints=True).dofs == ("z_in_frame", "m_own")


def test_inertia_is_turned_into_the_axes_of_the_link(load):
    asset = load(robot(link("a", mass(2, "0.1 0.2 0.3", moments="1 2 2.5", rpy="0 0 1.5707963267948966"))))
    given = inertia_of(asset, 0)
    np.testing.assert_allclose(given.com, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(given.tensor, np.diag([2, 1, 2.5]), atol=1e-9)


def test_products_of_inertia_are_kept(load):
    asset = load(robot(link("a", mass(1, moments="2 3 4", products="0.1 0.2 0.3"))))
    expected = [[2, 0.1, 0.2], [0.1, 3, 0.3], [0.2, 0.3, 4]]
    np.testing.assert_allclose(inertia_of(asset, 0).tensor, expected, atol=1e-9)


def test_a_link_without_inertial_has_the_density_of_the_options(load):
    asset = load(robot(link("a", shape('<box size="1 2 3"/>', "0 0 1"))), density=10)
    own = inertia_of(asset, 0)
    assert own.mass == pytest.approx(60)
    np.testing.assert_allclose(own.com, [0, 0, 1])
    np.testing.assert_allclose(own.tensor, np.diag([60 * 13 / 12, 60 * 10 / 12, 60 * 5 / 12]))
    assert any("density" in note for note in asset.notes)


def test_a_link_may_have_its_own_density(load):
    text = robot(link("a", '<inertial><density value="2"/></inertial>' + shape('<box size="1 1 1"/>')))
    assert load(text).model.body_mass[1] == pytest.approx(2)


def test_mass_without_inertia_takes_the_shape_of_the_collision(load):
    given = '<inertial><mass value="12"/></inertial>' + shape('<box size="1 2 3"/>', "0 0 1")
    own = inertia_of(load(robot(link("a", given))), 0)
    assert own.mass == pytest.approx(12)
    np.testing.assert_allclose(own.com, [0, 0, 1], err_msg="the centre is that of the shape")
    np.testing.assert_allclose(own.tensor, np.diag([13, 10, 5]))
    at = '<inertial><mass value="12"/><origin xyz="0 0 0.5"/></inertial>' + shape('<box size="1 2 3"/>', "0 0 1")
    np.testing.assert_allclose(inertia_of(load(robot(link("a", at))), 0).com, [0, 0, 0.5])


def test_inertia_of_zeros_counts_as_missing(load):
    own = inertia_of(load(robot(link("a", mass(12, moments="0 0 0") + shape('<box size="1 2 3"/>')))), 0)
    np.testing.assert_allclose(own.tensor, np.diag([13, 10, 5]))


def test_the_first_of_repeated_inertials_counts(load):
    assert load(robot(link("a", mass(2) + mass(3)))).model.body_mass[1] == 2


def test_a_link_without_mass_and_shape_gets_a_tiny_mass(load):
    asset = load(robot(link("a"), link("b"), joint("j", "a", "b")))
    np.testing.assert_allclose(asset.model.body_mass[1:], inertia.TINY_MASS)
    assert "a, b: no mass" in asset.notes[-1]


def test_a_mass_without_shape_and_inertia_is_a_small_ball(load):
    own = inertia_of(load(robot(link("a", '<inertial><mass value="2"/></inertial>'))), 0)
    np.testing.assert_allclose(own.tensor, 0.02 * np.eye(3))


def test_an_impossible_inertia_is_replaced_by_the_nearest_possible_one(load):
    asset = load(robot(link("a", mass(1, moments="1 1 4")), link("b", mass(1, moments="-1 1 1")), joint("j", "a", "b")))
    np.testing.assert_allclose(np.sort(asset.model.body_inertia[1]), [2, 2, 4], rtol=1e-9)
    assert (asset.model.body_inertia[2] > 0).all()
    assert "a, b: inertia of no real body" in asset.notes[-1]


def test_overrides_take_centre_and_inertia_from_the_shapes(load):
    text = robot(link("a", mass(12, "5 5 5", "7 7 7") + shape('<box size="1 2 3"/>', "0 0 1")))
    both = inertia_of(load(text, override_com=True, override_inertia=True), 0)
    np.testing.assert_allclose(both.com, [0, 0, 1])
    np.testing.assert_allclose(both.tensor, np.diag([13, 10, 5]))
    assert both.mass == pytest.approx(12)
    centre = inertia_of(load(text, override_com=True), 0)
    np.testing.assert_allclose(centre.com, [0, 0, 1])
    np.testing.assert_allclose(centre.tensor, np.diag([7, 7, 7]))


def test_shapes_have_the_lengths_of_the_file(load):
    shapes = (
        shape('<box size="1 2 3"/>'),
        shape('<sphere radius="0.5"/>'),
        shape('<cylinder radius="0.1" length="0.8"/>', rpy="0 1.5707963267948966 0"),
        shape('<capsule radius="0.2" length="0.6"/>'),
    )
    model = load(robot(link("a", "".join(shapes) + ONE))).model
    kinds = [mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_") for kind in model.geom_type]
    assert kinds == ["BOX", "SPHERE", "CYLINDER", "CAPSULE"]
    np.testing.assert_allclose(model.geom_size, [[0.5, 1, 1.5], [0.5, 0, 0], [0.1, 0.4, 0], [0.2, 0.3, 0]])
    axis = np.zeros(3)
    mujoco.mju_rotVecQuat(axis, np.array([0.0, 0, 1]), model.geom_quat[2])
    np.testing.assert_allclose(axis, [1, 0, 0], atol=1e-9)


def test_cylinders_become_capsules_if_asked(load):
    model = load(
        robot(link("a", ONE + shape('<cylinder radius="0.1" length="0.8"/>'))), replace_cylinder_with_capsule=True
    ).model
    assert model.geom_type[0] == int(mujoco.mjtGeom.mjGEOM_CAPSULE)
    np.testing.assert_allclose(model.geom_size[0], [0.1, 0.4, 0])


@pytest.mark.parametrize(
    "name",
    ["cube.obj", "package://robot/meshes/cube.obj", "../other/cube.obj", "package://meshes/cube.obj", "file://{}"],
)
def test_meshes_are_found_and_scaled(tmp_path, name):
    folders = ["robots/urdf", "robots/robot/meshes", "robots/other", "meshes"]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    place = {"cube.obj": "robots/urdf", "package://robot/meshes/cube.obj": "robots/robot/meshes"}
    folder = tmp_path / place.get(name, "robots/other" if ".." in name else "meshes")
    (folder / "cube.obj").write_text(CUBE)
    mesh = f'<mesh filename="{name.format(folder / "cube.obj")}" scale="1 2 3"/>'
    (tmp_path / "robots/urdf/r.urdf").write_text(robot(link("a", shape(mesh))))
    asset = load_asset(str(tmp_path), "robots/urdf/r.urdf", AssetOptions(density=10))
    own = inertia_of(asset, 0)
    assert own.mass == pytest.approx(60)
    np.testing.assert_allclose(own.com, [0.5, 1, 1.5])
    np.testing.assert_allclose(own.tensor, np.diag([60 * 13 / 12, 60 * 10 / 12, 60 * 5 / 12]), rtol=1e-6)
    assert asset.shapes == (0,)


def test_meshes_above_a_relative_root_are_found(tmp_path, monkeypatch):
    (tmp_path / "urdf").mkdir()
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes/cube.obj").write_text(CUBE)
    (tmp_path / "urdf/r.urdf").write_text(robot(link("a", shape('<mesh filename="package://r/meshes/cube.obj"/>'))))
    monkeypatch.chdir(tmp_path / "urdf")
    assert load_asset(".", "r.urdf", AssetOptions()).model.nmesh == 1


def test_a_mesh_of_several_links_is_kept_once(load, tmp_path):
    (tmp_path / "cube.obj").write_text(CUBE)
    same = shape('<mesh filename="cube.obj"/>')
    large = shape('<mesh filename="cube.obj" scale="2 2 2"/>')
    assert load(robot(link("a", same), link("b", same + large), joint("j", "a", "b"))).model.nmesh == 2


def test_flat_and_ascii_meshes_load(load, tmp_path):
    (tmp_path / "flat.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n")
    facets = "".join(
        f"facet normal 0 0 0\nouter loop\n{corners}endloop\nendfacet\n"
        for corners in (
            "vertex 0 0 0\nvertex 0 1 0\nvertex 1 0 0\n",
            "vertex 0 0 0\nvertex 1 0 0\nvertex 0 0 1\n",
            "vertex 0 0 0\nvertex 0 0 1\nvertex 0 1 0\n",
            "vertex 1 0 0\nvertex 0 1 0\nvertex 0 0 1\n",
        )
    )
    (tmp_path / "ascii.stl").write_text(f"solid corner\n{facets}endsolid corner\n")
    meshes = shape('<mesh filename="flat.obj"/>') + shape('<mesh filename="ascii.stl"/>')
    asset = load(robot(link("a", meshes)), density=6)
    assert asset.model.body_mass[1] == pytest.approx(6 * (1e-3 + 1 / 6), rel=1e-3)
    assert any("flat_0 is flat" in note for note in asset.notes)


LIMITED = '<limit lower="-0.5" upper="0.7" effort="30" velocity="8"/><dynamics damping="0.2" friction="0.1"/>'
DOFS = robot(
    *(link(name, ONE) for name in "abcdef"),
    joint("j1", "a", "b", inside=LIMITED),
    joint("j2", "b", "c", "continuous", '<limit effort="9" velocity="7"/>'),
    joint("j3", "c", "d", "prismatic", '<limit lower="0" upper="0" effort="1" velocity="2"/>'),
    joint("j4", "d", "e", "continuous"),
    joint("j5", "e", "f", inside='<limit lower="2" upper="-1"/><mimic joint="j1"/>'),
)


def test_dof_properties_are_those_of_the_file(load):
    asset = load(DOFS, default_dof_drive_mode=1, armature=0.01)
    rows = dict(zip(asset.dofs, asset.dof_properties, strict=True))
    assert rows["j1"].tolist() == pytest.approx((True, -0.5, 0.7, 1, 8, 30, 0, 0.2, 0.1, 0.01))
    assert rows["j2"].tolist() == pytest.approx((False, -NO_LIMIT, NO_LIMIT, 1, 7, 9, 0, 0, 0, 0.01))
    assert rows["j3"]["lower"] < 0 < rows["j3"]["upper"]
    assert rows["j4"]["effort"] == np.float32(NO_LIMIT)
    assert rows["j4"]["velocity"] == 100
    assert (rows["j5"]["lower"], rows["j5"]["upper"]) == (-1, 2)
    assert any("mimic" in note for note in asset.notes)
    model = asset.model
    np.testing.assert_allclose(model.jnt_range[0], [-0.5, 0.7])
    np.testing.assert_allclose(model.dof_armature, 0.01)
    np.testing.assert_allclose(model.dof_damping[0], 0.2)
    np.testing.assert_allclose(model.dof_frictionloss[0], 0.1)
    assert model.jnt_limited.tolist() == [1, 0, 1, 0, 1]
    assert model.jnt_type[2] == int(mujoco.mjtJoint.mjJNT_SLIDE)


def test_armature_may_go_to_the_links_instead(load):
    asset = load(DOFS, armature=0.01, use_physx_armature=False)
    np.testing.assert_allclose(asset.model.body_inertia[1:], 1.01)
    np.testing.assert_allclose(asset.dof_properties["armature"], 0)


def test_gravity_may_be_off_for_an_asset(load):
    assert load(DOFS, disable_gravity=True).model.body_gravcomp[1:].tolist() == [1] * 6
    assert load(DOFS).model.body_gravcomp[1:].tolist() == [0] * 6


def test_a_link_called_world_keeps_its_name_for_task_code(load):
    asset = load(robot(link("world"), link("base", ONE), joint("j", "world", "base", "fixed")), fix_base_link=True)
    assert asset.bodies == ("world", "base")
    assert not asset.floating


def test_options_are_copied(load):
    options = AssetOptions()
    asset = box(1, 1, 1, options)
    options.fix_base_link = True
    assert asset.floating


def test_boxes_spheres_and_capsules():
    made = box(1, 2, 3, AssetOptions(density=10))
    assert made.bodies == ("box",)
    assert made.model.body_mass[1] == pytest.approx(60)
    np.testing.assert_allclose(np.sort(made.model.body_inertia[1]), [25, 50, 65])
    assert made.file is None
    assert made.shape_properties[0].friction == 1
    ball = sphere(0.5)
    assert ball.model.body_mass[1] == pytest.approx(1000 * math.pi / 6)
    pill = capsule(0.1, 0.4)
    axis = np.zeros(3)
    mujoco.mju_rotVecQuat(axis, np.array([0.0, 0, 1]), pill.model.geom_quat[0])
    np.testing.assert_allclose(axis, [1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(pill.model.geom_size[0], [0.1, 0.2, 0])
    for wrong in (lambda: box(1, 0, 1), lambda: sphere(math.nan), lambda: capsule(0.1, -1)):
        with pytest.raises(UserError, match="larger than 0"):
            wrong()


TWO = link("a", ONE) + link("b", ONE)
AB, BA = joint("j", "a", "b"), joint("k", "b", "a")
WITHOUT_A_LINK = joint("j", "a", "bb")
NEGATIVE = joint("j", "a", "b", inside='<limit lower="0" upper="1" effort="-1"/>')
NOT_A_NUMBER = joint("j", "a", "b", inside='<limit lower="nan" upper="1"/>')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<robot", r"line 1, column 0: invalid XML"),
        ("<mujoco/>", r"<mujoco>: a URDF file begins with <robot>"),
        (robot(), r"it has no <link>"),
        (robot(TWO), r"2 links have no parent \(a, b\)"),
        (robot(TWO, AB, BA), r"no link is the root"),
        (robot(TWO, link("c"), AB, BA), r"link a: its joints form a loop \(a, b\)"),
        (robot(TWO, link("c"), AB, joint("k", "c", "b"), joint("l", "a", "c")), r"link b: .* 2 joints \(j, k\)"),
        (robot(TWO, WITHOUT_A_LINK), r"joint j <child>: link bb does not exist\. Did you mean b\?"),
        (robot(TWO, joint("j", "a", "b", "revolut")), r"joint j: type revolut .* Did you mean revolute\?"),
        (robot(TWO, joint("j", "a", "b", "floating")), r"joint j: type floating has no counterpart\. Allowed: rev"),
        (robot(TWO, joint("j", "a", "b", "planar")), r"joint j: type planar has no counterpart"),
        (robot(TWO, link("c"), AB, joint("j", "a", "c")), r"joint j: 2 joints have this name"),
        (robot(TWO, link("a")), r"link a: each link needs a name of its own"),
        (robot(link("a", shape('<cone radius="1"/>'))), r"link a <collision>: <cone> is no known geometry\. Al"),
        (robot(link("a", "<collision/>")), r"link a <collision>: it has no geometry"),
        (robot(link("a", shape('<box size="1 2"/>'))), r"link a <collision> <box>: size='1 2': 3 finite numbers"),
        (robot(link("a", shape('<sphere radius="-1"/>'))), r"lengths must be larger than 0"),
        (robot(link("a", shape("<sphere/>"))), r"<sphere>: radius=None: 1 finite number expected"),
        (robot(link("a", shape('<sphere radius="1"/>', "0 nan 0"))), r"link a <collision> <origin>: xyz='0 nan 0'"),
        (robot(link("a", mass(-1))), r"link a <mass>: value=-1: it must not be negative"),
        (robot(link("a", mass(1, moments="inf 1 1"))), r"link a <inertia>: ixx='inf'"),
        (robot(link("a", mass(1, moments="x 1 1"))), r"link a <inertia>: ixx='x'"),
        (robot(TWO, NEGATIVE), r"joint j <limit>: effort=-1: it must not be negative"),
        (robot(TWO, NOT_A_NUMBER), r"joint j <limit>: lower='nan'"),
        (robot(link("a", shape('<mesh filename="gone.stl"/>'))), r"(?s)<mesh>: mesh gone\.stl not found.*Searched:.*g"),
        (robot(link("a", shape("<mesh/>"))), r"link a <collision> <mesh>: it has no filename"),
    ],
)
def test_what_cannot_be_an_asset_is_refused_by_name(load, text, says):
    with pytest.raises(UserError, match=says) as error:
        load(text)
    assert "robot.urdf" in error.value.message


def test_an_axis_without_direction_is_refused(load):
    text = robot(TWO, joint("j", "a", "b").replace("0 0 1", "0 0 0"))
    with pytest.raises(UserError, match="joint j <axis>: it has no direction"):
        load(text)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.stl", b"no mesh at all" * 20, "neither a binary STL file nor one in ASCII"),
        ("a.stl", b"", "neither a binary STL file nor one in ASCII"),
        ("a.stl", b"\0" * 84, "at least 4 vertices"),
        ("a.stl", b"solid\nvertex nan 0 0\nvertex 1 0 0\nvertex 0 1 0\nvertex 0 0 1", "vertices are not finite"),
        ("a.obj", b"\0\1\2", "at least 4 vertices"),
        ("a.ply", b"ply\nformat", "collides"),
        ("a.glb", b"glTF\1\2", "collides"),
    ],
    ids=["text", "empty", "no triangle", "nan", "bytes", "half a ply", "half a glb"],
)
def test_damaged_meshes_are_refused_by_name(load, tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=says) as error:
        load(robot(link("a", shape(f'<mesh filename="{name}"/>'))))
    assert "robot.urdf" in error.value.message


def test_formats_that_mujoco_does_not_know_are_read_by_trimesh(load, tmp_path):
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.ply")
    asset = load(robot(link("a", shape('<mesh filename="box.ply" scale="2 1 1"/>'))), density=1)
    assert asset.model.body_mass[1] == pytest.approx(12)


def test_a_mesh_of_an_unknown_format_is_refused(load, tmp_path):
    (tmp_path / "a.dae").write_text("no mesh")
    with pytest.raises(UserError, match=r"a\.dae collides, .* Convert it to \.obj"):
        load(robot(link("a", shape('<mesh filename="a.dae"/>'))))


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("gone.urdf", "no such file"),
        ("robot.usd", r"\.usd is no asset\. Allowed: \.urdf, \.xml, \.mjcf\. USD needs"),
        ("robot.txt", r"\.txt is no asset"),
        ("robot", "no extension is no asset"),
    ],
)
def test_files_that_are_no_assets_are_refused(tmp_path, file, says):
    with pytest.raises(UserError, match=says) as error:
        load_asset(str(tmp_path), file, AssetOptions())
    assert str(Path(tmp_path, file)) in error.value.message


SHAPED = robot(
    link("a", shape('<box size="1 2 3"/>') + shape('<cylinder radius="1" length="2"/>')),
    link("b", mass(1) + shape('<sphere radius="1"/>')),
    joint("j", "a", "b", "fixed"),
)


@pytest.mark.filterwarnings("ignore:Inertia matrix is too close to singular")
@settings(max_examples=120, deadline=None)
@given(st.sampled_from([DOG, DOFS, SHAPED]).flatmap(damaged), st.booleans())
def test_a_damaged_file_is_refused_or_loads_with_finite_numbers(tmp_path_factory, text, fixed):
    refused_or_finite(tmp_path_factory.getbasetemp() / "robot.urdf", text, fixed)
