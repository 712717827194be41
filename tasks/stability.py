"""Count, record and report environments whose state became non-finite.

Every one is counted. The rate of warnings is limited, because a bad parameter can break thousands of environments a
second. If no environment stays finite for HOPELESS steps, there is nothing to learn from, and the run ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from livegym.tasks.terms import UNSTABLE
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

HOPELESS = 100  # steps in a row in which no environment stayed finite
INTERVAL = 10.0  # s between warnings


class StateLog(Protocol):
    """Keeps the last states, to explain an environment whose state became non-finite (sim/recorder.py)."""

    def push(self) -> None:
        """Record the state after a control step."""

    def dump(self, env_ids: Tensor, step: int) -> list[Path]:
        """Write the last states of environments (n,), which still have the non-finite one; returns the files."""


class StabilityWatch:
    """Counts and reports the non-finite environments of one Env."""

    def __init__(self, name: str, num_envs: int) -> None:
        self.name, self.num_envs = name, num_envs
        self.recorder: StateLog | None = None
        self.count = 0  # since the last `take_count`
        self.steps = 0  # control steps, including those before a resume
        self._in_a_row = 0
        self._warned_at: float | None = None

    def stepped(self) -> None:
        """Count and record a control step; called before any reset."""
        self.steps += 1
        if self.recorder is not None:
            self.recorder.push()

    def state_dict(self) -> dict[str, int]:
        """The number of control steps, which is part of a recorder's file names."""
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue to count from a `state_dict`."""
        self.steps = state["steps"]

    def take_count(self) -> int:
        """The number of environments that became non-finite since the last call."""
        count, self.count = self.count, 0
        return count

    def all_finite(self) -> None:
        """No environment became non-finite in this step."""
        self._in_a_row = 0

    def report(self, env_ids: Tensor, episode_steps: Tensor) -> None:
        """Environments (n,) became non-finite at steps (n,) of their episodes, and still hold the bad state.

        Raises UserError if no environment has stayed finite for long.
        """
        self.count += len(env_ids)
        self._in_a_row = self._in_a_row + 1 if len(env_ids) == self.num_envs else 0
        if self._in_a_row >= HOPELESS:
            raise UserError(
                f"{self.name}: every environment became non-finite in each of {HOPELESS} steps. "
                "Check the task's parameters and reward weights, or try physics=accurate.",
                exit_code=1,
            )
        now = time.monotonic()
        if self._warned_at is None or now - self._warned_at >= INTERVAL:
            self._warned_at = now
            self._warn(env_ids, int(episode_steps[0]))

    def _warn(self, env_ids: Tensor, first_step: int) -> None:
        shown = ", ".join(str(i) for i in env_ids[:5].tolist()) + (", ..." if len(env_ids) > 5 else "")
        log.warning(
            "%s: %d environment(s) became non-finite (%s; the first at step %d). Reset, counted as '%s'.",
            self.name,
            len(env_ids),
            shown,
            first_step,
            UNSTABLE,
        )
        files = self.recorder.dump(env_ids, self.steps) if self.recorder is not None else []
        if files:
            log.warning("their last states are in %s", ", ".join(str(file) for file in files))
