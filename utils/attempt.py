"""Background work whose failure must neither end the process nor stay unnoticed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)

EVERY = 60.0  # s
Result = TypeVar("Result")


def attempt(what: str, work: Callable[[], object]) -> bool:
    """Calls `work` and returns True if it raised nothing. An exception is a bug: it is logged with its traceback."""
    try:
        work()
    except Exception:  # the last resort of a thread, which would otherwise end without a line in the log
        log.exception("%s failed", what)
        return False
    return True


class Attempts:
    """Work that is repeated: repeated failures are logged at intervals, each time with their number."""

    def __init__(self, what: str, every: float = EVERY) -> None:
        """`every`: s between two lines in the log."""
        self.what, self.every = what, every
        self.failures = 0
        self._unlogged, self._logged_at = 0, -every

    def __call__(self, work: Callable[[], object]) -> bool:
        """Calls `work` and returns True if it raised nothing."""
        now = time.monotonic()
        quiet = self._logged_at + self.every > now
        try:
            work()
        except Exception as error:  # as above
            self.failures += 1
            self._unlogged += 1
            if quiet:
                log.debug("%s failed: %s", self.what, error)
                return False
            log.exception("%s failed%s", self.what, f" {self._unlogged} times" if self._unlogged > 1 else "")
            self._unlogged, self._logged_at = 0, now
            return False
        return True

    def result(self, work: Callable[[], Result]) -> Result | None:
        """Calls `work` and returns its result, or None if it raised an exception."""
        found: list[Result] = []
        self(lambda: found.append(work()))
        return found[0] if found else None
