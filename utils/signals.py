"""Ctrl+C and SIGTERM: the first asks to finish, the second ends the process at once.

    with StopFlag() as stop:
        while not stop.requested:
            work()
    raise SystemExit(stop.exit_status)     # 130 after SIGINT, 143 after SIGTERM

A handler only sets a flag, so whatever is being written is finished. The second signal leaves by `os._exit`: files
are only ever replaced by renaming, so nothing is harmed by that.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopFlag:
    """Whether, when and by which signal the user asked to stop."""

    def __init__(self) -> None:
        self.signum = 0
        self._asked_at = 0.0
        self._event = threading.Event()
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """True from the first signal (or `request`) on."""
        return self._event.is_set()

    @property
    def exit_status(self) -> int:
        """128 + signal, as shells have it; 0 where nothing was asked."""
        return 128 + self.signum if self.signum else 0

    def seconds_since(self) -> float:
        """Seconds since the stop was asked for; 0 before."""
        return time.monotonic() - self._asked_at if self.requested else 0.0

    def request(self, signum: int = 0) -> None:
        """Asks to stop, as a signal does."""
        self.signum = signum
        self._asked_at = time.monotonic()
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Sleeps up to `seconds`, less where a stop is asked for; True where it was."""
        return self._event.wait(seconds)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self.requested:
            sys.stderr.write("\x1b[?25h\nsecond signal: ending at once\n")  # a live display had hidden the cursor
            sys.stderr.flush()
            os._exit(128 + signum)
        self.request(signum)

    def __enter__(self) -> StopFlag:
        for signum in SIGNALS:
            self._previous[signum] = signal.signal(signum, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
