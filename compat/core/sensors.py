"""Measurements of a task: contact forces, DOF forces, force sensors, Jacobians and mass matrices.

Forces are those of the last substep, for environments that were reset since then as well.
"""

from __future__ import annotations

import numpy as np

from livegym.compat.core import rotation, tendons
from livegym.compat.core.engine import Engine
from livegym.compat.core.layout import ActorSlot, SensorGroup

READS = {
    "contact": ("sensordata",),
    "dof_force": ("sensordata", "qfrc_actuator", "qfrc_spring", "qfrc_damper", "qacc"),
    "sensor": ("sensordata",),
}
KINEMATICS = {"body": ("cvel", "subtree_com", "xipos", "xpos", "xquat"), "sensor": ("xmat", "ximat")}


def prepare(engine: Engine, name: str) -> None:
    """Have the engine keep the outputs that a tensor is made from."""
    for output in READS.get(name, ()):
        if output != "sensordata" or engine.model.nsensordata:
            engine.batch.bind(output)
    for output in KINEMATICS.get(name, ()):
        engine.kinematics(output)
    if name == "dof_force" and engine.layout.couplings.any():
        engine.kinematics("ten_velocity")
    if name == "sensor" and any(not (s.dynamics and s.constraints) for s in engine.layout.sensors):
        engine.batch.bind("cfrc_ext")
        for output in ("subtree_com", "xipos"):
            engine.kinematics(output)


def contact_forces(engine: Engine, out: np.ndarray) -> None:
    """Write the net contact force (N, bodies, 3) on each body, N, world axes."""
    if not engine.layout.contacts:
        return
    data = engine.forces("sensordata")
    first = engine.layout.contacts[0][1].start
    bodies = [body for body, _ in engine.layout.contacts]
    block = data[:, first : first + 3 * len(bodies)]  # their sensors were added one after the other
    out[:, bodies] = block.reshape(len(out), len(bodies), 3)


def dof_forces(engine: Engine, out: np.ndarray) -> None:
    """Write the force on each DOF (N, dofs), N or N m: its drive, spring, damping and limit.

    The armature that makes a drive implicit is no mass: what it takes is part of the drive's force.
    """
    layout, at = engine.layout, engine.layout.qvel
    force = engine.forces("qfrc_actuator")[:, at] - engine.drives.armature_in_use() * engine.forces("qacc")[:, at]
    force += engine.forces("qfrc_spring")[:, at] + engine.forces("qfrc_damper")[:, at]
    if layout.couplings.any():
        force += _added_by_tendons(engine)[:, at]
    if layout.limits:
        dofs, data = (list(column) for column in zip(*layout.limits, strict=True))
        force[:, dofs] += _away_from_limit(engine, dofs) * engine.forces("sensordata")[:, data]
    out[:] = force


def _added_by_tendons(engine: Engine) -> np.ndarray:
    """(N, nv) the part of the damping of tendons that only makes their springs implicit, taken back.

    `prepare` has the passive forces computed at the new state, where an implicit spring has the force that counts.
    """
    extra = float(engine.model.opt.timestep) * engine.per_env("tendon_stiffness").reshape(engine.num_envs, -1)
    return (extra * engine.forces("ten_velocity")) @ engine.layout.couplings


def _away_from_limit(engine: Engine, dofs: list[int]) -> np.ndarray:
    """(N, n) 1 or -1: the direction in which the nearer limit of each DOF pushes; MuJoCo reports its size only."""
    position, props = engine.qpos[:, engine.layout.qpos[dofs]], engine.drives.props[:, dofs]
    return np.where(2.0 * position < props["lower"] + props["upper"], 1.0, -1.0)


def force_sensors(engine: Engine, out: np.ndarray) -> None:
    """Write force and torque (N, sensors, 6) at each force sensor, N and N m.

    With both parts it is what moves the body: mass times acceleration of the centre of mass, and the change of spin. A
    body at rest reads 0. The constraint part is what contacts and attractors exert.
    """
    xmat = engine.kinematics("xmat")
    for group in engine.layout.sensors:
        frame = _matrices(xmat, group.bodies)  # (N, k, 3, 3)
        force, torque = _parts(engine, group)
        arm = rotation.apply(frame, engine.com(group.bodies) - group.position)
        torque = torque + rotation.cross(arm, force)
        if not group.world_axes:
            force, torque = (rotation.apply_inverse(frame, world) for world in (force, torque))
            if group.turned:
                force, torque = (rotation.rotate_inverse(group.quat, own) for own in (force, torque))
        out[:, group.columns, :3] = force
        out[:, group.columns, 3:] = torque


def _matrices(flat: np.ndarray, bodies: np.ndarray) -> np.ndarray:
    return flat[:, bodies].reshape(len(flat), len(bodies), 3, 3)


def _parts(engine: Engine, group: SensorGroup) -> tuple[np.ndarray, np.ndarray]:
    """The forces and torques (N, k, 3) about the centres of mass, world axes, that the flags ask for."""
    if group.dynamics and group.constraints:
        return _motion(engine, group)
    outside = _constraint(engine, group.bodies)
    if group.constraints:
        return outside
    if group.dynamics:
        force, torque = _motion(engine, group)
        return force - outside[0], torque - outside[1]
    return np.zeros_like(outside[0]), np.zeros_like(outside[1])


def _motion(engine: Engine, group: SensorGroup) -> tuple[np.ndarray, np.ndarray]:
    """Mass times acceleration and rate of change of spin of bodies, world axes."""
    data = engine.forces("sensordata")[:, group.data]  # (N, k, 9)
    acceleration = data[..., :3] + engine.gravity()[:, None]  # MuJoCo's contains -g
    force = engine.mass(group.bodies)[..., None] * acceleration
    moments, _ = engine.inertia(group.bodies)
    principal = _matrices(engine.kinematics("ximat"), group.bodies)
    turn = rotation.apply_inverse(principal, data[..., 3:6])
    spin = rotation.apply_inverse(principal, data[..., 6:])
    return force, rotation.apply(principal, moments * turn + rotation.cross(spin, moments * spin))


def _constraint(engine: Engine, bodies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forces and torques about the centres of mass of bodies that contacts and equality constraints exert."""
    wrench = engine.forces("cfrc_ext")[:, bodies]  # about the tree's centre of mass: torque, then force
    com = engine.kinematics("subtree_com")[:, engine.model.body_rootid[bodies]]
    arm = com - engine.kinematics("xipos")[:, bodies]
    return wrench[..., 3:].copy(), wrench[..., :3] + rotation.cross(arm, wrench[..., 3:])


def columns(engine: Engine, slot: ActorSlot) -> np.ndarray:
    """The addresses in qvel of an actor's columns: 6 of a free base, then its DOFs."""
    base = np.arange(slot.qvel, slot.qvel + 6) if slot.qvel >= 0 else np.zeros(0, int)
    return np.concatenate([base, engine.layout.qvel[slot.dofs]]).astype(int)


def jacobian(engine: Engine, slot: ActorSlot) -> np.ndarray:
    """Return (N, links, 6, columns): linear rows at each link's centre of mass, then angular; world axes.

    A fixed base has no row block. A free one has 6 columns in front, which are its velocity as the root state shows it:
    linear of its centre of mass, then angular, in world axes.
    """
    use = columns(engine, slot)
    first = slot.root + (1 if slot.qvel < 0 else 0)
    blocks = []
    for body in range(first, slot.bodies.stop):
        point = engine.kinematics("xipos")[:, body]
        linear, angular = engine.batch.jac(body, point)
        blocks.append(np.concatenate([linear[:, :, use], angular[:, :, use]], 1))
    if not blocks:
        return np.zeros((engine.num_envs, 0, 6, len(use)))
    out = np.stack(blocks, 1)
    if slot.qvel >= 0:
        out[..., :6] = np.einsum("nlrk,nkj->nlrj", out[..., :6], _base_velocity(engine, slot))
    return out


def _base_velocity(engine: Engine, slot: ActorSlot) -> np.ndarray:
    """(N, 6, 6) from the root state's velocity of a free base to MuJoCo's: of its origin, and in its own axes."""
    turn = engine.kinematics("xmat")[:, slot.root].reshape(-1, 3, 3)
    arm = rotation.apply(turn, engine.com(slot.root))
    out = np.zeros((engine.num_envs, 6, 6))
    out[:, :3, :3] = np.eye(3)
    for axis in range(3):  # the origin's velocity is the centre's + arm x angular
        out[:, :3, 3 + axis] = rotation.cross(arm, np.eye(3)[axis])
    out[:, 3:, 3:] = turn.transpose(0, 2, 1)
    return out


def mass_matrix(engine: Engine, slot: ActorSlot) -> np.ndarray:
    """Return (N, columns, columns), kg, kg m and kg m^2, for velocities as in `jacobian`.

    The inertia that makes drives and tendons implicit is no mass, and is left out.
    """
    model = engine.model
    rows = np.repeat(np.arange(model.nv), model.M_rownnz)
    cols = np.asarray(model.M_colind)
    packed = engine.kinematics("M")
    full = np.zeros((engine.num_envs, model.nv, model.nv))
    full[:, rows, cols] = packed
    full[:, cols, rows] = packed
    at = engine.layout.qvel
    full[:, at, at] -= engine.drives.armature_in_use()
    couplings = slot.couplings
    full -= np.einsum("nt,ti,tj->nij", tendons.added_armature(engine)[:, slot.tendons], couplings, couplings)
    use = columns(engine, slot)
    own = full[:, use[:, None], use]
    if slot.qvel >= 0:
        base = _base_velocity(engine, slot)
        own[:, :6] = np.einsum("nki,nkj->nij", base, own[:, :6])
        own[:, :, :6] = np.einsum("nik,nkj->nij", own[:, :, :6], base)
    return own
