"""Actors of another size than their asset: lengths times s, masses times s^3, inertias times s^5.

    scale(actor, 1.03)                   # before the scene is compiled
    write(sim)                           # the geometry, environment by environment, once there is an engine

The model is shared, and so are its meshes: only boxes, spheres, capsules, cylinders and ellipsoids can differ between
environments. Assets of one such shape may also come in several sizes (`build.py` says which).
"""

from __future__ import annotations

import numpy as np

from livegym.compat.core import properties
from livegym.compat.core.asset_model import give_inertia
from livegym.compat.core.build import SHARED
from livegym.compat.core.engine import Engine
from livegym.compat.core.layout import ActorSlot
from livegym.compat.core.record import Actor, Scene
from livegym.compat.core.values import Vec3
from livegym.utils.errors import UserError

LENGTHS = ("geom_size", "geom_pos", "geom_aabb", "geom_rbound")


def scale(actor: Actor, factor: float) -> None:
    """Make an actor `factor` times as large as its asset.

    Raises UserError after the scene is compiled, and for assets that cannot be scaled.
    """
    if abs(factor - actor.scale) <= 1e-6:
        return
    actor.env.sim.only_before(f"set_actor_scale({factor:g}) of {actor.name}")
    if not (np.isfinite(factor) and factor > 0):
        raise UserError(f"set_actor_scale({factor}) of {actor.name}: a finite number larger than 0 is expected.")
    asset = actor.asset
    meshes = [asset.model.geom(geom).name for geom in asset.shapes if int(asset.model.geom_type[geom]) in SHARED]
    if asset.dofs or meshes:
        what = f"DOFs ({', '.join(asset.dofs[:3])})" if asset.dofs else "meshes as shapes"
        raise UserError(
            f"set_actor_scale({factor:g}) of {actor.name}: it has {what}, and environments share them. Allowed: rigid "
            "actors of boxes, spheres, capsules, cylinders and ellipsoids. Scale the asset file, or leave `scale` out "
            "of the task's randomisation."
        )
    ratio = factor / actor.scale
    records = properties.get_bodies(actor)
    for record in records:
        record.mass *= ratio**3
        record.com = Vec3(*(ratio * x for x in record.com))
        give_inertia(record, record.inertia.to_matrix() * ratio**5)
    actor.body_properties = records
    actor.scale = factor


def write(sim: Scene) -> None:
    """Write the geometry of scaled actors, and of those with assets of other sizes, into the batch."""
    for handle, slot in enumerate(sim.engine.layout.actors):
        actors = [env.actors[handle] for env in sim.envs]
        factors = np.array([actor.scale for actor in actors])
        if _sizes_differ(actors):
            _resize(sim.engine, slot, actors)
        if (factors != 1.0).any():
            _write(sim.engine, slot, factors)


def _sizes_differ(actors: list[Actor]) -> bool:
    models = {id(actor.asset.model): actor.asset.model for actor in actors}
    return any(not np.array_equal(a.geom_size, actors[0].asset.model.geom_size) for a in models.values())


def _resize(engine: Engine, slot: ActorSlot, actors: list[Actor]) -> None:
    """Give one-shape actors the geometry of their own assets.

    Their bounding volume has the shape's radius along all axes, because those of the inertia may be others.
    """
    model = engine.model
    (geom,), body = slot.geoms, slot.bodies.start
    for field in (*LENGTHS, "geom_quat"):
        engine.expand(field)[:, geom] = [getattr(actor.asset.model, field)[actor.asset.shapes[0]] for actor in actors]
    radius = engine.expand("geom_rbound")[:, geom]
    first = int(model.body_bvhadr[body])
    volumes = engine.expand("bvh_aabb")[:, first : first + int(model.body_bvhnum[body])]
    volumes[..., :3] = 0.0
    volumes[..., 3:] = radius[:, None, None]


def _write(engine: Engine, slot: ActorSlot, factors: np.ndarray) -> None:
    model = engine.model
    bodies = np.arange(slot.bodies.start, slot.bodies.stop)
    geoms = np.flatnonzero(np.isin(model.geom_bodyid, bodies))
    volumes = np.concatenate([model.body_bvhadr[body] + np.arange(model.body_bvhnum[body]) for body in bodies])
    rows = {**dict.fromkeys(LENGTHS, geoms), "body_pos": bodies[1:], "bvh_aabb": volumes}
    for field, at in rows.items():
        if len(at):
            own = engine.per_env(field)[:, at]  # as it is, of assets of other sizes
            engine.expand(field)[:, at] = own * factors.reshape(-1, *(1,) * (own.ndim - 1))
