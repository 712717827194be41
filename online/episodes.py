"""Returns and lengths of the streams' episodes, from the rewards that have arrived.

    episodes = Episodes(streams=1000)
    episodes.decided("north", 17)        # a new decision; with it an episode begins if none is running
    episodes.earned("north", 17, 0.5)    # it is complete
    episodes.end("north")
    episodes.returns                     # [0.5]

Ids of decisions only grow, so an episode has all decisions of its stream from its first to its last one. A reward that
arrives after the end of its episode still counts in it, unless a later episode of the stream has ended too. The same
holds for an episode that was broken off, and its end may come late, too. An episode whose beginning is unknown, such as
the first one after a restart, has no return. These numbers are only displayed; the policy is not trained on them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

WINDOW = 100  # episodes over which the mean is taken


class Beginnings:
    """Streams whose next decision is the first of an episode, because the episode before has ended."""

    def __init__(self, streams: int) -> None:
        """`streams`: number of streams that are kept; beyond it, the oldest is dropped: its beginning is unknown."""
        self._streams = streams
        self._next: OrderedDict[str, None] = OrderedDict()

    def add(self, stream: str) -> None:
        """An episode begins with the stream's next decision."""
        self._next[stream] = None
        self._next.move_to_end(stream)
        if len(self._next) > self._streams:
            self._next.popitem(last=False)

    def take(self, stream: str) -> bool:
        """Return whether an episode begins with the stream's next decision, which is made now."""
        return self._next.pop(stream, stream) is None


@dataclass
class _Episode:
    first: int  # its first decision
    last: int  # its last decision so far
    whole: bool  # whether its beginning is known
    total: float = 0.0
    count: int = 0  # rewards
    ended: bool = False

    def has(self, decision: int) -> bool:
        """Whether this decision of its stream is one of it."""
        return self.first <= decision <= self.last


class Episodes:
    """Episode statistics of all streams. Not thread-safe; the serving thread calls all methods."""

    def __init__(self, streams: int) -> None:
        """`streams`: number of running episodes that are kept; beyond it, the one that asked least recently is dropped.

        As many episodes that have ended are kept for late rewards, and as many that were broken off.
        """
        self._streams = streams
        self.ended = 0  # finished episodes with at least one reward
        self.broken_off = 0  # episodes without an end
        self._last: deque[_Episode] = deque(maxlen=WINDOW)
        self._running: OrderedDict[str, _Episode] = OrderedDict()  # by stream
        self._closed: OrderedDict[str, _Episode] = OrderedDict()  # stream -> its last episode that has ended
        self._broken: OrderedDict[str, _Episode] = OrderedDict()  # stream -> its last episode that was broken off
        self._beginnings = Beginnings(streams)

    @property
    def returns(self) -> list[float]:
        """Returns of the last episodes, the newest last."""
        return [episode.total for episode in self._last]

    @property
    def lengths(self) -> list[int]:
        """Their lengths: the number of rewards."""
        return [episode.count for episode in self._last]

    def decided(self, stream: str, decision: int) -> None:
        """Add a new decision, with a greater id than all before."""
        if stream not in self._running:
            self._running[stream] = _Episode(decision, decision, self._beginnings.take(stream))
        self._running[stream].last = decision
        self._running.move_to_end(stream)
        if len(self._running) > self._streams:
            self._running.popitem(last=False)

    def is_running(self, stream: str, decision: int | None = None) -> bool:
        """Whether an episode of the stream is running, and this decision is one of it."""
        running = self._running.get(stream)
        return running is not None and (decision is None or running.has(decision))

    def earned(self, stream: str, decision: int, reward: float) -> None:
        """Add the reward of a decision to its episode."""
        for episodes in (self._running, self._closed, self._broken):
            episode = episodes.get(stream)
            if episode is not None and episode.has(decision):
                episode.total += reward
                episode.count += 1
                if episode.ended and episode.count == 1:
                    self._note(episode)

    def break_off(self, stream: str) -> None:
        """Begin another episode. The one that runs has no end, so its return and length are unknown."""
        self.broken_off += 1
        self.begin(stream)
        episode = self._running.pop(stream, None)
        if episode is not None:
            self._keep(self._broken, stream, episode)

    def end_late(self, stream: str, decision: int) -> None:
        """End an episode that was broken off with this decision, if it is still kept."""
        episode = self._broken.get(stream)
        if episode is not None and episode.has(decision):
            self._end(episode)

    def begin(self, stream: str) -> None:
        """An episode begins with the stream's next decision."""
        self._beginnings.add(stream)

    def end(self, stream: str) -> None:
        """End the stream's episode, and record its return and length."""
        self.begin(stream)
        episode = self._running.pop(stream, None)
        if episode is not None:
            self._keep(self._closed, stream, episode)
            self._end(episode)

    def _keep(self, episodes: OrderedDict[str, _Episode], stream: str, episode: _Episode) -> None:
        episodes[stream] = episode
        episodes.move_to_end(stream)
        if len(episodes) > self._streams:
            episodes.popitem(last=False)

    def _end(self, episode: _Episode) -> None:
        if episode.count and not episode.ended:
            self._note(episode)
        episode.ended = True

    def _note(self, episode: _Episode) -> None:
        self.ended += 1
        if episode.whole:
            self._last.append(episode)
