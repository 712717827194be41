"""A robot as it was read from its file, before it gets motors and a pose."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
FREE = int(mujoco.mjtJoint.mjJNT_FREE)
FLAT = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
"""Kinds of geoms that are a floor."""
WHEEL_TURNS = 10.0
"""A hinge that may turn further than this number of times is a wheel: its target is a velocity."""


@dataclass(frozen=True)
class Limit:
    """Limits of a motor by its file: N m and rad/s, or N and m/s; None if it says nothing."""

    effort: float | None = None
    velocity: float | None = None


@dataclass
class Robot:
    """A world that holds one robot and a floor.

    `limits` has an entry for each joint that a motor is wanted for. Joints that an actuator of the file moves already
    by a position or velocity servo are in `servos` instead: joint -> actuator.
    """

    file: Path
    kind: str  # URDF or MJCF
    spec: mujoco.MjSpec
    base: str  # the body that floats
    limits: dict[str, Limit] = field(default_factory=dict)
    servos: dict[str, str] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)  # actuators that the standing task does not use
    changes: list[str] = field(default_factory=list)  # what was added or replaced, a sentence each
    odd: list[str] = field(default_factory=list)  # what looks wrong in the file, a sentence each

    @property
    def driven(self) -> list[str]:
        """Joints that a motor or servo moves, in the model's order."""
        return [joint.name for joint in self.spec.joints if joint.name in self.limits or joint.name in self.servos]


def is_wheel(model: mujoco.MjModel, joint: str) -> bool:
    """Whether a joint turns without end."""
    number = model.joint(joint).id
    if model.jnt_type[number] != HINGE:
        return False
    low, high = model.jnt_range[number]
    return not model.jnt_limited[number] or bool(high - low > WHEEL_TURNS * 2 * np.pi)


def joint_body(model: mujoco.MjModel, joint: str) -> str:
    """The body that a joint moves."""
    return str(model.body(int(model.jnt_bodyid[model.joint(joint).id])).name)
