"""No bodies at all: the engine of a task that has its own dynamics (`Task.own_dynamics`).

    sim = create(SimConfig("none"), PhysicsConfig(), NoModel(control_dt=15.0, controls=2), num_envs=256, decimation=1)
    sim.ctrl[:] = actions            # (N, 2): the only input of such a task
    sim.step()                       # counts: `steps` (N,)

States are empty, (N, 0); the world is in the task's own buffers, which Env saves and restores. The contract of all
simulators holds: environments with non-finite controls are `unstable` and are not stepped until they are reset, and
`restore` is bit-exact. Any request for bodies is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from livegym.sim.base import NoModel, Simulator, Snapshot
from livegym.utils.errors import UserError

STATE = ("qpos", "qvel", "ctrl", "steps", "unstable")
XML = '<mujoco model="none"/>'  # a world without bodies, which MuJoCo opens


class NoSimulator(Simulator):
    """N environments without a body: `ctrl` is passed to the task, and steps are counted."""

    def __init__(
        self,
        sim_config: Any,
        physics: Any,
        model: NoModel,
        num_envs: int,
        decimation: int,
        parts: Mapping[str, Any] | None = None,
    ) -> None:
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.decimation, self.control_dt = decimation, model.control_dt
        self.dt = model.control_dt / decimation
        self.qpos, self.qvel = torch.zeros(num_envs, 0), torch.zeros(num_envs, 0)
        self.ctrl = torch.zeros(num_envs, model.controls)
        self.steps = torch.zeros(num_envs, dtype=torch.int64)  # control steps since the last reset
        self.unstable = torch.zeros(num_envs, dtype=torch.bool)

    def require(self, *fields: str) -> None:
        for name in fields:
            if name not in STATE:
                _refuse(name)

    def start(self) -> None:
        pass

    def step(self) -> None:
        self.unstable |= ~torch.isfinite(self.ctrl).all(1)
        self.steps += ~self.unstable

    def reset(self, env_ids: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        self.ctrl[env_ids] = 0.0
        self.steps[env_ids] = 0
        self.unstable[env_ids] = False

    def forward(self, env_ids: Tensor) -> None:
        self.unstable[env_ids] = False

    def snapshot(self, env_ids: Tensor) -> Snapshot:
        return Snapshot(env_ids.clone(), {name: getattr(self, name)[env_ids].clone() for name in STATE})

    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        if set(snapshot.arrays) != set(STATE) or snapshot.arrays["ctrl"].shape[1:] != self.ctrl.shape[1:]:
            raise ValueError(f"the snapshot is from another simulator: it has {', '.join(sorted(snapshot.arrays))}")
        ids = snapshot.env_ids if env_ids is None else env_ids
        for name in STATE:
            getattr(self, name)[ids] = snapshot.arrays[name]

    @property
    def default_qpos(self) -> Tensor:
        return torch.zeros(0)

    @property
    def ctrl_range(self) -> Tensor:
        return torch.zeros(self.ctrl.shape[1], 2)

    def model_xml(self) -> str:
        return XML

    def names(self, kind: str) -> list[str]:
        return []

    def geom_body_ids(self) -> list[int]:
        return []

    def geom_shapes(self) -> list[str]:
        return []

    # requests that need bodies, which are refused

    def require_contact(self, *bodies: str, against: str | None = None) -> None:
        _refuse("contact forces")

    def randomize(self, field: str) -> Tensor:
        _refuse(field)

    def apply_randomization(self, env_ids: Tensor) -> None:
        _refuse("randomised fields")

    def model_value(self, field: str) -> Tensor:
        _refuse(field)

    def sensor(self, name: str) -> Tensor:
        _refuse(f"sensor {name}")

    def contact_force_w(self, bodies: Sequence[str], against: str | None = None) -> Tensor:
        _refuse("contact forces")

    def body_ids(self, names: Sequence[str]) -> list[int]:
        _refuse(f"body {', '.join(names)}")

    def site_ids(self, names: Sequence[str]) -> list[int]:
        _refuse(f"site {', '.join(names)}")

    def geom_ids(self, names: Sequence[str]) -> list[int]:
        _refuse(f"geom {', '.join(names)}")

    def actuator_ids(self, names: Sequence[str]) -> list[int]:
        _refuse(f"actuator {', '.join(names)}")

    def qpos_ids(self, joints: Sequence[str]) -> list[int]:
        _refuse(f"joint {', '.join(joints)}")

    def qvel_ids(self, joints: Sequence[str]) -> list[int]:
        _refuse(f"joint {', '.join(joints)}")

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: sim=none has no bodies. Allowed: {', '.join(STATE)}.")


def _refuse(what: str) -> NoReturn:
    raise UserError(
        f"{what}: not available, because sim=none has no bodies. Allowed: {', '.join(STATE)}. "
        "A task that needs bodies has a model and own_dynamics = False."
    )


make = NoSimulator
