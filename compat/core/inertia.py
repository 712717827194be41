"""Mass and inertia of bodies: moved between frames, added up, and made physical.

    arm = Inertial(1.0, np.array([0.5, 0, 0]), np.diag([0.1, 0.1, 0.1]))
    arm + hand.seen_from(wrist)  # of one body that holds both

Units: kg, m, kg m^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from livegym.compat.core.frames import Pose, rotation

TINY_MASS = 1e-4
"""Mass (kg) of a body that has none, because MuJoCo cannot move a body without mass."""
TINY_INERTIA = 1e-7
"""Moment of inertia (kg m^2) of such a body about each axis."""
REPLACED = "inertia of no real body that MuJoCo can move, replaced by the nearest possible one"
"""Note about a body whose moments are negative or tiny, or one is larger than the other two together."""
MARGIN = 1e-12
"""Share of the largest moment by which the other two together exceed it, so that rounding does not spoil it."""
ROUNDING = 1e-6
"""Share of the largest moment that the other two may lack without a note."""
SMALLEST = 1e-12
"""Moments of inertia (kg m^2) below it are raised to it; MuJoCo refuses those below 1e-15."""


@dataclass(frozen=True)
class Inertial:
    """Mass, centre of mass (3,), and inertia tensor (3, 3) about it, in the axes of the body."""

    mass: float
    com: np.ndarray
    tensor: np.ndarray

    def seen_from(self, pose: Pose) -> Inertial:
        """The same matter in the parent's frame, if `pose` is this body's there."""
        turn = pose.matrix()
        return Inertial(self.mass, pose.pos + turn @ self.com, turn @ self.tensor @ turn.T)

    def about(self, point: np.ndarray) -> np.ndarray:
        """The inertia tensor about another point (Steiner)."""
        arm = self.com - point
        return self.tensor + self.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))

    def __add__(self, other: Inertial) -> Inertial:
        mass = self.mass + other.mass
        if mass == 0:
            return Inertial(0.0, self.com, self.tensor + other.tensor)
        com = (self.mass * self.com + other.mass * other.com) / mass
        return Inertial(mass, com, self.about(com) + other.about(com))

    def scaled_to(self, mass: float) -> Inertial:
        """The same shape with another mass."""
        return Inertial(mass, self.com, self.tensor * (mass / self.mass))

    def principal(self) -> tuple[np.ndarray, np.ndarray]:
        """The moments (3,) about the principal axes, and the rotation of these axes, a quaternion (4,) w x y z."""
        if not np.any(self.tensor - np.diag(np.diag(self.tensor))):
            return np.diag(self.tensor).copy(), np.array([1.0, 0.0, 0.0, 0.0])
        moments, axes = np.linalg.eigh((self.tensor + self.tensor.T) / 2)
        if np.linalg.det(axes) < 0:
            axes[:, 0] *= -1
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, axes.reshape(-1))
        return moments, quat


def tensor_of(xx: float, yy: float, zz: float, xy: float, xz: float, yz: float) -> np.ndarray:
    """The inertia tensor (3, 3) with these moments and products."""
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def nothing() -> Inertial:
    """No matter."""
    return Inertial(0.0, np.zeros(3), np.zeros((3, 3)))


def tiny() -> Inertial:
    """As little matter as MuJoCo can move."""
    return Inertial(TINY_MASS, np.zeros(3), TINY_INERTIA * np.eye(3))


def from_moments(mass: float, com: np.ndarray, moments: np.ndarray, quat: np.ndarray) -> Inertial:
    """Matter given by its principal moments (3,) and axes (4,) w x y z, as MuJoCo keeps it."""
    axes = rotation(quat)
    return Inertial(mass, com, axes @ np.diag(moments) @ axes.T)


def physical(inertial: Inertial) -> Inertial:
    """The nearest inertia that a real body can have: no moment is negative, none is larger than the other two together.

    PhysX simulates any positive moments, MuJoCo refuses those of no real body. The largest moment stays as it is; what
    the other two lack is given to both in equal parts.
    """
    moments, quat = inertial.principal()
    raised = np.maximum(moments, SMALLEST)
    low, middle, high = np.argsort(raised)
    lack = raised[high] * (1 + MARGIN) - raised[low] - raised[middle]
    if lack > 0:
        raised[[low, middle]] += lack / 2
    if np.array_equal(raised, moments):
        return inertial
    return from_moments(inertial.mass, inertial.com, raised, quat)


def is_physical(inertial: Inertial) -> bool:
    """Whether a real body can have it, except for rounding in the file."""
    low, middle, high = np.sort(inertial.principal()[0])
    return bool(low >= SMALLEST and low + middle >= high * (1 - ROUNDING))


def write(body: mujoco.MjsBody, inertial: Inertial) -> None:
    """Give a body of a specification its mass and inertia, whatever its geoms say."""
    moments, quat = inertial.principal()
    body.explicitinertial = True
    body.mass = inertial.mass
    body.ipos = inertial.com
    body.iquat = quat
    body.inertia = moments
    body.fullinertia = np.full(6, np.nan)
