"""The package `isaacgym` as task code uses it: set-up, queries, properties, randomisation, utilities."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

sys.path.append(str(Path(__file__).parent.parent / "compat"))
from isaacgym import gymapi, gymtorch, gymutil, torch_utils

gym = gymapi.acquire_gym()


def make(folder, num_envs: int = 3, ground: bool = True, text: str = scenes.WALKER, prepare: bool = True):
    """A simulation as a task sets it up: a walker and a ball in each environment."""
    params = gymapi.SimParams()
    params.dt, params.substeps, params.up_axis = 0.02, 2, gymapi.UP_AXIS_Z
    params.gravity = gymapi.Vec3(0.0, 0.0, -9.81)
    sim = gym.create_sim(0, 0, gymapi.SIM_PHYSX, params)
    if ground:
        plane = gymapi.PlaneParams()
        plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
        gym.add_ground(sim, plane)
    (folder / "robot.xml").write_text(text)
    asset = gym.load_asset(sim, str(folder), "robot.xml", gymapi.AssetOptions())
    ball = gym.create_sphere(sim, 0.1, gymapi.AssetOptions())
    pose = gymapi.Transform()
    for i in range(num_envs):
        env = gym.create_env(sim, gymapi.Vec3(-2, -2, 0), gymapi.Vec3(2, 2, 2), 2)
        pose.p = gymapi.Vec3(0.0, 0.0, 0.6)
        gym.create_actor(env, asset, pose, "walker", i, 0, 0)
        pose.p = gymapi.Vec3(1.0, 0.0, 0.1)
        gym.create_actor(env, ball, pose, "ball", i, 0, 0)
    if prepare:
        gym.prepare_sim(sim)
    return sim, asset


def test_names_counts_and_indices(tmp_path):
    sim, asset = make(tmp_path, prepare=False)
    assert gym.get_asset_rigid_body_names(asset) == ["torso", "thigh", "shank"]
    assert gym.get_asset_dof_names(asset) == ["hip", "knee"]
    assert (gym.get_asset_dof_count(asset), gym.get_asset_joint_count(asset)) == (2, 2)
    assert gym.get_asset_rigid_shape_count(asset) == 3
    assert gym.find_asset_rigid_body_index(asset, "shank") == 2
    assert gym.find_asset_dof_index(asset, "elbow") == gymapi.INVALID_HANDLE
    assert gym.get_asset_dof_type(asset, 0) == gymapi.DOF_ROTATION
    env = gym.get_env(sim, 1)
    walker, ball = gym.find_actor_handle(env, "walker"), gym.find_actor_handle(env, "ball")
    assert gym.get_actor_count(env) == 2
    assert gym.get_actor_name(env, ball) == "ball"
    assert gym.find_actor_rigid_body_handle(env, ball, "sphere") == 3
    assert gym.find_actor_rigid_body_index(env, walker, "shank", gymapi.DOMAIN_SIM) == 4 + 2
    assert gym.find_actor_rigid_body_index(env, ball, "sphere", gymapi.DOMAIN_SIM) == 4 + 3
    assert gym.find_actor_dof_index(env, walker, "knee", gymapi.DOMAIN_SIM) == 2 + 1
    assert gym.find_actor_dof_handle(env, walker, "knee") == 1
    assert gym.get_actor_index(env, ball, gymapi.DOMAIN_SIM) == 3
    assert gym.find_actor_index(env, "ball", gymapi.DOMAIN_ENV) == 1
    assert gym.get_actor_dof_dict(env, walker) == {"hip": 0, "knee": 1}
    totals = [gym.get_sim_actor_count(sim), gym.get_sim_rigid_body_count(sim), gym.get_sim_dof_count(sim)]
    assert totals == [6, 12, 6]
    assert (gym.get_env_rigid_body_count(env), gym.get_env_dof_count(env)) == (4, 2)


def test_origins_are_a_grid_for_drawing_only(tmp_path):
    sim, _ = make(tmp_path)
    origins = [gym.get_env_origin(gym.get_env(sim, i)) for i in range(3)]
    assert [(o.x, o.y, o.z) for o in origins] == [(0, 0, 0), (4, 0, 0), (0, 4, 0)]
    root = gymtorch.wrap_tensor(gym.acquire_actor_root_state_tensor(sim)).view(3, 2, 13)
    assert (root[:, 0, :3] == torch.tensor([0.0, 0.0, 0.6])).all()  # each in its own frame


def test_the_first_acquire_compiles(tmp_path):
    sim, _ = make(tmp_path, prepare=False)
    assert not sim.compiled
    gym.acquire_dof_state_tensor(sim)
    assert sim.compiled
    with pytest.raises(UserError, match="create_actor after prepare_sim"):
        gym.create_actor(gym.get_env(sim, 0), sim.envs[0].actors[0].asset, gymapi.Transform(), "late", 0, 0)


def test_a_control_loop_runs(tmp_path):
    sim, _ = make(tmp_path)
    dof = gymtorch.wrap_tensor(gym.acquire_dof_state_tensor(sim)).view(3, 2, 2)
    before = dof.clone()
    forces = torch.tensor([[0.5, -0.5]]).repeat(3, 1)
    for _ in range(3):
        gym.set_dof_actuation_force_tensor(sim, gymtorch.unwrap_tensor(forces))
        gym.simulate(sim)
        gym.fetch_results(sim, True)
    gym.refresh_dof_state_tensor(sim)
    assert (dof[:, 0, 1] > before[:, 0, 1]).all()
    assert gym.get_frame_count(sim) == 3
    assert gym.get_sim_time(sim) == pytest.approx(0.06)


def test_indexed_setters_take_int32_indices_of_actors(tmp_path):
    sim, _ = make(tmp_path)
    root = gymtorch.wrap_tensor(gym.acquire_actor_root_state_tensor(sim))
    wanted = root.clone()
    wanted[:, 0] = 9.0
    gym.set_actor_root_state_tensor_indexed(sim, wanted, torch.tensor([3, 4], dtype=torch.int32), 1)
    gym.refresh_actor_root_state_tensor(sim)
    assert root[:, 0].tolist() == [0, 1, 0, 9, 0, 1]
    with pytest.raises(TypeError, match="int32"):
        gym.set_actor_root_state_tensor_indexed(sim, wanted, torch.tensor([3]), 1)
    with pytest.raises(IndexError, match="actor index 6 of 6"):
        gym.set_actor_root_state_tensor_indexed(sim, wanted, torch.tensor([6], dtype=torch.int32), 1)
    with pytest.raises(ValueError, match="not contiguous"):
        gymtorch.unwrap_tensor(wanted.t())


def test_records_that_a_task_changes_later_do_not_count(tmp_path):
    sim, asset = make(tmp_path, prepare=False)
    env = gym.get_env(sim, 0)
    props = gym.get_actor_dof_properties(env, 0)
    props["damping"][:] = 7.0
    assert gym.get_actor_dof_properties(env, 0)["damping"].tolist() == [0.0, 0.0]
    gym.set_actor_dof_properties(env, 0, props)
    props["damping"][:] = 8.0
    assert gym.get_actor_dof_properties(env, 0)["damping"].tolist() == [7.0, 7.0]
    shapes = gym.get_asset_rigid_shape_properties(asset)
    shapes[0].friction = 0.25
    gym.set_asset_rigid_shape_properties(asset, shapes)  # counts for actors created later
    assert gym.get_actor_rigid_shape_properties(env, 0)[0].friction != 0.25
    late = gym.create_env(sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    gym.create_actor(late, asset, gymapi.Transform(), "walker", 0, 0)
    assert gym.get_actor_rigid_shape_properties(late, 0)[0].friction == 0.25


def test_randomisation_at_run_time_reaches_the_model(tmp_path):
    """As VecTask does it: getters and setters from a table, arrays of one element as values."""
    sim, _ = make(tmp_path)
    env = gym.get_env(sim, 1)
    bodies = gym.get_actor_rigid_body_properties(env, 0)
    for record in bodies:
        record.mass = np.array([record.mass * 1.5])
    gym.set_actor_rigid_body_properties(env, 0, bodies, True)
    shapes = gym.get_actor_rigid_shape_properties(env, 0)
    for record in shapes:
        record.friction = np.array([0.4])
    gym.set_actor_rigid_shape_properties(env, 0, shapes)
    dofs = gym.get_actor_dof_properties(env, 0)
    dofs["damping"], dofs["stiffness"], dofs["lower"], dofs["upper"] = 2.0, 3.0, -0.2, 0.3
    gym.set_actor_dof_properties(env, 0, dofs)
    gym.set_actor_tendon_properties(env, 0, gym.get_actor_tendon_properties(env, 0))
    params = gym.get_sim_params(sim)
    params.gravity.z = -5.0
    gym.set_sim_params(sim, params)
    changed, kept = sim.engine.batch.get_model(1), sim.engine.batch.get_model(0)
    np.testing.assert_allclose(changed.body_mass[1:4], 1.5 * kept.body_mass[1:4], rtol=1e-6)
    np.testing.assert_allclose(changed.body_inertia[1:4], 1.5 * kept.body_inertia[1:4], rtol=1e-4)
    geoms = sim.engine.layout.actors[0].geoms
    np.testing.assert_allclose(changed.geom_friction[geoms, 0], 0.5 * (0.4 + 1.0))
    hinges = sim.engine.layout.qvel
    np.testing.assert_allclose(changed.dof_damping[hinges], 2.0)
    np.testing.assert_allclose(changed.jnt_range[sim.engine.layout.joints], [[-0.2, 0.3]] * 2, rtol=1e-6)
    assert kept.dof_damping[hinges].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(changed.opt.gravity, [0, 0, -5.0])
    gym.simulate(sim)
    assert sim.engine.finite().all()
    assert not sim.engine.faults().any()


def test_each_environment_can_have_its_own_mass_from_the_start(tmp_path):
    sim, _ = make(tmp_path, prepare=False)
    for i in range(3):
        env = gym.get_env(sim, i)
        records = gym.get_actor_rigid_body_properties(env, 0)
        records[0].mass = 3.0 + i
        gym.set_actor_rigid_body_properties(env, 0, records, True)
    gym.prepare_sim(sim)
    assert [sim.engine.batch.get_model(i).body_mass[1] for i in range(3)] == pytest.approx([3.0, 4.0, 5.0])


def test_rigid_transforms_are_known_before_and_after_prepare(tmp_path):
    sim, _ = make(tmp_path, prepare=False)
    env = gym.get_env(sim, 0)
    before = gym.get_rigid_transform(env, 2).p
    assert (before.x, before.y, before.z) == pytest.approx((0.2, 0.0, 0.6 - 0.05 - 0.25))
    gym.prepare_sim(sim)
    after = gym.get_rigid_transform(env, 2).p
    assert (after.x, after.y, after.z) == pytest.approx((before.x, before.y, before.z))


def test_force_sensors_belong_to_actors_created_later(tmp_path):
    sim, asset = make(tmp_path, prepare=False)
    assert gym.create_asset_force_sensor(asset, 2, gymapi.Transform()) == 0
    env = gym.create_env(sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    actor = gym.create_actor(env, asset, gymapi.Transform(), "walker", 0, 0)
    assert gym.get_actor_force_sensor_count(env, actor) == 1
    assert gym.get_actor_force_sensor_count(gym.get_env(sim, 0), 0) == 0


def test_the_viewer_is_absent_but_quiet(tmp_path):
    sim, _ = make(tmp_path)
    assert gym.create_viewer(sim, gymapi.CameraProperties()) is None
    assert gym.query_viewer_has_closed(None) is False
    assert gym.query_viewer_action_events(None) == []
    gym.draw_viewer(None, sim, True)
    gymutil.draw_lines(gymutil.WireframeSphereGeometry(0.1, 4, 4, None, color=(1, 0, 0)), gym, None, None, None)


def test_what_cannot_be_is_refused(tmp_path):
    params = gymapi.SimParams()
    with pytest.raises(NotImplementedError, match="SIM_FLEX"):
        gym.create_sim(0, 0, gymapi.SIM_FLEX, params)
    params.use_gpu_pipeline = True
    with pytest.raises(NotImplementedError, match="pipeline=cpu"):
        gym.create_sim(0, 0, gymapi.SIM_PHYSX, params)
    sim, _ = make(tmp_path, prepare=False)
    assert gym.set_actor_scale(gym.get_env(sim, 0), 0, np.array([1.0]))
    assert gym.get_actor_scale(gym.get_env(sim, 0), 0) == 1.0
    with pytest.raises(UserError, match=r"set_actor_scale\(2\)"):
        gym.set_actor_scale(gym.get_env(sim, 0), 0, 2.0)


def test_512_environments_are_built_in_a_second(tmp_path):
    import time

    start = time.process_time()
    sim, _ = make(tmp_path, num_envs=512)
    assert sim.engine.num_envs == 512
    assert time.process_time() - start < 1.0


# utilities


def test_configuration_is_copied_onto_parameters():
    params = gymapi.SimParams()
    gymutil.parse_sim_config(
        {"dt": 0.005, "substeps": 1, "gravity": [0, 0, -9.0], "up_axis": 1, "physx": {"num_threads": 3}}, params
    )
    assert (params.dt, params.substeps, params.gravity.z, params.physx.num_threads) == (0.005, 1, -9.0, 3)
    assert params.up_axis == gymapi.UP_AXIS_Z
    with pytest.raises(AttributeError, match="num_threads"):
        gymutil.parse_sim_config({"physx": {"num_thread": 3}}, params)


def test_the_command_line_has_the_usual_options(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["task", "--num_envs", "7", "--sim_device", "cuda:0", "--physx"])
    args = gymutil.parse_arguments(
        description="d",
        custom_parameters=[
            {"name": "--num_envs", "type": int, "default": 2, "help": "how many"},
            {"name": "--headless", "action": "store_true", "default": False},
        ],
    )
    assert (args.num_envs, args.headless, args.physics_engine) == (7, False, gymapi.SIM_PHYSX)
    assert (args.sim_device, args.sim_device_type, args.compute_device_id, args.use_gpu) == ("cpu", "cpu", 0, False)
    assert gymutil.parse_device_str("cuda:1") == ("cuda", 1)
    with pytest.raises(ValueError, match="allowed are"):
        gymutil.parse_device_str("tpu")


def test_xml_is_indented():
    root = ET.fromstring("<a><b><c/></b><d/></a>")
    gymutil._indent_xml(root)
    assert ET.tostring(root, encoding="unicode") == "<a>\n  <b>\n    <c />\n  </b>\n  <d />\n</a>"


angles = st.floats(-3.0, 3.0)


@settings(max_examples=50, deadline=None)
@given(roll=angles, pitch=st.floats(-1.4, 1.4), yaw=angles, x=angles, y=angles, z=angles)
def test_quaternions_agree_with_rotation_matrices(roll, pitch, yaw, x, y, z):
    to = lambda *values: torch.tensor([values], dtype=torch.float64)  # noqa: E731
    q = torch_utils.quat_from_euler_xyz(*(to(a)[0] for a in (roll, pitch, yaw)))
    v = to(x, y, z)

    def about(axis, angle):
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        matrix = np.eye(3)
        matrix[i, i] = matrix[j, j] = math.cos(angle)
        matrix[j, i], matrix[i, j] = math.sin(angle), -math.sin(angle)
        return matrix

    matrix = about(2, yaw) @ about(1, pitch) @ about(0, roll)
    rotated = torch_utils.quat_rotate(q, v)
    np.testing.assert_allclose(rotated[0], matrix @ v[0].numpy(), atol=1e-9)
    np.testing.assert_allclose(torch_utils.quat_rotate_inverse(q, rotated), v, atol=1e-9)
    back = torch.stack(torch_utils.get_euler_xyz(q)).flatten()
    np.testing.assert_allclose(np.cos(back), np.cos([roll, pitch, yaw]), atol=1e-6)
    assert (back >= 0).all()
    inverse, shift = torch_utils.tf_inverse(q, v)
    unit, zero = torch_utils.tf_combine(inverse, shift, q, v)
    np.testing.assert_allclose(unit.abs()[0], [0, 0, 0, 1], atol=1e-9)
    np.testing.assert_allclose(zero, 0.0, atol=1e-9)


def test_quaternion_functions_work_inside_torch_script():
    @torch.jit.script
    def heading(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch_utils.quat_rotate_inverse(torch_utils.quat_mul(q, torch_utils.quat_conjugate(q)), v)

    q = torch_utils.normalize(torch.randn(5, 4))
    v = torch.randn(5, 3)
    torch.testing.assert_close(heading(q, v), v, atol=1e-5, rtol=1e-4)


def test_quaternions_in_rows_rotate_vectors_in_another_shape():
    q, v = torch_utils.normalize(torch.randn(6, 4)), torch.randn(2, 3, 3)
    flat = torch_utils.quat_apply(q, v.view(6, 3))
    torch.testing.assert_close(torch_utils.quat_apply(q, v), flat.view(2, 3, 3))


def test_small_helpers():
    assert torch_utils.get_axis_params(-1.0, 2) == [0.0, 0.0, -1.0]
    assert torch_utils.get_axis_params(0.4, 1, x_value=2.0) == [2.0, 0.4, 0.0]
    low, high = torch.tensor([0.0, -2.0]), torch.tensor([1.0, 4.0])
    assert torch_utils.scale(torch.tensor([0.0, 1.0]), low, high).tolist() == [0.5, 4.0]
    assert torch_utils.unscale(torch.tensor([0.5, 4.0]), low, high).tolist() == [0.0, 1.0]
    assert torch_utils.copysign(2.0, torch.tensor([-1.0, 3.0])).tolist() == [-2.0, 2.0]
    assert torch_utils.normalize_angle(torch.tensor([math.tau + 0.5])).item() == pytest.approx(0.5, abs=1e-6)
    drawn = torch_utils.torch_rand_float(2.0, 3.0, (4, 5), "cpu")
    assert drawn.shape == (4, 5)
    assert ((drawn >= 2.0) & (drawn < 3.0)).all()
    turn = torch_utils.quat_from_angle_axis(torch.tensor([math.pi / 2]), torch.tensor([[0.0, 0.0, 2.0]]))
    np.testing.assert_allclose(torch_utils.quat_apply(turn, torch.tensor([[1.0, 0, 0]])), [[0, 1, 0]], atol=1e-6)
    assert torch_utils.axisangle2quat(torch.zeros(1, 3)).tolist() == [[0, 0, 0, 1]]
