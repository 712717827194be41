"""Acquires a lock with a timeout. No thread should hold such a lock for long, so a timeout reveals a bug.

with held(lock, "the inbox"):
    ...
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Union

LOCK_S = 5.0
"""The timeout. Work under these locks takes no longer than appending to a list."""


class LockTimeout(RuntimeError):
    """Another thread held a lock for longer than any work here takes."""


@contextlib.contextmanager
def locked(lock: Union[threading.Lock, threading.Condition], what: str) -> Iterator[None]:
    """Holds `lock` inside the `with` block. Raises LockTimeout if it cannot be acquired within `LOCK_S`."""
    if not lock.acquire(timeout=LOCK_S):
        raise LockTimeout(f"{what} was still locked after {LOCK_S:g} s")
    try:
        yield
    finally:
        lock.release()
