"""Ends a child process when its parent ends, however the parent ended."""

from __future__ import annotations

import os
import threading
import time

from livegym.utils.signals import StopFlag

PARENT = "LIVEGYM_COMPANION_OF"
"""Environment variable with the process id of the parent."""
LOOK = 0.5  # s between two polls


def end_with_parent(stop: StopFlag, patience: float | None = None) -> None:
    """Requests a stop of this process once its parent is gone, if it was started as a child.

    `patience`: s after which the process ends immediately if it has not stopped by then; None if it may take any time.
    """
    if PARENT in os.environ:
        parent = int(os.environ.pop(PARENT))
        threading.Thread(target=_watch, args=(parent, stop, patience), name="parent-watch", daemon=True).start()


def _watch(parent: int, stop: StopFlag, patience: float | None) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    stop.request()
    if patience is not None:
        time.sleep(patience)
        os._exit(1)
