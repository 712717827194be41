"""Metadata of an exported policy that other controllers use: gains, default pose and scale are those of the motors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from livegym.deploy.describe import describe
from livegym.deploy.export import controller_of
from livegym.deploy.onnx_file import metadata_of
from livegym.deploy.plan import Wanted
from livegym.deploy.states import complete
from livegym.rl.interface import PolicyInterface
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.schema import DriveConfig, ObservationGroups, PhysicsConfig, SimConfig
from livegym.sim import create
from livegym.tasks.base import Box, Task
from livegym.tasks.env import Env
from tests import saved_policies as saved
from tests.dummy import counting_config

ARM = """<mujoco><option timestep="0.005" gravity="0 0 0" integrator="implicitfast"/><worldbody>
<body name="upper"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" size=".03 .1" mass="1"/>
<body name="lower" pos="0 0 .3"><joint name="elbow" axis="0 1 0"/><geom type="capsule" size=".03 .1" mass="1"/></body>
</body></worldbody>{}<keyframe><key name="home" qpos="0.25 -0.5"/></keyframe></mujoco>"""
LIMITED = {"stiffness": 40.0, "damping": 1.5, "effort": 12.0, "velocity": 8.0, "delay_s": 0.01}


class Reach(Task):
    """An arm whose actions move targets about its keyframe."""

    def __init__(self, path: Path) -> None:
        super().__init__(None)
        self.path = path

    @property
    def action_spec(self):
        return Box(2)

    def model_path(self):
        return self.path

    def bind(self, sim):
        self.sim = sim
        self.home = sim.keyframe_qpos("home")
        self.last = self.buffer(sim, "last_action", 2)

    def reset(self, env_ids, rng):
        return self.home.repeat(len(env_ids), 1), torch.zeros(len(env_ids), 2)

    def control(self, action):
        self.last.copy_(action)
        return self.home + 0.5 * action

    def observe(self, state):
        return {"bend": state.qpos - self.home, "last_action": self.last}

    def reward(self, state, action):
        return {"still": -state.qvel.square().sum(1)}

    def terminate(self, state):
        return {"fast": state.qvel.abs().amax(1) > 1e3}


def made(folder: Path, actuators: str = "", **drives) -> Env:
    """An environment of the arm, with actuators of its model and motors."""
    (folder / "arm.xml").write_text(ARM.format(actuators))
    motors = {name: DriveConfig(**drive) for name, drive in drives.items()}
    sim = create(SimConfig(engine="reference"), PhysicsConfig(), folder / "arm.xml", 8, 4, None, motors)
    config = counting_config(
        5,
        name="Reach",
        decimation=4,
        observations=ObservationGroups(policy=["bend", "last_action"]),
        rewards={"still": 1.0},
        terminations={"fast": True},
        drives=motors,
        params=None,
    )
    return Env(Reach(folder / "arm.xml"), sim, config, 0)


def exported(env: Env, config, parts: str = "controls") -> tuple[PolicyInterface, dict[str, str]]:
    """What a file of a random policy in these environments says."""
    train, spec = config("task=Cartpole").train, spec_of(env)
    model = saved.random_weights(Policy(spec, train, 8, "cpu"))
    controller = controller_of(model, spec, train, env, Wanted(parts))
    interface, law = complete(describe(env), controller, env)
    return interface, metadata_of(interface, law)


def test_motors_of_a_task_are_described_with_their_gains_and_limits(config, tmp_path):
    env = made(tmp_path, all={"joints": ["*"], **LIMITED})
    interface, texts = exported(env, config)
    motor = interface.actuators[0]
    assert (motor.name, motor.kind, motor.unit) == ("shoulder", "position", "rad")
    assert (motor.stiffness, motor.damping, motor.effort, motor.velocity) == (40.0, 1.5, 12.0, 8.0)
    assert motor.delay_s == pytest.approx(0.01)
    assert (texts["joint_names"], texts["joint_stiffness"]) == ("shoulder,elbow", "40.0,40.0")
    assert texts["joint_damping"] == "1.5,1.5"
    assert PolicyInterface.from_dict(interface.to_dict()) == interface


def test_the_default_pose_is_that_of_action_0_and_the_scale_is_about_it(config, tmp_path):
    """The model's zeros are not the pose about which the policy observes and acts."""
    interface, texts = exported(made(tmp_path, all={"joints": ["*"], **LIMITED}), config)
    assert [block.name for block in interface.observations if block.inside] == ["last_action"]
    assert texts["default_joint_pos"] == "0.25,-0.5"
    assert texts["action_scale"] == "0.5,0.5"
    assert interface.joints[0].default == (0.0,)


def test_a_motor_without_stiffness_has_a_velocity_as_its_target(config, tmp_path):
    wheel = {"joints": ["elbow"], "stiffness": 0.0, "damping": 3.0, "effort": 10.0, "velocity": 8.0}
    legs = {"joints": ["shoulder"], "stiffness": 40.0, "damping": 1.0}
    interface, texts = exported(made(tmp_path, legs=legs, wheel=wheel), config)
    assert [(one.kind, one.unit) for one in interface.actuators] == [("position", "rad"), ("velocity", "rad/s")]
    assert (texts["joint_stiffness"], texts["joint_damping"]) == ("40.0,0.0", "1.0,3.0")
    assert "action_scale" not in texts  # a wheel's target is not about a pose: it is not 0 at action 0


ACTUATORS = '<actuator><position name="s" joint="shoulder" kp="20" kv="1" gear="2"/>{}</actuator>'


def test_a_geared_servo_has_the_gains_that_the_joint_feels(config, tmp_path):
    env = made(tmp_path, ACTUATORS.format('<motor name="e" joint="elbow" gear="3" ctrlrange="-2 2"/>'))
    interface, texts = exported(env, config)
    servo, motor = interface.actuators
    assert (servo.kind, servo.unit, servo.gear) == ("position", "", 2.0)
    assert (servo.stiffness, servo.damping) == (80.0, 4.0)  # gear^2 x kp
    assert (motor.kind, motor.gear, motor.effort) == ("motor", 3.0, 6.0)
    assert texts["default_joint_pos"] == "0.125,0.0"  # control 0.25 / gear; a motor has no target


@pytest.mark.parametrize(
    "second",
    [
        '<motor name="e" joint="shoulder"/>',  # two on one joint: no single gain is true
        '<general name="e" joint="elbow" gaintype="affine" biastype="affine" gainprm="1 1 0"/>',
    ],
)
def test_gains_that_are_not_known_are_left_out(config, tmp_path, second):
    texts = exported(made(tmp_path, ACTUATORS.format(second)), config)[1]
    assert {"joint_stiffness", "joint_damping", "action_scale"} & texts.keys() == set()
    assert "shoulder" in texts["joint_names"]


def test_a_file_of_the_policy_alone_says_which_blocks_need_the_tasks_memory(config, tmp_path):
    interface, texts = exported(made(tmp_path, all={"joints": ["*"], **LIMITED}), config, "policy")
    assert interface.lacks == (
        "not inside: what the task's code, or its client, does with an action",
        "not inside: the task's memory for last_action, which your program has to keep; exportParts=task has it inside",
    )
    assert texts["default_joint_pos"] == "0.0,0.0"
