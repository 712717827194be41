"""Rate limiters."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

REMEMBERED = 4096
"""Keys of one `TokenBuckets`; the one that took a token longest ago is forgotten first."""


class TokenBucket:
    """Rate limiter: allows `rate` events a second, and `burst` events at once after a pause."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._level, self._at = burst, clock()

    def take(self, count: float = 1.0) -> bool:
        """Take `count` tokens, or none if there are not as many; return whether the events are allowed now."""
        self._fill()
        if self._level < count:
            return False
        self._level -= count
        return True

    def wait(self, count: float = 1.0) -> float:
        """Return the s until there are `count` tokens (at most the burst) if none is taken in the meantime."""
        self._fill()
        return max(0.0, (min(count, self._burst) - self._level) / self._rate)

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now


class TokenBuckets:
    """A bucket for each key, such as an address or a stream."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst = rate, burst
        self._clock = clock
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def of(self, key: Hashable) -> TokenBucket:
        """Return the bucket of `key`, which is full if the key is new."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, self._burst, self._clock)
            if len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket
