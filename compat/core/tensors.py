"""The buffers of the tensor interface: float32 tensors that change at `refresh` only.

    root = tensors.acquire("root")        # (actors, 13): position, xyzw quaternion, linear and angular velocity
    tensors.refresh("root")
    root[7] += 0.1
    tensors.set_root(root, np.array([7]))  # actor indices of the whole simulation

| name | shape | content |
| --- | --- | --- |
| root | (actors, 13) | linear velocity is that of the centre of mass; world axes; a fixed base has none |
| dof | (DOFs, 2) | position, velocity |
| body | (bodies, 13) | as root, every link |
| contact | (bodies, 3) | net contact force, N, world axes, last substep |
| dof_force | (DOFs,) | drive, spring, damping and limit, N or N m |
| sensor | (sensors, 6) | force and torque at force sensors |

A setter takes rows of the tensor given to it and touches no other environment. Several calls a step are fine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from livegym.compat.core import rotation, sensors
from livegym.compat.core.engine import Engine


class Tensors:
    """The acquired buffers of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        layout = engine.layout
        n = engine.num_envs
        self.shapes = {
            "root": (n * len(layout.actors), 13),
            "dof": (n * layout.dofs, 2),
            "body": (n * layout.bodies, 13),
            "contact": (n * layout.bodies, 3),
            "dof_force": (n * layout.dofs,),
            "sensor": (n * layout.sensor_count, 6),
        }
        self.buffers: dict[str, Tensor] = {}
        self.of_actors: dict[tuple[Callable, int], Tensor] = {}  # Jacobians and mass matrices
        self._fill: dict[str, Callable[[np.ndarray], None]] = {
            "root": self._fill_root,
            "dof": self._fill_dof,
            "body": self._fill_body,
            "contact": lambda out: sensors.contact_forces(engine, out),
            "dof_force": lambda out: sensors.dof_forces(engine, out),
            "sensor": lambda out: sensors.force_sensors(engine, out),
        }

    def acquire(self, name: str) -> Tensor:
        """Return the tensor of that name, filled with the present state; the same one at each call."""
        if name not in self.buffers:
            self.buffers[name] = torch.zeros(self.shapes[name])
            sensors.prepare(self.engine, name)
            self.refresh(name)
        return self.buffers[name]

    def refresh(self, name: str) -> None:
        """Copy the engine's present values into a tensor."""
        if name in self.buffers and self.shapes[name][0]:
            out = self.buffers[name].numpy()
            with np.errstate(over="ignore", invalid="ignore"):  # the numbers of an unstable environment
                self._fill[name](out.reshape(self.engine.num_envs, -1, *out.shape[1:]))

    def _fill_root(self, out: np.ndarray) -> None:
        for column, slot in enumerate(self.engine.layout.actors):
            row = out[:, column]
            position, quat = slot.read_pose(self.engine)
            row[:, :3] = position
            rotation.to_xyzw(quat, row[:, 3:7])
            if slot.qvel >= 0:
                row[:, 7:10], row[:, 10:] = slot.read_velocity(self.engine, quat)
            else:
                row[:, 7:] = 0.0

    def _fill_dof(self, out: np.ndarray) -> None:
        layout = self.engine.layout
        out[..., 0] = self.engine.qpos[:, layout.qpos]
        out[..., 1] = self.engine.qvel[:, layout.qvel]

    def _fill_body(self, out: np.ndarray) -> None:
        engine = self.engine
        velocity = engine.kinematics("cvel")  # about the tree's centre of mass: angular, then linear
        com, point = engine.kinematics("subtree_com"), engine.kinematics("xipos")
        out[..., :3] = engine.kinematics("xpos")[:, 1:]
        rotation.to_xyzw(engine.kinematics("xquat")[:, 1:], out[..., 3:7])
        arm = point[:, 1:] - com[:, engine.model.body_rootid[1:]]
        angular = velocity[:, 1:, :3]
        out[..., 7:10] = velocity[:, 1:, 3:] + rotation.cross(angular, arm)
        out[..., 10:] = angular

    # setters

    def _rows(self, values: Tensor, name: str) -> np.ndarray:
        """A tensor as (N, actors, DOFs or bodies of an environment, ...)."""
        size = self.shapes[name]
        if values.numel() != np.prod(size):
            raise ValueError(f"a tensor of {tuple(values.shape)} was given; the {name} tensor is {size}")
        return values.detach().numpy().reshape(self.engine.num_envs, -1, *size[1:])

    def set_root(self, values: Tensor, ids: np.ndarray) -> None:
        """Take the root states of actors `ids` from a tensor of all actors."""
        rows = self._rows(values, "root")
        for handle, envs in self.engine.layout.split(ids):
            slot, row = self.engine.layout.actors[handle], rows[envs, handle].astype(np.float64)
            quat = rotation.to_wxyz(row[:, 3:7])
            slot.write_pose(self.engine, envs, np.concatenate([row[:, :3], quat], 1))
            slot.write_velocity(self.engine, envs, quat, row[:, 7:])
            self.engine.moved(envs)

    def set_dofs(self, values: Tensor, ids: np.ndarray) -> None:
        """Take positions and velocities of the DOFs of actors `ids` from a tensor of all DOFs."""
        layout = self.engine.layout
        rows = self._rows(values, "dof")
        for handle, envs in layout.split(ids):
            dofs = layout.actors[handle].dofs
            self.engine.qpos[envs[:, None], layout.qpos[dofs]] = rows[envs, dofs, 0]
            self.engine.qvel[envs[:, None], layout.qvel[dofs]] = rows[envs, dofs, 1]
            self.engine.moved(envs)

    def set_targets(self, mode: int, values: Tensor, ids: np.ndarray | None = None) -> None:
        """Take targets or forces of one drive mode from a tensor of all DOFs; with `ids`, only of those actors."""
        rows = self._rows(values, "dof_force")
        if ids is None:
            self.engine.drives.set_targets(mode, rows)
            return
        for handle, envs in self.engine.layout.split(ids):
            self.engine.drives.set_targets(mode, rows, envs, self.engine.layout.actors[handle].dofs)

    def all_actors(self) -> np.ndarray:
        """The indices of all actors of the simulation."""
        return np.arange(self.shapes["root"][0])

    # forces of one step

    def apply_forces(self, force: Tensor | None, torque: Tensor | None, body_axes: bool) -> None:
        """Add forces at centres of mass and torques, (bodies, 3), for the next step only."""
        applied = self.engine.xfrc_applied[:, 1:]
        quat = self.engine.kinematics("xquat")[:, 1:] if body_axes else None
        for values, columns in ((force, slice(0, 3)), (torque, slice(3, 6))):
            if values is not None:
                rows = self._rows(values, "contact").astype(np.float64)
                applied[..., columns] += rows if quat is None else rotation.rotate(quat, rows)
        self.engine.push()

    def apply_forces_at(self, force: Tensor, position: Tensor | None, body_axes: bool) -> None:
        """Add forces (bodies, 3) at positions (bodies, 3): world axes, or the body's frame; for the next step only."""
        if position is None:
            self.apply_forces(force, None, body_axes)
            return
        rows = self._rows(force, "contact").astype(np.float64)
        points = self._rows(position, "contact").astype(np.float64)
        if body_axes:
            quat = self.engine.kinematics("xquat")[:, 1:]
            rows = rotation.rotate(quat, rows)
            points = self.engine.kinematics("xpos")[:, 1:] + rotation.rotate(quat, points)
        arm = points - self.engine.kinematics("xipos")[:, 1:]
        applied = self.engine.xfrc_applied[:, 1:]
        applied[..., :3] += rows
        applied[..., 3:] += rotation.cross(arm, rows)
        self.engine.push()
