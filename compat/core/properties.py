"""Properties of DOFs, bodies and shapes, actor by actor, before and after the scene is compiled.

Every actor keeps its records. Before `compile` they only wait. At `compile`, those of the first environment of each
make-up become the model's, and actors that differ are marked. After it, a setter marks its actor; `flush` writes all
marked actors of an engine into its batch's per-environment fields, once, before the next step or read.

Friction: PhysX uses the mean of two shapes' coefficients, MuJoCo the larger one or that of the higher priority. Shapes
of actors have priority 1 and (own + ground) / 2, which is exact on the ground; between actors it is the larger mean.
Restitution likewise, see `restitution.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core import attractors, collision, drives, rotation, tendons
from livegym.compat.core.asset_model import AssetModel, give_inertia
from livegym.compat.core.build import shape_classes
from livegym.compat.core.engine import Engine
from livegym.compat.core.layout import ActorSlot, Layout
from livegym.compat.core.record import KINDS, Actor, Env, EnvGroup, Scene
from livegym.compat.core.records import DOF_PROPERTIES
from livegym.compat.core.states import Mat33
from livegym.compat.core.values import RigidBodyProperties
from livegym.compat.core.weights import Weights
from livegym.utils.errors import UserError

# DOFs


def get_dofs(actor: Actor) -> np.ndarray:
    """Return a copy of an actor's DOF properties, (dofs,) DOF_PROPERTIES."""
    return _dofs(actor).copy()


def _dofs(actor: Actor) -> np.ndarray:
    return actor.asset.dof_properties if actor.dof_properties is None else actor.dof_properties


def set_dofs(sim: Scene, actor: Actor, props: np.ndarray) -> None:
    """Give an actor DOF properties. Raises UserError if there are not as many as the actor has DOFs."""
    if len(props) != len(actor.asset.dofs):
        raise UserError(f"{actor.name} has {len(actor.asset.dofs)} DOFs; the properties given are for {len(props)}.")
    actor.dof_properties = props.copy()
    sim.mark("drives", actor)


def _write_drives(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> list[int]:
    """Write properties of DOFs; return the rows of environments whose armature is another."""
    envs = np.array([actor.env.row for actor in actors])
    props = engine.drives.props[envs, slot.dofs]
    for row, actor in enumerate(actors):
        props[row] = _dofs(actor)
    others, heavier = engine.drives.set_props(envs, slot.dofs, props)
    engine.moved(others)
    return heavier.tolist()


def dof_table(envs: list[Env]) -> np.ndarray:
    """(n, dofs) DOF properties of environments that have the same DOFs."""
    columns = [np.zeros((len(envs), 0), DOF_PROPERTIES)]
    for handle, actor in enumerate(envs[0].actors):
        rows = [env.actors[handle] for env in envs]
        table = np.repeat(actor.asset.dof_properties[None], len(rows), 0)
        for number, other in enumerate(rows):
            if other.dof_properties is not None:
                table[number] = other.dof_properties
            elif other.asset is not actor.asset:
                table[number] = other.asset.dof_properties
        columns.append(table)
    return np.concatenate(columns, 1)


# bodies


def _inertia_matrices(moments: np.ndarray, quat: np.ndarray) -> np.ndarray:
    """(..., 3, 3) inertia in the body's axes, from principal moments (..., 3) and wxyz orientations (..., 4)."""
    axes = np.stack([rotation.rotate(quat, np.broadcast_to(row, moments.shape)) for row in np.eye(3)], -1)
    return (axes * moments[..., None, :]) @ np.swapaxes(axes, -1, -2)


def get_bodies(actor: Actor) -> list[RigidBodyProperties]:
    """Return copies of the properties of an actor's bodies."""
    return copy.deepcopy(_bodies(actor))


def _bodies(actor: Actor) -> list[RigidBodyProperties]:
    return actor.asset.body_properties if actor.body_properties is None else actor.body_properties


def set_bodies(sim: Scene, actor: Actor, records: list[RigidBodyProperties], recompute_inertia: bool) -> None:
    """Give an actor's bodies masses, centres of mass and inertias.

    With `recompute_inertia` the inertia scales with the mass; otherwise it is the one in the record. Raises UserError
    if the number of records is wrong, or a mass is not a positive number.
    """
    old = _bodies(actor)
    if len(records) != len(old):
        raise UserError(f"{actor.name} has {len(old)} bodies; {len(records)} records were given.")
    new = copy.deepcopy(records)
    for name, record, before in zip(actor.asset.bodies, new, old, strict=True):
        if not (np.isfinite(record.mass) and record.mass > 0):
            raise UserError(f"Body {name} of {actor.name}: mass {record.mass} kg. It must be a positive number.")
        if recompute_inertia and record.mass == before.mass:
            record.inertia, record.invInertia = before.inertia, before.invInertia
        elif recompute_inertia:
            give_inertia(record, before.inertia.to_matrix() * (record.mass / before.mass))
    if sim.compiled:
        _refuse_uneven(actor, new)
    actor.body_properties = new
    sim.mark("bodies", actor)


def uneven_bodies(scene: Scene) -> list[tuple[int, int]]:
    """Actor and body, by number, of which an environment has another centre of mass or other axes than the file."""
    found: set[tuple[int, int]] = set()
    for actor in (actor for env in scene.envs for actor in env.actors):
        for body, record in enumerate(actor.body_properties or []):
            if (actor.handle, body) not in found and _is_uneven(record, actor.asset.body_properties[body]):
                found.add((actor.handle, body))
    return sorted(found)


def _is_uneven(record: RigidBodyProperties, own: RigidBodyProperties) -> bool:
    """Whether a body has another centre of mass than its file, or an inertia that is no multiple of the file's."""
    com, place = (*record.com,), (*own.com,)
    if com == place and _same(record.inertia, own.inertia):  # most bodies, and the rest is slow
        return False
    inertia, before = record.inertia.to_matrix(), own.inertia.to_matrix()
    return not np.allclose(com, place, rtol=0, atol=1e-6) or not _multiple(inertia, before)


def _same(inertia: Mat33, other: Mat33) -> bool:
    """Whether two inertias are the same, and more than nothing."""
    rows, others = ([(*row,) for row in (one.x, one.y, one.z)] for one in (inertia, other))
    return rows == others and other.x.x + other.y.y + other.z.z > 0.0


def _multiple(inertia: np.ndarray, of: np.ndarray) -> np.ndarray | bool:
    """(...,) whether inertias (..., 3, 3) are those `of` another mass."""
    trace = np.trace(of, axis1=-2, axis2=-1)[..., None, None]
    ratio = np.trace(inertia, axis1=-2, axis2=-1)[..., None, None] / trace
    return np.isclose(inertia, of * ratio, rtol=1e-4, atol=1e-6 * trace).all((-2, -1))


def _refuse_uneven(actor: Actor, records: list[RigidBodyProperties]) -> None:
    engine, slot = actor.env.group.engine, actor.env.group.engine.layout.actors[actor.handle]
    for body in np.flatnonzero(engine.model.body_simple[slot.bodies]):
        if _is_uneven(records[body], actor.asset.body_properties[body]):
            raise UserError(
                f"Body {actor.asset.bodies[body]} of {actor.name}: another centre of mass, or other axes of inertia, "
                "than in its file cannot be set for the first time after the scene is compiled (prepare_sim or the "
                "first acquire_*_tensor), because MuJoCo has a simpler mass matrix for such a body. Set it before that "
                "in any environment, or set the mass alone."
            )


def _write_bodies(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    envs = np.array([actor.env.row for actor in actors])
    rows = [_bodies(actor) for actor in actors]
    mass = np.array([[record.mass for record in records] for records in rows])
    com = np.array([[(record.com.x, record.com.y, record.com.z) for record in records] for records in rows])
    inertia = np.array([[record.inertia.to_matrix() for record in records] for records in rows])
    at = slot.bodies
    engine.expand("body_mass")[envs, at] = mass
    if engine.differs("body_ipos") or not np.allclose(com, engine.model.body_ipos[at], rtol=0, atol=1e-6):
        engine.expand("body_ipos")[envs, at] = com
    own, axes = (engine.as_compiled(name, envs)[:, at] for name in ("body_inertia", "body_iquat"))
    if engine.differs("body_iquat"):
        engine.expand("body_iquat")[envs, at] = axes
    moments = engine.expand("body_inertia")
    shared = _inertia_matrices(own, axes)
    ratio = np.trace(inertia, axis1=2, axis2=3) / np.trace(shared, axis1=2, axis2=3)  # (n, bodies)
    moments[envs, at] = own * ratio[..., None]
    for row, body in np.argwhere(~_multiple(inertia, shared)):
        values, turn = np.linalg.eigh(inertia[row, body])
        turn[:, 2] *= np.sign(np.linalg.det(turn))
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, turn.reshape(-1))
        moments[envs[row], at.start + body] = np.maximum(values, 1e-12)
        engine.expand("body_iquat")[envs[row], at.start + body] = quat
    if any(slot.damping):
        engine.expand("dof_damping")[envs, slot.qvel : slot.qvel + 6] = _damping(slot, mass[:, 0], inertia[:, 0])
    engine.set_const(envs)


def _damping(slot: ActorSlot, mass: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """(..., 6) damping of a single free body of that mass (...,) and inertia (..., 3, 3), in its own axes.

    PhysX ignores these options for links of an articulation.
    """
    linear, angular = slot.damping
    moments = np.diagonal(inertia, axis1=-2, axis2=-1)
    return np.concatenate([np.repeat(linear * mass[..., None], 3, -1), angular * moments], -1)


# shapes


def get_shapes(actor: Actor) -> list[Any]:
    """Return copies of the properties of an actor's shapes."""
    records = [copy.copy(record) for record in actor.shape_properties]
    for record, filter in zip(records, actor.filters(), strict=True):
        record.filter = filter
    return records


def set_shapes(sim: Scene, actor: Actor, records: list[Any]) -> None:
    """Give an actor's shapes friction, restitution and filters. Raises UserError if the number of records is wrong."""
    actor.shape_properties = checked_shapes(records, actor.asset, actor.name)
    actor.own_filters = True
    sim.mark("shapes", actor)


def checked_shapes(records: list[Any], asset: AssetModel, whose: str) -> list[Any]:
    """Copies of records of an asset's shapes. Raises UserError if their number is wrong."""
    if len(records) != len(asset.shapes):
        raise UserError(f"{whose} has {len(asset.shapes)} shapes; {len(records)} records were given.")
    return [copy.copy(record) for record in records]


def _frictions(actor: Actor, ground: float) -> np.ndarray:
    own = np.array([float(record.friction) for record in actor.shape_properties])
    return 0.5 * (own + ground)


def _restitutions(actor: Actor, ground: float) -> np.ndarray:
    own = np.array([float(record.restitution) for record in actor.shape_properties])
    return 0.5 * (own + ground)


def write_restitution(group: EnvGroup) -> None:
    """Tell the engine how the shapes of all actors bounce."""
    engine = group.engine
    ground, rows = engine.layout.ground_restitution, np.arange(len(group.envs))
    for handle, slot in enumerate(engine.layout.actors):
        values = [_restitutions(env.actors[handle], ground) for env in group.envs]
        engine.restitution.set(rows, slot.geoms, np.array(values))


def filters(env: Env) -> tuple:
    """Everything that decides about collisions in an environment, in a form that can be compared."""
    groups = collision.canonical_groups([actor.group for actor in env.actors])
    return (*groups, *(actor.filters() for actor in env.actors))


def _write_shapes(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    if not slot.geoms.size:
        return
    ground = engine.layout.ground_friction
    envs = np.array([actor.env.row for actor in actors])
    values = np.array([_frictions(actor, ground) for actor in actors])
    engine.expand("geom_friction")[envs[:, None], slot.geoms, 0] = values
    bounces = np.array([_restitutions(actor, engine.layout.ground_restitution) for actor in actors])
    engine.restitution.set(envs, slot.geoms, bounces)


def _write_filters(group: EnvGroup, envs: list[Env]) -> None:
    different = [env for env in envs if filters(env) != group.filters_written[env.row]]
    if not different:
        return
    engine = group.engine
    geoms = engine.layout.geoms
    bodies = engine.model.geom_bodyid[geoms]
    for env in different:
        for name, bits in zip(("contype", "conaffinity"), collision.encode(shape_classes(env)).T, strict=True):
            engine.expand(f"geom_{name}")[env.row, geoms] = bits
            _collect(engine.expand(f"body_{name}")[env.row], bodies, bits)
        group.filters_written[env.row] = filters(env)


def _collect(of_body: np.ndarray, bodies: np.ndarray, bits: np.ndarray) -> None:
    """Give bodies the bits of all their shapes: MuJoCo looks at those first."""
    of_body[bodies] = 0
    np.bitwise_or.at(of_body, bodies, bits)


# all of them


def write_model(env: Env, model: mujoco.MjModel, layout: Layout, props: np.ndarray) -> None:
    """Write an environment's properties into the model that was compiled of it.

    `props` (dofs,) are those of DOFs. They are the same in all models of a batch: drives know one model only, and
    write what differs from it.
    """
    drives.write_model(model, layout, props)
    bits = collision.encode(shape_classes(env))
    first = 0
    for actor, slot in zip(env.actors, layout.actors, strict=True):
        geoms = slot.geoms
        model.geom_friction[geoms, 0] = _frictions(actor, layout.ground_friction)
        model.geom_priority[geoms] = 1
        model.geom_condim[geoms] = 3
        model.geom_margin[geoms] = 0.0
        for name, own in zip(("contype", "conaffinity"), bits[first : first + len(geoms)].T, strict=True):
            getattr(model, f"geom_{name}")[geoms] = own
            _collect(getattr(model, f"body_{name}"), model.geom_bodyid[geoms], own)
        first += len(geoms)
        if any(slot.damping):
            record = actor.asset.body_properties[0]
            own = _damping(slot, np.array(record.mass), record.inertia.to_matrix())
            model.dof_damping[slot.qvel : slot.qvel + 6] = own
        tendons.write_model(actor, slot, model, limits=False)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    Weights(model, layout.geoms).model(model)
    for actor, slot in zip(env.actors, layout.actors, strict=True):
        tendons.write_model(actor, slot, model, limits=True)
    attractors.write_model(env, model)


def mark_different(group: EnvGroup, variants: Iterable[list[Env]]) -> None:
    """Mark the actors whose properties are not those that `write_model` wrote for the first of their variant."""
    for envs in variants:
        written = filters(envs[0])
        for env in envs:
            group.filters_written[env.row] = written
            if filters(env) != written:
                group.mark("shapes", env.actors)
        for handle, first in enumerate(envs[0].actors):
            actors = [env.actors[handle] for env in envs]
            group.mark("shapes", [a for a in actors if _differ(a.shape_properties, first.shape_properties)])
            group.mark("tendons", [a for a in actors if _differ(a.tendon_properties, first.tendon_properties)])
            if any(actor.body_properties is not None for actor in actors):
                group.mark("bodies", actors)
    group.mark("armature", [group.envs[row].actors[0] for row in group.engine.drives.different()])


def _differ(records: list, others: list) -> bool:
    """Whether lists of records were given apart. Actors without shapes or tendons have empty lists of their own."""
    return records is not others and bool(records or others)


def flush(group: EnvGroup) -> None:
    """Write the properties of marked actors into the batch."""
    if not any(group.changed.values()):
        return
    changed = {kind: list(group.changed[kind].values()) for kind in KINDS}
    for kind in KINDS:
        group.changed[kind].clear()
    engine = group.engine
    weighed = {actor.env.row for actor in changed["bodies"]}
    driven = {actor.env.row for actor in changed["armature"]}
    _each(engine, changed["drives"], lambda *actors: driven.update(_write_drives(*actors)))
    _each(engine, changed["tendons"], lambda *actors: driven.update(tendons.write_springs(*actors).tolist()))
    driven -= weighed
    _each(engine, changed["bodies"], _write_bodies)
    if driven:
        engine.set_const(np.array(sorted(driven)))
    _each(engine, changed["shapes"], _write_shapes)
    if changed["shapes"]:
        _write_filters(group, [group.envs[row] for row in sorted({actor.env.row for actor in changed["shapes"]})])
    _write_weighed(group, sorted(weighed | driven), changed["tendons"])


def _each(engine: Engine, actors: list[Actor], write: Callable[[Engine, ActorSlot, list[Actor]], None]) -> None:
    """Write something of these actors, one handle after the other."""
    for handle, slot in enumerate(engine.layout.actors):
        chosen = [actor for actor in actors if actor.handle == handle]
        if chosen:
            write(engine, slot, chosen)


def _write_weighed(group: EnvGroup, heavier: list[int], of_tendons: list[Actor]) -> None:
    """Write what depends on inverse weights: limits of tendons that were set, and all of these environments."""
    others = [actor for row in heavier for actor in group.envs[row].actors if actor.tendon_properties]
    _each(group.engine, list(dict.fromkeys([*of_tendons, *others])), tendons.write_limits)
    if heavier and group.envs[0].attractors:
        attractors.write(group.engine, group.envs[0], np.array(heavier))
