"""A robot as it was read from its file, before it gets motors and a pose."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
FREE = int(mujoco.mjtJoint.mjJNT_FREE)
FLAT = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
"""Kinds of geoms that are a floor."""
LEAST_SHARE = 0.1
"""A base with less than this share of the mass is a frame."""
HIDDEN_GROUP = 4
"""Group of a site that viewers do not show."""
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
    by a position or velocity servo are in `servos` instead: joint -> actuator. Other bodies of the world are scenery.
    """

    file: Path
    kind: str  # URDF or MJCF
    spec: mujoco.MjSpec
    base: str  # the body that floats
    floor: str = ""  # the geom that it stands on
    trunk: str = ""  # the heaviest body of the rigid part that carries most: the base's, or another if that is a frame
    middle: str = ""  # a site in the centre of mass of that part: its height is that of the robot
    limits: dict[str, Limit] = field(default_factory=dict)
    servos: dict[str, str] = field(default_factory=dict)
    speed_servos: set[str] = field(default_factory=set)  # joints in `servos` whose servo follows a velocity
    idle: list[str] = field(default_factory=list)  # actuators that the standing task does not use
    changes: list[str] = field(default_factory=list)  # what was added or replaced, a sentence each
    odd: list[str] = field(default_factory=list)  # what looks wrong in the file, a sentence each

    @property
    def driven(self) -> list[str]:
        """Joints that a motor or servo moves, in the model's order."""
        return [joint.name for joint in self.spec.joints if joint.name in self.limits or joint.name in self.servos]

    def by_velocity(self, model: mujoco.MjModel, joint: str) -> bool:
        """Whether the target of a joint's motor or servo is a velocity."""
        return joint in self.speed_servos if joint in self.servos else is_wheel(model, joint)

    def bodies(self, model: mujoco.MjModel) -> np.ndarray:
        """Ids of the bodies of the robot itself, the base first."""
        return np.flatnonzero(model.body_rootid == model.body(self.base).id)

    def geoms(self, model: mujoco.MjModel) -> np.ndarray:
        """Ids of the robot's geoms that collide."""
        own = np.isin(model.geom_bodyid, self.bodies(model))
        return np.flatnonzero(own & ((model.geom_contype != 0) | (model.geom_conaffinity != 0)))

    def mass(self, model: mujoco.MjModel) -> float:
        """kg, of the robot itself."""
        return float(model.body_subtreemass[model.body(self.base).id])


def mark_middle(robot: Robot, model: mujoco.MjModel) -> None:
    """Give the robot its trunk and the site in its middle.

    A base says little about height: it may be a frame on the floor without a mass, or have its origin anywhere.
    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    own = robot.bodies(model)
    part_of = model.body_weldid[own]
    masses = {int(part): float(model.body_mass[own[part_of == part]].sum()) for part in np.unique(part_of)}
    base = int(own[0])
    part = base if masses[base] >= LEAST_SHARE * robot.mass(model) else max(masses, key=lambda part: masses[part])
    inside = own[part_of == part]
    trunk = int(inside[model.body_mass[inside].argmax()])
    middle = np.average(data.xipos[inside], axis=0, weights=model.body_mass[inside])
    at = data.xmat[trunk].reshape(3, 3).T @ (middle - data.xpos[trunk])
    robot.trunk = model.body(trunk).name
    robot.middle = free_name("trunk_middle", [site.name for site in robot.spec.sites])
    robot.spec.body(robot.trunk).add_site(name=robot.middle, pos=at, group=HIDDEN_GROUP)
    robot.changes.append(f"site {robot.middle} was added: the centre of mass of {robot.trunk} and what is fixed to it")


def is_wheel(model: mujoco.MjModel, joint: str) -> bool:
    """Whether a joint turns without end."""
    number = model.joint(joint).id
    if model.jnt_type[number] != HINGE:
        return False
    low, high = model.jnt_range[number]
    return not model.jnt_limited[number] or bool(high - low > WHEEL_TURNS * 2 * np.pi)


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name that is not taken, as near to the one that is wanted as possible."""
    while wanted in taken:
        wanted += "_"
    return wanted
