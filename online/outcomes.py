"""The rewards that versions really earned: the mean reward of blocks of decisions, or the return of episodes.

    outcomes = Outcomes(discount=0.99, streams=1000, pending=100_000)
    outcomes.decided(experience)         # the serving thread: a new decision
    outcomes.earned(experience)          # the serving thread: a completed decision
    outcomes.end("north")                # the serving thread: the stream's episode has ended
    outcomes.take()                      # another thread: the outcomes since the last call

With discount 0 an outcome is the mean reward of `BLOCK` decisions of a stream. With a larger one it is the return of an
episode, because a single reward says little about what an action leads to. It is known when the episode has ended and
each of its decisions has its reward, which may come after the end.

A block or episode has no outcome if a person intervened in it, if the client executed an action of its own, or if one
of its decisions is not learned from, for example because its reward is beyond `task.max_reward` or is an outlier
(`online/outliers.py`); nor has an episode whose beginning is unknown, such as each stream's first one after a restart.
Decisions of a challenger (`online/trial.py`) are kept apart from those of the champion and of other challengers; an
episode in which two of them decided has no outcome. Who decided is noted with the decision: its reward may come when
another challenger acts, or none. A decision from before a restart has no outcome, because this is not known any more.
"""

from __future__ import annotations

import math
import queue
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from livegym.online.episodes import Beginnings
from livegym.online.experience import Experience
from livegym.online.judge import BLOCK
from livegym.online.outliers import RewardWatch, unwatched
from livegym.tasks.stability import MAX_REWARD


class Outcome(NamedTuple):
    """The reward of one block or episode."""

    value: float  # mean reward of a decision, or return of an episode
    challenger: bool  # whether a challenger decided: `version`, which need not be the present one
    version: int | None = None  # the version that made all of its decisions; None if several did


@dataclass
class _Unit:
    """A block or an episode without an outcome yet."""

    challenger: int | None  # the challenger that decided; None: the champion
    version: int | None  # that made all of its decisions so far
    total: float = 0.0
    count: int = 0  # rewards
    void: bool = False  # it will have no outcome
    waiting: int = 0  # decisions without a reward; of an episode
    ended: bool = False  # of an episode

    def add(self, experience: Experience, reward: float, max_reward: float) -> None:
        """Add the reward of a completed decision."""
        e = experience
        self.total += reward
        self.count += 1
        self.void |= e.excluded or e.overridden or not abs(reward) <= max_reward
        self.version = self.version if self.version == e.version else None


class Outcomes:
    """Collects the outcomes of all streams."""

    def __init__(
        self,
        discount: float,
        streams: int,
        pending: int,
        rewards: RewardWatch | None = None,
    ) -> None:
        """`streams`: number of unfinished blocks or episodes that are kept; `pending`: of decisions without a reward.

        Beyond these numbers, the oldest are dropped. `rewards`: knows which are outliers; None: only those beyond
        `MAX_REWARD` are.
        """
        self.challenger: int | None = None  # the version of the challenger; set by another thread
        self._discount = discount
        self.rewards = rewards or unwatched(MAX_REWARD)
        self._streams, self._pending = streams, pending
        # With discount 0: unfinished blocks by stream and challenger, and who made a decision that has no reward yet.
        self._blocks: OrderedDict[tuple[str, int | None], _Unit] = OrderedDict()
        self._made_by: OrderedDict[int, int | None] = OrderedDict()
        self._episodes: OrderedDict[str, _Unit] = OrderedDict()  # stream -> its present episode
        self._waiting: OrderedDict[int, _Unit] = OrderedDict()  # decision without a reward -> its episode
        self._beginnings = Beginnings(streams)
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def decided(self, experience: Experience) -> None:
        """Note who made a new decision; with a discount, add it to its stream's episode."""
        e = experience
        challenger = e.version if e.version == self.challenger else None
        if self._discount == 0:
            self._made_by[e.decision] = challenger
            if len(self._made_by) > self._pending:
                self._made_by.popitem(last=False)
            return
        episode = self._episodes.pop(e.stream, None)
        if episode is None:
            episode = _Unit(challenger, e.version, void=not self._beginnings.take(e.stream))
        self._episodes[e.stream] = episode
        episode.void |= episode.challenger != challenger
        episode.waiting += 1
        self._waiting[e.decision] = episode
        if len(self._episodes) > self._streams:
            self._episodes.popitem(last=False)
        if len(self._waiting) > self._pending:
            self._waiting.popitem(last=False)

    def earned(self, experience: Experience) -> None:
        """Add the reward of a completed decision to its block or episode."""
        e = experience
        if e.reward is None:
            return
        if self._discount == 0:
            if e.decision in self._made_by:
                self._add_to_block(e, e.reward, self._made_by.pop(e.decision))
            return
        episode = self._waiting.pop(e.decision, None)
        if episode is not None:  # otherwise it was made before a restart
            episode.add(e, e.reward, self.rewards.limit)
            episode.waiting -= 1
            # An episode that was broken off may get its end after all; `end` is for the one that runs.
            episode.ended |= e.done and self._episodes.get(e.stream) is not episode
            self._close(episode)

    def _add_to_block(self, experience: Experience, reward: float, challenger: int | None) -> None:
        key = (experience.stream, challenger)
        block = self._blocks.pop(key, None) or _Unit(challenger, experience.version)
        block.add(experience, reward, self.rewards.limit)
        if block.count >= BLOCK:
            self._put(block, block.total / block.count)
            return
        self._blocks[key] = block
        if len(self._blocks) > self._streams:
            self._blocks.popitem(last=False)

    def end(self, stream: str) -> None:
        """End the stream's episode. With discount 0 this changes nothing: a block may continue in the next episode."""
        self._beginnings.add(stream)
        episode = self._episodes.pop(stream, None)
        if episode is not None:
            episode.ended = True
            self._close(episode)

    def break_off(self, stream: str) -> None:
        """Begin another episode. The one that runs has no end, unless the reward of its last decision says so.

        Without an end, its return is unknown.
        """
        self._beginnings.add(stream)
        self._episodes.pop(stream, None)

    def _close(self, episode: _Unit) -> None:
        if episode.ended and not episode.waiting:
            self._put(episode, episode.total)

    def _put(self, unit: _Unit, value: float) -> None:
        if not unit.void and math.isfinite(value):
            self._ended.put(Outcome(value, unit.challenger is not None, unit.version))

    def take(self) -> list[Outcome]:
        """Return the outcomes since the last call. Only one thread may call this."""
        return [self._ended.get_nowait() for _ in range(self._ended.qsize())]
