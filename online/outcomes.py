"""The rewards that versions really earned: the mean reward of blocks of decisions, or the return of episodes.

    outcomes = Outcomes(discount=0.99, streams=1000)
    outcomes.earned(experience)          # the serving thread: a completed decision
    outcomes.end("north")                # the serving thread: the stream's episode has ended
    outcomes.take()                      # another thread: the outcomes since the last call

With discount 0 an outcome is the mean reward of `BLOCK` decisions of a stream; with a larger one it is the return of an
episode, because a single reward says little about what an action leads to. A unit in which a person intervened has no
outcome. Decisions of a challenger (`online/trial.py`) are kept apart from those of the champion.
"""

from __future__ import annotations

import math
import queue
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from livegym.online.experience import Experience
from livegym.online.judge import BLOCK


class Outcome(NamedTuple):
    """The reward of one unit."""

    value: float  # mean reward of a decision, or return of an episode
    challenger: bool  # whether the challenger decided


@dataclass
class _Unit:
    """A unit that has not ended."""

    total: float = 0.0
    count: int = 0
    intervened: bool = False


class Outcomes:
    """Collects the outcomes of all streams."""

    def __init__(self, discount: float, streams: int) -> None:
        """`streams`: number of unfinished units that are kept; beyond it, the least recently rewarded is dropped."""
        self.challenger: int | None = None  # the version of the challenger; set by another thread
        self._discount = discount
        self._streams = streams
        self._units: OrderedDict[tuple[str, bool], _Unit] = OrderedDict()  # by stream and side
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def earned(self, experience: Experience) -> None:
        """Add a completed decision to its stream's unit."""
        e = experience
        if e.reward is None:
            return
        key = (e.stream, e.version == self.challenger)
        unit = self._units.pop(key, None) or _Unit()
        self._units[key] = unit
        unit.total += e.reward
        unit.count += 1
        unit.intervened |= e.intervened
        if len(self._units) > self._streams:
            self._units.popitem(last=False)
        if self._discount == 0 and unit.count >= BLOCK:
            self._close(key)

    def end(self, stream: str) -> None:
        """End the stream's episode. With discount 0 this changes nothing: a block may continue in the next episode."""
        if self._discount != 0:
            for side in (False, True):
                self._close((stream, side))

    def _close(self, key: tuple[str, bool]) -> None:
        unit = self._units.pop(key, None)
        if unit is None or unit.intervened:
            return
        value = unit.total / unit.count if self._discount == 0 else unit.total
        if math.isfinite(value):
            self._ended.put(Outcome(value, key[1]))

    def take(self) -> list[Outcome]:
        """Return the outcomes since the last call. Only one thread may call this."""
        return [self._ended.get_nowait() for _ in range(self._ended.qsize())]
