"""The contract of a simulator: N copies of one model, stepped together.

    sim = create(sim_config, physics_config, model_path, num_envs=512, decimation=2)
    sim.require("qpos", "qvel", "body_pos_w")       # before start: what will be read
    sim.require_contact("left_foot", "right_foot")
    sim.start()
    sim.ctrl[:] = targets                            # (N, nu)
    sim.step()                                       # one control step: `decimation` physics steps
    heights = sim.body_pos_w[:, torso, 2]            # (N,), already current

Promises, each held by `tests/test_sim_contract.py` for every engine:

- Kinematic fields are current after `step()` and `reset()`; force-like fields (`contact_force_w`, `cfrc_ext`,
  acceleration-stage sensors) are those of the last physics step, and zero right after a reset.
- Equal states and controls give bit-identical results at any number of threads.
- `reset(env_ids)` leaves every other environment bit-identical.
- `restore(snapshot)` is bit-exact: the next step gives what it would have given.
- An environment that left the finite numbers is reported in `unstable`; it is never healed silently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

KINEMATIC_FIELDS = ("qpos", "qvel", "ctrl", "body_pos_w", "body_quat_w", "body_vel_w", "site_pos_w")
FORCE_FIELDS = ("cfrc_ext", "contact_force_w")


@dataclass(frozen=True)
class Snapshot:
    """Everything that decides how some environments go on: engine state and derived fields, opaque to others."""

    env_ids: Tensor  # (n,) int64
    arrays: dict[str, Tensor]  # name -> (n, ...)


class Simulator(ABC):
    """N copies of one model. Tensors are float32 on `device` with a leading environment axis.

    Fields that were not required before `start()` raise AttributeError naming `require`.
    """

    num_envs: int
    device: torch.device
    dt: float  # s, one physics step
    decimation: int  # physics steps per control step
    control_dt: float  # s, one control step: dt * decimation

    # state, always there
    qpos: Tensor  # (N, nq)
    qvel: Tensor  # (N, nv); a free joint's is linear in the world, angular in the body frame
    ctrl: Tensor  # (N, nu), written by the caller before step()
    # kinematics, where required
    body_pos_w: Tensor  # (N, B, 3) m, world frame
    body_quat_w: Tensor  # (N, B, 4) wxyz
    body_vel_w: Tensor  # (N, B, 6): linear m/s, then angular rad/s, of the body frame's origin, world axes
    site_pos_w: Tensor  # (N, S, 3) m
    # forces, where required
    cfrc_ext: Tensor  # (N, B, 6) external torque then force on each body, as MuJoCo's cfrc_ext
    unstable: Tensor  # (N,) bool: left the finite numbers in the last step

    @abstractmethod
    def require(self, *fields: str) -> None:
        """Asks for derived fields, before `start()`. Raises ValueError naming the fields that there are."""

    @abstractmethod
    def require_contact(self, *bodies: str) -> None:
        """Asks for net contact forces on bodies, before `start()`: adds a contact sensor each."""

    @abstractmethod
    def start(self) -> None:
        """Allocates the environments, at the model's default state. Called once, after every `require`."""

    @abstractmethod
    def step(self) -> None:
        """Advances every environment by one control step with `ctrl`, and refreshes every required field."""

    @abstractmethod
    def reset(self, env_ids: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Sets environments (n,) int64, sorted, to qpos (n, nq) and qvel (n, nv); time, controls, warm start and forces to 0."""

    @abstractmethod
    def forward(self, env_ids: Tensor) -> None:
        """Recomputes the kinematic fields of environments (n,) whose state was written from outside."""

    @abstractmethod
    def snapshot(self, env_ids: Tensor) -> Snapshot:
        """A copy of everything that decides how environments (n,) go on."""

    @abstractmethod
    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        """Puts a snapshot back, bit for bit; into `env_ids` (n,) instead of its own where given."""

    @abstractmethod
    def randomize(self, field: str) -> Tensor:
        """A model field as (N, ...) per-environment values, to write before `apply_randomization`."""

    @abstractmethod
    def apply_randomization(self, env_ids: Tensor) -> None:
        """Takes over what was written into randomised fields, with every constant derived from them."""

    @abstractmethod
    def sensor(self, name: str) -> Tensor:
        """(N, dim) values of a sensor of the model; `require("sensor:<name>")` first."""

    @abstractmethod
    def contact_force_w(self, bodies: Sequence[str]) -> Tensor:
        """(N, len(bodies), 3) N, net contact force on each body in the world frame; `require_contact` first."""

    @abstractmethod
    def body_ids(self, names: Sequence[str]) -> list[int]:
        """Indices into the body axis. Raises ValueError with the nearest name."""

    @abstractmethod
    def model_xml(self) -> str:
        """The compiled model as MJCF, to look at a recorded state later."""

    def close(self) -> None:  # noqa: B027 - engines without threads have nothing to close
        """Ends the engine's threads."""
