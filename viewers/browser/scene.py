"""The 3D scene of all environments. Each browser draws it; the server sends only the poses of the bodies.

    scene = Scene(server, model, num_envs)
    scene.show(qpos)                       # (N, nq); sends the bodies that have moved

Environments stand on a grid below one frame, `/world`. What is drawn in several places, in one environment or in all,
are instances of one mesh (`kinds.py`), so an update is two arrays per kind. Positions are rounded to less than 1/2048
of the robot's radius and quaternions to 1/1024. Both are less than a pixel, and the zero low bits compress well. A kind
is not sent if none of its instances has moved.

Per-environment model parameters (randomised sizes) are not drawn: every environment shows the task's nominal model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np
import viser

from livegym.viewers.browser.kinds import Kind, kinds_of
from livegym.viewers.browser.meshes import glb_of_geoms
from livegym.viewers.browser.surroundings import add_floor, add_lights
from livegym.viewers.framing import bounds_of, grid_offsets
from livegym.viewers.view import tracked_body

ROOT = "/world"
MOST_FACES = 20_000  # of a mesh; finer ones are thinned
FINE = 2048  # position steps per robot radius
QUATERNION_STEPS = 2.0**10


@dataclass
class Drawn:
    """One kind on the server, drawn once for each of its frames and environment."""

    frames: np.ndarray  # (B,) indices, as in `kinds.py`
    handle: viser.BatchedGlbHandle
    sent: np.ndarray = field(default_factory=lambda: np.zeros(0))


class Scene:
    """One model's geometry in N environments on a viser server."""

    def __init__(self, server: viser.ViserServer, model: mujoco.MjModel, num_envs: int) -> None:
        self.model, self.num_envs = model, num_envs
        self.bounds, self.tracked = bounds_of(model), tracked_body(model)
        self.offsets = grid_offsets(num_envs, self.bounds.spacing)  # (N, 3) m
        self._server = server
        self._data = mujoco.MjData(model)
        self._steps = 2.0 ** np.ceil(np.log2(FINE / self.bounds.radius))  # per m
        self.positions = np.zeros((num_envs, model.nbody, 3))  # m, in the grid
        kinds = kinds_of(model)
        self._geoms = np.concatenate([np.zeros(0, int), *(kind.frames - model.nbody for kind in kinds if kind.of_geom)])
        self._poses = np.zeros((num_envs, model.nbody + model.ngeom, 7), np.float32)  # m and wxyz
        server.scene.world_axes.visible = False
        server.scene.add_frame(ROOT, show_axes=False)
        with server.atomic():
            add_lights(server)
            radius = float(np.linalg.norm(np.abs(self.offsets[:, :2]).max(0))) + self.bounds.radius
            add_floor(server, ROOT, model, radius, self._cell())
            self.kinds = [self._add_kind(kind) for kind in kinds]

    def _cell(self) -> float:
        """m between lines of the ground: a power of ten times 1, 2 or 5, about the size of a robot."""
        size = max(self.bounds.radius, 1e-3)
        power = 10.0 ** np.floor(np.log10(size))
        return float(power * max(step for step in (1, 2, 5) if step * power <= size))

    def _add_kind(self, kind: Kind) -> Drawn:
        count = self.num_envs * len(kind.frames)
        handle = self._server.scene.add_batched_glb(
            f"{ROOT}/kind_{kind.frames[0]}",
            glb_of_geoms(self.model, kind.geoms, MOST_FACES, local=kind.of_geom),
            batched_wxyzs=np.tile(np.array([1.0, 0.0, 0.0, 0.0], np.float32), (count, 1)),
            batched_positions=np.zeros((count, 3), np.float32),
            lod="off",
        )
        return Drawn(kind.frames, handle)

    def show(self, qpos: np.ndarray) -> None:
        """Sends the poses of bodies that have moved. qpos: (N, nq)."""
        model, data = self.model, self._data
        turn = np.zeros(4)
        for env_id in range(self.num_envs):
            data.qpos[:] = qpos[env_id]
            mujoco.mj_kinematics(model, data)
            self.positions[env_id] = data.xpos + self.offsets[env_id]
            self._poses[env_id, : model.nbody] = self._rounded(self.positions[env_id], data.xquat)
            for geom in self._geoms:
                mujoco.mju_mat2Quat(turn, data.geom_xmat[geom])
                place = data.geom_xpos[geom] + self.offsets[env_id]
                self._poses[env_id, model.nbody + geom] = self._rounded(place, turn)
        with self._server.atomic():
            for drawn in self.kinds:
                _send(drawn, self._poses[:, drawn.frames].reshape(-1, 7))

    def _rounded(self, places: np.ndarray, quaternions: np.ndarray) -> np.ndarray:
        """Poses (..., 7) with few digits."""
        places = np.round(places * self._steps) / self._steps
        return np.concatenate([places, np.round(quaternions * QUATERNION_STEPS) / QUATERNION_STEPS], axis=-1)


def _send(drawn: Drawn, poses: np.ndarray) -> None:
    if np.array_equal(poses, drawn.sent):
        return
    drawn.sent = poses
    drawn.handle.batched_positions = np.ascontiguousarray(poses[:, :3])
    drawn.handle.batched_wxyzs = np.ascontiguousarray(poses[:, 3:])
