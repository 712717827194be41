"""Tendons of actors: their springs, dampers and limits, before and after the scene is compiled.

A tendon pulls towards its rest length with `stiffness`, and its velocity meets `damping`. Beyond a limit it has a
spring of `limit_stiffness` more; with 0, the default of Isaac Gym's assets, there is no limit. All of that is implicit
(`springs.py`), but the springs of spatial tendons and of those that join different branches of a robot: MuJoCo has no
inertia across branches. Their limits are implicit, too.

The length of a fixed tendon is the sum of coefficient times position of its joints. In PhysX its force meets each joint
divided by the coefficient, so a stiffness is that of the joints, N m/rad; in MuJoCo it is multiplied. Stiffness and
damping are therefore divided by the product of two coefficients: exact if all have the same size, otherwise their
geometric mean.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from livegym.compat.core import springs
from livegym.compat.core.engine import Engine
from livegym.compat.core.layout import ActorSlot
from livegym.compat.core.record import Actor, Scene
from livegym.compat.core.records import TendonProperties
from livegym.utils.errors import UserError

PASSIVE = ("stiffness", "damping", "armature", "lengthspring")
"""Fields of the model, without their first word, that do not depend on its inertia."""


def get(actor: Actor) -> list[TendonProperties]:
    """Return copies of the properties of an actor's tendons."""
    return [copy.copy(record) for record in actor.tendon_properties]


def put(sim: Scene, actor: Actor, records: list[TendonProperties]) -> None:
    """Give an actor's tendons stiffness, damping and limits. Raises UserError if the number of records is wrong."""
    actor.tendon_properties = checked(records, len(actor.asset.tendons), actor.name)
    if records:
        sim.mark("tendons", actor)


def checked(records: list[TendonProperties], count: int, whose: str) -> list[TendonProperties]:
    """Copies of records of tendons. Raises UserError if there are not `count`, or a gain is negative or not finite."""
    if len(records) != count:
        raise UserError(f"{whose} has {count} tendons; {len(records)} records were given.")
    for number, record in enumerate(records):
        for name in ("stiffness", "damping", "limit_stiffness"):
            if not 0 <= getattr(record, name) < np.inf:
                raise UserError(
                    f"Tendon {number} of {whose}: {name}={getattr(record, name)}. It must be a number of at least 0."
                )
    return [copy.copy(record) for record in records]


def _column(rows: list[list[TendonProperties]], name: str) -> np.ndarray:
    return np.array([[getattr(record, name) for record in records] for records in rows], float)


def _passive(h: float, slot: ActorSlot, actor: Actor, rows: list[list[TendonProperties]]) -> dict:
    """The fields PASSIVE of an actor's tendons, (n, tendons, ...) each, for the records of n environments."""
    stiffness, damping = (slot.gains * _column(rows, name) for name in ("stiffness", "damping"))
    implicit = slot.couplings.any(1)
    _, implicit_damping, added = springs.passive(stiffness, damping, h)
    own = actor.asset.model  # as the file has it
    rest = _column(rows, "fixed_spring_rest_length")
    kept = np.isclose(rest, own.tendon_lengthspring[:, 0], rtol=1e-6, atol=0)
    return {
        "stiffness": stiffness,
        "damping": np.where(implicit, implicit_damping, damping),
        "armature": own.tendon_armature + np.where(implicit, added, 0.0),
        "lengthspring": np.where(kept[..., None], own.tendon_lengthspring, rest[..., None]),
    }


def _limits(h: float, slot: ActorSlot, rows: list[list[TendonProperties]], weight: np.ndarray) -> dict:
    """The fields of the limits of tendons, (n, tendons, ...) each; `weight` is their inverse inertia."""
    stiffness = slot.gains * _column(rows, "limit_stiffness")
    solref, solimp = springs.constraint(stiffness, 0.0, h, weight)
    return {
        "limited": (_column(rows, "is_fixed_limited") * stiffness > 0).astype(int),
        "range": np.stack([_column(rows, "fixed_lower_limit"), _column(rows, "fixed_upper_limit")], -1),
        "solref_lim": solref,
        "solimp_lim": solimp,
    }


def write_model(actor: Actor, slot: ActorSlot, model: mujoco.MjModel, limits: bool) -> None:
    """Write an actor's tendons into the model that environments share; the limits need the model's final inertia."""
    if not actor.tendon_properties:
        return
    h, rows = float(model.opt.timestep), [actor.tendon_properties]
    weight = model.tendon_invweight0[slot.tendons]
    fields = _limits(h, slot, rows, weight) if limits else _passive(h, slot, actor, rows)
    for name, values in fields.items():
        getattr(model, f"tendon_{name}")[slot.tendons] = values[0].reshape(
            getattr(model, f"tendon_{name}")[slot.tendons].shape
        )
    model.tendon_margin[slot.tendons] = 0.0


def write_springs(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> np.ndarray:
    """Write springs and dampers of an actor's tendons in several environments.

    Return the rows of environments whose inertia is another now, as what makes a spring implicit adds to it: inverse
    weights must follow before `write_limits`.
    """
    envs = np.array([actor.env.row for actor in actors])
    rows = [actor.tendon_properties for actor in actors]
    fields = _passive(float(engine.model.opt.timestep), slot, actors[0], rows)
    before = engine.per_env("tendon_armature")[envs, slot.tendons]
    heavier: np.ndarray = envs[(before != fields["armature"].reshape(before.shape)).any(1)]
    _put(engine, slot, envs, fields)
    return heavier


def write_limits(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    """Write the limits of an actor's tendons in several environments, whose inverse weights are as they will be."""
    envs = np.array([actor.env.row for actor in actors])
    rows = [actor.tendon_properties for actor in actors]
    weight = engine.per_env("tendon_invweight0")[envs, slot.tendons]
    _put(engine, slot, envs, _limits(float(engine.model.opt.timestep), slot, rows, weight))


def _put(engine: Engine, slot: ActorSlot, envs: np.ndarray, fields: dict) -> None:
    for name, values in fields.items():
        array = engine.expand(f"tendon_{name}")
        array[envs, slot.tendons] = values.reshape(array[envs, slot.tendons].shape)


def added_armature(engine: Engine) -> np.ndarray:
    """(N, tendons) the inertia that makes the springs of tendons implicit, and that is no mass."""
    return engine.per_env("tendon_armature") - engine.layout.tendon_armature


def gains(model: mujoco.MjModel, tendons: slice) -> np.ndarray:
    """(tendons,) the factor of stiffness and damping: 1 over the squared mean size of coefficients, 1 if spatial."""
    out = np.ones(tendons.stop - tendons.start)
    for row, tendon in enumerate(range(tendons.start, tendons.stop)):
        path = slice(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon])
        sizes = np.abs(model.wrap_prm[path])
        if (model.wrap_type[path] == int(mujoco.mjtWrap.mjWRAP_JOINT)).all() and sizes.any():
            out[row] = np.exp(-2.0 * np.log(sizes[sizes > 0]).mean())
    return out


def couplings(model: mujoco.MjModel, tendons: slice) -> np.ndarray:
    """(tendons, nv) the coefficients of fixed tendons whose joints carry one another; rows of other tendons are 0."""
    out = np.zeros((tendons.stop - tendons.start, model.nv))
    for row, tendon in enumerate(range(tendons.start, tendons.stop)):
        path = slice(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon])
        if (model.wrap_type[path] != int(mujoco.mjtWrap.mjWRAP_JOINT)).any():
            continue
        dofs = model.jnt_dofadr[model.wrap_objid[path]]
        chain = _ancestors(model, int(dofs.max()))
        if set(dofs.tolist()) <= chain:
            np.add.at(out[row], dofs, model.wrap_prm[path])
    return out


def _ancestors(model: mujoco.MjModel, dof: int) -> set[int]:
    """A DOF and those that carry it."""
    found = set()
    while dof >= 0:
        found.add(dof)
        dof = int(model.dof_parentid[dof])
    return found
