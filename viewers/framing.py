"""Where things are in a picture: the extent of a model, the grid of its environments, and a camera that frames them.

    bounds = bounds_of(model)                                  # the robot and what it handles, over its motion
    offsets = grid_offsets(num_envs, bounds.spacing)           # (N, 3) m
    camera = frame(bounds.points, azimuth=125, elevation=-20, aspect=4 / 3)

The window, the page, videos and strips share these rules, so no task needs a camera of its own. Everything here is
geometry of a compiled model, without a renderer.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import mujoco
import numpy as np

FOV = 45.0  # degrees, the vertical field of view; MuJoCo's default
FILL = 0.9  # part of the picture's width or height that the framed points take
REACH = 0.5  # how far a joint is expected to move, as a fraction of the way to its limits
GAP = 1.5  # spacing of environments, in sizes of what moves in one of them
STEEPEST = 32.0  # degrees that a camera looks down on something flat
_SCALAR = [int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)]
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))  # (8, 3) of a cube


@dataclass(frozen=True)
class Bounds:
    """The extent of one environment: corners of boxes around its robot and what the robot handles, as they move."""

    points: np.ndarray  # (P, 3) m
    spacing: np.ndarray  # (2,) m, from one environment to the next along x and y

    @property
    def center(self) -> np.ndarray:
        """(3,) m: the middle of the box around the points."""
        return (self.points.min(0) + self.points.max(0)) / 2

    @property
    def size(self) -> np.ndarray:
        """(3,) m: the size of the box around the points."""
        return self.points.max(0) - self.points.min(0)

    @property
    def radius(self) -> float:
        """The radius in m of the sphere around the box."""
        return float(np.linalg.norm(self.size)) / 2


@dataclass(frozen=True)
class Aim:
    """The pose of a camera in MuJoCo's terms."""

    lookat: np.ndarray  # (3,) m
    distance: float  # m
    azimuth: float  # degrees; 0 looks along x, 90 along y
    elevation: float  # degrees; negative looks down


def bounds_of(model: mujoco.MjModel) -> Bounds:
    """The extent of what moves, at rest and with each joint in turn moved towards its limits.

    A slide without limits is expected to move by the size of what moves, a hinge without limits by half a turn. Free
    and ball joints stay as they are. Fixed geoms count if they are near and not larger (a socket, but not a rail or a
    wall), and all of them do if nothing moves. Infinite planes never count. `model.stat` is not used: a model's author
    may set it to anything.
    """
    bounded = model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE
    if not bounded.any():
        extent = np.array(model.stat.center) + _CORNERS * model.stat.extent / 2
        return Bounds(extent, np.full(2, GAP * model.stat.extent))
    data = mujoco.MjData(model)
    boxes = _geom_boxes(model, data)
    moving = bounded & (model.body_weldid[model.geom_bodyid] > 0)
    shown = moving if moving.any() else bounded
    rest = _around(boxes[shown])
    size = rest[1] - rest[0]
    fixed = bounded & ~moving
    far = float(np.linalg.norm(size))
    near = ((boxes[:, 0] >= rest[0] - far) & (boxes[:, 1] <= rest[1] + far)).all(1)
    shown = shown | (fixed & near)
    points = np.concatenate([_corners(model, data, shown), *_moved(model, data, shown, far)])
    wide = (size[:2] + np.ptp(points, axis=0)[:2]) / 2
    scenery = np.ptp(_around(boxes[fixed]), axis=0)[:2] if fixed.any() else np.zeros(2)
    least = np.ptp(points, axis=0).max() / 4
    return Bounds(points, np.maximum.reduce([GAP * size[:2], wide, scenery, np.full(2, least)]))


def bounds_over(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    """(P, 3) m: corners of boxes around what moves in the states `qpos` (n, nq), to frame a motion that is known."""
    data = mujoco.MjData(model)
    shown = (model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE) & (model.body_weldid[model.geom_bodyid] > 0)
    found = []
    for row in qpos:
        data.qpos[:] = row
        found.append(_corners(model, data, shown))
    return np.concatenate(found)


def _moved(model: mujoco.MjModel, data: mujoco.MjData, shown: np.ndarray, size: float) -> list[np.ndarray]:
    """Corners (P, 3) m for each end of the expected motion of each joint; `size`: m, of what moves."""
    found = []
    for joint in np.flatnonzero(np.isin(model.jnt_type, _SCALAR)):
        slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
        place = model.jnt_qposadr[joint]
        far = size if slide else math.pi
        ends = model.jnt_range[joint] if model.jnt_limited[joint] else model.qpos0[place] + np.array([-far, far])
        for end in ends:
            data.qpos[:] = model.qpos0
            data.qpos[place] += REACH * (end - data.qpos[place])
            found.append(_corners(model, data, shown))
    return found


def _corners(model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray) -> np.ndarray:
    """(8 R, 3) m: corners of a box around each of the R robots and objects, of the selected geoms (G,) bool."""
    boxes = _geom_boxes(model, data)
    roots = model.body_rootid[model.geom_bodyid]
    around = [_around(boxes[geoms & (roots == root)]) for root in np.unique(roots[geoms])]
    return np.concatenate([box.mean(0) + _CORNERS * np.ptp(box, axis=0) / 2 for box in around])


def _geom_boxes(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """(G, 2, 3) m: the minimum and maximum coordinates of each geom at `data.qpos`."""
    mujoco.mj_kinematics(model, data)
    rotations = data.geom_xmat.reshape(-1, 3, 3)
    centers = data.geom_xpos + np.einsum("gij,gj->gi", rotations, model.geom_aabb[:, :3])
    halves = np.einsum("gij,gj->gi", np.abs(rotations), model.geom_aabb[:, 3:])
    return np.stack([centers - halves, centers + halves], axis=1)


def _around(boxes: np.ndarray) -> np.ndarray:
    """(2, 3) m: the box around boxes (n, 2, 3)."""
    return np.stack([boxes[:, 0].min(0), boxes[:, 1].max(0)])


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


def in_grid(points: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(N P, 3) m: the points (P, 3) of one environment at each of the offsets (N, 3)."""
    return (offsets[:, None] + points).reshape(-1, 3)


def elevation_for(points: np.ndarray) -> float:
    """Degrees at which a camera sees points (P, 3) best: level for what is tall, from above for what is flat."""
    size = np.ptp(points, axis=0)
    across = float(np.hypot(size[0], size[1]))
    return -STEEPEST * across / max(across + float(size[2]), 1e-9)


def frame(points: np.ndarray, azimuth: float, elevation: float, aspect: float, fov: float = FOV) -> Aim:
    """The nearest camera of a direction that sees all points (P, 3) m, in the middle of its picture.

    `azimuth` and `elevation`: degrees, as in `Aim`; `aspect`: the picture's width divided by its height; `fov`: the
    vertical field of view, degrees. The points fill FILL of the picture's width or of its height.
    """
    forward, right, up = _axes(azimuth, elevation)
    depth = points @ forward
    tall = FILL * math.tan(math.radians(fov) / 2)
    (x, near_x), (y, near_y) = (
        _fit(points @ axis, depth, slope) for axis, slope in ((right, tall * aspect), (up, tall))
    )
    camera = min(near_x, near_y)  # how far along `forward` the camera is; less is farther away from the points
    distance = max(float(depth.min() + depth.max()) / 2 - camera, 1e-3)
    return Aim(x * right + y * up + (camera + distance) * forward, distance, azimuth, elevation)


def _fit(across: np.ndarray, depth: np.ndarray, slope: float) -> tuple[float, float]:
    """The nearest camera in one plane: where it is across, and in depth, so that |across - x| <= slope * distance."""
    low, high = (across + slope * depth).min(), (across - slope * depth).max()
    return float(low + high) / 2, float(low - high) / (2 * slope)


def _axes(azimuth: float, elevation: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors (3,) of a camera, forward, right and up, for angles in degrees."""
    turn, tilt = math.radians(azimuth), math.radians(elevation)
    forward = np.array([math.cos(tilt) * math.cos(turn), math.cos(tilt) * math.sin(turn), math.sin(tilt)])
    right = np.array([math.sin(turn), -math.cos(turn), 0.0])
    return forward, right, np.cross(right, forward)
