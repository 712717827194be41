"""Values of Isaac Gym's task code: algebra and inertia against MuJoCo's, strict records, real copies."""

from __future__ import annotations

import copy
import math
import pickle

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.compat.core import inertia, values
from livegym.compat.core.frames import Pose
from livegym.compat.core.inertia import Inertial
from livegym.compat.core.values import (
    AssetOptions,
    ContactCollection,
    DofDriveMode,
    DofState,
    Mat33,
    Mat44,
    PhysXParams,
    Quat,
    RigidBodyProperties,
    RigidBodyState,
    RigidShapeProperties,
    SimParams,
    Transform,
    Vec2,
    Vec3,
    Velocity,
)

NUMBERS = st.floats(-10, 10, allow_subnormal=False)
ANGLES = st.floats(-math.pi, math.pi, allow_subnormal=False)
VECTORS = st.builds(Vec3, NUMBERS, NUMBERS, NUMBERS)
ROTATIONS = st.builds(Quat.from_euler_zyx, ANGLES, ANGLES, ANGLES)
POSES = st.builds(Transform, VECTORS, ROTATIONS)


def wxyz(q: Quat) -> np.ndarray:
    return np.array([q.w, q.x, q.y, q.z])


def numbers(value) -> list[float]:
    return [n for part in value for n in (numbers(part) if not isinstance(part, float) else [part])]


def test_vectors_by_hand():
    a, b = Vec3(1, 2, 3), Vec3(4, 5, 6)
    assert a + b == Vec3(5, 7, 9)
    assert b - a == Vec3(3, 3, 3)
    assert a * 2 == 2 * a == Vec3(2, 4, 6)
    assert a / 2 == Vec3(0.5, 1, 1.5)
    assert -a == Vec3(-1, -2, -3)
    assert a.dot(b) == 32
    assert a.cross(b) == Vec3(-3, 6, -3)
    assert Vec3(3, 4, 0).length() == 5
    assert Vec3(3, 4, 0).length_sq() == 25
    assert Vec3(0, 0, 5).normalize() == Vec3(0, 0, 1)
    assert Vec3().normalize() == Vec3(), "not NaN"
    assert Vec2(1, 2) + Vec2(1, 1) == Vec2(2, 3)
    assert Vec2(4, 2) / 2 - Vec2(1, 1) == -Vec2(-1, 0) * 1


def test_a_quarter_turn_about_each_axis_by_hand():
    quarter = math.pi / 2
    s = math.sqrt(0.5)
    assert numbers(Quat.from_axis_angle(Vec3(0, 0, 7), quarter)) == pytest.approx([0, 0, s, s])
    assert numbers(Quat.from_euler_zyx(quarter, 0, 0)) == pytest.approx([s, 0, 0, s])
    assert numbers(Quat.from_euler_zyx(0, quarter, 0).rotate(Vec3(1, 0, 0))) == pytest.approx([0, 0, -1])
    x_then_z = Quat.from_euler_zyx(quarter, 0, quarter)  # y goes to z by x, and stays there
    assert numbers(x_then_z.rotate(Vec3(0, 1, 0))) == pytest.approx([0, 0, 1])
    assert numbers(x_then_z.rotate(Vec3(1, 0, 0))) == pytest.approx([0, 1, 0])
    assert Quat() == Quat(0, 0, 0, 1)
    assert Quat(0, 0, 0, 0).normalize() == Quat()
    assert Quat(0, 0, 0, 4).normalize() == Quat()


@given(ROTATIONS, ROTATIONS, VECTORS)
def test_quaternions_are_those_of_mujoco(a, b, v):
    product, turned = np.zeros(4), np.zeros(3)
    mujoco.mju_mulQuat(product, wxyz(a), wxyz(b))
    mujoco.mju_rotVecQuat(turned, np.array(list(v)), wxyz(a))
    np.testing.assert_allclose(wxyz(a * b), product, atol=1e-12)
    np.testing.assert_allclose(list(a.rotate(v)), turned, atol=1e-9)
    np.testing.assert_allclose(list((a * b).rotate(v)), list(a.rotate(b.rotate(v))), atol=1e-9)
    np.testing.assert_allclose(list(a.inverse().rotate(a.rotate(v))), list(v), atol=1e-9)


@given(ANGLES, ANGLES, ANGLES)
def test_euler_angles_come_back_as_the_same_rotation(x, y, z):
    q = Quat.from_euler_zyx(x, y, z)
    again = Quat.from_euler_zyx(*q.to_euler_zyx())
    assert abs(sum(m * n for m, n in zip(q, again, strict=True))) == pytest.approx(1, abs=1e-7)
    turned = np.zeros(4)
    mujoco.mju_euler2Quat(turned, np.array([x, y, z]), "XYZ")
    assert abs(wxyz(q) @ turned) == pytest.approx(1, abs=1e-9)


@given(POSES, POSES, VECTORS)
def test_poses_compose_and_undo_each_other(a, b, v):
    np.testing.assert_allclose(
        list((a * b).transform_point(v)), list(a.transform_point(b.transform_point(v))), atol=1e-8
    )
    np.testing.assert_allclose(list((a * a.inverse()).transform_point(v)), list(v), atol=1e-8)
    np.testing.assert_allclose(list(a.inverse().transform_point(a.transform_point(v))), list(v), atol=1e-8)
    assert a.transform_vector(v) == a.r.rotate(v)


def test_arrays_of_vectors_are_moved_one_by_one():
    pose = Transform(Vec3(0, 0, 1), Quat.from_euler_zyx(0, 0, math.pi / 2))
    points = np.array([(1, 0, 0), (0, 1, 0)], Vec3.dtype)
    moved = pose.transform_points(points)
    np.testing.assert_allclose(moved["x"], [0, -1], atol=1e-6)
    np.testing.assert_allclose(moved["z"], [1, 1])
    np.testing.assert_allclose(pose.transform_vectors(points)["z"], [0, 0])


def test_a_pose_keeps_copies_of_its_parts():
    p = Vec3(1, 2, 3)
    a = Transform(p)
    p.x = 9
    b = Transform()
    b.p = a.p
    b.p.z = 7
    assert list(a.p) == [1, 2, 3]
    assert list(b.p) == [1, 2, 7]


def test_layouts_are_float32_without_gaps():
    assert Vec3.dtype.names == ("x", "y", "z")
    assert Quat.dtype.names == ("x", "y", "z", "w")
    assert (Vec3.dtype.itemsize, Quat.dtype.itemsize, Transform.dtype.itemsize) == (12, 16, 28)
    assert values.BODY_STATE.itemsize == 52
    assert values.BODY_STATE["vel"].names == ("linear", "angular")
    assert values.DOF_STATE.names == ("pos", "vel")
    assert values.DOF_PROPERTIES.names == (
        "hasLimits", "lower", "upper", "driveMode", "velocity", "effort", "stiffness", "damping", "friction", "armature"
    )  # fmt: skip


def test_values_come_out_of_buffers():
    assert Vec3.from_buffer(np.array([1, 2, 3], np.float32)) == Vec3(1, 2, 3)
    state = np.zeros(2, RigidBodyState.dtype)
    state["pose"]["p"]["z"] = [4, 5]
    state["pose"]["r"]["w"] = 1
    first, second = RigidBodyState.from_buffer(state)
    assert first.pose == Transform(Vec3(0, 0, 4))
    assert second.pose.p.z == 5
    assert second.vel == Velocity()
    assert Transform.from_buffer(state["pose"][:1]) == first.pose
    np.testing.assert_array_equal(first.to_numpy(), np.array([0, 0, 4, 0, 0, 0, 1] + [0] * 6, np.float32))
    with pytest.raises(ValueError, match="multiple of 3"):
        Vec3.from_buffer(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    "value",
    [
        Vec3(1, 2, 3),
        Quat(0, 0, 1, 0),
        Transform(Vec3(1, 2, 3), Quat(1, 0, 0, 0)),
        Velocity(Vec3(1), Vec3(2)),
        Mat33.from_matrix(np.arange(9.0).reshape(3, 3)),
        DofState(1, 2),
        AssetOptions(density=3),
        SimParams(dt=0.01, gravity=Vec3(0, 0, -9.81)),
        RigidBodyProperties(mass=2, com=Vec3(1, 0, 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_can_be_copied_and_pickled(value):
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value
        assert again is not value
    assert type(value).__name__ in repr(value)


def test_a_copied_record_shares_nothing():
    params = SimParams()
    again = copy.copy(params)
    again.physx.num_threads = 7
    again.gravity.z = -1
    assert params.physx.num_threads == 0
    assert list(params.gravity) == pytest.approx([0, -9.8, 0])
    assert SimParams().physx is not SimParams().physx
    inner = PhysXParams(num_threads=3)
    params.physx = inner
    inner.num_threads = 9
    assert params.physx.num_threads == 3


def test_matrices():
    rows = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(Mat33.from_matrix(rows).to_matrix(), rows)
    matrix = Mat44()
    matrix.w.w = 1
    assert list(matrix.x) == [0, 0, 0, 0]
    assert copy.deepcopy(matrix).w == Quat(0, 0, 0, 1)
    assert pickle.loads(pickle.dumps(matrix)) == matrix


def test_records_refuse_unknown_names_and_name_the_nearest():
    options = AssetOptions()
    with pytest.raises(AttributeError, match=r"AssetOptions has no fix_base\. Did you mean fix_base_link\?"):
        options.fix_base = True
    with pytest.raises(AttributeError, match="Vec3 has no w"):
        Vec3().w = 1
    with pytest.raises(AttributeError, match="Transform has no q; it has p, r"):
        Transform().q = Quat()


def test_records_bring_values_to_the_type_of_their_field():
    shape = RigidShapeProperties()
    shape.friction = np.array([0.5], np.float32)
    shape.filter = np.array([3])
    assert shape == RigidShapeProperties(friction=0.5, filter=3)
    assert type(shape.friction) is float
    assert type(shape.filter) is int
    options = AssetOptions()
    options.default_dof_drive_mode = DofDriveMode.DOF_MODE_EFFORT
    options.fix_base_link = 1
    assert options.default_dof_drive_mode == 3
    assert options.fix_base_link is True
    physx = PhysXParams(contact_collection=1)
    assert physx.contact_collection is ContactCollection.CC_LAST_SUBSTEP
    vector = Vec3()
    vector.x = np.array([2.5])
    assert vector.x == 2.5


@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        (AssetOptions(), "density", "heavy"),
        (AssetOptions(), "density", np.zeros(3)),
        (AssetOptions(), "slices_per_cylinder", 1.5),
        (SimParams(), "gravity", (0, 0, -9.81)),
        (SimParams(), "up_axis", 7),
        (Transform(), "p", (0, 0, 0)),
    ],
)
def test_records_refuse_values_of_another_kind(record, field, value):
    with pytest.raises(TypeError, match=field):
        setattr(record, field, value)


def test_randomisation_reads_the_fields_of_a_record():
    assert dir(RigidShapeProperties())[:3] == ["compliance", "contact_offset", "filter"]


def test_names_of_task_code():
    names = values.constants()
    assert names["DOF_MODE_POS"] == 1
    assert names["CC_ALL_SUBSTEPS"] == 2
    assert names["AXIS_TRANSLATION"] == names["AXIS_X"] | names["AXIS_Y"] | names["AXIS_Z"]
    assert names["INVALID_HANDLE"] == -1
    assert names["UP_AXIS_Z"].name == "UP_AXIS_Z"
    assert len({names[key] for key in names if key.startswith("KEY_")}) > 100
    assert set(values.__all__) <= set(dir(values))


BOXES = st.tuples(*(st.tuples(number, number, number) for number in (st.floats(0.05, 2), NUMBERS, ANGLES)))
"""Half lengths, position and Euler angles."""


@settings(max_examples=40, deadline=None)
@given(st.lists(BOXES, min_size=2, max_size=4))
def test_merging_bodies_is_what_mujoco_makes_of_their_geoms(parts):
    """Boxes at any pose in one body: our sum of their inertias is the one that MuJoCo computes."""
    spec = mujoco.MjSpec()
    together = spec.worldbody.add_body()
    total = inertia.nothing()
    for half, pos, euler in parts:
        quat = np.zeros(4)
        mujoco.mju_euler2Quat(quat, np.array(euler), "XYZ")
        together.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half, pos=pos, quat=quat, density=1)
        own = 8 * math.prod(half)
        x, y, z = (own * length**2 / 3 for length in half)
        box_inertia = Inertial(own, np.zeros(3), np.diag([y + z, x + z, x + y]))
        total = total + box_inertia.seen_from(Pose(np.array(pos), quat))
    model = spec.compile()
    expected = inertia.from_moments(model.body_mass[1], model.body_ipos[1], model.body_inertia[1], model.body_iquat[1])
    assert total.mass == pytest.approx(expected.mass)
    np.testing.assert_allclose(total.com, expected.com, atol=1e-6)
    np.testing.assert_allclose(total.tensor, expected.tensor, atol=1e-6, rtol=1e-6)


SYMMETRIC = st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=6, max_size=6)


@settings(max_examples=60, deadline=None)
@given(SYMMETRIC, st.integers(-9, 0))
def test_any_inertia_becomes_one_that_mujoco_moves(entries, power):
    tensor = inertia.tensor_of(*entries) * 10.0**power
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body()
    body.add_freejoint()
    inertia.write(body, inertia.physical(Inertial(1.0, np.zeros(3), tensor)))
    assert (spec.compile().body_inertia[1] > 0).all()


@given(st.tuples(st.floats(0.1, 1), st.floats(0.1, 1), st.floats(0.1, 1)))
def test_a_possible_inertia_is_not_touched(weights):
    x, y, z = weights
    own = Inertial(1.0, np.zeros(3), np.diag([y + z, x + z, x + y]))
    assert inertia.physical(own) is own
