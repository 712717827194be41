"""What one person looks at: which environments, from where, with which marks. Shared by the window and the page.

    view = View(follow=follows_at_first(model))
    offsets = grid_offsets(num_envs, cell_of(model))
    camera = aim(view, bounds_of(model), offsets)

Environments are physics of their own, each at the same place; to be seen together they are laid out side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np

FILL = 2.2  # distance of a camera, in radii of what it is to show
REACH = 0.75  # how far towards its limits a joint is expected to go
GAP = 1.5  # from one environment to the next, in sizes of one
_SCALAR = [int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)]


@dataclass(frozen=True)
class Preset:
    """A direction to look from."""

    azimuth: float  # degrees; 0 looks along x, 90 along y
    elevation: float  # degrees; negative looks down
    distance: float  # of that at which everything is in sight


PRESETS = {
    "three-quarter": Preset(125.0, -22.0, 1.0),
    "front": Preset(180.0, -8.0, 1.0),
    "side": Preset(90.0, -8.0, 1.0),
    "top": Preset(90.0, -89.0, 1.0),
}


@dataclass
class View:
    """One person's view; belongs to whoever shows it."""

    env_id: int = 0  # the one that keys, the mouse and the status are about
    show_all: bool = True
    follow: bool = False  # the camera goes with `tracked_body`
    preset: str = "three-quarter"  # of PRESETS
    contacts: bool = False
    forces: bool = False  # of contacts


@dataclass(frozen=True)
class Bounds:
    """What there is to be seen of one environment."""

    center: np.ndarray  # (3,) m
    size: np.ndarray  # (3,) m, of the box around it

    @property
    def radius(self) -> float:
        """m, of the ball around it."""
        return float(np.linalg.norm(self.size)) / 2


@dataclass(frozen=True)
class Aim:
    """Where a camera is, as MuJoCo puts it."""

    lookat: np.ndarray  # (3,) m
    distance: float  # m
    azimuth: float  # degrees
    elevation: float  # degrees


def bounds_of(model: mujoco.MjModel) -> Bounds:
    """The box around all geoms but endless planes, with each joint by itself moved towards its limits.

    Unlike `model.stat`, which a model's author may set to anything, and which knows only one configuration.
    """
    bounded = model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE
    if not bounded.any():
        return Bounds(np.array(model.stat.center), np.full(3, model.stat.extent))
    data = mujoco.MjData(model)
    boxes = [_box(model, data, bounded)]
    for joint in np.flatnonzero(model.jnt_limited & np.isin(model.jnt_type, _SCALAR)):
        place = model.jnt_qposadr[joint]
        for end in model.jnt_range[joint]:
            data.qpos[:] = model.qpos0
            data.qpos[place] += REACH * (end - data.qpos[place])
            boxes.append(_box(model, data, bounded))
    low, high = np.min(boxes, axis=0)[0], np.max(boxes, axis=0)[1]
    return Bounds((low + high) / 2, high - low)


def _box(model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray) -> np.ndarray:
    """(2, 3) m: the least and the greatest coordinates of the geoms (G,) bool, at `data.qpos`."""
    mujoco.mj_kinematics(model, data)
    turns = data.geom_xmat[geoms].reshape(-1, 3, 3)
    middles = data.geom_xpos[geoms] + np.einsum("gij,gj->gi", turns, model.geom_aabb[geoms, :3])
    halves = np.einsum("gij,gj->gi", np.abs(turns), model.geom_aabb[geoms, 3:])
    return np.stack([(middles - halves).min(0), (middles + halves).max(0)])


def cell_of(model: mujoco.MjModel) -> np.ndarray:
    """(2,) m, along x and y, that one environment needs beside others: long rails may lie close to each other."""
    size = bounds_of(model).size
    return np.maximum(GAP * size[:2], size.max() / 4)


def grid_offsets(num_envs: int, spacing: float | np.ndarray) -> np.ndarray:
    """(N, 3) m: where each environment is put, row by row, in a block about as wide as deep, around the origin.

    `spacing`: m from one to the next, alike or (2,) along x and y. Raises ValueError if there is nothing to place.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs={num_envs}: at least 1")
    wide, deep = np.broadcast_to(spacing, 2)
    columns = min(num_envs, max(1, round(math.sqrt(num_envs * deep / wide))))
    rows, column = np.divmod(np.arange(num_envs), columns)
    places = np.stack([column * wide, rows * deep, np.zeros(num_envs)], axis=1)
    return places - (places.min(0) + places.max(0)) / 2


def tracked_body(model: mujoco.MjModel) -> int:
    """The body that a camera follows: the first free one, else the first with a joint, else the world (0)."""
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    first = [*free, 0] if model.njnt else []
    return int(model.jnt_bodyid[first[0]]) if first else 0


def follows_at_first(model: mujoco.MjModel) -> bool:
    """Whether a camera should follow from the start: only a robot that is free to walk off, and is all that moves."""
    roots = np.unique(model.body_rootid[model.jnt_bodyid])
    return len(roots) == 1 and bool(model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE)


def aim(view: View, bounds: Bounds, offsets: np.ndarray) -> Aim:
    """A camera for `view`, with the chosen environment at the origin of a grid (N, 3), or alone there.

    A grid for fewer environments than there are shows a block of them.
    """
    preset = PRESETS[view.preset]
    lookat, radius = bounds.center, bounds.radius
    if view.show_all:
        place = offsets[view.env_id % len(offsets)]  # around the origin, as the whole grid is
        radius = float(np.linalg.norm(offsets.max(0) - offsets.min(0) + bounds.size)) / 2
        radius += float(np.linalg.norm(place)) if view.follow else 0.0
        lookat = lookat - place
    return Aim(lookat, FILL * radius * preset.distance, preset.azimuth, preset.elevation)
