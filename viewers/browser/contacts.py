"""Draws contact points and contact forces of one environment for one client.

They are computed from the shown state (`mj_forward` with its controls). The engine may not provide them, so they are
the solver's result for this state without a warm start from the previous step.
"""

from __future__ import annotations

import mujoco
import numpy as np
import trimesh
import viser

from livegym.viewers.browser.frames import Frame
from livegym.viewers.browser.scene import ROOT
from livegym.viewers.view import View

POINT, REACH = 0.013, 0.06  # in robot sizes: radius of a point; length of a force that equals the total weight
LONGEST = 0.5  # in robot sizes; otherwise the force of an impact would extend beyond the picture
COLOURS = {"contacts": (240, 150, 30), "forces": (225, 60, 50)}
INITIAL_CAPACITY = 32  # contacts


class Contacts:
    """The marks of one client: two batches of instances; unused instances have size 0."""

    def __init__(self, client: viser.ClientHandle, model: mujoco.MjModel, size: float) -> None:
        """`size`: the robot's size in m."""
        self._client, self._model = client, model
        self._data = mujoco.MjData(model)
        weight = float(model.body_mass.sum() * np.linalg.norm(model.opt.gravity))
        self._radius = POINT * size
        self._longest = LONGEST * size
        self._newton = REACH * size / max(weight, 1e-6)  # m for each N
        self._capacity = 0
        self._marks: dict[str, viser.BatchedMeshHandle] = {}
        self._visible = False

    def show(self, frame: Frame, env_id: int, offset: np.ndarray, view: View) -> None:
        """Draws the contacts of the environment at `offset` (3,) m, if the view shows them."""
        wanted = view.contacts or view.forces
        if not wanted and not self._visible:
            return
        self._visible = wanted
        points, forces = self._measure(frame, env_id) if wanted else (np.zeros((0, 3)),) * 2
        points = points + offset
        with self._client.atomic():
            self._ensure_capacity(len(points))
            balls = np.full((len(points), 3), self._radius) * view.contacts
            self._put("contacts", points, _rotations(np.zeros((len(points), 3))), balls)
            lengths = np.minimum(np.linalg.norm(forces, axis=1) * self._newton, self._longest)
            thin = np.full(len(points), self._radius / 3)
            self._put("forces", points, _rotations(forces), np.stack([thin, thin, lengths], 1) * view.forces)

    def _measure(self, frame: Frame, env_id: int) -> tuple[np.ndarray, np.ndarray]:
        """World points (k, 3) m and forces (k, 3) N of the contacts with a positive normal force."""
        model, data = self._model, self._data
        data.qpos[:] = frame.qpos[env_id]
        data.qvel[:] = frame.qvel[env_id]
        data.ctrl[:] = frame.ctrl[env_id]
        mujoco.mj_forward(model, data)
        points = []
        forces = []
        wrench = np.zeros(6)
        for index in range(data.ncon):
            mujoco.mj_contactForce(model, data, index, wrench)
            if wrench[0] > 0:
                points.append(data.contact[index].pos.copy())
                forces.append(data.contact[index].frame.reshape(3, 3).T @ wrench[:3])
        return np.array(points).reshape(-1, 3), np.array(forces).reshape(-1, 3)

    def _ensure_capacity(self, count: int) -> None:
        if count <= self._capacity and self._marks:
            return
        self._capacity = max(INITIAL_CAPACITY, 2 * count)
        shaft = trimesh.creation.cylinder(1.0, segment=[[0, 0, 0], [0, 0, 1]], sections=12)
        for name, mesh in (("contacts", trimesh.creation.icosphere(2)), ("forces", shaft)):
            self._marks[name] = self._client.scene.add_batched_meshes_simple(
                f"{ROOT}/{name}",
                mesh.vertices,
                mesh.faces,
                batched_wxyzs=np.tile(np.array([1.0, 0, 0, 0], np.float32), (self._capacity, 1)),
                batched_positions=np.zeros((self._capacity, 3), np.float32),
                batched_scales=np.zeros((self._capacity, 3), np.float32),
                batched_colors=COLOURS[name],
                lod="off",
                cast_shadow=False,
                receive_shadow=False,
            )

    def _put(self, name: str, positions: np.ndarray, rotations: np.ndarray, scales: np.ndarray) -> None:
        handle, count = self._marks[name], len(positions)
        rows = {"batched_positions": positions, "batched_wxyzs": rotations, "batched_scales": scales}
        for field, values in rows.items():
            filled = np.zeros((self._capacity, values.shape[1]), np.float32)
            filled[:, 0] = field == "batched_wxyzs"
            filled[:count] = values
            setattr(handle, field, filled)


def _rotations(forces: np.ndarray) -> np.ndarray:
    """(k, 4) wxyz that rotate z onto each force (k, 3). The rotation for a zero force has no meaning."""
    along = forces / np.maximum(np.linalg.norm(forces, axis=1, keepdims=True), 1e-9)
    half = np.column_stack([1.0 + along[:, 2], -along[:, 1], along[:, 0], np.zeros(len(along))])
    half[half[:, 0] < 1e-6] = (0.0, 1.0, 0.0, 0.0)  # straight down
    return half / np.linalg.norm(half, axis=1, keepdims=True)
