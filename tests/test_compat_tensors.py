"""The tensor interface: round trips, centre-of-mass velocities, indexed setters, forces of one step, sensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.compat.core import properties
from livegym.compat.core.asset import AssetModel, ForceSensor, box, sphere
from livegym.compat.core.drives import EFFORT, POS
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import (
    AssetOptions,
    ForceSensorProperties,
    PlaneParams,
    Transform,
    Vec3,
)
from tests import compat_scenes as scenes

H = 0.01


def walker(folder, **options) -> AssetModel:
    return scenes.asset(folder, scenes.WALKER, **options)


def random_root(random, count: int) -> torch.Tensor:
    """Root states (count, 13) with unit quaternions as near as float32 comes."""
    state = torch.from_numpy(random.normal(size=(count, 13))).float()
    state[:, 3:7] /= state[:, 3:7].norm(dim=1, keepdim=True)
    return state


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_root_and_dof_states_come_back_as_they_were_set(tmp_path_factory, seed):
    random = np.random.default_rng(seed)
    sim = scenes.scene(walker(tmp_path_factory.mktemp("walker")), 3)
    root, dof = sim.tensors.acquire("root"), sim.tensors.acquire("dof")
    wanted, joints = random_root(random, 3), torch.from_numpy(random.normal(size=dof.shape)).float()
    sim.tensors.set_root(wanted, sim.tensors.all_actors())
    sim.tensors.set_dofs(joints, sim.tensors.all_actors())
    for name in ("root", "dof"):
        sim.tensors.refresh(name)
    assert torch.equal(root[:, :7], wanted[:, :7])
    torch.testing.assert_close(root[:, 7:], wanted[:, 7:], rtol=1e-6, atol=1e-6)
    assert torch.equal(dof, joints)


def test_a_fixed_base_keeps_the_pose_that_is_set_and_has_no_velocity(tmp_path):
    sim = scenes.scene(walker(tmp_path, fix_base_link=True), 2)
    root = sim.tensors.acquire("root")
    wanted = random_root(np.random.default_rng(0), 2)
    sim.tensors.set_root(wanted, sim.tensors.all_actors())
    sim.simulate()
    sim.tensors.refresh("root")
    assert torch.equal(root[:, :7], wanted[:, :7])
    assert (root[:, 7:] == 0).all()


def test_tensors_change_only_at_refresh_and_share_their_memory(tmp_path):
    sim = scenes.scene(walker(tmp_path), 2)
    dof = sim.tensors.acquire("dof")
    view = dof.view(2, 2, 2)
    before = dof.clone()
    sim.simulate()
    sim.simulate()
    assert torch.equal(dof, before)
    sim.tensors.refresh("dof")
    assert not torch.equal(dof, before)
    assert view.data_ptr() == dof.data_ptr()
    assert sim.tensors.acquire("dof") is dof


def test_setters_leave_other_environments_bit_identical(tmp_path):
    sim = scenes.scene(walker(tmp_path), 5)
    sim.simulate()
    random = np.random.default_rng(3)
    ids = np.array([1, 3])
    others = [0, 2, 4]
    state = sim.engine.batch.state
    before = state[others].copy()
    sim.tensors.set_root(random_root(random, 5), ids)
    sim.tensors.set_dofs(torch.randn(10, 2), ids)
    sim.tensors.set_targets(EFFORT, torch.randn(10), ids)
    sim.tensors.acquire("body")
    sim.tensors.refresh("body")
    np.testing.assert_array_equal(state[others], before)
    assert (sim.engine.ctrl[ids] != 0).all()


def test_several_actors_have_their_own_rows():
    """Actor indices are those of the simulation: environment, then actor."""
    sim = Sim(scenes.params(gravity=0.0))
    ball, cube = sphere(0.1, AssetOptions()), box(0.1, 0.1, 0.1, AssetOptions())
    for _ in range(3):
        env = sim.add_env(Vec3(), Vec3(), 1)
        env.add(ball, scenes.pose(x=1.0), "ball", 0, 0)
        env.add(cube, scenes.pose(x=2.0), "cube", 0, 0)
    root = sim.tensors.acquire("root")
    assert root[:, 0].tolist() == [1, 2, 1, 2, 1, 2]
    wanted = root.clone()
    wanted[:, 2] = torch.arange(6)
    sim.tensors.set_root(wanted, np.array([1, 4]))
    sim.tensors.refresh("root")
    assert root[:, 2].tolist() == [0, 1, 0, 0, 4, 0]


def test_velocities_are_those_of_the_centres_of_mass(tmp_path):
    """Against finite differences of the centres' positions, for root and links; the walker's are all off-centre."""
    asset = walker(tmp_path)
    sim = scenes.scene(asset, 4, dt=1e-5, gravity=0.0)
    random = np.random.default_rng(5)
    sim.tensors.set_root(random_root(random, 4), sim.tensors.all_actors())
    sim.tensors.set_dofs(torch.from_numpy(random.uniform(-1, 1, (8, 2))).float(), sim.tensors.all_actors())
    body, root = sim.tensors.acquire("body"), sim.tensors.acquire("root")
    first = body.double().view(4, 3, 13).clone()
    start = sim.engine.kinematics("xipos")[:, 1:].copy()
    torch.testing.assert_close(root, body.view(4, 3, 13)[:, 0], rtol=1e-5, atol=1e-5)
    sim.simulate()
    moved = (sim.engine.kinematics("xipos")[:, 1:] - start) / 1e-5
    np.testing.assert_allclose(first[..., 7:10].numpy(), moved, atol=2e-4)
    sim.tensors.refresh("body")
    for env in range(4):
        for link in range(3):
            before, after = (
                scenes.rotation_matrix(rows.view(4, 3, 13)[env, link, 3:7].double().numpy()) for rows in (first, body)
            )
            turned = after @ before.T - np.eye(3)
            angular = np.array([turned[2, 1], turned[0, 2], turned[1, 0]]) / 1e-5
            np.testing.assert_allclose(first[env, link, 10:].numpy(), angular, atol=0.05)  # float32 quaternions


@pytest.mark.parametrize("local", [False, True])
def test_a_force_counts_for_one_step_only_at_the_centre_of_mass(tmp_path, local):
    """F / m of a free ball turned by 90 degrees about z; nothing in the second step."""
    sim = Sim(scenes.params(gravity=0.0, substeps=2))
    sim.add_env(Vec3(), Vec3(), 1).add(box(0.2, 0.1, 0.1, AssetOptions()), scenes.pose(), "box")
    state = sim.tensors.acquire("root").clone()
    state[0, 3:7] = torch.tensor([0.0, 0.0, 0.5**0.5, 0.5**0.5])
    sim.tensors.set_root(state, np.array([0]))
    sim.tensors.apply_forces(torch.tensor([[6.0, 0.0, 0.0]]), None, local)
    sim.simulate()
    gained = 6.0 / 2.0 * 0.01  # 2 kg
    expected = [0.0, gained, 0.0] if local else [gained, 0.0, 0.0]
    np.testing.assert_allclose(sim.engine.qvel[0, :3], expected, atol=1e-9)
    np.testing.assert_allclose(sim.engine.qvel[0, 3:], 0.0, atol=1e-9)
    sim.simulate()
    np.testing.assert_allclose(sim.engine.qvel[0, :3], expected, atol=1e-9)


def test_a_force_at_a_position_turns_the_body():
    sim = Sim(scenes.params(gravity=0.0))
    options = AssetOptions()
    options.angular_damping = 0.0
    sim.add_env(Vec3(), Vec3(), 1).add(box(0.2, 0.2, 0.2, options), scenes.pose(x=1.0), "box")
    force, at = torch.tensor([[0.0, 3.0, 0.0]]), torch.tensor([[1.1, 0.0, 0.0]])
    sim.tensors.apply_forces_at(force, at, False)
    sim.simulate()
    inertia = 8.0 * (0.2**2 + 0.2**2) / 12
    assert sim.engine.qvel[0, 1] == pytest.approx(3.0 / 8.0 * H)
    assert sim.engine.qvel[0, 5] == pytest.approx(0.1 * 3.0 / inertia * H, rel=1e-6)


def test_actuation_forces_stay_and_are_masked_by_the_mode(tmp_path):
    sim = scenes.scene(walker(tmp_path), 2)
    props = properties.get_dofs(sim.envs[1].actors[0])
    assert props["driveMode"].tolist() == [EFFORT, EFFORT]
    props["driveMode"][0] = POS
    props["stiffness"][0] = 1.0
    properties.set_dofs(sim, sim.envs[1].actors[0], props)
    sim.tensors.set_targets(EFFORT, torch.tensor([1.0, 2.0, 3.0, 4.0]))
    sim.tensors.set_targets(POS, torch.tensor([0.1, 0.2, 0.3, 0.4]))
    for _ in range(2):
        sim.simulate()
        np.testing.assert_allclose(sim.engine.ctrl, [[1, 2], [0.3, 4]], rtol=1e-6)


def standing_box(num_envs: int = 2) -> Sim:
    sim = Sim(scenes.params())
    sim.ground.plane = PlaneParams()
    sim.ground.plane.normal = Vec3(0, 0, 1)
    cube = box(0.2, 0.3, 0.1, AssetOptions())
    for flags in ((True, True), (False, True), (True, False)):
        properties_ = ForceSensorProperties()
        properties_.enable_forward_dynamics_forces, properties_.enable_constraint_solver_forces = flags
        cube.sensors.append(ForceSensor(0, Transform(Vec3(0.1, 0, 0)), properties_))
    for _ in range(num_envs):
        sim.add_env(Vec3(), Vec3(), 1).add(cube, scenes.pose(z=0.05), "box", 0, 0)
    return sim


def test_contact_forces_and_sensors_of_a_box_at_rest():
    """6 kg: 58.86 N from the ground; what moves it is 0; the constraint's torque at x = 0.1 is -z x force."""
    sim = standing_box()
    contact, sensor = sim.tensors.acquire("contact"), sim.tensors.acquire("sensor")
    for _ in range(100):
        sim.simulate()
    for name in ("contact", "sensor"):
        sim.tensors.refresh(name)
    weight = 6.0 * 9.81
    np.testing.assert_allclose(contact.numpy(), [[0, 0, weight]] * 2, atol=0.05)
    rows = sensor.view(2, 3, 6).numpy()
    np.testing.assert_allclose(rows[:, 0], 0.0, atol=0.05)
    np.testing.assert_allclose(rows[:, 1], [[0, 0, weight, 0, 0.1 * weight, 0]] * 2, atol=0.1)
    np.testing.assert_allclose(rows[:, 2], [[0, 0, -weight, 0, -0.1 * weight, 0]] * 2, atol=0.1)


def test_a_falling_body_feels_its_weight_as_the_force_that_moves_it():
    sim = standing_box(1)
    state = sim.tensors.acquire("root").clone()
    sensor = sim.tensors.acquire("sensor")
    state[0, 2] = 5.0
    sim.tensors.set_root(state, np.array([0]))
    sim.simulate()
    sim.tensors.refresh("sensor")
    np.testing.assert_allclose(sensor[0, :3].numpy(), [0, 0, -6.0 * 9.81], atol=1e-3)


def test_forces_of_a_step_survive_a_reset_of_other_environments():
    sim = standing_box(4)
    contact, body = sim.tensors.acquire("contact"), sim.tensors.acquire("body")
    for _ in range(60):
        sim.simulate()
    state = sim.tensors.acquire("root").clone()
    state[:, 2] = 7.0
    sim.tensors.set_root(state, np.array([1]))
    sim.tensors.refresh("body")
    sim.tensors.refresh("contact")
    assert body.view(4, 13)[:, 2].tolist() == pytest.approx([0.05, 7.0, 0.05, 0.05], abs=2e-3)
    np.testing.assert_allclose(contact[:, 2].numpy(), 6.0 * 9.81, atol=0.1)  # the last substep's, of all


def test_dof_limits_are_part_of_the_dof_force(tmp_path):
    """A slider pressed against its stop with 5 N: drive and limit add up to 0."""
    text = scenes.SLIDER.format(mass=1.0).replace('axis="1 0 0"', 'axis="1 0 0" range="-0.1 0.1" limited="true"')
    sim = scenes.scene(scenes.asset(tmp_path, text, fix_base_link=True), 1)
    sim.envs[0].actors[0].measures_dof_forces = True
    props = properties.get_dofs(sim.envs[0].actors[0])
    props["driveMode"] = EFFORT
    properties.set_dofs(sim, sim.envs[0].actors[0], props)
    force = sim.tensors.acquire("dof_force")
    sim.tensors.set_targets(EFFORT, torch.tensor([5.0]))
    sim.simulate()
    sim.tensors.refresh("dof_force")
    assert force[0] == pytest.approx(5.0, rel=1e-4)
    for _ in range(200):
        sim.simulate()
    sim.tensors.refresh("dof_force")
    assert sim.engine.qpos[0, 0] == pytest.approx(0.1, abs=1e-2)
    assert force[0] == pytest.approx(0.0, abs=1e-2)
