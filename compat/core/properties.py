"""Properties of DOFs, bodies, shapes and tendons, actor by actor, before and after the scene is compiled.

Every actor keeps its records. Before `compile` they only wait. At `compile`, environment 0's become the model's, and
actors that differ are marked. After it, a setter marks its actor; `flush` writes all marked actors into the batch's
per-environment fields, once, before the next step or read.

Friction: PhysX uses the mean of two shapes' coefficients, MuJoCo the larger one or that of the higher priority. Shapes
of actors have priority 1 and (own + ground) / 2, which is exact on the ground; between actors it is the larger mean.
"""

from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core import collision, drives, weights
from livegym.compat.core.asset import AssetModel
from livegym.compat.core.build import shape_classes
from livegym.compat.core.engine import Engine
from livegym.compat.core.layout import ActorSlot, Layout
from livegym.compat.core.record import KINDS, Actor, Env, Scene
from livegym.compat.core.values import Mat33, RigidBodyProperties, Vec3
from livegym.utils.errors import UserError

# DOFs


def get_dofs(actor: Actor) -> np.ndarray:
    """Return a copy of an actor's DOF properties, (dofs,) DOF_PROPERTIES."""
    own = actor.asset.dof_properties if actor.dof_properties is None else actor.dof_properties
    return own.copy()


def set_dofs(sim: Scene, actor: Actor, props: np.ndarray) -> None:
    """Give an actor DOF properties. Raises UserError if there are not as many as the actor has DOFs."""
    if len(props) != len(actor.asset.dofs):
        raise UserError(f"{actor.name} has {len(actor.asset.dofs)} DOFs; the properties given are for {len(props)}.")
    actor.dof_properties = props.copy()
    if sim.compiled:
        slot = sim.engine.layout.actors[actor.handle]
        sim.engine.drives.set_props(actor.env.index, slot.dofs, actor.dof_properties)


def _dof_table(sim: Scene) -> np.ndarray:
    """(N, dofs) DOF properties of every environment."""
    columns = []
    for handle, actor in enumerate(sim.envs[0].actors):
        rows = [env.actors[handle] for env in sim.envs]
        table = np.repeat(actor.asset.dof_properties[None], len(rows), 0)
        for number, other in enumerate(rows):
            if other.dof_properties is not None:
                table[number] = other.dof_properties
        columns.append(table)
    return np.concatenate(columns, 1)


# bodies


def default_bodies(asset: AssetModel) -> list[RigidBodyProperties]:
    """Return the properties of an asset's bodies as the file gives them."""
    model = asset.model
    records = []
    for body in range(1, model.nbody):
        record = RigidBodyProperties()
        record.mass = float(model.body_mass[body])
        record.com = Vec3(*(float(x) for x in model.body_ipos[body]))
        set_inertia(record, _inertia_matrix(model.body_inertia[body], model.body_iquat[body]))
        records.append(record)
    return records


def _inertia_matrix(moments: np.ndarray, quat: np.ndarray) -> np.ndarray:
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, quat)
    axes = turn.reshape(3, 3)
    return (axes * moments) @ axes.T


def matrix(value: Mat33) -> np.ndarray:
    """(3, 3) from a record."""
    return np.array([list(value.x), list(value.y), list(value.z)], float)


def _mat33(matrix: np.ndarray) -> Mat33:
    value = Mat33()
    value.x, value.y, value.z = (Vec3(*(float(x) for x in row)) for row in matrix)
    return value


def set_inertia(record: RigidBodyProperties, inertia: np.ndarray) -> None:
    """Write an inertia (3, 3), and the inverses of mass and inertia, into a record."""
    record.inertia = _mat33(inertia)
    record.invInertia = _mat33(np.linalg.pinv(inertia))
    record.invMass = 1.0 / record.mass if record.mass else 0.0


def get_bodies(actor: Actor) -> list[RigidBodyProperties]:
    """Return copies of the properties of an actor's bodies."""
    if actor.body_properties is None:
        actor.body_properties = default_bodies(actor.asset)
    return copy.deepcopy(actor.body_properties)


def set_bodies(sim: Scene, actor: Actor, records: list[RigidBodyProperties], recompute_inertia: bool) -> None:
    """Give an actor's bodies masses, centres of mass and inertias.

    With `recompute_inertia` the inertia scales with the mass; otherwise it is the one in the record. Raises UserError
    if the number of records is wrong, or a mass is not a positive number.
    """
    old = get_bodies(actor)
    if len(records) != len(old):
        raise UserError(f"{actor.name} has {len(old)} bodies; {len(records)} records were given.")
    new = copy.deepcopy(records)
    for name, record, before in zip(actor.asset.bodies, new, old, strict=True):
        if not (np.isfinite(record.mass) and record.mass > 0):
            raise UserError(f"Body {name} of {actor.name}: mass {record.mass} kg. It must be a positive number.")
        if recompute_inertia:
            set_inertia(record, matrix(before.inertia) * (record.mass / before.mass))
    actor.body_properties = new
    sim.mark("bodies", actor)


def _write_bodies(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    envs = np.array([actor.env.index for actor in actors])
    rows = [actor.body_properties or default_bodies(actor.asset) for actor in actors]
    mass = np.array([[record.mass for record in records] for records in rows])
    com = np.array([[list(record.com) for record in records] for records in rows])
    inertia = np.array([[matrix(record.inertia) for record in records] for records in rows])
    model, at = engine.model, slot.bodies
    engine.expand("body_mass")[envs, at] = mass
    if engine.differs("body_ipos") or not np.allclose(com, model.body_ipos[at], rtol=0, atol=1e-6):
        engine.expand("body_ipos")[envs, at] = com
    if engine.differs("body_iquat"):
        engine.expand("body_iquat")[envs, at] = model.body_iquat[at]
    moments = engine.expand("body_inertia")
    shared = np.array(
        [_inertia_matrix(*pair) for pair in zip(model.body_inertia[at], model.body_iquat[at], strict=True)]
    )
    trace = np.trace(shared, axis1=1, axis2=2)
    ratio = np.trace(inertia, axis1=2, axis2=3) / trace  # (n, bodies)
    scaled = np.isclose(inertia, shared * ratio[..., None, None], rtol=1e-4, atol=1e-6 * trace[:, None, None])
    moments[envs, at] = model.body_inertia[at] * ratio[..., None]
    for row, body in np.argwhere(~scaled.all((2, 3))):
        values, axes = np.linalg.eigh(inertia[row, body])
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, axes.reshape(-1))
        moments[envs[row], at.start + body] = np.maximum(values, 1e-12)
        engine.expand("body_iquat")[envs[row], at.start + body] = quat
    engine.set_const(envs)


# shapes


def get_shapes(actor: Actor) -> list[Any]:
    """Return copies of the properties of an actor's shapes."""
    return [copy.copy(record) for record in actor.shape_properties]


def set_shapes(sim: Scene, actor: Actor, records: list[Any]) -> None:
    """Give an actor's shapes friction and filters. Raises UserError if the number of records is wrong."""
    if len(records) != len(actor.asset.shapes):
        raise UserError(f"{actor.name} has {len(actor.asset.shapes)} shapes; {len(records)} records were given.")
    actor.shape_properties = [copy.copy(record) for record in records]
    sim.mark("shapes", actor)


def _frictions(actor: Actor, ground: float) -> np.ndarray:
    own = np.array([float(record.friction) for record in actor.shape_properties])
    return 0.5 * (own + ground)


def _filters(env: Env) -> tuple:
    groups = collision.canonical_groups([actor.group for actor in env.actors])
    own = [(actor.filter, *(record.filter for record in actor.shape_properties)) for actor in env.actors]
    return (*groups, *own)


def _write_shapes(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    if not slot.geoms.size:
        return
    ground = engine.layout.ground_friction
    envs = np.array([actor.env.index for actor in actors])
    values = np.array([_frictions(actor, ground) for actor in actors])
    engine.expand("geom_friction")[envs[:, None], slot.geoms, 0] = values


def _write_filters(sim: Scene, envs: list[Env]) -> None:
    different = [env for env in envs if _filters(env) != sim.filters_written.get(env.index, sim.filters)]
    if not different:
        return
    geoms = np.concatenate([slot.geoms for slot in sim.engine.layout.actors])
    bodies = sim.engine.model.geom_bodyid[geoms]
    for env in different:
        for name, bits in zip(("contype", "conaffinity"), collision.encode(shape_classes(env)).T, strict=True):
            sim.engine.expand(f"geom_{name}")[env.index, geoms] = bits
            _collect(sim.engine.expand(f"body_{name}")[env.index], bodies, bits)
        sim.filters_written[env.index] = _filters(env)


def _collect(of_body: np.ndarray, bodies: np.ndarray, bits: np.ndarray) -> None:
    """Give bodies the bits of all their shapes: MuJoCo looks at those first."""
    of_body[bodies] = 0
    np.bitwise_or.at(of_body, bodies, bits)


# tendons


def get_tendons(actor: Actor) -> list[Any]:
    """Return copies of the properties of an actor's tendons."""
    own = actor.asset.tendons if actor.tendon_properties is None else actor.tendon_properties
    return [copy.copy(record) for record in own]


def set_tendons(sim: Scene, actor: Actor, records: list[Any]) -> None:
    """Give an actor's tendons stiffness, damping and limits."""
    actor.tendon_properties = [copy.copy(record) for record in records]
    if records:
        sim.mark("tendons", actor)


def _write_tendons(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    envs = np.array([actor.env.index for actor in actors])
    rows = [get_tendons(actor) for actor in actors]
    at = slice(slot.tendon, slot.tendon + len(rows[0]))
    limits = [[(r.fixed_lower_limit, r.fixed_upper_limit) for r in records] for records in rows]
    engine.expand("tendon_range")[envs, at] = np.array(limits)
    for field, name in (("tendon_stiffness", "stiffness"), ("tendon_damping", "damping")):
        engine.expand(field)[envs, at] = np.array([[getattr(r, name) for r in records] for records in rows])


# all of them


def write_model(sim: Scene, model: mujoco.MjModel, layout: Layout) -> np.ndarray:
    """Write environment 0's properties into the model; return the DOF properties (N, dofs) of all environments."""
    props = _dof_table(sim)
    drives.write_model(model, layout, props[0])
    bits = collision.encode(shape_classes(sim.envs[0]))
    sim.filters = _filters(sim.envs[0])
    first = 0
    for actor, slot in zip(sim.envs[0].actors, layout.actors, strict=True):
        geoms = slot.geoms
        model.geom_friction[geoms, 0] = _frictions(actor, layout.ground_friction)
        model.geom_priority[geoms] = 1
        model.geom_condim[geoms] = 3
        model.geom_margin[geoms] = 0.0
        for name, own in zip(("contype", "conaffinity"), bits[first : first + len(geoms)].T, strict=True):
            getattr(model, f"geom_{name}")[geoms] = own
            _collect(getattr(model, f"body_{name}"), model.geom_bodyid[geoms], own)
        first += len(geoms)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    weights.write(model)
    return props


def mark_different(sim: Scene) -> None:
    """Mark the actors whose properties are not those that `write_model` wrote."""
    filters = _filters(sim.envs[0])
    for env in sim.envs[1:]:
        if _filters(env) != filters:
            for actor in env.actors:
                sim.mark("shapes", actor)
    for handle, first in enumerate(sim.envs[0].actors):
        actors = [env.actors[handle] for env in sim.envs]
        for actor in actors:
            if actor.shape_properties is not first.shape_properties:
                sim.mark("shapes", actor)
            if actor.tendon_properties is not None:
                sim.mark("tendons", actor)
        if any(actor.body_properties is not None for actor in actors):
            for actor in actors:
                sim.mark("bodies", actor)


def flush(sim: Scene) -> None:
    """Write the properties of marked actors into the batch."""
    if not any(sim.changed.values()):
        return
    changed = {kind: list(sim.changed[kind].values()) for kind in KINDS}
    for kind in KINDS:
        sim.changed[kind].clear()
    engine = sim.engine
    for kind, write in (("bodies", _write_bodies), ("shapes", _write_shapes), ("tendons", _write_tendons)):
        for handle, slot in enumerate(engine.layout.actors):
            actors = [actor for actor in changed[kind] if actor.handle == handle]
            if actors:
                write(engine, slot, actors)
    if changed["shapes"]:
        _write_filters(sim, [sim.envs[i] for i in sorted({actor.env.index for actor in changed["shapes"]})])
