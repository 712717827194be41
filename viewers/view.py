"""One user's view: which environments are shown, from where, and with which marks. The window and the page share it.

    bounds = bounds_of(model)
    view = View(follow=follows_at_first(model))
    camera = aim(view, bounds, grid_offsets(num_envs, bounds.spacing), aspect=4 / 3)

Each environment has its own physics, all at the same position. To be seen together, they are laid out side by side
(`viewers/framing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from livegym.viewers.framing import Aim, Bounds, elevation_for, frame, in_grid


@dataclass(frozen=True)
class Preset:
    """A direction of view."""

    azimuth: float  # degrees; 0 looks along x, 90 along y
    elevation: float | None  # degrees; negative looks down; None: what suits the shape of what is shown


PRESETS = {
    "three-quarter": Preset(125.0, None),
    "front": Preset(180.0, -8.0),
    "side": Preset(90.0, -8.0),
    "top": Preset(90.0, -89.0),
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


def tracked_body(model: mujoco.MjModel) -> int:
    """The body that a camera follows: the first free body, else the first with a joint, else the world (0)."""
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    first = [*free, 0] if model.njnt else []
    return int(model.jnt_bodyid[first[0]]) if first else 0


def follows_at_first(model: mujoco.MjModel) -> bool:
    """True if a camera should follow from the start: the only thing that moves is a robot that is free to walk off."""
    roots = np.unique(model.body_rootid[model.jnt_bodyid])
    return len(roots) == 1 and bool(model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE)


def aim(view: View, bounds: Bounds, offsets: np.ndarray, aspect: float) -> Aim:
    """A camera for `view`, with the chosen environment at the origin of a grid (N, 3) m, or alone there.

    If the grid has fewer places than there are environments, a block of them is shown. `aspect`: width divided by
    height of the picture. A camera that follows looks at the chosen robot, and all else must be in sight around it.
    """
    points = bounds.points
    if view.show_all:
        points = in_grid(points, offsets - offsets[view.env_id % len(offsets)])
    preset = PRESETS[view.preset]
    elevation = elevation_for(points) if preset.elevation is None else preset.elevation
    if view.follow:
        points = np.concatenate([points, 2 * bounds.center - points])
    return frame(points, preset.azimuth, elevation, aspect)
