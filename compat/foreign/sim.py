"""The simulation behind a foreign environment, as livegym's viewers, recorders and pushes see a simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from livegym.sim.base import Snapshot
from livegym.utils.errors import did_you_mean


class ForeignSim:
    """The state and the model of a simulation that foreign code made. It is stepped by that code alone."""

    def __init__(self, made: Any, num_envs: int, control_dt: float) -> None:
        """`made`: what `create_sim` returned (`compat/core/scene.py`)."""
        self._made = made
        self._engine = made.engine
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.control_dt = control_dt
        self.dt = float(self._engine.model.opt.timestep)
        self.decimation = max(1, round(control_dt / self.dt))
        self.unstable = torch.zeros(num_envs, dtype=torch.bool)
        self.xfrc_applied = torch.zeros(num_envs, self._engine.model.nbody, 6)
        """(N, B, 6) N and N m: pushes of users, which are added to the task's own forces."""
        hooks: list[Callable[[], None]] | None = getattr(made, "before_simulate", None)
        if hooks is not None:
            hooks.append(self._push)

    def _push(self) -> None:
        if self.xfrc_applied.any():
            self._engine.xfrc_applied[:] += self.xfrc_applied.numpy()

    @property
    def qpos(self) -> Tensor:
        """(N, nq) float32, a copy of the present state."""
        return torch.from_numpy(self._engine.qpos).float()

    @property
    def qvel(self) -> Tensor:
        """(N, nv) float32, a copy of the present state."""
        return torch.from_numpy(self._engine.qvel).float()

    @property
    def ctrl(self) -> Tensor:
        """(N, nu) float32, a copy of the present controls."""
        return torch.from_numpy(self._engine.ctrl).float()

    def body_ids(self, names: Sequence[str]) -> list[int]:
        """Indices into the body axis. Raises ValueError with the nearest name."""
        model = self._engine.model
        known = [model.body(index).name for index in range(model.nbody)]
        for name in names:
            if name not in known:
                raise ValueError(f"there is no body {name!r}.{did_you_mean(name, known)}")
        return [known.index(name) for name in names]

    def model_xml(self) -> str:
        """The compiled model as MJCF."""
        own = getattr(self._engine, "model_xml", None)
        return str(own() if own is not None else self._engine.spec.to_xml())

    def snapshot(self, env_ids: Tensor) -> Snapshot:
        """A copy of everything that decides how the simulation continues; always of all environments."""
        arrays = {name: torch.from_numpy(value.copy()) for name, value in self._engine.snapshot().items()}
        return Snapshot(env_ids, arrays)

    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        """Restore a snapshot of all environments. Raises ValueError if it is one of another simulation."""
        self._engine.restore({name: value.numpy() for name, value in snapshot.arrays.items()})

    def close(self) -> None:
        """End the threads of the physics, if the engine can."""
        end = getattr(self._engine, "close", None)
        if end is not None:
            end()
