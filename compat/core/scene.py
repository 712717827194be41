"""The set-up calls of a task, recorded until the first of `prepare_sim` and any `acquire_*`.

    sim = Sim(params)
    env = sim.add_env(spacing...)
    actor = env.add(asset, pose, name="ant", group=0, filter=1)
    sim.compile()          # one model and one batch from here on
    sim.engine.step()

All environments of a simulation have the same make-up: the same sequence of assets. Poses, groups, filters and
properties may differ. Positions are in the environment's own frame, so every environment is a world of its own.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable

import numpy as np

from livegym.compat.core import properties, scaling
from livegym.compat.core.build import build
from livegym.compat.core.engine import Engine
from livegym.compat.core.record import Scene
from livegym.compat.core.tensors import Tensors
from livegym.compat.core.values import SimParams, Transform
from livegym.utils.errors import UserError

_THREADS: list[int] = []


def threads(count: int) -> None:
    """Set the number of threads of batches that are made afterwards; 0: one for each core."""
    _THREADS[:] = [count]


def _threads() -> int:
    return _THREADS[0] if _THREADS else int(os.environ.get("LIVEGYM_COMPAT_THREADS", "0"))


FIXED: dict[str, Callable[[SimParams], object]] = {
    "dt": lambda params: params.dt,
    "substeps": lambda params: params.substeps,
    "physx.contact_collection": lambda params: params.physx.contact_collection,
    "use_gpu_pipeline": lambda params: params.use_gpu_pipeline,
}
"""Parameters that a compiled scene cannot change."""


class Sim(Scene):
    """A simulation: first a record of what was asked for, after `compile` an engine with its tensors."""

    def __init__(self, params: SimParams) -> None:
        super().__init__(params)
        self.frames = 0
        self.before_simulate: list[Callable[[], None]] = []  # may write engine.xfrc_applied
        self._engine: Engine | None = None
        self._tensors: Tensors | None = None

    @property
    def compiled(self) -> bool:
        """Whether the model exists, so that nothing can be added any more."""
        return self._engine is not None

    @property
    def engine(self) -> Engine:
        """The engine; the first use compiles the scene."""
        self.compile()
        assert self._engine is not None
        return self._engine

    @property
    def tensors(self) -> Tensors:
        """The buffers of the tensor interface; the first use compiles the scene."""
        self.compile()
        assert self._tensors is not None
        return self._tensors

    def compile(self) -> None:
        """Build the model and the batch from the record, once. Raises UserError if that is not possible."""
        if self._engine is not None:
            return
        if not self.envs or not self.actor_count:
            raise UserError("The simulation has no actors: call create_env and create_actor before prepare_sim.")
        spec, model, layout = build(self)
        props = properties.write_model(self, model, layout)
        self._engine = Engine(spec, model, layout, props, int(self.params.substeps), _threads())
        properties.mark_different(self)
        scaling.write(self)
        self._engine.flush_first = lambda: properties.flush(self)
        self._place()
        self._tensors = Tensors(self._engine)

    def _place(self) -> None:
        """Put every actor at its pose."""
        engine, layout = self.engine, self.engine.layout
        for handle, slot in enumerate(layout.actors):
            poses = np.array([_pose(env.actors[handle].pose) for env in self.envs])
            slot.write_pose(engine, slice(None), poses)
        engine.moved()

    def simulate(self) -> None:
        """Advance by `dt`, which is `substeps` steps of the engine."""
        engine = self.engine
        for call in self.before_simulate:
            call()
            engine.push()
        engine.step()
        self.frames += 1

    def set_params(self, params: SimParams) -> None:
        """Take over parameters. After `compile` gravity can change; raises UserError if something else must not."""
        for name, of in FIXED.items() if self.compiled else ():
            if of(params) != of(self.params):
                raise UserError(
                    f"set_sim_params: {name} was {of(self.params)} when the scene was compiled, by prepare_sim or the "
                    f"first acquire_*_tensor; it cannot become {of(params)} now. Give it to create_sim."
                )
        self.params = copy.deepcopy(params)
        if self.compiled:
            self.engine.set_gravity([params.gravity.x, params.gravity.y, params.gravity.z])


def _pose(pose: Transform) -> list[float]:
    p, r = pose.p, pose.r
    return [p.x, p.y, p.z, r.w, r.x, r.y, r.z]
