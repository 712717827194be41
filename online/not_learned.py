"""The learning switch of each stream: which streams are served, but not learned from.

    switch = NotLearned(run.not_learned_file)
    switch.set("robot-1", learn=False)      # any thread
    "robot-1" in switch.streams             # the decision loop, for each decision

It is kept in a file of the run, so a stream that was switched off stays off after a restart. What was decided before
the switch is still learned from.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

from livegym.utils.files import atomic_write_text, strict_json
from livegym.utils.locks import locked

log = logging.getLogger(__name__)

MOST = 10_000
"""Streams that may be switched off at once."""


class NotLearned:
    """The streams that are switched off."""

    def __init__(self, file: Path) -> None:
        """Read `file`, if there is one; a damaged one is logged, and all streams are learned from."""
        self._file = file
        self._lock = threading.Lock()
        self.streams: frozenset[str] = frozenset()
        if not file.exists():
            return
        try:
            names = json.loads(file.read_text("utf-8"))
            self.streams = frozenset(str(name) for name in names)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            log.warning("%s cannot be used (%r): all streams are learned from.", file, error)

    def set(self, stream: str, learn: bool) -> None:
        """Switch a stream's training on or off. Raises ValueError if too many streams are off, OSError if not saved."""
        with locked(self._lock, "the learning switches"):
            streams = self.streams - {stream} if learn else self.streams | {stream}
            if len(streams) > MOST:
                raise ValueError(f"{MOST} streams are switched off already, which is the limit")
            if streams != self.streams:
                atomic_write_text(self._file, strict_json(sorted(streams), indent=None))
                self.streams = streams
