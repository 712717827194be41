"""Keeps `results.json` current while a test runs, so that a killed test loses at most a minute.

    file = ResultsFile(results, run.results_file)
    file.refresh()     # after each step: writes about once a minute, in a thread
    file.write()       # at the end

The control loop only copies the results, which takes about a millisecond. The thread turns the copy into JSON in pure
Python, so it yields to the control loop every switch interval.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from livegym.play.results import Results
from livegym.utils.files import atomic_write_text, strict_json

log = logging.getLogger(__name__)

WRITE_INTERVAL = 50.0  # s between the starts of two writes; the rest of the minute is for a slow disk


class ResultsFile:
    """The file of one test's results. A failure to write is logged once, until a write succeeds again."""

    def __init__(self, results: Results, path: Path) -> None:
        self._results = results
        self._path = path
        self._thread: threading.Thread | None = None
        self._started_at = time.monotonic()
        self._written = 0  # `results.changes` of the last copy that was written
        self._failed = False

    def refresh(self) -> None:
        """Start a write if the last one is about a minute old, has ended, and something has changed since."""
        now = time.monotonic()
        busy = self._thread is not None and self._thread.is_alive()
        if busy or now - self._started_at < WRITE_INTERVAL or self._results.changes == self._written:
            return
        self._started_at = now
        copy = self._results.copy()
        self._thread = threading.Thread(target=self._write, args=(copy, False), name="results", daemon=True)
        self._thread.start()

    def write(self) -> bool:
        """Write the results of the whole test, atomically. Logs a warning and returns False if that failed."""
        if self._thread is not None:
            self._thread.join()
        self._failed = False  # the last failure is always reported
        return self._write(self._results, True)

    def _write(self, results: Results, ended: bool) -> bool:
        try:
            atomic_write_text(self._path, strict_json({**results.to_dict(), "ended": ended}))
        except OSError as error:
            if not self._failed:
                log.warning("%s not written: %s", self._path, error)
            self._failed = True
            return False
        self._failed = False
        self._written = results.changes
        return True
