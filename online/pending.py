"""Decisions that wait for their reward, by stream and decision id. Belongs to whoever serves: nobody else touches it.

    pending.add(experience)
    complete = pending.complete("north", 17, reward, next_obs, done)     # raises RewardError where that makes no sense

A reward may come late, twice, for a decision that never was, or for another stream's. Each is counted, refused with its
reason, and changes nothing. What waits too long is given up, and its reward is then too late.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict

import numpy as np

from online.experience import Experience

REMEMBERED = 1000  # decisions of a stream that have ended, so that a second reward is known as such


class RewardError(ValueError):
    """A reward that is refused; `kind` is late, duplicate, unknown or invalid."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Pending:
    """Open decisions of many streams."""

    def __init__(self, time_to_live: float, capacity: int) -> None:
        """`time_to_live`: s after which a decision is given up; `capacity`: open decisions in all, the oldest goes."""
        self._ttl, self._capacity = time_to_live, capacity
        self._open: OrderedDict[tuple[str, int], Experience] = OrderedDict()  # the oldest first
        self._ended: dict[str, OrderedDict[int, str]] = {}  # stream -> decision -> how it ended
        self.refused: Counter[str] = Counter()
        self.expired = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, experience: Experience) -> None:
        """A new decision. Raises ValueError where its id is in use."""
        key = (experience.stream, experience.decision)
        if key in self._open or experience.decision in self._ended.get(experience.stream, ()):
            raise ValueError(f"decision {experience.decision} of stream {experience.stream!r} has been made already")
        self._open[key] = experience
        while len(self._open) > self._capacity:
            self._expire(next(iter(self._open)))

    def complete(self, stream: str, decision: int, reward: float, next_obs: np.ndarray, done: bool) -> Experience:
        """The experience with its reward; it waits no longer. Raises RewardError, and nothing has changed then."""
        if not math.isfinite(reward):
            raise self._refusal("invalid", f"reward {reward} of decision {decision}: must be a finite number")
        experience = self._open.get((stream, decision))
        if experience is None:
            raise self._unfit(stream, decision)
        if next_obs.shape != experience.obs.shape or not np.isfinite(next_obs).all():
            words = f"{next_obs.shape[0] if next_obs.ndim else 0} of {experience.obs.shape[0]} finite numbers"
            raise self._refusal("invalid", f"next observation of decision {decision}: {words}")
        del self._open[stream, decision]
        self._end(stream, decision, "rewarded")
        return experience.completed(reward, next_obs, done)

    def expire(self, now: float) -> int:
        """Gives up what has waited too long at `now`, s since 1970; how many."""
        old = [key for key, experience in self._open.items() if now - experience.time > self._ttl]
        for key in old:
            self._expire(key)
        return len(old)

    def open_of(self, stream: str) -> list[Experience]:
        """The open decisions of a stream, the oldest first."""
        return [experience for (name, _), experience in self._open.items() if name == stream]

    def all(self) -> list[Experience]:
        """All open decisions, the oldest first: to be kept over a restart."""
        return list(self._open.values())

    def _expire(self, key: tuple[str, int]) -> None:
        del self._open[key]
        self.expired += 1
        self._end(*key, "given up")

    def _end(self, stream: str, decision: int, how: str) -> None:
        ended = self._ended.setdefault(stream, OrderedDict())
        ended[decision] = how
        if len(ended) > REMEMBERED:
            ended.popitem(last=False)

    def _unfit(self, stream: str, decision: int) -> RewardError:
        ended = self._ended.get(stream)
        how = ended.get(decision) if ended is not None else None
        if how == "rewarded":
            return self._refusal("duplicate", f"decision {decision} of stream {stream!r} has its reward already")
        if how == "given up":
            words = f"decision {decision} of stream {stream!r} waited longer than {self._ttl:g} s and was given up"
            return self._refusal("late", words)
        return self._refusal("unknown", f"stream {stream!r} has made no decision {decision} that is remembered")

    def _refusal(self, kind: str, message: str) -> RewardError:
        self.refused[kind] += 1
        return RewardError(kind, message)
