"""Returns and lengths of the streams' episodes, from the rewards that have arrived.

    episodes = Episodes(streams=1000)
    episodes.earned("north", 0.5)        # one decision is complete
    episodes.end("north")

A reward that arrives after the end of its episode counts in the next one. These numbers are only displayed; the policy
is not trained on them.
"""

from __future__ import annotations

from collections import OrderedDict, deque

WINDOW = 100  # episodes over which the mean is taken


class Episodes:
    """Episode statistics of all streams. Not thread-safe; the serving thread calls all methods."""

    def __init__(self, streams: int) -> None:
        """`streams`: number of running episodes that are kept; beyond it, the least recently rewarded is dropped."""
        self._streams = streams
        self.ended = 0  # finished episodes with at least one reward
        self.broken_off = 0  # episodes without an end
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self._running: OrderedDict[str, tuple[float, int]] = OrderedDict()  # stream -> return and length so far

    def earned(self, stream: str, reward: float) -> None:
        """Add the reward of one decision to the stream's episode."""
        total, count = self._running.pop(stream, (0.0, 0))
        self._running[stream] = (total + reward, count + 1)
        if len(self._running) > self._streams:
            self._running.popitem(last=False)

    def break_off(self, stream: str) -> None:
        """Drop the stream's episode, which has no end: its return and length are unknown."""
        self._running.pop(stream, None)
        self.broken_off += 1

    def end(self, stream: str) -> None:
        """End the stream's episode, and record its return and length."""
        total, count = self._running.pop(stream, (0.0, 0))
        if count:
            self.ended += 1
            self.returns.append(total)
            self.lengths.append(count)
