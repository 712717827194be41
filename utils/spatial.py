"""Rotations as unit quaternions (..., 4) in the order w, x, y, z, as MuJoCo has them.

A quaternion called `b_in_a` turns vectors that are given in frame b into frame a.
"""

from __future__ import annotations

import torch
from torch import Tensor


def conjugate(quat: Tensor) -> Tensor:
    """The inverse rotation of a unit quaternion."""
    return quat * quat.new_tensor([1.0, -1.0, -1.0, -1.0])


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """First b, then a."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        -1,
    )


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """vector (..., 3) turned by quat (..., 4): v + 2 w (q x v) + 2 q x (q x v)."""
    w, axis = quat[..., :1], quat[..., 1:]
    turned = 2.0 * torch.linalg.cross(axis, vector)
    return vector + w * turned + torch.linalg.cross(axis, turned)


def into_frame(point: Tensor, origin: Tensor, quat: Tensor) -> Tensor:
    """Points (..., 3) of the world as the frame at `origin` (..., 3), turned by `quat` (..., 4), sees them."""
    return rotate(conjugate(quat), point - origin)
