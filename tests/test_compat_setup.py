"""What a task sets up counts as it says, or is refused with the value, what is allowed, and the next move."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest
import torch

from livegym.compat.core import properties, terrain
from livegym.compat.core.asset import box
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, SimParams, Vec3
from livegym.compat.isaacgym import gymapi
from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

gym = gymapi.acquire_gym()
BODY = """
<body name="{name}" pos="{x} 0 0">
  <joint name="{name}" axis="0 1 0"/>
  <geom name="{name}" type="sphere" size="0.2" mass="1"/>
</body>
"""
STAR = f"""
<mujoco>
  <worldbody>
    <body name="hub">
      <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      {BODY.format(name="a", x=0.5)}
      {BODY.format(name="b", x=0.6)}
      {BODY.format(name="c", x=0.7)}
    </body>
  </worldbody>
  <contact>
    <exclude body1="a" body2="b"/>
    <pair geom1="b" geom2="c"/>
  </contact>
</mujoco>
"""
"""Three balls that overlap; the file keeps a from b, and names b and c as a pair."""


def touching(sim: Sim) -> set[frozenset[str]]:
    """The pairs of bodies that are in contact in environment 0, by brute force of MuJoCo."""
    model = sim.engine.batch.get_model(0)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    pairs = (contact.geom for contact in data.contact)
    return {frozenset(model.body(model.geom_bodyid[geom]).name.split("/")[1] for geom in pair) for pair in pairs}


def star(folder, filter: int) -> Sim:
    sim = Sim(scenes.params())
    env = sim.add_env(Vec3(), Vec3(), 1)
    env.add(scenes.asset(folder, STAR, fix_base_link=True), scenes.pose(), "star", 0, filter)
    return sim


AB, AC, BC = (frozenset(pair) for pair in ("ab", "ac", "bc"))


@pytest.mark.parametrize(("filter", "met"), [(-1, {AC, BC}), (0, {AB, AC, BC}), (1, set())])
def test_excludes_and_pairs_of_a_file_hold_with_filter_minus_1_only(tmp_path, filter, met):
    sim = star(tmp_path, filter)
    assert touching(sim) == met
    assert (sim.engine.model.npair > 0) == (filter == -1)


def test_excludes_hold_for_the_bodies_whose_shapes_keep_the_filter_of_the_file(tmp_path):
    """An explicit filter of a alone ends its exclude, and the pair of b and c stays."""
    sim = star(tmp_path, -1)
    actor = sim.envs[0].actors[0]
    records = properties.get_shapes(actor)
    assert [record.filter for record in records] == [-1, -1, -1]
    records[0].filter = 0
    properties.set_shapes(sim, actor, records)
    assert touching(sim) == {AB, AC, BC}
    assert sim.engine.model.npair == 1


def test_environments_that_use_their_files_excludes_otherwise_are_of_another_make_up(tmp_path):
    sim = star(tmp_path, -1)
    sim.add_env(Vec3(), Vec3(), 1).add(sim.envs[0].actors[0].asset, scenes.pose(), "star", 0, 0)
    assert [group.engine.model.nexclude for group in sim.groups] == [4, 3]  # three of links with the base


@pytest.mark.parametrize("compiled", [False, True])
def test_every_filter_of_a_shape_can_be_set_and_is_read_back(tmp_path, compiled):
    """By brute force: two boxes that overlap touch if and only if their filters have no bit in common."""
    for actor_filter, own in itertools.product((0, 1, 3), (0, 1, 2)):
        sim = Sim(scenes.params())
        env = sim.add_env(Vec3(), Vec3(), 1)
        cube = box(0.2, 0.2, 0.2, AssetOptions())
        env.add(cube, scenes.pose(), "low", 0, actor_filter)
        env.add(cube, scenes.pose(x=0.1), "high", 0, actor_filter)
        if compiled:
            sim.compile()
        records = gym.get_actor_rigid_shape_properties(env, 1)
        assert records[0].filter == actor_filter
        records[0].filter = own
        gym.set_actor_rigid_shape_properties(env, 1, records)
        assert gym.get_actor_rigid_shape_properties(env, 1)[0].filter == own
        sim.simulate()
        model = sim.engine.batch.get_model(0)
        data = mujoco.MjData(model)
        data.qpos[:] = sim.engine.qpos[0]
        mujoco.mj_forward(model, data)
        assert bool(data.ncon) == (actor_filter & own == 0), (actor_filter, own)


def test_reading_properties_changes_nothing(tmp_path):
    """Randomisation reads every table first; that alone gives no environment values of its own."""
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 3)
    for env in sim.envs:
        bodies, shapes = properties.get_bodies(env.actors[0]), properties.get_shapes(env.actors[0])
        bodies[0].mass, shapes[0].friction = 9.0, 9.0
    assert [env.actors[0].body_properties for env in sim.envs] == [None] * 3
    sim.compile()
    sim.simulate()
    assert not sim.engine.differs("body_mass")
    assert not sim.engine.differs("geom_friction")
    assert properties.get_bodies(sim.envs[0].actors[0])[0].mass == pytest.approx(3.0)
    assert properties.get_bodies(sim.envs[0].actors[0])[0].invMass == pytest.approx(1 / 3.0)


@pytest.mark.parametrize("shaped", [False, True])
def test_a_height_field_has_rows_along_y_and_columns_along_x(shaped):
    """4 samples along x, 0.5 m apart, by 3 along y, 0.2 m apart, and what is not that many."""
    sim = Sim(scenes.params())
    params = gymapi.HeightFieldParams()
    params.nbColumns, params.nbRows, params.column_scale, params.row_scale, params.vertical_scale = 4, 3, 0.5, 0.2, 0.1
    params.transform.p = Vec3(-1.0, 2.0, 0.0)
    samples = np.arange(12, dtype=np.int16)
    gym.add_heightfield(sim, samples.reshape(4, 3) if shaped else samples, params)
    field = sim.ground.fields[0]
    assert field.spacing == pytest.approx((0.5, 0.2))
    np.testing.assert_allclose(field.heights, 0.1 * np.arange(12).reshape(4, 3), atol=1e-6)
    spec = mujoco.MjSpec()
    terrain.add(spec, sim.ground)
    ground = spec.compile()
    half_x, half_y = ground.hfield_size[0, :2]
    assert (2 * half_x, 2 * half_y) == pytest.approx((3 * 0.5, 2 * 0.2))
    params.nbRows = 4
    with pytest.raises(UserError, match=r"12 samples were given, but nbColumns=4 along x by nbRows=4 along y make 16"):
        gym.add_heightfield(sim, samples, params)


def test_a_triangle_mesh_must_have_as_many_vertices_as_it_says():
    sim = Sim(scenes.params())
    params = gymapi.TriangleMeshParams()
    params.nb_vertices, params.nb_triangles = 5, 2
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], np.float32)
    triangles = np.array([[0, 1, 2], [1, 3, 2]], np.uint32)
    with pytest.raises(UserError, match="nb_vertices=5, but 4 were given"):
        gym.add_triangle_mesh(sim, vertices.flatten(), triangles.flatten(), params)
    params.nb_vertices, params.nb_triangles = 4, 3
    with pytest.raises(UserError, match="nb_triangles=3, but 2 were given"):
        gym.add_triangle_mesh(sim, vertices.flatten(), triangles.flatten(), params)
    params.nb_triangles = 2
    gym.add_triangle_mesh(sim, vertices.flatten(), triangles.flatten(), params)
    assert len(sim.ground.fields) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda params: setattr(params, "dt", 0.02), r"dt was 0\.01 when the scene was compiled.*cannot become 0\.02"),
        (lambda params: setattr(params, "substeps", 4), "substeps was 1"),
        (lambda params: setattr(params, "use_gpu_pipeline", True), "use_gpu_pipeline was False"),
        (lambda params: setattr(params.physx, "contact_collection", gymapi.CC_NEVER), "physx.contact_collection was"),
    ],
)
def test_parameters_that_a_compiled_scene_cannot_change_are_refused(tmp_path, change, message):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1)
    params = gym.get_sim_params(sim)
    params.substeps = 2
    gym.set_sim_params(sim, params)
    params.substeps = 1
    gym.set_sim_params(sim, params)
    sim.compile()
    params.gravity.z = -3.0
    params.physx.bounce_threshold_velocity = 0.4
    gym.set_sim_params(sim, params)
    change(params)
    with pytest.raises(UserError, match=message):
        gym.set_sim_params(sim, params)
    kept = gym.get_sim_params(sim)
    assert isinstance(kept, SimParams)
    assert (kept.dt, kept.substeps, kept.gravity.z) == pytest.approx((0.01, 1, -3.0))


def test_dof_force_sensors_are_refused_after_the_scene_is_compiled(tmp_path):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 2)
    assert gym.enable_actor_dof_force_sensors(sim.envs[0], 0)
    assert gym.enable_actor_dof_force_sensors(sim.envs[1], 0)
    sim.compile()
    assert gym.enable_actor_dof_force_sensors(sim.envs[0], 0)  # it has them already
    other = scenes.scene(sim.envs[0].actors[0].asset, 1)
    other.compile()
    with pytest.raises(UserError, match="enable_actor_dof_force_sensors after prepare_sim"):
        gym.enable_actor_dof_force_sensors(other.envs[0], 0)


def test_a_scene_that_mujoco_refuses_names_its_files(tmp_path):
    """MuJoCo's own error has the element, ours adds the file and what to do: here, a moving body without mass."""
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1)
    sim.envs[0].actors[0].asset.spec.body("shank").mass = 0.0
    sim.envs[0].actors[0].asset.spec.body("shank").inertia = [0.0, 0.0, 0.0]
    message = r"MuJoCo refuses the scene: .*0/shank.*0/: .*robot\.xml\)\. Correct that element"
    with pytest.raises(UserError, match=message):
        sim.compile()


@pytest.mark.parametrize("wrong", [[-2, 1], [1, -2], [1, 7]])
def test_a_wrong_index_of_an_actor_is_named(tmp_path, wrong):
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 4)
    state = gym.acquire_actor_root_state_tensor(sim)
    bad = next(index for index in wrong if not 0 <= index < 4)
    with pytest.raises(IndexError, match=f"actor index {bad} of 4 actors"):
        gym.set_actor_root_state_tensor_indexed(sim, state, torch.tensor(wrong, dtype=torch.int32), 2)
    for count in (3, -1):
        with pytest.raises(IndexError, match=f"{count} actor indices were announced, the tensor has 2"):
            gym.set_actor_root_state_tensor_indexed(sim, state, torch.tensor([0, 1], dtype=torch.int32), count)


def test_a_handle_of_minus_1_is_no_actor_and_no_body(tmp_path):
    """Searches give -1 for an unknown name; that is not the last actor, nor the world."""
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1)
    env = sim.envs[0]
    assert gym.find_actor_handle(env, "nobody") == -1
    with pytest.raises(IndexError, match=r"actor handle -1 of an environment with 1 actors \(robot\)"):
        gym.get_actor_dof_properties(env, gym.find_actor_handle(env, "nobody"))
    for body in (-1, 3):
        with pytest.raises(IndexError, match=f"body handle {body} of environment 0, which has 3 bodies"):
            gym.get_rigid_transform(env, body)
    sim.compile()
    with pytest.raises(IndexError, match="body handle -1"):
        gym.get_rigid_transform(env, -1)


def test_the_number_of_records_of_an_asset_is_checked(tmp_path):
    asset = scenes.asset(tmp_path, scenes.WALKER)
    records = gym.get_asset_rigid_shape_properties(asset)
    with pytest.raises(UserError, match=r"robot\.xml has 3 shapes; 2 records were given"):
        gym.set_asset_rigid_shape_properties(asset, records[:2])
    for body in (-1, 3):
        with pytest.raises(UserError, match=rf"body {body} of robot\.xml, which has 3 bodies"):
            gym.create_asset_force_sensor(asset, body, gymapi.Transform())


def test_masses_that_are_drawn_for_thousands_of_robots_are_not_compared_body_by_body(tmp_path, monkeypatch):
    """Only a body with another inertia is looked at closely, and after the start only one that would be refused."""
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 3)
    closely = []
    monkeypatch.setattr(properties, "_multiple", lambda *given: closely.append(given) or True)
    for env in sim.envs:
        records = properties.get_bodies(env.actors[0])
        records[0].mass += 0.1 * env.index
        properties.set_bodies(sim, env.actors[0], records, True)
    assert properties.uneven_bodies(sim) == []
    assert len(closely) == 2
    sim.compile()
    closely.clear()
    records = properties.get_bodies(sim.envs[1].actors[0])
    records[0].mass, records[1].com = 9.0, Vec3(0.1, 0.1, 0.1)
    properties.set_bodies(sim, sim.envs[1].actors[0], records, True)
    assert closely == []
