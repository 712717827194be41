"""Quaternions (x y z w), transforms and random numbers on torch tensors; all of it works inside `torch.jit.script`.

from isaacgym.torch_utils import *

forward = quat_rotate(root_quat, to_torch([[1.0, 0.0, 0.0]]))  # (N, 4), (N, 3) -> (N, 3)
"""

import gc
import math
from typing import List, Tuple  # noqa: UP035  # torch.jit.script of other modules reads these names from here

import numpy as np
import torch
from torch import Tensor

TWO_PI = 2.0 * math.pi


def to_torch(x, dtype=torch.float, device="cpu", requires_grad=False):
    """Return a new tensor with the values of x."""
    return torch.tensor(x, dtype=dtype, device=device, requires_grad=requires_grad)


def normalize(x: Tensor, eps: float = 1e-9) -> Tensor:
    """Return vectors (..., k) of length 1; one shorter than eps is divided by eps."""
    return x / torch.linalg.vector_norm(x, dim=[-1], keepdim=True).clamp(min=eps)


def normalize_angle(x: Tensor) -> Tensor:
    """Return angles in [-pi, pi]."""
    return torch.atan2(torch.sin(x), torch.cos(x))


def quat_mul(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of quaternions (..., 4): first b, then a."""
    u = a[..., :3]
    v = b[..., :3]
    vector = a[..., 3:] * v + b[..., 3:] * u + torch.cross(u, v, dim=-1)
    scalar = a[..., 3:] * b[..., 3:] - (u * v).sum(-1, keepdim=True)
    return torch.cat([vector, scalar], -1)


def quat_conjugate(a: Tensor) -> Tensor:
    """Return the inverse rotation of unit quaternions (..., 4)."""
    return torch.cat([-a[..., :3], a[..., 3:]], -1)


def quat_unit(a: Tensor) -> Tensor:
    """Return quaternions (..., 4) of length 1."""
    return normalize(a)


def quat_apply(a: Tensor, b: Tensor) -> Tensor:
    """Rotate vectors b (..., 3) by quaternions a (..., 4), or by as many in another shape (n, 4)."""
    if a.dim() != b.dim():
        return quat_apply_rows(a.reshape(-1, 4), b.reshape(-1, 3)).view(b.shape)
    return quat_apply_rows(a, b)


def quat_apply_rows(a: Tensor, b: Tensor) -> Tensor:
    """Rotate vectors b (..., 3) by quaternions a (..., 4) of as many dimensions."""
    u = a[..., :3].expand(b.shape)
    twice = 2.0 * torch.cross(u, b, dim=-1)
    return b + a[..., 3:] * twice + torch.cross(u, twice, dim=-1)


def quat_rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors v (N, 3) by quaternions q (N, 4)."""
    return quat_apply(q, v)


def quat_rotate_inverse(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors v (N, 3) by the inverse of quaternions q (N, 4)."""
    return quat_apply(quat_conjugate(q), v)


def quat_from_angle_axis(angle: Tensor, axis: Tensor) -> Tensor:
    """Return the rotation (..., 4) by angle (...) about axis (..., 3)."""
    half = 0.5 * angle.unsqueeze(-1)
    return quat_unit(torch.cat([normalize(axis) * torch.sin(half), torch.cos(half).expand(axis[..., :1].shape)], -1))


def axisangle2quat(vec: Tensor, eps: float = 1e-6) -> Tensor:
    """Return the rotation (..., 4) by |vec| about vec (..., 3); the identity if it is shorter than eps."""
    angle = torch.linalg.vector_norm(vec, dim=[-1])
    turned = quat_from_angle_axis(angle, vec)
    identity = torch.zeros_like(turned)
    identity[..., 3] = 1.0
    return torch.where((angle > eps).unsqueeze(-1), turned, identity)


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Return Rz(yaw) Ry(pitch) Rx(roll) as quaternions (..., 4)."""
    zero = torch.zeros_like(roll)
    x = torch.stack([torch.sin(0.5 * roll), zero, zero, torch.cos(0.5 * roll)], -1)
    y = torch.stack([zero, torch.sin(0.5 * pitch), zero, torch.cos(0.5 * pitch)], -1)
    z = torch.stack([zero, zero, torch.sin(0.5 * yaw), torch.cos(0.5 * yaw)], -1)
    return quat_mul(z, quat_mul(y, x))


def get_euler_xyz(q: Tensor) -> Tuple[Tensor, Tensor, Tensor]:  # noqa: UP006
    """Return roll, pitch, yaw in [0, 2 pi) of quaternions (N, 4) = Rz(yaw) Ry(pitch) Rx(roll)."""
    x = q[..., 0]
    y = q[..., 1]
    z = q[..., 2]
    w = q[..., 3]
    roll = torch.atan2(2.0 * (w * x + y * z), w * w - x * x - y * y + z * z)
    pitch = torch.asin((2.0 * (w * y - z * x)).clamp(-1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z)
    return roll % (2.0 * math.pi), pitch % (2.0 * math.pi), yaw % (2.0 * math.pi)


def get_basis_vector(q: Tensor, v: Tensor) -> Tensor:
    """Rotate a basis vector v by q: an axis of the rotated frame."""
    return quat_rotate(q, v)


def get_axis_params(value, axis_idx, x_value=0.0, dtype=float, n_dims=3):
    """Return a list of n_dims numbers: `value` on one axis, x_value on x, 0 elsewhere."""
    numbers = np.zeros(n_dims)
    numbers[0] = x_value
    numbers[axis_idx] = value
    return list(numbers.astype(dtype))


def tf_inverse(q: Tensor, t: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    """Return the inverse of transforms: rotation (..., 4) and translation (..., 3)."""
    inverse = quat_conjugate(q)
    return inverse, -quat_apply(inverse, t)


def tf_apply(q: Tensor, t: Tensor, v: Tensor) -> Tensor:
    """Transform points v."""
    return quat_apply(q, v) + t


def tf_vector(q: Tensor, v: Tensor) -> Tensor:
    """Transform directions v."""
    return quat_apply(q, v)


def tf_combine(q1: Tensor, t1: Tensor, q2: Tensor, t2: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    """Return the transform that does first the second, then the first."""
    return quat_mul(q1, q2), quat_apply(q1, t2) + t1


def copysign(a: float, b: Tensor) -> Tensor:
    """Return |a| with the signs of b."""
    return torch.where(torch.signbit(b), -abs(a), abs(a)).to(b.dtype)


def torch_rand_float(lower: float, upper: float, shape: Tuple[int, int], device: str) -> Tensor:  # noqa: UP006
    """Return uniform random numbers in [lower, upper)."""
    return lower + (upper - lower) * torch.rand(shape[0], shape[1], device=device)


def torch_random_dir_2(shape: Tuple[int, int], device: str) -> Tensor:  # noqa: UP006
    """Return random unit vectors in the plane, the last axis being x, y."""
    angle = torch_rand_float(-math.pi, math.pi, shape, device).squeeze(-1)
    return torch.stack([torch.cos(angle), torch.sin(angle)], -1)


def tensor_clamp(t: Tensor, min_t: Tensor, max_t: Tensor) -> Tensor:
    """Clamp each element between two tensors' elements."""
    return torch.max(torch.min(t, max_t), min_t)


def scale(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Map [-1, 1] to [lower, upper]."""
    return lower + 0.5 * (x + 1.0) * (upper - lower)


def unscale(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Map [lower, upper] to [-1, 1]."""
    return (2.0 * x - upper - lower) / (upper - lower)


def scale_np(x, lower, upper):
    """Map [-1, 1] to [lower, upper], numpy arrays."""
    return lower + 0.5 * (x + 1.0) * (upper - lower)


def unscale_np(x, lower, upper):
    """Map [lower, upper] to [-1, 1], numpy arrays."""
    return (2.0 * x - upper - lower) / (upper - lower)


def mem_report():
    """Print the number of live tensors and their size, MiB, by device."""
    sizes: dict[str, List[int]] = {}  # noqa: UP006
    for tensor in (found for found in gc.get_objects() if isinstance(found, Tensor)):
        sizes.setdefault(str(tensor.device), []).append(tensor.numel() * tensor.element_size())
    for device, found in sizes.items():
        print(f"{device}: {len(found)} tensors, {sum(found) / 2**20:.1f} MiB")
