"""Counts and recent values of one serving session: decisions, rewards by stream and version, episodes."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from livegym.online.decider import StreamObservation
from livegym.online.episodes import Episodes
from livegym.online.experience import Experience, Verdict

INTERVALS = 32  # last times between two decisions of a stream that are kept
WINDOW = 1000  # last decisions and rewards for rates and means
STREAM_WINDOW = 100  # last rewards of a stream for its mean
VERSIONS = 500  # versions whose rewards are kept: those that earned last


class LastDecision(NamedTuple):
    """A stream's last observation and the decision on it."""

    observation: StreamObservation
    decision: Experience
    at: float  # monotonic s
    intervals: tuple[float, ...] = ()  # s between its last decisions, the newest last


@dataclass
class VersionRewards:
    """The rewards of the decisions of one version."""

    count: int = 0
    total: float = 0.0

    def add(self, reward: float) -> None:
        """Add the reward of a completed decision."""
        self.count += 1
        self.total += reward


@dataclass
class ServiceCounters:
    """Counts and recent values of one serving session, for the status."""

    streams: int  # number of streams whose newest decision is kept
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((v.name for v in Verdict), 0))
    intervened: int = 0
    excluded: int = 0  # completed, but excluded from training
    outliers: int = 0  # rewards beyond the limit, which are in no mean
    outlier: str = ""  # the first of them, in words
    lately: deque[Verdict] = field(default_factory=lambda: deque(maxlen=WINDOW))
    rewards: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    expected: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    terms: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    # Stream -> its last rewards, each with its time of arrival in s since 1970.
    by_stream: OrderedDict[str, deque[tuple[float, float]]] = field(default_factory=OrderedDict)
    by_version: OrderedDict[int, VersionRewards] = field(default_factory=OrderedDict)  # version -> its rewards
    episodes: Episodes = field(init=False)
    decided_at: float = field(default_factory=time.monotonic)  # monotonic s of the last decision, or of the start
    last: OrderedDict[str, LastDecision] = field(default_factory=OrderedDict)  # by stream

    def __post_init__(self) -> None:
        self.episodes = Episodes(self.streams)

    @property
    def decisions(self) -> int:
        """Number of decisions in this session."""
        return sum(self.verdicts.values())

    def earned(self, e: Experience, reward: float) -> None:
        """Add the reward of a completed decision, which is no outlier."""
        stream, version = e.stream, e.version
        self.rewards.append(reward)
        self.episodes.earned(stream, e.decision, reward)
        self.by_stream.setdefault(stream, deque(maxlen=STREAM_WINDOW)).append((time.time(), reward))
        self.by_stream.move_to_end(stream)
        if len(self.by_stream) > self.streams:
            self.by_stream.popitem(last=False)
        self.by_version.setdefault(version, VersionRewards()).add(reward)
        self.by_version.move_to_end(version)  # after a rollback, an old one earns again
        if len(self.by_version) > VERSIONS:
            self.by_version.popitem(last=False)

    def decided(self, observation: StreamObservation, e: Experience) -> None:
        """Count a decision, and keep it as the stream's newest."""
        now = self.decided_at = time.monotonic()
        self.episodes.decided(e.stream, e.decision)
        self.verdicts[e.verdict.name] += 1
        self.intervened += e.intervened
        self.lately.append(e.verdict)
        if math.isfinite(e.expected):
            self.expected.append(e.expected)
        before = self.last.get(e.stream)
        intervals = () if before is None else (*before.intervals, now - before.at)[-INTERVALS:]
        self.last[e.stream] = LastDecision(observation, e, now, intervals)
        self.last.move_to_end(e.stream)
        if len(self.last) > self.streams:
            self.last.popitem(last=False)
