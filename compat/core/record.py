"""Record of the set-up calls of a task: environments, and the actors in them.

An actor keeps the records that were set for it; None, or its asset's own list, stands for the asset's.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from livegym.compat.core.asset import AssetModel
from livegym.compat.core.terrain import Ground
from livegym.compat.core.values import AttractorProperties, SimParams, Transform, Vec3
from livegym.utils.errors import UserError

KINDS = ("drives", "armature", "bodies", "shapes", "tendons")
"""The kinds of properties that are marked as changed and written together.

Drives are properties of DOFs. Where what makes drives or tendons implicit is new, inverse weights follow;
"armature" asks for that alone.
"""


class Actor:
    """One asset in one environment, with the properties that were set for it."""

    def __init__(
        self, env: Env, asset: AssetModel, pose: Transform, name: str, group: int, filter: int, segmentation: int
    ) -> None:
        self.env = weakref.proxy(env)
        self.asset = asset
        self.pose = copy.deepcopy(pose)
        self.name = name
        self.group = group
        self.filter = filter
        self.segmentation = segmentation
        self.handle = len(env.actors)
        self.index = env.sim.actor_count
        self.sensors = tuple(asset.sensors)
        self.dof_properties: np.ndarray | None = None  # None: the asset's
        self.body_properties: list[Any] | None = None
        self.tendon_properties: list[Any] = asset.tendons  # lists are replaced, never changed in place
        self.shape_properties: list[Any] = asset.shape_properties
        self.own_filters = False  # filters of shapes count as they are, not create_actor's
        self.measures_dof_forces = False
        self.scale = 1.0  # its size, of the asset's
        self.colours: dict[int, Vec3] = {}  # by body
        self.segmentations: dict[int, int] = {}  # by body, if it is not the actor's

    def filters(self) -> tuple[int, ...]:
        """The filter of each shape: create_actor's, unless the asset's shape or this actor has one of its own."""
        given = [int(record.filter) for record in self.shape_properties]
        return tuple(given if self.own_filters else [filter or self.filter for filter in given])


class Actors(list[Actor]):
    """The actors of one environment by handle. A handle of -1, from a search for a name, is no actor."""

    def __getitem__(self, handle: Any) -> Any:
        if not isinstance(handle, slice) and not 0 <= handle < len(self):
            names = ", ".join(actor.name for actor in self)
            raise IndexError(
                f"actor handle {handle} of an environment with {len(self)} actors ({names}). find_actor_handle gives "
                "-1 if there is no actor of that name."
            )
        return super().__getitem__(handle)


class Env:
    """One environment: a cell of the grid, which only defines an origin for drawing, and its actors."""

    def __init__(self, sim: Scene, index: int, origin: Vec3) -> None:
        self.sim: Scene = weakref.proxy(sim)
        self.index = index
        self.group: Any = None  # an `EnvGroup`, from the compilation on
        self.row = index  # of the arrays of its group's engine
        self.origin = origin
        self.actors = Actors()
        self.attractors: list[AttractorProperties] = []
        self.cameras: list[Any] = []  # `CameraSensor`s; None in the place of a destroyed one
        self.body_count = 0
        self.dof_count = 0

    def add(
        self,
        asset: AssetModel,
        pose: Transform,
        name: str | None = None,
        group: int = -1,
        filter: int = -1,
        segmentation: int = 0,
    ) -> Actor:
        """Place an asset; `pose` is in the environment's frame."""
        self.sim.only_before("create_actor")
        actor = Actor(self, asset, pose, name or f"actor{len(self.actors)}", group, filter, segmentation)
        self.actors.append(actor)
        self.sim.actor_count += 1
        self.body_count += len(asset.bodies)
        self.dof_count += len(asset.dofs)
        return actor


class EnvGroup:
    """The environments that one engine steps, and which of their properties wait to be written into it."""

    engine: Any  # an `Engine`

    def __init__(self, envs: list[Env]) -> None:
        """`envs` in the order of the engine's rows; the first one gives the model."""
        self.envs = envs
        self.ids = np.array([env.index for env in envs])  # (n,) their numbers in the simulation
        for row, env in enumerate(envs):
            env.row = row
            env.group = weakref.proxy(self)
        self.changed: dict[str, dict[int, Actor]] = {kind: {} for kind in KINDS}  # by the actor's index
        self.filters_written: dict[int, tuple] = {}  # by row

    def mark(self, kind: str, actors: Iterable[Actor]) -> None:
        """Note that properties of that kind must be written."""
        self.changed[kind].update((actor.index, actor) for actor in actors)


class Scene:
    """The record of a simulation. Until it is compiled, things can be added."""

    def __init__(self, params: SimParams) -> None:
        self.params = copy.deepcopy(params)
        self.ground = Ground()
        self.envs: list[Env] = []
        self.actor_count = 0

    @property
    def compiled(self) -> bool:
        """Whether the model exists, so that nothing can be added any more."""
        return False

    def only_before(self, call: str) -> None:
        """Raise UserError if the scene is compiled already."""
        if self.compiled:
            raise UserError(
                f"{call} after prepare_sim or the first acquire_*_tensor: the scene is compiled. Call it before."
            )

    def add_env(self, lower: Vec3, upper: Vec3, per_row: int) -> Env:
        """Add an environment in the next cell of a grid with `per_row` cells a row."""
        self.only_before("create_env")
        row, column = divmod(len(self.envs), max(int(per_row), 1))
        origin = Vec3(column * (upper.x - lower.x), row * (upper.y - lower.y), 0.0)
        self.envs.append(Env(self, len(self.envs), origin))
        return self.envs[-1]

    def mark(self, kind: str, actor: Actor) -> None:
        """Note that an actor's properties of that kind must be written."""
        if self.compiled:
            actor.env.group.mark(kind, [actor])
