"""Describe a policy from its Env: the blocks and their meanings, the action, the robot, rates and origin.

    interface = describe(env, origin)                   # what a policy sees and gives, without a graph
    interface = with_graph(interface, controller, ...)  # that of an exported graph

Meanings come from the lines `name: meaning` of the docstrings (`Task.meanings`), joints and actuators from the model.
"""

from __future__ import annotations

import dataclasses
import inspect

import mujoco
import numpy as np

from livegym.rl.interface import Action, Actuator, Block, Joint, Origin, PolicyInterface
from livegym.rl.spec import PolicySpec, spec_of
from livegym.sim.model import compiled
from livegym.tasks.base import ActionSpec, Box, Task
from livegym.tasks.env import EPISODE_TIME, Env
from livegym.tasks.terms import POLICY

KINDS = {
    mujoco.mjtJoint.mjJNT_FREE: ("free", "m", 7),
    mujoco.mjtJoint.mjJNT_BALL: ("ball", "", 4),
    mujoco.mjtJoint.mjJNT_SLIDE: ("slide", "m", 1),
    mujoco.mjtJoint.mjJNT_HINGE: ("hinge", "rad", 1),
}
"""MuJoCo's type of a joint -> its name, the unit of its position, and how many numbers that has."""
FORCES = {"m": "N", "rad": "Nm"}


def describe(env: Env, origin: Origin | None = None) -> PolicyInterface:
    """The description of a policy that acts in `env`, without a graph."""
    meanings = env.task.meanings()
    meanings.setdefault(EPISODE_TIME, "fraction of the time limit that has passed, 0 to 1")
    blocks = tuple(
        Block(name, env.layout.widths[name], env.config.history.get(name, 1), meanings.get(name, ""))
        for name in env.layout.groups[POLICY]
    )
    joints, actuators = _robot(env)
    spec = spec_of(env)
    return PolicyInterface(
        task=spec.task,
        observations=blocks,
        action=_action(spec.action, env.task),
        control_dt=spec.control_dt,
        physics_dt=0.0 if env.task.own_dynamics else env.sim.dt,
        decimation=env.sim.decimation,
        joints=joints,
        actuators=actuators,
        origin=origin or Origin(),
    )


def describe_spec(spec: PolicySpec, origin: Origin) -> PolicyInterface:
    """The description of a policy without its environment: the blocks' widths include their histories."""
    return PolicyInterface(
        task=spec.task,
        observations=tuple(Block(name, width) for name, width in spec.observations),
        action=_action(spec.action, None),
        control_dt=spec.control_dt,
        physics_dt=0.0,
        decimation=1,
        origin=origin,
    )


def _action(spec: ActionSpec, task: Task | None) -> Action:
    meaning = "" if task is None else " ".join((inspect.getdoc(type(task).action_spec) or "").split())
    action = Action(type(spec).__name__, spec.width, spec.choices, meaning=meaning)
    return action if isinstance(spec, Box) else dataclasses.replace(action, low=0.0, high=max(spec.choices) - 1.0)


def _robot(env: Env) -> tuple[tuple[Joint, ...], tuple[Actuator, ...]]:
    if env.task.own_dynamics or env.task.own_env:
        return (), ()
    model = compiled(env.sim.model_xml())
    joints = tuple(_joint(model, i) for i in range(model.njnt))
    return joints, tuple(_actuator(model, i, joints) for i in range(model.nu))


def _joint(model: mujoco.MjModel, i: int) -> Joint:
    kind, unit, width = KINDS[mujoco.mjtJoint(model.jnt_type[i])]
    start = model.jnt_qposadr[i]
    limits = _pair(model.jnt_range[i]) if model.jnt_limited[i] else None
    return Joint(model.joint(i).name, kind, unit, _numbers(model.qpos0[start : start + width]), limits)


def _actuator(model: mujoco.MjModel, i: int, joints: tuple[Joint, ...]) -> Actuator:
    on_joint = model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
    joint = joints[model.actuator_trnid[i, 0]] if on_joint else None
    gain, gear = float(model.actuator_gainprm[i, 0]), float(model.actuator_gear[i, 0])
    bias = model.actuator_biasprm[i]
    fixed = model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    stiffness, damping = -float(bias[1]), -float(bias[2])
    plain = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE
    unit, kind = "", "other"
    if fixed and plain:
        kind = "motor"
        unit = FORCES.get(joint.unit, "") if joint is not None and gain * gear == 1 else ""
    elif fixed and gain and np.isclose(stiffness, gain):
        kind, unit = "position", joint.unit if joint is not None else ""
    elif fixed and gain and stiffness == 0 and np.isclose(damping, gain):
        kind, unit = "velocity", f"{joint.unit}/s" if joint is not None and joint.unit else ""
    servo = kind in ("position", "velocity")
    return Actuator(
        name=model.actuator(i).name,
        joint=joint.name if joint is not None else "",
        kind=kind,
        unit=unit,
        range=_pair(model.actuator_ctrlrange[i]) if model.actuator_ctrllimited[i] else None,
        gear=gain * gear if kind == "motor" else gear,
        stiffness=stiffness if servo else 0.0,
        damping=damping if servo else 0.0,
    )


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _pair(values: np.ndarray) -> tuple[float, float]:
    return float(values[0]), float(values[1])
