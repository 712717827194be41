"""What viewers add to a model: it changes no physics, and keeps what a model brings."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from livegym.tasks.hand.skin import hand_skin
from livegym.tasks.skin import Part
from livegym.viewers.look import HIDDEN, drawn_xml, dressed, round_number

PHYSICS = (
    "qpos0", "qpos_spring", "body_mass", "body_inertia", "body_ipos", "body_iquat", "body_pos", "body_quat",
    "body_parentid", "body_gravcomp", "dof_armature", "dof_damping", "dof_invweight0", "jnt_type", "jnt_pos",
    "jnt_axis", "jnt_range", "jnt_solref", "jnt_solimp", "actuator_gainprm", "actuator_biasprm", "actuator_ctrlrange",
    "actuator_forcerange", "actuator_trnid", "site_pos", "site_quat", "sensor_type", "sensor_objid", "sensor_refid",
)  # fmt: skip
GEOM = (
    "geom_type", "geom_contype", "geom_conaffinity", "geom_condim", "geom_bodyid", "geom_pos", "geom_quat",
    "geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_gap", "geom_priority",
)  # fmt: skip


def collides(model: mujoco.MjModel) -> np.ndarray:
    """(G,) bool: the geoms that take part in the physics."""
    return (model.geom_contype > 0) | (model.geom_conaffinity > 0)


def world_of(bodies: str) -> str:
    return f"<mujoco><worldbody>{bodies}</worldbody></mujoco>"


def env_of(task: str):
    from livegym.cfg.compose import compose
    from livegym.cfg.typed import to_typed
    from livegym.play.world import build_world
    from livegym.schema.settled import settled

    return build_world(settled(to_typed(compose(["config=test", f"task={task}", "agent=random", "numEnvs=2"]))), None)


@pytest.mark.parametrize("task", ["Cartpole", "Ant", "BaseTask", "BlindGrasping"])
def test_the_look_leaves_all_physics_as_it_is(task):
    world = env_of(task)
    plain = mujoco.MjModel.from_xml_string(world.env.sim.model_xml())
    drawn = mujoco.MjModel.from_xml_string(drawn_xml(world.env))
    world.close()
    for name in PHYSICS:
        assert np.array_equal(getattr(plain, name), getattr(drawn, name)), name
    for name in GEOM:
        assert np.array_equal(getattr(plain, name)[collides(plain)], getattr(drawn, name)[collides(drawn)]), name
    bounded = [collides(model) & (model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE) for model in (plain, drawn)]
    assert np.array_equal(plain.geom_size[bounded[0]], drawn.geom_size[bounded[1]])
    for name in ("timestep", "integrator", "cone", "impratio", "iterations", "tolerance", "disableflags", "gravity"):
        assert np.array_equal(getattr(plain.opt, name), getattr(drawn.opt, name)), name
    assert plain.stat.meaninertia == drawn.stat.meaninertia
    data = [mujoco.MjData(model) for model in (plain, drawn)]
    for _ in range(200):
        for model, state in zip((plain, drawn), data, strict=True):
            state.ctrl[:] = 0.3
            mujoco.mj_step(model, state)
    assert np.array_equal(data[0].qpos, data[1].qpos)
    assert np.array_equal(data[0].qvel, data[1].qvel)


@pytest.mark.parametrize("task", ["Cartpole", "Ant", "BaseTask", "BlindGrasping"])
def test_every_task_has_a_floor_a_sky_and_lights(task):
    world = env_of(task)
    model = mujoco.MjModel.from_xml_string(drawn_xml(world.env))
    world.close()
    floors = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    assert [model.mat(model.geom_matid[floor]).name for floor in floors] == ["livegym/floor"]
    assert (model.geom_size[floors, :2] == 0).all()  # endless, so that it ends in haze
    assert [
        model.tex(t).name for t in range(model.ntex) if model.tex_type[t] == mujoco.mjtTexture.mjTEXTURE_SKYBOX
    ] == ["livegym/sky"]
    assert model.light_castshadow.tolist() == [True, False, False]
    assert model.ncam == 0  # the camera frames what moves


OWN = """<mujoco><asset><texture name="sky" type="skybox" builtin="flat" rgb1="1 0 0" width="8" height="48"/>
<texture name="wood" type="2d" builtin="flat" rgb1="1 0 0" width="8" height="8"/>
<material name="wood" texture="wood"/></asset>
<worldbody><light name="lamp" pos="0 0 3"/><camera name="eye" pos="0 0 3"/>
<geom type="plane" size="2 2 .1" material="wood"/><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>"""


def test_a_look_that_a_model_brings_is_kept():
    model = mujoco.MjModel.from_xml_string(dressed(OWN))
    assert (model.nlight, model.ncam, model.ntex, model.nmat) == (1, 1, 2, 1)
    assert model.light(0).name == "lamp"
    assert model.geom_size[0].tolist() == [2, 2, 0.1]


def test_a_task_can_ask_for_livegyms_look_instead():
    model = mujoco.MjModel.from_xml_string(dressed(OWN, own_look=False))
    assert (model.nlight, model.ncam) == (3, 0)
    assert model.mat(model.geom_matid[0]).name == "livegym/floor"


def test_what_a_model_lacks_is_added():
    bare = '<geom type="plane" size="2 2 .1"/><body><freejoint/><geom size=".1"/></body>'
    model = mujoco.MjModel.from_xml_string(dressed(world_of(bare)))
    assert (model.nlight, model.ngeom) == (3, 2)
    assert model.mat(model.geom_matid[0]).name == "livegym/floor"
    assert model.light_bodyid.tolist() == [1, 1, 1]  # the shadow goes with a robot that may walk off


def test_a_model_without_a_floor_gets_one_below_what_moves():
    pole = '<body pos="0 0 2"><freejoint/><geom type="box" size=".1 .1 1"/></body>'
    model = mujoco.MjModel.from_xml_string(dressed(world_of(pole)))
    floor = int(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)[0])
    assert model.geom_pos[floor, 2] == pytest.approx(2 - 0.55 * 2)
    assert not collides(model)[floor]


def test_a_skin_covers_the_collision_shapes_of_its_body():
    robot = "".join(f'<body name="{name}"><freejoint/><geom size=".1"/></body>' for name in ("arm", "rest"))
    skin = (Part("arm", ((0, 0, 0, 0.1), (0.5, 0, 0, 0.05)), (1, 0, 0)),)
    model = mujoco.MjModel.from_xml_string(dressed(world_of(robot), skin=skin))
    drawn = int(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)[0])
    arm, rest = model.body("arm").geomadr[0], model.body("rest").geomadr[0]
    assert (model.geom_group[arm], model.geom_group[drawn], model.geom_group[rest]) == (HIDDEN, 0, 0)
    assert not collides(model)[drawn]
    assert model.geom_rgba[drawn].tolist() == [1, 0, 0, 1]
    assert np.ptp(model.mesh_vert, axis=0).max() == pytest.approx(0.1 + 0.5 + 0.05, abs=0.01)


def test_every_body_of_the_hand_that_collides_has_a_skin_close_to_its_shape():
    world = env_of("BaseTask")
    model = mujoco.MjModel.from_xml_string(drawn_xml(world.env))
    world.close()
    hidden = model.geom_group == HIDDEN
    assert {model.body(b).name for b in model.geom_bodyid[hidden]} == {part.body for part in hand_skin()}
    assert not (collides(model) & ~hidden & (model.geom_bodyid > 0)).any()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    for name in ("index_distal", "thumb_distal", "little_middle"):
        body = model.body(name).id
        own = np.flatnonzero(hidden & (model.geom_bodyid == body))[0]
        for geom in np.flatnonzero((model.geom_bodyid == body) & (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)):
            first, count = model.mesh_vertadr[model.geom_dataid[geom]], model.mesh_vertnum[model.geom_dataid[geom]]
            points = (
                model.mesh_vert[first : first + count] @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
            )
            inside = (points - data.geom_xpos[own]) @ data.geom_xmat[own].reshape(3, 3)  # the capsule lies along z
            inside[:, 2] -= np.clip(inside[:, 2], -model.geom_size[own, 1], model.geom_size[own, 1])
            assert np.linalg.norm(inside, axis=1).max() < model.geom_size[own, 0] + 0.002


@pytest.mark.parametrize(("size", "number"), [(0.15, 0.1), (0.2, 0.2), (0.93, 0.5), (7, 5), (10, 10)])
def test_tiles_have_round_sizes(size, number):
    assert round_number(size) == pytest.approx(number)


def test_an_inertia_that_rounding_made_impossible_is_drawn():
    """A finger of a hand, flat as can be, is written with six digits, so the model was refused by its viewers."""
    finger = '<inertial pos="0 0 0" mass="0.1" diaginertia="8.03158e-05 0.000110027 0.000190343"/>'
    text = f'<mujoco><worldbody><body name="finger"><joint/>{finger}<geom size=".1"/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match="balanceinertia"):
        mujoco.MjModel.from_xml_string(text)
    model = mujoco.MjModel.from_xml_string(dressed(text))
    assert model.body("finger").mass == pytest.approx(0.1)
