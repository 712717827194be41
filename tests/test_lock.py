"""One writer a run, whatever becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from livegym.rundir.lock import LockHolder, RunLock, boot_id, lock_holder
from livegym.utils.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
WHEN = datetime(2025, 8, 1, 9, 59, 43)


def python(code: str, *arguments: object, **options) -> subprocess.Popen:
    """A process that can import the product."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)


HOLD = (
    "import sys, time; from pathlib import Path; from livegym.rundir.lock import RunLock\n"
    "lock = RunLock(Path(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(60)"
)


def test_a_held_lock_is_refused_naming_the_holder_and_free_after_sigkill(tmp_path):
    assert lock_holder(tmp_path) is None
    child = python(HOLD, tmp_path)
    assert child.stdout.readline() == "held\n"
    holder = lock_holder(tmp_path)
    assert holder is not None
    assert (holder.pid, holder.boot_id, holder.here) == (child.pid, boot_id(), True)
    with pytest.raises(UserError, match=f"is being written by process {child.pid} on .* since 20"):
        RunLock(tmp_path).acquire()
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert lock_holder(tmp_path) is None
    with RunLock(tmp_path) as lock:
        assert lock.held
        assert lock_holder(tmp_path).pid == os.getpid()
        with pytest.raises(UserError, match="is being written"):
            RunLock(tmp_path).acquire()
    assert lock_holder(tmp_path) is None


def test_a_lock_file_from_another_host_is_held_by_nobody(tmp_path):
    (tmp_path / "run.lock").write_text('{"pid": 1, "host": "server", "boot_id": "x", "started": 1.0}')
    before = (tmp_path / "run.lock").stat()
    assert lock_holder(tmp_path) is None
    assert (tmp_path / "run.lock").stat().st_mtime_ns == before.st_mtime_ns
    RunLock(tmp_path).acquire().release()


def test_a_forked_child_neither_keeps_nor_frees_the_lock(tmp_path):
    lock = RunLock(tmp_path).acquire()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        lock.release()
        os.read(read, 1)  # lives on until the parent is done
        os._exit(0)
    os.close(read)
    try:
        assert lock_holder(tmp_path).pid == os.getpid()
        lock.release()
        assert lock_holder(tmp_path) is None
    finally:
        os.close(write)
        os.waitpid(child, 0)


def test_looking_never_makes_an_acquire_fail(tmp_path):
    RunLock(tmp_path).acquire().release()
    look = (
        "import sys; from pathlib import Path; from livegym.rundir.lock import lock_holder\n"
        "print('go', flush=True)\n"
        "while True: lock_holder(Path(sys.argv[1]))"
    )
    child = python(look, tmp_path)
    child.stdout.readline()
    for _ in range(100):
        RunLock(tmp_path).acquire().release()
    child.kill()
    child.wait()


def test_a_garbled_holder_is_still_a_holder(tmp_path):
    with RunLock(tmp_path):
        (tmp_path / "run.lock").write_text('["what"]')
        assert lock_holder(tmp_path) == LockHolder()
        assert "process (unknown) on an unknown host" in str(lock_holder(tmp_path))
