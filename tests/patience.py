"""How long tests wait for something to happen: one number, which says nothing about how fast livegym is.

    until(lambda: "saved" in log.read_text(), lambda: log.read_text())

Whatever is awaited comes within seconds. A machine that is busy, or stands still for a minute, must not fail a test,
so the wait ends long after that, and only for what never comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

PATIENCE_S = 300.0
LOOK_S = 0.02
"""Between two looks."""


class Ends(Protocol):
    """What one waits with: once it has ended, nothing more can come of it."""

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""


def until(
    holds: Callable[[], object],
    what: Callable[[], str] = lambda: "",
    process: Ends | None = None,
    pause: Callable[[], object] = lambda: time.sleep(LOOK_S),
) -> None:
    """Waits for a condition; fails with `what()` after `PATIENCE_S`, or when the process has ended without it.

    `pause` is what is done between two looks.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        ended = process is not None and process.poll() is not None
        if time.monotonic() > deadline or (ended and not holds()):
            raise AssertionError(f"{'the process ended' if ended else f'not within {PATIENCE_S:g} s'}: {what()}")
        pause()
