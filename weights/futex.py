"""Wait without polling until a counter in shared memory rises.

    risen = wait(count, value, timeout=1.0)       # reader: sleeps until `count` is above `value`
    wake(count)                                  # writer: after it has raised the count

On Linux this is the kernel's futex (Franke, Russell and Kirkwood 2002, "Fuss, Futexes and Furwocks"). It works between
processes, and the waiting process needs only read access to the memory. On other systems it polls every millisecond.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import sys
import time

import numpy as np

_NUMBERS = {"x86_64": 202, "aarch64": 98, "arm64": 98, "riscv64": 98}
_WAIT = 0
_WAKE = 1
_EVERYBODY = 2**31 - 1
PERIOD = 0.001  # s between polls if there is no futex


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _syscall_number() -> int | None:
    known = sys.platform == "linux" and sys.byteorder == "little" and ctypes.sizeof(ctypes.c_long) == 8
    return _NUMBERS.get(platform.machine()) if known else None


_NUMBER = _syscall_number()
_LIBC = ctypes.CDLL(None, use_errno=True) if _NUMBER is not None else None


def wait(word: np.ndarray, value: int, timeout: float) -> bool:
    """Wait until `word` (one uint64 in shared memory) is above `value`, at most `timeout` s. Returns whether it is.

    It may return False before the timeout.
    """
    now = int(word[0])
    if now > value:
        return True
    if _LIBC is None:
        deadline = time.monotonic() + timeout
        while int(word[0]) <= value and time.monotonic() < deadline:
            time.sleep(min(PERIOD, timeout))
        return int(word[0]) > value
    limit = _Timespec(int(timeout), int(timeout % 1 * 1e9))
    low = ctypes.c_uint32(now & 0xFFFFFFFF)  # a futex has 32 bits: the lower half of the counter
    failed = _LIBC.syscall(_NUMBER, ctypes.c_void_p(word.ctypes.data), _WAIT, low, ctypes.byref(limit), None, 0)
    if failed and ctypes.get_errno() == errno.ENOSYS:  # a sandbox without the system call
        time.sleep(min(PERIOD, timeout))
    return int(word[0]) > value


def wake(word: np.ndarray) -> None:
    """Wake all processes that wait for `word`."""
    if _LIBC is not None:
        _LIBC.syscall(_NUMBER, ctypes.c_void_p(word.ctypes.data), _WAKE, _EVERYBODY, None, None, 0)
