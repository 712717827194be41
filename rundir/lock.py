"""One writer per run: a lock that also tells whether a run is live on this machine.

    with RunLock(run):          # raises a UserError that names the holder if the lock is held
        train()

    lock_holder(run)            # in any process: LockHolder(pid=4711, ...), or None if the lock is free

The lock is `flock` on `<run>/run.lock`. The kernel releases it however the process dies, so a killed run never looks
live, and a copy of the file made by rsync is not locked. The JSON inside only describes the holder.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from livegym.utils.errors import UserError
from livegym.utils.files import read_first_line, read_json_dict, warn_once

try:
    import fcntl
except ImportError:  # Windows: viewers work there, but nothing protects a training run
    fcntl = None  # type: ignore[assignment]

LOCK_NAME = "run.lock"
log = logging.getLogger(__name__)

PATIENCE_S = 1.0  # longer than `lock_holder` keeps its shared lock, even in a process of idle priority

_live: weakref.WeakSet[RunLock] = weakref.WeakSet()


@dataclass(frozen=True)
class LockHolder:
    """The process that holds a run's lock. `started` is in seconds since 1970; unknown values are 0 or empty."""

    pid: int = 0
    host: str = ""
    boot_id: str = ""
    started: float = 0.0

    @property
    def here(self) -> bool:
        """True if the holder runs on this machine (a lock on a network disk may be held elsewhere)."""
        return self.boot_id == boot_id()

    def __str__(self) -> str:
        since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(self.started)) if self.started else ""
        return f"process {self.pid or '(unknown)'} on {self.host or 'an unknown host'}{since}"


def boot_id() -> str:
    """The id of this machine's current boot; the host name if the system has no such id."""
    return read_first_line(Path("/proc/sys/kernel/random/boot_id")) or socket.gethostname()


class RunLock:
    """The lock of one run directory; held from `acquire` to `release` or to the end of the process.

    A forked child does not inherit it: the child's copy of the file is closed, so the lock ends with its holder.
    """

    def __init__(self, run: os.PathLike[str]) -> None:
        self.path = Path(run) / LOCK_NAME
        self._fd: int | None = None
        self._owner = 0  # the process that acquired it

    @property
    def held(self) -> bool:
        """True while this object holds the lock."""
        return self._fd is not None

    def acquire(self) -> RunLock:
        """Takes the lock; returns itself.

        Raises:
            UserError: another process holds it (the message has its pid, host and start time), or the lock file
                cannot be opened.
        """
        if self.held:
            return self
        deadline = time.monotonic() + PATIENCE_S
        while (fd := self._try()) is None:
            if time.monotonic() > deadline:
                raise UserError(self._refusal())
            time.sleep(0.01)
        self._fd, self._owner = fd, os.getpid()
        self._write_holder(fd)
        _live.add(self)
        return self

    def _try(self) -> int | None:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"{self.path}: the run cannot be locked ({error.strerror or error})") from error
        if _flock(fd, exclusive=True) and _is_file(fd, self.path):
            return fd
        os.close(fd)
        return None

    def _refusal(self) -> str:
        holder = lock_holder(self.path.parent) or "another process"
        run = self.path.parent
        return f"{run}: is being written by {holder}. Stop that process first, or start a new run without resume=true"

    def _write_holder(self, fd: int) -> None:
        holder = LockHolder(os.getpid(), socket.gethostname(), boot_id(), time.time())
        os.ftruncate(fd, 0)
        try:
            os.write(fd, json.dumps(asdict(holder)).encode() + b"\n")
        except OSError as error:  # a full disk: the lock is held all the same, but the file does not name its holder
            log.warning("%s: the lock's holder could not be recorded (%s)", self.path, error.strerror or error)

    def release(self) -> None:
        """Releases the lock if it is held. The file stays: if it were removed, two processes could lock two files."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        if fcntl is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):  # a child forked a moment ago may still have its copy open
                fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

    def __enter__(self) -> RunLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _flock(fd: int, exclusive: bool) -> bool:
    if fcntl is None:
        warn_once("this system has no flock: nothing stops a second process from writing to the same run")
        return True
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a network disk without locks
        warn_once(f"files here cannot be locked ({error.strerror or error}): do not let two processes write to one run")
    return True


def _is_file(fd: int, path: Path) -> bool:
    """False if `path` was replaced (by a sync tool) since it was opened: a lock on the old file protects nothing."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def lock_holder(run: os.PathLike[str]) -> LockHolder | None:
    """The process that holds the lock of the run directory `run` now; None if it is free.

    This modifies nothing. It tries a shared lock, which never makes another `lock_holder` fail, and a writer that
    calls `acquire` meanwhile retries.
    """
    path = Path(run) / LOCK_NAME
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _flock(fd, exclusive=False) else _read_holder(fd)
    finally:
        os.close(fd)


def written_here(run: os.PathLike[str]) -> bool:
    """Whether the last process that wrote to the run directory ran on this machine, or one is writing to it now.

    False in a copy: it has no lock file, or that of another machine.
    """
    host = read_json_dict(Path(run) / LOCK_NAME).get("host")
    return host == socket.gethostname() or lock_holder(run) is not None


def _read_holder(fd: int) -> LockHolder:
    for _ in range(10):  # the holder may be between taking the lock and writing its name
        try:
            os.lseek(fd, 0, os.SEEK_SET)
            return _parse_holder(json.loads(os.read(fd, 4096)))
        except (ValueError, OSError):
            time.sleep(0.01)
    return LockHolder()


def _parse_holder(content: Any) -> LockHolder:
    def known(name: str, kind: type, default: Any) -> Any:
        value = content.get(name) if isinstance(content, dict) else None
        return value if isinstance(value, kind) else default

    return LockHolder(
        known("pid", int, 0), known("host", str, ""), known("boot_id", str, ""), known("started", float, 0.0)
    )


def _drop_inherited() -> None:
    for lock in list(_live):
        lock.release()  # closes this process's copy only; the parent still holds the lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited)
