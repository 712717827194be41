"""Motors of joints: PD at the rate of the physics, limits of torque and speed, delay; hand-computed torques."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from livegym.schema import DriveConfig, PhysicsConfig, RandomizationConfig, SimConfig
from livegym.sim import create
from livegym.sim.model import MjcfModel
from livegym.tasks.randomization_terms import ModelFactor
from livegym.utils.errors import UserError

ARM = """<mujoco><option timestep="0.002" gravity="0 0 0" integrator="implicitfast"/><worldbody>
<body name="upper"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" size=".03 .1" mass="1"/>
<body name="lower" pos="0 0 .3"><joint name="elbow" axis="0 1 0"/><geom type="capsule" size=".03 .1" mass="1"/></body>
</body></worldbody>
<actuator><motor name="first" joint="elbow" gear="5" ctrlrange="-2 2"/></actuator></mujoco>"""


@pytest.fixture
def arm(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM)
    return tmp_path / "arm.xml"


def compiled(arm, **drives):
    return MjcfModel(arm, PhysicsConfig(), 1, None, {name: DriveConfig(**drive) for name, drive in drives.items()})


def torque(model, joint, position, velocity, target):
    """The torque on a joint in a state, N m."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = position, velocity
    data.ctrl[:] = target
    mujoco.mj_forward(model, data)
    return data.qfrc_actuator[model.joint(joint).dofadr[0]]


def test_a_motor_takes_the_place_of_the_models_and_others_follow_in_the_order_of_the_joints(arm):
    made = compiled(arm, all={"joints": ["*"], "stiffness": 40.0, "damping": 1.0})
    assert made.names("actuator") == ["first", "shoulder"]
    assert torque(made.model, "elbow", 0.1, 0.5, 0.2) == pytest.approx(40 * 0.1 - 0.5)
    assert torque(made.model, "elbow", -1.0, 0.0, 1.0) == pytest.approx(10.0)  # gear x control range of the motor
    assert torque(made.model, "shoulder", -1.0, 0.0, 1.0) == pytest.approx(80.0)  # nothing limits it


def test_a_limit_that_is_set_replaces_the_joints_own(arm):
    arm.write_text(ARM.replace('name="elbow" axis', 'name="elbow" actuatorfrcrange="-4 4" axis'))
    motor = {"joints": ["elbow"], "stiffness": 40.0, "damping": 1.0}
    assert torque(compiled(arm, m=motor).model, "elbow", -1.0, 0.0, 1.0) == pytest.approx(4.0)
    assert torque(compiled(arm, m={**motor, "effort": 30.0}).model, "elbow", -1.0, 0.0, 1.0) == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("position", "velocity", "target", "expected"),
    [
        (0.1, 1.0, 0.2, 40 * 0.1 - 1.0),
        (0.0, 3.0, 1.0, 10.0),  # effort, below half of the speed
        (0.0, 6.0, 1.0, 20 * (1 - 6 / 8)),
        (0.0, 8.0, 1.0, 0.0),
        (0.0, 9.0, 1.0, 20 * (1 - 9 / 8)),  # too fast: it brakes
        (0.0, 6.0, -1.0, -10.0),  # it may brake with its whole effort
    ],
)
def test_the_torque_falls_with_the_speed(arm, position, velocity, target, expected):
    made = compiled(arm, m={"joints": ["elbow"], "stiffness": 40.0, "damping": 1.0, "effort": 10.0, "velocity": 8.0})
    assert torque(made.model, "elbow", position, velocity, target) == pytest.approx(expected)


@pytest.mark.parametrize("limits", [{}, {"effort": 10.0, "velocity": 8.0}])
def test_without_stiffness_the_target_is_a_velocity(arm, limits):
    made = compiled(arm, wheel={"joints": ["elbow"], "stiffness": 0.0, "damping": 3.0, **limits})
    assert torque(made.model, "elbow", 0.7, 1.0, 2.0) == pytest.approx(3.0 * (2.0 - 1.0))


def test_the_law_holds_in_every_physics_step_of_a_control_step(arm):
    """A target that is held for 20 physics steps: a torque that is held as well would overshoot far."""
    drives = {"all": DriveConfig(joints=["shoulder"], stiffness=400.0, damping=12.0)}
    sim = create(SimConfig(engine="reference"), PhysicsConfig(), arm, 1, 20, None, drives)
    sim.start()
    sim.reset(torch.tensor([0]), torch.tensor([[0.0, 0.0]]), torch.zeros(1, 2))
    sim.ctrl[:, sim.actuator_ids(["shoulder"])] = 0.5
    highest = 0.0
    for _ in range(25):
        sim.step()
        highest = max(highest, float(sim.qpos[0, 0]))
    assert float(sim.qpos[0, 0]) == pytest.approx(0.5, abs=0.02)
    assert highest < 0.7


@pytest.mark.parametrize("engine", ["mujoco", "reference"])
def test_a_target_comes_late_and_before_it_the_joint_is_held_where_it_was(arm, engine):
    drives = {"all": DriveConfig(joints=["*"], stiffness=40.0, damping=1.0, delay_s=0.006)}
    sim = create(SimConfig(engine=engine, threads=1), PhysicsConfig(), arm, 2, 1, None, drives)
    sim.start()
    start = torch.tensor([[0.3, -1.0], [0.0, 0.5]])
    sim.reset(torch.tensor([0, 1]), start, torch.zeros(2, 2))
    sim.ctrl[:] = 2.0
    for _ in range(3):
        sim.step()
        assert torch.equal(sim.qpos, start)  # without the reset's targets, it would be pulled to 0
    sim.step()
    assert (sim.qpos != start).all()
    between = sim.snapshot(torch.tensor([0, 1]))
    sim.ctrl[:] = -2.0
    sim.step(), sim.step()
    after = sim.qpos.clone()
    sim.restore(between)
    sim.ctrl[:] = -2.0
    sim.step(), sim.step()
    assert torch.equal(sim.qpos, after)
    sim.close()


def test_a_wheel_with_a_delay_begins_at_rest(arm):
    drives = {"all": DriveConfig(joints=["*"], stiffness=0.0, damping=1.0, delay_s=0.004)}
    sim = create(SimConfig(engine="mujoco", threads=1), PhysicsConfig(), arm, 1, 1, None, drives)
    sim.start()
    sim.reset(torch.tensor([0]), torch.tensor([[3.0, 1.0]]), torch.zeros(1, 2))
    sim.ctrl[:] = 2.0
    sim.step()
    assert torch.equal(sim.qvel, torch.zeros(1, 2))
    sim.close()


def test_the_delay_is_the_same_with_more_substeps(arm):
    drive = DriveConfig(joints=["elbow"], stiffness=40.0, damping=1.0, delay_s=0.006)
    model = MjcfModel(arm, PhysicsConfig(substeps=2), 1, None, {"m": drive}).model
    assert model.actuator_history[0, 0] == 6
    assert np.isclose(model.actuator_delay[0], 0.006)


def gains_of(sim):
    """A randomisation of all gains of a simulator, which has started."""
    term = ModelFactor("gains", RandomizationConfig(what="gain", names=["*"], range=[2.0, 2.0]), sim)
    term.start()
    return term


def test_gains_are_randomised_with_and_without_a_limit_of_speed(arm):
    common = {"stiffness": 40.0, "damping": 1.0}
    drives = {
        "a": DriveConfig(joints=["elbow"], effort=10.0, velocity=8.0, **common),
        "b": DriveConfig(joints=["shoulder"], **common),
    }
    sim = create(SimConfig(engine="reference"), PhysicsConfig(), arm, 1, 1, None, drives)
    sim.start()
    gains_of(sim).draw(torch.tensor([0]), torch.Generator(), 1.0)
    sim.apply_randomization(torch.tensor([0]))
    changed = sim.models[0]
    assert torque(changed, "elbow", 0.0, 0.5, 0.1) == pytest.approx(2 * 40 * 0.1 - 0.5)
    assert torque(changed, "shoulder", 0.0, 0.5, 0.1) == pytest.approx(2 * 40 * 0.1 - 0.5)
    assert torque(changed, "elbow", 0.0, 6.0, 1.0) == pytest.approx(20 * (1 - 6 / 8))  # the limits are as before


def test_a_wheel_has_no_gain_to_randomise(arm):
    drives = {"a": DriveConfig(joints=["*"], stiffness=0.0, damping=1.0, effort=10.0, velocity=8.0)}
    sim = create(SimConfig(engine="reference"), PhysicsConfig(), arm, 1, 1, None, drives)
    sim.start()
    with pytest.raises(UserError, match="first is not a position actuator"):
        gains_of(sim)


@pytest.mark.parametrize(
    ("drives", "words"),
    [
        ({"m": {"joints": ["ankle"], "stiffness": 1.0, "damping": 1.0}}, "no hinge or slide .* called ankle"),
        (
            {"a": {"joints": ["elbow"], "stiffness": 1.0, "damping": 1.0}, "b": {"joints": ["*"], "stiffness": 1.0,
             "damping": 1.0}},
            "elbow is one of task.drives.a already",
        ),
        (
            {"m": {"joints": ["shoulder"], "stiffness": 1.0, "damping": 1.0, "velocity": 3.0}},
            "task.drives.m.velocity=3: a limit of speed needs one of torque",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_model_is_refused(arm, drives, words):
    with pytest.raises(UserError, match=words):
        compiled(arm, **drives)
