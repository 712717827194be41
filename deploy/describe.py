"""Describe a policy from its Env: the blocks and their meanings, the action, the robot, rates and origin.

    interface = describe(env, origin)                   # what a policy sees and gives, without a graph
    interface, law = complete(interface, controller, env)  # that of an exported graph (deploy/states.py)

Meanings come from the lines `name: meaning` of the docstrings (`Task.meanings`), joints and actuators from the model,
and what the model cannot say of a motor from `task.drives`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from fnmatch import fnmatchcase

import mujoco
import numpy as np

from livegym.rl.interface import Action, Actuator, Block, Joint, Origin, PolicyInterface
from livegym.rl.spec import PolicySpec, spec_of
from livegym.schema import DriveConfig
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
    return joints, tuple(_actuator(model, i, joints, env.config.drives) for i in range(model.nu))


def _joint(model: mujoco.MjModel, i: int) -> Joint:
    kind, unit, width = KINDS[mujoco.mjtJoint(model.jnt_type[i])]
    start = model.jnt_qposadr[i]
    limits = _pair(model.jnt_range[i]) if model.jnt_limited[i] else None
    return Joint(model.joint(i).name, kind, unit, _numbers(model.qpos0[start : start + width]), limits)


def _actuator(model: mujoco.MjModel, i: int, joints: tuple[Joint, ...], drives: Mapping[str, DriveConfig]) -> Actuator:
    on_joint = model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
    joint = joints[model.actuator_trnid[i, 0]] if on_joint else None
    drive = None if joint is None else _drive_of(joint.name, drives)
    gain, gear = float(model.actuator_gainprm[i, 0]), float(model.actuator_gear[i, 0])
    kind, stiffness, damping = _law(model, i) if drive is None else _law_of(drive)
    return Actuator(
        name=model.actuator(i).name,
        joint=joint.name if joint is not None else "",
        kind=kind,
        unit=_unit(kind, joint, gain * gear if kind == "motor" else gear),
        range=_pair(model.actuator_ctrlrange[i]) if model.actuator_ctrllimited[i] else None,
        gear=gain * gear if kind == "motor" else gear,
        stiffness=stiffness * gear * gear,
        damping=damping * gear * gear,
        effort=_effort(model, i, kind),
        velocity=None if drive is None else drive.velocity,
        delay_s=float(model.actuator_delay[i]),
    )


def _drive_of(joint: str, drives: Mapping[str, DriveConfig]) -> DriveConfig | None:
    """The entry of `task.drives` for a joint; a joint has at most one."""
    matching = (drive for drive in drives.values() if any(fnmatchcase(joint, pattern) for pattern in drive.joints))
    return next(matching, None)


def _law_of(drive: DriveConfig) -> tuple[str, float, float]:
    return ("position" if drive.stiffness else "velocity"), drive.stiffness, drive.damping


def _law(model: mujoco.MjModel, i: int) -> tuple[str, float, float]:
    """Kind, stiffness and damping of one of the model's own actuators, along the length that it moves."""
    gain, bias = float(model.actuator_gainprm[i, 0]), model.actuator_biasprm[i]
    stiffness, damping = -float(bias[1]), -float(bias[2])
    direct = model.actuator_dyntype[i] == mujoco.mjtDyn.mjDYN_NONE  # the force follows the control at once
    if not direct or model.actuator_gaintype[i] != mujoco.mjtGain.mjGAIN_FIXED:
        return "other", 0.0, 0.0
    if model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE:
        return "motor", 0.0, 0.0
    if gain and np.isclose(stiffness, gain):
        return "position", stiffness, damping
    if gain and stiffness == 0 and np.isclose(damping, gain):
        return "velocity", 0.0, damping
    return "other", 0.0, 0.0


def _unit(kind: str, joint: Joint | None, gear: float) -> str:
    """The unit of a control; empty if it is not known, as that of a control that a gear multiplies."""
    if joint is None or gear != 1 or kind == "other" or not joint.unit:
        return ""
    return {"motor": FORCES[joint.unit], "position": joint.unit, "velocity": f"{joint.unit}/s"}[kind]


def _effort(model: mujoco.MjModel, i: int, kind: str) -> float | None:
    """The largest force or torque on the joint: the smallest of the limits of actuator, control and joint."""
    gear, limits = abs(float(model.actuator_gear[i, 0])), []
    if model.actuator_forcelimited[i]:
        limits.append(float(np.abs(model.actuator_forcerange[i]).max()) * gear)
    if kind == "motor" and model.actuator_ctrllimited[i]:
        limits.append(float(np.abs(model.actuator_ctrlrange[i]).max() * abs(model.actuator_gainprm[i, 0])) * gear)
    if model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT:
        joint = model.actuator_trnid[i, 0]
        if model.jnt_actfrclimited[joint]:
            limits.append(float(np.abs(model.jnt_actfrcrange[joint]).max()))
    return min(limits) if limits else None


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _pair(values: np.ndarray) -> tuple[float, float]:
    return float(values[0]), float(values[1])
