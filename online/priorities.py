"""Priorities of the experiences in a replay buffer. They are in a file of the run, so they outlive the trainer.

    priorities = Priorities(path, capacity)          # None instead of a path: in memory only
    priorities.begin(slots, numbers, rewards)        # first priorities of new experiences
    priorities.set(slots, numbers, errors)           # after an update
    priorities.of(slots)                             # (n,)

The priority is the error that the trainer reports, in standard deviations, plus a floor (Schaul et al. 2016,
arXiv:1511.05952). Until it reports one, it is |reward - mean| / standard deviation over all rewards so far, plus the
floor, which favours rare and high rewards. A reward beyond `task.max_reward` is never trained on: it does not count in
mean and deviation, and its experience gets the floor. Nor is an outlier (`online/outliers.py`): the trainer sets
`max_reward` to the present limit.

Only the trainer uses the file. If it cannot be created, the priorities are kept in memory, and are lost at a restart.
"""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path

import numpy as np

from livegym.tasks.stability import MAX_REWARD
from livegym.utils.files import discard

log = logging.getLogger(__name__)

FLOOR = 0.05  # least priority, so that every experience is sampled now and then
HEAD = 3  # numbers before the entries: count, mean and sum of squared differences of all rewards


class Priorities:
    """The priority of each slot, and the number of the experience to which it belongs."""

    def __init__(self, path: Path | None, capacity: int, max_reward: float = MAX_REWARD) -> None:
        """Open or create the file. A file of another size belongs to another buffer, and is replaced.

        `max_reward`: greatest reward that is trained on, either way.
        """
        self.max_reward = max_reward
        stored = _opened(path, HEAD + 2 * capacity, max_reward) if path is not None else None
        values = np.full(HEAD + 2 * capacity, -1.0) if stored is None else stored
        if stored is None:
            values[:HEAD] = 0.0
        self._rewards = values[:HEAD]
        self._priority = values[HEAD : HEAD + capacity]
        self._number = values[HEAD + capacity :]  # float64 counts exactly to 2^53

    def forget(self) -> None:
        """Forget all priorities, and mean and deviation of the rewards: another range of rewards counts now."""
        self._number[:] = -1.0
        self._rewards[:] = 0.0

    def unknown(self, slots: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return (n,) whether the experiences `numbers` in `slots` have no priority yet."""
        return self._number[slots] != numbers

    def begin(self, slots: np.ndarray, numbers: np.ndarray, rewards: np.ndarray) -> None:
        """Set the first priorities (n,) of new experiences, from their rewards (n,)."""
        rewards = rewards.astype(float)
        usable = np.abs(rewards) <= self.max_reward
        if usable.any():
            self._count(rewards[usable])
        total, mean, squares = self._rewards.tolist()
        spread = math.sqrt(squares / (total - 1)) if total > 1 else 0.0
        self._write(slots, numbers, np.where(usable, np.abs(rewards - mean) / (spread or 1.0), 0.0))

    def _count(self, rewards: np.ndarray) -> None:
        count, mean, squares = self._rewards.tolist()
        total, shift = count + len(rewards), float(rewards.mean()) - mean
        squares += float(((rewards - rewards.mean()) ** 2).sum()) + shift**2 * count * len(rewards) / total
        mean += shift * len(rewards) / total  # Chan, Golub and LeVeque 1983
        self._rewards[:] = total, mean, squares

    def set(self, slots: np.ndarray, numbers: np.ndarray, errors: np.ndarray) -> None:
        """Set new priorities from errors (n,), in standard deviations, for experiences that are still known."""
        same = ~self.unknown(slots, numbers)
        self._write(slots[same], numbers[same], np.abs(errors[same]))

    def of(self, slots: np.ndarray) -> np.ndarray:
        """Return the priorities (n,)."""
        return np.array(self._priority[slots])

    def _write(self, slots: np.ndarray, numbers: np.ndarray, errors: np.ndarray) -> None:
        self._number[slots] = -1.0  # a process that is killed here leaves an unknown priority, not a wrong one
        self._priority[slots] = errors + FLOOR
        self._number[slots] = numbers


def _opened(path: Path, size: int, max_reward: float) -> np.ndarray | None:
    """Return the mapped numbers (size,) of the file; a new one has count 0 and no priorities. None if that failed."""
    try:
        if not path.exists() or path.stat().st_size != 8 * size:
            _make(path, size)
        values = np.memmap(path, np.float64, "r+", shape=(size,))
    except OSError as error:
        log.warning("%s cannot be used (%s): priorities are lost when the trainer ends.", path, error)
        return None
    count, mean, squares = values[:HEAD].tolist()
    if not np.isfinite(values).all() or count < 0 or squares < 0:
        _set_again(values, f"{path} is damaged")
    elif abs(mean) > max_reward or squares > count * max_reward**2:
        _set_again(values, f"{path} counts rewards above task.max_reward={max_reward:g}, which was greater before")
    return values


def _set_again(values: np.ndarray, why: str) -> None:
    log.warning("%s: all priorities are set again.", why)
    values[:HEAD], values[HEAD:] = 0.0, -1.0


def _make(path: Path, size: int) -> None:
    temporary = path.with_name(f"{path.name}.making")
    try:
        with temporary.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 8 * size)  # otherwise a full disk would be a signal later
        values = np.memmap(temporary, np.float64, "r+", shape=(size,))
        values[HEAD:] = -1.0
        values.flush()
        temporary.replace(path)
    finally:
        discard(temporary)
