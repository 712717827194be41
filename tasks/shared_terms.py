"""Observation and reward terms that tasks of legged robots and hands share, as functions of (N, ...) tensors.

    "gravity": gravity_in_base(state.body_quat_w[:, base]),
    "height": bell(state.body_pos_w[:, base, 2], 0.3, width=0.1),
    "power": power(state.actuator_force[:, motors], state.qvel[:, joints]),

Each returns (N, k) for an observation or (N,) for a reward, without a weight: the yaml has those.
"""

from __future__ import annotations

import torch
from torch import Tensor

from livegym.utils.spatial import conjugate, length, rotate

# observations


def gravity_in_base(quat_w: Tensor) -> Tensor:
    """(N, 3): the direction of gravity as the base feels it, (0, 0, -1) if it is upright; quat_w (N, 4) wxyz.

    It tells roll and pitch without the heading, as an accelerometer at rest does.
    """
    down = quat_w.new_tensor([0.0, 0.0, -1.0]).expand(*quat_w.shape[:-1], 3)
    return rotate(conjugate(quat_w), down)


def in_base(quat_w: Tensor, vector_w: Tensor) -> Tensor:
    """(N, 3): a vector of the world (a velocity, for example) along the axes of the base; quat_w (N, 4) wxyz."""
    return rotate(conjugate(quat_w), vector_w)


# rewards for any robot


def bell(value: Tensor, target: Tensor | float, width: float) -> Tensor:
    """(N,) exp(-((value - target) / width)^2): 1 at the target, flat about it, 0.37 at a distance of `width`."""
    return torch.exp(-(((value - target) / width) ** 2))


def closeness(distance: Tensor, rate: float) -> Tensor:
    """exp(-rate x distance): 1 at distance 0, with a slope there too, unlike `bell`; rate in 1/m or 1/rad."""
    return torch.exp(-rate * distance)


def action_size(action: Tensor) -> Tensor:
    """(N,) mean square of the action (N, k)."""
    return action.square().mean(1)


def change(action: Tensor, last: Tensor) -> Tensor:
    """(N,) mean square of the difference between two actions (N, k): small for a smooth policy."""
    return (action - last).square().mean(1)


def power(torque: Tensor, velocity: Tensor) -> Tensor:
    """(N,) W: sum over motors of |torque x velocity|, both (N, k); a motor that brakes counts as well."""
    return (torque * velocity).abs().sum(1)


def beyond(value: Tensor, limits: Tensor, share: float = 0.9) -> Tensor:
    """(N,) sum of what values (N, k) lie outside the inner `share` of their limits (k, 2), in their unit."""
    middle, half = limits.mean(1), 0.5 * share * (limits[:, 1] - limits[:, 0])
    return ((value - middle).abs() - half).clamp(min=0).sum(1)


# rewards for legged robots


def upright(quat_w: Tensor, up: Tensor | None = None) -> Tensor:
    """(N,) cosine of the base's tilt: 1 upright, 0 on its side, -1 upside down; quat_w (N, 4) wxyz.

    up (3,): the axis of the base that points up if it is upright; None: its z axis.
    """
    gravity = gravity_in_base(quat_w)
    return -gravity[..., 2] if up is None else -gravity @ up


def slip(foot_velocity_w: Tensor, foot_force_w: Tensor, least_force: float = 1.0) -> Tensor:
    """(N,) m/s: sum of the horizontal speeds of feet (N, F, 3) that press on the ground with `least_force` (N)."""
    on_ground = length(foot_force_w) > least_force
    return (length(foot_velocity_w[..., :2]) * on_ground).sum(1)


def first_contacts(on_ground: Tensor, air_time: Tensor, worth: float) -> Tensor:
    """(N,) s: of feet that touch the ground again, the time in the air beyond `worth` (s).

    on_ground (N, F) bool; air_time (N, F) s, for which each foot was in the air before this step: a buffer of the task.
    """
    return ((air_time - worth) * (on_ground & (air_time > 0))).sum(1)


# rewards for hands


def excess(force: Tensor, firm: float) -> Tensor:
    """(N,) sum of the parts of forces (N, k) above `firm` (N), divided by `firm`: pressing harder than is useful."""
    return (force - firm).clamp(min=0).sum(1) / firm
