"""The 3D scene of all environments. Each browser draws it; the server sends only the poses of the bodies.

    scene = Scene(server, model, num_envs)
    scene.show(qpos)                       # (N, nq); sends the bodies that have moved

Environments stand on a grid below one frame, `/world`. A body's geoms form one mesh. Bodies with the same look, in all
environments, are instances of one mesh, so an update is two arrays per kind of body. Positions are rounded to less than
1/2048 of the robot's radius and quaternions to 1/1024. Both are less than a pixel, and the zero low bits compress well.
A kind is not sent if none of its instances has moved.

Per-environment model parameters (randomised sizes) are not drawn: every environment shows the task's nominal model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np
import viser
from mjviser.conversions import is_fixed_body, merge_geoms

from livegym.viewers.framing import bounds_of, grid_offsets
from livegym.viewers.view import tracked_body

ROOT = "/world"
VISIBLE_GROUPS = 3  # geoms of higher groups are collision shapes and the like, as in MuJoCo's own viewer
FINE = 2048  # position steps per robot radius
QUATERNION_STEPS = 2.0**10
CELLS, SECTIONS = (128, 134, 144), (105, 112, 124)  # colours of the ground's lines, visible on light and on dark


@dataclass
class Kind:
    """Bodies with the same look: one mesh, drawn once per body and environment."""

    bodies: np.ndarray  # (B,) indices
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
        self._quaternions = np.zeros((num_envs, model.nbody, 4))
        server.scene.world_axes.visible = False
        server.scene.add_frame(ROOT, show_axes=False)
        with server.atomic():
            self._add_planes()
            self.kinds = [self._add_kind(bodies) for bodies in _alike(model)]

    def _add_planes(self) -> None:
        model = self.model
        for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
            self._server.scene.add_grid(
                f"{ROOT}/plane_{geom}",
                infinite_grid=True,
                cell_size=self._cell() / 4,
                section_size=self._cell(),
                cell_thickness=0.6,
                fade_distance=12 * self.bounds.radius + 8 * self._cell(),
                cell_color=CELLS,
                section_color=SECTIONS,
                shadow_opacity=0.25,
                position=model.geom_pos[geom],
                wxyz=model.geom_quat[geom],
            )

    def _cell(self) -> float:
        """m between lines of the ground: a power of ten times 1, 2 or 5, about the size of a robot."""
        size = max(self.bounds.radius, 1e-3)
        power = 10.0 ** np.floor(np.log10(size))
        return float(power * max(step for step in (1, 2, 5) if step * power <= size))

    def _add_kind(self, bodies: list[int]) -> Kind:
        mesh = merge_geoms(self.model, geoms_of(self.model, bodies[0]))
        count = self.num_envs * len(bodies)
        handle = self._server.scene.add_batched_meshes_trimesh(
            f"{ROOT}/kind_{bodies[0]}",
            mesh,
            batched_wxyzs=np.tile(np.array([1.0, 0.0, 0.0, 0.0], np.float32), (count, 1)),
            batched_positions=np.zeros((count, 3), np.float32),
            lod="off",
        )
        return Kind(np.array(bodies), handle)

    def show(self, qpos: np.ndarray) -> None:
        """Sends the poses of bodies that have moved. qpos: (N, nq)."""
        model, data = self.model, self._data
        for env_id in range(self.num_envs):
            data.qpos[:] = qpos[env_id]
            mujoco.mj_kinematics(model, data)
            self.positions[env_id] = data.xpos + self.offsets[env_id]
            self._quaternions[env_id] = data.xquat
        poses = np.concatenate(
            [
                np.round(self.positions * self._steps) / self._steps,
                np.round(self._quaternions * QUATERNION_STEPS) / QUATERNION_STEPS,
            ],
            axis=2,
            dtype=np.float32,
        )  # (N, nbody, 7)
        with self._server.atomic():
            for kind in self.kinds:
                self._send(kind, poses[:, kind.bodies].reshape(-1, 7))

    def _send(self, kind: Kind, poses: np.ndarray) -> None:
        if np.array_equal(poses, kind.sent):
            return
        kind.sent = poses
        kind.handle.batched_positions = np.ascontiguousarray(poses[:, :3])
        kind.handle.batched_wxyzs = np.ascontiguousarray(poses[:, 3:])


def geoms_of(model: mujoco.MjModel, body: int) -> list[int]:
    """The body's geoms that are drawn."""
    return [
        geom
        for geom in range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body])
        if model.geom_group[geom] < VISIBLE_GROUPS
        and model.geom_rgba[geom, 3] > 0
        and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE
    ]


def _alike(model: mujoco.MjModel) -> list[list[int]]:
    """Bodies with geoms, grouped by their look; fixed and movable bodies are in separate groups."""
    groups: dict[tuple, list[int]] = {}
    for body in range(model.nbody):
        geoms = geoms_of(model, body)
        if geoms:
            all_settings = tuple(_look(model, geom) for geom in geoms)
            groups.setdefault((is_fixed_body(model, body), all_settings), []).append(body)
    return list(groups.values())


def _look(model: mujoco.MjModel, geom: int) -> tuple:
    values = (model.geom_size[geom], model.geom_rgba[geom], model.geom_pos[geom], model.geom_quat[geom])
    kind = (model.geom_type[geom], model.geom_dataid[geom], model.geom_matid[geom])
    return tuple(map(int, kind)), *(tuple(np.round(value, 6).tolist()) for value in values)
