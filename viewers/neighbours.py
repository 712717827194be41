"""Draws the environments beside the chosen one, as extra geoms of MuJoCo's window."""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from livegym.viewers.view import tracked_body

_DRAWN = mujoco.mjtCatBit.mjCAT_STATIC | mujoco.mjtCatBit.mjCAT_DYNAMIC
_LABEL = mujoco.mjtGeom.mjGEOM_LABEL


class NeighbourEnvs:
    """Draws environments in a grid (N, 3) m, shifted so that the chosen one is at the origin."""

    def __init__(self, model: mujoco.MjModel, offsets: np.ndarray) -> None:
        self.offsets = offsets
        self._model = copy.copy(model)
        endless = self._model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE  # the chosen one's serves all
        self._model.geom_matid[endless] = -1
        self._model.geom_rgba[endless] = 0.0  # not drawn
        self._data = mujoco.MjData(self._model)
        self._option = mujoco.MjvOption()
        self._option.flags[:] = 0
        self._option.sitegroup[:] = 0
        for flag in (mujoco.mjtVisFlag.mjVIS_STATIC, mujoco.mjtVisFlag.mjVIS_TEXTURE):
            self._option.flags[flag] = 1
        self._untouched = mujoco.MjvPerturb()
        self._body = tracked_body(model)

    def place(self, env_id: int) -> np.ndarray:
        """(3,) m: the position of an environment in the grid. Positions repeat if the grid is too small for all."""
        return self.offsets[env_id % len(self.offsets)]

    def around(self, env_ids: list[int]) -> np.ndarray:
        """(n, 3) m: the positions of environments if the first one is at the origin."""
        places = np.array([self.place(env_id) for env_id in env_ids])
        return places - places[0]

    def draw(self, scene: mujoco.MjvScene, like: mujoco.MjvOption, env_ids: list[int], qpos: np.ndarray) -> None:
        """Replaces the geoms of `scene` by environments at `qpos` (n, nq), except the first, which is the chosen one.

        If there are several, each is labelled with its number, the chosen one's in brackets. `like`: the option whose
        groups of geoms are drawn.
        """
        scene.ngeom = 0
        self._option.geomgroup[:] = like.geomgroup
        chosen = env_ids[0]
        shifts = self.around(env_ids)
        for env_id, row, shift in zip(env_ids, qpos, shifts, strict=True) if len(env_ids) > 1 else ():
            self._data.qpos[:] = row
            mujoco.mj_kinematics(self._model, self._data)
            _write(scene, f"[{env_id}]" if env_id == chosen else f"{env_id}", self._data.xpos[self._body] + shift)
            if env_id != chosen:
                self._data.geom_xpos += shift
                mujoco.mjv_addGeoms(self._model, self._data, self._option, self._untouched, _DRAWN, scene)


def _write(scene: mujoco.MjvScene, text: str, position: np.ndarray) -> None:
    """Adds a label at `position` (3,) m."""
    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(geom, _LABEL, np.zeros(3), position, np.eye(3).ravel(), np.ones(4, np.float32))
    geom.label = text
    scene.ngeom += 1
