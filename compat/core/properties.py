"""Properties of DOFs, bodies and shapes, actor by actor, before and after the scene is compiled.

Every actor keeps its records. Before `compile` they only wait. At `compile`, environment 0's become the model's, and
actors that differ are marked. After it, a setter marks its actor; `flush` writes all marked actors into the batch's
per-environment fields, once, before the next step or read.

Friction: PhysX uses the mean of two shapes' coefficients, MuJoCo the larger one or that of the higher priority. Shapes
of actors have priority 1 and (own + ground) / 2, which is exact on the ground; between actors it is the larger mean.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core import attractors, collision, drives, tendons
from livegym.compat.core.asset_model import AssetModel, give_inertia
from livegym.compat.core.build import shape_classes
from livegym.compat.core.engine import Engine
from livegym.compat.core.frames import rotation
from livegym.compat.core.layout import ActorSlot, Layout
from livegym.compat.core.record import KINDS, Actor, Env, Scene
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
    """Write properties of DOFs; return the environments whose armature is another."""
    envs = np.array([actor.env.index for actor in actors])
    props = engine.drives.props[envs, slot.dofs]
    for row, actor in enumerate(actors):
        props[row] = _dofs(actor)
    others, heavier = engine.drives.set_props(envs, slot.dofs, props)
    engine.moved(others)
    return heavier.tolist()


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


def _inertia_matrix(moments: np.ndarray, quat: np.ndarray) -> np.ndarray:
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, quat)
    axes = turn.reshape(3, 3)
    return (axes * moments) @ axes.T


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
    actor.body_properties = new
    sim.mark("bodies", actor)


def _write_bodies(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    envs = np.array([actor.env.index for actor in actors])
    rows = [_bodies(actor) for actor in actors]
    mass = np.array([[record.mass for record in records] for records in rows])
    com = np.array([[(record.com.x, record.com.y, record.com.z) for record in records] for records in rows])
    inertia = np.array([[record.inertia.to_matrix() for record in records] for records in rows])
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
    turned = _inertia_in(model.body_iquat[at], inertia)
    for row, body in np.argwhere(~scaled.all((2, 3))):
        if np.allclose(turned[row, body], np.diag(turned[row, body].diagonal()), rtol=0, atol=1e-6 * trace[body]):
            moments[envs[row], at.start + body] = turned[row, body].diagonal()  # a longer box, with the same axes
            continue
        values, axes = np.linalg.eigh(inertia[row, body])
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, axes.reshape(-1))
        moments[envs[row], at.start + body] = np.maximum(values, 1e-12)
        engine.expand("body_iquat")[envs[row], at.start + body] = quat
    if any(slot.damping):
        engine.expand("dof_damping")[envs, slot.qvel : slot.qvel + 6] = _damping(slot, mass[:, 0], inertia[:, 0])
    engine.set_const(envs)


def _inertia_in(quat: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """Inertias (n, bodies, 3, 3) of bodies in axes that are turned by wxyz quaternions (bodies, 4)."""
    axes = np.array([rotation(one) for one in quat])
    return np.einsum("bji,nbjk,bkl->nbil", axes, inertia, axes)


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
    """Give an actor's shapes friction and filters. Raises UserError if the number of records is wrong."""
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


def _filters(env: Env) -> tuple:
    groups = collision.canonical_groups([actor.group for actor in env.actors])
    return (*groups, *(actor.filters() for actor in env.actors))


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
    geoms = sim.engine.layout.geoms
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
        if any(slot.damping):
            record = actor.asset.body_properties[0]
            own = _damping(slot, np.array(record.mass), record.inertia.to_matrix())
            model.dof_damping[slot.qvel : slot.qvel + 6] = own
        tendons.write_model(actor, slot, model, limits=False)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    Weights(model, layout.geoms).model(model)
    for actor, slot in zip(sim.envs[0].actors, layout.actors, strict=True):
        tendons.write_model(actor, slot, model, limits=True)
    attractors.write_model(sim.envs[0], model)
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
            if _differ(actor.shape_properties, first.shape_properties):
                sim.mark("shapes", actor)
            if _differ(actor.tendon_properties, first.tendon_properties):
                sim.mark("tendons", actor)
        if any(actor.body_properties is not None or _weighs_other(actor, first) for actor in actors):
            for actor in actors:
                sim.mark("bodies", actor)
    for env in sim.engine.drives.different():
        sim.mark("armature", sim.envs[env].actors[0])


def _weighs_other(actor: Actor, first: Actor) -> bool:
    """Whether an actor's asset has other masses or inertias than that of environment 0's actor."""
    own, there = actor.asset.model, first.asset.model
    same = np.array_equal(own.body_mass, there.body_mass) and np.array_equal(own.body_inertia, there.body_inertia)
    return own is not there and not same


def _differ(records: list, others: list) -> bool:
    """Whether lists of records were given apart. Actors without shapes or tendons have empty lists of their own."""
    return records is not others and bool(records or others)


def flush(sim: Scene) -> None:
    """Write the properties of marked actors into the batch."""
    if not any(sim.changed.values()):
        return
    changed = {kind: list(sim.changed[kind].values()) for kind in KINDS}
    for kind in KINDS:
        sim.changed[kind].clear()
    engine = sim.engine
    weighed = {actor.env.index for actor in changed["bodies"]}
    driven = {actor.env.index for actor in changed["armature"]}
    _each(engine, changed["drives"], lambda *actors: driven.update(_write_drives(*actors)))
    driven -= weighed
    _each(engine, changed["bodies"], _write_bodies)
    if driven:
        engine.set_const(np.array(sorted(driven)))
    _each(engine, changed["shapes"], _write_shapes)
    if changed["shapes"]:
        _write_filters(sim, [sim.envs[i] for i in sorted({actor.env.index for actor in changed["shapes"]})])
    _write_springs(sim, sorted(weighed | driven), changed["tendons"])


def _each(engine: Engine, actors: list[Actor], write: Callable[[Engine, ActorSlot, list[Actor]], None]) -> None:
    """Write something of these actors, one handle after the other."""
    for handle, slot in enumerate(engine.layout.actors):
        chosen = [actor for actor in actors if actor.handle == handle]
        if chosen:
            write(engine, slot, chosen)


def _write_springs(sim: Scene, heavier: list[int], of_tendons: list[Actor]) -> None:
    """Write tendons that were set, and all springs of environments whose inertia has changed."""
    others = [actor for i in heavier for actor in sim.envs[i].actors if actor.tendon_properties]
    _each(sim.engine, list(dict.fromkeys([*of_tendons, *others])), tendons.write)
    if heavier and sim.envs[0].attractors:
        attractors.write(sim.engine, sim.envs[0], np.array(heavier))
