"""Environments of different make-up: engines by make-up, tensors of all of them, indices as in Isaac Gym."""

from __future__ import annotations

import re

import compat_scenes as scenes
import mujoco
import numpy as np
import pytest
import torch

from livegym.compat.core import attractors, properties, sensors
from livegym.compat.core.asset import box, sphere
from livegym.compat.core.drives import EFFORT
from livegym.compat.core.enums import AXIS_TRANSLATION
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, AttractorProperties, PlaneParams, Vec3
from livegym.compat.foreign.sim import ForeignSim
from livegym.compat.isaacgym import gymapi
from livegym.sim.recorder import StateRecorder
from livegym.utils.errors import UserError

H, G = 0.01, 9.81
GYM = gymapi.acquire_gym()


def simulation(ground: bool = False) -> Sim:
    sim = Sim(scenes.params())
    if ground:
        sim.ground.plane = PlaneParams(normal=Vec3(0.0, 0.0, 1.0))
    return sim


def add_env(sim: Sim, *assets, z: float = 1.0):
    env = sim.add_env(Vec3(), Vec3(), 1)
    for number, asset in enumerate(assets):
        env.add(asset, scenes.pose(x=float(number), z=z), f"a{number}", 0, 0)
    return env


def cube(edge: float):
    return box(edge, edge, edge, AssetOptions())


@pytest.fixture
def mixed(tmp_path) -> Sim:
    """A cube; an arm of two bodies on a rail, and a ball; a walker of three bodies; a cube."""
    slider = scenes.asset(tmp_path, scenes.SLIDER.format(mass=2.0), fix_base_link=True)
    walker = scenes.asset(tmp_path, scenes.WALKER)
    sim = simulation()
    add_env(sim, cube(0.2))
    add_env(sim, slider, sphere(0.1, AssetOptions(linear_damping=0.0, angular_damping=0.0)))
    add_env(sim, walker)
    add_env(sim, cube(0.2))
    return sim


def test_indices_count_over_environments_of_any_make_up(mixed):
    domain = gymapi.DOMAIN_SIM
    first, second, third, fourth = mixed.envs
    assert [GYM.get_env_rigid_body_count(env) for env in mixed.envs] == [1, 3, 3, 1]
    actors = (first, 0), (second, 0), (second, 1), (third, 0)
    assert [GYM.get_actor_index(*of, domain) for of in actors] == [0, 1, 2, 3]
    assert GYM.find_actor_rigid_body_index(third, 0, "shank", domain) == 1 + 3 + 2
    assert GYM.find_actor_dof_index(third, 0, "knee", domain) == 0 + 1 + 1
    assert GYM.find_actor_rigid_body_index(fourth, 0, "box", domain) == 7
    mixed.compile()
    assert mixed.tensors.shapes["root"] == (5, 13)
    assert mixed.tensors.shapes["body"] == (8, 13)
    assert mixed.tensors.shapes["dof"] == (3, 2)
    assert [group.ids.tolist() for group in mixed.groups] == [[0, 3], [1], [2]]


def test_each_row_is_the_state_of_its_actor(mixed):
    root, body = mixed.tensors.acquire("root"), mixed.tensors.acquire("body")
    np.testing.assert_allclose(root[:, 0], [0, 0, 1, 0, 0])
    mixed.simulate()
    for name in ("root", "body"):
        mixed.tensors.refresh(name)
    falling = torch.tensor([True, False, True, True, True])
    np.testing.assert_allclose(root[falling, 9], -G * H, rtol=1e-5)
    np.testing.assert_array_equal(root[1, 7:], 0.0)
    np.testing.assert_allclose(body[[0, 3, 7], 9], -G * H, rtol=1e-5)
    np.testing.assert_array_equal(body[1:3, 7:], 0.0)


def test_a_setter_writes_the_rows_of_the_listed_actors_only(mixed):
    root, dof = mixed.tensors.acquire("root").clone(), mixed.tensors.acquire("dof").clone()
    for engine in (group.engine for group in mixed.groups):
        engine.step()
    before = [group.engine.qpos.copy() for group in mixed.groups]
    root[:, :3] = torch.arange(15.0).reshape(5, 3)
    dof[:, 0] = torch.tensor([0.1, 0.2, 0.3])
    mixed.tensors.set_root(root, np.array([2, 4]))
    mixed.tensors.set_dofs(dof, np.array([3]))
    cubes, arm, walker = (group.engine.qpos for group in mixed.groups)
    np.testing.assert_array_equal(cubes[0], before[0][0])
    np.testing.assert_array_equal(cubes[1, :3], [12, 13, 14])
    np.testing.assert_array_equal(arm[0, 0], before[1][0, 0])
    np.testing.assert_array_equal(arm[0, 1:4], [6, 7, 8])
    np.testing.assert_array_equal(walker[0, :7], before[2][0, :7])
    np.testing.assert_allclose(walker[0, 7:], [0.2, 0.3])
    mixed.tensors.refresh("root")
    np.testing.assert_array_equal(mixed.tensors.acquire("root")[[2, 4], :3], root[[2, 4], :3])


def test_forces_reach_the_bodies_and_joints_of_their_rows(mixed):
    """2 kg on a rail, 0.2^3 * 1000 = 8 kg of cube; both without gravity along the force."""
    for env in mixed.envs:
        for actor in env.actors:
            props = properties.get_dofs(actor)
            props["driveMode"] = EFFORT
            properties.set_dofs(mixed, actor, props)
    force = torch.zeros(8, 3)
    force[7, 0] = 16.0
    mixed.tensors.set_targets(EFFORT, torch.tensor([4.0, 0.0, 0.0]))
    mixed.tensors.apply_forces(force, None, False)
    dof_force = mixed.tensors.acquire("dof_force")
    mixed.simulate()
    root, dof = mixed.tensors.acquire("root"), mixed.tensors.acquire("dof")
    mixed.tensors.refresh("dof_force")
    np.testing.assert_allclose(root[:, 7], [0, 0, 0, 0, 2.0 * H], atol=1e-7)
    np.testing.assert_allclose(dof[:, 1], [2.0 * H, 0, 0], atol=1e-6)
    np.testing.assert_allclose(dof_force, [4.0, 0, 0], atol=1e-6)


def test_environments_move_as_in_a_simulation_of_their_own(tmp_path, mixed):
    alone = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1, scenes.pose(z=1.0))
    for _ in range(20):
        mixed.simulate()
        alone.simulate()
    np.testing.assert_array_equal(mixed.groups[2].engine.qpos, alone.engine.qpos)


def test_boxes_of_other_sizes_share_one_engine_and_rest_on_their_own_halves():
    edges = [0.1, 0.2, 0.4]
    sim = simulation(ground=True)
    for edge in edges:
        add_env(sim, cube(edge), z=edge / 2)
    contact, root = sim.tensors.acquire("contact"), sim.tensors.acquire("root")
    assert len(sim.groups) == 1
    for _ in range(100):
        sim.simulate()
    for name in ("contact", "root"):
        sim.tensors.refresh(name)
    half, mass = np.array(edges) / 2, 1000.0 * np.array(edges) ** 3
    np.testing.assert_allclose(root[:, 2], half, atol=1e-3)
    np.testing.assert_allclose(contact[:, 2], mass * G, rtol=1e-3)


@pytest.mark.parametrize("edge", [0.1, 0.4])
def test_an_environment_of_another_size_is_the_model_of_that_size(edge):
    """The shared batch gives each environment every number that its own model would have."""
    sim, alone = simulation(ground=True), simulation(ground=True)
    add_env(sim, cube(0.2), cube(0.3))
    add_env(sim, cube(edge), cube(0.3))
    add_env(alone, cube(edge), cube(0.3))
    model, own = sim.engine.batch.get_model(1), alone.engine.model
    for name in ("geom_size", "geom_rbound", "geom_aabb", "body_mass", "body_inertia", "body_invweight0", "dof_M0"):
        np.testing.assert_array_equal(getattr(model, name), getattr(own, name), name)
    for _ in range(50):
        sim.simulate()
        alone.simulate()
    np.testing.assert_array_equal(sim.engine.qpos[1], alone.engine.qpos[0])


def test_masses_scale_the_inertia_of_each_environments_own_box():
    sim = simulation()
    for edge in (0.2, 0.4):
        add_env(sim, cube(edge))
    sim.compile()
    for env in sim.envs:
        records = properties.get_bodies(env.actors[0])
        records[0].mass = 3.0
        properties.set_bodies(sim, env.actors[0], records, True)
    sim.engine.batch.forward()  # which writes what was set
    expected = 3.0 * np.array([0.2, 0.4]) ** 2 / 6.0
    np.testing.assert_allclose(sim.engine.inertia(1)[0][:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(sim.engine.per_env("body_mass")[:, 1], 3.0)


def test_a_snapshot_returns_to_sizes_and_states_of_all_engines():
    sim = simulation(ground=True)
    for asset in (cube(0.2), cube(0.3), sphere(0.1, AssetOptions())):
        add_env(sim, asset)
    foreign = ForeignSim(sim, 3, H)
    saved = foreign.snapshot(torch.arange(3))
    for _ in range(5):
        sim.simulate()
    after = [group.engine.qpos.copy() for group in sim.groups]
    foreign.restore(saved)
    np.testing.assert_allclose(sim.groups[1].engine.qpos[0, 2], 1.0)
    for _ in range(5):
        sim.simulate()
    for group, wanted in zip(sim.groups, after, strict=True):
        np.testing.assert_array_equal(group.engine.qpos, wanted)
    assert sim.engine.batch.get_model(1).geom_size[1, 0] == 0.15


def test_the_picture_shows_the_make_up_of_environment_0_and_unstable_ones_are_found_anywhere():
    sim = simulation()
    for asset in (cube(0.2), sphere(0.1, AssetOptions()), cube(0.3)):
        add_env(sim, asset)
    foreign = ForeignSim(sim, 3, H)
    sim.simulate()
    heights = foreign.qpos[:, 2]
    assert heights[0] == heights[2] == pytest.approx(1.0 - G * H * H)
    assert heights[1] == 0.0
    sim.groups[1].engine.qpos[0, 0] = np.nan
    foreign.find_unstable({})
    assert foreign.unstable.tolist() == [False, True, False]


def of_shapes(*assets) -> ForeignSim:
    """A simulation with one of these assets in each environment."""
    sim = simulation()
    for asset in assets:
        add_env(sim, asset)
    return ForeignSim(sim, len(assets), H)


CUBE, BALL = cube(0.2), sphere(0.1, AssetOptions())


@pytest.mark.parametrize(
    ("assets", "there"),
    [
        ((CUBE, CUBE, CUBE), "1 make-up (3 environments)"),
        ((CUBE, BALL, BALL), "2 make-ups (1 environment and 2 environments)"),
        ((CUBE, BALL, CUBE), "2 make-ups (2 environments and 1 environment)"),
    ],
)
def test_a_state_of_other_make_ups_is_refused_before_anything_is_restored(assets, there):
    saved, other = of_shapes(*assets).snapshot(torch.arange(3)), of_shapes(CUBE, CUBE, BALL)
    heavier = properties.get_bodies(other._made.envs[2].actors[0])
    heavier[0].mass = 7.0
    properties.set_bodies(other._made, other._made.envs[2].actors[0], heavier, True)
    before = other.snapshot(torch.arange(3))
    here = "2 make-ups (2 environments and 1 environment)"
    with pytest.raises(ValueError, match=re.escape(f"the state has {there}, and there are {here} here")):
        other.restore(saved)
    after = other.snapshot(torch.arange(3)).arrays
    assert after.keys() == before.arrays.keys()
    for name, values in before.arrays.items():
        assert torch.equal(after[name], values), name


def test_only_states_that_are_shown_are_recorded_each_with_its_own_size(tmp_path, caplog):
    foreign = of_shapes(CUBE, BALL, cube(0.3), BALL)
    recorder = StateRecorder(foreign, tmp_path / "unstable", length=4)
    recorder.push()
    files = recorder.dump(torch.tensor([1, 2, 3]), step=5)
    assert [file.name for file in files] == ["step_000000005_env_2.npz"]
    with np.load(files[0]) as saved:
        assert mujoco.MjModel.from_xml_string(str(saved["model_xml"])).geom_size[0, 0] == 0.15
    assert caplog.text.count("the last states of environment 1 are not saved: its model is not that of env") == 1


def test_the_log_says_what_pictures_do_not_show(caplog):
    with caplog.at_level("INFO"):
        of_shapes(CUBE, cube(0.3), cube(0.4))
    assert caplog.messages == [
        "environments of this make-up have 3 different sizes; pictures show all in that of environment 0."
    ]


def test_one_file_loaded_for_each_environment_is_one_make_up(tmp_path):
    sim = simulation()
    for _ in range(3):
        add_env(sim, scenes.asset(tmp_path, scenes.WALKER))
    sim.compile()
    assert len(sim.groups) == 1
    assert not sim.engine.differs("body_mass")


def test_attractors_of_other_strengths_are_other_make_ups():
    """Steady state under gravity: m g / k below the target."""
    sim = simulation()
    for stiffness in (400.0, 800.0):
        env = add_env(sim, cube(0.1))
        attractor = AttractorProperties(axes=AXIS_TRANSLATION, stiffness=stiffness, damping=40.0, rigid_handle=0)
        attractor.target = scenes.pose(z=1.0)
        attractors.add(env, attractor)
    for _ in range(400):
        sim.simulate()
    assert len(sim.groups) == 2
    np.testing.assert_allclose(
        [group.engine.qpos[0, 2] for group in sim.groups], [1.0 - G / 400.0, 1.0 - G / 800.0], atol=1e-4
    )


def test_jacobians_are_of_all_environments_or_refused(tmp_path):
    """The actor a0 is a rail everywhere, with another object beside it; b is not the same thing in both."""
    slider = scenes.asset(tmp_path, scenes.SLIDER.format(mass=2.0), fix_base_link=True)
    sim = simulation()
    for other in (cube(0.2), sphere(0.1, AssetOptions()), cube(0.2)):
        add_env(sim, slider, other)
    assert sim.tensors.of_actor("a0", sensors.jacobian).shape == (3, 1, 6, 1)
    np.testing.assert_allclose(sim.tensors.of_actor("a0", sensors.mass_matrix)[:, 0, 0], 2.0)
    with pytest.raises(KeyError, match="no actor is called b; environment 0 has a0, a1"):
        sim.tensors.of_actor("b", sensors.jacobian)
    mixed = simulation()
    add_env(mixed, slider)
    add_env(mixed, cube(0.2))
    with pytest.raises(UserError, match=r"jacobian of a0: \(1, 6, 6\) in environment 1, \(1, 6, 1\) in environment 0"):
        mixed.tensors.of_actor("a0", sensors.jacobian)


def test_an_environment_without_actors_has_no_rows():
    sim = simulation()
    add_env(sim, cube(0.2))
    add_env(sim)
    add_env(sim, cube(0.2))
    root = sim.tensors.acquire("root")
    sim.simulate()
    sim.tensors.refresh("root")
    assert root.shape == (2, 13)
    np.testing.assert_allclose(root[:, 9], -G * H, rtol=1e-5)


def test_lines_are_of_the_environments_that_are_asked_for_and_in_the_picture():
    foreign = of_shapes(CUBE, BALL, CUBE)
    for env in foreign._made.envs:
        foreign._made.lines.add(env, 1, [env.index, 0, 0, 0, 0, 1], [1, 0, 0])
    for asked, shown in (([2, 1], [2]), ([1], []), (range(9), [0, 2])):
        lines = foreign.lines_of(asked)
        assert lines.envs.tolist() == lines.ends[:, 0, 0].tolist() == shown
    assert foreign.lines.envs.tolist() == [0, 2]
