"""Results of a test: every episode with the versions that acted in it, exact means, and every swap.

An episode counts for the version that acted in more of its control steps than any other; `versions` names all versions
that acted. The lists contain the last 10,000 episodes and swaps. `by_version` has up to 1,000 versions; in a longer
test, older ones are thinned out. Counts, means and standard errors cover all episodes. An episode's `level` is that of
the curriculum when it began (1: the full task); in a match, its `winner` is a seat or `draw`. A version's `level` is
the one at which it was trained.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from typing import Any

from livegym.tasks.base import NO_WINNER
from livegym.tasks.stats import FinishedEpisodes
from livegym.utils.moments import Moments
from livegym.utils.thinning import least_missed
from livegym.weights.candidate import Label, SwapEvent

EPISODES_KEPT = 10_000
SWAPS_KEPT = 10_000
VERSIONS_KEPT = 1_000
REFUSALS_KEPT = 20
DRAW = "draw"  # among the winners: an episode of a match that no seat has won


class VersionTrace:
    """The versions that acted in each environment's open episode, and for how many steps."""

    def __init__(self, num_envs: int, version: Label) -> None:
        self._versions: list[list[tuple[Label, int]]] = [
            [(version, 0)] for _ in range(num_envs)
        ]  # (version, first step)

    def change(self, env_id: int, version: Label, length: int) -> None:
        """Record that `version` acts from step `length` of the environment's open episode on."""
        trace = self._versions[env_id]
        while trace and trace[-1][1] == length:
            trace.pop()  # this version has not acted in a step
        trace.append((version, length))

    def close(self, env_id: int, length: int) -> tuple[list[Label], Label]:
        """The versions of an ended episode in order, and the one that acted longest. A new episode begins."""
        trace = self._versions[env_id]
        steps: Counter[Label] = Counter()
        stops = [start for _, start in trace[1:]] + [length]
        for (version, start), end in zip(trace, stops, strict=True):
            steps[version] += end - start
        versions = list(dict.fromkeys(version for version, _ in trace))
        self._versions[env_id] = [(trace[-1][0], 0)]
        return versions, steps.most_common(1)[0][0]


class Results:
    """Collects a test's episodes and swaps; `to_dict` is the content of `results.json`."""

    def __init__(self, header: dict[str, Any]) -> None:
        """`header`: checkpoint, task, seed and other keys that describe the test."""
        self.header = header
        self.reason_names: tuple[str, ...] = ()
        self.success_reason: str | None = None
        self.seat_names: tuple[str, ...] = ()  # empty: not a match
        self.winners: Counter[str] = Counter()  # seat's name or DRAW -> episodes of a match
        self.episodes: deque[dict[str, Any]] = deque(maxlen=EPISODES_KEPT)
        self.swaps: deque[SwapEvent] = deque(maxlen=SWAPS_KEPT)
        self.adopted = self.refused = 0  # numbers of all swaps
        self.refusals: deque[tuple[int, SwapEvent]] = deque(maxlen=REFUSALS_KEPT)  # (number, event)
        self.returns, self.lengths = Moments(), Moments()
        self.reasons: Counter[str] = Counter()
        self.by_version: dict[Label, Moments] = {}
        self._order: dict[Label, int] = {}  # version -> its place among all versions so far
        self._versions = 0
        self.level: float | None = None  # curriculum level that is played now; None if there is no curriculum
        self.newer_run: str | None = None  # a newer run that the test does not follow
        self.levels: dict[Label, float] = {}  # version -> curriculum level at which it was trained
        self.levels_played: tuple[float, float] | None = None  # lowest and highest level of the counted episodes
        self.played_by: dict[int, Label] = {}  # environment -> main version of its last episode

    def begin(
        self, reason_names: tuple[str, ...], success_reason: str | None, seat_names: tuple[str, ...] = ()
    ) -> None:
        """Set the names of the reasons for which episodes end from now on, and of a match's seats."""
        self.reason_names, self.success_reason = reason_names, success_reason
        self.seat_names = seat_names

    def note(self, event: SwapEvent) -> None:
        """Record that a version was adopted or refused."""
        self.swaps.append(event)
        self.adopted += event.accepted
        self.refused += not event.accepted
        if not event.accepted:
            number = self.refusals[-1][0] + 1 if self.refusals else 1
            self.refusals.append((number, event))

    def note_level(self, version: Label, level: float | None) -> None:
        """Record the curriculum level at which a version was trained; None: no curriculum, or unknown."""
        if level is not None:
            self.levels[version] = level
            if len(self.levels) > VERSIONS_KEPT:
                del self.levels[next(iter(self.levels))]  # the oldest

    def note_player(self, env_id: int, version: Label) -> None:
        """Record that an episode ended in this environment, in which `version` acted longest."""
        self.played_by[env_id] = version

    def add(self, finished: FinishedEpisodes, index: int, versions: list[Label], version: Label) -> None:
        """Count the ended episode at `index` of `finished`; `version` acted longest in it."""
        value, length = float(finished.returns[index]), int(finished.lengths[index])
        reason = self.reason_names[int(finished.reasons[index])]
        env_id, level = int(finished.env_ids[index]), float(finished.levels[index])
        episode: dict[str, Any] = {
            "return": value,
            "length": length,
            "reason": reason,
            "env": env_id,
            "versions": versions,
        }
        if finished.winners is not None:
            episode["winner"] = self._winner(int(finished.winners[index]))
            self.winners[episode["winner"]] += 1
        self.episodes.append(episode | {"level": level})
        lowest, highest = self.levels_played or (level, level)
        self.levels_played = (min(lowest, level), max(highest, level))
        self.returns.add(value)
        self.lengths.add(length)
        self.reasons[reason] += 1
        if version not in self.by_version:
            self.by_version[version] = Moments()
            self._order[version] = self._versions
            self._versions += 1
            if len(self.by_version) > VERSIONS_KEPT:
                oldest_first = list(self._order)
                dropped = oldest_first[least_missed(list(self._order.values()))]
                del self.by_version[dropped], self._order[dropped]
        self.by_version[version].add(value)

    def _winner(self, seat: int) -> str:
        return DRAW if seat == NO_WINNER else self.seat_names[seat]

    @property
    def changes(self) -> int:
        """Number of episodes and swaps so far: a larger one says that something has changed."""
        return self.returns.count + self.adopted + self.refused

    def copy(self) -> Results:
        """A copy that another thread may read while this object collects more. Takes about a millisecond."""
        other = copy.copy(self)
        other.episodes, other.swaps = self.episodes.copy(), self.swaps.copy()  # their items never change
        other.returns, other.lengths = copy.copy(self.returns), copy.copy(self.lengths)
        other.reasons, other.levels = self.reasons.copy(), self.levels.copy()
        other.winners = self.winners.copy()
        other.by_version = {version: copy.copy(moments) for version, moments in self.by_version.items()}
        return other

    @property
    def success_rate(self) -> float | None:
        """Fraction of episodes that ended in success; None if the task has no success, or no episode has ended yet."""
        if self.success_reason is None or not self.returns.count:
            return None
        return self.reasons[self.success_reason] / self.returns.count

    def to_dict(self) -> dict[str, Any]:
        """All results, as plain values."""
        played = self.returns.count > 0
        return {
            **self.header,
            "episode_count": self.returns.count,
            "return_mean": self.returns.mean if played else None,
            "return_stderr": self.returns.stderr,
            "length_mean": self.lengths.mean if played else None,
            "success_rate": self.success_rate,
            "reasons": dict(self.reasons),
            **({"winners": {name: self.winners[name] for name in (*self.seat_names, DRAW)}} if self.seat_names else {}),
            "by_version": {
                str(version): {
                    "episodes": m.count,
                    "return_mean": m.mean,
                    "return_stderr": m.stderr,
                    "level": self.levels.get(version),
                }
                for version, m in self.by_version.items()
            },
            "swaps": [event.to_dict() for event in self.swaps],
            "episodes": list(self.episodes),
        }
