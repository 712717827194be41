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
Environments of different make-up have different numbers of rows; each engine has those of its environments
(`places.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from livegym.compat.core import rotation, sensors
from livegym.compat.core.engine import Engine
from livegym.compat.core.group import Group
from livegym.compat.core.layout import ActorSlot
from livegym.compat.core.places import Places, counts
from livegym.compat.core.record import Env
from livegym.utils.errors import UserError

KIND = {"root": "actor", "dof": "dof", "body": "body", "contact": "body", "dof_force": "dof", "sensor": "sensor"}
"""The name of a tensor -> what its rows are."""
COLUMNS: dict[str, tuple[int, ...]] = {
    "root": (13,), "dof": (2,), "body": (13,), "contact": (3,), "dof_force": (), "sensor": (6,),
}  # fmt: skip


class Tensors:
    """The acquired buffers of a simulation."""

    def __init__(self, envs: list[Env], groups: list[Group]) -> None:
        self._parts = [_Part(envs, group) for group in groups]
        self._group_of, self._row_of, self._handle_of = _actors(envs, groups)
        total = [counts(env) for env in envs]
        rows = {kind: sum(each[kind] for each in total) for kind in total[0]}
        self.shapes = {name: (rows[kind], *COLUMNS[name]) for name, kind in KIND.items()}
        self.buffers: dict[str, Tensor] = {}
        self._of_actors: dict[tuple[Callable, str], tuple[Tensor, list[ActorSlot]]] = {}
        self._num_envs = len(envs)

    def acquire(self, name: str) -> Tensor:
        """Return the tensor of that name, filled with the present state; the same one at each call."""
        if name not in self.buffers:
            self.buffers[name] = torch.zeros(self.shapes[name])
            for part in self._parts:
                sensors.prepare(part.engine, name)
            self.refresh(name)
        return self.buffers[name]

    def refresh(self, name: str) -> None:
        """Copy the engines' present values into a tensor."""
        if name not in self.buffers or not self.shapes[name][0]:
            return
        out, kind = self.buffers[name].numpy(), KIND[name]
        with np.errstate(over="ignore", invalid="ignore"):  # the numbers of an unstable environment
            for part in self._parts:
                if part.places.size[kind]:
                    rows = part.places.read(out, kind)
                    part.fill[name](rows)
                    part.places.write(out, kind, rows)

    # Jacobians and mass matrices

    def of_actor(self, name: str, compute: Callable[[Engine, ActorSlot], np.ndarray]) -> Tensor:
        """Return what `compute` gives for the actor of that name, (environments, ...); the same one at each call.

        Raises KeyError if environment 0 has no such actor, and UserError if it is of another size elsewhere.
        """
        if (compute, name) not in self._of_actors:
            slots = [part.slot(name, self._parts[0]) for part in self._parts]
            values = [compute(part.engine, slot) for part, slot in zip(self._parts, slots, strict=True)]
            for part, found in zip(self._parts, values, strict=True):
                if found.shape[1:] != values[0].shape[1:]:
                    raise UserError(
                        f"{compute.__name__} of {name}: {found.shape[1:]} in environment {part.group.ids[0]}, "
                        f"{values[0].shape[1:]} in environment 0. One tensor holds all environments: give that actor "
                        "as many links and DOFs in each."
                    )
            self._of_actors[compute, name] = torch.zeros(self._num_envs, *values[0].shape[1:]), slots
            self._write_of_actor(compute, name, values)
        return self._of_actors[compute, name][0]

    def refresh_of_actors(self, compute: Callable[[Engine, ActorSlot], np.ndarray]) -> None:
        """Update all tensors that `compute` gave."""
        for (kind, name), (_, slots) in self._of_actors.items():
            if kind is compute:
                pairs = zip(self._parts, slots, strict=True)
                self._write_of_actor(compute, name, [compute(part.engine, slot) for part, slot in pairs])

    def _write_of_actor(self, compute: Callable, name: str, values: list[np.ndarray]) -> None:
        out = self._of_actors[compute, name][0].numpy()
        for part, own in zip(self._parts, values, strict=True):
            out[part.group.ids] = own

    # setters

    def _of_part(self, part: _Part, values: Tensor, name: str) -> np.ndarray:
        """A part's rows of a tensor as (n, actors, DOFs or bodies of an environment, ...)."""
        size = self.shapes[name]
        if values.numel() != np.prod(size):
            raise ValueError(f"a tensor of {tuple(values.shape)} was given; the {name} tensor is {size}")
        return part.places.read(values.detach().numpy().reshape(size), KIND[name])

    def _split(self, ids: np.ndarray) -> list[tuple[_Part, int, np.ndarray]]:
        """Actor indices of the simulation as (part, actor of the environment, rows) of each actor named."""
        if len(self._parts) == 1:
            part = self._parts[0]
            return [(part, handle, rows) for handle, rows in part.engine.layout.split(ids)]
        of_group, handles = self._group_of[ids], self._handle_of[ids]
        rows = self._row_of[ids]
        found = []
        for group in np.unique(of_group):
            for handle in np.unique(handles[of_group == group]):
                chosen = (of_group == group) & (handles == handle)
                found.append((self._parts[group], int(handle), rows[chosen]))
        return found

    def set_root(self, values: Tensor, ids: np.ndarray) -> None:
        """Take the root states of actors `ids` from a tensor of all actors."""
        for part, handle, envs in self._split(ids):
            rows = self._of_part(part, values, "root")
            slot, row = part.engine.layout.actors[handle], rows[envs, handle].astype(np.float64)
            quat = rotation.to_wxyz(row[:, 3:7])
            slot.write_pose(part.engine, envs, np.concatenate([row[:, :3], quat], 1))
            slot.write_velocity(part.engine, envs, quat, row[:, 7:])
            part.engine.moved(envs)

    def set_dofs(self, values: Tensor, ids: np.ndarray) -> None:
        """Take positions and velocities of the DOFs of actors `ids` from a tensor of all DOFs."""
        for part, handle, envs in self._split(ids):
            engine, layout = part.engine, part.engine.layout
            rows, dofs = self._of_part(part, values, "dof"), layout.actors[handle].dofs
            engine.qpos[envs[:, None], layout.qpos[dofs]] = rows[envs, dofs, 0]
            engine.qvel[envs[:, None], layout.qvel[dofs]] = rows[envs, dofs, 1]
            engine.moved(envs)

    def set_targets(self, mode: int, values: Tensor, ids: np.ndarray | None = None) -> None:
        """Take targets or forces of one drive mode from a tensor of all DOFs; with `ids`, only of those actors."""
        if ids is None:
            for part in self._parts:
                part.engine.drives.set_targets(mode, self._of_part(part, values, "dof_force"))
            return
        for part, handle, envs in self._split(ids):
            rows = self._of_part(part, values, "dof_force")
            part.engine.drives.set_targets(mode, rows, envs, part.engine.layout.actors[handle].dofs)

    def all_actors(self) -> np.ndarray:
        """The indices of all actors of the simulation."""
        return np.arange(self.shapes["root"][0])

    # forces of one step

    def apply_forces(self, force: Tensor | None, torque: Tensor | None, body_axes: bool) -> None:
        """Add forces at centres of mass and torques, (bodies, 3), for the next step only."""
        for part in self._parts:
            applied = part.engine.xfrc_applied[:, 1:]
            quat = part.engine.kinematics("xquat")[:, 1:] if body_axes else None
            for values, columns in ((force, slice(0, 3)), (torque, slice(3, 6))):
                if values is not None:
                    rows = self._of_part(part, values, "contact").astype(np.float64)
                    applied[..., columns] += rows if quat is None else rotation.rotate(quat, rows)
            part.engine.push()

    def apply_forces_at(self, force: Tensor, position: Tensor | None, body_axes: bool) -> None:
        """Add forces (bodies, 3) at positions (bodies, 3): world axes, or the body's frame; for the next step only."""
        if position is None:
            self.apply_forces(force, None, body_axes)
            return
        for part in self._parts:
            rows = self._of_part(part, force, "contact").astype(np.float64)
            points = self._of_part(part, position, "contact").astype(np.float64)
            if body_axes:
                quat = part.engine.kinematics("xquat")[:, 1:]
                rows = rotation.rotate(quat, rows)
                points = part.engine.kinematics("xpos")[:, 1:] + rotation.rotate(quat, points)
            arm = points - part.engine.kinematics("xipos")[:, 1:]
            applied = part.engine.xfrc_applied[:, 1:]
            applied[..., :3] += rows
            applied[..., 3:] += rotation.cross(arm, rows)
            part.engine.push()


class _Part:
    """The rows of the environments of one engine, (n, actors, DOFs or bodies of an environment, ...)."""

    def __init__(self, envs: list[Env], group: Group) -> None:
        self.group = group
        self.engine = engine = group.engine
        self.places = Places(envs, group)
        self.fill: dict[str, Callable[[np.ndarray], None]] = {
            "root": self._fill_root,
            "dof": self._fill_dof,
            "body": self._fill_body,
            "contact": lambda out: sensors.contact_forces(engine, out),
            "dof_force": lambda out: sensors.dof_forces(engine, out),
            "sensor": lambda out: sensors.force_sensors(engine, out),
        }

    def slot(self, name: str, first: _Part) -> ActorSlot:
        """The actor of that name; if environments number their names, the one with its handle in environment 0.

        Raises KeyError if environment 0, which is in the part `first`, has none of that name.
        """
        known = [actor.name for actor in first.group.envs[0].actors]
        if name not in known:
            raise KeyError(f"no actor is called {name}; environment 0 has {', '.join(known)}")
        own = [actor.name for actor in self.group.envs[0].actors]
        handle = own.index(name) if name in own else known.index(name)
        if handle >= len(own):
            raise UserError(
                f"environment {self.group.ids[0]} has no actor {name}, but environment 0 has. One tensor holds all "
                "environments: create that actor in each."
            )
        return self.engine.layout.actors[handle]

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


def _actors(envs: list[Env], groups: list[Group]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each actor of the simulation: its group, its row in that, its handle in its environment."""
    of_env = np.zeros(len(envs), int)
    for number, group in enumerate(groups):
        of_env[group.ids] = number
    sizes = [len(env.actors) for env in envs]
    handles = np.concatenate([np.arange(size) for size in sizes])
    return np.repeat(of_env, sizes), np.repeat([env.row for env in envs], sizes), handles
