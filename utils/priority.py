"""Lower the priority of a process that must not slow down others, such as a test beside a training run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LEAST = 19  # the highest niceness
LOWER = 5  # niceness: on a busy core a third of the processor time of a process with normal priority


def make_idle(pid: int | None = None) -> bool:
    """Give a process only processor time that no other process wants; `pid` None: this one. Returns whether it worked.

    On Linux all its threads get the policy SCHED_IDLE, and threads that they start inherit it. Elsewhere, the process
    gets the highest niceness. It cannot be undone without privileges.
    """
    whole = os.getpid() if pid is None else pid
    done = False
    for thread in _threads(whole):
        with contextlib.suppress(OSError):  # the thread has ended, or this is not permitted
            os.setpriority(os.PRIO_PROCESS, thread, LEAST)
            done = True
            if hasattr(os, "SCHED_IDLE"):
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    return done


def make_lower(pid: int | None = None) -> bool:
    """Give a process less processor time than others while they are busy; `pid` None: this one.

    Returns whether it worked. It cannot be undone without privileges.
    """
    done = False
    for thread in _threads(os.getpid() if pid is None else pid):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(LOWER, os.getpriority(os.PRIO_PROCESS, thread)))
            done = True
    return done


def _threads(pid: int) -> list[int]:
    """The threads of a process; on systems other than Linux, the process itself stands for them."""
    try:
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return [pid]
