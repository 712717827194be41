"""The contract of a task: what a robot must do, said once, for all environments together.

A task is a pure reading of a simulator. It has no loop over environments, no counters, no time limit, no weights and
no logging: `Env` (tasks/env.py) owns those, the yaml owns weights, active reasons, noise and observation groups, and
the names below tie the two together. See `tasks/cartpole.py` for the shortest real one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Union

import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.env_state import put_rows, rows_of


@dataclass(frozen=True)
class Box:
    """Continuous actions (N, size) in [-1, 1]; the policy's output is clipped there, the task scales it."""

    size: int

    @property
    def width(self) -> int:
        """Numbers in one action."""
        return self.size

    @property
    def choices(self) -> None:
        """None: its numbers are no choices."""
        return None


@dataclass(frozen=True)
class Discrete:
    """One choice of n: actions (N,) int64 in [0, n)."""

    n: int

    @property
    def width(self) -> int:
        """Numbers in one action."""
        return 1

    @property
    def choices(self) -> tuple[int, ...]:
        """How many there are, for each number of an action."""
        return (self.n,)


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices: actions (N, len(nvec)) int64, column i in [0, nvec[i])."""

    nvec: tuple[int, ...]

    @property
    def width(self) -> int:
        """Numbers in one action."""
        return len(self.nvec)

    @property
    def choices(self) -> tuple[int, ...]:
        """How many there are, for each number of an action."""
        return self.nvec


ActionSpec = Union[Box, Discrete, MultiDiscrete]


class Task(ABC):
    """What is learned, as a few short methods over (N, ...) float32 tensors.

    `state` is the simulator: its fields are the typed view of the world. What a task must remember between steps
    (a cooldown, the last position) it allocates with `buffer()`, so that snapshots and resumed runs carry it.
    """

    Params: ClassVar[type]  # a frozen dataclass with units, the type of `params` in the yaml
    own_dynamics: ClassVar[bool] = False  # True: no model and no bodies (sim=none), the task itself moves its world
    success_reason: ClassVar[str | None] = None  # the termination reason that means success, if there is one
    bound_params: ClassVar[tuple[str, ...]] = ()  # parameters that are read in `bind` only: no curriculum moves them
    params: Any

    def __init__(self, params: Any) -> None:
        self.params = params
        self.buffers: dict[str, Tensor] = {}
        self.active_reasons: tuple[str, ...] = ()
        """Those that end an episode; of several that hold at once, the first counts."""

    def buffer(self, sim: Simulator, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A zeroed (N, *shape) tensor that is saved, restored and zeroed at resets with its environment."""
        self.buffers[name] = torch.zeros(sim.num_envs, *shape, dtype=dtype, device=sim.device)
        return self.buffers[name]

    def end_by(self, reasons: tuple[str, ...]) -> None:
        """Which of the reasons of `terminate` end an episode, the first counts. Called once, before `bind`."""
        self.active_reasons = reasons

    def go_by(self, params: Any) -> None:
        """From here on, the task goes by these parameters: the level of its curriculum has changed."""
        self.params = params

    def state_dict(self, env_ids: Tensor) -> dict[str, Tensor]:
        """What the task remembers of environments (n,): buffer -> (n, ...)."""
        return rows_of(self.buffers, env_ids)

    def load_state_dict(self, state: Mapping[str, Tensor], env_ids: Tensor) -> None:
        """Puts what `state_dict` gave into environments (n,)."""
        put_rows(self.buffers, state, env_ids)

    def outcome(self, reasons: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Whether an episode ends in success, or in failure, by what `terminate` gave: two (N,) float32 of 0 and 1.

        Only reasons that end episodes count, and of several the first, as in `Env`.
        """
        ends = success = torch.zeros_like(next(iter(reasons.values())))
        for name in self.active_reasons:
            if name == self.success_reason:
                success = reasons[name] & ~ends
            ends = ends | reasons[name]
        return success.float(), (ends & ~success).float()

    @property
    @abstractmethod
    def action_spec(self) -> ActionSpec:
        """What the policy chooses."""

    @property
    def control_dt(self) -> float:
        """s, one control step of a task that brings its own dynamics; elsewhere the model and decimation say it."""
        raise NotImplementedError

    @abstractmethod
    def model_path(self) -> Path:
        """The MJCF file of the task's world."""

    def parts(self) -> dict[str, Path]:
        """Frames of the model -> MJCF files that are attached there, under their own names."""
        return {}

    @abstractmethod
    def bind(self, sim: Simulator) -> None:
        """Names the fields and bodies that will be read; allocates buffers. Called once, before `sim.start()`."""

    @abstractmethod
    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Start states of environments (n,): qpos (n, nq), qvel (n, nv)."""

    @abstractmethod
    def control(self, action: Tensor) -> Tensor:
        """Actions, clipped, (N, size) or (N,) -> actuator controls (N, nu). Called before the physics."""

    def update(self, state: Simulator) -> None:  # noqa: B027 - most tasks remember nothing between steps
        """Brings what the task remembers (a stage, a timer) up to the state after the physics, before it is judged.

        A task that brings its own dynamics advances its world here, by what `control` gave (`state.ctrl`).
        """

    @abstractmethod
    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named observation blocks, each (N, width)."""

    @abstractmethod
    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Named, unweighted reward terms, each (N,)."""

    def episode_metrics(self, state: Simulator) -> dict[str, Tensor]:
        """Named numbers (N,) about the episodes as they are now; those of ended episodes are averaged and logged."""
        return {}

    @abstractmethod
    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Named reasons to end the episode, each (N,) bool. The time limit is not one of them."""
