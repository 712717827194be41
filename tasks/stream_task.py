"""A task whose observations may come from outside, such as from a game, a plant, or a simulator in another process.

    raw = task.unpack(rows)                                  # name -> (n, *shape): what an outside source sends
    blocks = task.features(raw)                              # the observation blocks of the policy
    terms = task.stream_reward(before, action, after)        # reward terms of an action, by the next raw observation

In simulation, the task makes its raw observations itself (`raw`), and uses the same functions: `observe(state)` is
`features(raw(state))`, and `reward` is `stream_reward` of two raw observations. So a policy that was trained in
simulation reads an outside source in the same way. Features, rewards and rows need no simulator, so they work before
`bind`. A `CostTask` also computes in advance what an action can be expected to earn (`expect`).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.base import Task
from livegym.utils.errors import UserError


@dataclass(frozen=True)
class RawField:
    """One quantity of a raw observation."""

    shape: tuple[int, ...]  # () is one number
    low: float
    high: float
    help: str  # unit and meaning

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)


@dataclass(frozen=True)
class ActionUnits:
    """How clients number an action: theirs is offset + scale x the policy's, for each of its A numbers."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    def to_client(self, action: np.ndarray) -> np.ndarray:
        """(A,) the policy's numbers -> (A,) the client's, float64 or int64."""
        made = np.asarray(self.offset) + np.asarray(self.scale) * action
        return made if action.dtype.kind == "f" else np.rint(made).astype(np.int64)

    def from_client(self, action: np.ndarray) -> np.ndarray:
        """(A,) the client's numbers -> (A,) the policy's, float64."""
        return (action - np.asarray(self.offset)) / np.asarray(self.scale)


@dataclass(frozen=True)
class Expectation:
    """The expected outcome of n actions, before they are applied."""

    terms: dict[str, Tensor]  # name -> (n,), expected values of the terms of `stream_reward`, unweighted
    possible: Tensor  # (n,) bool: the action can be applied and would do something
    chance: Tensor  # (n,) probability of success, 0 to 1
    fallback: Tensor  # (n, A) the action that is applied instead if the gate blocks this one


class StreamTask(Task):
    """A task with raw observations and its own dynamics (sim=none)."""

    own_dynamics = True
    computes_reward: ClassVar[bool] = True
    """Whether `stream_reward` gives the reward if a client sends none; False: rewards come from clients only."""
    picture_script: str | None = None
    """The JavaScript module that draws `picture` on the dashboard; None if there are no pictures.

    The path is relative to the folder of the task's own module, and must stay inside that folder. docs/new-stream.md
    describes what the module exports.
    """

    def action_units(self) -> ActionUnits | None:
        """How clients number an action; None: as the policy does, from -1 to 1 or from 0."""
        return None

    @abstractmethod
    def raw_fields(self) -> dict[str, RawField]:
        """The fields of a raw observation, in the order of its rows. Known before `bind`."""

    @abstractmethod
    def raw(self, state: Simulator) -> dict[str, Tensor]:
        """The raw observation that an outside source would send now: name -> (N, *shape) float32, read-only."""

    @abstractmethod
    def features(self, raw: dict[str, Tensor]) -> dict[str, Tensor]:
        """name -> (n, *shape) raw -> named observation blocks, each (n, width). Known before `bind`."""

    @abstractmethod
    def stream_reward(self, before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> dict[str, Tensor]:
        """Named, unweighted reward terms (n,) of actions (n, ...) between two raw observations."""

    def picture(self, raw: dict[str, Tensor], action: Tensor) -> dict[str, Any]:
        """A raw observation (name -> shape) and the action (A,) chosen in it, as plain values for `picture_script`.

        Its entry `last` describes the action. It is called only if there is a `picture_script`.
        """
        raise NotImplementedError

    def picture_path(self) -> Path | None:
        """The file of `picture_script`; None if the task has no pictures.

        Raises UserError unless it is a JavaScript file in or below the folder of the class that names it.
        """
        if self.picture_script is None:
            return None
        owner = next(cls for cls in type(self).__mro__ if "picture_script" in vars(cls))
        folder = Path(inspect.getfile(owner)).resolve().parent
        script = (folder / self.picture_script).resolve()
        if script.suffix != ".js" or not script.is_relative_to(folder) or not script.is_file():
            raise UserError(
                f"{owner.__name__}.picture_script={self.picture_script!r}: {script} is not a JavaScript file of the "
                f"task's. Allowed: the path of a .js file in or below {folder}, relative to it"
            )
        return script

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """The features of the raw observation."""
        return self.features(self.raw(state))

    def model_path(self) -> Path:
        """Raises UserError: there is no model."""
        raise UserError(f"{type(self).__name__} has no model, but its own dynamics. Use sim=none.")

    @cached_property
    def raw_width(self) -> int:
        """Numbers in a packed row."""
        return sum(field.size for field in self.raw_fields().values())

    def pack(self, raw: Mapping[str, Tensor]) -> Tensor:
        """name -> (n, *shape) -> rows (n, width) float32, the fields one after the other.

        Raises ValueError if a field is missing, unknown or of another shape.
        """
        fields = self.raw_fields()
        if set(raw) != set(fields):
            raise ValueError(f"raw fields are {', '.join(raw) or 'none'}; allowed: all of {', '.join(fields)}")
        for name, field in fields.items():
            if tuple(raw[name].shape[1:]) != field.shape or raw[name].dim() == 0:
                raise ValueError(f"raw field {name!r} has shape {tuple(raw[name].shape)}; allowed: (n, *{field.shape})")
        rows = [raw[name].reshape(len(raw[name]), field.size).float() for name, field in fields.items()]
        return torch.cat(rows, dim=1)

    def unpack(self, rows: Tensor) -> dict[str, Tensor]:
        """Rows (n, width) -> name -> (n, *shape), views of the rows. Raises ValueError for another width."""
        if rows.dim() != 2 or rows.shape[1] != self.raw_width:
            raise ValueError(f"raw rows have shape {tuple(rows.shape)}; allowed: (n, {self.raw_width})")
        fields = self.raw_fields()
        parts = rows.split([field.size for field in fields.values()], dim=1)
        return {
            name: part.reshape(len(rows), *field.shape)
            for (name, field), part in zip(fields.items(), parts, strict=True)
        }


class CostTask(StreamTask):
    """A stream task that computes the expected outcome of an action, which `gate=cost` needs."""

    @abstractmethod
    def expect(self, raw: dict[str, Tensor], action: Tensor) -> Expectation:
        """name -> (n, *shape) raw, actions (n, ...) -> what to expect of each, from them alone. Known before `bind`."""
