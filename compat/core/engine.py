"""One `mujoco.batch.Batch` for environments of one make-up, its arrays, and the order of a step.

    engine.step():  changed properties -> ctrl -> `substeps` steps of the batch -> forces of one step are cleared

The batch keeps one MjData per thread, so after a `forward` the force-like outputs (contacts, accelerations, actuator
forces) are another environment's. `forces(name)` therefore returns a copy that was made before the first `forward`
after a step. Kinematic outputs are recomputed on demand, only for environments whose state was written (`moved`).

An environment that MuJoCo refuses to step keeps the last state it had, and counts in `faults`; the others continue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from livegym.compat.core.closing import Closing
from livegym.compat.core.drives import Drives
from livegym.compat.core.fields import Sizes
from livegym.compat.core.layout import Layout
from livegym.compat.core.restitution import Restitution
from livegym.compat.core.weights import Weights

log = logging.getLogger(__name__)

VEL = int(mujoco.mjtStage.mjSTAGE_VEL)
NONE = int(mujoco.mjtStage.mjSTAGE_NONE)
FIRST_BAD = int(mujoco.mjtWarning.mjWARN_BADQPOS)
"""The first of the counters of non-finite or huge values."""
DERIVED = ("actuator_acc0", "body_invweight0", "body_subtreemass", "dof_M0", "dof_invweight0")
DERIVED_OF_TENDONS = ("tendon_invweight0", "tendon_length0")
"""The fields that `set_const` gives each environment."""
FRAMES = ("body_sameframe", "bvh_aabb", "dof_length", "geom_rbound", "geom_sameframe", "site_sameframe")
"""Likewise: a centre of mass that was set counts only if its body's sameframe says that it is elsewhere."""
FORCES = ("sensordata", "qfrc_actuator", "qacc", "qfrc_spring", "qfrc_damper", "cfrc_ext", "ten_velocity")


class Engine:
    """The physics of N environments of one model, or of models that differ in sizes and masses only."""

    def __init__(
        self,
        spec: mujoco.MjSpec,
        model: mujoco.MjModel,
        others: list[tuple[np.ndarray, Sizes]],
        layout: Layout,
        props: np.ndarray,
        substeps: int,
        threads: int,
        bounce_threshold: float = 0.2,
    ) -> None:
        """`others`: environments that are not of `model`, and what they have instead. `bounce_threshold`: m/s."""
        self.spec = spec
        self.layout = layout
        self.num_envs = num_envs = len(props)
        self.substeps = substeps
        self.stage = NONE  # the stage that steps compute at the new state; VEL if bodies are read
        self.flush_first: Callable[[], None] = lambda: None
        self._batch = Batch(model, num_envs, threads)
        self._batch.reset(stage=NONE)
        self._expanded: set[str] = set()
        self.sizes = 1 + len(others)  # how many models that differ in sizes and masses share the batch
        self._weights = [Weights(model, layout.geoms), *(sizes.weights for _, sizes in others)]
        self._size_of = np.zeros(num_envs, int)  # (N,) an index into `_weights`
        self._compiled: dict[str, np.ndarray] = {}  # (N, ...) the fields in which the models differ
        self._expand_differences(others)
        self.drives = Drives(self._batch, layout, props)
        self._stale = np.ones(num_envs, bool)  # the state is newer than the kinematic outputs
        self._refused = np.zeros(num_envs, int)  # how often MuJoCo raised an error
        self._refused_now: set[int] = set()  # in the last step
        self._kept: dict[str, np.ndarray] = {}
        self._pushed = False
        solref, solimp = (self._usual(field) for field in ("geom_solref", "geom_solimp"))
        self.restitution = Restitution(model, solref, solimp, bounce_threshold)
        self._closing = Closing(model)
        self.qpos = self._batch.bind("qpos")
        self.qvel = self._batch.bind("qvel")
        self.ctrl = self._batch.bind("ctrl")
        self.xfrc_applied = self._batch.bind("xfrc_applied")
        self._warmstart = self._batch.bind("qacc_warmstart")
        self.mocap_pos = self._batch.bind("mocap_pos")
        self.mocap_quat = self._batch.bind("mocap_quat")

    def _expand_differences(self, others: list[tuple[np.ndarray, Sizes]]) -> None:
        """Give the environments of other models their sizes and masses."""
        for number, (rows, sizes) in enumerate(others, 1):
            self._size_of[rows] = number
            for field, own in sizes.fields.items():
                self.expand(field)[rows] = own
        self._compiled = {field: self._batch.expand(field).copy() for field in self._expanded}

    def as_compiled(self, field: str, envs: np.ndarray | slice = slice(None)) -> np.ndarray:
        """A model field as the files of these environments have it, (n, ...), or (1, ...) if they have one model."""
        shared: np.ndarray = getattr(self.model, field)[None]
        if self.sizes == 1:
            return shared
        return self._compiled.get(field, np.broadcast_to(shared, (self.num_envs, *shared.shape[1:])))[envs]

    def _usual(self, field: str) -> np.ndarray:
        values = self.as_compiled(field)
        return np.broadcast_to(values, (self.num_envs, *values.shape[1:]))

    @property
    def batch(self) -> Batch:
        """The batch, with all properties that were set until now."""
        self.flush_first()
        return self._batch

    @property
    def model(self) -> mujoco.MjModel:
        """The model that the environments share; what differs between them is expanded in the batch."""
        return self._batch.model

    def model_xml(self) -> str:
        """Return the shared model as MJCF, for viewers: shapes and poses, not the properties set later."""
        return self.spec.to_xml()

    def model_xml_at_origin(self) -> str:
        """The same with every fixed base at the origin: where environment 0's stand is a part of the state."""
        spec = self.spec.copy()
        for body in spec.bodies:
            if body.mocap:
                body.pos, body.quat = [0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]
        return str(spec.to_xml())

    # stepping

    def step(self) -> None:
        """Advance every environment by all substeps. What was applied to bodies counts for this call only."""
        self.flush_first()
        self._forget_bad_warmstarts()
        if self.restitution.asked_for:
            self._let_bounce()
        if self.drives.limited:
            refused = self._substeps()
        else:
            refused = self._run(lambda: self._batch.step(nstep=self.substeps, stage=self.stage))
        self._refused_now = set(refused.tolist())
        self._kept.clear()
        self._stale[:] = self.stage == NONE
        self._stale[refused] = True
        self._limit_speeds()
        if self._pushed:
            self.xfrc_applied[:] = 0.0
            self._pushed = False

    def _forget_bad_warmstarts(self) -> None:
        """The solver begins at the last acceleration; one that is no number would outlive the reset of its state."""
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(self._warmstart.sum(1))
        if bad.any():
            self._warmstart[bad] = 0.0

    def _let_bounce(self) -> None:
        """Have the shapes bounce in this step that others come near to fast, and no others."""
        velocity, centres = (self.kinematics(name) for name in ("cvel", "geom_xpos"))
        origins = self.kinematics("subtree_com")[:, self.model.body_rootid]
        seconds = self.substeps * float(self.model.opt.timestep)
        radii = self.per_env("geom_rbound")
        with np.errstate(over="ignore", invalid="ignore"):  # the numbers of an unstable environment
            speed = self._closing.speeds(self.restitution.geoms, velocity, origins, centres, radii, seconds)
        rows, geoms, solref, solimp = self.restitution.changes(speed)
        self.expand("geom_solref")[rows, geoms] = solref
        self.expand("geom_solimp")[rows, geoms] = solimp

    def _substeps(self) -> np.ndarray:
        """All substeps, one by one; an environment that fails in one of them has no further ones. Return those."""
        going: np.ndarray | None = None
        for remaining in reversed(range(self.substeps)):
            stage = self.stage if remaining == 0 else NONE
            refused = self.drives.step(going, partial(self._advance, stage=stage))
            if refused.size:
                going = np.setdiff1d(np.arange(self.num_envs) if going is None else going, refused)
        return np.zeros(0, int) if going is None else np.setdiff1d(np.arange(self.num_envs), going)

    def _advance(self, envs: np.ndarray | None, stage: int) -> np.ndarray:
        return self._run(lambda: self._batch.step(envs, stage=stage))

    def _run(self, call: Callable[[], None]) -> np.ndarray:
        """Make a call of the batch; return the environments that MuJoCo refused, which keep their state."""
        try:
            call()
        except SimulationError as error:
            if not self._refused_now.issuperset(error.ids.tolist()):  # said once, not in every step until a reset
                log.warning("%s; these environments keep their state.", error)
            self._refused[error.ids] += 1
            return error.ids.astype(int)
        return np.zeros(0, int)

    def _limit_speeds(self) -> None:
        """Shorten velocities of free roots and DOFs to the limits of their assets, as PhysX does.

        A drone with random thrust would turn at thousands of rad/s and diverge.
        """
        self._stale[self.drives.limit_speeds()] = True
        for slot in self.layout.actors:
            for limit, at in zip(slot.max_speed, (slot.qvel, slot.qvel + 3), strict=True):
                if slot.qvel < 0:
                    continue
                velocity = self.qvel[:, at : at + 3]
                square = np.einsum("ni,ni->n", velocity, velocity)
                fast = np.flatnonzero(square > limit * limit)
                if fast.size:
                    velocity[fast] *= (limit / np.sqrt(square[fast]))[:, None]
                    self._stale[fast] = True

    def push(self) -> None:
        """Have `xfrc_applied` cleared after the next step."""
        self._pushed = True

    def moved(self, envs: np.ndarray | slice = slice(None)) -> None:
        """Mark environments whose state was written from outside."""
        self._stale[envs] = True

    def faults(self) -> np.ndarray:
        """(N,) how often MuJoCo found non-finite or huge values in an environment, or refused to step it."""
        found: np.ndarray = self._batch.warning[:, FIRST_BAD:, 1].sum(1)
        return found + self._refused

    def finite(self) -> np.ndarray:
        """(N,) bool: environments whose positions and velocities are numbers."""
        with np.errstate(all="ignore"):
            return np.isfinite(self.qpos.sum(1) + self.qvel.sum(1))

    # outputs

    def kinematics(self, name: str) -> np.ndarray:
        """Return a position- or velocity-dependent output, such as xpos (N, bodies, 3), at the current state."""
        if name not in self._batch._bound:
            self._batch.bind(name)
            self.stage = VEL
            self._stale[:] = True
        self._refresh()
        return self._batch.bind(name)

    def _refresh(self) -> None:
        self.flush_first()
        if not self._stale.any():
            return
        self._keep()
        envs = None if self._stale.all() else np.flatnonzero(self._stale)
        self._run(lambda: self._batch.forward(envs, stage=VEL))
        self._stale[:] = False

    def _keep(self) -> None:
        """Copy force-like outputs of the last step before a forward overwrites them."""
        for name in FORCES:
            if name in self._batch._bound and name not in self._kept:
                self._kept[name] = self._batch.bind(name).copy()

    def forces(self, name: str) -> np.ndarray:
        """Return a force-like output of the last substep, one of FORCES; 0 before the first step."""
        if name not in FORCES:
            raise KeyError(name)
        return self._kept[name] if name in self._kept else self._batch.bind(name)

    def com(self, body: int | np.ndarray) -> np.ndarray:
        """(N, 3) centre of mass of a body in its own frame; with an array of bodies (N, bodies, 3), as below."""
        return self.per_env("body_ipos")[:, body]

    def mass(self, body: int | np.ndarray) -> np.ndarray:
        """(N,) mass of a body."""
        return self.per_env("body_mass")[:, body]

    def inertia(self, body: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Principal moments (N, 3) of a body and the wxyz orientation (N, 4) of their axes in its frame."""
        return self.per_env("body_inertia")[:, body], self.per_env("body_iquat")[:, body]

    def per_env(self, field: str) -> np.ndarray:
        """Return a model field's values for each environment, (N, ...), to be read only."""
        if field in self._expanded:
            return self._batch.expand(field)
        shared = getattr(self.model, field)
        return np.broadcast_to(shared, (self.num_envs, *shared.shape))

    # parameters

    def expand(self, field: str) -> np.ndarray:
        """Return a model field's values for each environment, (N, ...), to be written."""
        self._expanded.add(field)
        return self._batch.expand(field)

    def differs(self, field: str) -> bool:
        """Whether environments have values of their own of a model field."""
        return field in self._expanded

    def set_const(self, envs: np.ndarray) -> None:
        """Recompute what MuJoCo derives from masses, inertias and armature of these environments.

        Drives count with all of their gains, even those that are at their limit now and add less.
        """
        self.drives.with_all_armature(envs, lambda: self._batch.set_const(envs))
        self._expanded.update(DERIVED + FRAMES)
        if self.model.ntendon:
            self._expanded.update(DERIVED_OF_TENDONS)
        weights = [self._batch.expand(field) for field in ("dof_invweight0", "body_invweight0")]
        corrected = [values[envs] for values in weights]
        others = [self.per_env(name)[envs] for name in ("dof_M0", "body_mass", "body_ipos")]
        self._correct(self._size_of[envs], corrected, others)
        for values, new in zip(weights, corrected, strict=True):
            values[envs] = new
        self._stale[envs] = True

    def _correct(self, size_of: np.ndarray, corrected: list[np.ndarray], others: list[np.ndarray]) -> None:
        """Correct the inverse weights of environments of these sizes, in place."""
        if self.sizes == 1:
            self._weights[0].correct(*corrected, *others)
            return
        for number in np.unique(size_of):
            own = np.flatnonzero(size_of == number)
            parts = [values[own] for values in corrected]
            self._weights[number].correct(*parts, *(values[own] for values in others))
            for values, part in zip(corrected, parts, strict=True):
                values[own] = part

    def set_gravity(self, gravity: list[float]) -> None:
        """Set gravity, m/s^2, in every environment."""
        self.expand("opt.gravity")[:] = gravity

    def gravity(self) -> np.ndarray:
        """(N, 3) gravity, m/s^2."""
        if "opt.gravity" in self._expanded:
            return self._batch.expand("opt.gravity")
        return np.broadcast_to(self.model.opt.gravity, (self.num_envs, 3))

    # state

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return copies of everything that determines what follows."""
        self.flush_first()
        rows = {"state": self._batch.state.copy(), "warning": self._batch.warning.copy()}
        fields = sorted(self._expanded | self.drives.expanded)
        rows |= {f"model/{field}": self._batch.expand(field).copy() for field in fields}
        rows["restitution"] = self.restitution.values.copy()
        return rows | self.drives.snapshot()

    def restore(self, snapshot: dict[str, np.ndarray]) -> None:
        """Return to a snapshot of this engine, or of one with the same scene; what was set before counts no more."""
        self.flush_first()
        fields = {key.removeprefix("model/"): rows for key, rows in snapshot.items() if key.startswith("model/")}
        unsaved = FRAMES if "body_subtreemass" in fields else ()  # by earlier releases: those of here fit better
        for field in (self._expanded | self.drives.expanded | fields.keys()) - (set(unsaved) - fields.keys()):
            self.expand(field)[:] = fields[field] if field in fields else self._shared(field)
        self.drives.restore(snapshot)
        if "restitution" in snapshot:  # earlier releases saved it only if there was any
            everything = np.arange(self.num_envs)
            self.restitution.set(everything, np.arange(self.model.ngeom), snapshot["restitution"])
        self.restitution.forget()
        np.copyto(self._batch.state, snapshot["state"])
        np.copyto(self._batch.warning, snapshot["warning"])
        self._kept.clear()
        self._stale[:] = True

    def _shared(self, field: str) -> np.ndarray:
        """The value of a field in the environments' models, for all of them."""
        if field.startswith("opt."):
            return np.asarray(getattr(self.model.opt, field[4:]))
        return self.as_compiled(field)[:, : self.expand(field).shape[1]]
