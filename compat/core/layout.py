"""Where the actors of an environment are in MuJoCo's arrays.

Bodies: MuJoCo's body 1 + i is the environment's body i, in the order of actors and, in each, in Isaac's order.
DOFs, actuators and `ctrl` columns are in the environment's DOF order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from livegym.compat.core import rotation


class States(Protocol):
    """The arrays of the engine that hold the state."""

    qpos: np.ndarray
    qvel: np.ndarray
    mocap_pos: np.ndarray
    mocap_quat: np.ndarray

    def com(self, body: int) -> np.ndarray:
        """(N, 3) centre of mass of a body in its own frame."""


@dataclass(frozen=True)
class ActorSlot:
    """The addresses of one actor, which are the same in every environment."""

    bodies: slice  # of MuJoCo's bodies
    dofs: slice  # of the environment's DOFs
    geoms: np.ndarray  # (shapes,) colliding geoms in the asset's order
    qpos: int  # first of the 7 of its free joint, -1 if the base is fixed
    qvel: int  # first of the 6, -1 if the base is fixed
    mocap: int  # mocap id, -1 if the base is free
    tendons: slice  # of MuJoCo's tendons
    gains: np.ndarray  # (tendons,) factor of their stiffness and damping, see tendons.py
    couplings: np.ndarray  # (tendons, nv) of tendons whose springs are implicit, see tendons.py
    damping: tuple[float, float]  # of a single free body: 1/s of linear and of angular velocity
    max_speed: tuple[float, float]  # of a free root: m/s, rad/s

    @property
    def root(self) -> int:
        """MuJoCo's id of the root body."""
        return self.bodies.start

    def write_pose(self, engine: States, envs: slice | np.ndarray, poses: np.ndarray) -> None:
        """Set position and wxyz quaternion, (n, 7), of this actor's root."""
        if self.qpos >= 0:
            engine.qpos[envs, self.qpos : self.qpos + 7] = poses
        else:
            engine.mocap_pos[envs, self.mocap] = poses[:, :3]
            engine.mocap_quat[envs, self.mocap] = poses[:, 3:]

    def read_pose(self, engine: States) -> tuple[np.ndarray, np.ndarray]:
        """Position (N, 3) and wxyz quaternion (N, 4) of this actor's root."""
        if self.qpos >= 0:
            return engine.qpos[:, self.qpos : self.qpos + 3], engine.qpos[:, self.qpos + 3 : self.qpos + 7]
        return engine.mocap_pos[:, self.mocap], engine.mocap_quat[:, self.mocap]

    def write_velocity(self, engine: States, envs: np.ndarray, quat: np.ndarray, velocity: np.ndarray) -> None:
        """Set velocity (n, 6): linear of the centre of mass, then angular, world axes; a fixed base has none."""
        if self.qvel < 0:
            return
        angular = velocity[:, 3:]
        arm = rotation.rotate(quat, engine.com(self.root)[envs])
        engine.qvel[envs, self.qvel : self.qvel + 3] = velocity[:, :3] - rotation.cross(angular, arm)
        engine.qvel[envs, self.qvel + 3 : self.qvel + 6] = rotation.rotate_inverse(quat, angular)

    def read_velocity(self, engine: States, quat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Linear velocity of the centre of mass and angular velocity, (N, 3) each, world axes."""
        at = self.qvel
        angular = rotation.rotate(quat, engine.qvel[:, at + 3 : at + 6])
        arm = rotation.rotate(quat, engine.com(self.root))
        return engine.qvel[:, at : at + 3] + rotation.cross(angular, arm), angular


@dataclass(frozen=True)
class SensorSlot:
    """A force sensor of an environment."""

    body: int  # MuJoCo's id
    position: np.ndarray  # (3,) in the body's frame
    quat: np.ndarray  # (4,) wxyz, from the sensor's to the body's axes
    dynamics: bool  # gravity, drives and joints count
    constraints: bool  # contacts and attractors count
    world_axes: bool
    data: slice  # of sensordata: linear acceleration of the centre of mass, angular acceleration, angular velocity

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """Which parts count, and in which axes they are."""
        return self.dynamics, self.constraints, self.world_axes


class SensorGroup:
    """All force sensors (k of them) with the same flags, so that they are computed at once."""

    def __init__(self, sensors: list[SensorSlot], columns: list[int]) -> None:
        self.dynamics, self.constraints, self.world_axes = sensors[0].flags
        self.columns = np.array(columns)  # (k,) of the environment's sensors
        self.bodies = np.array([sensor.body for sensor in sensors])
        self.position = np.array([sensor.position for sensor in sensors])
        self.quat = np.array([sensor.quat for sensor in sensors])
        self.turned = bool((self.quat[:, 1:] != 0).any())
        self.data = np.array([range(sensor.data.start, sensor.data.stop) for sensor in sensors])  # (k, 9)


def group(sensors: list[SensorSlot]) -> list[SensorGroup]:
    """Return the groups of equal flags."""
    groups = []
    for flags in dict.fromkeys(sensor.flags for sensor in sensors):
        columns = [column for column, sensor in enumerate(sensors) if sensor.flags == flags]
        groups.append(SensorGroup([sensors[column] for column in columns], columns))
    return groups


@dataclass(frozen=True)
class Layout:
    """The addresses of everything in an environment."""

    actors: list[ActorSlot]
    qpos: np.ndarray  # (dofs,) address of each DOF in qpos
    qvel: np.ndarray  # (dofs,) address of each DOF in qvel
    joints: np.ndarray  # (dofs,) MuJoCo's joint ids
    bodies: int
    sensors: list[SensorGroup]
    sensor_count: int
    contacts: list[tuple[int, slice]]  # (environment's body, its three numbers in sensordata)
    limits: list[tuple[int, int]]  # (DOF, index of its limit force in sensordata)
    ground_friction: float
    ground_restitution: float
    tendon_armature: np.ndarray  # (tendons,) as the files have it
    couplings: np.ndarray  # (tendons, nv) of all actors

    @property
    def geoms(self) -> np.ndarray:
        """(shapes,) colliding geoms of all actors."""
        return np.concatenate([np.zeros(0, int), *(slot.geoms for slot in self.actors)])

    @property
    def dofs(self) -> int:
        """Number of DOFs of an environment."""
        return len(self.qpos)

    @property
    def sizes(self) -> set[int]:
        """How many actors, sensors, bodies, DOFs and shapes an environment and its actors have."""
        whole = {
            len(self.actors),
            self.sensor_count,
            self.bodies,
            self.dofs,
            sum(len(slot.geoms) for slot in self.actors),
        }
        spans = [span for slot in self.actors for span in (slot.bodies, slot.dofs)]
        return whole | {span.stop - span.start for span in spans} | {len(slot.geoms) for slot in self.actors}

    def split(self, ids: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Actor indices of the simulation as (actor of the environment, environments) of each actor named."""
        envs, handles = np.divmod(ids, len(self.actors))
        if len(self.actors) == 1:
            return [(0, envs)]
        return [(int(handle), envs[handles == handle]) for handle in np.unique(handles)]
