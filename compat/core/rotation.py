"""Rotations of arrays of vectors by arrays of wxyz quaternions, by components: np.cross is ten times slower.

    rotate(quat, v)  # (..., 4), (..., 3) -> (..., 3)

Quaternions need not have unit length.
"""

from __future__ import annotations

import numpy as np


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cross product of (..., 3) arrays."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, b))
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.subtract(a[..., y] * b[..., z], a[..., z] * b[..., y], out=out[..., x])
    return out


def rotate(quat: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate v (..., 3) by quat (..., 4): v + 2 (w u x v + u x (u x v)) / |q|^2."""
    u = quat[..., 1:]
    twice = cross(u, v) * (2.0 / np.square(quat).sum(-1, keepdims=True))
    return v + quat[..., :1] * twice + cross(u, twice)


def apply(matrix: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate v (..., 3) by matrices (..., 3, 3)."""
    return (matrix @ v[..., None])[..., 0]


def apply_inverse(matrix: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate v (..., 3) by the inverse of matrices (..., 3, 3)."""
    return (v[..., None, :] @ matrix)[..., 0, :]


def conjugate(quat: np.ndarray) -> np.ndarray:
    """Return the inverse rotation of unit quaternions (..., 4)."""
    return quat * np.array([1.0, -1.0, -1.0, -1.0])


def rotate_inverse(quat: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rotate v (..., 3) by the inverse of quat (..., 4)."""
    return rotate(conjugate(quat), v)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of quaternions (..., 4): first b, then a."""
    out = np.empty(np.broadcast_shapes(a.shape, b.shape))
    u, v = a[..., 1:], b[..., 1:]
    out[..., 0] = a[..., 0] * b[..., 0] - (u * v).sum(-1)
    out[..., 1:] = a[..., :1] * v + b[..., :1] * u + cross(u, v)
    return out


def to_xyzw(quat: np.ndarray, out: np.ndarray) -> None:
    """Write wxyz quaternions (..., 4) into out as xyzw."""
    out[..., :3] = quat[..., 1:]
    out[..., 3] = quat[..., 0]


def to_wxyz(quat: np.ndarray) -> np.ndarray:
    """Return xyzw quaternions (..., 4) as wxyz; a quaternion of length 0 becomes the identity."""
    out = np.asarray(quat, np.float64)[..., [3, 0, 1, 2]]
    out[np.square(out).sum(-1) == 0.0] = (1.0, 0.0, 0.0, 0.0)
    return out
