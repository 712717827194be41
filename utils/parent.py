"""A process that only makes sense beside another: it ends when that one does, however that ended."""

from __future__ import annotations

import os
import threading
import time

from livegym.utils.signals import StopFlag

PARENT = "LIVEGYM_COMPANION_OF"
"""Environment variable with the process id of the one that it stands beside."""
LOOK = 0.5  # s between looks


def end_with_parent(stop: StopFlag, patience: float | None = None) -> None:
    """Asks this process to stop once its parent is gone, if it was started with one.

    `patience`: s after which one that has not stopped by then ends at once; None: however long it takes.
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
