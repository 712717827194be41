"""Draws a simulation's lines (`sim/lines.py`) into a MuJoCo scene, for the window and for pictures."""

from __future__ import annotations

import mujoco
import numpy as np

from livegym.sim.lines import Lines

WIDTH = 2.0  # pixels
_LINE = mujoco.mjtGeom.mjGEOM_LINE
_NOWHERE, _UNTURNED = np.zeros(3), np.eye(3).ravel()


def add_to(scene: mujoco.MjvScene, lines: Lines, places: np.ndarray | None = None) -> None:
    """Adds lines to the geoms of `scene`, as far as it has room. places: (n, 3) m, of each environment; None: 0."""
    if not len(lines):
        return
    ends = lines.ends.astype(float)
    if places is not None:
        ends += places[lines.envs][:, None]
    colours = np.concatenate([lines.colours, np.ones((len(lines), 1), np.float32)], axis=1)
    room = scene.maxgeom - scene.ngeom
    for (start, end), colour in zip(ends[:room], colours, strict=False):
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(geom, _LINE, _NOWHERE, _NOWHERE, _UNTURNED, colour)
        mujoco.mjv_connector(geom, _LINE, WIDTH, start, end)
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR  # no shadow
        geom.emission = 1.0  # its own colour in any light
        scene.ngeom += 1
