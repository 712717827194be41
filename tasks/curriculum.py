"""Change a task from easy to full difficulty, by the measured success rate.

    curriculum = Curriculum(config.curriculum, task, num_envs, device)
    params = curriculum.params()                        # the task's parameters at the present level
    curriculum.begin(env_ids)                           # episodes begin, at the present level
    if curriculum.ended(env_ids, success): ...          # episodes ended; True: the level changed

The level is between 0 and 1. It goes up one step if the success rate over a number of finished episodes is high enough,
and down if it is too low. It changes in training only, not in a test. Episodes that began at another level do not
count. Without a configuration, the task has its full difficulty from the start (level 1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from livegym.schema import CurriculumConfig, KeyDoc
from livegym.tasks.base import Task
from livegym.tasks.env_state import put_rows, rows_of
from livegym.utils.errors import UserError, did_you_mean


class Curriculum:
    """The level of one Env, and the count of episodes since the success rate was last checked."""

    def __init__(self, config: CurriculumConfig | None, task: Task, num_envs: int, device: torch.device) -> None:
        """`task` has its parameters at level 1, and its active reasons.

        Raises UserError if the configuration names a parameter that the task does not have, that is not a number, or
        that the task reads only once, or if success cannot be measured.
        """
        self.config, self.full = config, task.params
        self.level = 1.0 if config is None else config.level
        self.level_at_start = torch.full((num_envs,), self.level, dtype=torch.float64, device=device)
        self._moves = False
        self.episodes = self.successes = 0
        if config is not None:
            _check(config, task)

    def follow_success(self) -> None:
        """Let the level follow the success rate from now on. Training calls this; a test does not."""
        self._moves = True

    def check_moves(self, ranges: bool) -> None:
        """Raises UserError if a level changes nothing. `ranges`: a range of the randomisation widens with the level."""
        if self.config is not None and not self.config.params and not ranges:
            raise UserError(
                "task.curriculum changes nothing: it has no params, and no entry of task.randomization has "
                "curriculum: true. Name what is easier at level 0, for example task.curriculum.params.<name>=<value>"
            )

    def params(self) -> Any:
        """The task's parameters at the present level: between their easy values and the full ones."""
        if self.config is None:
            return self.full
        easy = self.config.params.items()
        return dataclasses.replace(
            self.full, **{name: value + self.level * (getattr(self.full, name) - value) for name, value in easy}
        )

    def begin(self, env_ids: Tensor) -> None:
        """Environments (n,) begin an episode."""
        self.level_at_start[env_ids] = self.level

    def ended(self, env_ids: Tensor, success: Tensor) -> bool:
        """Count the finished episodes of environments (n,), success (n,) bool; returns whether the level changed."""
        if self.config is None or not self._moves:
            return False
        counts = self.level_at_start[env_ids].cpu() == self.level
        self.episodes += int(counts.sum())
        self.successes += int((success & counts).sum())
        if self.episodes < self.config.episodes:
            return False
        rate, before = self.successes / self.episodes, self.level
        self.episodes = self.successes = 0
        if rate >= self.config.raise_at:
            self.level = min(1.0, round(self.level + self.config.step, 9))
        elif rate < self.config.lower_at:
            self.level = max(self.config.level, round(self.level - self.config.step, 9))
        return self.level != before

    def set_level(self, level: float) -> None:
        """Set the level, 0 to 1; without a configuration it stays at 1."""
        if self.config is not None:
            self.level = level
            self.episodes = 0
            self.successes = 0

    def state_dict(self) -> dict[str, float]:
        """Level and counts."""
        return {"level": self.level, "episodes": self.episodes, "successes": self.successes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; without a configuration, the level stays at 1."""
        if self.config is not None:
            self.level = float(state["level"])
            self.episodes, self.successes = int(state["episodes"]), int(state["successes"])

    def episode_state(self, env_ids: Tensor) -> dict[str, Tensor]:
        """The level at which the unfinished episodes of environments (n,) began: `level_at_start` (n,)."""
        return rows_of({"level_at_start": self.level_at_start}, env_ids)

    def load_episode_state(self, state: Mapping[str, Tensor], env_ids: Tensor) -> None:
        """Restore an `episode_state` into environments (n,)."""
        put_rows({"level_at_start": self.level_at_start}, state, env_ids)


def _out_of_range(value: float, doc: KeyDoc) -> str:
    """The bound of a parameter that a value violates; '' if it violates none."""
    if doc.low is not None and value < doc.low:
        return f"at least {doc.low:g}"
    if doc.above is not None and value <= doc.above:
        return f"above {doc.above:g}"
    return f"at most {doc.high:g}" if doc.high is not None and value > doc.high else ""


def _check(config: CurriculumConfig, task: Task) -> None:
    params = task.params
    numbers = [f.name for f in dataclasses.fields(params) if type(getattr(params, f.name)) is float]
    movable = [name for name in numbers if name not in task.bound_params]
    for name in config.params:
        if name not in movable:
            why = "is read only once, when the task is built" if name in numbers else "is not a number in task.params"
            raise UserError(
                f"task.curriculum.params.{name}: {name} {why}. "
                f"Allowed: {', '.join(movable) or 'none'}.{did_you_mean(name, movable)}"
            )
        doc = next(f for f in dataclasses.fields(params) if f.name == name).metadata.get("doc")
        problem = "" if doc is None else _out_of_range(config.params[name], doc)
        if problem:
            raise UserError(f"task.curriculum.params.{name}={config.params[name]:g}: must be {problem}.")
    if task.success_reason not in task.active_reasons:
        raise UserError(
            "task.curriculum: the task has no success reason, or its terminations switch it off, so there is nothing "
            "to measure. Set task.curriculum=null."
        )
    if config.lower_at > config.raise_at:
        raise UserError(
            f"task.curriculum.lower_at={config.lower_at} is above raise_at={config.raise_at}: the level would go "
            f"up and down at once. Allowed: up to raise_at. Try task.curriculum.lower_at={config.raise_at / 2:g}"
        )
