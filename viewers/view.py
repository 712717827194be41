"""One user's view: which environments are shown, from where, and with which marks. The window and the page share it.

    view = View(follow=follows_at_first(model))
    offsets = grid_offsets(num_envs, cell_of(model))
    camera = aim(view, bounds_of(model), offsets)

Each environment has its own physics, all at the same position. To be seen together, they are laid out side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

FILL = 2.2  # distance of a camera, in radii of the shown object
REACH = 0.75  # how far a joint is expected to move, as a fraction of the way to its limits
GAP = 1.5  # spacing of environments, in sizes of one environment
_SCALAR = [int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)]


@dataclass(frozen=True)
class Preset:
    """A direction of view."""

    azimuth: float  # degrees; 0 looks along x, 90 along y
    elevation: float  # degrees; negative looks down
    distance: float  # in units of the distance at which everything is in sight


PRESETS = {
    "three-quarter": Preset(125.0, -22.0, 1.0),
    "front": Preset(180.0, -8.0, 1.0),
    "side": Preset(90.0, -8.0, 1.0),
    "top": Preset(90.0, -89.0, 1.0),
}


@dataclass
class View:
    """One user's view; it belongs to the window or page that shows it."""

    env_id: int = 0  # the environment that keys, mouse and status refer to
    show_all: bool = True
    follow: bool = False  # the camera follows `tracked_body`
    preset: str = "three-quarter"  # a key of PRESETS
    contacts: bool = False
    forces: bool = False  # of contacts


@dataclass(frozen=True)
class Bounds:
    """The bounding box of one environment."""

    center: np.ndarray  # (3,) m
    size: np.ndarray  # (3,) m

    @property
    def radius(self) -> float:
        """The radius in m of the sphere around the box."""
        return float(np.linalg.norm(self.size)) / 2


@dataclass(frozen=True)
class Aim:
    """The pose of a camera in MuJoCo's terms."""

    lookat: np.ndarray  # (3,) m
    distance: float  # m
    azimuth: float  # degrees
    elevation: float  # degrees


def bounds_of(model: mujoco.MjModel) -> Bounds:
    """The box around all geoms except infinite planes, with each joint in turn moved towards its limits.

    `model.stat` is not used: a model's author may set it to anything, and it describes only one configuration.
    """
    bounded = model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE
    if not bounded.any():
        return Bounds(np.array(model.stat.center), np.full(3, model.stat.extent))
    data = mujoco.MjData(model)
    boxes = [_box(model, data, bounded)]
    for joint in np.flatnonzero(model.jnt_limited & np.isin(model.jnt_type, _SCALAR)):
        start = model.jnt_qposadr[joint]
        for end in model.jnt_range[joint]:
            data.qpos[:] = model.qpos0
            data.qpos[start] += REACH * (end - data.qpos[start])
            boxes.append(_box(model, data, bounded))
    low, high = np.min(boxes, axis=0)[0], np.max(boxes, axis=0)[1]
    return Bounds((low + high) / 2, high - low)


def _box(model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray) -> np.ndarray:
    """(2, 3) m: the minimum and maximum coordinates of the geoms selected by `geoms` (G,) bool, at `data.qpos`."""
    mujoco.mj_kinematics(model, data)
    rotations = data.geom_xmat[geoms].reshape(-1, 3, 3)
    centers = data.geom_xpos[geoms] + np.einsum("gij,gj->gi", rotations, model.geom_aabb[geoms, :3])
    halves = np.einsum("gij,gj->gi", np.abs(rotations), model.geom_aabb[geoms, 3:])
    return np.stack([(centers - halves).min(0), (centers + halves).max(0)])


def cell_of(model: mujoco.MjModel) -> np.ndarray:
    """(2,) m: the space along x and y that one environment needs beside others. Long rails may lie close together."""
    size = bounds_of(model).size
    return np.maximum(GAP * size[:2], size.max() / 4)


def grid_offsets(num_envs: int, spacing: float | np.ndarray) -> np.ndarray:
    """(N, 3) m: the position of each environment, row by row, in a block about as wide as deep around the origin.

    `spacing`: m from one to the next, one number or (2,) along x and y. Raises ValueError if `num_envs` is below 1.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs}: at least 1")
    wide, deep = np.broadcast_to(spacing, 2)
    columns = min(num_envs, max(1, round(math.sqrt(num_envs * deep / wide))))
    rows, column = np.divmod(np.arange(num_envs), columns)
    places = np.stack([column * wide, rows * deep, np.zeros(num_envs)], axis=1)
    return places - (places.min(0) + places.max(0)) / 2


def tracked_body(model: mujoco.MjModel) -> int:
    """The body that a camera follows: the first free body, else the first with a joint, else the world (0)."""
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    first = [*free, 0] if model.njnt else []
    return int(model.jnt_bodyid[first[0]]) if first else 0


def follows_at_first(model: mujoco.MjModel) -> bool:
    """True if a camera should follow from the start: the only thing that moves is a robot that is free to walk off."""
    roots = np.unique(model.body_rootid[model.jnt_bodyid])
    return len(roots) == 1 and bool(model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE)


def aim(view: View, bounds: Bounds, offsets: np.ndarray) -> Aim:
    """A camera for `view`, with the chosen environment at the origin of a grid (N, 3), or alone there.

    If the grid has fewer places than there are environments, a block of them is shown.
    """
    preset = PRESETS[view.preset]
    lookat, radius = bounds.center, bounds.radius
    if view.show_all:
        origin = offsets[view.env_id % len(offsets)]  # around the origin, as the whole grid is
        radius = float(np.linalg.norm(offsets.max(0) - offsets.min(0) + bounds.size)) / 2
        radius += float(np.linalg.norm(origin)) if view.follow else 0.0
        lookat = lookat - origin
    return Aim(lookat, FILL * radius * preset.distance, preset.azimuth, preset.elevation)
