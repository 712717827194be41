"""The points of a continuous run's plots: one a second, and no more of them than a page can draw.

    history = Points()
    history.add(point_of(status))        # one thread, once a second
    history.since(seq)                   # any thread: the points after number `seq`, in order

Each change replaces the tuple of points by a new one, so readers need no lock and never see a partial change. If there
are too many points, the oldest is dropped: a page that is opened after a week gets the last ten minutes, about 100 kB.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from livegym.utils.nested import look_up

CAPACITY = 600
PATHS = {
    "loss": "trainer.loss",
    "agreement": "trainer.agreement",
    "send_rate": "decisions.send_rate",
    "reward": "rewards.mean",
    "expected": "rewards.expected_mean",
    "size": "buffer.size",
    "pending": "buffer.pending",
    "latency_p99": "decisions.latency_ms.p99",
    "utilization": "trainer.training_utilization",
    "version": "serving.version",
}
"""Name of a number in a point -> its path in the status."""

Point = dict[str, Any]
"""`seq`, `t` in s since 1970, and the numbers of `PATHS`; an unknown number is null."""


class Points:
    """The last `capacity` points; only one thread may add."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._kept: tuple[Point, ...] = ()

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

    def since(self, seq: int) -> list[Point]:
        """Return the points after number `seq`, oldest first; with 0, all of them."""
        kept = self._kept
        if not kept:
            return []
        return list(kept[max(0, seq + 1 - kept[0]["seq"]) :])


def point_of(status: Mapping[str, Any]) -> Point:
    """Make a point from a status."""
    point: Point = {} if status.get("now") is None else {"t": status["now"]}
    return point | {name: look_up(status, path) for name, path in PATHS.items()}


def _finite(value: Any) -> float | None:
    """Round to six digits, more than a plot shows; None if the value is missing or non-finite."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")
