"""Poses of the importers: a position (3,) in metres, and a quaternion (4,) w x y z as in MuJoCo."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np


class Pose(NamedTuple):
    """Position and rotation of a frame in its parent's."""

    pos: np.ndarray
    quat: np.ndarray

    def then(self, inner: Pose) -> Pose:
        """The pose of `inner`, which is given in this frame, in the parent's."""
        pos, quat = np.zeros(3), np.zeros(4)
        mujoco.mju_mulPose(pos, quat, self.pos, self.quat, inner.pos, inner.quat)
        return Pose(pos, quat)

    def matrix(self) -> np.ndarray:
        """The rotation as a matrix (3, 3)."""
        return rotation(self.quat)


def identity() -> Pose:
    """The pose of a frame that is its parent's."""
    return Pose(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))


def rotation(quat: np.ndarray) -> np.ndarray:
    """A quaternion w x y z as a matrix (3, 3)."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(quat, float))
    return matrix.reshape(3, 3)


def from_rpy(xyz: np.ndarray, rpy: np.ndarray) -> Pose:
    """The pose of a URDF `<origin>`: turned by roll, pitch and yaw (rad) about the parent's x, y and z axes."""
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, rpy, "XYZ")
    return Pose(xyz, quat)
