"""Pending decisions, by stream and decision id. Not thread-safe; the serving thread calls all methods.

    pending.add(experience)
    pending.followed("north", next_obs)                 # the next observation of that stream arrived
    complete = pending.rewarded("north", 17, 0.5)       # raises RewardError if the reward is refused

An experience is complete once it has its reward and its next observation, which may arrive in either order. A reward
may come late, a second time, for an unknown decision, or for the decision of another stream: such a reward is refused
with a reason and counted, and changes nothing. A decision that has waited too long is dropped; its reward is then late.

A reward may come in numbered parts, which add up. Each part counts once, however often it is sent; the reward without a
number is the last one. Only that one completes the decision.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from livegym.online.experience import Experience

MAX_PARTS = 1000  # of one decision's reward
OWN_PART = -1  # the number of the part that the task itself computed
REMEMBERED = 1000  # closed decisions of a stream that are remembered, so that a second reward is recognised
SESSION = 2**32
"""Decision ids are session x SESSION + a count from 1, so an id shows whether it is from before a restart."""


class RewardError(ValueError):
    """A reward that is refused; `kind` is late, duplicate, unknown or invalid."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass
class _Parts:
    """The parts of one decision's reward that have come so far."""

    total: float = 0.0
    numbers: set[int] = field(default_factory=set)


def _same(experience: Experience) -> Experience:
    return experience


class Pending:
    """The pending decisions of all streams."""

    def __init__(self, time_to_live: float, capacity: int, session: int = 1, streams: int = 1000) -> None:
        """`time_to_live`: s served after which a decision is dropped; `capacity`: most pending decisions in all.

        Beyond the capacity, the oldest decision is dropped. `session`: number of times that the run was opened; the
        rewards of decisions from earlier sessions that are not restored are late. `streams`: number of streams whose
        closed decisions are remembered; beyond it, the stream that closed one least recently is forgotten.
        """
        self._ttl = time_to_live
        self._capacity = capacity
        self._session = session
        self._streams = streams
        self._made = 0
        self._open: OrderedDict[tuple[str, int], Experience] = OrderedDict()  # the oldest first
        self._last: dict[str, int] = {}  # stream -> its newest pending decision
        self._parts: dict[tuple[str, int], _Parts] = {}  # of pending decisions only
        self._ended: OrderedDict[str, OrderedDict[int, str]] = OrderedDict()  # stream -> closed decision -> how
        self.on_drop: Callable[[Experience], None] = lambda _: None  # called with each decision that is dropped
        self.refused: Counter[str] = Counter()
        self.expired = 0

    def __len__(self) -> int:
        return len(self._open)

    def waits(self, stream: str) -> bool:
        """Return whether the newest decision of a stream is pending."""
        return self.last_of(stream) is not None

    def next_id(self) -> int:
        """Return an id that no decision of this run has had."""
        self._made += 1
        return self._session * SESSION + self._made

    def add(self, experience: Experience) -> None:
        """Add a decision. Raises ValueError if its id is in use."""
        key = (experience.stream, experience.decision)
        if key in self._open or experience.decision in self._ended.get(experience.stream, ()):
            raise ValueError(f"decision {experience.decision} of stream {experience.stream!r}: this id is in use")
        self._open[key] = experience
        self._last[experience.stream] = experience.decision
        while len(self._open) > self._capacity:
            self._expire(next(iter(self._open)))

    def restore(self, experiences: Iterable[Experience], now: float = 0.0) -> None:
        """Add the pending decisions of an earlier session, the oldest first.

        `now`: system time in s. A decision that is older than `time_to_live` by that clock still gets its reward, but
        no next observation: what the stream sends now does not follow from it.
        """
        for experience in experiences:
            self.add(experience)
            if now - experience.time > self._ttl:
                self.break_off(experience.stream)

    def break_off(self, stream: str) -> bool:
        """Give the stream's newest decision no next observation; return whether it waited for one.

        It stays pending: its reward completes it if the episode ended with it (`done`).
        """
        experience = self.last_of(stream)
        if experience is None or experience.next_obs is not None:
            return False
        del self._last[stream]
        return True

    def last_of(self, stream: str) -> Experience | None:
        """Return the newest decision of a stream; None if it is no longer pending."""
        decision = self._last.get(stream)
        return None if decision is None else self._open.get((stream, decision))

    def followed(self, stream: str, next_obs: np.ndarray, done: bool = False) -> Experience | None:
        """Add the next observation to the stream's newest decision; return the experience if it is complete, else None.

        Raises ValueError if the shape is wrong or a number is non-finite; nothing changes then.
        """
        experience = self.last_of(stream)
        if experience is None or experience.next_obs is not None:
            return None
        if next_obs.shape != experience.obs.shape or not np.isfinite(next_obs).all():
            raise ValueError(f"next observation: shape {next_obs.shape}; expected {experience.obs.shape}, all finite")
        return self._update(experience.followed(next_obs, done))

    def rewarded(
        self,
        stream: str,
        decision: int,
        reward: float,
        done: bool = False,
        part: int | None = None,
        change: Callable[[Experience], Experience] = _same,
    ) -> Experience | None:
        """Add the reward to a decision; return the experience if it is complete, else None.

        `done`: the episode ended there, so no observation follows. `part`: number of this part of the reward; None for
        the rest. `change`: what else changes about the decision. Raises RewardError; nothing changes then.
        """
        key = (stream, decision)
        if not math.isfinite(reward):
            raise self._refusal("invalid", f"reward {reward} of decision {decision}: must be a finite number")
        experience = self._open.get(key)
        if experience is None:
            raise self._unfit(stream, decision)
        if experience.reward is not None:
            raise self._refusal("duplicate", f"decision {decision} of stream {stream!r} has its reward already")
        parts = self._with_part(key, reward, part)
        experience = change(experience)
        if part is None:
            experience = experience.rewarded(parts.total)
        else:
            self._parts[key] = parts
        if done and experience.next_obs is None:
            experience = experience.followed(experience.obs, True)  # a placeholder: its value is never used
        return self._update(replace(experience, done=experience.done or done))

    def _with_part(self, key: tuple[str, int], reward: float, part: int | None) -> _Parts:
        """Return a decision's parts with one more. Raises RewardError if it was counted already, or is one too many."""
        parts = self._parts.get(key, _Parts())
        name = f"decision {key[1]} of stream {key[0]!r}"
        if part in parts.numbers:
            raise self._refusal("duplicate", f"part {part} of the reward of {name} was counted already")
        if part is not None and len(parts.numbers) >= MAX_PARTS:
            raise self._refusal("invalid", f"{name} has {MAX_PARTS} parts of its reward already, which is the limit")
        return _Parts(parts.total + reward, parts.numbers | ({part} if part is not None else set()))

    def in_parts(self, experience: Experience) -> bool:
        """Whether a part of a pending decision's reward has come: then it waits for a reward without a number."""
        return (experience.stream, experience.decision) in self._parts

    def change(self, experience: Experience) -> None:
        """Put a changed copy in place of a pending decision. Raises KeyError if it is not pending."""
        key = (experience.stream, experience.decision)
        if key not in self._open:
            raise KeyError(key)
        self._open[key] = experience

    def parts(self) -> list[dict[str, Any]]:
        """Return all parts of rewards as plain values for strict JSON, to store them over a restart."""
        return [
            {"stream": stream, "decision": decision, "total": parts.total, "numbers": sorted(parts.numbers)}
            for (stream, decision), parts in self._parts.items()
        ]

    def restore_parts(self, state: Iterable[Mapping[str, Any]]) -> None:
        """Restore what `parts` returned, after `restore`. Raises KeyError, TypeError or ValueError if it is invalid."""
        restored = {}
        for entry in state:
            key = (str(entry["stream"]), int(entry["decision"]))
            restored[key] = _Parts(float(entry["total"]), set(map(int, entry["numbers"])))
        self._parts = {key: parts for key, parts in restored.items() if key in self._open}

    def expire(self, now: float) -> int:
        """Drop the decisions that have waited too long at `now`, in s served; return how many."""
        old = []
        for key, experience in self._open.items():
            if now - experience.clock <= self._ttl:
                break  # the oldest come first
            old.append(key)
        for key in old:
            self._expire(key)
        return len(old)

    def all(self) -> list[Experience]:
        """Return all pending decisions, the oldest first, to store them over a restart."""
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
        self.on_drop(self._open[key])
        self._close(key, "dropped")

    def _close(self, key: tuple[str, int], how: str) -> None:
        stream, decision = key
        del self._open[key]
        self._parts.pop(key, None)
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
        name = f"decision {decision} of stream {stream!r}"
        if how == "rewarded":
            return self._refusal("duplicate", f"{name} has its reward already")
        if how == "dropped":
            reason = f"it waited longer than online.pending_ttl_s={self._ttl:g} s, or too many were pending"
            return self._refusal("late", f"{name} was dropped: {reason}")
        if 0 < decision < self._session * SESSION:
            return self._refusal("late", f"{name} was made before a restart, and was dropped then")
        unknown = f"stream {stream!r} has no known decision {decision}. Send both as they were in the answer"
        return self._refusal("unknown", unknown)

    def _refusal(self, kind: str, message: str) -> RewardError:
        self.refused[kind] += 1
        return RewardError(kind, message)
