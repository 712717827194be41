"""Lowers the priority of a process that must not slow down others, such as a test beside a training run.

Linux desktops and servers often schedule sessions (terminals) as groups ("autogroup", see `man 7 sched`). Between two
terminals a niceness then has no effect, and what counts is that of the group, which is set as well.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LEAST = 19  # the highest niceness
LOWER = 5  # niceness: on a busy core a third of the processor time of a process with normal priority
TRIES = 5  # to change the niceness of a group


def make_idle(pid: int | None = None, beside: int = 0) -> bool:
    """Give a process only processor time that no other process wants; `pid` None: this one. Returns whether it worked.

    On Linux all its threads get the policy SCHED_IDLE, and threads that they start inherit it. Elsewhere, the process
    gets the highest niceness. It cannot be undone without privileges. `beside`: see `lower_group`.
    """
    return _lower(os.getpid() if pid is None else pid, LEAST, beside)


def make_lower(pid: int | None = None, beside: int = 0) -> bool:
    """Give a process less processor time than others while they are busy; `pid` None: this one.

    Returns whether it worked. It cannot be undone without privileges. `beside`: see `lower_group`.
    """
    return _lower(os.getpid() if pid is None else pid, LOWER, beside)


def _lower(pid: int, nice: int, beside: int) -> bool:
    done = False
    for thread in _threads(pid):
        with contextlib.suppress(OSError):  # the thread has ended, or this is not permitted
            os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))
            done = True
            if nice == LEAST and hasattr(os, "SCHED_IDLE"):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    lower_group(pid, nice, beside)
    return done


def run_at_low_priority(work: Callable[[], None]) -> None:
    """Call `work` at a lower priority, as `make_lower` does; the rest of the process stays as it is.

    On Linux a thread has a niceness of its own, so `work` runs in a thread. The scheduling group of the process's
    session is lowered until `work` has ended. Elsewhere `work` is called as usual. Exceptions propagate.
    """
    if not sys.platform.startswith("linux"):
        work()
        return
    before = lower_group(os.getpid(), LOWER)
    try:
        nice = max(LOWER, os.getpriority(os.PRIO_PROCESS, 0))
        with ThreadPoolExecutor(1, "low-priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, nice)) as thread:
            thread.submit(work).result()
    finally:
        if before is not None:
            _restore(Path(f"/proc/{os.getpid()}/autogroup"), before)


def lower_group(pid: int, nice: int, beside: int = 0) -> str | None:
    """Lower the scheduling group of a process's session, if the system has such groups, until this process ends.

    Returns the niceness of the group before; None if it stays as it is. `beside`: a process that must be faster. If it
    belongs to the same session, the group stays as it is, because niceness counts within it.
    """
    group = Path(f"/proc/{pid}/autogroup")
    try:
        if beside and os.getsid(beside) == os.getsid(pid):
            return None
        found = re.search(r"nice (-?\d+)", group.read_text())
        if found is None or int(found[1]) >= nice:
            return None
        _set(group, str(nice))
    except OSError:  # no such groups here, a process has ended, or this is not permitted
        return None
    if pid == os.getpid():  # the terminal must not stay slow
        atexit.register(_restore, group, found[1])
    return found[1]


def _restore(group: Path, nice: str) -> None:
    with contextlib.suppress(OSError):
        _set(group, nice)


def _set(group: Path, nice: str) -> None:
    """Write a group's niceness. Raises OSError."""
    for _ in range(TRIES):
        with contextlib.suppress(BlockingIOError):  # the kernel allows ten changes a second, of all groups together
            group.write_text(nice)
            return
        time.sleep(0.1)
    raise BlockingIOError(f"{group}: the system is busy with such changes")


def _threads(pid: int) -> list[int]:
    """The threads of a process; on systems other than Linux, the process itself stands for them."""
    try:
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return [pid]
