"""Returns and lengths of the streams' episodes, as far as their rewards have come.

    episodes = Episodes(streams=1000)
    episodes.earned("north", 0.5)        # one decision is complete
    episodes.end("north")

A reward that comes after its episode's end counts in the next one: what is told here is for people, nothing is learned
from it.
"""

from __future__ import annotations

from collections import OrderedDict, deque

WINDOW = 100  # episodes over which means are taken


class Episodes:
    """Belongs to the thread that serves."""

    def __init__(self, streams: int) -> None:
        """`streams`: with an episode under way; the one that earned something longest ago is forgotten."""
        self._streams = streams
        self.ended = 0  # with a reward at least
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self._running: OrderedDict[str, tuple[float, int]] = OrderedDict()  # stream -> return and length so far

    def earned(self, stream: str, reward: float) -> None:
        """One decision earned this."""
        total, count = self._running.pop(stream, (0.0, 0))
        self._running[stream] = (total + reward, count + 1)
        if len(self._running) > self._streams:
            self._running.popitem(last=False)

    def end(self, stream: str) -> None:
        """The stream's episode has ended."""
        total, count = self._running.pop(stream, (0.0, 0))
        if count:
            self.ended += 1
            self.returns.append(total)
            self.lengths.append(count)
