"""The contract of a simulator: N copies of one model, stepped together.

    sim = create(sim_config, physics_config, model_path, num_envs=512, decimation=2)
    sim.require("qpos", "qvel", "body_pos_w")       # before start: what will be read
    sim.require_contact("left_foot", "right_foot")
    sim.start()
    sim.ctrl[:] = targets                            # (N, nu)
    sim.step()                                       # one control step: `decimation` physics steps
    heights = sim.body_pos_w[:, torso, 2]            # (N,), already current

Promises, which `tests/test_sim_contract.py` checks for every engine:

- Kinematic fields are current after `step()` and `reset()`; force-like fields (`contact_force_w`, `cfrc_ext`,
  `actuator_force`, acceleration-stage sensors) are those of the last physics step, evaluated at the state it started
  from (under RK4 too), and zero right after a reset.
- Equal states and controls give bit-identical results at any number of threads.
- `reset(env_ids)` leaves every other environment bit-identical.
- `restore(snapshot)` is bit-exact: the next step gives the same result as it would have after the snapshot.
- An environment whose state became non-finite, or that receives non-finite controls, is reported in `unstable`. Its
  state is never replaced silently, it does not affect the others, and `reset` makes it valid again.

Fields are allocated once and refreshed in place, so a reference taken after `start()` stays current. Write `ctrl` in
place. Values written into `qpos` or `qvel` take effect only through `forward(env_ids)`, otherwise the next step
overwrites them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.sim.lines import NO_LINES, Lines

APPLIED = "xfrc_applied"
KINEMATIC_FIELDS = ("qpos", "qvel", "ctrl", "body_pos_w", "body_quat_w", "body_vel_w", "site_pos_w", "cinert", "cvel")
FORCE_FIELDS = ("cfrc_ext", "contact_force_w", "actuator_force")


@dataclass(frozen=True)
class Snapshot:
    """Everything that decides how some environments continue: engine state and derived fields, opaque to callers."""

    env_ids: Tensor  # (n,) int64
    arrays: dict[str, Tensor]  # name -> (n, ...)


@dataclass(frozen=True)
class NoModel:
    """Takes the place of a model's file, for a task that has its own dynamics."""

    control_dt: float  # s, one control step
    controls: int  # columns of ctrl


class Simulator(ABC):
    """N copies of one model. Tensors are float32 on `device` with a leading environment axis.

    Names of bodies, sites and joints can be looked up from the beginning; fields exist after `start()`. A field that
    was not required raises an AttributeError that names `require`.
    """

    num_envs: int
    device: torch.device
    dt: float  # s, one physics step
    decimation: int  # physics steps per control step
    control_dt: float  # s, one control step: dt * decimation

    # state, always available
    qpos: Tensor  # (N, nq)
    qvel: Tensor  # (N, nv); a free joint's is linear in the world, angular in the body frame
    ctrl: Tensor  # (N, nu), written by the caller before step()
    # written by the caller like ctrl, if required
    xfrc_applied: Tensor  # (N, B, 6) force N, then torque N m, on each body's centre of mass, world axes; 0 at resets
    # kinematics, if required
    body_pos_w: Tensor  # (N, B, 3) m, world frame
    body_quat_w: Tensor  # (N, B, 4) wxyz
    body_vel_w: Tensor  # (N, B, 6): linear m/s, then angular rad/s, of the body frame's origin, world axes
    site_pos_w: Tensor  # (N, S, 3) m
    cinert: Tensor  # (N, B, 10) inertia (6), mass x offset (3), mass, about the tree's centre of mass, as in MuJoCo
    cvel: Tensor  # (N, B, 6) angular rad/s, then linear m/s, at the tree's centre of mass, as in MuJoCo
    # forces, if required
    cfrc_ext: Tensor  # (N, B, 6) external torque then force on each body, as MuJoCo's cfrc_ext
    actuator_force: Tensor  # (N, nu) N or N m, of each actuator, before its gear
    unstable: Tensor  # (N,) bool: became non-finite; such an environment is not stepped until it is reset

    @abstractmethod
    def require(self, *fields: str) -> None:
        """Request derived fields and sensors ("sensor:<name>"), before `start()`.

        Raises ValueError with the nearest name.
        """

    @abstractmethod
    def require_contact(self, *bodies: str, against: str | None = None) -> None:
        """Request net contact forces on bodies, before `start()`: this adds a contact sensor for each.

        `against`: count only the forces that this one body exerts on them ("world": the fixed ground); None: those of
        all bodies.
        """

    @abstractmethod
    def start(self) -> None:
        """Allocate the environments, at the model's default state. Called once, after every `require`."""

    @abstractmethod
    def step(self) -> None:
        """Advance every environment by one control step with `ctrl`, and refresh every required field."""

    @abstractmethod
    def reset(self, env_ids: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Set environments (n,) int64, sorted, to qpos (n, nq) and qvel (n, nv).

        Time, controls, activations, warm start and force-like fields become 0, `unstable` False.
        """

    @abstractmethod
    def forward(self, env_ids: Tensor) -> None:
        """Apply the values written into `qpos` and `qvel` of environments (n,), sorted; force-like fields stay.

        Values that were not written keep their full precision; `unstable` becomes False.
        """

    @abstractmethod
    def snapshot(self, env_ids: Tensor) -> Snapshot:
        """A copy of everything that decides how environments (n,) continue, and of every field."""

    @abstractmethod
    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        """Restore a snapshot bit for bit, with fields and randomised model fields; into `env_ids` (n,) if given.

        It may be one of another simulator with the same engine, model and required fields.
        """

    @abstractmethod
    def randomize(self, field: str) -> Tensor:
        """A model field as (N, ...) per-environment values, in the model's own type (mostly float64), after `start()`.

        Write rows in place, then call `apply_randomization`. Fields are named as in MjModel; MjOption's `opt.<name>`.
        Raises ValueError with the nearest name.
        """

    @abstractmethod
    def apply_randomization(self, env_ids: Tensor) -> None:
        """Apply the values written into randomised fields of environments (n,), sorted.

        Every constant derived from them is updated: bounding volumes follow `geom_size` of primitive geoms, and
        `body_inertia` follows `body_mass` if it is not randomised itself. Kinematic fields follow at the next step or
        reset.
        """

    def model_value(self, field: str) -> Tensor:
        """(N, ...) the value of a model field in each environment, randomised or not; read-only, after `start()`."""
        raise NotImplementedError

    def names(self, kind: str) -> list[str]:
        """Names of all objects of a kind ("body", "geom", "joint", "site", ...) in order of their ids; '': unnamed."""
        raise NotImplementedError

    @abstractmethod
    def sensor(self, name: str) -> Tensor:
        """(N, dim) values of a sensor of the model; `require("sensor:<name>")` first."""

    @abstractmethod
    def contact_force_w(self, bodies: Sequence[str], against: str | None = None) -> Tensor:
        """(N, len(bodies), 3) N, net contact force on each body in the world frame; `require_contact` first."""

    @abstractmethod
    def body_ids(self, names: Sequence[str]) -> list[int]:
        """Indices into the body axis. Raises ValueError with the nearest name."""

    @property
    def default_qpos(self) -> Tensor:
        """(nq,) float32: the model's default configuration, known before `start()`."""
        raise NotImplementedError

    def keyframe_qpos(self, name: str) -> Tensor:
        """(nq,) float32: the configuration of a keyframe of the model, known before `start()`.

        Raises ValueError with the nearest name.
        """
        raise NotImplementedError

    @property
    def ctrl_range(self) -> Tensor:
        """(nu, 2) float32: minimum and maximum control, known before `start()`; 0, 0 if the model sets no limit."""
        raise NotImplementedError

    def site_ids(self, names: Sequence[str]) -> list[int]:
        """Indices into the site axis. Raises ValueError with the nearest name."""
        raise NotImplementedError

    def geom_ids(self, names: Sequence[str]) -> list[int]:
        """Rows of geom fields of the model, in the order given. Raises ValueError with the nearest name."""
        raise NotImplementedError

    def geom_body_ids(self) -> list[int]:
        """The body of each geom, in order of the geoms' ids."""
        raise NotImplementedError

    def geom_shapes(self) -> list[str]:
        """The shape of each geom ("box", "mesh", ...), in order of the geoms' ids."""
        raise NotImplementedError

    def actuator_ids(self, names: Sequence[str]) -> list[int]:
        """Columns of `ctrl` of actuators, in the order given. Raises ValueError with the nearest name."""
        raise NotImplementedError

    def qpos_ids(self, joints: Sequence[str]) -> list[int]:
        """Columns of `qpos` of joints, in the order given (7 for a free joint, 4 for a ball joint, else 1)."""
        raise NotImplementedError

    def qvel_ids(self, joints: Sequence[str]) -> list[int]:
        """Columns of `qvel` of joints, in the order given (6 for a free joint, 3 for a ball joint, else 1)."""
        raise NotImplementedError

    @abstractmethod
    def model_xml(self) -> str:
        """The compiled model as MJCF, to view a recorded state later."""

    def model_xml_of(self, env: int) -> str | None:
        """The model of one environment, whose states are in `qpos`, `qvel` and `ctrl`; None if they are not there."""
        return self.model_xml()

    @property
    def lines(self) -> Lines:
        """The lines that belong to the present state, of all environments."""
        return self.lines_of(range(self.num_envs))

    def lines_of(self, env_ids: Collection[int]) -> Lines:
        """Those of some environments, without looking at the others. An engine without lines has none."""
        return NO_LINES

    def show_lines(self, who: Hashable, shown: bool) -> None:  # noqa: B027 - engines without lines make none
        """Tell whether `who` draws `lines` from the next step on; called between two steps.

        Lines are made only for those.
        """

    def close(self) -> None:  # noqa: B027 - engines without threads have nothing to close
        """End the engine's threads."""
