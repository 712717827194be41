"""What the plots of a continuous run show: one point a second, and no more of them than a page can draw.

    history = Points()
    history.add(point_of(status))        # one thread, once a second
    history.since(seq)                   # any thread: what was added after number `seq`, in order

A new tuple takes the place of the old one, so readers need no lock and never see half of a change. The oldest point
goes when there are too many: a page that is opened after a week gets the last ten minutes, in about 100 kB.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

CAPACITY = 600
PLACES = {
    "loss": ("trainer", "loss"),
    "agreement": ("trainer", "agreement"),
    "send_rate": ("decisions", "send_rate"),
    "reward": ("rewards", "mean"),
    "expected": ("rewards", "expected_mean"),
    "size": ("buffer", "size"),
    "pending": ("buffer", "pending"),
    "latency_p99": ("decisions", "latency_ms", "p99"),
    "utilization": ("trainer", "training_utilization"),
    "version": ("serving", "version"),
}
"""Number in a point -> where the status has it."""

Point = dict[str, Any]
"""`seq`, `t` in s since 1970, and the numbers of `PLACES`, null if they are not known."""


class Points:
    """The last `capacity` points; one thread adds."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._kept: tuple[Point, ...] = ()

    def add(self, values: Mapping[str, Any]) -> None:
        """One more point, of `t` and the numbers of `PLACES`; numbers that are missing or not finite are null.

        Raises:
            ValueError: a name that no plot knows.
        """
        unknown = set(values) - {"t", *PLACES}
        if unknown:
            raise ValueError(f"points have no {sorted(unknown)}; allowed are t, {', '.join(PLACES)}")
        kept = self._kept
        seq = kept[-1]["seq"] + 1 if kept else 1
        point = {"seq": seq, "t": round(values.get("t", time.time()), 2)}
        point |= {name: _finite(values.get(name)) for name in PLACES}
        room = self.capacity - 1
        self._kept = (*kept[max(0, len(kept) - room) :], point)

    def since(self, seq: int) -> list[Point]:
        """The points that are kept after number `seq`, the oldest first; 0: all."""
        kept = self._kept
        if not kept:
            return []
        return list(kept[max(0, seq + 1 - kept[0]["seq"]) :])


def point_of(status: Mapping[str, Any]) -> Point:
    """The point of a status."""
    point: Point = {} if status.get("now") is None else {"t": status["now"]}
    return point | {name: look_up(status, place) for name, place in PLACES.items()}


def look_up(status: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    """What the status has at a place; None if it has nothing there."""
    found: Any = status
    for name in place:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _finite(value: Any) -> float | None:
    """Six digits are more than a plot shows."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")
