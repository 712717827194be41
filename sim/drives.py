"""Motors of joints: PD control in every physics step, with limits of torque and speed, and a delay.

    drives = {"legs": DriveConfig(joints=["*_knee"], stiffness=40, damping=1, effort=24, velocity=30, delay_s=0.01)}
    apply_drives(spec, drives, path)

MuJoCo computes them, as actuators of its own, at the rate of the physics and not at that of the policy:

    torque = stiffness * (target - position) - damping * velocity           clipped to +-effort
    torque = damping * (target - velocity)                                  if the stiffness is 0

With a limit of speed v, the motor is a DC motor whose stall torque is twice the effort. So the largest torque in the
direction of motion is `effort` up to v / 2, then falls linearly, and is 0 at v. A motor may always brake with `effort`.

An actuator that the model has on such a joint keeps its name and its column of `ctrl`, but becomes this motor. Other
joints get a new actuator with the joint's name, after those of the model, in the order of the joints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import mujoco
import numpy as np

from livegym.schema import DriveConfig
from livegym.utils.errors import UserError, did_you_mean

STALL = 2.0
"""Stall torque of a motor with a limit of speed, as a multiple of its effort."""
HINGE, SLIDE = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
POSITION, VELOCITY = int(mujoco.mjtCtrlInput.mjINPUT_POS), int(mujoco.mjtCtrlInput.mjINPUT_VEL)
UP_TO_HISTORY = ("TIME", "QPOS", "QVEL", "ACT")
"""Parts of MuJoCo's state that come before the targets on their way to motors with a delay."""
MARK = 12345.678


@dataclass(frozen=True)
class Held:
    """Where the state keeps the targets on their way, and where it has the positions of their joints."""

    columns: np.ndarray  # (k,) of a state's row
    positions: np.ndarray  # (k,) of a state's row
    follows: np.ndarray  # (k,) 1 for a target position, 0 for a target velocity


def apply_drives(spec: mujoco.MjSpec, drives: Mapping[str, DriveConfig], path: Path) -> None:
    """Give the joints of a model their motors. Raises UserError for names and limits that do not fit the model."""
    for joint, name, drive in _assigned(spec, drives, path):
        actuator = _actuator_of(spec, joint, name, path)
        _write(actuator, joint, drive, spec.option.timestep, f"task.drives.{name}")
        if drive.armature is not None:
            joint.armature = drive.armature


def _assigned(
    spec: mujoco.MjSpec, drives: Mapping[str, DriveConfig], path: Path
) -> Iterator[tuple[mujoco.MjsJoint, str, DriveConfig]]:
    """Each joint that has a motor, in the model's order, with the name of its entry."""
    movable = {joint.name: joint for joint in spec.joints if joint.type in (HINGE, SLIDE) and joint.name}
    entry_of: dict[str, str] = {}
    for name, drive in drives.items():
        for pattern in drive.joints:
            matching = [joint for joint in movable if fnmatchcase(joint, pattern)]
            if not matching:
                raise UserError(
                    f"task.drives.{name}.joints: no hinge or slide of {path} is called {pattern}. Allowed: "
                    f"{', '.join(movable) or 'none with a name'}.{did_you_mean(pattern, movable)}"
                )
            for joint in matching:
                other = entry_of.setdefault(joint, name)
                if other != name:
                    raise UserError(
                        f"task.drives.{name}.joints: {joint} is one of task.drives.{other} already. Allowed: one motor "
                        "for each joint. Narrow one of the two patterns."
                    )
    for joint_name, joint in movable.items():
        if joint_name in entry_of:
            name = entry_of[joint_name]
            yield joint, name, drives[name]


def _actuator_of(spec: mujoco.MjSpec, joint: mujoco.MjsJoint, name: str, path: Path) -> mujoco.MjsActuator:
    """The actuator of the model on a joint, or a new one."""
    found = [a for a in spec.actuators if a.trntype == mujoco.mjtTrn.mjTRN_JOINT and a.target == joint.name]
    if len(found) > 1:
        raise UserError(
            f"task.drives.{name}: {path} has {len(found)} actuators on {joint.name} "
            f"({', '.join(a.name for a in found)}). Allowed: at most one. Remove the others from the model."
        )
    if found:
        return found[0]
    taken = {actuator.name for actuator in spec.actuators}
    if joint.name in taken:
        raise UserError(
            f"task.drives.{name}: {path} has an actuator {joint.name} that does not move the joint {joint.name}. "
            "Allowed: a free name for its motor. Rename the actuator."
        )
    actuator = spec.add_actuator(name=joint.name)
    actuator.trntype, actuator.target = mujoco.mjtTrn.mjTRN_JOINT, joint.name
    return actuator


def _write(
    actuator: mujoco.MjsActuator, joint: mujoco.MjsJoint, drive: DriveConfig, timestep: float, where: str
) -> None:
    """Make an actuator the motor that an entry describes; `timestep` is that of the physics, in s."""
    effort = drive.effort or effort_of(actuator, joint)
    if drive.effort is not None:  # it replaces the joint's own limit, too, which would still clamp
        joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
    actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_FALSE
    actuator.ctrlrange = [0.0, 0.0]
    actuator.dynprm = np.zeros(len(actuator.dynprm))
    actuator.dynprm[0] = 1.0
    actuator.gainprm = np.zeros(len(actuator.gainprm))
    actuator.biasprm = np.zeros(len(actuator.biasprm))
    if drive.velocity is not None:
        if effort is None:
            raise UserError(
                f"{where}.velocity={drive.velocity:g}: a limit of speed needs one of torque, and the model has none "
                f"for {joint.name}. Add {where}.effort=<N m>"
            )
        _make_dc_motor(actuator, drive, effort, drive.velocity)
    elif drive.stiffness:
        actuator.set_to_position(kp=drive.stiffness, kv=drive.damping)
    else:
        actuator.set_to_velocity(kv=drive.damping)
    actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_FALSE if effort is None else mujoco.mjtLimited.mjLIMITED_TRUE
    actuator.forcerange = [0.0, 0.0] if effort is None else [-effort, effort]
    actuator.delay = drive.delay_s
    actuator.nsample = math.ceil(drive.delay_s / timestep - 1e-9)
    actuator.interp = 0  # a target stays until the next one comes


def _make_dc_motor(actuator: mujoco.MjsActuator, drive: DriveConfig, effort: float, speed: float) -> None:
    """A motor constant of 1 and the voltage `speed` give a DC motor with this speed and stall torque."""
    stiffness = drive.stiffness
    actuator.set_to_dcmotor(
        motorconst=[1.0, 1.0],
        resistance=speed / (STALL * effort),
        controller=[stiffness, 0.0, drive.damping, 0.0, 0.0, speed],
        ctrlspec=POSITION if stiffness else VELOCITY,
    )


def effort_of(actuator: mujoco.MjsActuator, joint: mujoco.MjsJoint) -> float | None:
    """The largest torque that the model allows, of the actuator or of the joint; None if it has no limit.

    A motor whose torque is its control, times a gear, is limited by the range of the control.
    """
    limits = []
    if _is_limited(actuator.forcelimited, actuator.forcerange):
        limits.append(np.abs(actuator.forcerange).max() * abs(actuator.gear[0]))
    direct = actuator.biastype == mujoco.mjtBias.mjBIAS_NONE and actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
    if direct and _is_limited(actuator.ctrllimited, actuator.ctrlrange):
        limits.append(np.abs(actuator.ctrlrange).max() * abs(actuator.gear[0] * actuator.gainprm[0]))
    if _is_limited(joint.actfrclimited, joint.actfrcrange):
        limits.append(np.abs(joint.actfrcrange).max())
    return float(min(limits)) if limits else None


def _is_limited(limited: int, limits: np.ndarray) -> bool:
    """As MuJoCo decides it: by the flag, or if that is left open, by the range."""
    auto = limited == mujoco.mjtLimited.mjLIMITED_AUTO
    return bool(limits[0] < limits[1]) and (auto or limited == mujoco.mjtLimited.mjLIMITED_TRUE)


def held_by_delays(model: mujoco.MjModel) -> Held | None:
    """Where a state holds targets on their way to joints; None if no motor of a joint has a delay."""
    delayed = [
        actuator
        for actuator in range(model.nu)
        if model.actuator_delay[actuator] > 0 and model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
    ]
    if not delayed:
        return None
    data = mujoco.MjData(model)
    first = mujoco.mj_stateSize(model, sum(int(getattr(mujoco.mjtState, f"mjSTATE_{n}")) for n in UP_TO_HISTORY))
    columns: list[int] = []
    positions: list[int] = []
    follows: list[float] = []
    for actuator in delayed:
        samples = int(model.actuator_history[actuator, 0])
        mujoco.mj_resetData(model, data)
        mujoco.mj_initCtrlHistory(model, data, actuator, None, np.full((samples, 1), MARK))
        found = np.flatnonzero(data.history == MARK)
        joint = int(model.actuator_trnid[actuator, 0])
        columns += (first + found).tolist()
        positions += [1 + int(model.jnt_qposadr[joint])] * len(found)  # 1: the time comes first
        follows += [float(_follows_position(model, actuator))] * len(found)
    return Held(np.array(columns), np.array(positions), np.array(follows))


def _follows_position(model: mujoco.MjModel, actuator: int) -> bool:
    if model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_DCMOTOR:
        return bool(model.actuator_ctrlspec[actuator] == POSITION)
    return bool(model.actuator_biasprm[actuator, 1] != 0)
