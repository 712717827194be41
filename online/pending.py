"""Decisions that wait for what comes of them, by stream and decision id. Belongs to the thread that serves.

    pending.add(experience)
    pending.followed("north", next_obs)                 # the next observation of that stream came
    complete = pending.rewarded("north", 17, 0.5)       # raises RewardError if that makes no sense

An experience is complete with its reward and the observation that came next, in whatever order they come. A reward may
come late, twice, for a decision that never was, or for another stream's: each is counted, refused with its reason, and
changes nothing. What waits too long is given up, and its reward is then too late.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from livegym.online.experience import Experience

REMEMBERED = 1000  # decisions of a stream that have ended, so that a second reward is known as such
SESSION = 2**32
"""Decision ids are session x SESSION + a count from 1 on: what was decided before a restart is known by its id."""


class RewardError(ValueError):
    """A reward that is refused; `kind` is late, duplicate, unknown or invalid."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Pending:
    """Open decisions of many streams."""

    def __init__(self, time_to_live: float, capacity: int, session: int = 1, streams: int = 1000) -> None:
        """`time_to_live`: s served, after which a decision is given up; `capacity`: open ones in all, the oldest goes.

        `session`: how often the run was taken up; ids of earlier ones that are not restored are too late. `streams`:
        whose ended decisions are remembered; those of the one that ended one longest ago are forgotten.
        """
        self._ttl = time_to_live
        self._capacity = capacity
        self._session = session
        self._streams = streams
        self._made = 0
        self._open: OrderedDict[tuple[str, int], Experience] = OrderedDict()  # the oldest first
        self._last: dict[str, int] = {}  # stream -> its newest open decision
        self._ended: OrderedDict[str, OrderedDict[int, str]] = OrderedDict()  # stream -> decision -> how it ended
        self.refused: Counter[str] = Counter()
        self.expired = 0

    def __len__(self) -> int:
        return len(self._open)

    def next_id(self) -> int:
        """An id that no decision of this run ever had."""
        self._made += 1
        return self._session * SESSION + self._made

    def add(self, experience: Experience) -> None:
        """A new decision. Raises ValueError if its id is in use."""
        key = (experience.stream, experience.decision)
        if key in self._open or experience.decision in self._ended.get(experience.stream, ()):
            raise ValueError(f"decision {experience.decision} of stream {experience.stream!r} has been made already")
        self._open[key] = experience
        self._last[experience.stream] = experience.decision
        while len(self._open) > self._capacity:
            self._expire(next(iter(self._open)))

    def restore(self, experiences: Iterable[Experience]) -> None:
        """Takes over decisions of an earlier session, the oldest first."""
        for experience in experiences:
            self.add(experience)

    def last_of(self, stream: str) -> Experience | None:
        """The newest decision of a stream, if it is still open."""
        decision = self._last.get(stream)
        return None if decision is None else self._open.get((stream, decision))

    def followed(self, stream: str, next_obs: np.ndarray, done: bool = False) -> Experience | None:
        """The next observation of a stream came: its newest decision, if that is complete by now, else None.

        Raises ValueError if the observation does not fit; nothing has changed then.
        """
        experience = self.last_of(stream)
        if experience is None or experience.next_obs is not None:
            return None
        if next_obs.shape != experience.obs.shape or not np.isfinite(next_obs).all():
            raise ValueError(f"an observation of {next_obs.shape}; {experience.obs.shape} finite numbers are expected")
        return self._update(experience.followed(next_obs, done))

    def rewarded(self, stream: str, decision: int, reward: float, done: bool = False) -> Experience | None:
        """The reward of a decision came: the experience, if it is complete by now, else None.

        `done`: the episode ended there, so no observation follows. Raises RewardError; nothing has changed then.
        """
        if not math.isfinite(reward):
            raise self._refusal("invalid", f"reward {reward} of decision {decision}: must be a finite number")
        experience = self._open.get((stream, decision))
        if experience is None:
            raise self._unfit(stream, decision)
        if experience.reward is not None:
            raise self._refusal("duplicate", f"decision {decision} of stream {stream!r} has its reward already")
        experience = experience.rewarded(reward)
        if done and experience.next_obs is None:
            experience = experience.followed(experience.obs, True)  # nothing follows: it counts for nothing
        return self._update(replace(experience, done=experience.done or done))

    def expire(self, now: float) -> int:
        """Gives up what has waited too long at `now`, s served; how many."""
        old = []
        for key, experience in self._open.items():
            if now - experience.clock <= self._ttl:
                break  # the oldest come first
            old.append(key)
        for key in old:
            self._expire(key)
        return len(old)

    def all(self) -> list[Experience]:
        """All open decisions, the oldest first: to be kept over a restart."""
        return list(self._open.values())

    def _update(self, experience: Experience) -> Experience | None:
        key = (experience.stream, experience.decision)
        if not experience.complete:
            self._open[key] = experience
            return None
        self._close(key, "rewarded")
        return experience

    def _expire(self, key: tuple[str, int]) -> None:
        self.expired += 1
        self._close(key, "given up")

    def _close(self, key: tuple[str, int], how: str) -> None:
        stream, decision = key
        del self._open[key]
        if self._last.get(stream) == decision:
            del self._last[stream]
        ended = self._ended.setdefault(stream, OrderedDict())
        self._ended.move_to_end(stream)
        ended[decision] = how
        if len(ended) > REMEMBERED:
            ended.popitem(last=False)
        if len(self._ended) > self._streams:
            self._ended.popitem(last=False)

    def _unfit(self, stream: str, decision: int) -> RewardError:
        ended = self._ended.get(stream)
        how = ended.get(decision) if ended is not None else None
        words = f"decision {decision} of stream {stream!r}"
        if how == "rewarded":
            return self._refusal("duplicate", f"{words} has its reward already")
        if how == "given up":
            return self._refusal("late", f"{words} waited longer than {self._ttl:g} s and was given up")
        if 0 < decision < self._session * SESSION:
            return self._refusal("late", f"{words} was made before a restart, and was given up with it")
        return self._refusal("unknown", f"stream {stream!r} has made no decision {decision} that is remembered")

    def _refusal(self, kind: str, message: str) -> RewardError:
        self.refused[kind] += 1
        return RewardError(kind, message)
