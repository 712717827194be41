"""The engine behind `isaacgym`: implicit drives against their closed form, collisions, properties, snapshots."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.compat.core import attractors, collision, properties, tendons
from livegym.compat.core.asset import box, sphere
from livegym.compat.core.collision import ShapeClass
from livegym.compat.core.drives import EFFORT, POS, VEL, coefficients
from livegym.compat.core.enums import AXIS_TRANSLATION
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import DOF_PROPERTIES, AssetOptions, AttractorProperties, PlaneParams, Vec3
from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

H = 0.01


def driven(folder, mass: float, cases: list[dict], substeps: int = 1):
    """A slider in each environment, with the drive of a case; no gravity along it."""
    sim = scenes.scene(
        scenes.asset(folder, scenes.SLIDER.format(mass=mass), fix_base_link=True), len(cases), substeps=substeps
    )
    for env, case in zip(sim.envs, cases, strict=True):
        props = properties.get_dofs(env.actors[0])
        props["hasLimits"], props["armature"] = False, 0.0
        for name, value in case.items():
            props[name] = value
        properties.set_dofs(sim, env.actors[0], props)
    return sim


def implicit_step(mass, q, v, target, kp, kd, limit, h=H):
    """Implicit Euler of a clamped drive: the force is that at the end of the step."""
    a = (kp * (target - q) - (kd + h * kp) * v) / (mass + h * kd + h * h * kp)
    return v + h * np.clip(a, -limit / mass, limit / mass)


@pytest.mark.parametrize("kp", [1.0, 1e2, 1e4, 1e6, 1e8])
def test_a_position_drive_is_implicit_euler(tmp_path, kp):
    kd = 0.1 * kp**0.5
    sim = driven(tmp_path, 0.3, [{"driveMode": POS, "stiffness": kp, "damping": kd, "effort": 0.0}] * 2)
    engine = sim.engine
    assert not engine.drives.limited
    engine.qpos[:, 0], engine.qvel[:, 0] = [0.2, -0.1], [1.0, -2.0]
    target = np.array([0.5, 0.4], np.float32)
    engine.drives.set_targets(POS, target[:, None])
    for _ in range(5):
        q, v = engine.qpos[:, 0].copy(), engine.qvel[:, 0].copy()
        expected = implicit_step(0.3, q, v, target, float(np.float32(kp)), float(np.float32(kd)), np.inf)
        sim.simulate()
        np.testing.assert_allclose(engine.qvel[:, 0], expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(engine.qpos[:, 0], q + H * expected, rtol=1e-8, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    kp=st.floats(0, 8).map(lambda x: 10.0**x),
    kd=st.floats(0, 1e3),
    mass=st.floats(0.11, 20),  # heavier than what is scaled, see below
    limit=st.floats(0.1, 1e3),
    q=st.floats(-2, 2),
    v=st.floats(-20, 20),
    target=st.floats(-2, 2),
)
def test_a_limited_drive_is_clamped_implicit_euler(tmp_path_factory, kp, kd, mass, limit, q, v, target):
    case = {"driveMode": POS, "stiffness": kp, "damping": kd, "effort": limit, "velocity": 1000.0}  # never reached
    sim = driven(tmp_path_factory.mktemp("drive"), mass, [case])
    engine = sim.engine
    engine.qpos[:], engine.qvel[:] = q, v
    engine.drives.set_targets(POS, np.full((1, 1), target))
    exact = [float(np.float32(x)) for x in (target, kp, kd, limit)]
    for _ in range(3):
        q, v = float(engine.qpos[0, 0]), float(engine.qvel[0, 0])
        expected = implicit_step(mass, q, v, *exact)
        sim.simulate()
        assert engine.qvel[0, 0] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_velocity_drive_is_implicit_and_clamped(tmp_path):
    kd, mass, limit = 50.0, 0.5, 3.0
    cases = [{"driveMode": VEL, "damping": kd, "stiffness": 7.0, "effort": effort} for effort in (0.0, limit)]
    sim = driven(tmp_path, mass, cases)
    engine = sim.engine
    engine.drives.set_targets(VEL, np.full((2, 1), 2.0))
    sim.simulate()
    free = H * kd * 2.0 / (mass + H * kd)
    np.testing.assert_allclose(engine.qvel[:, 0], [free, H * limit / mass], rtol=1e-9)


def test_the_force_of_a_limited_drive_is_reported_without_the_added_armature(tmp_path):
    cases = [{"driveMode": POS, "stiffness": 1e4, "damping": 1.0, "effort": effort} for effort in (0.0, 5.0)]
    sim = driven(tmp_path, 2.0, cases)
    force = sim.tensors.acquire("dof_force")
    sim.engine.drives.set_targets(POS, np.full((2, 1), 0.3))
    sim.simulate()
    sim.tensors.refresh("dof_force")
    np.testing.assert_allclose(force.numpy(), 2.0 * sim.engine.qvel[:, 0] / H, rtol=1e-5)  # m a
    assert force[1] == pytest.approx(5.0)


def test_several_limited_joints_agree_with_a_search_of_all_sides(tmp_path):
    """Two coupled joints: the answer of the iteration is the one combination of sides that fits its own result."""
    asset = scenes.asset(tmp_path, scenes.WALKER, fix_base_link=True)
    sim = scenes.scene(asset, 40)
    random = np.random.default_rng(0)
    for env in sim.envs:
        props = properties.get_dofs(env.actors[0])
        props["driveMode"], props["stiffness"], props["damping"], props["effort"] = POS, 300.0, 2.0, 4.0
        props["hasLimits"] = False
        properties.set_dofs(sim, env.actors[0], props)
    engine = sim.engine
    engine.qpos[:] = random.uniform(-1, 1, engine.qpos.shape)
    engine.qvel[:] = random.uniform(-3, 3, engine.qvel.shape)
    target = random.uniform(-1, 1, (40, 2))
    engine.drives.set_targets(POS, target)
    for _ in range(4):
        sim.simulate()
        needed = 300.0 * (target.astype(np.float32) - engine.qpos) - 2.0 * engine.qvel
        side = np.where(np.abs(needed) > 4.0, np.sign(needed), 0)
        assert (side == engine.drives.side).all()
    assert (engine.drives.side != 0).any()
    assert (engine.drives.side == 0).any()


def test_effort_mode_has_damping_and_stiffness_of_the_joint():
    props = np.zeros(1, DOF_PROPERTIES)
    props["driveMode"], props["stiffness"], props["damping"], props["armature"] = EFFORT, 3.0, 0.5, 0.02
    fields = coefficients(props, H)
    assert fields["jnt_stiffness"] == 3.0
    assert fields["dof_damping"] == 0.5
    assert fields["dof_armature"] == pytest.approx(0.02)
    assert fields["actuator_gainprm"] == 1.0


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1, 2, 3]), st.integers(0, 3)),
        min_size=2,
        max_size=12,
    )
)
def test_collision_classes_against_every_pair(shapes):
    shapes = [ShapeClass(actor, group, filter, bits, 1) for actor, group, filter, bits in shapes]
    encoded = collision.encode(shapes)
    for (a, (kind, affinity)), (b, (other, others)) in itertools.product(zip(shapes, encoded, strict=True), repeat=2):
        collide = bool((kind & others) | (other & affinity))
        same_group = a.group == b.group or -1 in (a.group, b.group)
        if a.actor == b.actor and a.filter == b.filter == -1:
            wanted = same_group and bool((a.contype & b.conaffinity) | (b.contype & a.conaffinity))
        else:
            wanted = same_group and (max(a.filter, 0) & max(b.filter, 0)) == 0
        assert collide == wanted, (a, b)


def test_too_many_classes_are_refused():
    shapes = [ShapeClass(0, 0, 1 << (i % 20) | 1 << (i % 17 + 3) | 1 << (i % 7), 1, 1) for i in range(200)]
    with pytest.raises(UserError, match="classes of collision"):
        collision.encode(shapes)


def stack(group_a: int, filter_a: int, group_b: int, filter_b: int, ground: bool = True) -> Sim:
    """Two boxes one above the other, dropped."""
    sim = Sim(scenes.params())
    if ground:
        sim.ground.plane = PlaneParams()
        sim.ground.plane.normal = Vec3(0, 0, 1)
    cube = box(0.2, 0.2, 0.2, AssetOptions())
    env = sim.add_env(Vec3(), Vec3(), 1)
    env.add(cube, scenes.pose(z=0.1), "low", group_a, filter_a)
    env.add(cube, scenes.pose(z=0.32), "high", group_b, filter_b)
    return sim


@pytest.mark.parametrize(
    ("groups", "rests"),
    [((0, 0, 0, 0), 0.3), ((0, 1, 0, 1), 0.1), ((0, 1, 0, 2), 0.3), ((0, 0, 1, 0), 0.1), ((0, 0, -1, 0), 0.3)],
)
def test_groups_and_filters_decide_where_a_box_rests(groups, rests):
    sim = stack(*groups)
    for _ in range(150):
        sim.simulate()
    assert sim.engine.qpos[0, 9] == pytest.approx(rests, abs=5e-3)
    assert sim.engine.qpos[0, 2] == pytest.approx(0.1, abs=5e-3)  # the ground touches every group


def test_filters_can_change_while_it_runs():
    sim = stack(0, 1, 0, 1)
    assert sim.engine.num_envs == 1
    high = sim.envs[0].actors[1]
    records = properties.get_shapes(high)
    records[0].filter = 2
    properties.set_shapes(sim, high, records)
    for _ in range(150):
        sim.simulate()
    assert sim.engine.qpos[0, 9] == pytest.approx(0.3, abs=5e-3)


@pytest.mark.parametrize(("own", "ground"), [(0.2, 1.0), (1.0, 0.2), (0.5, 0.5)])
def test_friction_is_the_mean_of_both(own, ground):
    """A box is pushed with mu m g -+ 3 %: it stays, or it slides with the difference."""
    sim = Sim(scenes.params())
    sim.ground.plane = PlaneParams()
    sim.ground.plane.normal = Vec3(0, 0, 1)
    sim.ground.plane.static_friction = sim.ground.plane.dynamic_friction = ground
    cube = box(0.4, 0.4, 0.1, AssetOptions())
    for _ in range(2):
        actor = sim.add_env(Vec3(), Vec3(), 1).add(cube, scenes.pose(z=0.05), "box", 0, 0)
        records = properties.get_shapes(actor)
        records[0].friction = own
        properties.set_shapes(sim, actor, records)
    for _ in range(50):
        sim.simulate()
    mass = 0.4 * 0.4 * 0.1 * 1000
    limit = 0.5 * (own + ground) * mass * 9.81
    start = sim.engine.qpos[:, 0].copy()
    force = torch.zeros(2, 3)
    force[:, :2] = torch.tensor([[0.97], [1.1]]) * limit * 0.5**0.5  # diagonally
    for _ in range(100):
        sim.tensors.apply_forces(force, None, False)
        sim.simulate()
    moved = np.linalg.norm(sim.engine.qpos[:, :2] - [[start[0], 0], [start[1], 0]], axis=1)
    assert moved[0] < 2e-3
    assert moved[1] == pytest.approx(0.5 * 0.1 * limit / mass, rel=0.1)  # 1 s of acceleration


def test_mass_scales_inertia_and_is_read_back_from_the_model(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 3)
    actor = sim.envs[1].actors[0]
    assert sim.engine.num_envs == 3
    records = properties.get_bodies(actor)
    assert records[0].mass == pytest.approx(3.0)
    records[0].mass = 6.0
    properties.set_bodies(sim, actor, records, recompute_inertia=True)
    model, other = sim.engine.batch.get_model(1), sim.engine.batch.get_model(0)
    assert model.body_mass[1] == pytest.approx(6.0)
    np.testing.assert_allclose(model.body_inertia[1], 2 * other.body_inertia[1], rtol=1e-5)
    np.testing.assert_allclose(model.body_inertia[2:], other.body_inertia[2:], rtol=1e-5)
    assert model.body_subtreemass[0] == pytest.approx(other.body_subtreemass[0] + 3.0)
    assert properties.get_bodies(actor)[0].inertia.x.x == pytest.approx(2 * 0.05, rel=1e-5)


def test_a_centre_of_mass_can_move(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 2)
    actor = sim.envs[0].actors[0]
    records = properties.get_bodies(actor)
    records[0].com = Vec3(0.3, 0.0, 0.0)
    properties.set_bodies(sim, actor, records, recompute_inertia=False)
    np.testing.assert_allclose(sim.engine.batch.get_model(0).body_ipos[1], [0.3, 0, 0], atol=1e-7)
    np.testing.assert_allclose(sim.engine.com(1)[1], [0.1, 0.02, -0.03], atol=1e-6)


def test_gravity_changes_while_it_runs(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 2)
    sim.simulate()
    sim.set_params(scenes.params(gravity=-1.0))
    before = sim.engine.qvel[:, 2].copy()
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel[:, 2] - before, -1.0 * H, rtol=1e-6)


def test_an_asset_can_float_without_gravity(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER, disable_gravity=True), 1)
    for _ in range(5):
        sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel, 0.0, atol=1e-9)


def test_a_free_ball_is_damped_as_asked():
    options = AssetOptions()
    options.linear_damping, options.angular_damping = 0.3, 0.5
    sim = Sim(scenes.params(gravity=0.0))
    sim.add_env(Vec3(), Vec3(), 1).add(sphere(0.1, options), scenes.pose(), "ball")
    sim.engine.qvel[:] = [1.0, 0, 0, 0, 2.0, 0]
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel[0, [0, 4]], [1 / (1 + H * 0.3), 2 / (1 + H * 0.5)], rtol=1e-6)


def test_roots_are_no_faster_than_their_asset_allows():
    options = AssetOptions()
    options.max_linear_velocity, options.max_angular_velocity = 2.0, 3.0
    options.angular_damping = 0.0
    sim = Sim(scenes.params(gravity=0.0))
    for _ in range(2):
        sim.add_env(Vec3(), Vec3(), 1).add(sphere(0.1, options), scenes.pose(), "ball")
    sim.engine.qvel[:] = [[3.0, 0, 4.0, 0, 1.0, 0], [1.0, 0, 0, 0, 0, -9.0]]
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel, [[1.2, 0, 1.6, 0, 1.0, 0], [1.0, 0, 0, 0, 0, -3.0]], atol=1e-9)


def test_dofs_are_no_faster_than_their_limit(tmp_path):
    sim = driven(tmp_path, 1.0, [{"velocity": 2.0}, {"velocity": 0.0}])
    sim.engine.qvel[:] = -5.0
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel[:, 0], [-2.0, -5.0], rtol=1e-9)  # 0 is no limit


def test_nothing_can_be_added_to_a_compiled_scene(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1)
    sim.compile()
    with pytest.raises(UserError, match="create_env after prepare_sim"):
        sim.add_env(Vec3(), Vec3(), 1)


def test_a_restored_snapshot_continues_identically(tmp_path):
    asset = scenes.asset(tmp_path, scenes.WALKER)
    sim = scenes.scene(asset, 4, at=scenes.pose(z=0.5), ground=True)
    for env in sim.envs:
        props = properties.get_dofs(env.actors[0])
        props["driveMode"], props["stiffness"], props["effort"] = POS, 200.0, 3.0
        properties.set_dofs(sim, env.actors[0], props)
    engine = sim.engine
    records = properties.get_bodies(sim.envs[2].actors[0])
    records[0].mass = 5.0
    properties.set_bodies(sim, sim.envs[2].actors[0], records, True)
    engine.drives.set_targets(POS, np.random.default_rng(1).uniform(-1, 1, (4, 2)))
    for _ in range(10):
        sim.simulate()
    kept = engine.snapshot()
    for _ in range(20):
        sim.simulate()
    first = engine.qpos.copy()
    engine.restore(kept)
    for _ in range(20):
        sim.simulate()
    np.testing.assert_array_equal(engine.qpos, first)


def test_a_snapshot_has_all_that_follows_from_a_centre_of_mass(tmp_path):
    """A body whose file has it at the origin is marked as such in the model, and MuJoCo would not look at another."""

    walker = scenes.asset(tmp_path, scenes.WALKER.replace("0.1 0.02 -0.03", "0 0 0"))

    def made() -> Sim:
        sim = scenes.scene(walker, 2, gravity=0.0)
        attractor = AttractorProperties(axes=AXIS_TRANSLATION, stiffness=400.0, damping=4.0, rigid_handle=0)
        attractor.target = scenes.pose(x=0.1)
        for env in sim.envs:
            attractors.add(env, attractor)
        return sim

    sim = made()
    sim.compile()
    records = properties.get_bodies(sim.envs[1].actors[0])
    records[0].com = Vec3(0.03, 0.02, 0.1)
    properties.set_bodies(sim, sim.envs[1].actors[0], records, False)
    for _ in range(10):
        sim.simulate()
    saved, fresh = sim.engine.snapshot(), made()
    fresh.engine.restore(saved)
    for row in range(2):
        here = scenes.model_arrays(fresh, row)
        for name, values in scenes.model_arrays(sim, row).items():
            np.testing.assert_array_equal(here[name], values, f"{name} of environment {row}")
    for one in (sim, fresh):
        for _ in range(10):
            one.simulate()
    np.testing.assert_array_equal(fresh.engine.qpos, sim.engine.qpos)


def uneven(sim: Sim, env: int, com: float = 0.1, product: float = 0.0) -> None:
    """Move the centre of mass of a box along x, or give it a product of inertia."""
    records = properties.get_bodies(sim.envs[env].actors[0])
    records[0].com = Vec3(com, 0.0, 0.0)
    records[0].inertia.x.y = records[0].inertia.y.x = product
    properties.set_bodies(sim, sim.envs[env].actors[0], records, False)


@pytest.mark.parametrize("changes", [{"com": 0.1}, {"com": 0.0, "product": 0.05}])
def test_a_free_box_may_have_its_mass_elsewhere_in_some_environments(changes):
    """MuJoCo takes such a box for one with a diagonal mass matrix, and refuses to change that later."""
    asset = box(0.2, 0.3, 0.4, AssetOptions(angular_damping=0.0))
    sim = scenes.scene(asset, 2, gravity=0.0)
    uneven(sim, 1, **changes)
    sim.engine.qvel[:, 3:] = [1.0, 2.0, 3.0]
    for _ in range(20):
        sim.simulate()
    assert np.abs(sim.engine.qvel[0] - sim.engine.qvel[1]).max() > 1e-3
    records = properties.get_bodies(sim.envs[0].actors[0])
    uneven(sim, 0, **changes)  # another one may follow
    properties.set_bodies(sim, sim.envs[0].actors[0], records, False)
    sim.simulate()


def test_the_first_one_is_refused_after_the_scene_was_compiled():
    sim = scenes.scene(box(0.2, 0.3, 0.4, AssetOptions()), 2)
    sim.compile()
    with pytest.raises(UserError, match="Body box of robot: another centre of mass, or other axes of inertia"):
        uneven(sim, 1)
    heavier = properties.get_bodies(sim.envs[1].actors[0])
    heavier[0].mass = 7.0
    properties.set_bodies(sim, sim.envs[1].actors[0], heavier, True)
    sim.simulate()


def test_two_simulations_are_independent(tmp_path):
    asset = scenes.asset(tmp_path, scenes.WALKER)
    one, two = scenes.scene(asset, 2), scenes.scene(asset, 2)
    two.compile()
    before = two.engine.qpos.copy()
    for _ in range(3):
        one.simulate()
    np.testing.assert_array_equal(two.engine.qpos, before)
    assert (one.frames, two.frames) == (3, 0)


def test_the_model_is_handed_to_viewers_as_xml(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1, ground=True)
    model = mujoco.MjModel.from_xml_string(sim.engine.model_xml())
    assert model.nq == sim.engine.model.nq


def test_environments_that_are_alike_have_nothing_to_write(tmp_path):
    """Actors without shapes or tendons, whose task sets them, have empty lists of their own."""
    sim = scenes.scene(scenes.asset(tmp_path, scenes.SLIDER.format(mass=1.0), fix_base_link=True), 3)
    for env in sim.envs:
        properties.set_shapes(sim, env.actors[0], properties.get_shapes(env.actors[0]))
        tendons.put(sim, env.actors[0], tendons.get(env.actors[0]))
    sim.compile()
    assert not any(sim.groups[0].changed.values())
