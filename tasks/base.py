"""The contract of a task: what a robot must do, in code that handles all environments at once.

A task computes observations, rewards and terminations from the state of a simulator. It has no loop over environments,
no counters, no time limit, no weights and no logging: `Env` (tasks/env.py) has those. The yaml has the weights, active
reasons, noise and observation groups; names connect it to the task. `tasks/cartpole.py` is the shortest example.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Union

import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.env_state import put_rows, rows_of
from livegym.tasks.skin import Part
from livegym.utils.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Box:
    """Continuous actions (N, size) in [-1, 1]: `Env` clips the policy's output, and the task scales it."""

    size: int

    @property
    def width(self) -> int:
        """How many numbers one action has."""
        return self.size

    @property
    def choices(self) -> None:
        """None: the numbers are continuous."""
        return None


@dataclass(frozen=True)
class Discrete:
    """One choice of n: actions (N,) int64 in [0, n)."""

    n: int

    @property
    def width(self) -> int:
        """How many numbers one action has."""
        return 1

    @property
    def choices(self) -> tuple[int, ...]:
        """How many choices there are, for each number of an action."""
        return (self.n,)


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices: actions (N, len(nvec)) int64, column i in [0, nvec[i])."""

    nvec: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many numbers one action has."""
        return len(self.nvec)

    @property
    def choices(self) -> tuple[int, ...]:
        """How many choices there are, for each number of an action."""
        return self.nvec


NO_WINNER = -1
"""The value of `Task.winner` for an environment in which no seat has won, yet or at all."""

ActionSpec = Union[Box, Discrete, MultiDiscrete]


def zero_action(spec: ActionSpec, rows: int, device: torch.device) -> Tensor:
    """The action that does nothing: (rows, size) float32, or (rows,) / (rows, k) int64."""
    if isinstance(spec, Box):
        return torch.zeros(rows, spec.size, device=device)
    shape = (rows,) if isinstance(spec, Discrete) else (rows, len(spec.nvec))
    return torch.zeros(shape, dtype=torch.int64, device=device)


def check_success_reason(task: Task, reasons: Mapping[str, bool]) -> None:
    """Raises UserError if the reason that means success is not one of the task's, which `reasons` are."""
    name = task.success_reason
    if name is not None and name not in reasons:
        raise UserError(
            f"success_reason={name!r} of {type(task).__name__} is not one of its termination reasons. "
            f"Allowed: {', '.join(reasons) or 'none'}.{did_you_mean(name, list(reasons))}"
        )


MEANING = re.compile(r"^ *(\w+): (.+)$", re.MULTILINE)


def meanings_in(*described: Callable[..., Any]) -> dict[str, str]:
    """name -> meaning, from the lines `name: meaning` in the docstrings of functions."""
    return {name: text for function in described for name, text in MEANING.findall(inspect.getdoc(function) or "")}


class Task(ABC):
    """A task to learn, as a few short methods over (N, ...) float32 tensors.

    Observations, actions and rewards have R = N x `seats` rows, an environment's together; R = N with one seat.

    `state` is the simulator: its fields are the typed view of the world. For what it must remember between steps (a
    cooldown, the last position), a task allocates a `buffer()`, so that snapshots and resumed runs contain it.
    """

    Params: ClassVar[type]  # a frozen dataclass with units, the type of `params` in the yaml
    own_dynamics: ClassVar[bool] = False  # True: no model and no bodies (sim=none), `update` advances the world
    own_env: ClassVar[bool] = False  # True: foreign code steps it, and `make_env` makes its environments
    seats: ClassVar[int] = 1  # 2 for a match: how many policies act in one environment (docs/matches.md)
    seat_names: ClassVar[tuple[str, ...]] = ("red", "blue")  # of a match
    only_clients: ClassVar[bool] = False  # True: it cannot be simulated here, because clients run its environment
    success_reason: ClassVar[str | None] = None  # the termination reason that means success, if there is one
    bound_params: ClassVar[tuple[str, ...]] = ()  # parameters that only `bind` reads: a curriculum cannot change them
    own_look: ClassVar[bool] = True  # viewers keep the model's lights, sky, floor and cameras; False: livegym's instead
    params: Any

    def __init__(self, params: Any) -> None:
        self.params = params
        self.buffers: dict[str, Tensor] = {}
        self.active_reasons: tuple[str, ...] = ()
        """The reasons that end an episode; if several hold at once, the first one counts."""

    @property
    def title(self) -> str:
        """The name by which the dashboard calls it; empty: the task's name."""
        return ""

    def meanings(self) -> dict[str, str]:
        """Block -> its meaning with its unit: the lines `name: meaning` in the docstring of `observe`."""
        return meanings_in(type(self).observe)

    def buffer(self, sim: Simulator, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A zeroed (N, *shape) tensor that is saved, restored and zeroed at resets with its environment."""
        self.buffers[name] = torch.zeros(sim.num_envs, *shape, dtype=dtype, device=sim.device)
        return self.buffers[name]

    def end_by(self, reasons: tuple[str, ...]) -> None:
        """Set which reasons of `terminate` end an episode; the first that holds counts. Called once, before `bind`."""
        self.active_reasons = reasons

    def go_by(self, params: Any) -> None:
        """Use these parameters from now on, because the level of the curriculum has changed."""
        self.params = params

    def state_dict(self, env_ids: Tensor) -> dict[str, Tensor]:
        """The task's memory of environments (n,): buffer -> (n, ...)."""
        return rows_of(self.buffers, env_ids)

    def load_state_dict(self, state: Mapping[str, Tensor], env_ids: Tensor) -> None:
        """Restore a `state_dict` into environments (n,)."""
        put_rows(self.buffers, state, env_ids)

    def outcome(self, reasons: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Success and failure of the episodes, by the result of `terminate`: two (N,) float32 of 0 and 1.

        Only reasons that end episodes count; if several hold, the first one counts, as in `Env`.
        """
        terminated = success = torch.zeros_like(next(iter(reasons.values())))
        for name in self.active_reasons:
            if name == self.success_reason:
                success = reasons[name] & ~terminated
            terminated = terminated | reasons[name]
        return success.float(), (terminated & ~success).float()

    @classmethod
    def make_env(cls, config: Any, sim: Any, physics: Any, num_envs: int, seed: int, shown: bool) -> Any:
        """The Env of a task that has `own_env`."""
        raise NotImplementedError

    @property
    @abstractmethod
    def action_spec(self) -> ActionSpec:
        """The kind and size of an action."""

    @property
    def control_dt(self) -> float:
        """s, one control step of a task that has its own dynamics; otherwise, model and decimation determine it."""
        raise NotImplementedError

    @abstractmethod
    def model_path(self) -> Path:
        """The MJCF file of the task's world."""

    def parts(self) -> dict[str, Any]:
        """Frames of the model -> what is attached there under its own names: a file (MJCF), or a model (MjSpec)."""
        return {}

    def skin(self) -> tuple[Part, ...]:
        """Parts that viewers draw in place of the collision shapes of some bodies."""
        return ()

    @abstractmethod
    def bind(self, sim: Simulator) -> None:
        """Request the fields and bodies that will be read, and allocate buffers. Called once, before `sim.start()`."""

    @abstractmethod
    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Start states of environments (n,): qpos (n, nq), qvel (n, nv)."""

    @abstractmethod
    def control(self, action: Tensor) -> Tensor:
        """Actions, clipped, (R, size) or (R,) -> actuator controls (N, nu). Called before the physics."""

    def update(self, state: Simulator) -> None:  # noqa: B027 - most tasks remember nothing between steps
        """Update what the task remembers (a stage, a timer) after the physics, before reward and termination are read.

        A task that has its own dynamics advances its world here, with the controls from `control` (`state.ctrl`).
        """

    @abstractmethod
    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named observation blocks, each (R, width)."""

    @abstractmethod
    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Named, unweighted reward terms, each (R,)."""

    def episode_metrics(self, state: Simulator) -> dict[str, Tensor]:
        """Named numbers (N,) about the episodes so far; those of finished episodes are averaged and logged."""
        return {}

    @abstractmethod
    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Named reasons to end the episode, each (N,) bool. The time limit is not one of them."""

    def winner(self, state: Simulator) -> Tensor:
        """(N,) int64: the seat that has won, or NO_WINNER. Only a match has winners; read when an episode ends."""
        raise NotImplementedError

    def at_risk(self, state: Simulator) -> Tensor:
        """(N,) bool: whether an episode may soon fail, whatever the action is; by default always.

        `gate=lookahead online.look_ahead_trigger=true` simulates actions only in such states. A cheap test that is true
        somewhat too early costs little; one that is true too late lets failures pass.
        """
        return torch.ones(state.num_envs, dtype=torch.bool, device=state.device)
