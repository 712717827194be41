"""Values made of several vectors or numbers: forces, states of DOFs and bodies, matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from livegym.compat.core.vectors import Numbers, Parts, Quat, Transform, Vec3, Velocity


class Mat33(Parts):
    """A 3 by 3 matrix; `x`, `y` and `z` are its rows."""

    _fields = ("x", "y", "z")
    _kinds = (Vec3, Vec3, Vec3)
    dtype = np.dtype([("x", Vec3.dtype), ("y", Vec3.dtype), ("z", Vec3.dtype)])
    x: Vec3
    y: Vec3
    z: Vec3

    def __init__(self, x: Vec3 | None = None, y: Vec3 | None = None, z: Vec3 | None = None) -> None:
        super().__init__(x, y, z)

    @staticmethod
    def from_matrix(rows: np.ndarray) -> Mat33:
        """Make one of an array (3, 3)."""
        return Mat33(*(Vec3(*row) for row in rows))

    def to_matrix(self) -> np.ndarray:
        """The numbers as an array (3, 3), float64."""
        return np.array([(row.x, row.y, row.z) for row in (self.x, self.y, self.z)])


class Mat44(Parts):
    """A 4 by 4 matrix; `x`, `y`, `z` and `w` are its rows."""

    _fields = ("x", "y", "z", "w")
    _kinds = (Quat, Quat, Quat, Quat)
    dtype = np.dtype([("x", Quat.dtype), ("y", Quat.dtype), ("z", Quat.dtype), ("w", Quat.dtype)])
    x: Quat
    y: Quat
    z: Quat
    w: Quat

    def __init__(self) -> None:
        zeros = Quat(0, 0, 0, 0)
        super().__init__(zeros, zeros, zeros, zeros)

    def __reduce__(self) -> tuple:
        return Mat44._flat, ([number for row in self for number in row],)

    @classmethod
    def _flat(cls, numbers: Sequence[float]) -> Mat44:
        matrix = cls()
        for index, name in enumerate(cls._fields):
            setattr(matrix, name, Quat(*numbers[4 * index : 4 * index + 4]))
        return matrix


class SpatialForce(Parts):
    """Force (N) and torque (N m)."""

    _fields = ("force", "torque")
    _kinds = (Vec3, Vec3)
    dtype = np.dtype([("force", Vec3.dtype), ("torque", Vec3.dtype)])
    force: Vec3
    torque: Vec3

    def __init__(self, force: Vec3 | None = None, torque: Vec3 | None = None) -> None:
        super().__init__(force, torque)


SpatialVector = SpatialForce


class DofFrame(Parts):
    """Position (m) and direction of a DOF, in the environment's frame."""

    _fields = ("origin", "axis")
    _kinds = (Vec3, Vec3)
    dtype = np.dtype([("origin", Vec3.dtype), ("axis", Vec3.dtype)])
    origin: Vec3
    axis: Vec3

    def __init__(self, origin: Vec3 | None = None, axis: Vec3 | None = None) -> None:
        super().__init__(origin, axis)


class DofState(Numbers):
    """Position (rad or m) and velocity (rad/s or m/s) of a DOF."""

    _fields = ("pos", "vel")
    dtype = np.dtype([("pos", "<f4"), ("vel", "<f4")])
    pos: float
    vel: float

    def __init__(self, pos: float = 0.0, vel: float = 0.0) -> None:
        super().__init__(pos, vel)


class RigidBodyState(Parts):
    """Pose and velocity of a body."""

    _fields = ("pose", "vel")
    _kinds = (Transform, Velocity)
    dtype = np.dtype([("pose", Transform.dtype), ("vel", Velocity.dtype)])
    pose: Transform
    vel: Velocity

    def __init__(self, pose: Transform | None = None, vel: Velocity | None = None) -> None:
        super().__init__(pose, vel)
