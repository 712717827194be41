"""Jacobians, mass matrices and damping against the velocities of bodies, and setters of scenes with several actors."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
import torch

from livegym.compat.core import properties, sensors
from livegym.compat.core.asset import box, load_asset, sphere
from livegym.compat.core.drives import EFFORT, POS
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, Vec3
from tests import compat_scenes as scenes

H = 0.01
ENVS = 3


def zoo(folder) -> Sim:
    """A free walker, a box, a fixed walker and a second free walker in each environment, far from one another."""
    (folder / "free").mkdir()
    (folder / "fixed").mkdir()
    free = scenes.asset(folder / "free", scenes.WALKER)
    fixed = scenes.asset(folder / "fixed", scenes.WALKER, fix_base_link=True)
    cube = box(0.2, 0.1, 0.1, AssetOptions())
    sim = Sim(scenes.params(gravity=0.0))
    for _ in range(ENVS):
        env = sim.add_env(Vec3(), Vec3(), 1)
        for number, (asset, name) in enumerate(((free, "a"), (cube, "cube"), (fixed, "held"), (free, "b"))):
            env.add(asset, scenes.pose(x=3.0 * number), name, 0, 0)
    return sim


def stirred(sim: Sim, seed: int) -> np.ndarray:
    """Random root and DOF states through the tensors; returns the velocities (actors, 6) of the roots."""
    random = np.random.default_rng(seed)
    root, dof = sim.tensors.acquire("root").clone(), sim.tensors.acquire("dof").clone()
    root[:, 3:] = torch.from_numpy(random.normal(size=(len(root), 10))).float()
    root[:, 3:7] /= root[:, 3:7].norm(dim=1, keepdim=True)
    dof[:] = torch.from_numpy(random.normal(size=dof.shape)).float()
    sim.tensors.set_root(root, sim.tensors.all_actors())
    sim.tensors.set_dofs(dof, sim.tensors.all_actors())
    return root.view(ENVS, -1, 13)[:, :, 7:].double().numpy()


def generalised(sim: Sim, slot, roots: np.ndarray, handle: int) -> np.ndarray:
    """(N, columns) the root's velocity as its state shows it, if it is free, then the DOFs'."""
    dofs = sim.tensors.acquire("dof").view(ENVS, -1, 2)
    sim.tensors.refresh("dof")
    own = dofs[:, slot.dofs, 1].double().numpy()
    return own if slot.qvel < 0 else np.concatenate([roots[:, handle], own], 1)


def test_jacobian_times_velocity_is_what_the_body_states_show(tmp_path):
    sim = zoo(tmp_path)
    roots = stirred(sim, 7)
    body = sim.tensors.acquire("body").view(ENVS, -1, 13).double().numpy()
    shapes = {0: (3, 8), 1: (1, 6), 2: (2, 2), 3: (3, 8)}  # links (a fixed base has no rows), columns
    for handle, slot in enumerate(sim.engine.layout.actors):
        jacobian = sensors.jacobian(sim.engine, slot)
        assert jacobian.shape == (ENVS, shapes[handle][0], 6, shapes[handle][1])
        velocity = generalised(sim, slot, roots, handle)
        shown = body[:, slot.bodies.stop - 1 - shapes[handle][0] : slot.bodies.stop - 1, 7:]
        np.testing.assert_allclose(np.einsum("nlrk,nk->nlr", jacobian, velocity), shown, atol=1e-5)


def test_half_the_mass_matrix_between_velocities_is_the_kinetic_energy(tmp_path):
    """Sum over bodies of m v^2 / 2 and w I w / 2, with masses that differ between environments, and drives."""
    sim = zoo(tmp_path)
    for env, handle in itertools.product(sim.envs, (0, 2, 3)):
        props = properties.get_dofs(env.actors[handle])
        props["driveMode"], props["stiffness"], props["damping"], props["armature"] = POS, 1e5, 10.0, 0.0
        properties.set_dofs(sim, env.actors[handle], props)
    records = properties.get_bodies(sim.envs[1].actors[0])
    records[0].mass, records[2].mass = 5.0, 1.5
    properties.set_bodies(sim, sim.envs[1].actors[0], records, True)
    roots = stirred(sim, 3)
    body = sim.tensors.acquire("body").view(ENVS, -1, 13).double().numpy()
    for handle, slot in enumerate(sim.engine.layout.actors):
        matrix = sensors.mass_matrix(sim.engine, slot)
        velocity = generalised(sim, slot, roots, handle)
        energy = np.zeros(ENVS)
        for env, (link, at) in itertools.product(
            range(ENVS), enumerate(range(slot.bodies.start - 1, slot.bodies.stop - 1))
        ):
            record = properties.get_bodies(sim.envs[env].actors[handle])[link]
            turn = scenes.rotation_matrix(body[env, at, 3:7])
            linear, angular = body[env, at, 7:10], turn.T @ body[env, at, 10:]
            energy[env] += 0.5 * (record.mass * linear @ linear + angular @ record.inertia.to_matrix() @ angular)
        np.testing.assert_allclose(0.5 * np.einsum("ni,nij,nj->n", velocity, matrix, velocity), energy, rtol=1e-5)
        np.testing.assert_allclose(matrix, matrix.transpose(0, 2, 1), atol=1e-12)
        assert (np.linalg.eigvalsh(matrix) > 0).all()


def test_the_mass_matrix_of_a_free_box_is_written_down(tmp_path):
    """2 kg of 0.2 x 0.1 x 0.1 m, turned by 90 degrees about z: its long axis is along y."""
    sim = zoo(tmp_path)
    state = sim.tensors.acquire("root").clone()
    state[1, 3:7] = torch.tensor([0.0, 0.0, 0.5**0.5, 0.5**0.5])
    sim.tensors.set_root(state, np.array([1]))
    matrix = sensors.mass_matrix(sim.engine, sim.engine.layout.actors[1])
    thick, thin = 2.0 * (0.2**2 + 0.1**2) / 12, 2.0 * (0.1**2 + 0.1**2) / 12
    np.testing.assert_allclose(matrix[0], np.diag([2, 2, 2, thick, thin, thick]), atol=1e-7)
    np.testing.assert_allclose(matrix[1], np.diag([2, 2, 2, thin, thick, thick]), atol=1e-7)


def test_the_mass_matrix_has_the_armature_of_joints_and_none_of_drives(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER, fix_base_link=True), 2)
    for env in sim.envs:
        props = properties.get_dofs(env.actors[0])
        props["driveMode"], props["stiffness"], props["damping"], props["armature"] = POS, 1e5, 10.0, 0.25
        properties.set_dofs(sim, env.actors[0], props)
    matrix = sensors.mass_matrix(sim.engine, sim.engine.layout.actors[0])
    model = sim.envs[0].actors[0].asset.model
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    np.testing.assert_allclose(matrix, [full + np.diag([0.25, 0.25])] * 2, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mass", [None, 10.0])
def test_a_free_body_is_damped_by_its_own_mass(mass):
    """v / (1 + h d) whatever it weighs, and with a mass of its own in one environment."""
    options = AssetOptions()
    options.linear_damping, options.angular_damping = 3.0, 5.0
    sim = Sim(scenes.params(gravity=0.0))
    for _ in range(2):
        sim.add_env(Vec3(), Vec3(), 1).add(box(0.3, 0.2, 0.1, options), scenes.pose(), "box")
    if mass:
        actor = sim.envs[1].actors[0]
        records = properties.get_bodies(actor)
        records[0].mass = mass
        properties.set_bodies(sim, actor, records, True)
    sim.engine.qvel[:] = [1.0, 0, 0, 0, 2.0, 0]
    sim.simulate()
    expected = [1 / (1 + H * 3.0), 0, 0, 0, 2 / (1 + H * 5.0), 0]
    np.testing.assert_allclose(sim.engine.qvel, [expected] * 2, rtol=1e-5, atol=1e-9)


def test_setters_reach_the_actors_that_are_named_and_no_others(tmp_path):
    """Roots, DOFs and targets of any set of actors, in any order, against a loop over the actors."""
    sim = zoo(tmp_path)
    stirred(sim, 1)
    engine, layout = sim.engine, sim.engine.layout
    for env, handle in itertools.product(sim.envs, (0, 2, 3)):
        props = properties.get_dofs(env.actors[handle])
        props["driveMode"] = EFFORT
        properties.set_dofs(sim, env.actors[handle], props)
    random = np.random.default_rng(5)
    for ids in ([5], [11, 0], [2, 6, 10], [7, 4, 3, 9], list(range(12))):
        before = {name: sim.tensors.acquire(name).clone() for name in ("root", "dof")}
        for name in before:
            sim.tensors.refresh(name)
            before[name] = sim.tensors.acquire(name).clone()
        ctrl = engine.ctrl.copy()
        root = before["root"] + torch.from_numpy(random.normal(size=before["root"].shape)).float()
        root[:, 3:7] /= root[:, 3:7].norm(dim=1, keepdim=True)
        dof = torch.from_numpy(random.normal(size=before["dof"].shape)).float()
        force = torch.from_numpy(random.normal(size=len(dof))).float()
        sim.tensors.set_root(root, np.array(ids))
        sim.tensors.set_dofs(dof, np.array(ids))
        sim.tensors.set_targets(EFFORT, force, np.array(ids))
        for name in before:
            sim.tensors.refresh(name)
        for index in range(12):
            env, handle = divmod(index, 4)
            slot = layout.actors[handle]
            now = sim.tensors.acquire("root")[index]
            wanted = (root if index in ids else before["root"])[index].clone()
            if handle == 2:
                wanted[7:] = 0.0  # a fixed base has no velocity
            torch.testing.assert_close(now, wanted, rtol=1e-5, atol=1e-5)
            rows = slice(env * layout.dofs + slot.dofs.start, env * layout.dofs + slot.dofs.stop)
            assert torch.equal(sim.tensors.acquire("dof")[rows], (dof if index in ids else before["dof"])[rows])
            given = force[rows].numpy() if index in ids else ctrl[env, slot.dofs]
            np.testing.assert_array_equal(engine.ctrl[env, slot.dofs], given)


def test_a_fixed_base_that_moves_carries_its_links_and_what_lies_on_it(tmp_path):
    """The table of environment 1 is lowered by 0.3 m, turned upside down with its leg in environment 2."""
    leg = scenes.asset(tmp_path, scenes.WALKER, fix_base_link=True)
    table = box(1.0, 1.0, 0.1, AssetOptions(fix_base_link=True))
    cube = box(0.1, 0.1, 0.1, AssetOptions())
    sim = Sim(scenes.params())
    for _ in range(ENVS):
        env = sim.add_env(Vec3(), Vec3(), 1)
        for asset, place in ((table, scenes.pose(z=0.5)), (cube, scenes.pose(z=0.6)), (leg, scenes.pose(x=5.0, z=2.0))):
            env.add(asset, place, "thing", 0, 0)
    body = sim.tensors.acquire("body").view(ENVS, -1, 13)
    before = body.clone()
    root = sim.tensors.acquire("root").clone()
    root[3, 2] -= 0.3
    root[8, 3:7] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # half a turn about x
    sim.tensors.set_root(root, np.array([3, 8]))
    sim.tensors.refresh("body")
    assert torch.equal(body[:2, 2:], before[:2, 2:])
    offset = before[2, 2:, :3] - before[2, 2, :3]
    torch.testing.assert_close(body[2, 2:, :3], before[2, 2, :3] + offset * torch.tensor([1.0, -1.0, -1.0]))
    for _ in range(100):
        sim.simulate()
    sim.tensors.refresh("body")
    assert body[:, 1, 2].tolist() == pytest.approx([0.6, 0.3, 0.6], abs=2e-3)
    assert not body[:, 0, 7:].any()


def test_a_link_may_be_called_world(tmp_path):
    """MuJoCo keeps that name, and URDF files use it for the base."""
    path = tmp_path / "arm.urdf"
    link = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    path.write_text(
        f'<robot name="arm"><link name="world">{link}</link><link name="arm">{link}</link>'
        '<joint name="turn" type="continuous"><parent link="world"/><child link="arm"/>'
        '<axis xyz="0 0 1"/></joint></robot>'
    )
    for fixed in (True, False):
        options = AssetOptions(fix_base_link=fixed, disable_gravity=True)
        sim = scenes.scene(load_asset(str(tmp_path), "arm.urdf", options), 1, at=scenes.pose(z=1.0))
        sim.simulate()
        assert sim.tensors.acquire("body")[:, 2].tolist() == [1.0, 1.0]


def test_balls_of_two_assets_are_told_apart():
    sim = Sim(scenes.params(gravity=0.0))
    env = sim.add_env(Vec3(), Vec3(), 1)
    for radius in (0.1, 0.2):
        env.add(sphere(radius, AssetOptions()), scenes.pose(x=radius * 10), "ball", 0, 0)
    masses = 1000 * 4 / 3 * np.pi * np.array([0.1, 0.2]) ** 3
    found = [sensors.mass_matrix(sim.engine, slot)[0, 0, 0] for slot in sim.engine.layout.actors]
    np.testing.assert_allclose(found, masses, rtol=1e-9)
