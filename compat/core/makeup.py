"""Which environments one engine can step: those of one make-up, and those that differ in sizes and masses only.

    variants = variants_of(scene)            # one compiled model for each make-up
    for members in merged(variants): ...     # those that one batch can hold

Two environments have the same make-up if they have the same assets in the same order, and measure and attract the same
things. Each make-up is compiled once. Models that differ in sizes and masses only (`fields.py`) share a batch, in which
these fields have values for each environment. An example is a box of another size in each environment: it costs as
much as one model. All others get a batch of their own: a sphere instead of a box, another mesh, a robot with longer
links.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core.asset import AssetModel
from livegym.compat.core.build import OPTIONS, build, explicit
from livegym.compat.core.fields import differ_beyond_sizes
from livegym.compat.core.layout import ActorSlot, Layout
from livegym.compat.core.record import Actor, Env, Scene

GEOMETRY = (
    "geom_size", "geom_pos", "geom_quat", "body_pos", "body_quat", "body_mass", "body_inertia", "jnt_axis", "mesh_vert",
)  # fmt: skip
"""Fields of an asset's model by which two assets without a common file are told apart."""


@dataclass
class Variant:
    """All environments of one make-up, and their model."""

    envs: list[Env]
    spec: mujoco.MjSpec
    model: mujoco.MjModel
    layout: Layout
    measures: tuple
    """Sensors and attractors of its environments."""


def variants_of(scene: Scene) -> list[Variant]:
    """Compile one model for each make-up, in the order of their first environments."""
    assets: dict[int, tuple] = {}
    found: dict[tuple, list[Env]] = {}
    for env in scene.envs:
        key = tuple(_asset_key(actor.asset, assets) for actor in env.actors), _measures(env)
        found.setdefault(key, []).append(env)
    return [Variant(envs, *build(scene, envs[0]), key[1]) for key, envs in found.items()]


def _asset_key(asset: AssetModel, known: dict[int, tuple]) -> tuple:
    """Equal for assets that give the same model: one object, or one file or shape of one size."""
    key = known.get(id(asset))
    if key is None:
        model = asset.model
        numbers = tuple(getattr(model, name).tobytes() for name in GEOMETRY)
        options = tuple(repr(getattr(asset.options, name)) for name in OPTIONS)
        key = known[id(asset)] = asset.file, asset.bodies, asset.dofs, asset.shapes, numbers, options
    return key


def _measures(env: Env) -> tuple:
    """The parts of an environment's make-up that are not in its assets' models."""
    sensors = [[_plain(sensor) for sensor in actor.sensors] for actor in env.actors]
    dofs = [actor.measures_dof_forces for actor in env.actors]
    attractors = [_plain(attractor) for attractor in env.attractors]
    return repr(sensors), repr(dofs), repr(attractors), repr([_kept_apart(actor) for actor in env.actors])


def _plain(value: Any) -> Any:
    """A record, a pose or a vector as nested lists of numbers."""
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if hasattr(value, "p") and hasattr(value, "r"):
        return [*value.p, *value.r]
    return value


def _kept_apart(actor: Actor) -> bool | None:
    """Whether excludes and pairs of the actor's file count, which depends on its filter; None if it has none."""
    if not (actor.asset.model.nexclude or actor.asset.model.npair):
        return None
    return not explicit(actor)[0]


def merged(variants: list[Variant]) -> list[list[Variant]]:
    """The variants in groups that one batch can hold, in the order of their first environments."""
    groups: list[list[Variant]] = []
    for variant in variants:
        fitting = next((group for group in groups if _fits(group[0], variant)), None)
        if fitting is None:
            groups.append([variant])
        else:
            fitting.append(variant)
    return groups


def _fits(first: Variant, other: Variant) -> bool:
    """Whether two models differ in sizes and masses only, and in nothing that the engine holds for all environments."""
    if first.measures != other.measures or first.layout.dofs != other.layout.dofs:
        return False
    if differ_beyond_sizes(first.model, other.model):
        return False
    driven = first.layout.qvel  # drives take the inertia behind a DOF from the first model
    if not np.array_equal(first.model.dof_M0[driven], other.model.dof_M0[driven]):
        return False
    return all(map(_same_slot, first.layout.actors, other.layout.actors))


def _same_slot(a: ActorSlot, b: ActorSlot) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(ActorSlot))
