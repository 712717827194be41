"""The set-up calls of a task, recorded until the first of `prepare_sim` and any `acquire_*`.

    sim = Sim(params)
    env = sim.add_env(spacing...)
    actor = env.add(asset, pose, name="ant", group=0, filter=1)
    sim.compile()          # one engine for environments of one make-up from here on
    sim.simulate()

Environments with the same sequence of assets share one model and one engine, and so do those that differ in sizes and
masses only (`makeup.py`). Environments of another make-up have an engine of their own; engines are stepped one after
the other. Positions are in the environment's own frame, so every environment is a world of its own.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable

from livegym.compat.core.cameras import Cameras
from livegym.compat.core.engine import Engine
from livegym.compat.core.group import Group
from livegym.compat.core.lines import DrawnLines
from livegym.compat.core.makeup import merged, variants_of
from livegym.compat.core.record import Scene
from livegym.compat.core.tensors import Tensors
from livegym.compat.core.values import SimParams
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)
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
        self.lines = DrawnLines(self)
        self.before_simulate: list[Callable[[], None]] = []  # may write engine.xfrc_applied
        self._groups: list[Group] = []
        self._tensors: Tensors | None = None
        self._cameras: Cameras | None = None

    @property
    def compiled(self) -> bool:
        """Whether the models exist, so that nothing can be added any more."""
        return bool(self._groups)

    @property
    def groups(self) -> list[Group]:
        """The environments by their make-up, environment 0's first; the first use compiles the scene."""
        self.compile()
        return self._groups

    @property
    def engine(self) -> Engine:
        """The engine of environment 0, which is that of all environments if they have one make-up."""
        return self.groups[0].engine

    @property
    def tensors(self) -> Tensors:
        """The buffers of the tensor interface; the first use compiles the scene."""
        self.compile()
        assert self._tensors is not None
        return self._tensors

    def compile(self) -> None:
        """Build models and engines from the record, once. Raises UserError if that is not possible."""
        if self.compiled:
            return
        if not self.envs or not self.actor_count:
            raise UserError("The simulation has no actors: call create_env and create_actor before prepare_sim.")
        groups = [Group(self, variants, _threads()) for variants in merged(variants_of(self))]
        if len(groups) > 1:
            log.info("%d environments have %d make-ups: as many engines step in turn.", len(self.envs), len(groups))
        self._groups = groups
        self._tensors = Tensors(self.envs, groups)

    def simulate(self) -> None:
        """Advance by `dt`, which is `substeps` steps of the engines."""
        for call in self.before_simulate:
            call()
        for group in self.groups:
            if self.before_simulate:
                group.engine.push()
            group.engine.step()
        self.frames += 1

    def render_cameras(self) -> None:
        """Draw all cameras at the present state. Raises UserError if there is no off-screen OpenGL here."""
        self.compile()
        if self._cameras is None:
            plane = self.ground.plane
            self._cameras = Cameras(0 if plane is None else int(plane.segmentation_id))
        self._cameras.render(self.envs)

    def set_params(self, params: SimParams) -> None:
        """Take over parameters. After `compile` gravity can change; raises UserError if something else must not."""
        for name, of in FIXED.items() if self.compiled else ():
            if of(params) != of(self.params):
                raise UserError(
                    f"set_sim_params: {name} was {of(self.params)} when the scene was compiled, by prepare_sim or the "
                    f"first acquire_*_tensor; it cannot become {of(params)} now. Give it to create_sim."
                )
        self.params = copy.deepcopy(params)
        for group in self._groups:
            group.engine.set_gravity([params.gravity.x, params.gravity.y, params.gravity.z])
