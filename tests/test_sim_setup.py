"""What a simulator is told before it starts: names, fields, settings, models; and how mistakes are answered."""

from __future__ import annotations

import mujoco
import pytest
import torch
from sim_worlds import (
    BUSY,
    FALLING,
    busy_states,
    differing,
    make,
    make_busy,
    readings,
)

from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim import create
from livegym.utils.errors import UserError

G = 9.81


@pytest.fixture(params=["mujoco", "reference"])
def engine(request):
    return request.param


def test_fields_that_were_not_required(engine, tmp_path):
    sim = make(BUSY, tmp_path, engine)
    with pytest.raises(AttributeError, match=r"start\(\)"):
        _ = sim.qpos
    sim.require("body_pos_w")
    sim.start()
    with pytest.raises(AttributeError, match=r"require.'body_vel_w'"):
        _ = sim.body_vel_w
    with pytest.raises(AttributeError, match=r"require.'sensor:hand_acc'"):
        sim.sensor("hand_acc")
    with pytest.raises(AttributeError, match=r"require_contact.'box'"):
        sim.contact_force_w(["box"])
    with pytest.raises(RuntimeError, match="before"):
        sim.require("body_vel_w")
    with pytest.raises(RuntimeError, match="before"):
        sim.require_contact("box")


def test_misspelt_names_are_answered_with_the_nearest(engine, tmp_path):
    sim = make(BUSY, tmp_path, engine)
    with pytest.raises(ValueError, match="Did you mean body_pos_w"):
        sim.require("body_pos")
    with pytest.raises(ValueError, match="Did you mean hand_gyro"):
        sim.require("sensor:hand_giro")
    with pytest.raises(ValueError, match="Did you mean forearm"):
        sim.require_contact("forarm")
    with pytest.raises(ValueError, match="Did you mean forearm"):
        sim.body_ids(["arm", "forarm"])
    with pytest.raises(ValueError, match="require_contact"):
        sim.require("contact_force_w")
    sim.start()
    with pytest.raises(AttributeError, match="Did you mean ctrl"):
        _ = sim.crtl
    with pytest.raises(AttributeError, match="Did you mean ctrl"):
        sim.crtl = 1
    with pytest.raises(AttributeError, match="in place"):
        sim.ctrl = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="Did you mean body_mass"):
        sim.randomize("body_mas")
    with pytest.raises(ValueError, match="Did you mean hand_pos"):
        sim.sensor("hand_poss")


def test_environment_ids_are_checked(engine, tmp_path):
    sim = make_busy(tmp_path, engine=engine)
    qpos, qvel = busy_states(sim)
    with pytest.raises(ValueError, match="sorted"):
        sim.reset(torch.tensor([1, 0]), qpos[:2], qvel[:2])
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        sim.forward(torch.tensor([3]))
    with pytest.raises(ValueError, match="nonzero"):
        sim.forward(torch.tensor([True, False, True]))
    before = readings(sim)
    none = torch.tensor([], dtype=torch.int64)
    sim.reset(none, qpos[:0], qvel[:0])
    sim.forward(none)
    sim.restore(sim.snapshot(none))
    assert differing(before, readings(sim)) == []


def test_names_and_constants_are_known_before_start(engine, tmp_path):
    sim = make(BUSY, tmp_path, engine)
    sim.require_contact("box")
    assert sim.body_ids(["box", "arm"]) == [3, 1]
    assert sim.site_ids(["hand", "tip"]) == [1, 0]
    assert sim.qpos_ids(["free", "elbow"]) == [2, 3, 4, 5, 6, 7, 8, 1]
    assert sim.qvel_ids(["shoulder", "free"]) == [0, 2, 3, 4, 5, 6, 7]
    assert sim.ctrl_range.tolist() == [[-9, 9], [0, 0]]
    assert sim.default_qpos[2:5].tolist() == pytest.approx([2, 0, 0.3])
    assert sim.keyframe_qpos("home").tolist() == [0.5, -0.25, 2, 0, 1, 1, 0, 0, 0]
    with pytest.raises(ValueError, match="home"):
        sim.keyframe_qpos("hom")
    sim.start()
    assert sim.body_ids(["box", "arm"]) == [3, 1]
    torch.testing.assert_close(sim.qpos[1], sim.default_qpos)
    again = mujoco.MjModel.from_xml_string(sim.model_xml())
    assert again.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)


# settings


def test_substeps_keep_the_control_rate(engine, tmp_path):
    plain, fine = (
        make(FALLING, tmp_path, engine, decimation=5),
        make(FALLING, tmp_path, engine, decimation=5, substeps=4),
    )
    assert (fine.dt, fine.decimation) == (pytest.approx(0.0005), 20)
    assert plain.control_dt == fine.control_dt == pytest.approx(0.01)
    for sim in (plain, fine):
        sim.start()
        sim.step()
    torch.testing.assert_close(plain.qvel, fine.qvel)
    fall = [(5 - sim.qpos[0, 2]).item() for sim in (plain, fine)]  # Euler: g dt^2 n (n + 1) / 2
    assert fall == pytest.approx([G * 0.002**2 * 15, G * 0.0005**2 * 210], abs=1e-6)


def test_physics_settings_reach_the_model(tmp_path):
    sim = make(FALLING, tmp_path, integrator="implicitfast", cone="elliptic", iterations=7, tolerance=1e-4)
    sim.start()
    option = sim.world.model.opt
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert (option.iterations, option.tolerance) == (7, 1e-4)
    with pytest.raises(UserError, match=r"physics.integrator=rk5.*Did you mean rk4"):
        make(FALLING, tmp_path, integrator="rk5")
    with pytest.raises(UserError, match=r"sim.engine=mujocoo.*Did you mean mujoco"):
        make(FALLING, tmp_path, engine="mujocoo")


def test_models_that_cannot_be_used_are_named(tmp_path):
    for text in (
        "<mujoco><wolrd/></mujoco>",
        '<mujoco><worldbody><body name="a"><freejoint/></body></worldbody></mujoco>',
    ):
        with pytest.raises(UserError, match=r"world\.xml"):
            make(text, tmp_path)
    with pytest.raises(UserError, match=r"nowhere\.xml.*no such file"):
        create(SimConfig(engine="mujoco"), PhysicsConfig(), tmp_path / "nowhere.xml", 1, 1)
