"""Which environments one engine can step: those of one make-up, and those that differ in sizes and masses only.

    for make_up in make_ups(scene): ...      # each for a batch of its own

Two environments have the same make-up if they have the same assets in the same order, and measure and attract the same
things. Each make-up is compiled once. Models that differ in sizes and masses only (`fields.py`) share a batch, in which
these fields have values for each environment. An example is a box of another size in each environment: a step costs as
much as with one model. The scene is compiled for each size, but only what differs is kept. All others get a batch of
their own: a sphere instead of a box, another mesh, a robot with longer links.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple

import mujoco
import numpy as np

from livegym.compat.core import properties
from livegym.compat.core.asset import AssetModel
from livegym.compat.core.build import OPTIONS, build, explicit
from livegym.compat.core.fields import Sizes, differ_beyond_sizes, sizes_of
from livegym.compat.core.layout import ActorSlot, Layout
from livegym.compat.core.mobility import Mobility
from livegym.compat.core.record import Actor, Env, Scene

GEOMETRY = (
    "geom_size", "geom_pos", "geom_quat", "body_pos", "body_quat", "body_mass", "body_inertia", "jnt_axis", "mesh_vert",
)  # fmt: skip
"""Fields of an asset's model by which two assets without a common file are told apart."""


class Key(NamedTuple):
    """Equal for environments of one make-up. The names of the parts are for messages."""

    assets: tuple
    force_sensors: str
    measured_DOF_forces: str
    attractors: str
    excludes_of_files: str

    @property
    def measures(self) -> tuple:
        """The parts that an engine holds for all of its environments."""
        return self[1:]


@dataclass
class Compiled:
    """A make-up as it was compiled: only files and options count."""

    model: mujoco.MjModel
    layout: Layout
    key: Key

    @cached_property
    def mobility(self) -> np.ndarray:
        """(1, dofs) the inertia that a force on each DOF meets."""
        at = self.layout.qvel
        return Mobility(self.model, at, 1).inertia(self.model.dof_armature[at][None])


@dataclass
class MakeUp:
    """The environments of one batch: those of `model`, and others with their own sizes and masses."""

    envs: list[Env]
    spec: mujoco.MjSpec
    model: mujoco.MjModel
    """With the properties of the first environment."""
    layout: Layout
    compiled: Compiled
    others: list[tuple[list[Env], Sizes]] = field(default_factory=list)

    @property
    def all_envs(self) -> list[Env]:
        """Those of all sizes."""
        return [*self.envs, *(env for envs, _ in self.others for env in envs)]


def make_ups(scene: Scene) -> list[MakeUp]:
    """Compile the scene for each make-up, in the order of their first environments."""
    assets: dict[int, tuple] = {}
    found: dict[Key, list[Env]] = {}
    for env in scene.envs:
        key = Key(tuple(_asset_key(actor.asset, assets) for actor in env.actors), *_measures(env))
        found.setdefault(key, []).append(env)
    out: list[MakeUp] = []
    uneven = properties.uneven_bodies(scene)
    for key, envs in found.items():
        spec, model, layout = build(scene, envs[0], uneven)
        compiled = Compiled(model, layout, key)
        like = next((known for known in out if _fits(known.compiled, compiled)), None)
        props = properties.dof_table([envs[0] if like is None else like.envs[0]])[0]
        if like is None:
            own = copy.copy(model)
            properties.write_model(envs[0], own, layout, props)
            out.append(MakeUp(envs, spec, own, layout, compiled))
        else:
            properties.write_model(envs[0], model, layout, props)
            like.others.append((envs, sizes_of(like.model, model, layout.geoms)))
    return out


def what_differs(made: list[MakeUp]) -> list[str]:
    """The parts of the key in which the make-ups differ from the first one."""
    first, *others = [each.compiled.key for each in made]
    differ = [name for name in Key._fields if any(getattr(key, name) != getattr(first, name) for key in others)]
    return [name.replace("_", " ") for name in differ]


def _asset_key(asset: AssetModel, known: dict[int, tuple]) -> tuple:
    """Equal for assets that give the same model: one object, or one file or shape of one size."""
    key = known.get(id(asset))
    if key is None:
        model = asset.model
        numbers = tuple(getattr(model, name).tobytes() for name in GEOMETRY)
        options = tuple(repr(getattr(asset.options, name)) for name in OPTIONS)
        key = known[id(asset)] = asset.file, asset.bodies, asset.dofs, asset.shapes, numbers, options
    return key


def _measures(env: Env) -> tuple[str, str, str, str]:
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


def _fits(first: Compiled, other: Compiled) -> bool:
    """Whether two models differ in sizes and masses only, and in nothing that the engine holds for all environments."""
    if first.key.measures != other.key.measures or first.layout.dofs != other.layout.dofs:
        return False
    if differ_beyond_sizes(first.model, other.model):
        return False
    if not np.allclose(first.mobility, other.mobility, rtol=1e-9, atol=0):  # drives take that of the first model
        return False
    return all(map(_same_slot, first.layout.actors, other.layout.actors))


def _same_slot(a: ActorSlot, b: ActorSlot) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(ActorSlot))
