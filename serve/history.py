"""The points of a continuous run's plots: one a second at first, and fewer the older they are.

    history = Points()
    history.add(point_of(status))        # one thread, once a second
    history.since(seq)                   # any thread: the points after number `seq`, in order
    history.earlier()                    # any thread: the older, thinned points, as columns

The last ten minutes have a point a second. Older points are means over 10 s for two hours, and over a minute for two
days; what is older is dropped. So the memory is bounded (3 MB), and a page that is opened after a week loads about
150 kB of recent points and 330 kB of earlier ones.

Each change replaces a tuple of points by a new one, so readers need no lock and never see a partial change.
`history_file.py` keeps the points over a restart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livegym.utils.nested import look_up

CAPACITY = 600
TIERS = ((10.0, 720), (60.0, 2880))  # s of a mean, and how many of them are kept: 2 hours, 2 days
PATHS = {
    "loss": "trainer.loss",
    "agreement": "trainer.agreement",
    "send_rate": "decisions.send_rate",
    "reward": "rewards.mean",
    "return": "episodes.return_mean",
    "expected": "rewards.expected_mean",
    "size": "buffer.size",
    "pending": "buffer.pending",
    "latency_p99": "decisions.latency_ms.p99",
    "utilization": "trainer.training_utilization",
    "version": "serving.version",
}
"""Name of a number in a point -> its path in the status."""
LAST = ("size", "pending", "version")
"""Numbers of which a thinned point has the last value. Of the other ones it has the mean."""

Point = dict[str, Any]
"""`seq`, `t` in s since 1970, and the numbers of `PATHS`; an unknown number is null."""


class Points:
    """The recent points, and the earlier ones, which are thinned; only one thread may add."""

    def __init__(self, capacity: int = CAPACITY, tiers: tuple[tuple[float, int], ...] = TIERS) -> None:
        """`capacity`: recent points; `tiers`: (s of a mean, number of means kept), the finest first."""
        self.capacity = capacity
        self._kept: tuple[Point, ...] = ()
        self._tiers = [_Means(seconds, most) for seconds, most in tiers]

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a point made of `t` and the numbers of `PATHS`; a missing or non-finite number becomes null.

        Raises:
            ValueError: a name is neither `t` nor in `PATHS`.
        """
        unknown = set(values) - {"t", *PATHS}
        if unknown:
            raise ValueError(f"a point cannot have {sorted(unknown)}. Allowed: t, {', '.join(PATHS)}")
        kept = self._kept
        seq = kept[-1]["seq"] + 1 if kept else 1
        point = {"seq": seq, "t": round(values.get("t", time.time()), 2)}
        point |= {name: _finite(values.get(name)) for name in PATHS}
        room = self.capacity - 1
        self._kept = (*kept[max(0, len(kept) - room) :], point)
        for tier in self._tiers:
            tier.add(point)

    @property
    def recent(self) -> tuple[Point, ...]:
        """The recent points, oldest first."""
        return self._kept

    @property
    def thinned(self) -> dict[float, tuple[Point, ...]]:
        """The means of each tier, oldest first, by their s."""
        return {tier.seconds: tier.kept for tier in self._tiers}

    def restore(self, recent: Sequence[Point], thinned: Mapping[float, Sequence[Point]]) -> None:
        """Begin with the points of an earlier session, which are numbered from 1. Tiers that are unknown are left out.

        There must be no points yet.
        """
        for tier in self._tiers:
            tier.restore(thinned.get(tier.seconds, ()), recent)
        numbered = enumerate(recent[-self.capacity :], start=1)
        self._kept = tuple({**point, "seq": seq} for seq, point in numbered)

    def since(self, seq: int) -> list[Point]:
        """Return the recent points after number `seq`, oldest first; with 0, all of them."""
        kept = self._kept
        if not kept:
            return []
        return list(kept[max(0, seq + 1 - kept[0]["seq"]) :])

    def earlier(self) -> dict[str, list[Any]]:
        """Return the thinned points, oldest first, as columns: `t`, `seconds` of each mean, and the names of `PATHS`.

        They end where the recent points begin. If points of both tiers cover a time, the finer ones are returned.
        """
        kept = self._kept
        start = kept[0]["t"] if kept else math.inf
        found: list[Point] = []
        for tier in self._tiers:
            means = [mean for mean in tier.kept if mean["t"] + tier.seconds / 2 <= start]
            found = [*means, *found]
            start = found[0]["t"] - found[0]["seconds"] / 2 if found else start
        return {name: [mean[name] for mean in found] for name in ("t", "seconds", *PATHS)}


class _Means:
    """The last `most` means of `seconds` each; the one that is still open is not among them."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.kept: tuple[Point, ...] = ()
        self._number: float | None = None  # of the open mean, counted in `seconds` since 1970
        self._sums = {name: _Sum() for name in PATHS}

    def restore(self, kept: Sequence[Point], recent: Sequence[Point]) -> None:
        """Begin with means that were kept, and with the open one, which `recent` points are part of."""
        self.kept = tuple({**mean, "seconds": self.seconds} for mean in kept[-self.most :])
        closed = self.kept[-1]["t"] + self.seconds / 2 if self.kept else -math.inf
        for point in recent:
            if point["t"] >= closed:
                self.add(point)

    def add(self, point: Point) -> None:
        number = point["t"] // self.seconds
        if self._number is not None and number != self._number:
            self.kept = (*self.kept[max(0, len(self.kept) - self.most + 1) :], self._mean(self._number))
            self._sums = {name: _Sum() for name in PATHS}
        self._number = number
        for name, values in self._sums.items():
            if point[name] is not None:
                values.add(point[name])

    def _mean(self, number: float) -> Point:
        made: Point = {"t": (number + 0.5) * self.seconds, "seconds": self.seconds}
        return made | {name: s.last if name in LAST else _finite(s.mean) for name, s in self._sums.items()}


@dataclass
class _Sum:
    """The numbers of one name in a mean that is still open."""

    total: float = 0.0
    count: int = 0
    last: float | None = None

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1
        self.last = value

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


def point_of(status: Mapping[str, Any]) -> Point:
    """Make a point from a status."""
    point: Point = {} if status.get("now") is None else {"t": status["now"]}
    return point | {name: look_up(status, path) for name, path in PATHS.items()}


def _finite(value: Any) -> float | None:
    """Round to six digits, more than a plot shows; None if the value is missing or non-finite."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")
