"""The watching thread: looks for newer weights every so often, and makes them ready beside the acting ones.

    with Watcher(live, source, interval=30.0, refusals=queue):
        player.run(stop)

The thread never touches the acting policy. What it cannot use it reports once, with the reason, and tries again when
the file changes.
"""

from __future__ import annotations

import logging
import queue
import threading
from types import TracebackType

from live.sources import Source
from live.swap import Candidate, LivePolicy, SwapEvent
from utils.errors import UserError

log = logging.getLogger(__name__)


class Watcher:
    """A background thread between one source of weights and one live policy."""

    def __init__(
        self, live: LivePolicy, source: Source, interval: float, refusals: queue.SimpleQueue[SwapEvent]
    ) -> None:
        """`interval` in s between looks; `refusals` receives what could not be used."""
        self._live, self._source, self._interval = live, source, interval
        self._refusals = refusals
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="weights-watcher", daemon=True)

    def look(self) -> None:
        """One look: prepares a newer version where there is one and the last one was adopted."""
        if self._live.busy:
            return
        candidate = self._source.look(self._live.acting)
        for refusal in self._source.refusals():
            self._refusals.put(refusal)
        if candidate is not None:
            self._offer(candidate)

    def _offer(self, candidate: Candidate) -> None:
        try:
            self._live.prepare(candidate)
        except UserError as error:
            log.warning("refused %s: %s. The old policy keeps acting.", candidate.file, error)
            self._source.refuse(candidate)
            self._refusals.put(SwapEvent.of(candidate, accepted=False, reason=str(error)))

    def _watch(self) -> None:
        while not self._end.wait(self._interval):
            try:
                self.look()
            except Exception:  # a thread that died silently would stop following for good
                log.exception("looking for newer weights failed; trying again in %g s", self._interval)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
