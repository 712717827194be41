"""The status line of a long test: it comes if something has changed, and less often with time.

At most 30 lines in the first five minutes, 75 in the rest of the first hour, and 20 in the second one: who reads the
terminal after a night wants to scroll back to its beginning. Each event is in the run's log file.
"""

from __future__ import annotations

import logging
import time

from livegym.play.results import Results
from livegym.utils.words import count
from livegym.weights.candidate import Label

log = logging.getLogger(__name__)

SHORTEST = 10.0  # s between two lines
SHARE = 1 / 30  # longest share of the test's duration between two lines
RECENT = 20  # episodes in the moving mean


def at_level(level: float | None) -> str:
    """The curriculum's level, to be appended to a clause; '' if there is no curriculum."""
    return "" if level is None else f", curriculum level {level:.2f}"


class StatusLog:
    """Logs the status of one test."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._began = self._logged_at = time.monotonic()
        self._logged = (0, results.level, results.newer_run)  # what the last line was about

    def refresh(self, acting: Label) -> None:
        """Log a line if it is due and something has changed; `acting`: the version that acts."""
        now = time.monotonic()
        interval = max(SHORTEST, SHARE * (now - self._began))
        results = self._results
        changes = (results.changes, results.level, results.newer_run)
        if now - self._logged_at < interval or changes == self._logged:
            return
        self._logged_at = now
        self._logged = changes
        newer = f"; there is a newer run: {results.newer_run}" if results.newer_run else ""
        log.info(
            "%s; acting: version %s%s%s%s", self._episodes(), acting, at_level(results.level), self._swaps(), newer
        )

    def _episodes(self) -> str:
        results = self._results
        if not results.returns.count:
            return "no episode has ended yet"
        recent = [episode["return"] for episode in list(results.episodes)[-RECENT:]]
        return (
            f"{count(results.returns.count, 'episode')}, mean return {results.returns.mean:.2f}; "
            f"of the last {len(recent)}: {sum(recent) / len(recent):.2f}"
        )

    def _swaps(self) -> str:
        adopted, refused = self._results.adopted, self._results.refused
        parts = [count(adopted, "swap")] if adopted else []
        parts += [f"{refused} refused"] if refused else []
        return f" ({', '.join(parts)})" if parts else ""
