"""Ctrl+C, SIGTERM and SIGHUP: the first asks to finish, the second ends the process at once.

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
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl+C, `kill`, and a terminal or an ssh session that is gone (unless nohup has it ignored)."""
TICK = 0.05  # s, how late a wait notices a signal


def end_on_interrupt() -> None:
    """Ctrl+C ends the process at once, with status 130: for the time in which nothing has been begun.

    The interpreter's own handler raises KeyboardInterrupt wherever it is, and the import system swallows one that comes
    while it drops a module lock ("Exception ignored in ..."): the program would then go on.
    """
    signal.signal(signal.SIGINT, _end)


def _end(signum: int, frame: FrameType | None) -> None:
    os.write(2, b"\ninterrupted\n")
    os._exit(128 + signum)


class StopFlag:
    """Whether, when and by which signal the user asked to stop; `requested` is True from then on."""

    def __init__(self) -> None:
        self.signum = 0
        self._asked_at = 0.0
        self.requested = False  # a plain flag: a handler must not wait for a lock that its own thread holds
        self._previous: dict[int, Any] = {}

    @property
    def exit_status(self) -> int:
        """128 + signal, as shells have it; 0 if nothing was asked."""
        return 128 + self.signum if self.signum else 0

    def seconds_since(self) -> float:
        """Seconds since the stop was asked for; 0 before."""
        return time.monotonic() - self._asked_at if self.requested else 0.0

    def request(self, signum: int = 0) -> None:
        """Asks to stop, as a signal does."""
        self.signum = signum
        self._asked_at = time.monotonic()
        self.requested = True

    def wait(self, seconds: float) -> bool:
        """Sleeps up to `seconds`, less if a stop is asked for; True if it was."""
        end = time.monotonic() + seconds
        while not self.requested and (left := end - time.monotonic()) > 0:
            time.sleep(min(TICK, left))
        return self.requested

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self.requested:
            os.write(2, b"\x1b[?25h\nsecond signal: ending at once\n")  # a live display had hidden the cursor
            os._exit(128 + signum)
        self.request(signum)

    def __enter__(self) -> StopFlag:
        for signum in SIGNALS:
            if signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN:
                continue  # nohup: the terminal may go. SIGINT is ignored in any script's background job, and is meant
            self._previous[signum] = signal.signal(signum, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
