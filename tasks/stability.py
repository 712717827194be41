"""Find, count, record and report environments whose numbers are non-finite, or finite but absurd.

A reward beyond `task.max_reward` is absurd, because it would dominate everything that is learned, and so is an
observation beyond `HUGE`. Both are treated as non-finite: the episode ends as `unstable`, and its reward in that step
counts as 0. So no learner uses such a number, and no mean contains it. An environment without such numbers is *sound*.

Every such environment is counted. The rate of warnings is limited, because a bad parameter can break thousands of
environments a second. If no environment stays sound for HOPELESS steps, there is nothing to learn from, and the run
ends.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from livegym.tasks.stats import Largest
from livegym.tasks.terms import UNSTABLE, ObservationLayout
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

MAX_REWARD = 1e6  # default of task.max_reward; larger rewards would dominate the normaliser of values
HUGE = 1e15  # larger observations are treated as non-finite: their squares would overflow in a normaliser
HOPELESS = 100  # steps in a row in which no environment stayed sound
REDRAWS = 10  # times that a start state with such numbers is drawn again
INTERVAL = 10.0  # s between warnings


class StateLog(Protocol):
    """Keeps the last states, to explain an environment whose state became non-finite (sim/recorder.py)."""

    def push(self) -> None:
        """Record the state after a control step."""

    def dump(self, env_ids: Tensor, step: int) -> list[Path]:
        """Write the last states of environments (n,), which still have the non-finite one; returns the files."""


@dataclass(frozen=True)
class _Fault:
    """The problem of the first unsound environment, in words."""

    what: str = "became non-finite"
    detail: str = "the simulator's state"
    advice: str = "Check the task's parameters and reward weights, or try physics=accurate."


class StabilityWatch:
    """Finds and reports the environments of one Env that are not sound."""

    def __init__(self, name: str, num_envs: int, max_reward: float = MAX_REWARD) -> None:
        self.name = name
        self.num_envs = num_envs
        self.max_reward = max_reward
        self.recorder: StateLog | None = None
        self.count = 0  # since the last `take_count`
        self.huge_rewards = 0  # since the last `take_huge_rewards`
        self.steps = 0  # control steps, including those before a resume
        self._largest = Largest()  # since the last `take_largest`
        self._in_a_row = 0
        self._warned_at: float | None = None
        self._fault = _Fault()

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
        """The number of environments that were not sound since the last call."""
        count, self.count = self.count, 0
        return count

    def take_huge_rewards(self) -> int:
        """The number of rewards beyond `max_reward` since the last call."""
        count, self.huge_rewards = self.huge_rewards, 0
        return count

    def take_largest(self) -> Largest:
        """The largest numbers since the last call, without those of environments that were not sound."""
        largest, self._largest = self._largest, Largest()
        return largest

    def find(
        self,
        unstable: Tensor,
        weighted: Tensor,
        reward: Tensor,
        obs: Mapping[str, Tensor],
        terms: Sequence[str],
        layout: ObservationLayout,
    ) -> Tensor:
        """(N,) bool: the environments that are not sound after a step.

        `unstable` (N,): those that the simulator has flagged; `weighted` (N, T): the reward terms named `terms`, with
        sum `reward` (N,); `obs`: group -> (N, width).
        """
        rewards = [_reach(weighted), _reach(reward)]
        observations = [_reach(value) for value in obs.values()]
        # comparisons with NaN are false
        if all(each <= self.max_reward for each in rewards) and all(each <= HUGE for each in observations):
            last = self._largest
            self._largest = Largest(max(last.reward, *rewards), max(last.observation, *observations))
            return unstable.clone()
        huge = ~(torch.cat([weighted, reward[:, None]], 1).abs() <= self.max_reward).all(1)
        bad_obs = torch.stack([_bad_rows(value) for value in obs.values()]).any(0)
        found = unstable | huge | bad_obs
        first = int(found.nonzero()[0])
        if not unstable[first]:
            self._fault = (
                self._reward_fault(weighted[first], terms)
                if huge[first]
                else _observation_fault({group: value[first] for group, value in obs.items()}, layout)
            )
        self.huge_rewards += int((huge & torch.isfinite(reward)).sum())
        return found

    def _reward_fault(self, weighted: Tensor, terms: Sequence[str]) -> _Fault:
        """weighted (T,): the terms of one environment, of which one or the sum is non-finite or beyond the limit."""
        index = int(weighted.abs().nan_to_num(math.inf, math.inf).argmax())
        detail = f"reward term {terms[index]!r} is {float(weighted[index]):.4g}"
        if not math.isfinite(float(weighted.sum())):
            return _Fault(detail=detail)
        return _Fault(
            f"had a reward beyond task.max_reward={self.max_reward:g}",
            detail,
            f"Check the weight of {terms[index]!r} in task.rewards and how the task computes it, "
            "or raise task.max_reward.",
        )

    def all_sound(self) -> None:
        """No environment was reported in this step."""
        self._in_a_row = 0

    def report(self, env_ids: Tensor, episode_steps: Tensor) -> None:
        """Environments (n,) were not sound at steps (n,) of their episodes, and still hold the bad state.

        Raises UserError if no environment has stayed sound for long.
        """
        fault, self._fault = self._fault, _Fault()
        self.count += len(env_ids)
        self._in_a_row = self._in_a_row + 1 if len(env_ids) == self.num_envs else 0
        if self._in_a_row >= HOPELESS:
            raise UserError(
                f"{self.name}: every environment {fault.what} in each of {HOPELESS} steps ({fault.detail}). "
                f"{fault.advice}",
                exit_code=1,
            )
        if self._is_due():
            self._warn(env_ids, int(episode_steps[0]), fault)

    def bad_starts(self, finite: Tensor, obs: Mapping[str, Tensor]) -> Tensor | None:
        """(n,) bool: which starts are not sound; None if all are.

        `finite` (n,): whether the start states are finite; `obs`: group -> (n, width), the first observations.
        """
        if finite.all() and all(_reach(value) <= HUGE for value in obs.values()):
            return None
        return ~finite | torch.stack([_bad_rows(value) for value in obs.values()]).any(0)

    def report_starts(
        self, env_ids: Tensor, layout: ObservationLayout, obs: Mapping[str, Tensor], hopeless: bool
    ) -> None:
        """Environments (n,) have a start that is not sound; `obs`: group -> (n, width), their first observations.

        Raises UserError if `hopeless`: it has been drawn again often enough.
        """
        self.count += len(env_ids)
        first = {group: value[0] for group, value in obs.items()}
        fault = _observation_fault(first, layout)
        if hopeless:
            raise UserError(
                f"{self.name}: environment {int(env_ids[0])} has no usable start: {fault.detail} after each of "
                f"{REDRAWS + 1} resets. Check the task's reset and observe.",
                exit_code=1,
            )
        if self._is_due():
            log.warning(
                "%s: %d environment(s) had an unusable start (%s: %s). Each is drawn again, and counted.",
                self.name,
                len(env_ids),
                _shown(env_ids),
                fault.detail,
            )

    def _is_due(self) -> bool:
        now = time.monotonic()
        due = self._warned_at is None or now - self._warned_at >= INTERVAL
        if due:
            self._warned_at = now
        return due

    def _warn(self, env_ids: Tensor, first_step: int, fault: _Fault) -> None:
        log.warning(
            "%s: %d environment(s) %s (%s; the first at step %d: %s). Reset, counted as '%s'.",
            self.name,
            len(env_ids),
            fault.what,
            _shown(env_ids),
            first_step,
            fault.detail,
            UNSTABLE,
        )
        files = self.recorder.dump(env_ids, self.steps) if self.recorder is not None else []
        if files:
            log.warning("their last states are in %s", ", ".join(str(file) for file in files))


def _shown(env_ids: Tensor) -> str:
    return ", ".join(str(i) for i in env_ids[:5].tolist()) + (", ..." if len(env_ids) > 5 else "")


def _reach(value: Tensor) -> float:
    """The largest magnitude in a tensor; NaN if it has one."""
    if value.numel() == 0:
        return 0.0
    low, high = torch.aminmax(value)  # one pass, as fast as a sum
    return max(-float(low), float(high))


def _bad_rows(value: Tensor) -> Tensor:
    """(N, width) -> (N,) bool: which rows have a number that is non-finite or beyond `HUGE`."""
    return ~(value.abs() <= HUGE).all(1)


def _observation_fault(rows: Mapping[str, Tensor], layout: ObservationLayout) -> _Fault:
    """The first block with a bad number in one environment's observations: group -> (width,)."""
    for group, row in rows.items():
        start = 0
        for name, width in layout.describe(group):
            block = row[start : start + width]
            start += width
            bad = ~(block.abs() <= HUGE)
            if bad.any():
                number = float(block[bad][0])
                detail = f"observation block {name!r} is {number:.4g}"
                advice = f"Check how the task computes {name!r} in observe, or scale it there."
                if math.isfinite(number):
                    return _Fault(f"had an observation beyond {HUGE:g}", detail, advice)
                return _Fault(detail=detail)
    return _Fault(detail="its start state is non-finite")
