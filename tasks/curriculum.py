"""From an easy task to the full one, by the success that was measured.

    curriculum = Curriculum(config.curriculum, config.params, success="success")
    params = curriculum.params()             # the task's parameters at the present level
    if curriculum.ended(episodes=3, successes=2): ...     # the level changed

The level is between 0 and 1. It goes up one step where the success rate over the last so many ended episodes is high
enough, down where it is too low, and only while a policy learns: whoever watches changes nothing. Without a
configuration the task is the full one from the beginning (level 1).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from cfg.schema import CurriculumConfig
from utils.errors import UserError, did_you_mean


class Curriculum:
    """The level of one Env, and the count of episodes since it last was judged."""

    def __init__(self, config: CurriculumConfig | None, params: Any, success: str | None) -> None:
        """`params`: the task's, at level 1; `success`: the active reason that means it.

        Raises UserError where the configuration names a parameter that is not a number of the task's, or where
        success cannot be measured.
        """
        self.config, self.full = config, params
        self.level = 1.0 if config is None else config.level
        self.learning = False
        self.episodes = self.successes = 0
        if config is None:
            return
        numbers = [f.name for f in dataclasses.fields(params) if type(getattr(params, f.name)) is float]
        for name in config.params:
            if name not in numbers:
                raise UserError(
                    f"task.curriculum.params.{name}: the task has no such number. "
                    f"Allowed: {', '.join(numbers) or 'none'}.{did_you_mean(name, numbers)}"
                )
        if success is None:
            raise UserError(
                "task.curriculum: the task has no success, or terminations switch it off, so there is nothing to "
                "measure. Set task.curriculum=null."
            )
        if config.lower_at > config.raise_at:
            raise UserError(
                f"task.curriculum.lower_at={config.lower_at} is above raise_at={config.raise_at}: the level would go "
                f"up and down at once. Allowed: up to raise_at. Try task.curriculum.lower_at={config.raise_at / 2:g}"
            )

    def params(self) -> Any:
        """The task's parameters at the present level: between their easy values and the full ones."""
        if self.config is None:
            return self.full
        easy = self.config.params.items()
        return dataclasses.replace(
            self.full, **{name: value + self.level * (getattr(self.full, name) - value) for name, value in easy}
        )

    def ended(self, episodes: int, successes: int) -> bool:
        """So many episodes ended, so many of them in success: whether the level changed."""
        if self.config is None or not self.learning:
            return False
        self.episodes += episodes
        self.successes += successes
        if self.episodes < self.config.episodes:
            return False
        rate, before = self.successes / self.episodes, self.level
        self.episodes = self.successes = 0
        if rate >= self.config.raise_at:
            self.level = min(1.0, self.level + self.config.step)
        elif rate < self.config.lower_at:
            self.level = max(self.config.level, self.level - self.config.step)
        return self.level != before

    def set_level(self, level: float) -> None:
        """Puts it at a level, 0 to 1; without a configuration it stays at 1."""
        if self.config is not None:
            self.level, self.episodes, self.successes = level, 0, 0

    def state_dict(self) -> dict[str, float]:
        """Level and counts."""
        return {"level": self.level, "episodes": self.episodes, "successes": self.successes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state_dict` was; a task without a curriculum stays the full one."""
        if self.config is not None:
            self.level = float(state["level"])
            self.episodes, self.successes = int(state["episodes"]), int(state["successes"])
