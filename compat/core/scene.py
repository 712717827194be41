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

from livegym.compat.core.build import build
from livegym.compat.core.cameras import Cameras
from livegym.compat.core.engine import Engine
from livegym.compat.core.group import Group
from livegym.compat.core.lines import DrawnLines
from livegym.compat.core.makeup import make_ups, what_differs
from livegym.compat.core.record import Scene
from livegym.compat.core.tensors import Tensors
from livegym.compat.core.values import SimParams
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)
MANY = 16
"""So many engines are meant; more of them are most likely a mistake, such as a pose that differs by environment."""
_THREADS: list[int] = []


def threads(count: int) -> None:
    """Set the number of threads of batches that are made afterwards; 0: all processors that this process may use."""
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
        made = make_ups(self)
        if len(made) > 1:
            say = log.warning if len(made) > MANY else log.info
            say(
                "%d environments have %d make-ups: as many engines step in turn. They differ in: %s",
                len(self.envs), len(made), ", ".join(what_differs(made)),
            )  # fmt: skip
        groups = [Group(self, make_up, _threads()) for make_up in made]
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

    def xml_of(self, env: int) -> str:
        """The model of an environment as MJCF, in its own sizes, without the properties that were set."""
        return str(build(self, self.envs[env])[0].to_xml())

    def render_cameras(self) -> None:
        """Draw all cameras at the present state. Raises UserError if there is no off-screen OpenGL here."""
        self.compile()
        if self._cameras is None:
            self._cameras = Cameras(self.ground.segmentations)
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
            group.engine.restitution.threshold = float(params.physx.bounce_threshold_velocity)
            group.engine.set_gravity([params.gravity.x, params.gravity.y, params.gravity.z])
