"""How long decisions took lately, from the arrival of an observation to the moment when its answer had been sent.

latencies = Latencies()
latencies.add(0.0021)              # s
latencies.reading()["p99"]         # 2.1, in ms
"""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

KEPT = 2000


class Latencies:
    """The last latencies. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: deque[float] = deque(maxlen=KEPT)

    def add(self, seconds: float) -> None:
        """Record the latency of a message of observations."""
        with self._lock:
            self._seconds.append(seconds)

    def reading(self) -> dict[str, float | None]:
        """Return the median, the 99th percentile and the maximum, in ms; None for each if there were no decisions."""
        with self._lock:
            seconds = list(self._seconds)
        if not seconds:
            return {"p50": None, "p99": None, "max": None}
        p50, p99, most = np.percentile(np.array(seconds) * 1000, (50, 99, 100)).tolist()
        return {"p50": p50, "p99": p99, "max": most}
