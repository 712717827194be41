"""The learning switch of each stream: which streams are served, but not learned from.

    switch = NotLearned(run.not_learned_file)
    switch.set("robot-1", learn=False)      # any thread
    "robot-1" in switch.streams             # the decision loop, for each decision

It is kept in a file of the run, so a stream that was switched off stays off after a restart. What was decided before
the switch is still learned from.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_text, strict_json
from livegym.utils.locks import locked

MOST = 10_000
"""Streams that may be switched off at once."""


def _damaged(file: Path, problem: str) -> UserError:
    return UserError(
        f"{file} is damaged ({problem}): it should be a JSON list of the streams that are not to be learned from, such "
        "as [], and it is unknown which they are. Write the list, or delete the file to learn from all streams"
    )


class NotLearned:
    """The streams that are switched off."""

    def __init__(self, file: Path) -> None:
        """Read `file`, if there is one.

        Raises UserError if it is damaged: to learn from a stream that a person has switched off cannot be undone.
        """
        self._file = file
        self._lock = threading.Lock()
        self.streams: frozenset[str] = frozenset()
        if not file.exists():
            return
        try:
            names = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise _damaged(file, str(error)) from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _damaged(file, f"it contains {str(names)[:50]!r}")
        self.streams = frozenset(names)

    def set(self, stream: str, learn: bool) -> None:
        """Switch a stream's training on or off. Raises ValueError if too many streams are off, OSError if not saved."""
        with locked(self._lock, "the learning switches"):
            streams = self.streams - {stream} if learn else self.streams | {stream}
            if len(streams) > MOST:
                raise ValueError(f"{MOST} streams are switched off already, which is the limit")
            if streams != self.streams:
                atomic_write_text(self._file, strict_json(sorted(streams), indent=None))
                self.streams = streams
