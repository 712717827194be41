"""Motors for a robot whose file says at most how strong they are: gains by a rule that a person can check.

- Stiffness: the whole effort at an error of 1 rad (of a slide: 5 cm). Without an effort in the file, the robot's weight
  at half the height of its centre of mass (of a slide: its weight) stands for it, and does not limit the motor.
- At most a quarter of what the physics step can carry, which is the inertia that the motor moves, divided by the
  square of the step.
- Damping: 0.7 of the critical one, for the inertia below the joint.
- A wheel has no stiffness: its target is a velocity, and the damping is the effort at 2 rad/s.
"""

from __future__ import annotations

import mujoco
import numpy as np

from livegym.robots.robot import SLIDE, Limit, Robot, is_wheel
from livegym.schema import DriveConfig

Numbers = tuple[float, float, float | None, float | None]
"""Stiffness, damping, effort and speed of a motor."""
FULL_EFFORT_AT = 1.0  # rad
FULL_FORCE_AT = 0.05  # m
WHEEL_ERROR = 2.0  # rad/s
DAMPING_RATIO = 0.7
CARRIED = 0.25


def choose(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> dict[str, DriveConfig]:
    """Motors for the joints in `robot.limits`, by entries of equal numbers; `qpos` (nq,) is about the default pose."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    below = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, below)
    free = 1.0 / np.diag(np.linalg.inv(below))  # what a motor feels if nothing else is held
    height = float(data.subtree_com[model.body(robot.base).id, 2])
    weight = robot.mass(model) * 9.81
    groups: dict[Numbers, list[str]] = {}
    for joint, limit in robot.limits.items():
        dof = int(model.joint(joint).dofadr[0])
        numbers = _numbers(model, joint, limit, (below[dof, dof], free[dof]), weight, height)
        groups.setdefault(numbers, []).append(joint)
    names = ["motors"] if len(groups) == 1 else [_name(joints) for joints in groups.values()]
    return {
        _unique(name, names, i): DriveConfig(joints=joints, stiffness=kp, damping=kd, effort=effort, velocity=speed)
        for i, (name, ((kp, kd, effort, speed), joints)) in enumerate(zip(names, groups.items(), strict=True))
    }


def _numbers(
    model: mujoco.MjModel, joint: str, limit: Limit, inertia: tuple[float, float], weight: float, height: float
) -> Numbers:
    """Stiffness, damping, effort and speed of one motor; `inertia`: below the joint, and felt by the motor."""
    below, felt = inertia
    effort = None if limit.effort is None else _rounded(limit.effort, 4)
    speed = None if limit.velocity is None or effort is None else _rounded(limit.velocity, 4)
    slide = model.joint(joint).type[0] == SLIDE
    strength = effort or (weight if slide else 0.5 * weight * height)
    if is_wheel(model, joint):
        return 0.0, _rounded(strength / WHEEL_ERROR), effort, speed
    most = CARRIED * felt / model.opt.timestep**2
    stiffness = min(strength / (FULL_FORCE_AT if slide else FULL_EFFORT_AT), most)
    return _rounded(stiffness), _rounded(2 * DAMPING_RATIO * np.sqrt(stiffness * below), 1), effort, speed


def _rounded(value: float, digits: int = 2) -> float:
    """To so many significant digits, so that equal joints have equal numbers."""
    return float(f"{value:.{digits}g}")


def _name(joints: list[str]) -> str:
    """A name for an entry: what its joints' names have in common at their ends, or that of the first."""
    common = joints[0]
    for joint in joints[1:]:
        while common and not joint.endswith(common):
            common = common[1:]
    if common != joints[0] and joints[0].removesuffix(common)[-1:].isalnum() and common[:1].isalnum():
        common = common[next((i for i, c in enumerate(common) if not c.isalnum()), len(common)) :]  # half a word
    words = "".join(c if c.isalnum() else "_" for c in common).strip("_").lower()
    name = words if len(words) > 2 and words != "joint" else joints[0].lower()
    cleaned = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return cleaned if cleaned[:1].isalpha() else f"motor_{cleaned}"


def _unique(name: str, names: list[str], index: int) -> str:
    return name if names.count(name) == 1 else f"{name}_{names[: index + 1].count(name)}"
