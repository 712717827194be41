"""A lock with a timeout, for locks that nobody holds for long: who holds one for longer has a bug, and it shows.

with held(lock, "the inbox"):
    ...
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Union

LOCK_S = 5.0
"""Under these locks nothing is done that takes longer than to append to a list."""


class LockTimeout(RuntimeError):
    """Somebody holds a lock for longer than anything here takes."""


@contextlib.contextmanager
def held(lock: Union[threading.Lock, threading.Condition], what: str) -> Iterator[None]:
    """Holds a lock meanwhile. Raises Stuck if it cannot be had within `LOCK_S`."""
    if not lock.acquire(timeout=LOCK_S):
        raise LockTimeout(f"{what} was held for {LOCK_S:g} s")
    try:
        yield
    finally:
        lock.release()
