"""Work in the background that must not end the whole, nor end unseen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

EVERY = 60.0  # s


def attempt(what: str, work: Callable[[], object]) -> bool:
    """Does `work`; whatever it raises is a bug, which is logged whole. Whether it went well."""
    try:
        work()
    except Exception:  # the last resort of a thread: it would die without anybody being told
        log.exception("%s failed", what)
        return False
    return True


class Attempts:
    """Work that is done again and again: what fails each time is logged now and then, with how often it was."""

    def __init__(self, what: str, every: float = EVERY) -> None:
        """`every`: s from one line in the log to the next."""
        self.what, self.every = what, every
        self.failures = 0
        self._untold, self._told_at = 0, -every

    def __call__(self, work: Callable[[], object]) -> bool:
        """Does `work`; whether it went well."""
        now = time.monotonic()
        quiet = self._told_at + self.every > now
        try:
            work()
        except Exception as error:  # as above
            self.failures += 1
            self._untold += 1
            if quiet:
                log.debug("%s failed: %s", self.what, error)
                return False
            log.exception("%s failed%s", self.what, f" {self._untold} times" if self._untold > 1 else "")
            self._untold, self._told_at = 0, now
            return False
        return True
