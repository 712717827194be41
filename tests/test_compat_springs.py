"""Tendons and attractors are implicit springs: their steps against the closed form, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from livegym.compat.core import attractors, properties, sensors, tendons
from livegym.compat.core.asset import box, sphere
from livegym.compat.core.enums import AXIS_ALL, AXIS_ROTATION, AXIS_TRANSLATION, AXIS_X
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, AttractorProperties, Quat, Transform, Vec3
from livegym.compat.isaacgym import gymapi
from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

H = 0.01
gym = gymapi.acquire_gym()
CARTS = """
<mujoco>
  <worldbody>
    <body name="base">
      <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <body name="a">
        <joint name="a" type="slide" axis="1 0 0"/>
        <inertial mass="0.3" pos="0 0 0" diaginertia="0.01 0.01 0.01"/>
        {inside}
      </body>
      {beside}
    </body>
  </worldbody>
  <tendon>
    <fixed name="t" limited="true" range="-0.05 0.05" stiffness="2" damping="0.5">
      <joint joint="a" coef="1"/><joint joint="b" coef="-2"/>
    </fixed>
  </tendon>
</mujoco>
"""
CART = """
<body name="b">
  <joint name="b" type="slide" axis="1 0 0"/>
  <inertial mass="0.2" pos="0 0 0" diaginertia="0.01 0.01 0.01"/>
</body>
"""
MASSES = {"chain": np.array([[0.5, 0.2], [0.2, 0.2]]), "branches": np.diag([0.3, 0.2])}
ALONG = np.array([1.0, -2.0])
GAIN = 0.5
"""1 over the product of both coefficients: a stiffness is that of the joints."""


def carts(folder, shape: str = "chain"):
    """Two carts, one on the other or beside it, with a tendon of length a - 2 b."""
    chain = shape == "chain"
    return scenes.asset(
        folder, CARTS.format(inside=CART if chain else "", beside="" if chain else CART), fix_base_link=True
    )


def implicit(mass, position, velocity, terms):
    """The velocity after an implicit step with springs (stiffness, damping, where force is 0, active)."""
    matrix, force = mass.copy(), np.zeros(2)
    length, speed = ALONG @ position, ALONG @ velocity
    for each, damper, rest in terms:
        stiffness, damping = GAIN * each, GAIN * damper
        matrix += np.outer(ALONG, ALONG) * (H * damping + H * H * stiffness)
        force -= ALONG * (stiffness * (length - rest) + (damping + H * stiffness) * speed)
    return velocity + H * np.linalg.solve(matrix, force)


def with_tendon(asset, **values):
    """Change the asset's tendon through gymapi."""
    records = gym.get_asset_tendon_properties(asset)
    for name, value in values.items():
        setattr(records[0], name, value)
    assert gym.set_asset_tendon_properties(asset, records)
    return asset


def put(sim: Sim, position, velocity) -> None:
    sim.engine.qpos[:], sim.engine.qvel[:] = position, velocity
    sim.engine.moved()


@pytest.mark.parametrize(("stiffness", "damping"), [(0.0, 0.4), (30.0, 0.0), (1e4, 5.0), (1e7, 1e3)])
def test_a_tendon_is_an_implicit_spring(tmp_path, stiffness, damping):
    """Of an asset whose properties were set before its actors were created; a tendon has no limit by default."""
    asset = with_tendon(carts(tmp_path), stiffness=stiffness, damping=damping, fixed_spring_rest_length=0.02)
    sim = scenes.scene(asset, 2, gravity=0.0)
    put(sim, [0.1, -0.1], [0.3, -0.2])
    for _ in range(4):
        q, v = sim.engine.qpos[0].copy(), sim.engine.qvel[0].copy()
        sim.simulate()
        expected = implicit(MASSES["chain"], q, v, [(stiffness, damping, np.float32(0.02))])
        np.testing.assert_allclose(sim.engine.qvel, [expected] * 2, rtol=1e-6, atol=1e-6)


def test_stiffness_is_that_of_the_joints_whatever_their_coefficients(tmp_path):
    """Coefficients of 0.01 and -0.01: a torsional spring of 30 between the joints, not of 30 * 0.01^2."""
    text = CARTS.format(inside=CART, beside="").replace('coef="1"', 'coef="0.01"').replace('"-2"', '"-0.01"')
    asset = with_tendon(scenes.asset(tmp_path, text, fix_base_link=True), stiffness=30.0, damping=0.4)
    sim = scenes.scene(asset, 1, gravity=0.0)
    put(sim, [0.1, -0.1], [0.3, -0.2])
    sim.simulate()
    along = np.array([1.0, -1.0])
    matrix = MASSES["chain"] + np.outer(along, along) * (H * 0.4 + H * H * 30.0)
    force = -along * (30.0 * 0.2 + (0.4 + H * 30.0) * 0.5)
    expected = np.array([0.3, -0.2]) + H * np.linalg.solve(matrix, force)
    np.testing.assert_allclose(sim.engine.qvel[0], expected, rtol=1e-6)


def test_a_tendon_between_branches_is_an_explicit_spring(tmp_path):
    asset = with_tendon(carts(tmp_path, "branches"), stiffness=30.0, damping=0.4)
    sim = scenes.scene(asset, 1, gravity=0.0)
    put(sim, [0.1, -0.1], [0.3, -0.2])
    sim.simulate()
    force = -GAIN * (30.0 * 0.3 + 0.4 * 0.7)
    expected = np.array([0.3, -0.2]) + H * np.array([force / 0.3, -2 * force / 0.2])
    np.testing.assert_allclose(sim.engine.qvel[0], expected, rtol=1e-6)


@pytest.mark.parametrize("shape", ["chain", "branches"])
@pytest.mark.parametrize("limit", [3.0, 300.0, 3e4])
def test_the_limit_of_a_tendon_is_an_implicit_spring(tmp_path, shape, limit):
    asset = with_tendon(carts(tmp_path, shape), stiffness=0.0, damping=0.0, limit_stiffness=limit)
    sim = scenes.scene(asset, 1, gravity=0.0)
    put(sim, [0.1, -0.1], [0.3, -0.2])  # length 0.3, limit 0.05
    sim.simulate()
    expected = implicit(MASSES[shape], np.array([0.1, -0.1]), np.array([0.3, -0.2]), [(limit, 0.0, 0.05)])
    np.testing.assert_allclose(sim.engine.qvel[0], expected, rtol=1e-4)
    put(sim, [0.0, 0.0], [0.3, -0.2])  # within the limits
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel[0], [0.3, -0.2], rtol=1e-9)


@pytest.mark.parametrize("changes", [{"limit_stiffness": 0.0}, {"is_fixed_limited": False}])
def test_a_tendon_without_limit_stiffness_or_limits_has_none(tmp_path, changes):
    asset = with_tendon(carts(tmp_path), **({"stiffness": 0.0, "damping": 0.0, "limit_stiffness": 50.0} | changes))
    sim = scenes.scene(asset, 1, gravity=0.0)
    put(sim, [0.1, -0.1], [0.3, -0.2])
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel[0], [0.3, -0.2], rtol=1e-9)


def test_tendons_of_an_asset_count_for_actors_created_later(tmp_path):
    asset = carts(tmp_path)
    sim = scenes.scene(asset, 1, gravity=0.0)
    with_tendon(asset, stiffness=40.0)
    env = sim.add_env(Vec3(), Vec3(), 1)
    env.add(asset, scenes.pose(), "late", 0, 0)
    assert [gym.get_actor_tendon_properties(each, 0)[0].stiffness for each in sim.envs] == [2.0, 40.0]
    stiffness = [sim.engine.batch.get_model(i).tendon_stiffness.item() for i in range(2)]
    assert stiffness == pytest.approx([GAIN * 2.0, GAIN * 40.0])


def test_a_tendon_changes_while_it_runs_and_with_the_mass(tmp_path):
    """Environment 1 has another spring and limit, and later another mass: its steps are still the closed form."""
    asset = with_tendon(carts(tmp_path), stiffness=0.0, damping=0.0, limit_stiffness=100.0)
    sim = scenes.scene(asset, 3, gravity=0.0)
    sim.compile()
    env = sim.envs[1]
    records = gym.get_actor_tendon_properties(env, 0)
    records[0].limit_stiffness, records[0].damping = 700.0, 0.2
    gym.set_actor_tendon_properties(env, 0, records)
    mass = MASSES["chain"]
    start = np.array([0.1, -0.1]), np.array([0.3, -0.2])
    plain = implicit(mass, *start, [(100.0, 0.0, 0.05)])
    put(sim, *start)
    sim.simulate()
    changed = implicit(mass, *start, [(700.0, 0.0, 0.05), (0.0, 0.2, 0.0)])
    np.testing.assert_allclose(sim.engine.qvel, [plain, changed, plain], rtol=1e-4)
    for each in (1, 2):
        bodies = properties.get_bodies(sim.envs[each].actors[0])
        bodies[2].mass = 20.0
        properties.set_bodies(sim, sim.envs[each].actors[0], bodies, True)
    put(sim, *start)
    sim.simulate()
    heavy = mass + 19.8
    expected = [
        plain,
        implicit(heavy, *start, [(700.0, 0.0, 0.05), (0.0, 0.2, 0.0)]),
        implicit(heavy, *start, [(100.0, 0.0, 0.05)]),
    ]
    np.testing.assert_allclose(sim.engine.qvel, expected, rtol=1e-4)


@pytest.mark.parametrize("stiffness", [0.0, 5e3])
def test_inverse_weights_follow_a_tendon_that_changes_while_it_runs(tmp_path, stiffness):
    """By hand: M = [[0.5, 0.2], [0.2, 0.2]] + [1, -2]^T [1, -2] h^2 k / 2, and the weights are those of its inverse.

    The rest is what a scene has that is compiled with this tendon.
    """
    asset = with_tendon(carts(tmp_path), stiffness=100.0, damping=0.0, limit_stiffness=50.0)
    sim = scenes.scene(asset, 3, gravity=0.0)
    sim.compile()
    actor = sim.envs[1].actors[0]
    records = tendons.get(actor)
    records[0].stiffness = stiffness
    tendons.put(sim, actor, records)
    for row, each in enumerate([100.0, stiffness, 100.0]):
        model = sim.engine.batch.get_model(row)
        inverse = np.linalg.inv(MASSES["chain"] + np.outer(ALONG, ALONG) * H * H * GAIN * each)
        np.testing.assert_allclose(model.tendon_invweight0, [ALONG @ inverse @ ALONG], rtol=1e-9)
        np.testing.assert_allclose(model.dof_invweight0, np.diag(inverse), rtol=1e-9)
    own = with_tendon(carts(tmp_path), stiffness=stiffness, damping=0.0, limit_stiffness=50.0)
    compiled = scenes.scene(own, 1, gravity=0.0)
    for each in (sim, compiled):
        put(each, [0.1, -0.1], [0.3, -0.2])
        each.simulate()
    model = sim.engine.batch.get_model(1)
    for field in ("body_invweight0", "tendon_solref_lim", "tendon_solimp_lim"):
        np.testing.assert_allclose(getattr(model, field), getattr(compiled.engine.model, field), rtol=1e-9)
    np.testing.assert_allclose(sim.engine.qvel[1], compiled.engine.qvel[0], rtol=1e-9)


def test_what_makes_a_tendon_implicit_is_neither_mass_nor_force(tmp_path):
    """Mass matrix without it; the DOF force is mass times acceleration."""
    sim = scenes.scene(with_tendon(carts(tmp_path), stiffness=5e3, damping=20.0), 1, gravity=0.0)
    put(sim, [0.1, -0.1], [0.3, -0.2])
    matrix = sensors.mass_matrix(sim.engine, sim.engine.layout.actors[0])
    np.testing.assert_allclose(matrix[0], MASSES["chain"], atol=1e-9)
    force = sim.tensors.acquire("dof_force")
    sim.simulate()
    sim.tensors.refresh("dof_force")
    acceleration = (sim.engine.qvel[0] - [0.3, -0.2]) / H
    np.testing.assert_allclose(force.numpy(), MASSES["chain"] @ acceleration, rtol=1e-5)


def test_the_springs_of_tendons_come_back_with_a_snapshot(tmp_path):
    sim = scenes.scene(with_tendon(carts(tmp_path), limit_stiffness=100.0), 2, gravity=0.0)
    env = sim.envs[1]
    bodies = properties.get_bodies(env.actors[0])
    bodies[1].mass = 2.0
    sim.compile()
    properties.set_bodies(sim, env.actors[0], bodies, True)
    put(sim, [0.1, -0.1], [0.3, -0.2])
    kept = sim.engine.snapshot()
    sim.simulate()
    first = sim.engine.qvel.copy()
    other = scenes.scene(with_tendon(carts(tmp_path), limit_stiffness=100.0), 2, gravity=0.0)
    other.engine.restore(kept)
    other.simulate()
    np.testing.assert_array_equal(other.engine.qvel, first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda records: records.clear(), "has 1 tendons; 0 records were given"),
        (lambda records: setattr(records[0], "damping", -1.0), r"Tendon 0 of .*: damping=-1.0. It must be a number"),
        (lambda records: setattr(records[0], "limit_stiffness", np.inf), "limit_stiffness=inf"),
    ],
)
def test_bad_records_of_tendons_are_refused(tmp_path, change, message):
    asset = carts(tmp_path)
    sim = scenes.scene(asset, 1)
    records = gym.get_asset_tendon_properties(asset)
    change(records)
    with pytest.raises(UserError, match=message):
        gym.set_asset_tendon_properties(asset, records)
    with pytest.raises(UserError, match=message):
        tendons.put(sim, sim.envs[0].actors[0], records)


# attractors


def attracted(asset, axes: int, stiffness: float, damping: float, target: Transform, num_envs: int = 1) -> Sim:
    sim = Sim(scenes.params(gravity=0.0))
    for _ in range(num_envs):
        env = sim.add_env(Vec3(), Vec3(), 1)
        env.add(asset, scenes.pose(z=1.0), "thing")
        wanted = AttractorProperties(axes=axes, stiffness=stiffness, damping=damping, rigid_handle=0, target=target)
        assert gym.create_rigid_body_attractor(env, wanted) == 0
    return sim


def ball() -> AssetOptions:
    return sphere(0.1, AssetOptions(angular_damping=0.0))


@pytest.mark.parametrize(("stiffness", "damping"), [(50.0, 2.0), (0.0, 30.0), (2e4, 0.0)])
def test_an_attractor_is_an_implicit_spring(stiffness, damping):
    target = np.array([0.1, -0.2, 1.3])
    sim = attracted(ball(), AXIS_TRANSLATION, stiffness, damping, scenes.pose(*target), 2)
    bodies = properties.get_bodies(sim.envs[1].actors[0])
    bodies[0].mass *= 7.0
    properties.set_bodies(sim, sim.envs[1].actors[0], bodies, True)
    sim.engine.qvel[:, :3] = [0.5, 0.4, -0.3]
    mass = 1000 * 4 / 3 * np.pi * 0.1**3 * np.array([[1.0], [7.0]])
    for _ in range(3):
        x, v = sim.engine.qpos[:, :3].copy(), sim.engine.qvel[:, :3].copy()
        sim.simulate()
        pull = stiffness * (target - x) - (damping + H * stiffness) * v
        expected = v + H * pull / (mass + H * damping + H * H * stiffness)
        np.testing.assert_allclose(sim.engine.qvel[:, :3], expected, rtol=1e-4, atol=1e-6)


def test_an_attractor_of_all_axes_turns_the_body_as_a_torsional_spring():
    """A small angle about z: I a = -K angle - D w, implicit."""
    angle, stiffness, damping = 0.02, 40.0, 0.5
    goal = Transform(Vec3(0, 0, 1.0), Quat(0, 0, np.sin(angle / 2), np.cos(angle / 2)))
    brick = box(0.4, 0.2, 0.1, AssetOptions(angular_damping=0.0))
    sim = attracted(brick, AXIS_ALL, stiffness, damping, goal)
    sim.simulate()
    inertia = 8.0 * (0.4**2 + 0.2**2) / 12
    expected = H * stiffness * angle / (inertia + H * damping + H * H * stiffness)
    assert sim.engine.qvel[0, 5] == pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(sim.engine.qvel[0, :5], 0.0, atol=1e-6)


def test_a_stiff_attractor_holds_a_body_against_gravity():
    sim = attracted(ball(), AXIS_TRANSLATION, 5e7, 5e3, scenes.pose(z=1.0))
    sim.engine.set_gravity([0, 0, -9.81])
    for _ in range(100):
        sim.simulate()
    assert sim.engine.qpos[0, 2] == pytest.approx(1.0, abs=1e-4)
    assert sim.engine.finite().all()


@pytest.mark.parametrize(("axes", "stiffness"), [(0, 100.0), (AXIS_TRANSLATION, 0.0)])
def test_an_attractor_without_axes_or_gains_pulls_at_nothing(axes, stiffness):
    sim = attracted(ball(), axes, stiffness, 0.0, scenes.pose(x=1.0))
    assert sim.engine.model.neq == 0
    sim.simulate()
    assert not sim.engine.qvel.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": AXIS_X}, r"axes=1\. Allowed: AXIS_TRANSLATION \(7\), AXIS_ALL \(63\), or 0"),
        ({"axes": AXIS_ROTATION}, "axes=56"),
        ({"rigid_handle": -1}, "rigid_handle=-1; environment 0 has 1 bodies"),
        ({"rigid_handle": 1}, "rigid_handle=1;"),
        ({"stiffness": -1.0}, r"stiffness=-1\.0\. It must be a number of at least 0"),
        ({"damping": np.nan}, "damping=nan"),
    ],
)
def test_attractors_that_mujoco_lacks_are_refused(changes, message):
    sim = Sim(scenes.params())
    env = sim.add_env(Vec3(), Vec3(), 1)
    env.add(ball(), scenes.pose(), "ball")
    wanted = AttractorProperties(**({"axes": AXIS_TRANSLATION, "rigid_handle": 0, "stiffness": 1.0} | changes))
    with pytest.raises(UserError, match=message):
        attractors.add(env, wanted)
    assert env.attractors == []


def test_forces_are_added_to_those_of_an_attractor():
    """Static balance: 5 N against 100 N/m give 5 cm."""
    sim = attracted(ball(), AXIS_TRANSLATION, 100.0, 30.0, scenes.pose(z=1.0))
    for _ in range(300):
        sim.tensors.apply_forces(torch.tensor([[5.0, 0.0, 0.0]]), None, False)
        sim.simulate()
    assert sim.engine.qpos[0, 0] == pytest.approx(0.05, rel=1e-3)
