"""Ctrl+C and other signals in a sweep whose jobs run in other processes, perhaps on other machines.

    with PassOn(lambda: NoteSweep.directory, "joblib") as signals:    # in the command's process, around the launcher
        ...
    signals.exit_status                                               # 130 after Ctrl+C

    with stops_with_sweep(stop):                                      # in the job, around its work
        ...

A terminal sends Ctrl+C to every process of the command, `kill` sends a signal to one of them, and launchers have ideas
of their own: a worker of joblib that dies takes the others with it, and submitit's local controller kills its job one
second after a Ctrl+C. So these signals are blocked in the command and, because that is inherited, in every process that
a launcher starts, until a job has a `StopFlag`. The command waits for them, notes the first one in the sweep's
directory, and still waits for its jobs. Each job looks at that note: it saves and stops, or does not begin at all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from livegym.cfg.parallel import BASIC, LOCAL_LAUNCHERS
from livegym.rundir.sweep import note_stop, stop_noted
from livegym.utils.pipes import say
from livegym.utils.signals import ENDING, NOTICES, StopFlag, hold_back, let_through

LOOK = 0.5  # s between two looks at the note and at the command
LOST = signal.SIGHUP
"""The line that a job logs if its command was killed."""


class PassOn:
    """While it is entered, in the process of a sweep's command, the first signal is passed on to the jobs.

    The second one ends the process immediately, and so does the first if no job has been started. It does nothing for
    Hydra's own launcher, whose jobs get the signals themselves. If the jobs run on a cluster, they outlive the
    terminal: then only Ctrl+C and a scheduler's notice are passed on, and other signals end the command alone.
    """

    def __init__(self, directory: Callable[[], Path | None], launcher: str) -> None:
        """`directory`: that of the sweep, once there is one."""
        self.signum = 0
        self._directory = directory
        self._launcher = launcher
        self._alone = () if launcher in LOCAL_LAUNCHERS else ENDING
        self._held: set[signal.Signals] = set()

    @property
    def exit_status(self) -> int:
        """128 + signal; 0 if none was passed on."""
        return 128 + self.signum if self.signum else 0

    def __enter__(self) -> PassOn:
        if self._launcher != BASIC:
            self._held = hold_back()
        if self._held:
            self._end, end = socket.socketpair()
            self._end.setblocking(False)
            self._previous = {number: signal.signal(number, _do_nothing) for number in self._held}
            signal.set_wakeup_fd(self._end.fileno())  # whichever thread gets a signal, its number is written there
            self._thread = threading.Thread(target=self._listen, args=(end,), name="sweep-signals", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._held:
            return
        signal.set_wakeup_fd(-1)
        self._end.close()
        self._thread.join()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        let_through(self._held)

    def _listen(self, end: socket.socket) -> None:
        let_through(self._held)  # this thread starts no processes
        with end:
            while received := end.recv(1):
                if not self.signum or received[0] not in NOTICES:
                    self._receive(received[0])

    def _receive(self, signum: int) -> None:
        directory = self._directory()
        if self.signum or directory is None or signum in self._alone:
            say("interrupted" if not self.signum else "second signal: not waiting for the jobs")
            os._exit(128 + signum)
        self.signum = signum
        try:
            note_stop(directory, signum)
        except OSError as error:
            say(f"error: {directory} cannot be written ({error}), so the jobs are not told to stop")
            os._exit(128 + signum)
        say("interrupted: the jobs save and stop. A second signal ends the command without waiting for them.")


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """A handler, so that the signal's number is written."""


@dataclass(frozen=True)
class Sweep:
    """The note that a job in another process reads while it runs."""

    directory: Path
    command: int | None  # process id of the command, if the job is to stop when that ends

    @property
    def signum(self) -> int:
        """The signal for which the jobs stop; 0 if there is none."""
        return stop_noted(self.directory) or (LOST if self.is_lost else 0)

    @property
    def is_lost(self) -> bool:
        """Whether the command was killed, so that nothing waits for this job."""
        return self.command is not None and not _alive(self.command)


_running: list[Sweep] = []  # of the job that this process runs


@contextlib.contextmanager
def watched(sweep: Sweep) -> Iterator[None]:
    """Makes `sweep` the one at which the job looks that runs inside the block."""
    _running.append(sweep)
    try:
        yield
    finally:
        _running.clear()


@contextlib.contextmanager
def stops_with_sweep(stop: StopFlag) -> Iterator[None]:
    """Requests a stop of this job if its sweep stops, or if the command is gone. Does nothing for another command."""
    if not _running:
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(_running[0], stop, over), name="sweep-watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(sweep: Sweep, stop: StopFlag, over: threading.Event) -> None:
    while not over.wait(LOOK):
        if signum := sweep.signum:
            stop.pass_on(signum)
            return


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the number is that of another user's process by now
        return False
    return True
