"""Ctrl+C and other signals: the first one requests a stop, the second one ends the process immediately.

    with StopFlag() as stop:
        while not stop.requested:
            work()
    raise SystemExit(stop.exit_status)     # 130 after SIGINT, 143 after SIGTERM

A handler only sets a flag, so a file that is being written is finished. The second signal calls `os._exit`. That harms
no file, because files are only ever replaced by renaming. A scheduler's notice (SIGUSR1, SIGUSR2) requests a stop too,
but may come several times.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl+C, `kill`, and the loss of a terminal or an ssh session (unless nohup ignores that)."""
ENDING = (signal.SIGTERM, signal.SIGHUP)
NOTICES = (signal.SIGUSR1, signal.SIGUSR2) if hasattr(signal, "SIGUSR1") else ()
"""The signals that a scheduler sends a while before it ends a job: SLURM's `--signal=USR1@120`, submitit's SIGUSR2."""
TICK = 0.05  # s until a wait notices a signal, at most


def end_on_interrupt() -> None:
    """Makes Ctrl+C end the process immediately, with status 130, while the program has not begun any work.

    The interpreter's own handler raises KeyboardInterrupt wherever the code is. If it is just releasing a module lock,
    the import system swallows the exception ("Exception ignored in ..."), and the program would continue.
    """
    signal.signal(signal.SIGINT, _end)


def _end(signum: int, frame: FrameType | None) -> None:
    os.write(2, b"\ninterrupted\n")
    os._exit(128 + signum)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Inside it, SIGTERM and SIGHUP raise SystemExit once, so that `with` blocks of other code end as they should.

    Signals that are handled or ignored already stay so, and so do all outside the main thread.
    """
    mine = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        mine = []
    for number in mine:
        signal.signal(number, _unwind)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number in mine:
                signal.signal(number, signal.SIG_DFL)


def _unwind(signum: int, frame: FrameType | None) -> None:
    signal.signal(signum, signal.SIG_DFL)
    raise SystemExit(128 + signum)


class StopFlag:
    """Records whether, when and by which signal the user requested a stop; `requested` is True from then on."""

    def __init__(self) -> None:
        self.signum = 0
        self._asked_at = 0.0
        self.requested = False  # a plain flag: a handler must not wait for a lock that its own thread holds
        self._passed_on = False
        self._previous: dict[int, Any] = {}
        self._blocked: set[signal.Signals] = set()

    @property
    def exit_status(self) -> int:
        """128 + signal, as in a shell; 0 if no signal requested a stop."""
        return 128 + self.signum if self.signum else 0

    def seconds_since(self) -> float:
        """Seconds since the stop was requested; 0 before."""
        return time.monotonic() - self._asked_at if self.requested else 0.0

    def request(self, signum: int = 0) -> None:
        """Requests a stop, as a signal does."""
        self.signum = signum
        self._asked_at = time.monotonic()
        self.requested = True

    def pass_on(self, signum: int) -> None:
        """Requests a stop for a signal that another process got. This one may get it too: that is not a second one."""
        if not self.requested:
            self._passed_on = True
            self.request(signum)

    def wait(self, seconds: float) -> bool:
        """Sleeps for `seconds`, or until a stop is requested; returns True if one was requested."""
        end = time.monotonic() + seconds
        while not self.requested and (left := end - time.monotonic()) > 0:
            time.sleep(min(TICK, left))
        return self.requested

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self.requested and (self._passed_on or signum in NOTICES):
            self._passed_on = False
            return
        if self.requested:
            os.write(
                2, b"\x1b[?25h\nsecond signal: ending immediately\n"
            )  # shows the cursor, which a live display hides
            os._exit(128 + signum)
        self.request(signum)

    def __enter__(self) -> StopFlag:
        for signum in (*SIGNALS, *NOTICES):
            if _nohup(signum):
                continue  # nohup: the run survives its terminal. SIGINT is caught even if ignored (background jobs)
            self._previous[signum] = signal.signal(signum, self._on_signal)
        self._blocked = _unblock(self._previous)  # a signal that was held back for this flag comes now
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._blocked:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)
        for signum, handler in self._previous.items():
            lost = signum in self._blocked and handler in (signal.SIG_DFL, signal.default_int_handler)
            signal.signal(signum, _between_jobs if lost else handler)


def _between_jobs(signum: int, frame: FrameType | None) -> None:
    """Does nothing: libraries' threads do not block signals, and the worker of a sweep must live for its next job."""


def _nohup(signum: int) -> bool:
    return signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN


def hold_back() -> set[signal.Signals]:
    """Blocks the signals that request a stop, in this thread and in what it starts from now on; returns those.

    A process that is started meanwhile keeps such a signal until it has a `StopFlag`: it cannot end half-way through
    its imports. Nothing is blocked if the system has no signal masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    held = {number for number in (*SIGNALS, *NOTICES) if not _nohup(number)}  # ignored ones would come all the same
    return held - signal.pthread_sigmask(signal.SIG_BLOCK, held)


def let_through(held: Iterable[signal.Signals]) -> None:
    """Ends `hold_back`."""
    _unblock(held)


def _unblock(signals: Iterable[int]) -> set[signal.Signals]:
    """Unblock these signals; returns those that were blocked."""
    if not hasattr(signal, "pthread_sigmask"):
        return set()
    wanted = {signal.Signals(number) for number in signals}
    return wanted & {signal.Signals(number) for number in signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)}
